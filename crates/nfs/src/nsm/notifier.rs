//! Notifies the clients from before a restart, so that they reclaim their locks.
//!
//! Each machine is told at once, and again 5, 10, 20, 40 and 60 s later and then each minute, for a quarter of an hour,
//! until it answers; over UDP and TCP in turn, because one of the two may be filtered. At most [`UNDER_WAY_MAX`] calls are
//! under way, so that ten thousand clients are told in the order of the list and not all at once.
//!
//! What is due is found without a walk over the list: each answer of ten thousand machines wakes whoever calls
//! [`Notifier::tick`].
//!
//! Lock: the list; held for map operations on it, with no call made under it.

use proto::nsm::{Notify, PROGRAM, VERSION, procedure};
use rpc::{
    CallCredential, CallFailure, CallTarget, CallerAddress, Outbound, OutboundCall, ProgramPort,
    Transport,
};
use state::MonitoredHost;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use xdr::Writer;

/// Times between a failed attempt and the next one, in milliseconds; the last one repeats.
const PAUSES_MS: [u64; 6] = [5000, 5000, 10_000, 20_000, 20_000, 60_000];
/// How long a host is notified at most, in milliseconds.
const GIVE_UP_MS: u64 = 900_000;
/// How long one call may take, in milliseconds.
const TIMEOUT_MS: u64 = 4000;
/// The same of a machine's first call: ten thousand machines that are off must not keep those that are not from hearing
/// of the restart within a grace period of a minute.
const FIRST_TIMEOUT_MS: u64 = 1000;
/// How long until machines that found no place are looked at again, unless an answer comes before, in milliseconds.
const PLACE_LOOK_MS: u64 = 200;
/// Calls under way: fewer than the sockets for calls to clients, so that callbacks find one.
pub(super) const UNDER_WAY_MAX: usize = 192;

/// Told of each host that has answered: its address and the name of its calls.
pub type Answered = Box<dyn Fn(IpAddr, &[u8]) + Send + Sync>;

/// How far the notifications are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NotifierProgress {
    /// Machines that are to be told.
    pub machines: usize,
    /// Those that have answered.
    pub answered: usize,
    /// Those that did not, and are not told any more.
    pub given_up: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// To be told, at a time that the list has.
    At,
    UnderWay,
    Answered,
    GivenUp,
}

/// A machine.
#[derive(Debug)]
struct Machine {
    addr: IpAddr,
    /// The address of ours that it uses.
    local: IpAddr,
    /// The names of its hosts.
    names: Vec<Box<[u8]>>,
    tries: usize,
    stage: Stage,
}

/// Tells clients of a restart.
pub struct Notifier {
    outbound: Arc<dyn Outbound>,
    answered: Answered,
    own_name: Vec<u8>,
    own_state: i32,
    list: Mutex<List>,
}

/// The machines.
struct List {
    machines: Vec<Machine>,
    /// When each is to be told that is at [`Stage::At`], and its place.
    due: BTreeSet<(u64, usize)>,
    /// How many are at [`Stage::UnderWay`].
    under_way: usize,
}

impl Notifier {
    /// Tells the machines of these hosts that the server of this name has this state number now.
    pub fn new(
        outbound: Arc<dyn Outbound>,
        hosts: Vec<MonitoredHost>,
        own_name: Vec<u8>,
        own_state: i32,
        answered: Answered,
    ) -> Arc<Self> {
        let mut machines = BTreeMap::new();
        for host in hosts {
            let names: &mut Vec<Box<[u8]>> = machines.entry((host.addr, host.local)).or_default();
            names.push(host.name);
        }
        let machines = machines.into_iter().map(|((addr, local), names)| {
            let stage = Stage::At;
            Machine { addr, local, names, tries: 0, stage }
        });
        let machines: Vec<Machine> = machines.collect();
        let due = (0..machines.len()).map(|index| (0, index)).collect();
        let list = Mutex::new(List { machines, due, under_way: 0 });
        Arc::new(Self { outbound, answered, own_name, own_state, list })
    }

    /// Makes the calls that are due, and says when it is to be called again, in milliseconds of the same clock; `None`:
    /// there is nothing more to do. A call that ends may make something due earlier.
    pub fn tick(self: &Arc<Self>, now_ms: u64) -> Option<u64> {
        let (due, next) = self.take_due(now_ms);
        for (index, target, tries) in due {
            let notifier = Arc::downgrade(self);
            let done = move |result: Result<&[u8], CallFailure>| {
                if let Some(notifier) = Weak::upgrade(&notifier) {
                    notifier.called(index, now_ms, result.is_ok());
                }
            };
            let own_name = self.own_name.clone();
            self.outbound.call(self.call(target, tries, &own_name, Box::new(done)));
        }
        next
    }

    /// The state number that clients are told.
    pub const fn own_state(&self) -> i32 {
        self.own_state
    }

    /// How far it is.
    pub fn progress(&self) -> NotifierProgress {
        let List { machines, .. } = &*self.lock();
        let count = |stage| machines.iter().filter(|machine| machine.stage == stage).count();
        NotifierProgress {
            machines: machines.len(),
            answered: count(Stage::Answered),
            given_up: count(Stage::GivenUp),
        }
    }

    fn lock(&self) -> MutexGuard<'_, List> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The machines to be told now, each with its address and how often that was tried; and when the next one is due.
    fn take_due(&self, now_ms: u64) -> (Vec<(usize, CallerAddress, usize)>, Option<u64>) {
        let mut list = self.lock();
        let List { machines, due, under_way } = &mut *list;
        let mut taken = Vec::new();
        while *under_way < UNDER_WAY_MAX
            && let Some(&(at_ms, index)) = due.first()
            && at_ms <= now_ms
        {
            due.pop_first();
            let Some(machine) = machines.get_mut(index) else { continue };
            let to = CallerAddress::recorded(machine.addr, machine.local);
            taken.push((index, to, machine.tries));
            machine.stage = Stage::UnderWay;
            machine.tries += 1;
            *under_way += 1;
        }
        let calls_end_ms = now_ms.saturating_add(TIMEOUT_MS);
        let next = match (due.first(), *under_way > 0) {
            // those that find no place now are looked at when a call has ended
            (Some((at_ms, _)), true) if *at_ms <= now_ms => {
                Some(now_ms.saturating_add(PLACE_LOOK_MS))
            }
            (Some((at_ms, _)), _) => Some((*at_ms).max(now_ms)),
            (None, true) => Some(calls_end_ms),
            (None, false) => None,
        };
        (taken, next)
    }

    fn call(
        &self,
        to: CallerAddress,
        tries: usize,
        name: &[u8],
        done: rpc::Completion,
    ) -> OutboundCall {
        let mut args = Writer::new();
        args.put(&Notify { name, state: self.own_state });
        let transport = if tries.is_multiple_of(2) { Transport::Udp } else { Transport::Tcp };
        let port = ProgramPort::AskPortmapper;
        OutboundCall {
            target: CallTarget::Machine { to, port, transport },
            program: PROGRAM,
            version: VERSION,
            procedure: procedure::NOTIFY,
            credential: CallCredential::Root,
            args: args.bytes().to_vec(),
            timeout_ms: if tries == 0 { FIRST_TIMEOUT_MS } else { TIMEOUT_MS },
            expects_reply: true,
            done,
        }
    }

    /// A call that was made at this time has ended.
    fn called(&self, index: usize, at_ms: u64, is_answered: bool) {
        let told = {
            let List { machines, due, under_way } = &mut *self.lock();
            let Some(machine) = machines.get_mut(index) else { return };
            *under_way = under_way.saturating_sub(1);
            if !is_answered {
                let pause = PAUSES_MS.get(machine.tries.saturating_sub(1));
                let pause = pause.copied().unwrap_or(PAUSES_MS[PAUSES_MS.len() - 1]);
                let next_ms = at_ms.saturating_add(TIMEOUT_MS.max(pause));
                let over = next_ms > GIVE_UP_MS;
                machine.stage = if over { Stage::GivenUp } else { Stage::At };
                if !over {
                    due.insert((next_ms, index));
                }
                return;
            }
            machine.stage = Stage::Answered;
            let to = CallerAddress::recorded(machine.addr, machine.local);
            (to, machine.tries.saturating_sub(1), machine.names.clone())
        };
        let (to, tries, names) = told;
        for name in names {
            (self.answered)(to.addr(), &name);
        }
        // whoever knows the server by its address; nothing depends on the answer
        let by_address = to.local().to_string().into_bytes();
        self.outbound.call(self.call(to, tries, &by_address, Box::new(|_| ())));
    }
}
