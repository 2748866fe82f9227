//! The attributes of a file that a client writes under a delegation, for everybody else: its holder is asked for the size, the
//! change attribute and the times that it keeps (CB_GETATTR, RFC 8881 §10.4.3, §20.1; RFC 9754 §5), and keeps the delegation.
//!
//! A call waits [`ANSWER_WAIT`](crate::delegation_progress) for the answer, as long as few do; then the delegation is recalled.
//! An answer is used by the call alone that has asked for it: what the holder does later, a later call must see.
//!
//! The server's own attributes are fetched after the answer, so that what the holder has sent before it is in them, and count
//! alone if the delegation has ended meanwhile. Nothing of the answer is stored in the file: when the holder returns the
//! delegation it has sent everything.

use crate::Nfs;
use crate::file_key::file_key;
use crate::object::Object;
use crate::v4::callback::{CallbackAnswer, HolderAttrs, Operation};
use crate::verbs;
use rpc::Blocking;
use state::v4::{FileTime, Holder};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use vfs::{Attr, Fid, Status, Time, Want};

/// How often a holder is asked for a file whose delegation has ended meanwhile.
const TRIES: u32 = 3;
/// For how long a call asks for one file after the other.
const ASKING: Duration = Duration::from_millis(50);

/// What the holder of a write delegation says of its file's attributes.
enum AttrsByHolder {
    /// No other client has a write delegation of it.
    NoHolder,
    /// What the holder says.
    Attr(Attr),
    /// The holder says nothing, or too late.
    NoAnswer,
}

/// The server's clock, by which holders' times are bounded.
pub fn wall_clock() -> Time {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Time { sec: i64::try_from(since.as_secs()).unwrap_or(i64::MAX), nsec: since.subsec_nanos() }
}

/// A time as the state has it.
pub const fn file_time(time: Time) -> FileTime {
    FileTime { sec: time.sec, nsec: time.nsec }
}

const fn time_of(time: FileTime) -> Time {
    Time { sec: time.sec, nsec: time.nsec }
}

/// A time that the holder of a delegation reports: `None` if it is not later than the one that the file had when the
/// delegation was granted, and `now` if it is later than that (RFC 9754 §5).
pub fn accepted_time(reported: Time, granted: FileTime, now: Time) -> Option<Time> {
    let reported = file_time(reported);
    (reported > granted).then(|| time_of(reported.min(file_time(now))))
}

/// What is shown of a file: `found` is what the server has of it.
fn shown(holder: &Holder, answer: &HolderAttrs, found: Attr, now: Time) -> Attr {
    let granted = holder.granted();
    let is_modified = answer.change != granted.change || answer.size != found.size;
    let mut shown = Attr { change: holder.shown_change(found.change, is_modified), ..found };
    if is_modified {
        (shown.size, shown.mtime, shown.ctime) = (answer.size, now, now);
    }
    if let (Some(reported), Some(had)) = (answer.times, granted.times) {
        if let Some(modified) = accepted_time(reported.modified, had.modified, now) {
            shown.mtime = modified;
        }
        if let Some(accessed) = accepted_time(reported.accessed, had.accessed, now) {
            shown.atime = accessed;
        }
        let changed = file_time(shown.mtime).max(file_time(found.ctime));
        shown.ctime = time_of(changed);
    }
    shown
}

impl Nfs {
    /// The attributes of a file that a client other than `client` has a write delegation of; `None` if there is none, or
    /// none any more: then they are the server's. Costs one load if there is none of any file.
    ///
    /// # Errors
    /// [`Status::Jukebox`] if the holder neither answers nor returns the delegation in time.
    #[inline]
    pub(crate) fn attrs_by_holder(
        &self,
        file: &Object<'_>,
        fid: &Fid,
        client: Option<u64>,
        want: Want,
    ) -> vfs::Result<Option<Attr>> {
        if !self.v4.state.any_write_delegations() {
            return Ok(None);
        }
        self.attrs_by_holder_or_recall(file, fid, client, want)
    }

    #[cold]
    fn attrs_by_holder_or_recall(
        &self,
        file: &Object<'_>,
        fid: &Fid,
        client: Option<u64>,
        want: Want,
    ) -> vfs::Result<Option<Attr>> {
        match self.attrs_from_holder(file, fid, client, want)? {
            AttrsByHolder::NoHolder => Ok(None),
            AttrsByHolder::Attr(attr) => Ok(Some(attr)),
            AttrsByHolder::NoAnswer => self.before_read(file, fid, client).map(|()| None),
        }
    }

    /// Those of several files of a directory, as many as are known soon, the first at any rate.
    ///
    /// # Errors
    /// As [`Nfs::attrs_by_holder`], for the first.
    #[cold]
    pub(crate) fn attrs_by_holders(
        &self,
        dir: &Object<'_>,
        fids: &[Fid],
        client: Option<u64>,
    ) -> vfs::Result<Vec<(Fid, Attr)>> {
        let Some((first, others)) = fids.split_first() else { return Ok(Vec::new()) };
        let began = Instant::now();
        let attr = self.attrs_by_holder_or_recall(dir, first, client, Want::STAT)?;
        let mut known: Vec<(Fid, Attr)> = attr.into_iter().map(|attr| (*first, attr)).collect();
        for fid in others {
            if began.elapsed() > ASKING {
                break;
            }
            match self.attrs_from_holder(dir, fid, client, Want::STAT) {
                Ok(AttrsByHolder::Attr(attr)) => known.push((*fid, attr)),
                Ok(AttrsByHolder::NoHolder) => {}
                Ok(AttrsByHolder::NoAnswer) | Err(_) => break,
            }
        }
        Ok(known)
    }

    fn attrs_from_holder(
        &self,
        file: &Object<'_>,
        fid: &Fid,
        client: Option<u64>,
        want: Want,
    ) -> vfs::Result<AttrsByHolder> {
        let Some(key) = file_key(file.export_id(), fid) else { return Ok(AttrsByHolder::NoHolder) };
        let state = &self.v4.state;
        for _ in 0..TRIES {
            let Some(holder) = state.write_holder(&key, client) else {
                return Ok(AttrsByHolder::NoHolder);
            };
            let is_leaving = holder.is_leaving(self.clock.now(), state.lease_ms());
            let answer = if is_leaving { None } else { self.ask_holder(file.blocking(), &holder) };
            let Some(answer) = answer else { return Ok(AttrsByHolder::NoAnswer) };
            let mut object = file.clone();
            object.fid = *fid;
            let found = verbs::getattr_with(&object, want)?;
            if !holder.is_ended() {
                return Ok(AttrsByHolder::Attr(shown(&holder, &answer, found, wall_clock())));
            }
        }
        Err(Status::Jukebox)
    }

    /// Asks the holder of a delegation; `None` if it does not answer as it must, or not in time.
    fn ask_holder(&self, blocking: &dyn Blocking, holder: &Holder) -> Option<HolderAttrs> {
        let keeps_times = holder.granted().times.is_some();
        self.delegations.ask(blocking, |done| {
            let operation = Operation::Getattr { handle: holder.handle().into(), keeps_times };
            let done = move |answer: Result<CallbackAnswer<'_>, _>| {
                done(answer.ok().and_then(|answer| HolderAttrs::of(&answer, keeps_times)));
            };
            self.v4.call_client(holder.client_id(), operation, Box::new(done));
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{Time, accepted_time, file_time};

    #[test]
    fn times_of_a_holder_are_neither_before_the_grant_nor_in_the_future() {
        let at = |sec, nsec| Time { sec, nsec };
        let (granted, now) = (file_time(at(10, 5)), at(20, 0));
        let accepted = |reported| accepted_time(reported, granted, now);
        assert_eq!([at(9, 9), at(10, 4), at(10, 5)].map(accepted), [None; 3]);
        assert_eq!(accepted(at(10, 6)), Some(at(10, 6)));
        assert_eq!([at(20, 0), at(20, 1), at(i64::MAX, 0)].map(accepted), [Some(now); 3]);
    }
}
