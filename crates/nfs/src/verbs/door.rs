//! The way into every verb, and the one way out of a failed one.
//!
//! Owns: the order of the checks (handle, client, identity, read-only). Holds the export table
//! of the call: a reload in between changes nothing for a call under way.

use super::{Answer, New};
use crate::Nfs;
use export::{
    BufferSize, BufferSizes, Export, Exports, Found, GroupRoom, Handle, HeldTable, Options, Table,
};
use rpc::{Blocking, Call, Credential, Peer, SocketBufferSize, SocketBufferSizes};
use std::net::SocketAddr;
use std::time::Instant;
use vfs::{AccessMask, Attr, Backend, Created, Cx, Fid, Status, Want};

/// What a verb is going to do with an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Intent {
    /// Nothing that a read-only export forbids.
    Look,
    /// A change.
    Change,
}

/// A verb that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Failed {
    /// Why.
    pub status: Status,
    /// The attributes of the object (of the directory, for a verb with a name) after the failure,
    /// if the caller got so far and it is still there.
    pub attr: Option<Attr>,
    /// The attributes of the second object of RENAME (target directory) and LINK (directory).
    pub other: Option<Attr>,
}

impl Failed {
    /// A failure before any object was reached.
    pub const fn bare(status: Status) -> Self {
        Self { status, attr: None, other: None }
    }
}

impl From<Status> for Failed {
    fn from(status: Status) -> Self {
        Self::bare(status)
    }
}

/// The dispatcher's promise in the backend's words.
struct Sleeper<'c>(&'c dyn Blocking);

impl vfs::Blocking for Sleeper<'_> {
    fn will_block(&self) {
        self.0.will_block();
    }
}

/// A call at the door: everything that has to live as long as the verb runs.
pub struct Door<'c> {
    exports: &'c Exports,
    table: HeldTable<'c>,
    peer: Peer,
    credential: &'c Credential<'c>,
    export: &'c mut Option<u16>,
    buffers: &'c mut SocketBufferSizes,
    sleep: Sleeper<'c>,
    /// Room for the groups that squashing may have to change.
    groups: [u32; 16],
    /// Room for the groups that this machine knows a user to be in.
    own_groups: GroupRoom,
}

impl<'c> Door<'c> {
    /// The door for this call.
    pub fn new(nfs: &'c Nfs, call: &'c mut Call<'_>) -> Self {
        Self {
            exports: &nfs.exports,
            table: nfs.exports.load(),
            peer: call.peer,
            credential: &call.credential,
            export: &mut call.outcome.export,
            buffers: &mut call.outcome.buffers,
            sleep: Sleeper(call.blocking),
            groups: [0; 16],
            own_groups: GroupRoom::default(),
        }
    }

    /// Opens the object of a wire handle for this caller, and notes the export for the
    /// statistics.
    ///
    /// # Errors
    /// [`Status::BadHandle`], [`Status::Stale`]; [`Status::Acces`] for a client that the export
    /// is not for, [`Status::Jukebox`] if that cannot be found out now; [`Status::RoFs`] for a change of a read-only export.
    pub fn open(&mut self, handle: &[u8], intent: Intent) -> Answer<Target<'_>> {
        let table: &Table = &self.table;
        let (export, fid) = table.open(handle)?;
        *self.export = Some(export.index);
        let options = options_for(export, self.peer.addr, self.sleep.0)?;
        *self.buffers = wishes(export.buffers_for(options));
        let auth = match self.credential {
            Credential::Anonymous => None,
            Credential::Sys(sys) => Some((sys.uid, sys.gid, sys.groups())),
        };
        let auth = match auth {
            Some((uid, gid, _)) if options.manage_gids => {
                let room = &mut self.own_groups;
                let known = own_groups(self.exports, options, uid, room, self.sleep.0)?;
                auth.map(|(_, _, sent)| (uid, gid, if known { room.groups() } else { sent }))
            }
            Some(_) | None => auth,
        };
        let cx = Cx {
            cred: options.squash(auth, &mut self.groups),
            blocking: &self.sleep,
            durability: options.durability,
        };
        let read_only = options.read_only;
        let target = Target { fid, cx, read_only, export, table };
        if intent == Intent::Change && read_only {
            return Err(target.failed(Status::RoFs));
        }
        Ok(target)
    }
}

/// The sizes in the transport's words.
const fn wishes(sizes: BufferSizes) -> SocketBufferSizes {
    const fn wish(size: BufferSize) -> SocketBufferSize {
        match size {
            BufferSize::Unset => SocketBufferSize::UNSET,
            BufferSize::Auto => SocketBufferSize::AUTO,
            BufferSize::Bytes(bytes) => SocketBufferSize::bytes(bytes),
        }
    }
    SocketBufferSizes { receive: wish(sizes.receive), send: wish(sizes.send) }
}

/// What this client may do with an export.
///
/// A name service has to be asked only rarely: for the first call of a client that was mounted
/// before a restart or a reload, if the export names hosts. Others go on while it is asked.
fn options_for<'d>(
    export: &'d Export,
    client: SocketAddr,
    blocking: &dyn Blocking,
) -> vfs::Result<&'d Options> {
    if let Some(options) = export.access_for(client.ip(), client.port()) {
        return Ok(options);
    }
    if export.needs_resolution(client.ip()) {
        blocking.will_block();
        if !export.resolve_blocking(client.ip()) {
            return Err(Status::Jukebox);
        }
    }
    // Again in any case: the answer may have come between the two questions.
    export.access_for(client.ip(), client.port()).ok_or(Status::Acces)
}

/// Puts the groups that this machine knows a user to be in into `room`; false if it does not know
/// the user. The name services are asked after other calls were let on.
fn own_groups(
    exports: &Exports,
    options: &Options,
    uid: u32,
    room: &mut GroupRoom,
    blocking: &dyn Blocking,
) -> vfs::Result<bool> {
    let mut look = || exports.users().find(uid, Instant::now(), room, |gid| options.map_group(gid));
    let found = match look() {
        Found::Ask => {
            blocking.will_block();
            if !exports.users().ask(uid) {
                return Err(Status::Jukebox);
            }
            look()
        }
        known => known,
    };
    match found {
        Found::Known => Ok(true),
        Found::Stranger => Ok(false),
        Found::Ask => Err(Status::Jukebox),
    }
}

/// An object that the caller may ask about.
pub struct Target<'d> {
    /// The object.
    pub fid: Fid,
    /// Who is asking.
    pub cx: Cx<'d>,
    read_only: bool,
    export: &'d Export,
    table: &'d Table,
}

impl Target<'_> {
    /// The export's backend.
    pub fn backend(&self) -> &dyn Backend {
        self.export.backend.as_ref()
    }

    /// The permissions that the export leaves, whatever the file system grants.
    pub fn permitted(&self) -> AccessMask {
        let look = AccessMask::READ | AccessMask::LOOKUP | AccessMask::EXECUTE;
        let change = AccessMask::MODIFY | AccessMask::EXTEND | AccessMask::DELETE;
        if self.read_only { look } else { look | change }
    }

    /// Does the work of a verb on the object; a failure gets the object's attributes.
    ///
    /// # Errors
    /// What `work` gives, with attributes.
    pub fn run<T>(&self, work: impl FnOnce(&dyn Backend) -> vfs::Result<T>) -> Answer<T> {
        work(self.backend()).map_err(|status| self.failed(status))
    }

    /// A failure with the attributes of the object, if they can be had.
    pub fn failed(&self, status: Status) -> Failed {
        Failed { status, attr: self.attr_of(&self.fid), other: None }
    }

    /// Attributes for a failure: whatever goes wrong here is of no interest to the caller.
    pub fn attr_of(&self, fid: &Fid) -> Option<Attr> {
        self.backend().getattr(&self.cx, fid, Want::STAT).ok()
    }

    /// The second object of RENAME and LINK, which must be in the same export.
    ///
    /// # Errors
    /// [`Status::XDev`], and those of the handle.
    pub fn second(&self, handle: &[u8]) -> vfs::Result<Fid> {
        let (export, fid) = self.table.open(handle)?;
        if export.id == self.export.id { Ok(fid) } else { Err(Status::XDev) }
    }

    /// The wire handle of an object of the same export.
    pub fn seal(&self, fid: &Fid) -> Handle {
        self.export.seal(fid)
    }

    /// What was made, with its wire handle.
    pub fn new_object(&self, made: &Created) -> New {
        let object = made.node.map(|node| (self.seal(&node.fid), node.attr));
        New { object, dir: made.dir }
    }
}
