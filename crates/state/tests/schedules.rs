//! The real locks of the state under random schedules of threads: the crate's own files, compiled here over shuttle's
//! mutexes and atomics. Shuttle reports a deadlock, and each schedule ends with what must hold when nothing is under
//! way. `SCHEDULES=3000` for more of them.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs, unreachable_pub, reason = "test code")]
#![allow(dead_code, unused_imports, reason = "the schedules use a part of the crate")]

#[path = "../src/acquire.rs"]
mod acquire;
#[path = "../src/client_record.rs"]
mod client_record;
#[path = "../src/crc32c.rs"]
mod crc32c;
#[path = "../src/deadlock.rs"]
mod deadlock;
#[path = "../src/file.rs"]
mod file;
#[path = "../src/files.rs"]
mod files;
#[path = "../src/grace.rs"]
mod grace;
#[path = "../src/hashed_file.rs"]
mod hashed_file;
#[path = "../src/holder.rs"]
mod holder;
#[path = "../src/host_removal.rs"]
mod host_removal;
#[path = "../src/hosts.rs"]
mod hosts;
#[path = "../src/image.rs"]
mod image;
#[path = "../src/key.rs"]
mod key;
#[path = "../src/limits.rs"]
mod limits;
#[path = "../src/plan.rs"]
mod plan;
#[path = "../src/principal.rs"]
mod principal;
#[path = "../src/range.rs"]
mod range;
#[path = "../src/record.rs"]
mod record;
#[path = "../src/recovery.rs"]
mod recovery;
#[path = "../src/release.rs"]
mod release;
#[path = "../src/server.rs"]
mod server;
#[path = "../src/settle.rs"]
mod settle;
#[path = "../src/share.rs"]
mod share;
#[path = "../src/share_requests.rs"]
mod share_requests;
#[path = "../src/table.rs"]
mod table;
#[path = "../src/tree.rs"]
mod tree;
#[path = "../src/view.rs"]
mod view;
#[path = "../src/waiter.rs"]
mod waiter;
#[path = "../src/waits.rs"]
mod waits;

/// What `crate::sync` is to the code under test.
mod sync {
    pub(crate) use shuttle::sync::atomic::{AtomicU64, AtomicUsize};
    pub(crate) use shuttle::sync::{Arc, Mutex, MutexGuard};
}

pub use file::{How, LockRequest, TestAnswer};
pub use grace::Phase;
pub use holder::{Holder, Who};
pub use host_removal::{HostRemoval, Reboot};
pub use hosts::Caller;
pub use image::{LocalOp, Piece};
pub use key::{FileKey, HostId, Now, Tag};
pub use limits::Limits;
pub use plan::{Conflict, Effect, Effects, Granted, LocalAnswer, LocalConflict, Plan, Ticket};
pub use range::{ByteRange, Mode};
pub use record::{HostName, MonitoredHost, Record, Transport};
pub use recovery::Recovery;
pub use release::Cancelled;
pub use server::{NotIdentified, State};
pub use share::{ShareBits, ShareMode, ShareOwner};
pub use share_requests::ShareRequest;

use shuttle::sync::{Arc, Mutex};
use shuttle::thread;
use std::net::{IpAddr, Ipv4Addr};

/// How many schedules each test takes, unless the environment says otherwise.
const SCHEDULES: usize = 1000;

const HOSTS: [&[u8]; 3] = [b"a", b"b", b"c"];

/// The state, who was told, and whom a lock excludes at the moment.
struct World {
    state: State,
    told: Mutex<Vec<Tag>>,
    /// Per file: readers, and whether somebody writes.
    inside: Mutex<[(usize, bool); 2]>,
}

fn address(host: usize) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(10, 0, 0, host as u8))
}

fn file(number: u8) -> FileKey {
    FileKey::new(&[number]).unwrap()
}

impl World {
    fn new() -> Arc<Self> {
        let state = State::new(&Recovery::default(), Now(0), Limits::default(), 1);
        let inside = Mutex::new([(0, false); 2]);
        Arc::new(Self { state, told: Mutex::new(Vec::new()), inside })
    }

    fn host(&self, host: usize) -> HostId {
        let caller = Caller {
            addr: address(host),
            name: HOSTS[host],
            local: address(9),
            nlm_version: 4,
            transport: Transport::Tcp,
            nsm_state: 1,
        };
        self.state.identify(Now(0), &caller).unwrap()
    }

    fn lock(&self, host: usize, number: u8, mode: Mode, how: How, local: bool) -> Plan {
        loop {
            let who = Who::Nlm { host: self.host(host), svid: 1, oh: HOSTS[host] };
            let range = ByteRange::ALL;
            let request = LockRequest { who, range, mode, how, local, monitored: true, kept: None };
            let (plan, effects) = self.state.lock(Now(0), &file(number), &request);
            self.run(effects);
            match plan {
                Plan::Record(record) => self.run(self.state.persisted(Now(0), &record)),
                Plan::Local(ticket, _) => {
                    thread::yield_now();
                    let (plan, effects) = self.state.settle(Now(0), &ticket, LocalAnswer::Done);
                    self.run(effects);
                    return plan;
                }
                Plan::Again => thread::yield_now(),
                plan => return plan,
            }
        }
    }

    fn unlock(&self, host: usize, number: u8) {
        let who = Who::Nlm { host: self.host(host), svid: 1, oh: HOSTS[host] };
        let (plan, effects) = self.state.unlock(Now(0), &file(number), &who, ByteRange::ALL);
        assert!(matches!(plan, Plan::Granted));
        self.run(effects);
    }

    fn run(&self, effects: Effects) {
        for effect in effects {
            match effect {
                Effect::Granted(granted) => {
                    let mut told = self.told.lock().unwrap();
                    assert!(!told.contains(&granted.tag), "told twice");
                    told.push(granted.tag);
                }
                Effect::Local(ticket, _) => {
                    let (_, effects) = self.state.settle(Now(0), &ticket, LocalAnswer::Done);
                    self.run(effects);
                }
                Effect::LetGo(_) => {}
            }
        }
    }

    /// Waits for a grant.
    fn wait(&self, tag: Tag) {
        while !self.told.lock().unwrap().contains(&tag) {
            thread::yield_now();
        }
    }

    fn enter(&self, number: u8, mode: Mode) {
        let (readers, writer) = &mut self.inside.lock().unwrap()[usize::from(number)];
        assert!(!*writer, "a writer is inside");
        match mode {
            Mode::Read => *readers += 1,
            Mode::Write => {
                assert!(*readers == 0, "a reader is inside");
                *writer = true;
            }
        }
    }

    fn leave(&self, number: u8, mode: Mode) {
        let (readers, writer) = &mut self.inside.lock().unwrap()[usize::from(number)];
        match mode {
            Mode::Read => *readers -= 1,
            Mode::Write => *writer = false,
        }
    }

    /// Locks, is alone, unlocks; says whether it got the lock.
    fn visit(&self, host: usize, number: u8, mode: Mode, tag: u64, local: bool) -> bool {
        match self.lock(host, number, mode, How::Wait(Tag(tag)), local) {
            Plan::Granted => {}
            Plan::Blocked(tag) => self.wait(tag),
            Plan::Deadlock => return false,
            other => panic!("{other:?}"),
        }
        self.enter(number, mode);
        thread::yield_now();
        self.leave(number, mode);
        self.unlock(host, number);
        true
    }

    fn assert_empty(&self) {
        let totals = self.state.totals();
        assert_eq!((totals.files, totals.ranges, totals.waiters), (0, 0, 0));
        assert!(self.state.host_rows(Now(0)).iter().all(|host| host.files == 0));
    }
}

fn check(model: impl Fn() + Send + Sync + 'static) {
    let schedules = std::env::var("SCHEDULES").map_or(SCHEDULES, |number| number.parse().unwrap());
    shuttle::check_random(model, schedules);
}

/// Threads that wait for each other's locks exclude each other, are all told, and leave nothing.
fn three_visitors(local: bool) {
    check(move || {
        let world = World::new();
        let threads: Vec<_> = (0..3)
            .map(|host| {
                let world = Arc::clone(&world);
                thread::spawn(move || {
                    let mode = if host == 0 { Mode::Write } else { Mode::Read };
                    for round in 0..2 {
                        assert!(world.visit(host, 0, mode, host as u64 * 10 + round, local));
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        world.assert_empty();
    });
}

#[test]
fn every_waiter_is_granted_and_no_state_is_left() {
    three_visitors(false);
}

#[test]
fn every_waiter_is_granted_with_kernel_requests() {
    three_visitors(true);
}

/// Two owners that take two files in opposite order: at least one is told of the deadlock, and both go on.
#[test]
fn a_deadlock_that_closes_from_both_sides_is_found() {
    check(|| {
        let world = World::new();
        let threads: Vec<_> = (0..2_u8)
            .map(|host| {
                let world = Arc::clone(&world);
                thread::spawn(move || {
                    let at = usize::from(host);
                    let tag = u64::from(host) * 10;
                    match world.lock(at, host, Mode::Write, How::Wait(Tag(tag)), false) {
                        Plan::Granted => {}
                        // the other has this file as his second
                        Plan::Blocked(tag) => world.wait(tag),
                        other => panic!("{other:?}"),
                    }
                    world.visit(at, 1 - host, Mode::Write, tag + 1, false);
                    world.unlock(at, host);
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        world.assert_empty();
    });
}

/// A host is dropped while its own calls and those of others are under way.
#[test]
fn a_dropped_host_leaves_no_locks() {
    check(|| {
        let world = World::new();
        let ours = Arc::clone(&world);
        let calls = thread::spawn(move || {
            for number in [0, 1] {
                let _plan = ours.lock(0, number, Mode::Write, How::Try, true);
            }
        });
        let others = Arc::clone(&world);
        let visitor = thread::spawn(move || {
            // a tentative lock of the other host is neither granted nor denied for a while
            if let Plan::Granted = others.lock(1, 0, Mode::Write, How::Try, true) {
                others.unlock(1, 0);
            }
        });
        let reboot = world.state.client_rebooted(Now(0), address(0), HOSTS[0], 3);
        if let Reboot::Dropped { effects, .. } = reboot {
            world.run(effects);
        }
        calls.join().unwrap();
        visitor.join().unwrap();
        let reboot = world.state.client_rebooted(Now(0), address(0), HOSTS[0], 5);
        if let Reboot::Dropped { effects, .. } = reboot {
            world.run(effects);
        }
        world.assert_empty();
    });
}
