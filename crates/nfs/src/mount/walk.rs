//! From a path to an object: which export, may the client, which object below it.

use super::mounted::client_of;
use super::path::{components, normalise};
use export::{Export, Table};
use proto::mount::MountError;
use rpc::Call;
use vfs::{Component, Cred, Cx, Durability, Fid, FileType, Sleep, Status, Want};

/// A path that may be mounted.
pub(super) struct Target<'t> {
    /// The export that it is in.
    pub export: &'t Export,
    /// The object.
    pub fid: Fid,
    /// The path in normal form.
    pub path: Vec<u8>,
}

/// The worker's promise, as the backend wants it.
struct Worker<'a>(&'a dyn rpc::MaySleep);

impl Sleep for Worker<'_> {
    fn about_to_sleep(&self) {
        self.0.about_to_sleep();
    }
}

/// Finds what `path` names, for this caller.
///
/// The client is judged before the tree is looked at, so that a stranger learns nothing of what
/// is in it. The walk itself is the server's, as with other servers: that a client may mount a
/// directory does not depend on who its user is; what the user may do there, each call decides.
pub(super) fn find<'t>(
    table: &'t Table,
    call: &mut Call<'_>,
    path: &[u8],
) -> Result<Target<'t>, MountError> {
    let path = normalise(path).ok_or(MountError::Inval)?;
    let (export, below) = table.by_path(&path).ok_or(MountError::NoEnt)?;
    call.outcome.export = Some(export.index);
    let client = client_of(call);
    if export.needs_resolution(client) {
        // MNT comes first, so that no other call has to wait for a name service.
        call.sleep.about_to_sleep();
        export.resolve_blocking(client);
    }
    export.access_for(client, call.peer.addr.port()).ok_or(MountError::Acces)?;
    let sleep = Worker(call.sleep);
    let cred = Cred { uid: 0, gid: 0, groups: &[] };
    let cx = Cx { cred, sleep: &sleep, durability: Durability::Sync };
    let fid = walk(export, &cx, below).map_err(mount_error)?;
    Ok(Target { export, fid, path })
}

/// The object at the end of `below`: a directory or an ordinary file.
fn walk(export: &Export, cx: &Cx<'_>, below: &[u8]) -> Result<Fid, Status> {
    let backend = &export.backend;
    let mut fid = backend.root();
    let mut ftype = backend.getattr(cx, &fid, Want::STAT)?.ftype;
    for name in components(below) {
        if ftype != FileType::Directory {
            return Err(Status::NotDir);
        }
        let found = backend.lookup(cx, &fid, Component::new(name)?)?;
        (fid, ftype) = (found.node.fid, found.node.attr.ftype);
    }
    match ftype {
        FileType::Directory | FileType::Regular => Ok(fid),
        FileType::Symlink
        | FileType::Block
        | FileType::Char
        | FileType::Fifo
        | FileType::Socket => Err(Status::NotDir),
    }
}

/// The status of MOUNT for what the backend says (RFC 1813 §5.1.5).
const fn mount_error(status: Status) -> MountError {
    match status {
        Status::Perm => MountError::Perm,
        Status::NoEnt | Status::Stale | Status::BadHandle => MountError::NoEnt,
        Status::Acces | Status::XDev | Status::RoFs => MountError::Acces,
        Status::NotDir | Status::Symlink | Status::WrongType | Status::IsDir => MountError::NotDir,
        Status::NameTooLong => MountError::NameTooLong,
        Status::Inval | Status::BadCookie | Status::NotSync => MountError::Inval,
        Status::NotSupp | Status::BadType => MountError::NotSupp,
        Status::Io
        | Status::NxIo
        | Status::NoDev
        | Status::Exist
        | Status::FBig
        | Status::NoSpc
        | Status::MLink
        | Status::NotEmpty
        | Status::DQuot => MountError::Io,
        Status::TooSmall | Status::ServerFault | Status::Jukebox => MountError::ServerFault,
    }
}
