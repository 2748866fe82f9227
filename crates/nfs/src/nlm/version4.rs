//! Locks of NFSv4, in the same table and with the same kernel locks as NLM's.

use super::Nlm;
use super::act::Answer;
use super::locked_file::LockedFile;
use super::waiting_v4::{DueV4, WaitingV4};
use crate::byte_range_locks::{ByteRangeLocks, LockAnswer, LockWanted};
use crate::file_key::file_key;
use crate::object::Object;
use crate::v4::Ended;
use crate::v4::callback::{CallbackAnswer, CallbackFailure, Operation, Recipient};
use proto::nlm::Status;
use rpc::Blocking;
use state::v4::Released;
use state::{
    ByteRange, Conflict, Effects, FileKey, Granted, HostId, How, LockRequest, Now, Plan,
    TestAnswer, Who,
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

    /// Puts a request that was denied into the queue of its file. What its client is told; `None`: what it was denied
    /// for. It does not wait if there is no room, nor if owners would wait for each other as far as is known, which is
    /// no error: an owner may have stopped waiting, of which nobody is told.
    fn wait_v4(
        &self,
        blocking: &dyn Blocking,
        file: &LockedFile,
        request: &LockRequest<'_>,
        handle: &[u8],
    ) -> Option<LockAnswer> {
        let (who, range, mode) = (request.who, request.range, request.mode);
        let entry = WaitingV4::new(self.now(), file.key, (&who, handle), (range, mode))?;
        let tag = self.waiting.new_tag();
        if !self.waits_v4.add(tag, entry) {
            return None;
        }
        let request = LockRequest { how: How::Wait(tag), ..request.clone() };
        let answer = self.decide(blocking, || self.state().lock(self.now(), &file.key, &request));
        match answer {
            Answer::Blocked(own) if own == tag => self.wake(),
            Answer::Blocked(known) => {
                self.waits_v4.remove(tag);
                self.waits_v4.asked(self.now(), known);
            }
            answer => {
                self.waits_v4.remove(tag);
                return matches!(answer, Answer::Status(Status::Granted))
                    .then(|| self.in_words(answer));
            }
        }
        match self.state().test(&file.key, &who, range, mode) {
            TestAnswer::Held(conflict) => Some(LockAnswer::Denied(conflict)),
            // a local program is in the way, or an earlier request, or nobody any more
            TestAnswer::Free | TestAnswer::Again => None,
        }
    }

    /// Tells a client of version 4 that its request was granted.
    pub(super) fn tell_v4(&self, granted: &Granted) {
        let tag = granted.tag;
        let Some(waiting) = self.waits_v4.granted(self.now(), tag) else { return };
        let WaitingV4 { handle, client, owner, .. } = waiting;
        let operation = Operation::NotifyLock { handle, client, owner };
        let answers = Arc::clone(&self.answers);
        let done = Box::new(move |answer: Result<CallbackAnswer<'_>, CallbackFailure>| {
            let knows = match answer {
                Ok(answer) => answer.status == 0,
                // it was told; only that it was is lost
                Err(why) => why == CallbackFailure::AnswerLost,
            };
            answers.note_v4(tag, knows);
        });
        self.nfs.v4.callbacks.call(Recipient::Client(client), operation, done);
        self.wake();
    }

    /// Takes back what clients of version 4 have not fetched, and ends requests that are not repeated.
    pub(super) fn end_waits_v4(&self, blocking: &dyn Blocking, now: Now, sweep: bool) {
        for (tag, knows) in self.answers.take_v4() {
            self.waits_v4.told(now, tag, knows);
        }
        for due in self.waits_v4.due(now, sweep) {
            match due {
                DueV4::Withdraw(tag, file) => {
                    self.waits_v4.remove(tag);
                    // nothing happens if it was fetched
                    self.withdraw(blocking, &file, tag);
                }
                DueV4::Cancel(tag, waiting) => {
                    self.waits_v4.remove(tag);
                    let (who, range, mode) = (waiting.who(), waiting.range, waiting.mode);
                    let (_ended, effects) =
                        self.state().cancel(now, &waiting.file, &who, range, mode);
                    self.run(blocking, effects);
                }
                DueV4::Check(tag, file) => {
                    if !self.state().is_waiting(&file, tag) {
                        self.waits_v4.remove(tag);
                    }
                }
            }
        }
    }

    /// The word for an answer.
    fn in_words(&self, answer: Answer) -> LockAnswer {
        let status = match answer {
            Answer::Status(status) => status,
            Answer::Denied(conflict) => return LockAnswer::Denied(conflict),
            // what it waits for has just gone
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
    fn is_locked(&self, file: &FileKey) -> bool {
        self.files.find(file).is_some()
    }

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
        let LockWanted { who, range, mode, reclaim, notify } = wanted;
        let how = if reclaim { How::Reclaim } else { How::Try };
        let (local, kept) = (self.excludes_local(&file), Some(file.for_core()));
        let request = LockRequest { who, range, mode, how, local, monitored: false, kept };
        let answer = self.decide(blocking, || self.state().lock(self.now(), &key, &request));
        if let (Answer::Denied(_), Some(handle)) = (&answer, notify) {
            // a request that need not wait costs no entry
            return match self.wait_v4(blocking, &file, &request, handle) {
                Some(waits) => waits,
                None => self.in_words(answer),
            };
        }
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

    fn release_silent(&self, blocking: &dyn Blocking, host: HostId) {
        self.release(blocking, host);
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
