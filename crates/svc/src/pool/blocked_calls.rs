//! The calls that block in each export, how many may, and those that wait until they may.
//!
//! A file system that hangs (a dead disk, a network file system without its server) keeps every thread
//! that works in it. So that it does not take all threads, the calls that block in one export at a time are
//! bounded by a share of the threads. A call beyond it, which has done nothing yet, leaves its thread and is
//! *postponed*: it waits in the export's queue, and is run again from its beginning when one of the others has
//! ended. Once the oldest of these has blocked for [`HUNG_AFTER`], calls beyond the share are refused at once, and
//! those of the queue are run again only to be refused; their clients are told to try again later
//! (NFS3ERR_JUKEBOX, RFC 1813 §2.6). A file system that is merely slow never has a call that old.
//!
//! A call that cannot be run again (a COMPOUND, a WRITE whose data was taken already) waits in its thread; at
//! most a quarter of the share do, one more is refused.
//!
//! Only a call that is about to block comes here. The lock guards a list and a queue for each export and is held
//! for a few instructions; calls are resumed after it.
//!
//! Invariant: where a call is queued, one blocks that will end, or one was resumed and holds a [`ResumePermit`], or the
//! watchdog finds the export hung. Each end looks whether the next may go on ([`BlockedCalls::admit`]).

use crate::conn::info::BlockedCallInfo;
use crate::limits::POSTPONED_BYTES_MAX;
use crate::sync::lock;
use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};
use sys::thread::ThreadNumber;

/// From this age of its oldest blocked call on, an export counts as hung.
const HUNG_AFTER: Duration = Duration::from_secs(2);
/// Of the share, this many parts may wait in their threads besides.
const WAITING_SHARE: usize = 4;

/// Which procedure a call is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Procedure {
    pub program: u32,
    pub version: u32,
    pub procedure: u32,
}

impl Procedure {
    /// Of a call, whose header begins with xid, type, RPC version, program, version and procedure
    /// (RFC 5531 §9).
    pub fn of(record: &[u8]) -> Self {
        let word = |at: usize| {
            let bytes = record.get(at..).and_then(<[u8]>::first_chunk::<4>);
            bytes.map_or(0, |bytes| u32::from_be_bytes(*bytes))
        };
        Self { program: word(12), version: word(16), procedure: word(20) }
    }
}

/// Where a call came from.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Caller {
    /// The number of its connection; none for a datagram.
    pub conn: Option<u64>,
    /// The client's end.
    pub addr: Option<SocketAddr>,
}

/// A call that sleeps in a file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SleepingCall {
    /// Its number among the calls that have slept in this export.
    pub id: u64,
    /// The client's end, if it is known.
    pub client: Option<SocketAddr>,
    /// The thread that runs it.
    pub thread: ThreadNumber,
    /// Which call in which export, and for how long.
    pub info: BlockedCallInfo,
}

/// An export in which calls block, or were refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockedExport {
    /// Its index in the export table.
    pub export: u16,
    /// Calls that block in it now.
    pub calls: usize,
    /// Calls beyond its share that wait for one of them to end.
    pub waiting: usize,
    /// For how long the oldest has blocked, in milliseconds; 0 if none does.
    pub oldest_ms: u64,
    /// The program of the oldest call.
    pub program: u32,
    /// Its version.
    pub version: u32,
    /// Its procedure.
    pub procedure: u32,
    /// Calls that were refused since the server started.
    pub refused: u64,
}

/// A call that waits outside of any thread. Dropped, it is not answered.
pub(crate) trait Postponed: Send {
    /// The memory that it takes.
    fn bytes(&self) -> usize;

    /// Has a worker run it again. Must not wait.
    fn resume(self: Box<Self>, resume_permit: ResumePermit);
}

/// What becomes of a call that is about to block.
#[derive(Debug)]
pub(crate) enum Entry<'b> {
    /// It may.
    Permitted(BlockPermit<'b>),
    /// As many as may do already: it is to be postponed.
    Full,
    /// It has to give up.
    Refused,
}

/// How a call waits that may not block yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Waits {
    /// In the queue of its export.
    Postponed,
    /// In its thread.
    InThread,
}

/// The calls that block in each export.
#[derive(Default)]
pub(crate) struct BlockedCalls {
    exports: Mutex<HashMap<u16, ExportCalls>>,
    /// A call that others wait for has ended.
    ended: Condvar,
    /// How many may block in one export.
    share: AtomicUsize,
    /// What the queues of all exports hold. Written under the lock.
    postponed_bytes: AtomicUsize,
}

#[derive(Default)]
struct ExportCalls {
    calls: Vec<BlockedCall>,
    last_id: u64,
    /// Calls that wait in their threads.
    waiting: usize,
    queue: VecDeque<Box<dyn Postponed>>,
    /// Calls of the queue that were resumed and do not block yet.
    resumed: usize,
    refused: u64,
}

#[derive(Debug, Clone, Copy)]
struct BlockedCall {
    id: u64,
    since: Instant,
    procedure: Procedure,
    caller: Caller,
    thread: ThreadNumber,
}

impl ExportCalls {
    fn oldest(&self) -> Option<&BlockedCall> {
        self.calls.iter().min_by_key(|call| call.since)
    }

    /// How long until it counts as hung; `None` if it does.
    fn until_hung(&self) -> Option<Duration> {
        let age = self.oldest().map_or(Duration::ZERO, |call| call.since.elapsed());
        HUNG_AFTER.checked_sub(age).filter(|left| !left.is_zero())
    }

    /// Adds a call of the calling thread; its number.
    fn add(&mut self, procedure: Procedure, caller: Caller) -> u64 {
        self.last_id = self.last_id.wrapping_add(1);
        let (id, since, thread) = (self.last_id, Instant::now(), ThreadNumber::own());
        self.calls.push(BlockedCall { id, since, procedure, caller, thread });
        id
    }
}

/// Held by a call that was postponed and is run again, until it blocks or ends.
pub(crate) struct ResumePermit {
    blocked: Weak<BlockedCalls>,
    export: u16,
}

impl Drop for ResumePermit {
    fn drop(&mut self) {
        let Some(blocked) = self.blocked.upgrade() else { return };
        if let Some(export) = lock(&blocked.exports).get_mut(&self.export) {
            export.resumed = export.resumed.saturating_sub(1);
        }
        blocked.admit(self.export);
    }
}

/// The permission of one call to block in an export; ends when it is dropped.
pub(crate) struct BlockPermit<'b> {
    blocked: &'b Arc<BlockedCalls>,
    export: u16,
    id: u64,
}

impl std::fmt::Debug for BlockPermit<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "call {} of export {}", self.id, self.export)
    }
}

impl Drop for BlockPermit<'_> {
    fn drop(&mut self) {
        let mut exports = lock(&self.blocked.exports);
        let Some(export) = exports.get_mut(&self.export) else { return };
        export.calls.retain(|call| call.id != self.id);
        let (waiting, queued) = (export.waiting > 0, !export.queue.is_empty());
        drop(exports);
        if waiting {
            self.blocked.ended.notify_all();
        }
        if queued {
            self.blocked.admit(self.export);
        }
    }
}

impl BlockedCalls {
    /// None blocks yet; in each export this many calls may.
    pub fn new(share: usize) -> Arc<Self> {
        Arc::new(Self { share: AtomicUsize::new(share.max(1)), ..Self::default() })
    }

    /// Changes how many calls may block in one export. Those beyond it that block already are not
    /// disturbed.
    pub fn set_share(self: &Arc<Self>, share: usize) {
        self.share.store(share.max(1), Relaxed);
        self.ended.notify_all();
        let exports: Vec<u16> = lock(&self.exports).keys().copied().collect();
        exports.into_iter().for_each(|export| self.admit(export));
    }

    /// A call is about to block in an export; `resume_permit` if it was postponed before. A call that waits in its thread
    /// must not lead its pool.
    pub fn enter(
        self: &Arc<Self>,
        export: u16,
        procedure: Procedure,
        caller: Caller,
        (waits, resume_permit): (Waits, Option<ResumePermit>),
    ) -> Entry<'_> {
        let mut exports = lock(&self.exports);
        loop {
            let calls = exports.entry(export).or_default();
            let share = self.share.load(Relaxed);
            let taken = calls.calls.len();
            let room = match (&resume_permit, waits) {
                (Some(_), _) => taken < share,
                // those that were there before go first
                (None, Waits::Postponed) => {
                    calls.queue.is_empty() && taken.saturating_add(calls.resumed) < share
                }
                (None, Waits::InThread) => taken.saturating_add(calls.resumed) < share,
            };
            if room {
                let id = calls.add(procedure, caller);
                // the permit takes the lock when it ends
                drop(exports);
                drop(resume_permit);
                return Entry::Permitted(BlockPermit { blocked: self, export, id });
            }
            let left = calls.until_hung();
            let most_waiting = (share / WAITING_SHARE).max(1);
            let Some(left) =
                left.filter(|_| waits == Waits::Postponed || calls.waiting < most_waiting)
            else {
                calls.refused = calls.refused.saturating_add(1);
                drop(exports);
                drop(resume_permit);
                return Entry::Refused;
            };
            if waits == Waits::Postponed {
                drop(exports);
                drop(resume_permit);
                return Entry::Full;
            }
            calls.waiting = calls.waiting.saturating_add(1);
            let waited = self.ended.wait_timeout(exports, left);
            exports = waited.unwrap_or_else(PoisonError::into_inner).0;
            if let Some(calls) = exports.get_mut(&export) {
                calls.waiting = calls.waiting.saturating_sub(1);
            }
        }
    }

    /// Queues a call for which [`Entry::Full`] was the answer, before the others if it was resumed already.
    ///
    /// # Errors
    /// The queues hold as much as they may: the call comes back.
    pub fn postpone<P: Postponed + 'static>(
        self: &Arc<Self>,
        export: u16,
        call: Box<P>,
        again: bool,
    ) -> Result<(), Box<P>> {
        let mut exports = lock(&self.exports);
        let calls = exports.entry(export).or_default();
        let bytes = self.postponed_bytes.load(Relaxed).saturating_add(call.bytes());
        if bytes > POSTPONED_BYTES_MAX {
            calls.refused = calls.refused.saturating_add(1);
            return Err(call);
        }
        self.postponed_bytes.store(bytes, Relaxed);
        match again {
            true => calls.queue.push_front(call),
            false => calls.queue.push_back(call),
        }
        drop(exports);
        // one that others wait for may have ended meanwhile
        self.admit(export);
        Ok(())
    }

    /// Resumes calls of an export's queue: as many as may block now, all if it hangs.
    pub fn admit(self: &Arc<Self>, export: u16) {
        let mut resumed = Vec::new();
        let mut exports = lock(&self.exports);
        if let Some(calls) = exports.get_mut(&export) {
            let share = self.share.load(Relaxed);
            let hangs = calls.until_hung().is_none();
            while hangs || calls.calls.len().saturating_add(calls.resumed) < share {
                let Some(call) = calls.queue.pop_front() else { break };
                let bytes = self.postponed_bytes.load(Relaxed).saturating_sub(call.bytes());
                self.postponed_bytes.store(bytes, Relaxed);
                calls.resumed = calls.resumed.saturating_add(1);
                resumed.push(call);
            }
        }
        drop(exports);
        for call in resumed {
            call.resume(ResumePermit { blocked: Arc::downgrade(self), export });
        }
    }

    /// Whether calls are queued.
    pub fn has_postponed(&self) -> bool {
        self.postponed_bytes.load(Relaxed) > 0
    }

    /// Resumes the queued calls of exports that hang, so that they are refused.
    pub fn admit_hung(self: &Arc<Self>) {
        let exports = lock(&self.exports);
        let queued = exports.iter().filter(|(_, calls)| !calls.queue.is_empty());
        let hung = queued.filter(|(_, calls)| calls.until_hung().is_none());
        let hung: Vec<u16> = hung.map(|(export, _)| *export).collect();
        drop(exports);
        hung.into_iter().for_each(|export| self.admit(export));
    }

    /// The oldest blocked call of each connection that has one.
    pub fn oldest_of_conns(&self) -> HashMap<u64, BlockedCallInfo> {
        let exports = lock(&self.exports);
        let mut oldest: HashMap<u64, BlockedCallInfo> = HashMap::new();
        for (export, calls) in exports.iter() {
            for call in &calls.calls {
                let Some(conn) = call.caller.conn else { continue };
                let info = call.info(*export);
                let kept = oldest.entry(conn).or_insert(info);
                if info.age_ms > kept.age_ms {
                    *kept = info;
                }
            }
        }
        oldest
    }

    /// The calls that have slept for at least this long, the oldest first.
    pub fn sleeping(&self, age_min: Duration) -> Vec<SleepingCall> {
        let exports = lock(&self.exports);
        let mut all = Vec::new();
        for (export, calls) in exports.iter() {
            let old = calls.calls.iter().filter(|call| call.since.elapsed() >= age_min);
            all.extend(old.map(|call| SleepingCall {
                id: call.id,
                client: call.caller.addr,
                thread: call.thread,
                info: call.info(*export),
            }));
        }
        drop(exports);
        all.sort_unstable_by_key(|call| std::cmp::Reverse(call.info.age_ms));
        all
    }

    /// The exports in which calls block or were refused, by number.
    pub fn exports(&self) -> Vec<BlockedExport> {
        let exports = lock(&self.exports);
        let mut all: Vec<BlockedExport> = exports
            .iter()
            .filter(|(_, calls)| {
                !calls.calls.is_empty() || !calls.queue.is_empty() || calls.refused > 0
            })
            .map(|(export, calls)| calls.info(*export))
            .collect();
        drop(exports);
        all.sort_unstable_by_key(|info| info.export);
        all
    }
}

impl BlockedCall {
    fn info(&self, export: u16) -> BlockedCallInfo {
        let Procedure { program, version, procedure } = self.procedure;
        let age_ms = u64::try_from(self.since.elapsed().as_millis()).unwrap_or(u64::MAX);
        BlockedCallInfo { export, age_ms, program, version, procedure }
    }
}

impl ExportCalls {
    fn info(&self, export: u16) -> BlockedExport {
        let oldest = self.oldest();
        let age = oldest.map_or(Duration::ZERO, |call| call.since.elapsed());
        let Procedure { program, version, procedure } =
            oldest.map_or_else(Procedure::default, |call| call.procedure);
        BlockedExport {
            export,
            calls: self.calls.len(),
            waiting: self.waiting.saturating_add(self.queue.len()),
            oldest_ms: u64::try_from(age.as_millis()).unwrap_or(u64::MAX),
            program,
            version,
            procedure,
            refused: self.refused,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{
        BlockPermit, BlockedCalls, Caller, Entry, HUNG_AFTER, Postponed, Procedure, ResumePermit,
        Waits,
    };
    use crate::sync::lock;
    use std::sync::{Arc, Mutex};
    use std::time::Instant;

    fn enter(
        blocked: &Arc<BlockedCalls>,
        export: u16,
        procedure: Procedure,
        caller: Caller,
    ) -> Option<BlockPermit<'_>> {
        match blocked.enter(export, procedure, caller, (Waits::InThread, None)) {
            Entry::Permitted(permit) => Some(permit),
            Entry::Full | Entry::Refused => None,
        }
    }

    /// Keeps its permit when it is resumed.
    struct Queued(usize, Arc<Mutex<Vec<(usize, ResumePermit)>>>);

    impl Postponed for Queued {
        fn bytes(&self) -> usize {
            100
        }

        fn resume(self: Box<Self>, resume_permit: ResumePermit) {
            lock(&self.1).push((self.0, resume_permit));
        }
    }

    #[test]
    fn postponed_calls_are_resumed_in_order_as_others_end() {
        let blocked = BlockedCalls::new(2);
        let (read, caller) = (Procedure::default(), Caller::default());
        let postponing =
            |resume_permit| blocked.enter(7, read, caller, (Waits::Postponed, resume_permit));
        let Entry::Permitted(first) = postponing(None) else { panic!("there is room") };
        let Entry::Permitted(second) = postponing(None) else { panic!("there is room") };
        let resumed = Arc::default();
        for number in 0..3 {
            assert!(matches!(postponing(None), Entry::Full));
            let call = Box::new(Queued(number, Arc::clone(&resumed)));
            assert!(blocked.postpone(7, call, false).is_ok());
        }
        assert_eq!((blocked.exports()[0].calls, blocked.exports()[0].waiting), (2, 3));
        assert!(lock(&resumed).is_empty() && blocked.has_postponed());
        drop(first);
        let (number, resume_permit) = lock(&resumed).pop().unwrap();
        assert_eq!(number, 0);
        assert!(matches!(postponing(None), Entry::Full), "the place is that of the resumed call");
        let Entry::Permitted(third) = postponing(Some(resume_permit)) else {
            panic!("it has its permit")
        };
        assert!(lock(&resumed).is_empty(), "two block");
        drop(second);
        let (number, resume_permit) = lock(&resumed).pop().unwrap();
        assert_eq!(number, 1);
        // it ends without having blocked
        drop(resume_permit);
        assert_eq!(lock(&resumed).pop().map(|(number, _)| number), Some(2));
        drop(third);
        assert!(!blocked.has_postponed() && blocked.exports().is_empty());
    }

    #[test]
    fn postponed_calls_of_a_hung_export_are_resumed_to_be_refused() {
        let blocked = BlockedCalls::new(1);
        let (read, caller) = (Procedure::default(), Caller::default());
        let Entry::Permitted(held) = blocked.enter(7, read, caller, (Waits::Postponed, None))
        else {
            panic!("there is room")
        };
        let resumed = Arc::default();
        for number in 0..4 {
            let call = Box::new(Queued(number, Arc::clone(&resumed)));
            assert!(blocked.postpone(7, call, false).is_ok());
        }
        blocked.admit_hung();
        assert!(lock(&resumed).is_empty(), "it does not hang yet");
        std::thread::sleep(HUNG_AFTER);
        blocked.admit_hung();
        let calls = std::mem::take(&mut *lock(&resumed));
        assert_eq!(calls.iter().map(|(number, _)| *number).collect::<Vec<_>>(), [0, 1, 2, 3]);
        for (_, resume_permit) in calls {
            let entry = blocked.enter(7, read, caller, (Waits::Postponed, Some(resume_permit)));
            assert!(matches!(entry, Entry::Refused));
        }
        assert_eq!((blocked.exports()[0].refused, blocked.has_postponed()), (4, false));
        drop(held);
    }

    #[test]
    fn only_some_calls_wait_in_their_threads() {
        let blocked = BlockedCalls::new(4);
        let by = || enter(&blocked, 7, Procedure::default(), Caller::default());
        let held: Vec<_> = (0..4).map(|_| by().unwrap()).collect();
        std::thread::scope(|scope| {
            scope.spawn(|| assert!(by().is_some(), "it waits"));
            while blocked.exports()[0].waiting == 0 {
                std::thread::yield_now();
            }
            assert!(by().is_none(), "at once");
            drop(held);
        });
    }

    #[test]
    fn calls_beyond_the_share_wait_for_others_to_end() {
        let blocked = BlockedCalls::new(1);
        let first = enter(&blocked, 7, Procedure::default(), Caller::default()).unwrap();
        assert!(
            enter(&blocked, 8, Procedure::default(), Caller::default()).is_some(),
            "another export"
        );
        let theirs = Arc::clone(&blocked);
        let second = std::thread::spawn(move || {
            enter(&theirs, 7, Procedure::default(), Caller::default()).is_some()
        });
        while blocked.exports()[0].waiting == 0 {
            std::thread::yield_now();
        }
        drop(first);
        assert!(second.join().unwrap());
        assert!(blocked.exports().is_empty());
    }

    #[test]
    fn calls_beyond_the_share_of_a_hung_export_are_refused() {
        let blocked = BlockedCalls::new(2);
        let read = Procedure { program: 100_003, version: 3, procedure: 6 };
        let held = [
            enter(&blocked, 1, read, Caller::default()).unwrap(),
            enter(&blocked, 1, read, Caller::default()).unwrap(),
        ];
        let start = Instant::now();
        assert!(enter(&blocked, 1, read, Caller::default()).is_none());
        assert!(start.elapsed() > HUNG_AFTER / 2, "it waited first");
        assert!(enter(&blocked, 1, read, Caller::default()).is_none(), "at once");
        let info = blocked.exports()[0];
        assert_eq!((info.export, info.calls, info.refused, info.procedure), (1, 2, 2, 6));
        assert!(u128::from(info.oldest_ms) >= HUNG_AFTER.as_millis());
        blocked.set_share(3);
        assert!(enter(&blocked, 1, read, Caller::default()).is_some());
        drop(held);
        assert_eq!(blocked.exports()[0].calls, 0);
    }

    #[test]
    fn the_oldest_call_of_each_connection_is_found() {
        let blocked = BlockedCalls::new(9);
        let read = Procedure { program: 100_003, version: 3, procedure: 6 };
        let addr = "192.0.2.7:700".parse().ok();
        let by = |conn| Caller { conn: Some(conn), addr };
        let first = enter(&blocked, 1, read, by(4));
        std::thread::sleep(std::time::Duration::from_millis(20));
        let later = [
            enter(&blocked, 2, Procedure::default(), by(4)),
            enter(&blocked, 2, read, by(5)),
            enter(&blocked, 2, read, Caller::default()),
        ];
        let oldest = blocked.oldest_of_conns();
        assert_eq!(oldest.len(), 2);
        assert_eq!((oldest[&4].export, oldest[&4].procedure), (1, 6));
        let sleeping = blocked.sleeping(std::time::Duration::from_millis(15));
        assert_eq!((sleeping.len(), sleeping[0].client), (1, addr));
        assert_eq!(sleeping[0].thread, sys::thread::ThreadNumber::own());
        assert_eq!(blocked.sleeping(std::time::Duration::ZERO).len(), 4);
        assert!(oldest[&4].age_ms >= 20 && oldest[&4].age_ms >= oldest[&5].age_ms);
        drop(first);
        assert_eq!(blocked.oldest_of_conns()[&4].export, 2);
        drop(later);
        assert!(blocked.oldest_of_conns().is_empty());
    }

    #[test]
    fn a_procedure_is_read_from_a_call_header() {
        let call: Vec<u8> =
            [9, 0, 2, 100_003, 3, 6].into_iter().flat_map(u32::to_be_bytes).collect();
        let read = Procedure { program: 100_003, version: 3, procedure: 6 };
        assert_eq!(Procedure::of(&call), read);
        assert_eq!(Procedure::of(&call[..14]), Procedure::default());
    }
}
