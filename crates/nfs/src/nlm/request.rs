//! Who calls, and about which file: what every procedure begins with.

use super::Nlm;
use super::locked_file::LockedFile;
use super::status;
use crate::file_key::file_key;
use crate::object::{Caller, Object};
use proto::nlm::{Lock, Status, Versioned, Width};
use rpc::{Call, Fault, Transport};
use state::{ByteRange, FileKey, HostId, Mode, NotIdentified, ShareMode};
use std::sync::Arc;
use vfs::{AccessMask, need_regular};
use xdr::{Reader, Writer};

/// The last byte that versions 1 and 3 can name.
const OFFSET_MAX_32: u64 = i32::MAX as u64;

/// How wide offsets are in this version of the program.
pub(super) const fn width<const VERSION: u32>() -> Width {
    match Width::of_version(VERSION) {
        Some(width) => width,
        None => Width::Bits64,
    }
}

/// The arguments of a procedure, to the last byte.
pub(super) fn arguments<'a, const VERSION: u32, T: Versioned<'a>>(
    args: &mut Reader<'a>,
) -> Result<T, Fault> {
    let decoded = T::decode(args, width::<VERSION>())?;
    args.end()?;
    Ok(decoded)
}

/// Appends an answer and tells the statistics its status.
pub(super) fn finish<'a, const VERSION: u32>(
    call: &mut Call<'_>,
    reply: &mut Writer,
    answer: &impl Versioned<'a>,
    status: Status,
) {
    call.outcome.status = status.number();
    answer.encode(reply, width::<VERSION>());
}

/// The range and the mode that a request is about.
///
/// # Errors
/// [`Status::TooBig`].
pub(super) fn range(lock: &Lock<'_>, width: Width) -> Result<ByteRange, Status> {
    let max_offset = match width {
        Width::Bits32 => OFFSET_MAX_32,
        Width::Bits64 => u64::MAX,
    };
    ByteRange::from_offset_len(lock.offset, lock.len, max_offset).map_err(|_| Status::TooBig)
}

pub(super) const fn mode(exclusive: bool) -> Mode {
    if exclusive { Mode::Write } else { Mode::Read }
}

/// What a call says of its sender.
#[derive(Clone, Copy)]
pub(super) struct Sender<'a> {
    /// What the client calls itself.
    pub name: &'a [u8],
    /// The version of the program.
    pub version: u32,
    /// The state number of its status monitor; 0 if the call has none.
    pub nsm_state: i32,
}

/// What a client wants of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wanted {
    /// A byte-range lock, exclusive or not.
    Lock {
        /// Whether it is exclusive.
        exclusive: bool,
    },
    /// A share reservation.
    Share(ShareMode),
}

impl Nlm {
    /// The host that calls.
    ///
    /// # Errors
    /// [`Status::DeniedNoLocks`] if there are too many.
    pub(super) fn host(&self, call: &Call<'_>, sender: Sender<'_>) -> Result<HostId, Status> {
        let caller = state::Caller {
            addr: call.peer.addr.ip(),
            name: sender.name,
            local: call.peer.local.ip(),
            nlm_version: u8::try_from(sender.version).unwrap_or(u8::MAX),
            transport: match call.peer.transport {
                Transport::Tcp => state::Transport::Tcp,
                Transport::Udp => state::Transport::Udp,
            },
            nsm_state: sender.nsm_state,
        };
        self.state().identify(self.now(), &caller).map_err(|error| match error {
            NotIdentified::NoRoom => Status::DeniedNoLocks,
            NotIdentified::BeingRemoved => status::LATER,
        })
    }

    /// The core's name for the file of a handle, whether or not the caller may use it: enough to give something back.
    ///
    /// # Errors
    /// [`Status::StaleHandle`].
    pub(super) fn file_key(&self, handle: &[u8]) -> Result<FileKey, Status> {
        let table = self.nfs.exports.load();
        let (export, fid) = table.open(handle).map_err(status::of)?;
        file_key(export.id, &fid).ok_or(Status::StaleHandle)
    }

    /// The range, file and host of a request that takes something back: neither has the file to exist any more, nor needs
    /// the caller a right to it.
    ///
    /// # Errors
    /// The answer.
    pub(super) fn to_release<const VERSION: u32>(
        &self,
        call: &Call<'_>,
        lock: &Lock<'_>,
    ) -> Result<(ByteRange, FileKey, HostId), Status> {
        let range = range(lock, width::<VERSION>())?;
        let key = self.file_key(lock.handle)?;
        let sender = Sender { name: lock.caller_name, version: VERSION, nsm_state: 0 };
        Ok((range, key, self.host(call, sender)?))
    }

    /// The file of a handle, for a caller who may lock it so. A share reservation can deny others' READ and WRITE, and so
    /// needs the flavour that these need; a lock does not ([`Caller::open_to_lock`]).
    ///
    /// # Errors
    /// The answer.
    pub(super) fn file(
        &self,
        call: &mut Call<'_>,
        handle: &[u8],
        wanted: Wanted,
    ) -> Result<Arc<LockedFile>, Status> {
        let caller = Caller::new(&self.nfs.exports, call);
        let (object, write) = match wanted {
            Wanted::Lock { exclusive } => (caller.open_to_lock(handle), exclusive),
            Wanted::Share(_) => (caller.open(handle), false),
        };
        let object = object.map_err(status::of)?;
        let key = file_key(object.export_id(), &object.fid).ok_or(Status::StaleHandle)?;
        check(&object, write).map_err(status::of)?;
        let file = self.files.keep(key, object).map_err(status::of)?;
        // now that the file is in the table nobody gets a delegation of it
        if self.nfs.v4.state.any_delegations() {
            let object = file.object.as_object(caller.blocking());
            let recalled = match wanted {
                Wanted::Lock { exclusive: true } => {
                    self.nfs.before_change(&object, &object.fid, None)
                }
                Wanted::Lock { exclusive: false } => {
                    self.nfs.before_read(&object, &object.fid, None)
                }
                Wanted::Share(mode) => self.nfs.before_share(&object, mode),
            };
            recalled.map_err(status::of)?;
        }
        Ok(file)
    }

    /// Whether local programs are to be excluded from a file.
    pub(super) fn excludes_local(&self, file: &LockedFile) -> bool {
        self.settings.local_locks() && file.has_local_locks()
    }
}

/// Whether the caller may lock a file: who may read it, may write it or owns it, may, and with `no_auth_nlm` everybody. A lock for writing is one that
/// only a file in a writable export can have.
///
/// The permission to read or write is enough for either kind, because flock(2) needs no particular one.
fn check(object: &Object<'_>, write: bool) -> vfs::Result<()> {
    let asked = AccessMask::READ | AccessMask::MODIFY;
    let cx = object.cx();
    let (granted, attr) = object.backend().access(&cx, &object.fid, asked)?;
    need_regular(attr.ftype)?;
    if write {
        object.check_writable()?;
    }
    if !object.locks_need_permission() {
        return Ok(());
    }
    let some = granted.has(AccessMask::READ) || granted.has(AccessMask::MODIFY);
    if some || attr.uid == cx.cred.uid { Ok(()) } else { Err(vfs::Status::Acces) }
}
