//! Which copies there are, whose turn it is, and which outcomes are kept; without I/O.
//!
//! Invariants: a copy is in the queue of its export exactly while it waits for its turn, but for those that were ended
//! meanwhile, which are skipped; each queue with a copy that waits or runs has a thread; nothing grows beyond the limits.

use proto::nfs4::Nfsstat4;
use state::FileKey;
use state::v4::{Principal, Stateid, V4State};
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use vfs::Verifier;

/// Copies of a client that are under way.
const PER_CLIENT: usize = 16;
/// Copies under way within an export.
const PER_EXPORT: usize = 64;
/// Copies under way in all.
const IN_ALL: usize = 1024;
/// Copies of a client with those whose outcome is kept; beyond it the oldest outcome that it knows goes first.
const KEPT_PER_CLIENT: usize = 64;
/// Copies of all clients with those whose outcome is kept.
const KEPT_IN_ALL: usize = 8192;
/// Threads of an export, each of which has one step under way: 8 MiB.
pub(super) const THREADS_PER_EXPORT: usize = 2;
/// Threads in all; an export gets its second one while less than half of them run.
const THREADS: usize = 32;
/// How long it takes until a client is told again that could not be reached.
const TELL_AGAIN_MS: u64 = 5_000;
/// How often it is looked for clients that are gone.
const LOOK_MS: u64 = 1_000;

/// What came of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::v4) enum Step {
    More,
    /// The file system wants to be asked again.
    Later,
    Done,
    /// The copy may not go on.
    Stopped(Nfsstat4),
    /// There is nobody to tell.
    ClientGone,
    Failed(Nfsstat4),
}

/// The files of a copy, and what gives the right to them.
pub(in crate::v4) trait CopyWork: Send {
    /// Copies the next part, if the client still may. `buffer` can be used again.
    fn step(&mut self, state: &V4State, buffer: &mut Vec<u8>) -> Step;
    /// Bytes copied until now.
    fn copied(&self) -> u64;
}

/// How far a copy is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::v4) struct Progress {
    pub copied: u64,
    /// How it has ended, if it has.
    pub status: Option<Nfsstat4>,
}

/// What does not change about a copy.
pub(in crate::v4) struct CopyFacts {
    pub stateid: Stateid,
    pub client: u64,
    /// Who has begun it.
    pub principal: Principal,
    /// The target.
    pub file: FileKey,
    /// The target, as the client names it.
    pub handle: Box<[u8]>,
    /// The export, by its number in handles.
    pub export: u32,
    pub export_path: String,
    /// The source and the target on this machine.
    pub files: [Option<String>; 2],
    pub total: u64,
    pub verifier: Verifier,
    pub begun_ms: u64,
}

/// A copy.
pub(in crate::v4) struct AsyncCopy {
    pub facts: CopyFacts,
    pub copied: AtomicU64,
    /// `None` when it has ended.
    work: Mutex<Option<Box<dyn CopyWork>>>,
}

impl AsyncCopy {
    pub fn new(facts: CopyFacts, work: Box<dyn CopyWork>) -> Arc<Self> {
        let copied = AtomicU64::new(work.copied());
        Arc::new(Self { facts, copied, work: Mutex::new(Some(work)) })
    }

    /// Makes a step.
    pub fn step(&self, state: &V4State, buffer: &mut Vec<u8>) -> Step {
        let mut work = self.work.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(work) = work.as_mut() else { return Step::Stopped(Nfsstat4::BadStateid) };
        let step = match work.step(state, buffer) {
            Step::Stopped(_) if !state.has_client(self.facts.client) => Step::ClientGone,
            step => step,
        };
        self.copied.store(work.copied(), Relaxed);
        step
    }

    /// Lets go of its files.
    pub fn release(&self) {
        let work = self.work.lock().unwrap_or_else(PoisonError::into_inner).take();
        drop(work);
    }
}

#[cfg(test)]
impl AsyncCopy {
    /// The copy of this number, without work.
    fn of(number: u8, client: u64, export: u32) -> Arc<Self> {
        let facts = CopyFacts {
            stateid: Stateid { seqid: 1, other: [number; 12] },
            client,
            principal: Principal { flavor: 1, user: 0 },
            file: FileKey::new(b"file").unwrap(),
            handle: Box::default(),
            export,
            export_path: String::new(),
            files: [None, None],
            total: 10,
            verifier: [0; 8],
            begun_ms: 0,
        };
        Arc::new(Self { facts, copied: AtomicU64::new(0), work: Mutex::new(None) })
    }
}

/// Whether a client knows how its copy has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Told {
    /// It is being told.
    Calling,
    /// It could not be told.
    No { again_ms: u64 },
    /// It is, since then.
    Since(u64),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Waiting,
    Running,
    Ended { status: Nfsstat4, at_ms: u64, told: Told },
}

struct Entry {
    copy: Arc<AsyncCopy>,
    phase: Phase,
    /// Nobody wants to hear of it any more.
    is_cancelled: bool,
}

impl Entry {
    const fn is_under_way(&self) -> bool {
        matches!(self.phase, Phase::Waiting | Phase::Running)
    }
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<Arc<AsyncCopy>>,
    threads: usize,
}

/// The outcome of [`Table::cancel`].
pub(super) enum Cancel {
    /// It is no more; whether it was under way.
    Ended(Arc<AsyncCopy>, bool),
    /// A step is being made, after which it ends.
    Running,
    NoSuchCopy,
}

/// What becomes of a copy after a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum After {
    GoesOn,
    Ended,
    Cancelled,
}

/// The outcome of [`Table::sweep`].
#[derive(Default)]
pub(super) struct Swept {
    pub forgotten: Vec<Arc<AsyncCopy>>,
    /// How many of these were under way.
    pub cancelled: u64,
    pub tell_again: Vec<(Arc<AsyncCopy>, Nfsstat4)>,
    /// When to look again.
    pub next_ms: Option<u64>,
}

/// All copies.
#[derive(Default)]
pub(super) struct Table {
    entries: HashMap<[u8; 12], Entry>,
    queues: HashMap<u32, Queue>,
    threads: usize,
}

impl Table {
    pub fn under_way(&self) -> impl Iterator<Item = &Arc<AsyncCopy>> {
        self.entries.values().filter(|entry| entry.is_under_way()).map(|entry| &entry.copy)
    }

    /// Lets a copy in, if there is room: whether a thread is to be started for it.
    pub fn admit(&mut self, copy: &Arc<AsyncCopy>) -> Option<bool> {
        let count = |is_ours: &dyn Fn(&AsyncCopy) -> bool| {
            self.under_way().filter(|copy| is_ours(copy)).take(IN_ALL).count()
        };
        let has_room = self.entries.len() < KEPT_IN_ALL
            && count(&|_| true) < IN_ALL
            && count(&|other| other.facts.client == copy.facts.client) < PER_CLIENT
            && count(&|other| other.facts.export == copy.facts.export) < PER_EXPORT;
        let running = self.queues.get(&copy.facts.export).map_or(0, |queue| queue.threads);
        let most = if running == 0 { THREADS } else { THREADS / 2 };
        let starts = running < THREADS_PER_EXPORT && self.threads < most;
        // one that nobody copies would wait for ever
        if !has_room || running == 0 && !starts || !self.make_room_for_outcome(copy.facts.client) {
            return None;
        }
        let queue = self.queues.entry(copy.facts.export).or_default();
        queue.waiting.push_back(Arc::clone(copy));
        if starts {
            queue.threads = queue.threads.saturating_add(1);
            self.threads = self.threads.saturating_add(1);
        }
        let entry = Entry { copy: Arc::clone(copy), phase: Phase::Waiting, is_cancelled: false };
        self.entries.insert(copy.facts.stateid.other, entry);
        Some(starts)
    }

    /// Forgets the oldest outcome that a client knows, if it has too many.
    fn make_room_for_outcome(&mut self, client: u64) -> bool {
        let ours = || self.entries.iter().filter(|(_, entry)| entry.copy.facts.client == client);
        if ours().count() < KEPT_PER_CLIENT {
            return true;
        }
        let known_since = |entry: &Entry| match entry.phase {
            Phase::Ended { told: Told::Since(at_ms), .. } => Some(at_ms),
            _ => None,
        };
        let known = ours().filter_map(|(other, entry)| Some((known_since(entry)?, *other)));
        let oldest = known.min();
        oldest.is_some_and(|(_, other)| self.entries.remove(&other).is_some())
    }

    /// The thread that was to be started for this copy could not be: whether another makes its steps. If none does it is
    /// let go, and others that have come since and waited for that thread end: their clients are told at the next look.
    pub fn lost_thread(&mut self, copy: &AsyncCopy, now_ms: u64) -> bool {
        self.threads = self.threads.saturating_sub(1);
        let Some(queue) = self.queues.get_mut(&copy.facts.export) else { return false };
        queue.threads = queue.threads.saturating_sub(1);
        if queue.threads > 0 {
            return true;
        }
        let waiting = self.queues.remove(&copy.facts.export).map(|queue| queue.waiting);
        self.entries.remove(&copy.facts.stateid.other);
        for left in waiting.iter().flatten() {
            if let Some(entry) = self.entries.get_mut(&left.facts.stateid.other) {
                // the client asks for the rest
                let status = match left.copied.load(Relaxed) {
                    0 => Nfsstat4::Delay,
                    _ => Nfsstat4::Ok,
                };
                let told = Told::No { again_ms: now_ms };
                entry.phase = Phase::Ended { status, at_ms: now_ms, told };
            }
        }
        false
    }

    /// The copy of an export whose turn it is; `None` if there is none, and the thread is to end.
    pub fn next(&mut self, export: u32) -> Option<Arc<AsyncCopy>> {
        while let Some(copy) = self.queues.get_mut(&export)?.waiting.pop_front() {
            let entry = self.entries.get_mut(&copy.facts.stateid.other);
            if let Some(entry) = entry.filter(|entry| entry.phase == Phase::Waiting) {
                entry.phase = Phase::Running;
                return Some(copy);
            }
        }
        self.threads = self.threads.saturating_sub(1);
        let queue = self.queues.get_mut(&export)?;
        queue.threads = queue.threads.saturating_sub(1);
        if queue.threads == 0 {
            self.queues.remove(&export);
        }
        None
    }

    /// Nobody waits for a copy any more.
    pub fn abandon(&mut self, copy: &AsyncCopy) {
        if let Some(entry) = self.entries.get_mut(&copy.facts.stateid.other) {
            entry.is_cancelled = true;
        }
    }

    /// A step of a copy has been made, with which it has ended if there is a status.
    pub fn step_ended(
        &mut self,
        copy: &Arc<AsyncCopy>,
        status: Option<Nfsstat4>,
        now_ms: u64,
    ) -> After {
        let Some(entry) = self.entries.get_mut(&copy.facts.stateid.other) else {
            return After::Cancelled;
        };
        if entry.is_cancelled {
            let status = Nfsstat4::BadStateid;
            let told = Told::Since(now_ms);
            entry.phase = Phase::Ended { status, at_ms: now_ms, told };
            return After::Cancelled;
        }
        let Some(status) = status else {
            entry.phase = Phase::Waiting;
            if let Some(queue) = self.queues.get_mut(&copy.facts.export) {
                queue.waiting.push_back(Arc::clone(copy));
            }
            return After::GoesOn;
        };
        entry.phase = Phase::Ended { status, at_ms: now_ms, told: Told::Calling };
        After::Ended
    }

    /// The copy of this client and name to this file. A version of 0 is none (RFC 7862 §4.8).
    fn find(&mut self, (client, stateid): (u64, Stateid), file: &FileKey) -> Option<&mut Entry> {
        let entry = self.entries.get_mut(&stateid.other)?;
        let copy = &entry.copy;
        let is_it = copy.facts.client == client
            && copy.facts.stateid == stateid
            && copy.facts.file == *file;
        is_it.then_some(entry)
    }

    pub fn progress(&mut self, name: (u64, Stateid), file: &FileKey) -> Option<Progress> {
        let entry = self.find(name, file).filter(|entry| !entry.is_cancelled)?;
        let status = match entry.phase {
            Phase::Waiting | Phase::Running => None,
            Phase::Ended { status, .. } => Some(status),
        };
        Some(Progress { copied: entry.copy.copied.load(Relaxed), status })
    }

    /// Ends a copy for whoever has begun it, or forgets its outcome.
    pub fn cancel(&mut self, name: (u64, Stateid), file: &FileKey, principal: Principal) -> Cancel {
        let entry = self.find(name, file).filter(|entry| entry.copy.facts.principal == principal);
        let Some(entry) = entry else { return Cancel::NoSuchCopy };
        if entry.phase == Phase::Running {
            entry.is_cancelled = true;
            return Cancel::Running;
        }
        match self.entries.remove(&name.1.other) {
            Some(entry) => {
                let was_under_way = entry.is_under_way();
                Cancel::Ended(entry.copy, was_under_way)
            }
            None => Cancel::NoSuchCopy,
        }
    }

    pub fn is_running(&self, other: &[u8; 12]) -> bool {
        self.entries.get(other).is_some_and(|entry| entry.phase == Phase::Running)
    }

    /// A client has been told how a copy has ended, or could not be.
    pub fn answered(&mut self, other: &[u8; 12], has_told: bool, now_ms: u64) {
        if let Some(Entry { phase: Phase::Ended { told, .. }, .. }) = self.entries.get_mut(other) {
            *told = match has_told {
                true => Told::Since(now_ms),
                false => Told::No { again_ms: now_ms.saturating_add(TELL_AGAIN_MS) },
            };
        }
    }

    /// The clients that have copies.
    pub fn clients(&self) -> Vec<u64> {
        let mut clients: Vec<u64> =
            self.entries.values().map(|entry| entry.copy.facts.client).collect();
        clients.sort_unstable();
        clients.dedup();
        clients
    }

    /// Forgets the copies of clients that are gone, which are in order, and outcomes whose time is over.
    pub fn sweep(&mut self, now_ms: u64, lease_ms: u64, gone: &[u64]) -> Swept {
        let mut swept = Swept::default();
        let mut next_ms: Option<u64> = None;
        self.entries.retain(|_, entry| {
            let is_gone = gone.binary_search(&entry.copy.facts.client).is_ok();
            let ends_ms = match &mut entry.phase {
                // the thread that runs it lets it go
                Phase::Running => {
                    entry.is_cancelled |= is_gone;
                    None
                }
                Phase::Waiting if is_gone => Some(0),
                Phase::Waiting => None,
                Phase::Ended { .. } if is_gone => Some(0),
                Phase::Ended { told: Told::Since(at_ms), .. } => {
                    Some(at_ms.saturating_add(lease_ms))
                }
                Phase::Ended { at_ms, told, status } => {
                    if matches!(told, Told::No { again_ms } if *again_ms <= now_ms) {
                        *told = Told::Calling;
                        swept.tell_again.push((Arc::clone(&entry.copy), *status));
                    }
                    Some(at_ms.saturating_add(lease_ms.saturating_mul(2)))
                }
            };
            if ends_ms.is_some_and(|ends_ms| ends_ms <= now_ms) {
                swept.cancelled = swept.cancelled.saturating_add(entry.is_under_way().into());
                swept.forgotten.push(Arc::clone(&entry.copy));
                return false;
            }
            next_ms = Some(now_ms.saturating_add(LOOK_MS));
            true
        });
        swept.next_ms = next_ms;
        swept
    }
}

#[cfg(test)]
mod tests {
    use super::{
        After, Arc, AsyncCopy, IN_ALL, KEPT_PER_CLIENT, LOOK_MS, Nfsstat4, PER_CLIENT, PER_EXPORT,
        TELL_AGAIN_MS, THREADS, THREADS_PER_EXPORT, Table,
    };

    const LEASE_MS: u64 = 60_000;

    /// Copies with numbers of their own, of any number of clients and exports.
    #[derive(Default)]
    struct Numbered {
        table: Table,
        next: u64,
    }

    impl Numbered {
        fn copy(&mut self, client: u64, export: u32) -> Arc<AsyncCopy> {
            self.next += 1;
            let mut copy = AsyncCopy::of(0, client, export);
            let other = &mut Arc::get_mut(&mut copy).unwrap().facts.stateid.other;
            other[..8].copy_from_slice(&self.next.to_be_bytes());
            copy
        }

        fn admit(&mut self, client: u64, export: u32) -> Option<bool> {
            let copy = self.copy(client, export);
            self.table.admit(&copy)
        }

        /// A copy that has ended.
        fn ended(&mut self, client: u64, now_ms: u64) -> Arc<AsyncCopy> {
            let copy = self.copy(client, 1);
            assert!(self.table.admit(&copy).is_some());
            while self.table.next(1).is_some() {}
            assert_eq!(self.table.step_ended(&copy, Some(Nfsstat4::Ok), now_ms), After::Ended);
            copy
        }
    }

    #[test]
    fn copies_take_turns() {
        let mut table = Table::default();
        let copies = [1, 2, 3].map(|number| AsyncCopy::of(number, 1, 7));
        let starts: Vec<_> = copies.iter().map(|copy| table.admit(copy)).collect();
        assert_eq!(starts, [Some(true), Some(true), Some(false)], "two threads");
        for round in 0..2 {
            for copy in &copies {
                let next = table.next(7).unwrap();
                assert_eq!(next.facts.stateid, copy.facts.stateid, "round {round}");
                assert!(table.is_running(&copy.facts.stateid.other));
                assert_eq!(table.step_ended(copy, None, 0), After::GoesOn);
            }
        }
        for copy in &copies {
            table.next(7).unwrap();
            assert_eq!(table.step_ended(copy, Some(Nfsstat4::Ok), 5), After::Ended);
        }
        assert!(table.next(7).is_none() && table.next(7).is_none());
        assert_eq!((table.threads, table.queues.len(), table.under_way().count()), (0, 0, 0));
    }

    #[test]
    fn copies_of_a_client_an_export_and_all_are_limited() {
        let mut of_client = Numbered::default();
        for _ in 0..PER_CLIENT {
            assert!(of_client.admit(1, 1).is_some());
        }
        assert_eq!(of_client.admit(1, 2), None);
        assert_eq!(of_client.admit(2, 2), Some(true));
        let mut of_export = Numbered::default();
        for client in 0..PER_EXPORT {
            assert!(of_export.admit(client as u64, 1).is_some());
        }
        assert_eq!(of_export.admit(1000, 1), None);
        assert_eq!(of_export.admit(1000, 2), Some(true));
        let mut all = Numbered::default();
        for at in 0..IN_ALL {
            assert!(all.admit(at as u64, (at / PER_EXPORT) as u32).is_some());
        }
        assert_eq!(all.admit(5000, 5000), None);
    }

    #[test]
    fn an_export_without_a_thread_takes_no_copy() {
        let mut copies = Numbered::default();
        for export in 0..THREADS as u32 {
            assert_eq!(copies.admit(u64::from(export), export), Some(true));
        }
        assert_eq!(copies.table.threads, THREADS);
        assert_eq!(copies.admit(100, 100), None, "it would wait for ever");
        assert_eq!(copies.admit(100, 3), Some(false), "its export has one");
        // the second thread of an export leaves half of them to the firsts of others
        let mut few = Numbered::default();
        let exports = THREADS / 2 / THREADS_PER_EXPORT;
        for export in 0..exports as u32 {
            assert_eq!(few.admit(u64::from(export), export), Some(true));
            assert_eq!(few.admit(u64::from(export), export), Some(true));
        }
        assert_eq!(few.admit(100, 100), Some(true));
        assert_eq!(few.admit(100, 100), Some(false));
    }

    #[test]
    fn a_copy_whose_thread_does_not_start_is_let_go() {
        let mut table = Table::default();
        let [one, two] = [1, 2].map(|number| AsyncCopy::of(number, 1, 7));
        assert_eq!(table.admit(&one), Some(true));
        assert!(!table.lost_thread(&one, 0));
        assert_eq!((table.threads, table.entries.len(), table.queues.len()), (0, 0, 0));
        assert_eq!((table.admit(&one), table.admit(&two)), (Some(true), Some(true)));
        assert!(table.lost_thread(&two, 0), "another makes its steps");
        assert_eq!((table.threads, table.entries.len()), (1, 2));
    }

    /// Another export's threads leave none but the first to this one, on which a second copy has come to wait meanwhile.
    #[test]
    fn a_copy_that_waits_for_a_thread_that_does_not_start_ends() {
        let mut copies = Numbered::default();
        for export in 0..THREADS as u32 / 2 {
            copies.admit(u64::from(export), export).unwrap();
        }
        let [first, second] = [(); 2].map(|()| copies.copy(50, 99));
        assert_eq!(copies.table.admit(&first), Some(true));
        assert_eq!(copies.table.admit(&second), Some(false));
        assert!(!copies.table.lost_thread(&first, 5));
        let swept = copies.table.sweep(5, LEASE_MS, &[]);
        let told: Vec<_> =
            swept.tell_again.iter().map(|(copy, status)| (copy.facts.stateid, *status)).collect();
        assert_eq!(told, [(second.facts.stateid, Nfsstat4::Delay)]);
    }

    #[test]
    fn outcomes_that_the_client_knows_make_room_the_oldest_first() {
        let mut copies = Numbered::default();
        let ended: Vec<_> = (0..KEPT_PER_CLIENT as u64).map(|at| copies.ended(1, at)).collect();
        assert_eq!(copies.admit(1, 1), None);
        assert!(copies.admit(2, 1).is_some(), "another client");
        copies.table.answered(&ended[5].facts.stateid.other, true, 200);
        copies.table.answered(&ended[3].facts.stateid.other, true, 300);
        assert!(copies.admit(1, 1).is_some());
        assert!(!copies.table.entries.contains_key(&ended[5].facts.stateid.other));
        assert!(copies.admit(1, 1).is_some());
        assert_eq!(copies.admit(1, 1), None);
    }

    #[test]
    fn a_client_is_told_again_and_its_outcome_kept_for_a_lease() {
        let mut copies = Numbered::default();
        let copy = copies.ended(1, 1000);
        let other = copy.facts.stateid.other;
        let told_again = |copies: &mut Numbered, now_ms| {
            let swept = copies.table.sweep(now_ms, LEASE_MS, &[]);
            (swept.tell_again.len(), swept.forgotten.len(), swept.next_ms)
        };
        assert_eq!(told_again(&mut copies, 1000), (0, 0, Some(1000 + LOOK_MS)), "being told");
        copies.table.answered(&other, false, 2000);
        assert_eq!(told_again(&mut copies, 2001).0, 0);
        assert_eq!(told_again(&mut copies, 2000 + TELL_AGAIN_MS).0, 1);
        assert_eq!(told_again(&mut copies, 2001 + TELL_AGAIN_MS).0, 0, "being told again");
        copies.table.answered(&other, true, 10_000);
        assert_eq!(told_again(&mut copies, 9999 + LEASE_MS).1, 0);
        assert_eq!(told_again(&mut copies, 10_000 + LEASE_MS), (0, 1, None));
        // one that nobody could be told of
        let silent = copies.ended(1, 1000);
        copies.table.answered(&silent.facts.stateid.other, false, 1000);
        assert_eq!(told_again(&mut copies, 999 + 2 * LEASE_MS).1, 0);
        assert_eq!(told_again(&mut copies, 1000 + 2 * LEASE_MS).1, 1);
    }

    #[test]
    fn copies_of_a_client_that_is_gone_are_let_go() {
        let mut copies = Numbered::default();
        let [running, waiting, others] =
            [(1, 7), (1, 7), (2, 7)].map(|(client, export)| copies.copy(client, export));
        for copy in [&running, &waiting, &others] {
            copies.table.admit(copy).unwrap();
        }
        copies.table.next(7).unwrap();
        let swept = copies.table.sweep(0, LEASE_MS, &[1]);
        assert_eq!((swept.forgotten.len(), swept.cancelled), (1, 1));
        assert_eq!(copies.table.step_ended(&running, None, 5), After::Cancelled);
        assert_eq!(
            copies.table.next(7).unwrap().facts.stateid,
            others.facts.stateid,
            "the other is skipped"
        );
        let swept = copies.table.sweep(10, LEASE_MS, &[1]);
        assert_eq!((swept.forgotten.len(), swept.cancelled), (1, 0));
        assert_eq!(copies.table.entries.len(), 1);
    }
}
