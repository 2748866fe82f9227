//! From a path to an object: which export, may the client, which object below it.

use super::Mount;
use super::mounted::client_of;
use super::path::{components, normalise};
use super::refusal::{Refusal, Why};
use export::{Export, Table};
use proto::mount::MountError;
use rpc::Call;
use vfs::{Blocking, Component, Cred, Cx, Durability, Fid, FileType, Status, Want};

/// A port that takes a privilege to use.
const RESERVED_PORT: u16 = 1;

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
struct Worker<'a>(&'a dyn rpc::Blocking);

impl Blocking for Worker<'_> {
    fn will_block(&self) {
        self.0.will_block();
    }
}

/// Finds what `path` names, for this caller; the operator hears of what is refused.
pub(super) fn find<'t>(
    state: &Mount,
    table: &'t Table,
    call: &mut Call<'_>,
    path: &[u8],
) -> Result<Target<'t>, MountError> {
    look(table, call, path).map_err(|why| {
        if let Some(tell) = &state.tell_refused {
            tell(&Refusal { client: call.peer.addr, path, why });
        }
        why.error()
    })
}

/// The client is judged before the tree is looked at, so that a stranger learns nothing of what
/// is in it. The walk itself is the server's, as with other servers: that a client may mount a
/// directory does not depend on who its user is; what the user may do there, each call decides.
fn look<'t>(table: &'t Table, call: &mut Call<'_>, path: &[u8]) -> Result<Target<'t>, Why> {
    let path = normalise(path).ok_or(Why::NoPath)?;
    let (export, below) = table.by_path(&path).ok_or(Why::NoExport)?;
    call.outcome.export = Some(export.index);
    let client = client_of(call);
    let mut answered = true;
    if export.needs_resolution(client) {
        // MNT comes first, so that no other call has to wait for a name service.
        call.blocking.will_block();
        answered = export.resolve_blocking(client);
    }
    if export.access_for(client, call.peer.addr.port()).is_none() {
        let reserved = export.access_for(client, RESERVED_PORT).is_some();
        return Err(match (reserved, answered) {
            (true, _) => Why::Port,
            (false, true) => Why::NotForClient,
            (false, false) => Why::NoAnswer,
        });
    }
    let sleep = Worker(call.blocking);
    let cred = Cred { uid: 0, gid: 0, groups: &[] };
    let cx = Cx { cred, blocking: &sleep, durability: Durability::Sync };
    let fid = walk(export, &cx, below).map_err(Why::Tree)?;
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
