//! Finds the object of a path for MNT: its export, whether the client may use it, and the path below.

use super::Mount;
use super::path::{components, normalise};
use super::refusal::{RefusalReason, RefusedMount};
use crate::object::{Caller, Object};
use crate::verbs;
use export::{FlavorList, Handle, NotServed};
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

/// Finds the object of `path` for this caller; calls `on_refused` if it may not be mounted.
pub(super) fn find(
    state: &Mount,
    call: &mut Call<'_>,
    path: &[u8],
) -> Result<MountPoint, MountError> {
    find_in_export(state, call, path).map_err(|reason| {
        if let Some(on_refused) = &state.on_refused {
            on_refused(&RefusedMount { client: call.peer.addr, path, reason });
        }
        reason.error()
    })
}

/// The client is checked before the path below the export is looked up, so that a client without
/// access does not learn which paths exist. The look-ups are made with the server's own credentials:
/// that a client may mount a directory does not depend on its user, whose permissions each call
/// checks.
fn find_in_export(
    state: &Mount,
    call: &mut Call<'_>,
    path: &[u8],
) -> Result<MountPoint, RefusalReason> {
    let path = normalise(path).ok_or(RefusalReason::NoPath)?;
    let caller = Caller::new(&state.exports, call);
    let (export, below) = caller.table().by_path(&path).map_err(|why| match why {
        NotServed::NoExport => RefusalReason::NoExport,
        NotServed::Waiting => RefusalReason::NotServed,
    })?;
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
