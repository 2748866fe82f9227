//! LOOKUP (RFC 1813 §3.3.3).

use super::{Answer, Door, Intent};
use crate::Nfs;
use export::Handle;
use rpc::Call;
use vfs::{Attr, Component};

/// What LOOKUP found.
pub struct Seen {
    /// The object's wire handle.
    pub handle: Handle,
    /// The object's attributes.
    pub attr: Attr,
    /// The directory's attributes.
    pub dir: Attr,
}

/// Finds a name in a directory.
///
/// # Errors
/// [`super::Failed`].
pub fn lookup(nfs: &Nfs, call: &mut Call<'_>, dir: &[u8], name: &[u8]) -> Answer<Seen> {
    let mut door = Door::new(nfs, call);
    let at = door.open(dir, Intent::Look)?;
    at.run(|backend| {
        let found = backend.lookup(&at.cx, &at.fid, Component::new(name)?)?;
        let handle = at.seal(&found.node.fid);
        Ok(Seen { handle, attr: found.node.attr, dir: found.dir })
    })
}
