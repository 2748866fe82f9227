//! Closing descriptors, asking idle ones, and removing files that nobody keeps any more, by threads that nobody waits for: close(2) calls the file system
//! (flush), and one that hangs does not answer.
//!
//! Each backend has a queue, and a queue is worked off by one thread at a time. So a file system that hangs keeps
//! one thread and the descriptors of its own queue, and the others' are closed by others. Threads are started when
//! no idle one is left for a queue, and end after some seconds without work: there are as many as file systems hang,
//! and one or two. How much may wait is bounded by whoever opens ([`CloseQueue::is_stuck`]).
//!
//! Locks: [`CloseQueue::state`] guards what waits in one queue; [`Shared::ready`] the queues that wait for a
//! thread. The first is never held while the second is taken.

use crate::cache::descriptors::Descriptors;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long a thread waits for work before it ends.
const IDLE: Duration = Duration::from_secs(10);
/// A file system that takes longer than this for one descriptor counts as hung.
const STUCK_MS: u64 = 2000;
/// Descriptors that may wait for a hung file system before no more are opened in it.
const STUCK_ENTRIES_MAX: usize = 64;
/// How often it is looked whether all is closed, by who waits for that.
const POLL: Duration = Duration::from_micros(100);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Work for another thread.
enum Work {
    Close(Descriptors),
    Ask(Box<dyn FnOnce() + Send>),
    Remove(Box<dyn FnOnce() + Send>),
}

/// The threads and the queues that wait for one.
pub struct Closers {
    shared: Arc<Shared>,
}

struct Shared {
    ready: Mutex<Ready>,
    wake: Condvar,
    /// Descriptors of all queues that are not closed yet.
    waiting: AtomicUsize,
    begun: Instant,
}

#[derive(Default)]
struct Ready {
    queues: VecDeque<Arc<CloseQueue>>,
    /// Threads that wait for a queue.
    idle: usize,
    /// All threads.
    threads: usize,
}

/// The work for one backend.
pub struct CloseQueue {
    shared: Arc<Shared>,
    state: Mutex<QueueState>,
    /// The queued work, and the current one.
    len: AtomicUsize,
    /// Since when its thread has been at one piece of work, on the clock of [`Shared::begun`], plus one; 0: it is not.
    working_ms: AtomicU64,
}

#[derive(Default)]
struct QueueState {
    work: Vec<Work>,
    /// A thread has it, or it waits for one.
    running: bool,
    /// A query is running or queued.
    asking: bool,
}

impl Default for Closers {
    fn default() -> Self {
        Self {
            shared: Arc::new(Shared {
                ready: Mutex::default(),
                wake: Condvar::new(),
                waiting: AtomicUsize::new(0),
                begun: Instant::now(),
            }),
        }
    }
}

impl Closers {
    /// A queue for a backend.
    pub fn queue(&self) -> Arc<CloseQueue> {
        Arc::new(CloseQueue {
            shared: Arc::clone(&self.shared),
            state: Mutex::default(),
            len: AtomicUsize::new(0),
            working_ms: AtomicU64::new(0),
        })
    }

    /// Waits until everything is closed, for this long at most.
    pub fn wait(&self, patience: Duration) {
        let begun = Instant::now();
        while self.shared.waiting.load(SeqCst) > 0 && begun.elapsed() < patience {
            std::thread::sleep(POLL);
        }
    }
}

impl CloseQueue {
    /// Queues descriptors to be closed.
    pub fn close(self: &Arc<Self>, descriptors: Descriptors) {
        self.shared.waiting.fetch_add(1, SeqCst);
        self.push(Work::Close(descriptors));
    }

    /// Queues a query of the file system, unless the last one has not been answered yet.
    pub fn ask(self: &Arc<Self>, work: impl FnOnce() + Send + 'static) {
        let mut state = lock(&self.state);
        if std::mem::replace(&mut state.asking, true) {
            return;
        }
        drop(state);
        self.push(Work::Ask(Box::new(work)));
    }

    /// Queues the removal of a file, behind what is queued already.
    pub fn remove(self: &Arc<Self>, work: impl FnOnce() + Send + 'static) {
        self.push(Work::Remove(Box::new(work)));
    }

    /// Waits until everything of this backend is closed, for this long at most.
    pub fn wait(&self, patience: Duration) {
        let begun = Instant::now();
        while self.len.load(SeqCst) > 0 && begun.elapsed() < patience {
            std::thread::sleep(POLL);
        }
    }

    /// Whether the file system has not answered for a while, with the maximum number of descriptors
    /// waiting.
    pub fn is_stuck(&self) -> bool {
        self.len.load(Relaxed) > STUCK_ENTRIES_MAX && self.hangs()
    }

    /// Whether the file system has not answered for a while.
    pub fn hangs(&self) -> bool {
        let since_ms = self.working_ms.load(Relaxed);
        since_ms != 0 && self.shared.now_ms().saturating_sub(since_ms) > STUCK_MS
    }

    fn push(self: &Arc<Self>, work: Work) {
        self.len.fetch_add(1, SeqCst);
        let mut state = lock(&self.state);
        state.work.push(work);
        let idle = !std::mem::replace(&mut state.running, true);
        drop(state);
        if idle {
            Shared::run(&self.shared, Arc::clone(self));
        }
    }

    /// Processes the whole queue.
    fn assign_thread(&self) {
        loop {
            let mut state = lock(&self.state);
            let work = std::mem::take(&mut state.work);
            state.running = !work.is_empty();
            drop(state);
            if work.is_empty() {
                return;
            }
            for one in work {
                self.working_ms.store(self.shared.now_ms(), Relaxed);
                self.perform(one);
                self.working_ms.store(0, Relaxed);
                self.len.fetch_sub(1, SeqCst);
            }
        }
    }

    fn perform(&self, work: Work) {
        match work {
            Work::Close(descriptors) => {
                drop(descriptors);
                self.shared.waiting.fetch_sub(1, SeqCst);
            }
            Work::Ask(ask) => {
                ask();
                lock(&self.state).asking = false;
            }
            Work::Remove(remove) => remove(),
        }
    }
}

impl Shared {
    fn now_ms(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX).saturating_add(1)
    }

    /// Assigns a thread to a queue.
    fn run(shared: &Arc<Self>, queue: Arc<CloseQueue>) {
        let mut ready = lock(&shared.ready);
        ready.queues.push_back(queue);
        if ready.queues.len() <= ready.idle {
            shared.wake.notify_one();
            return;
        }
        ready.threads = ready.threads.saturating_add(1);
        drop(ready);
        let theirs = Arc::clone(shared);
        let started = std::thread::Builder::new().name("file-closer".into()).spawn(move || {
            // a worker that starts it acts as a caller
            let _ = sys::identity::act_as_process();
            theirs.serve();
        });
        if started.is_err() {
            shared.process_here();
        }
    }

    /// No thread can be started: another takes the queue when it has time, or else it is processed
    /// here.
    fn process_here(&self) {
        let mut ready = lock(&self.ready);
        ready.threads = ready.threads.saturating_sub(1);
        let queue = if ready.threads == 0 { ready.queues.pop_front() } else { None };
        drop(ready);
        if let Some(queue) = queue {
            queue.assign_thread();
        }
    }

    fn serve(&self) {
        while let Some(queue) = self.next() {
            queue.assign_thread();
        }
    }

    /// The next queue; `None` after a while without any.
    fn next(&self) -> Option<Arc<CloseQueue>> {
        let mut ready = lock(&self.ready);
        let begun = Instant::now();
        loop {
            if let Some(queue) = ready.queues.pop_front() {
                return Some(queue);
            }
            let Some(left) = IDLE.checked_sub(begun.elapsed()) else {
                ready.threads = ready.threads.saturating_sub(1);
                return None;
            };
            ready.idle = ready.idle.saturating_add(1);
            let waited = self.wake.wait_timeout(ready, left);
            ready = waited.unwrap_or_else(PoisonError::into_inner).0;
            ready.idle = ready.idle.saturating_sub(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Closers;
    use std::sync::mpsc::channel;
    use std::time::Duration;

    #[test]
    fn a_hung_queue_delays_no_other() {
        let closers = Closers::default();
        let (hung, fine) = (closers.queue(), closers.queue());
        let (release, released) = channel::<()>();
        let (done, finished) = channel::<u32>();
        hung.ask(move || {
            let _ = released.recv();
        });
        // the second is dropped: the first is not answered
        let told = done.clone();
        hung.ask(move || told.send(0).unwrap());
        for n in 1..100 {
            let told = done.clone();
            fine.ask(move || told.send(n).unwrap());
            assert_eq!(finished.recv_timeout(Duration::from_secs(60)), Ok(n));
            fine.wait(Duration::from_secs(60));
        }
        assert_eq!(super::lock(&closers.shared.ready).threads, 2);
        drop(release);
        hung.wait(Duration::from_secs(60));
        let told = done.clone();
        hung.ask(move || told.send(100).unwrap());
        assert_eq!(finished.recv_timeout(Duration::from_secs(60)), Ok(100));
    }
}
