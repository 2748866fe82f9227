//! Syncs of one open file: one at a time, each shared by all callers that wait for it (group commit).
//!
//! The kernel reports data that could not be written back once for each open file description, and the
//! calls of all clients share the file's. If two of them synced at once, one would get the error, and
//! the other, whose data may be lost, success. Therefore:
//!
//! - A caller that comes while a sync runs waits for the *next* one: only a sync that begins after the
//!   data is in the page cache is a promise for it. All who wait share that sync; the first of them runs
//!   it, with the largest extent that any of them needs.
//! - A sync that fails is reported to all who share it, and what else follows from it (another write
//!   verifier) has happened before the next begins: whoever commits after it finds the new verifier.
//! - A failed sync may also have lost the data of somebody who came while it ran, and whose own sync
//!   succeeds: the kernel reported the error once. A stable WRITE notes before it writes how many syncs
//!   had failed ([`GroupSync::failed`]); if there are more once it is synced, it has failed.
//!
//! Sixteen clients that write stably to one file need two syncs, not sixteen.
//!
//! The lock guards the counts; no thread syncs or writes under it. Waiting blocks: the caller has
//! called `will_block` before.

use std::io;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// The extent of a sync.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Extent {
    /// The data of a range: where it begins, and how many bytes.
    Range(u64, u64),
    /// All data, and the attributes that are needed to read it back.
    Data,
    /// The whole file.
    File,
}

/// The syncs of one file.
#[derive(Debug, Default)]
pub struct GroupSync {
    state: Mutex<State>,
    /// A sync has ended.
    ended: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Syncs that have begun, and whether the last one runs.
    begun: u64,
    running: bool,
    /// The extent that the waiting callers need of the next sync.
    wanted: Option<Extent>,
    /// Number of waiting callers: without any, no wake-up system call is made.
    waiting: usize,
    /// Syncs that have failed.
    failed: u64,
    /// The results of the last 64 syncs, the last one in the lowest bit: 1 is a failure.
    past: u64,
    /// The last failure's error number.
    errno: Option<i32>,
}

impl State {
    /// The result of a sync that has ended. One that is more than 64 syncs ago counts as failed.
    fn result(&self, number: u64) -> io::Result<()> {
        let ago = self.begun.saturating_sub(u64::from(self.running)).saturating_sub(number);
        let failed = ago >= u64::from(u64::BITS) || self.past >> ago & 1 == 1;
        let error =
            || self.errno.map_or_else(|| io::ErrorKind::Other.into(), io::Error::from_raw_os_error);
        if failed { Err(error()) } else { Ok(()) }
    }
}

impl GroupSync {
    /// How many syncs have failed so far.
    pub fn failed(&self) -> u64 {
        self.lock().failed
    }

    /// Puts on disk what was in the page cache when it was called, and as much else as others need:
    /// says how much that was. `sync` is what does it, and all that follows from a failure.
    ///
    /// # Errors
    /// Those of `sync`, also where another caller has run it.
    pub fn sync(
        &self,
        extent: Extent,
        sync: impl FnOnce(Extent) -> io::Result<Extent>,
    ) -> io::Result<Extent> {
        let mut state = self.lock();
        // the running one may have started before the data was written
        let own = state.begun.saturating_add(1);
        // those who share a sync have no range in common
        let shared = extent.max(Extent::Data);
        if state.running {
            state.wanted = state.wanted.max(Some(shared));
        }
        loop {
            let is_over = state.begun > own || state.begun == own && !state.running;
            if is_over {
                return state.result(own).map(|()| shared);
            }
            if !state.running {
                let extent = state.wanted.take().map_or(extent, |wanted| wanted.max(extent));
                state.running = true;
                state.begun = own;
                drop(state);
                return SyncRun { syncs: self, errno: None, succeeded: false }.run(extent, sync);
            }
            state.waiting = state.waiting.saturating_add(1);
            state = self.ended.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.waiting = state.waiting.saturating_sub(1);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A running sync. It ends when this is dropped, so that no caller waits for ever for one that
/// panicked.
struct SyncRun<'r> {
    syncs: &'r GroupSync,
    errno: Option<i32>,
    succeeded: bool,
}

impl SyncRun<'_> {
    fn run(
        mut self,
        extent: Extent,
        sync: impl FnOnce(Extent) -> io::Result<Extent>,
    ) -> io::Result<Extent> {
        let result = sync(extent);
        self.succeeded = result.is_ok();
        self.errno = result.as_ref().err().and_then(io::Error::raw_os_error);
        result
    }
}

impl Drop for SyncRun<'_> {
    fn drop(&mut self) {
        let mut state = self.syncs.lock();
        state.running = false;
        state.past = state.past << 1 | u64::from(!self.succeeded);
        if !self.succeeded {
            state.failed = state.failed.saturating_add(1);
            state.errno = self.errno;
        }
        let is_awaited = state.waiting > 0;
        drop(state);
        if is_awaited {
            self.syncs.ended.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Extent, GroupSync};
    use std::io;
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
    use std::sync::mpsc::{Receiver, Sender, channel};
    use std::time::Duration;

    const PATIENCE: Duration = Duration::from_secs(20);

    /// A sync that says when it has begun, and gives its result when it is let go.
    fn held(
        result: fn(Extent) -> io::Result<Extent>,
    ) -> (impl FnOnce(Extent) -> io::Result<Extent>, Receiver<()>, Sender<()>) {
        let (began, begin) = channel();
        let (end, ended) = channel();
        let sync = move |extent| {
            began.send(()).unwrap();
            ended.recv_timeout(PATIENCE).unwrap();
            result(extent)
        };
        (sync, begin, end)
    }

    /// Waits until so many wait for the next round of the one that runs.
    fn until(syncs: &GroupSync, wanted: Extent) {
        let begun = std::time::Instant::now();
        while syncs.lock().wanted != Some(wanted) {
            assert!(begun.elapsed() < PATIENCE);
            std::thread::yield_now();
        }
    }

    #[test]
    fn callers_during_a_sync_share_the_next_one() {
        let syncs = GroupSync::default();
        let (run, here) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let (first, begin, end) = held(Ok);
        let next = |extent| {
            run.fetch_add(1, SeqCst);
            Ok(extent)
        };
        std::thread::scope(|scope| {
            let syncs = &syncs;
            let alone = scope.spawn(move || syncs.sync(Extent::Range(0, 1), first).unwrap());
            begin.recv_timeout(PATIENCE).unwrap();
            let (here, next) = (&here, &next);
            let share = |extent| {
                scope.spawn(move || {
                    here.fetch_add(1, SeqCst);
                    (extent, syncs.sync(extent, next).unwrap())
                })
            };
            // it waits for sure before the others come: alone it would stay a range
            let range = share(Extent::Range(5, 5));
            until(syncs, Extent::Data);
            let asked = [Extent::Data, Extent::File, Extent::Data, Extent::File];
            let others = asked.into_iter().chain([Extent::Data; 3]).map(share);
            let shared: Vec<_> = std::iter::once(range).chain(others).collect();
            while here.load(SeqCst) < 8 {
                std::thread::yield_now();
            }
            until(syncs, Extent::File);
            // who says that it is here has not asked yet: one that is slow has a round of its own
            std::thread::sleep(Duration::from_millis(50));
            end.send(()).unwrap();
            assert_eq!(alone.join().unwrap(), Extent::Range(0, 1), "nobody needed more of it");
            for caller in shared {
                let (extent, done) = caller.join().unwrap();
                assert!(done >= extent && done >= Extent::Data);
            }
        });
        assert!((1..8).contains(&run.load(SeqCst)));
        assert_eq!(syncs.failed(), 0);
    }

    #[test]
    fn a_failed_sync_is_reported_to_all_callers_that_share_it() {
        let syncs = GroupSync::default();
        let fails: fn(Extent) -> _ = |_| Err(io::Error::from_raw_os_error(28));
        let (first, begin, end) = held(fails);
        std::thread::scope(|scope| {
            let syncs = &syncs;
            let first = scope.spawn(move || syncs.sync(Extent::Data, first));
            begin.recv_timeout(PATIENCE).unwrap();
            // written while it runs; its own round succeeds
            let before = syncs.failed();
            let second = scope.spawn(move || syncs.sync(Extent::File, Ok));
            until(syncs, Extent::File);
            end.send(()).unwrap();
            assert_eq!(first.join().unwrap().unwrap_err().raw_os_error(), Some(28));
            assert_eq!(second.join().unwrap().unwrap(), Extent::File);
            assert_ne!(syncs.failed(), before);
        });
        // shared: whoever runs it, both learn of it
        let (third, begin, end) = held(Ok);
        std::thread::scope(|scope| {
            let syncs = &syncs;
            scope.spawn(move || syncs.sync(Extent::Data, third).unwrap());
            begin.recv_timeout(PATIENCE).unwrap();
            let sharing = [(); 2].map(|()| scope.spawn(move || syncs.sync(Extent::Data, fails)));
            until(syncs, Extent::Data);
            std::thread::sleep(Duration::from_millis(50));
            end.send(()).unwrap();
            for caller in sharing {
                assert_eq!(caller.join().unwrap().unwrap_err().raw_os_error(), Some(28));
            }
        });
        assert_eq!(syncs.sync(Extent::Data, Ok).unwrap(), Extent::Data);
    }

    #[test]
    fn a_sync_that_panics_has_failed() {
        let syncs = GroupSync::default();
        let panics = || syncs.sync(Extent::Data, |_| panic!("on purpose"));
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(panics)).unwrap_err();
        assert_eq!(syncs.failed(), 1);
        assert_eq!(syncs.sync(Extent::File, Ok).unwrap(), Extent::File);
    }
}
