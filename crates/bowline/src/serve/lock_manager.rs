//! Builds the lock manager: the state that clients hold, the store by which it survives a restart, and NLM over both.

use super::lock_timer::LockTimer;
use super::process_info;
use super::recovery::RecoveryStore;
use crate::memory_shares::MemoryShares;
use nfs::OnOff;
use nfs::nlm::Nlm;
use nfs::nsm::{Notifier, NsmMode};
use nfs::v4::V4;
use nfs::{Nfs, Store};
use rpc::Outbound;
use state::v4::V4Limits;
use state::{GraceSeconds, LeaseSeconds, Limits, Now, Record, State};
use std::io;
use std::num::NonZero;
use std::path::Path;
use std::sync::Arc;
use svc::OutboundCalls;

impl Store for RecoveryStore {
    fn append_all(&self, records: &[Record]) -> io::Result<()> {
        self.store(records).map_err(io::Error::other)
    }
}

/// Opens the store and makes the state of this instance from it: that of locks, and that of version 4.
pub fn open_state(
    state_dir: &Path,
    grace: GraceSeconds,
    lease: LeaseSeconds,
) -> (Arc<RecoveryStore>, V4) {
    let (store, recovery) = RecoveryStore::open(state_dir);
    let limits = Limits { grace_ms: grace.ms(), ..Limits::default() };
    let cpus = std::thread::available_parallelism().map_or(1, NonZero::get);
    let state = Arc::new(State::new(&recovery, Now(0), limits, cpus));
    let v4 = V4::new(state, v4_limits(lease));
    (Arc::new(store), v4.with_epoch(recovery.instance().wrapping_add(1)))
}

/// The limits of version 4's state on this machine: a client may have half of the opens.
fn v4_limits(lease: LeaseSeconds) -> V4Limits {
    let limits = V4Limits::default();
    let shares = MemoryShares::of_this_process();
    let opens = shares.v4_opens(limits.opens);
    V4Limits {
        lease_ms: lease.ms(),
        sessions: shares.v4_sessions(limits.sessions),
        slots_in_all: shares.v4_slots(limits.slots_in_all),
        opens,
        opens_per_client: limits.opens_per_client.min(opens / 2),
        opens_when_scarce: limits.opens_when_scarce.min(opens / 64),
        ..limits
    }
}

/// The lock manager of the exports and the state of `nfs`.
pub fn lock_manager(nfs: &Arc<Nfs>, outbound: &Arc<OutboundCalls>, local_locks: OnOff) -> Arc<Nlm> {
    let calls = Arc::clone(outbound) as Arc<dyn Outbound>;
    let nlm = Nlm::new(Arc::clone(nfs), calls, process_info::host_name().as_bytes());
    nlm.settings.set_local_locks(local_locks);
    let nlm = Arc::new(nlm);
    let for_version_4: std::sync::Weak<Nlm> = Arc::downgrade(&nlm);
    nfs.set_lock_manager(for_version_4);
    nlm
}

/// Beside the server, rpc.statd may tell clients of restarts, with numbers of its own; who hears one number twice believes
/// it once. So the server's have this bit then.
const BESIDE_STATD: i32 = 1 << 30;

/// The thread that runs what the lock manager does by time, and tells clients of the restart unless that is off.
///
/// # Errors
/// The kernel refuses another thread.
pub fn start_lock_timer(
    nlm: &Arc<Nlm>,
    state: &Arc<State>,
    outbound: &Arc<OutboundCalls>,
    mode: NsmMode,
) -> io::Result<LockTimer> {
    let hosts = match mode {
        NsmMode::Auto | NsmMode::Own | NsmMode::Statd => state.hosts_to_notify(),
        NsmMode::Off => Vec::new(),
    };
    let own_state = match mode {
        NsmMode::Statd => state.nsm_state() | BESIDE_STATD,
        NsmMode::Auto | NsmMode::Own | NsmMode::Off => state.nsm_state(),
    };
    let calls = Arc::clone(outbound) as Arc<dyn Outbound>;
    let theirs = Arc::clone(nlm);
    let answered = Box::new(move |addr, name: &[u8]| theirs.notify_answered(addr, name));
    let own_name = process_info::host_name().into_bytes();
    let notifier = Notifier::new(calls, hosts, own_name, own_state, answered);
    LockTimer::start(Arc::clone(nlm), Arc::clone(state), notifier)
}
