//! Has rpc.statd, the status monitor of the server's machine, watch the clients that hold locks: for a machine that
//! needs one as a client of other servers, so that the program number of the status monitor is taken.
//!
//! Owns: which addresses rpc.statd is to watch and which it knows of. It is told by SM_MON when the record of a host is
//! stored, and by SM_UNMON when the last host at an address is gone. When a client reboots it calls procedure 16 of the
//! lock manager here, from a loopback address, with the private bytes that it was given.
//!
//! # Addresses
//!
//! A client is watched by its address, which rpc.statd compares with the sender of a notification. Names it would have
//! to resolve, and refuses those that it cannot. So a notification says which address rebooted and not which of the
//! hosts there: it is acted upon only if one host there holds something.
//!
//! # What is waited for
//!
//! Nothing: the calls are made by the thread for calls to others, each within [`TIMEOUT_MS`], and at most
//! [`UNDER_WAY_MAX`] at a time. A lock is granted whether or not rpc.statd answers; that it does not is said.
//!
//! Lock: the list; held for map operations, with no call made under it.

use proto::nsm::{
    Mon, MonId, MyId, Name, Outcome, PRIVATE_LEN, PROGRAM, StatResult, VERSION, procedure,
};
use rpc::{
    CallCredential, CallFailure, CallTarget, CallerAddress, Outbound, OutboundCall, ProgramPort,
    Transport,
};
use state::{HostName, Record};
use std::collections::hash_map::RandomState;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::hash::{BuildHasher, Hasher};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use xdr::{Encode, Reader, Writer};

/// How long one call may take, in milliseconds.
const TIMEOUT_MS: u64 = 2000;
/// How long nothing is asked after a failure, in milliseconds.
const PAUSE_MS: u64 = 5000;
/// Calls under way: no more than may wait for one machine.
const UNDER_WAY_MAX: usize = 4;
/// Where rpc.statd is, and what it calls us, whatever name we give.
const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
/// The version of the lock manager that it calls: another than the kernel's lock manager names, so that what the two
/// have watched is not mixed up.
const NLM_VERSION: u32 = 4;
/// The first port that any user may send from.
const UNRESERVED_PORT: u16 = 1024;

/// Wakes whoever calls [`MachineMonitor::tick`].
pub type Wake = Box<dyn Fn() + Send + Sync>;

/// How far it is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MachineMonitorProgress {
    /// rpc.statd watches the clients.
    pub on: bool,
    /// Addresses that it watches.
    pub watched: usize,
    /// Addresses that it is to watch and does not yet.
    pub unwatched: usize,
    /// Why the last call failed.
    pub failure: Option<String>,
    /// Notifications that were believed.
    pub reboots: u64,
    /// Locks that they dropped.
    pub locks_dropped: u64,
    /// Notifications that were not believed.
    pub ignored: u64,
}

/// The hosts at one address.
#[derive(Debug, Default)]
struct Address {
    /// Their names; empty: it need not be watched.
    names: BTreeSet<Box<[u8]>>,
    watched: bool,
    /// It is in the queue, or a call about it is under way.
    busy: bool,
}

impl Address {
    fn is_settled(&self) -> bool {
        self.watched != self.names.is_empty()
    }
}

/// SM_UNMON_ALL, by which rpc.statd forgets what it watched for the server of before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum UnmonAll {
    NotSent,
    InProgress,
    Done,
}

#[derive(Debug)]
struct Inner {
    on: bool,
    /// Counts how often it was switched: the outcome of a call of before means nothing.
    turn: u64,
    unmon_all: UnmonAll,
    addresses: BTreeMap<IpAddr, Address>,
    queue: VecDeque<IpAddr>,
    under_way: usize,
    not_before_ms: u64,
    failure: Option<String>,
}

/// What rpc.statd is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Question {
    Forget,
    Watch(IpAddr),
    Unwatch(IpAddr),
}

/// Has rpc.statd watch clients, while it is on.
pub struct MachineMonitor {
    outbound: Arc<dyn Outbound>,
    wake: Wake,
    /// Proves that a notification comes from whoever was asked to watch.
    private: [u8; PRIVATE_LEN],
    on: AtomicBool,
    inner: Mutex<Inner>,
    counts: [AtomicU64; 3],
}

impl MachineMonitor {
    /// It is off at first.
    pub fn new(outbound: Arc<dyn Outbound>, wake: Wake) -> Self {
        let random = || RandomState::new().build_hasher().finish();
        let private = (u128::from(random()) << 64 | u128::from(random())).to_be_bytes();
        let inner = Inner {
            on: false,
            turn: 0,
            unmon_all: UnmonAll::NotSent,
            addresses: BTreeMap::new(),
            queue: VecDeque::new(),
            under_way: 0,
            not_before_ms: 0,
            failure: None,
        };
        let (on, inner) = (AtomicBool::new(false), Mutex::new(inner));
        Self { outbound, wake, private, on, inner, counts: Default::default() }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // each critical section leaves the list consistent, also if it panics
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Switches it on, with the hosts whose records are stored, or off.
    pub fn set_on(&self, on: bool, recorded: impl FnOnce() -> Vec<HostName>) {
        {
            let mut inner = self.lock();
            if inner.on == on {
                return;
            }
            inner.switch(on);
            self.on.store(on, Relaxed);
        }
        if on {
            // what is recorded from here on is noted by itself
            let recorded = recorded();
            let mut inner = self.lock();
            recorded.iter().for_each(|host| inner.add(host));
        }
        (self.wake)();
    }

    /// A record was stored.
    pub fn note(&self, record: &Record) {
        if !self.on.load(Relaxed) {
            return;
        }
        match record {
            Record::NsmHost(host) => self.lock().add(&host.host_name()),
            Record::NsmGone(name) => self.lock().remove(name),
            Record::Instance(_)
            | Record::GraceBegan(_)
            | Record::GraceEnded(_)
            | Record::NsmState(..)
            | Record::Client(_)
            | Record::ClientGone(..) => return,
        }
        (self.wake)();
    }

    /// How far it is.
    pub fn progress(&self) -> MachineMonitorProgress {
        let [reboots, locks_dropped, ignored] = [0, 1, 2].map(|at| self.count(at, 0));
        let inner = self.lock();
        let wanted = inner.addresses.values().filter(|address| !address.names.is_empty());
        let (watched, unwatched): (Vec<_>, Vec<_>) = wanted.partition(|address| address.watched);
        MachineMonitorProgress {
            on: inner.on,
            watched: watched.len(),
            unwatched: unwatched.len(),
            failure: inner.failure.clone(),
            reboots,
            locks_dropped,
            ignored,
        }
    }

    /// Why the last call failed.
    pub fn failure(&self) -> Option<String> {
        self.lock().failure.clone()
    }

    /// Adds to a counter; its value.
    fn count(&self, at: usize, more: u64) -> u64 {
        self.counts.get(at).map_or(0, |count| count.fetch_add(more, Relaxed).wrapping_add(more))
    }

    /// Whether a notification comes from rpc.statd of this machine, and which address rebooted.
    pub fn rebooted_address(
        &self,
        from: std::net::SocketAddr,
        name: &[u8],
        private: &[u8],
    ) -> Option<IpAddr> {
        let own = from.ip().to_canonical().is_loopback() && from.port() < UNRESERVED_PORT;
        let asked = self.on.load(Relaxed) && private == self.private;
        if !(own && asked) {
            return None;
        }
        std::str::from_utf8(name).ok()?.parse().ok()
    }

    /// Notes what a notification came to: how many locks it dropped, or `None` if it was not believed.
    pub fn note_reboot(&self, dropped: Option<usize>) {
        match dropped {
            Some(locks) => {
                self.count(0, 1);
                self.count(1, locks as u64);
            }
            None => drop(self.count(2, 1)),
        }
    }

    /// Makes the calls that are due, and says when it is to be called again, in milliseconds of the same clock.
    pub fn tick(self: &Arc<Self>, now_ms: u64) -> Option<u64> {
        let (questions, turn, next) = {
            let mut inner = self.lock();
            let questions = inner.take_due(now_ms);
            (questions, inner.turn, inner.next_ms(now_ms))
        };
        for question in questions {
            let monitor = Arc::downgrade(self);
            let done = move |result: Result<&[u8], CallFailure>| {
                if let Some(monitor) = monitor.upgrade() {
                    let outcome = outcome(question, result);
                    monitor.lock().answered(question, turn, now_ms, outcome);
                    (monitor.wake)();
                }
            };
            self.outbound.call(self.call(question, Box::new(done)));
        }
        next
    }

    fn call(&self, question: Question, done: rpc::Completion) -> OutboundCall {
        let own = Name(b"127.0.0.1");
        let my_id = MyId {
            name: own,
            program: proto::nlm::PROGRAM,
            version: NLM_VERSION,
            procedure: proto::nlm::procedure::SM_NOTIFY,
        };
        let of = |address: IpAddr| address.to_string().into_bytes();
        let (number, args) = match question {
            Question::Forget => (procedure::UNMON_ALL, encoded(&my_id)),
            Question::Watch(address) => {
                let mon_id = MonId { name: Name(&of(address)), my_id };
                (procedure::MON, encoded(&Mon { mon_id, private: self.private }))
            }
            Question::Unwatch(address) => {
                (procedure::UNMON, encoded(&MonId { name: Name(&of(address)), my_id }))
            }
        };
        let to = CallerAddress::recorded(LOOPBACK, LOOPBACK);
        OutboundCall {
            target: CallTarget::Machine {
                to,
                port: ProgramPort::AskPortmapper,
                transport: Transport::Udp,
            },
            program: PROGRAM,
            version: VERSION,
            procedure: number,
            credential: CallCredential::Root,
            args,
            timeout_ms: TIMEOUT_MS,
            expects_reply: true,
            done,
        }
    }
}

fn encoded(args: &impl Encode) -> Vec<u8> {
    let mut w = Writer::new();
    w.put(args);
    w.bytes().to_vec()
}

/// What an answer says; SM_MON alone can be refused by it.
fn outcome(question: Question, result: Result<&[u8], CallFailure>) -> Result<(), String> {
    let bytes = result.map_err(|failure| failure.to_string())?;
    let Question::Watch(address) = question else { return Ok(()) };
    match Reader::new(bytes).get::<StatResult>() {
        Ok(StatResult { outcome: Outcome::Success, .. }) => Ok(()),
        Ok(_) => Err(format!("it refuses to watch {address}")),
        Err(_) => Err("its answer cannot be decoded".to_owned()),
    }
}

impl Inner {
    fn switch(&mut self, on: bool) {
        self.on = on;
        self.turn = self.turn.wrapping_add(1);
        // also what was watched until now: with no names, nothing is watched again
        self.unmon_all = UnmonAll::NotSent;
        self.addresses.clear();
        self.queue.clear();
        self.under_way = 0;
        self.not_before_ms = 0;
        self.failure = None;
    }

    fn add(&mut self, host: &HostName) {
        if self.on {
            let address = self.addresses.entry(host.addr).or_default();
            address.names.insert(host.name.clone());
            self.line_up(host.addr);
        }
    }

    fn remove(&mut self, host: &HostName) {
        if let Some(address) = self.addresses.get_mut(&host.addr) {
            address.names.remove(&host.name);
            self.line_up(host.addr);
        }
    }

    /// Puts an address into the queue if something is to be asked about it; forgets one that is done with.
    fn line_up(&mut self, addr: IpAddr) {
        let Some(address) = self.addresses.get_mut(&addr) else { return };
        if address.busy {
            return;
        }
        if !address.is_settled() {
            address.busy = true;
            self.queue.push_back(addr);
        } else if address.names.is_empty() {
            self.addresses.remove(&addr);
        }
    }

    fn take_due(&mut self, now_ms: u64) -> Vec<Question> {
        if now_ms < self.not_before_ms {
            return Vec::new();
        }
        match self.unmon_all {
            // off from the start: nothing was ever asked
            UnmonAll::NotSent if self.turn == 0 => Vec::new(),
            UnmonAll::NotSent => {
                self.unmon_all = UnmonAll::InProgress;
                vec![Question::Forget]
            }
            UnmonAll::InProgress => Vec::new(),
            UnmonAll::Done => {
                let free = UNDER_WAY_MAX.saturating_sub(self.under_way).min(self.queue.len());
                let due: Vec<Question> = self
                    .queue
                    .drain(..free)
                    .filter_map(|addr| {
                        let address = self.addresses.get(&addr)?;
                        Some(match address.names.is_empty() {
                            true => Question::Unwatch(addr),
                            false => Question::Watch(addr),
                        })
                    })
                    .collect();
                self.under_way = self.under_way.saturating_add(due.len());
                due
            }
        }
    }

    /// When something is due that no answer makes due.
    fn next_ms(&self, now_ms: u64) -> Option<u64> {
        let waits = match self.unmon_all {
            UnmonAll::NotSent => self.turn > 0,
            UnmonAll::InProgress => false,
            UnmonAll::Done => !self.queue.is_empty() && self.under_way < UNDER_WAY_MAX,
        };
        waits.then(|| self.not_before_ms.max(now_ms))
    }

    /// A call that was made at this time has ended.
    fn answered(&mut self, question: Question, turn: u64, at_ms: u64, outcome: Result<(), String>) {
        if turn != self.turn {
            return;
        }
        let answered = outcome.is_ok();
        if let Err(why) = outcome {
            self.not_before_ms = at_ms.saturating_add(TIMEOUT_MS).saturating_add(PAUSE_MS);
            // who is off has nothing to say
            self.failure = self.on.then_some(why);
        } else {
            self.failure = None;
        }
        let (addr, watched) = match question {
            Question::Forget => {
                // off: asked once, whatever comes of it
                let done = answered || !self.on;
                self.unmon_all = if done { UnmonAll::Done } else { UnmonAll::NotSent };
                return;
            }
            Question::Watch(addr) => (addr, true),
            Question::Unwatch(addr) => (addr, false),
        };
        self.under_way = self.under_way.saturating_sub(1);
        if let Some(address) = self.addresses.get_mut(&addr) {
            address.busy = false;
            if answered {
                address.watched = watched;
            }
            self.line_up(addr);
        }
    }
}

#[cfg(test)]
mod tests;
