//! The table of authentication flavours under four kinds of sharing, for the experiment
//! `auth-scale`: the server's own, and the three that it replaced or avoids.
//!
//! Each variant does what a call does: it finds the flavour of a credential in a table that may
//! change, and asks it for the caller. The flavour is AUTH_NONE, which does nothing, so that only
//! the look-up is measured. Each thread does so as fast as it can, bound to a processor of its own
//! as far as there are any; only its own processor time counts, so a machine that is busy elsewhere
//! costs calls, not nanoseconds.

use proto::rpc::{CallHeader, OpaqueAuth};
use rpc::Transport;
use rpc::auth::{AuthNone, AuthTable, CallMessage, Flavor};
use std::hint::black_box;
use std::sync::{Arc, Barrier, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

/// Look-ups between two readings of the clock.
const BATCH: u64 = 1000;

/// How threads share the table (`auth-table`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sharing {
    /// One lock around the look-up: the kernel before 2009.
    Mutex,
    /// A lock that readers share.
    RwLock,
    /// A lock-free pointer and a reference count taken for the length of the call.
    Arc,
    /// Bowline: each thread marks its read in its own slot.
    Snapshot,
}

impl Sharing {
    /// All of them, the worst first.
    pub const ALL: [Self; 4] = [Self::Mutex, Self::RwLock, Self::Arc, Self::Snapshot];

    /// Its name in `auth-table=`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Mutex => "mutex",
            Self::RwLock => "rwlock",
            Self::Arc => "arc",
            Self::Snapshot => "snapshot",
        }
    }
}

type Slots = [Option<Box<dyn Flavor>>; 8];

/// A table under one kind of sharing.
enum Table {
    Mutex(Mutex<Slots>),
    RwLock(RwLock<Slots>),
    Arc(sys::snapshot::Snapshot<Arc<Slots>, sys::snapshot::ShortReads>),
    Snapshot(AuthTable),
}

fn slots() -> Slots {
    let mut slots = Slots::default();
    if let Some(first) = slots.first_mut() {
        *first = Some(Box::new(AuthNone));
    }
    slots
}

impl Table {
    fn new(sharing: Sharing) -> Self {
        match sharing {
            Sharing::Mutex => Self::Mutex(Mutex::new(slots())),
            Sharing::RwLock => Self::RwLock(RwLock::new(slots())),
            Sharing::Arc => Self::Arc(sys::snapshot::Snapshot::new(Arc::new(slots()))),
            Sharing::Snapshot => Self::Snapshot(AuthTable::default()),
        }
    }

    /// One look-up; whether the flavour accepted the credential.
    #[inline]
    fn ask(&self, message: &CallMessage<'_>) -> bool {
        match self {
            Self::Mutex(slots) => {
                accepts(&slots.lock().unwrap_or_else(PoisonError::into_inner), message)
            }
            Self::RwLock(slots) => {
                accepts(&slots.read().unwrap_or_else(PoisonError::into_inner), message)
            }
            Self::Arc(slots) => {
                let held = slots.load();
                let mine = Arc::clone(&*held);
                drop(held);
                accepts(&mine, message)
            }
            Self::Snapshot(table) => table.accept(message).is_ok(),
        }
    }
}

/// A call with this credential.
fn message(credential: OpaqueAuth<'_>) -> CallMessage<'_> {
    let verifier = OpaqueAuth::NONE;
    let (xid, program, version, procedure) = (1, proto::nfs3::PROGRAM, proto::nfs3::VERSION, 0);
    CallMessage {
        header: CallHeader { xid, program, version, procedure, credential, verifier },
        args: xdr::Reader::new(&[]),
        record: &[],
        transport: Transport::Tcp,
        security: rpc::TransportSecurity::PLAIN,
    }
}

fn accepts(slots: &Slots, message: &CallMessage<'_>) -> bool {
    let index = usize::try_from(message.header.credential.flavor).unwrap_or(usize::MAX);
    let flavor = slots.get(index).and_then(Option::as_ref);
    flavor.is_some_and(|flavor| flavor.accept(message).is_ok())
}

/// Processor time in nanoseconds of one look-up, with this many threads for this long.
pub fn look_up_ns(sharing: Sharing, threads: usize, how_long: Duration) -> f64 {
    let table = Table::new(sharing);
    let cpus = sys::thread::allowed_cpus().unwrap_or_default();
    let begin = Barrier::new(threads);
    let (mut ns, mut calls) = (0u64, 0u64);
    std::thread::scope(|scope| {
        let running: Vec<_> = (0..threads)
            .map(|n| {
                let (table, begin) = (&table, &begin);
                let cpu = cpus.get(n.checked_rem(cpus.len()).unwrap_or(0)).copied();
                scope.spawn(move || {
                    if let Some(cpu) = cpu {
                        // a thread that cannot be bound may move; the figure is then no worse
                        sys::thread::run_on(&[cpu]).ok();
                    }
                    // without this right the figure includes other work of the machine
                    sys::thread::run_first().ok();
                    begin.wait();
                    work(table, how_long)
                })
            })
            .collect();
        for thread in running {
            let Ok((cpu_ns, count)) = thread.join() else { continue };
            ns = ns.saturating_add(cpu_ns);
            calls = calls.saturating_add(count);
        }
    });
    ns as f64 / calls.max(1) as f64
}

/// Looks up for a while: nanoseconds and look-ups. Each thread stops by itself: one with real-time
/// priority (`chrt`) would not let another thread run to stop it.
fn work(table: &Table, how_long: Duration) -> (u64, u64) {
    let begun = Instant::now();
    let message = message(OpaqueAuth::NONE);
    let (before, mut calls) = (sys::thread::cpu_ns(), 0u64);
    while begun.elapsed() < how_long {
        for _ in 0..BATCH {
            black_box(table.ask(black_box(&message)));
        }
        calls = calls.saturating_add(BATCH);
    }
    (sys::thread::cpu_ns().saturating_sub(before), calls)
}

#[cfg(test)]
mod tests {
    use super::{Sharing, Table, look_up_ns, message};
    use proto::rpc::OpaqueAuth;
    use std::time::Duration;

    #[test]
    fn every_sharing_finds_only_the_known_flavour() {
        for sharing in Sharing::ALL {
            let table = Table::new(sharing);
            assert!(table.ask(&message(OpaqueAuth::NONE)), "{sharing:?}");
            let unknown = OpaqueAuth { flavor: 6, body: b"" };
            assert!(!table.ask(&message(unknown)), "{sharing:?}");
        }
    }

    #[test]
    fn a_measurement_counts_time_and_calls() {
        for sharing in Sharing::ALL {
            let ns = look_up_ns(sharing, 2, Duration::from_millis(20));
            assert!(ns > 0.1 && ns < 1e6, "{sharing:?}: {ns}");
        }
    }
}
