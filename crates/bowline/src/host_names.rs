//! Names of hosts beside their addresses, for people (`--names`).
//!
//! Threads of the command that prints look them up, by the name services of its machine; the server is asked nothing. Who
//! prints never waits for them, but for [`SETTLE_MAX`] where there will be no second print. Nobody has confirmed that a
//! name leads back to its address: nothing is decided by it. At most [`ENTRIES_MAX`] addresses are known and
//! [`WAITING_MAX`] wait; those beyond stay without a name.
//!
//! Lock: `Shared::state`, for a look into a map; nothing is looked up under it. `work` wakes a thread, `done` who settles.

use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// Look-ups at a time.
const THREADS: usize = 4;
/// Addresses that are known.
const ENTRIES_MAX: usize = 16_384;
/// Addresses that wait for a thread.
const WAITING_MAX: usize = 1024;
/// How long a name is taken for right.
const FRESH: Duration = Duration::from_secs(600);
/// How long an address without a name is not asked for again.
const NAMELESS: Duration = Duration::from_secs(60);
/// The pause between two searches for old entries, when all places are taken.
const PURGE_EVERY: Duration = Duration::from_secs(1);
/// The longest wait for names of a table that is printed once.
const SETTLE_MAX: Duration = Duration::from_millis(300);

static NAMES: OnceLock<HostNames> = OnceLock::new();

/// Has [`beside`] show names from now on.
pub fn start() {
    NAMES.get_or_init(|| {
        HostNames::new(|address| sys::name_service::name_of(address).ok().flatten())
    });
}

/// The text with the name of its host behind it, if that is known: `192.0.2.7:700 (nas.example.org)`. The text is an
/// address, with or without a port; another stays as it is.
pub fn beside(text: &str) -> String {
    match known(text) {
        Some(name) => format!("{text} ({name})"),
        None => text.to_owned(),
    }
}

/// The same with the first part of the name, for narrow columns: `192.0.2.7 nas`.
pub fn beside_short(text: &str) -> String {
    let name = known(text);
    match name.as_deref().and_then(|name| name.split('.').next()) {
        Some(label) => format!("{text} {label}"),
        None => text.to_owned(),
    }
}

fn known(text: &str) -> Option<String> {
    NAMES.get()?.of(address(text)?)
}

/// The address of `192.0.2.7`, `192.0.2.7:700`, `2001:db8::7` or `[2001:db8::7]:700`.
fn address(text: &str) -> Option<IpAddr> {
    let ends_with_port = || text.parse::<SocketAddr>().map(|with_port| with_port.ip());
    let found = text.parse::<IpAddr>().or_else(|_| ends_with_port()).ok()?;
    Some(found.to_canonical())
}

/// Has `print` ask for the names that it shows, and waits until they are known, but not long.
pub fn settle(print: impl FnOnce()) {
    if let Some(names) = NAMES.get() {
        print();
        names.settle(SETTLE_MAX);
    }
}

/// What is known of an address.
#[derive(Default)]
struct Entry {
    name: Option<String>,
    /// Waits for a thread, or is being looked up.
    asked: bool,
    fresh_until: Option<Instant>,
}

impl Entry {
    fn is_fresh(&self, now: Instant) -> bool {
        self.asked || self.fresh_until.is_some_and(|until| now < until)
    }
}

#[derive(Default)]
struct State {
    entries: HashMap<IpAddr, Entry>,
    waiting: VecDeque<IpAddr>,
    running: usize,
    purged: Option<Instant>,
}

struct Shared {
    state: Mutex<State>,
    work: Condvar,
    done: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A cache of names, and threads that fill it. They end with the process.
struct HostNames(Arc<Shared>);

impl HostNames {
    /// Without a thread, if the kernel refuses one, nothing gets a name.
    fn new(look_up: impl Fn(IpAddr) -> Option<String> + Send + Sync + 'static) -> Self {
        let state = Mutex::new(State::default());
        let shared = Arc::new(Shared { state, work: Condvar::new(), done: Condvar::new() });
        let look_up = Arc::new(look_up);
        for _ in 0..THREADS {
            let (shared, look_up) = (Arc::clone(&shared), Arc::clone(&look_up));
            let run = move || answer_all(&shared, look_up.as_ref());
            // fewer threads are slower, and none leaves addresses without names
            let _ = std::thread::Builder::new().name("names".into()).spawn(run);
        }
        Self(shared)
    }

    /// The name, if it is known; else it is asked for.
    fn of(&self, address: IpAddr) -> Option<String> {
        let mut state = self.0.lock();
        let now = Instant::now();
        let name = match state.entries.get(&address) {
            Some(entry) if entry.is_fresh(now) => return entry.name.clone(),
            Some(entry) => entry.name.clone(),
            None => None,
        };
        if state.waiting.len() < WAITING_MAX && state.has_room(address, now) {
            state.entries.entry(address).or_default().asked = true;
            state.waiting.push_back(address);
            self.0.work.notify_one();
        }
        name
    }

    /// Waits until nothing is asked for any more, for `at_most`.
    fn settle(&self, at_most: Duration) {
        let end = Instant::now() + at_most;
        let mut state = self.0.lock();
        while !state.waiting.is_empty() || state.running > 0 {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            let waited = self.0.done.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl State {
    /// Whether the address has an entry or can get one.
    fn has_room(&mut self, address: IpAddr, now: Instant) -> bool {
        if self.entries.len() < ENTRIES_MAX || self.entries.contains_key(&address) {
            return true;
        }
        if self.purged.is_none_or(|at| now.duration_since(at) >= PURGE_EVERY) {
            self.purged = Some(now);
            self.entries.retain(|_, entry| entry.is_fresh(now));
        }
        self.entries.len() < ENTRIES_MAX
    }
}

/// Looks up what waits.
fn answer_all(shared: &Shared, look_up: &dyn Fn(IpAddr) -> Option<String>) {
    let mut state = shared.lock();
    loop {
        let Some(address) = state.waiting.pop_front() else {
            state = shared.work.wait(state).unwrap_or_else(PoisonError::into_inner);
            continue;
        };
        state.running += 1;
        drop(state);
        let name = look_up(address).filter(|name| is_name(name));
        state = shared.lock();
        state.running -= 1;
        let fresh = if name.is_some() { FRESH } else { NAMELESS };
        let fresh_until = Some(Instant::now() + fresh);
        state.entries.insert(address, Entry { name, asked: false, fresh_until });
        shared.done.notify_all();
    }
}

/// Whether it may be shown: whoever has an address chooses its name.
fn is_name(name: &str) -> bool {
    let letter = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    !name.is_empty() && name.len() <= 253 && name.chars().all(letter)
}

#[cfg(test)]
mod tests {
    use super::{HostNames, WAITING_MAX, address, is_name};
    use std::net::{IpAddr, Ipv4Addr};
    use std::sync::{Arc, Barrier};
    use std::time::Duration;

    fn host(number: u32) -> IpAddr {
        IpAddr::V4(Ipv4Addr::from_bits(0x0a00_0000 + number))
    }

    #[test]
    fn a_name_is_looked_up_once_and_nobody_waits_for_it() {
        let gate = Arc::new(Barrier::new(2));
        let held = Arc::clone(&gate);
        let names = HostNames::new(move |address| {
            held.wait();
            Some(format!("host-{address}"))
        });
        assert_eq!((names.of(host(1)), names.of(host(1))), (None, None), "it hangs");
        names.settle(Duration::from_millis(1));
        assert_eq!(names.of(host(1)), None);
        // a second look-up would need a second wait here
        gate.wait();
        names.settle(Duration::from_secs(60));
        assert_eq!(names.of(host(1)).as_deref(), Some("host-10.0.0.1"));
        names.settle(Duration::from_secs(60));
    }

    #[test]
    fn addresses_beyond_the_bound_stay_without_a_name() {
        // a service that never answers
        let names = HostNames::new(|_| {
            loop {
                std::thread::park();
            }
        });
        for number in 0..10_000 {
            assert_eq!(names.of(host(number)), None);
        }
        let state = names.0.lock();
        assert!(state.waiting.len() <= WAITING_MAX);
        assert!(state.entries.len() <= WAITING_MAX + super::THREADS, "{}", state.entries.len());
    }

    #[test]
    fn addresses_are_found_with_and_without_a_port() {
        for text in ["10.0.0.7", "10.0.0.7:700", "::ffff:10.0.0.7", "[::ffff:10.0.0.7]:700"] {
            assert_eq!(address(text), Some(host(7)), "{text}");
        }
        assert_eq!(address("2001:db8::1"), address("[2001:db8::1]:9"));
        assert!(address("nas.example.org").is_none() && address("").is_none());
    }

    #[test]
    fn what_is_no_name_is_not_shown() {
        assert!(is_name("nas-1.example.org") && is_name("a_b"));
        for wrong in ["", "a b", "\u{1b}[2J", "naïve", "(x)"] {
            assert!(!is_name(wrong), "{wrong:?}");
        }
    }
}
