//! READDIR and READDIRPLUS (RFC 1813 §3.3.16, §3.3.17).

use super::{Answer, Door, Intent};
use crate::Nfs;
use export::Handle;
use rpc::Call;
use std::ops::ControlFlow;
use vfs::{Attr, ListArgs, Listing};

/// One entry of a directory.
pub struct Entry<'a> {
    /// The name.
    pub name: &'a [u8],
    /// Inode number.
    pub fileid: u64,
    /// Where to go on after this entry.
    pub cookie: u64,
    /// The object's wire handle and attributes, if asked for and to be had.
    pub object: Option<(Handle, Attr)>,
}

/// Lists a directory until the sink breaks or the end is reached; with `nodes`, entries carry handles
/// and attributes. An entry at which the sink breaks counts as not listed.
///
/// # Errors
/// [`super::Failed`]; [`vfs::Status::BadCookie`].
pub fn readdir(
    nfs: &Nfs,
    call: &mut Call<'_>,
    dir: &[u8],
    args: ListArgs,
    sink: &mut dyn FnMut(&Entry<'_>) -> ControlFlow<()>,
) -> Answer<Listing> {
    let mut door = Door::new(nfs, call);
    let at = door.open(dir, Intent::Look)?;
    at.run(|backend| {
        backend.readdir(&at.cx, &at.fid, args, &mut |found| {
            sink(&Entry {
                name: found.name,
                fileid: found.fileid,
                cookie: found.cookie,
                object: found.node.map(|node| (at.seal(&node.fid), node.attr)),
            })
        })
    })
}
