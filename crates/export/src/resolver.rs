//! The threads that look clients up in the name services, so that workers need not block.
//!
//! At most [`THREADS_MAX`] threads, started when there is a look-up and ended when no cache has
//! entries to be checked again. Lock: `Inner::state`; nothing is looked up or spawned under it.
//! `work` wakes a resolver thread, `done` the threads that wait for an answer.

use crate::client_rules::{ClientMatch, ClientRules};
use std::collections::{HashSet, VecDeque};
use std::io;
use std::net::IpAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

/// Look-ups at a time: a slow DNS zone must not delay the others.
const THREADS_MAX: usize = 4;
/// The most look-ups in the queue; further clients are denied until there is room.
const QUEUE_MAX: usize = 1024;
/// How long a call waits for an answer: two attempts of the libc resolver with its defaults.
const ANSWER_WAIT_MAX: Duration = Duration::from_secs(10);
/// How often the caches are searched for entries that must be checked again.
const SWEEP_EVERY: Duration = Duration::from_secs(15);

/// The look-ups of rules by name. `Ok` with an empty result means that a name does not exist; `Err`
/// means that no service answered.
pub trait NameService: Send + Sync {
    /// The names of an address that resolve to it.
    ///
    /// # Errors
    /// No answer.
    fn names_of(&self, client: IpAddr) -> io::Result<Vec<String>>;

    /// The addresses of a host.
    ///
    /// # Errors
    /// No answer.
    fn addresses_of(&self, host: &str) -> io::Result<Vec<IpAddr>>;

    /// Whether a host is in a netgroup.
    fn in_netgroup(&self, group: &str, host: &str) -> bool;
}

/// The services of this machine, as `nsswitch.conf` orders them.
#[derive(Debug, Clone, Copy)]
pub struct SystemNameService;

impl NameService for SystemNameService {
    fn names_of(&self, client: IpAddr) -> io::Result<Vec<String>> {
        let Some(name) = sys::name_service::name_of(client)? else { return Ok(Vec::new()) };
        // the owner of an address can claim any name for it; the forward look-up confirms it
        let confirmed = self.addresses_of(&name)?.iter().any(|a| a.to_canonical() == client);
        Ok(if confirmed { vec![name] } else { Vec::new() })
    }

    fn addresses_of(&self, host: &str) -> io::Result<Vec<IpAddr>> {
        sys::name_service::addresses_of(host)
    }

    fn in_netgroup(&self, group: &str, host: &str) -> bool {
        sys::name_service::in_netgroup(group, host)
    }
}

struct Task {
    rules: Arc<ClientRules>,
    client: IpAddr,
}

/// Rules and a client.
type Key = (usize, IpAddr);

impl Task {
    fn key(&self) -> Key {
        key(&self.rules, self.client)
    }
}

fn key(rules: &Arc<ClientRules>, client: IpAddr) -> Key {
    (Arc::as_ptr(rules).addr(), client)
}

struct State {
    queue: VecDeque<Task>,
    /// Queued and running look-ups. The task's `Arc` keeps the address in the key from being
    /// reused.
    pending: HashSet<Key>,
    threads: usize,
    idle: usize,
    /// Caches that have entries.
    caches: Vec<Weak<ClientRules>>,
    next_sweep: Instant,
}

struct Inner {
    service: Box<dyn NameService>,
    state: Mutex<State>,
    work: Condvar,
    done: Condvar,
}

/// The resolver of a server.
pub struct Resolver(Arc<Inner>);

impl Resolver {
    /// With the name services of this machine.
    pub fn system() -> Arc<Self> {
        Self::new(Box::new(SystemNameService))
    }

    /// With these name services.
    pub fn new(service: Box<dyn NameService>) -> Arc<Self> {
        let state = State {
            queue: VecDeque::new(),
            pending: HashSet::new(),
            threads: 0,
            idle: 0,
            caches: Vec::new(),
            next_sweep: Instant::now() + SWEEP_EVERY,
        };
        Arc::new(Self(Arc::new(Inner {
            service,
            state: Mutex::new(state),
            work: Condvar::new(),
            done: Condvar::new(),
        })))
    }

    /// Has a client that is unknown looked up, without waiting; false if the queue is full.
    pub fn start_lookup(&self, rules: &Arc<ClientRules>, client: IpAddr) -> bool {
        let mut state = self.0.lock();
        // an answer that came since the caller looked is stored before its look-up stops being pending
        let known = || !matches!(rules.find(client), ClientMatch::Unknown);
        if state.pending.contains(&key(rules, client)) || known() {
            return true;
        }
        if state.queue.len() >= QUEUE_MAX {
            return false;
        }
        if !state.caches.iter().any(|cache| cache.as_ptr() == Arc::as_ptr(rules)) {
            state.caches.push(Arc::downgrade(rules));
        }
        state.push(Task { rules: Arc::clone(rules), client });
        let spawn = state.queue.len() > state.idle && state.threads < THREADS_MAX;
        if spawn {
            state.threads += 1;
        }
        drop(state);
        self.0.work.notify_one();
        !spawn || self.spawn()
    }

    fn spawn(&self) -> bool {
        let inner = Arc::clone(&self.0);
        let thread = std::thread::Builder::new().name("names".to_owned());
        if thread.spawn(move || inner.serve()).is_ok() {
            return true;
        }
        let mut state = self.0.lock();
        state.threads = state.threads.saturating_sub(1);
        if state.threads == 0 {
            // no thread can be started for them; the next call tries again
            state.queue.clear();
            state.pending.clear();
            self.0.done.notify_all();
        }
        false
    }

    /// Waits until it is known whether the client matches a rule, at most [`ANSWER_WAIT_MAX`]; false if it
    /// is still unknown.
    pub fn wait_for(&self, rules: &Arc<ClientRules>, client: IpAddr) -> bool {
        let known = || !matches!(rules.find(client), ClientMatch::Unknown);
        if known() {
            return true;
        }
        if !self.start_lookup(rules, client) {
            return false;
        }
        let key = key(rules, client);
        let waiting = |state: &mut State| state.pending.contains(&key);
        let state = self.0.lock();
        drop(self.0.done.wait_timeout_while(state, ANSWER_WAIT_MAX, waiting));
        known()
    }
}

impl State {
    fn push(&mut self, task: Task) {
        if self.pending.insert(task.key()) {
            self.queue.push_back(task);
        }
    }
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn serve(&self) {
        while let Some(task) = self.next() {
            let resolve = || task.rules.resolve(&*self.service, task.client);
            // after a panic, waiting threads must be woken all the same
            if let Ok(resolved) = catch_unwind(AssertUnwindSafe(resolve)) {
                task.rules.store(task.client, resolved, Instant::now());
            }
            self.lock().pending.remove(&task.key());
            self.done.notify_all();
        }
    }

    /// The next task; `None` if the calling thread is no longer needed.
    fn next(&self) -> Option<Task> {
        let mut state = self.lock();
        loop {
            let now = Instant::now();
            if now >= state.next_sweep {
                state.next_sweep = now + SWEEP_EVERY;
                state = self.sweep(state, now);
            }
            if let Some(task) = state.queue.pop_front() {
                return Some(task);
            }
            if state.threads > 1 && state.idle > 0 || state.caches.is_empty() {
                state.threads = state.threads.saturating_sub(1);
                return None;
            }
            state.idle += 1;
            let rest = state.next_sweep.saturating_duration_since(now);
            let woken = self.work.wait_timeout(state, rest);
            state = woken.unwrap_or_else(PoisonError::into_inner).0;
            state.idle = state.idle.saturating_sub(1);
        }
    }

    /// Queues the clients that must be checked again.
    fn sweep<'s>(
        &'s self,
        mut state: MutexGuard<'s, State>,
        now: Instant,
    ) -> MutexGuard<'s, State> {
        state.caches.retain(|cache| cache.strong_count() > 0);
        let caches: Vec<_> = state.caches.iter().filter_map(Weak::upgrade).collect();
        drop(state);
        let mut expired = Vec::new();
        for rules in caches {
            for client in rules.expired(now) {
                expired.push(Task { rules: Arc::clone(&rules), client });
            }
        }
        let mut state = self.lock();
        let room = QUEUE_MAX.saturating_sub(state.queue.len());
        expired.into_iter().take(room).for_each(|task| state.push(task));
        state
    }
}

#[cfg(test)]
mod tests;
