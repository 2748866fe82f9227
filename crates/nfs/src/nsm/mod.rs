//! NSM, the network status monitor (program 100024, version 1): a restarted host notifies the hosts that it had locks with.
//!
//! Owns: handling of received notifications ([`Nsm`]), and notifying clients after a restart ([`Notifier`]). NSM is
//! specified in X/Open's C702, chapter 11, which was not available; the behaviour is that of clients in use.
//!
//! # Which notifications are accepted
//!
//! A notification that a client has rebooted drops its locks, so a forged one can corrupt its data. It is accepted if it
//! comes from a port below 1024 of an address from which a monitored host of that name has called, with a state number
//! that differs from the last. Linux's sm-notify and statd use such a port. Any other notification gets the same (empty)
//! reply, and is only counted.
//!
//! # Names
//!
//! The name in a notification (`mon_name`) is what the sender calls itself. Linux's lockd fills `caller_name` of its calls
//! with the machine's node name, and sm-notify sends what gethostname(2) gives, which is the same; but `sm-notify -v`
//! and other systems may send it with a domain or without. So a name means the host whose calls carry it, or the one
//! whose name is the same but for the domain ([`state::State::host_called`]). Names are never resolved.
//!
//! The server sends the machine's node name. Linux's statd compares it with the name by which it monitors the server,
//! and also the address that the call comes from; others compare names only. So the address is sent as the name in a
//! second notification, and both are sent from the address that the client used.
//!
//! # What is not implemented
//!
//! SM_MON asks that others be monitored for the lock manager of this machine's kernel, which it needs as a client of
//! other servers. That is rpc.statd's task: it is refused, and counted, so that the operator can be told. Where rpc.statd
//! runs, the program's number is its own, and it watches this server's clients as well (`machine_monitor`).

mod machine_monitor;
mod mode;
mod notifier;
#[cfg(test)]
mod tests;

pub use machine_monitor::{MachineMonitor, MachineMonitorProgress};
pub use mode::{NsmMode, NsmModeError};
pub use notifier::{Notifier, NotifierProgress};

use crate::nlm::Nlm;
use proto::nsm::{MonId, MyId, Name, Notify, Outcome, PROGRAM, Stat, StatResult};
use rpc::{Call, Fault, Plan, Row, Service, Version};
use state::State;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use xdr::{Reader, Writer};

/// The first port that any user may send from.
const UNRESERVED_PORT: u16 = 1024;

/// Drops what a host held that has rebooted. May block.
pub trait Reboots: Send + Sync {
    /// The host of this name and address has this state number now. How many locks it held; `None` if it is not
    /// monitored, or is known to have that number.
    fn client_rebooted(&self, from: IpAddr, name: &[u8], nsm_state: i32) -> Option<usize>;
}

impl Reboots for Nlm {
    fn client_rebooted(&self, from: IpAddr, name: &[u8], nsm_state: i32) -> Option<usize> {
        Self::client_rebooted(self, from, name, nsm_state)
    }
}

/// Numbers since the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NsmCounters {
    /// Notifications that were accepted.
    pub reboots: u64,
    /// Locks that they dropped.
    pub locks_dropped: u64,
    /// Notifications that were not accepted.
    pub ignored: u64,
    /// Requests to monitor another machine, which were refused.
    pub monitor_refused: u64,
}

/// The state of the program.
pub struct Nsm {
    state: Arc<State>,
    reboots: Arc<dyn Reboots>,
    /// Whether notifications are accepted at all.
    on: AtomicBool,
    counts: [AtomicU64; 4],
}

const REBOOTS: usize = 0;
const LOCKS_DROPPED: usize = 1;
const IGNORED: usize = 2;
const MONITOR_REFUSED: usize = 3;

impl Nsm {
    /// The status monitor over what clients hold.
    pub fn new(state: Arc<State>, reboots: Arc<dyn Reboots>) -> Self {
        Self { state, reboots, on: AtomicBool::new(true), counts: Default::default() }
    }

    /// Sets whether notifications are accepted (`nsm`).
    pub fn set_mode(&self, mode: NsmMode) {
        self.on.store(mode != NsmMode::Off, Relaxed);
    }

    /// Numbers since the start.
    pub fn counters(&self) -> NsmCounters {
        let [reboots, locks_dropped, ignored, monitor_refused] =
            [REBOOTS, LOCKS_DROPPED, IGNORED, MONITOR_REFUSED].map(|at| self.count(at, 0));
        NsmCounters { reboots, locks_dropped, ignored, monitor_refused }
    }

    /// Adds to a counter; its value.
    fn count(&self, at: usize, more: u64) -> u64 {
        self.counts.get(at).map_or(0, |count| count.fetch_add(more, Relaxed).wrapping_add(more))
    }

    fn stat(&self) -> Stat {
        Stat { state: self.state.nsm_state() }
    }
}

/// The program for the dispatcher.
pub fn nsm_program(state: Arc<Nsm>) -> Service<Nsm> {
    Service { number: PROGRAM, name: "nsm", versions: &VERSIONS, state }
}

static VERSIONS: [Version<Nsm>; 1] = [Version::new(proto::nsm::VERSION, &ROWS)];

/// All of them may run twice: a notification that is sent again has a state number that is known.
static ROWS: [Row<Nsm>; 7] = [
    Row::new("NULL", Plan::IDEMPOTENT, null),
    Row::new("STAT", Plan::IDEMPOTENT, stat),
    Row::new("MON", Plan::IDEMPOTENT, mon),
    Row::new("UNMON", Plan::IDEMPOTENT, unmon),
    Row::new("UNMON_ALL", Plan::IDEMPOTENT, unmon_all),
    Row::new("SIMU_CRASH", Plan::IDEMPOTENT, null),
    Row::new("NOTIFY", Plan::IDEMPOTENT, notify),
];

type Ran = Result<(), Fault>;

/// NULL; and SIMU_CRASH, which would have us behave as if the machine had restarted: whoever wants that restarts us.
fn null(_: &Nsm, _: &mut Call<'_>, _: &mut Reader<'_>, _: &mut Writer) -> Ran {
    Ok(())
}

/// Whether a host could be monitored: any could that has locks here.
fn stat(nsm: &Nsm, _: &mut Call<'_>, args: &mut Reader<'_>, reply: &mut Writer) -> Ran {
    let Name(_) = args.get()?;
    args.end()?;
    reply.put(&StatResult { outcome: Outcome::Success, stat: nsm.stat() });
    Ok(())
}

fn mon(nsm: &Nsm, call: &mut Call<'_>, args: &mut Reader<'_>, reply: &mut Writer) -> Ran {
    let _mon: proto::nsm::Mon<'_> = args.get()?;
    args.end()?;
    if call.peer.addr.ip().is_loopback() {
        nsm.count(MONITOR_REFUSED, 1);
    }
    reply.put(&StatResult { outcome: Outcome::Fail, stat: nsm.stat() });
    Ok(())
}

/// Nobody is monitored for anybody else: that it ends is no news.
fn unmon(nsm: &Nsm, _: &mut Call<'_>, args: &mut Reader<'_>, reply: &mut Writer) -> Ran {
    let _of: MonId<'_> = args.get()?;
    args.end()?;
    reply.put(&nsm.stat());
    Ok(())
}

fn unmon_all(nsm: &Nsm, _: &mut Call<'_>, args: &mut Reader<'_>, reply: &mut Writer) -> Ran {
    let _of: MyId<'_> = args.get()?;
    args.end()?;
    reply.put(&nsm.stat());
    Ok(())
}

fn notify(nsm: &Nsm, call: &mut Call<'_>, args: &mut Reader<'_>, _: &mut Writer) -> Ran {
    let Notify { name, state } = args.get()?;
    args.end()?;
    let from = call.peer.addr;
    let host = match from.port() < UNRESERVED_PORT && nsm.on.load(Relaxed) {
        true => nsm.state.host_called(from.ip(), name),
        false => None,
    };
    let dropped = host.and_then(|host| {
        // the kernel's locks are released, and a record is stored
        call.blocking.will_block();
        nsm.reboots.client_rebooted(from.ip(), &host.name, state)
    });
    match dropped {
        Some(locks) => {
            nsm.count(REBOOTS, 1);
            nsm.count(LOCKS_DROPPED, locks as u64);
        }
        None => {
            nsm.count(IGNORED, 1);
        }
    }
    Ok(())
}
