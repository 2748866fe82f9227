//! The interface that version 4 uses for byte-range locks, implemented by the lock manager of [`nlm`](crate::nlm), so that
//! one table holds the locks of all protocols.

use crate::object::Object;
use rpc::Blocking;
use state::{ByteRange, Conflict, FileKey, HostId, Mode, Who};

/// A requested lock.
#[derive(Clone, Copy)]
pub struct LockWanted<'a> {
    /// For whom.
    pub who: Who<'a>,
    /// The bytes.
    pub range: ByteRange,
    /// How they are to be held.
    pub mode: Mode,
    /// The client held them before the server's restart.
    pub reclaim: bool,
    /// The file as the client names it, if the client would wait and can be told when it has the lock.
    pub notify: Option<&'a [u8]>,
}

/// What it comes to.
#[derive(Debug)]
pub enum LockAnswer {
    /// It is held, or nothing is in the way, or it is given back.
    Done,
    /// This is in the way.
    Denied(Conflict),
    /// Only what was held before the restart may be had now.
    Grace,
    /// This is a reclaim, and there is nothing to be reclaimed any more.
    NoGrace,
    /// Nobody knows yet, or there is no room now: ask again later.
    Later,
    /// The file system fails so.
    Failed(vfs::Status),
}

/// Takes and gives back byte-range locks. May block where `blocking` allows it.
pub trait ByteRangeLocks: Send + Sync {
    /// A client of version 4 as a host of the table of locks, which it is until [`ByteRangeLocks::give_back_released`] hears
    /// that it has ended.
    fn add_client(&self, caller: &state::Caller<'_>, client: u64) -> HostId;
    /// Whether anybody has a lock of a file, or asks for one just now.
    fn is_locked(&self, file: &FileKey) -> bool;
    /// Takes a lock of a file.
    fn lock(&self, blocking: &dyn Blocking, file: Object<'_>, wanted: LockWanted<'_>)
    -> LockAnswer;
    /// What is in the way of a lock.
    fn test(&self, blocking: &dyn Blocking, file: Object<'_>, wanted: LockWanted<'_>)
    -> LockAnswer;
    /// Gives bytes back.
    fn unlock(
        &self,
        blocking: &dyn Blocking,
        file: &FileKey,
        who: &Who<'_>,
        range: ByteRange,
    ) -> LockAnswer;
    /// Takes everything from a host that has sent no call for so long that others may have it.
    fn release_silent(&self, blocking: &dyn Blocking, host: HostId);
    /// Gives back what those hold that have ended.
    fn give_back_released(&self, blocking: &dyn Blocking);
}
