//! Locks of version 4: the same table, the same kernel, other words.

use super::Nlm;
use super::act::Answer;
use super::locked_file::LockedFile;
use crate::byte_range_locks::{ByteRangeLocks, LockAnswer, LockWanted};
use crate::file_key::file_key;
use crate::object::Object;
use crate::v4::Ended;
use proto::nlm::Status;
use rpc::Blocking;
use state::v4::Released;
use state::{
    ByteRange, Conflict, Effects, FileKey, HostId, How, LockRequest, Plan, TestAnswer, Who,
};
use std::sync::Arc;

impl Nlm {
    /// Whether the lock in the way was one of a client of version 4 whose lease is over, which has lost it now.
    pub(super) fn has_expired(&self, blocking: &dyn Blocking, conflict: &Conflict) -> bool {
        let Conflict::Lock { holder, .. } = conflict else { return false };
        let Who::V4 { client, .. } = holder.who() else { return false };
        self.nfs.end_expired(blocking, &[client]) == Ended::All
    }

    /// The file of a lock, by its key and kept open.
    fn keep(&self, file: Object<'_>) -> vfs::Result<(FileKey, Arc<LockedFile>)> {
        let key = file_key(file.export_id(), &file.fid).ok_or(vfs::Status::ServerFault)?;
        Ok((key, self.files.keep(key, file)?))
    }

    /// The word for an answer.
    fn in_words(&self, answer: Answer) -> LockAnswer {
        let status = match answer {
            Answer::Status(status) => status,
            Answer::Denied(conflict) => return LockAnswer::Denied(conflict),
            // no request of version 4 waits in the queue
            Answer::Blocked(_) => return LockAnswer::Later,
        };
        match status {
            Status::Granted => LockAnswer::Done,
            Status::DeniedGracePeriod if self.state().in_grace(self.now()) => LockAnswer::Grace,
            // a conflict is no status here: what is left is a reclaim that came too late
            Status::Denied => LockAnswer::NoGrace,
            Status::DeniedGracePeriod
            | Status::DeniedNoLocks
            | Status::Blocked
            | Status::Deadlock => LockAnswer::Later,
            Status::ReadOnly => LockAnswer::Failed(vfs::Status::RoFs),
            Status::StaleHandle => LockAnswer::Failed(vfs::Status::Stale),
            Status::TooBig => LockAnswer::Failed(vfs::Status::Inval),
            Status::Failed => LockAnswer::Failed(vfs::Status::ServerFault),
        }
    }
}

impl ByteRangeLocks for Nlm {
    fn add_client(&self, caller: &state::Caller<'_>, client: u64) -> HostId {
        self.state().add_client(self.now(), client, caller)
    }

    fn lock(
        &self,
        blocking: &dyn Blocking,
        file: Object<'_>,
        wanted: LockWanted<'_>,
    ) -> LockAnswer {
        let (key, file) = match self.keep(file) {
            Ok(kept) => kept,
            Err(status) => return LockAnswer::Failed(status),
        };
        let LockWanted { who, range, mode, reclaim } = wanted;
        let how = if reclaim { How::Reclaim } else { How::Try };
        let (local, kept) = (self.excludes_local(&file), Some(file.for_core()));
        let request = LockRequest { who, range, mode, how, local, monitored: false, kept };
        let answer = self.decide(blocking, || self.state().lock(self.now(), &key, &request));
        self.in_words(answer)
    }

    fn test(
        &self,
        blocking: &dyn Blocking,
        file: Object<'_>,
        wanted: LockWanted<'_>,
    ) -> LockAnswer {
        let (key, file) = match self.keep(file) {
            Ok(kept) => kept,
            Err(status) => return LockAnswer::Failed(status),
        };
        if self.state().in_grace(self.now()) {
            return LockAnswer::Grace;
        }
        let LockWanted { who, range, mode, .. } = wanted;
        let answer = self.decide(blocking, || {
            let plan = match self.state().test(&key, &who, range, mode) {
                TestAnswer::Free => Plan::Granted,
                TestAnswer::Held(found) => Plan::Denied(found),
                TestAnswer::Again => Plan::Again,
            };
            (plan, Effects::default())
        });
        match self.in_words(answer) {
            LockAnswer::Done if self.excludes_local(&file) => {
                match file.local_conflict(blocking, range, mode) {
                    Ok(None) => LockAnswer::Done,
                    Ok(Some(found)) => LockAnswer::Denied(Conflict::Local(found)),
                    Err(status) => LockAnswer::Failed(status),
                }
            }
            other => other,
        }
    }

    fn unlock(
        &self,
        blocking: &dyn Blocking,
        file: &FileKey,
        who: &Who<'_>,
        range: ByteRange,
    ) -> LockAnswer {
        let answer = self.decide(blocking, || self.state().unlock(self.now(), file, who, range));
        self.in_words(answer)
    }

    fn give_back_released(&self, blocking: &dyn Blocking) {
        for released in self.nfs.v4.state.take_released() {
            let effects = match released {
                Released::Client(host) => self.state().end_client(self.now(), host).1,
                Released::Owner { file, host, client, owner } => {
                    let who = Who::V4 { host, client, owner: &owner };
                    self.state().release_owner(self.now(), &file, &who)
                }
            };
            self.run(blocking, effects);
        }
    }
}
