//! From a path to an object: which export, may the client, which object below it.

use super::Mount;
use super::path::{components, normalise};
use super::refusal::{RefusalReason, RefusedMount};
use crate::object::{Caller, Object};
use crate::verbs;
use export::{FlavorList, Handle};
use proto::mount::MountError;
use rpc::Call;
use vfs::{FileType, Status};

/// An object that a client may mount.
pub(super) struct MountPoint {
    /// Its filehandle.
    pub handle: Handle,
    /// The path in normal form.
    pub path: Vec<u8>,
    /// The security flavours that its export accepts from the client.
    pub flavors: FlavorList,
}

/// Finds what `path` names, for this caller; the operator hears of what is refused.
pub(super) fn find(
    state: &Mount,
    call: &mut Call<'_>,
    path: &[u8],
) -> Result<MountPoint, MountError> {
    look(state, call, path).map_err(|why| {
        if let Some(tell) = &state.on_refused {
            tell(&RefusedMount { client: call.peer.addr, path, why });
        }
        why.error()
    })
}

/// The client is checked before the tree is looked at, so that a stranger learns nothing of what
/// is in it. The walk itself is the server's, as with other servers: that a client may mount a
/// directory does not depend on who its user is; what the user may do there, each call decides.
fn look(state: &Mount, call: &mut Call<'_>, path: &[u8]) -> Result<MountPoint, RefusalReason> {
    let path = normalise(path).ok_or(RefusalReason::NoPath)?;
    let caller = Caller::new(&state.exports, call);
    let (export, below) = caller.table().by_path(&path).ok_or(RefusalReason::NoExport)?;
    let root = caller.open_root(export).map_err(RefusalReason::Client)?;
    let object = walk(root, below).map_err(RefusalReason::Tree)?;
    Ok(MountPoint { handle: object.seal(&object.fid), path, flavors: object.flavors() })
}

/// The object at the end of `below`: a directory or an ordinary file.
fn walk<'t>(root: Object<'t>, below: &[u8]) -> vfs::Result<Object<'t>> {
    let mut ftype = verbs::getattr(&root)?.ftype;
    let mut object = root;
    for name in components(below) {
        if ftype != FileType::Directory {
            return Err(Status::NotDir);
        }
        let node = verbs::lookup(&object, name)?.node;
        (object.fid, ftype) = (node.fid, node.attr.ftype);
    }
    match ftype {
        FileType::Directory | FileType::Regular => Ok(object),
        FileType::Symlink
        | FileType::Block
        | FileType::Char
        | FileType::Fifo
        | FileType::Socket => Err(Status::NotDir),
    }
}
