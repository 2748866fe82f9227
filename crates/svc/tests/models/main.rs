//! Every interleaving, within bounds, of the code by which work, event loops and connections go from
//! thread to thread: the server's own `scheduler.rs` and `exclusive_slot.rs`, compiled here over loom's sync
//! types.
//!
//! A lost wake-up shows as a deadlock, which loom reports: nobody here retires a pool before what
//! it waits for has happened, and no model has a timer.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs, reason = "test code")]

mod socket_removal;

/// What `crate::sync` is to the code under test.
mod sync {
    pub(crate) use loom::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
    pub(crate) use loom::sync::{Condvar, Mutex, MutexGuard};
    pub(crate) use loom::thread::{Thread, current};
}

/// What `crate::settings` is to the code under test.
mod settings {
    pub(crate) use bowline_svc::WakePolicy;
}

#[path = "../../src/conn/exclusive_slot.rs"]
#[allow(dead_code, reason = "the models use a part")]
mod exclusive_slot;
#[path = "../../src/pool/scheduler.rs"]
#[allow(dead_code, reason = "the models use a part")]
mod scheduler;
#[path = "../../src/pool/scheduler_counters.rs"]
#[allow(dead_code, reason = "the models use a part")]
mod scheduler_counters;

use exclusive_slot::{ExclusiveSlot, Put, Take};
use loom::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use loom::sync::{Condvar, Mutex};
use loom::thread;
use scheduler::{IdleTimeout, LoopState, Next, Parker, Role, Scheduler, Wakeup};
use settings::WakePolicy;
use std::sync::Arc;

const POLICIES: [WakePolicy; 4] =
    [WakePolicy::Unlimited, WakePolicy::Cap(2), WakePolicy::Cap(1), WakePolicy::Chain];

/// Switches between threads where neither has to wait; more finds no more, and takes hours.
const PREEMPTIONS: usize = 2;

fn check(model: impl Fn() + Sync + Send + 'static) {
    let mut checker = loom::model::Builder::new();
    checker.preemption_bound = Some(PREEMPTIONS);
    checker.check(model);
}

/// What has happened so far, to be waited for.
struct Done {
    seen: Mutex<Vec<u32>>,
    changed: Condvar,
}

impl Done {
    fn new() -> Self {
        Self { seen: Mutex::new(Vec::new()), changed: Condvar::new() }
    }

    fn tell(&self, what: u32) {
        let mut seen = self.seen.lock().unwrap();
        assert!(!seen.contains(&what), "{what} happened twice");
        seen.push(what);
        self.changed.notify_all();
    }

    fn wait_for(&self, what: u32) {
        let mut seen = self.seen.lock().unwrap();
        while !seen.contains(&what) {
            seen = self.changed.wait(seen).unwrap();
        }
    }
}

/// What wakes a leader that waits, and stays raised until it is lowered.
struct Event {
    raised: Mutex<bool>,
    changed: Condvar,
}

impl Event {
    fn new() -> Self {
        Self { raised: Mutex::new(false), changed: Condvar::new() }
    }

    fn raise(&self) {
        *self.raised.lock().unwrap() = true;
        self.changed.notify_all();
    }

    fn wait(&self) {
        let mut raised = self.raised.lock().unwrap();
        while !std::mem::take(&mut *raised) {
            raised = self.changed.wait(raised).unwrap();
        }
    }
}

/// A pool whose event loop is a token that only one thread may have.
struct Pool {
    scheduler: Scheduler<Token, u32>,
    done: Done,
    /// What a leader waits for.
    told: Event,
    /// Threads that a call said to start, and that the model starts.
    started: Mutex<Vec<Role>>,
}

#[derive(Debug)]
struct Token(Arc<AtomicBool>);

impl Token {
    fn new() -> Self {
        Self(Arc::new(AtomicBool::new(false)))
    }

    /// From here on the thread leads.
    fn hold(&self) {
        assert!(!self.0.swap(true, Ordering::SeqCst), "two threads lead");
    }

    fn let_go(&self) {
        assert!(self.0.swap(false, Ordering::SeqCst), "nobody led");
    }
}

impl Pool {
    fn new(threads: usize, policy: WakePolicy) -> Arc<Self> {
        Self::with_range((threads, threads), policy)
    }

    /// A pool whose fewest threads are counted, to be started by the model.
    fn with_range(range: (usize, usize), policy: WakePolicy) -> Arc<Self> {
        let scheduler = Scheduler::new(Token::new(), range, policy);
        while scheduler.add_below_min() {}
        Arc::new(Self {
            scheduler,
            done: Done::new(),
            told: Event::new(),
            started: Mutex::new(Vec::new()),
        })
    }

    fn call(&self, call: Wakeup) {
        match call {
            Wakeup::Nobody | Wakeup::Exhausted => {}
            Wakeup::NotifyLeader => self.told.raise(),
            Wakeup::Unpark(parker) => parker.unpark(),
            Wakeup::Start(role) => self.started.lock().unwrap().push(role),
        }
    }

    fn enqueue(&self, work: u32, urgent: bool) {
        self.call(self.scheduler.enqueue(work, urgent, 0));
    }

    /// Takes the event loop at the start and keeps it.
    fn lead(&self) -> Token {
        let parker = Parker::started(Role::Worker, 0);
        let Next::Lead(event_loop, also) = self.scheduler.next_task(&parker, 0) else {
            panic!("the event loop is vacant")
        };
        self.call(also);
        event_loop.hold();
        event_loop
    }

    fn retire(&self) {
        for parker in self.scheduler.retire(0) {
            parker.unpark();
        }
    }

    /// A thread from its start to the end of the pool.
    fn work(&self, role: Role, serve: impl Fn(&Self, u32), lead: impl Fn(&Self, Token)) {
        let parker = Parker::started(role, 0);
        loop {
            match self.scheduler.next_task(&parker, 0) {
                Next::Work(work, also) => {
                    self.call(also);
                    serve(self, work);
                }
                Next::Lead(event_loop, also) => {
                    self.call(also);
                    event_loop.hold();
                    lead(self, event_loop);
                }
                Next::Park { .. } => {
                    while !parker.is_woken() {
                        thread::park();
                    }
                }
                Next::Exit | Next::Retired => return self.scheduler.thread_exited(role),
            }
        }
    }

    fn worker(self: &Arc<Self>, serve: impl Fn(&Self, u32) + 'static) -> thread::JoinHandle<()> {
        let pool = Arc::clone(self);
        thread::spawn(move || {
            pool.work(Role::Worker, serve, |_, _| panic!("the event loop is taken"))
        })
    }
}

/// All workers but the leader sleep when one more piece of work is queued that is not for it alone.
#[test]
fn a_leader_that_waits_is_notified_of_queued_work() {
    check(|| {
        let pool = Pool::new(1, WakePolicy::Adaptive);
        let event_loop = pool.lead();
        let other = Arc::clone(&pool);
        let other = thread::spawn(move || other.enqueue(1, false));
        let round = pool.scheduler.begin_round(event_loop);
        let _event_loop = pool.scheduler.end_round(round).expect("nobody frees it");
        loop {
            match pool.scheduler.pop_for_leader(|| 0) {
                Some(work) => break assert_eq!(work, 1),
                None => pool.told.wait(),
            }
        }
        other.join().unwrap();
    });
}

#[test]
fn no_work_is_lost_or_done_twice() {
    for policy in POLICIES {
        check(move || {
            let pool = Pool::new(2, policy);
            let event_loop = pool.lead();
            let workers = [(); 2].map(|()| pool.worker(|pool, work| pool.done.tell(work)));
            pool.enqueue(1, false);
            pool.enqueue(2, false);
            pool.done.wait_for(1);
            pool.done.wait_for(2);
            assert!(pool.scheduler.is_empty() && pool.started.lock().unwrap().is_empty());
            event_loop.let_go();
            pool.retire();
            workers.into_iter().for_each(|worker| worker.join().unwrap());
        });
    }
}

#[test]
fn work_behind_a_blocked_worker_is_taken_by_another() {
    for policy in POLICIES {
        check(move || {
            let pool = Pool::new(2, policy);
            let event_loop = pool.lead();
            let workers = [(); 2].map(|()| {
                pool.worker(|pool, work| {
                    if work == 1 {
                        // Sleeps until the other is done: were nobody called, for ever.
                        pool.call(pool.scheduler.worker_blocks(0));
                        pool.done.wait_for(2);
                        pool.scheduler.worker_resumes();
                    }
                    pool.done.tell(work);
                })
            });
            pool.enqueue(1, false);
            pool.enqueue(2, false);
            pool.done.wait_for(1);
            event_loop.let_go();
            pool.retire();
            workers.into_iter().for_each(|worker| worker.join().unwrap());
        });
    }
}

#[test]
fn when_all_are_blocked_one_is_started_and_not_before() {
    for policy in POLICIES {
        check(move || {
            let pool = Pool::with_range((1, 2), policy);
            let event_loop = pool.lead();
            let serve = |pool: &Pool, work| {
                if work == 1 {
                    pool.call(pool.scheduler.worker_blocks(0));
                    // The start may be the leader's, or that of the one that sleeps.
                    pool.done.tell(10);
                    pool.done.wait_for(2);
                    pool.scheduler.worker_resumes();
                }
                pool.done.tell(work);
            };
            let first = pool.worker(serve);
            pool.enqueue(1, false);
            pool.enqueue(2, false);
            pool.done.wait_for(10);
            let started = std::mem::take(&mut *pool.started.lock().unwrap());
            assert_eq!(started, [Role::Worker], "{policy}");
            let second = pool.worker(serve);
            pool.done.wait_for(1);
            event_loop.let_go();
            pool.retire();
            [first, second].into_iter().for_each(|worker| worker.join().unwrap());
            assert_eq!(pool.scheduler.count().threads, 1, "the leader is pop_for_leader");
        });
    }
}

#[test]
fn a_thread_ends_or_is_woken_and_never_both() {
    for policy in POLICIES {
        check(move || {
            let pool = Pool::with_range((0, 1), policy);
            let event_loop = pool.lead();
            // One more than the fewest, which nobody called for a while when it parks.
            let theirs = Arc::clone(&pool);
            assert!(matches!(pool.scheduler.enqueue(1, false, 0), Wakeup::Start(Role::Worker)));
            let worker = thread::spawn(move || {
                let parker = Parker::started(Role::Worker, 0);
                loop {
                    match theirs.scheduler.next_task(&parker, 0) {
                        Next::Work(work, _) => theirs.done.tell(work),
                        Next::Park { .. } => match theirs.scheduler.idle_timed_out(&parker) {
                            IdleTimeout::Exit => return true,
                            IdleTimeout::Woken => assert!(parker.is_woken()),
                            IdleTimeout::Stay => panic!("there are more than the fewest"),
                        },
                        Next::Retired => return false,
                        Next::Lead(..) | Next::Exit => panic!("neither is due"),
                    }
                }
            });
            pool.done.wait_for(1);
            match pool.scheduler.enqueue(2, false, 0) {
                // It had left.
                Wakeup::Start(Role::Worker) => assert!(worker.join().unwrap()),
                call => {
                    // It was parked, or will come by itself.
                    pool.call(call);
                    pool.done.wait_for(2);
                    assert!(worker.join().unwrap(), "and then leaves");
                }
            }
            event_loop.let_go();
        });
    }
}

#[test]
fn a_policy_change_loses_no_queued_work() {
    let changes = [
        (WakePolicy::Unlimited, WakePolicy::Chain),
        (WakePolicy::Chain, WakePolicy::Cap(2)),
        (WakePolicy::Cap(1), WakePolicy::Adaptive),
        (WakePolicy::Adaptive, WakePolicy::Unlimited),
    ];
    for (before, after) in changes {
        check(move || {
            // The leader and one worker.
            let pool = Pool::new(if before == WakePolicy::Adaptive { 2 } else { 1 }, before);
            let event_loop = pool.lead();
            let worker = pool.worker(|pool, work| pool.done.tell(work));
            let theirs = Arc::clone(&pool);
            let operator =
                thread::spawn(move || theirs.call(theirs.scheduler.set_policy(after, 0)));
            pool.enqueue(1, false);
            pool.enqueue(2, false);
            operator.join().unwrap();
            if after == WakePolicy::Adaptive {
                // There may be one thread only now: the leader, who does this before it waits.
                while let Some(work) = pool.scheduler.pop_for_leader(|| 0) {
                    pool.done.tell(work);
                }
            }
            pool.done.wait_for(1);
            pool.done.wait_for(2);
            event_loop.let_go();
            pool.retire();
            worker.join().unwrap();
        });
    }
}

/// Leads, runs a call that says that it may sleep, and sleeps until somebody else has led.
fn promote_follower(pool: &Pool, event_loop: Token, first: &AtomicUsize) {
    if first.fetch_add(1, Ordering::SeqCst) > 0 {
        event_loop.let_go();
        // To stay: nobody else is to lead after this one.
        return pool.done.tell(2);
    }
    event_loop.let_go();
    let round = pool.scheduler.begin_round(event_loop);
    if let Some(event_loop) = pool.scheduler.end_round(round) {
        assert!(pool.scheduler.end_round(round).is_none(), "a round fits once");
        pool.call(pool.scheduler.promote_follower(event_loop, 0));
    }
    pool.done.wait_for(2);
    pool.scheduler.worker_resumes();
}

#[test]
fn a_follower_leads_while_the_leader_blocks_whether_promoted_or_rescued() {
    check(|| {
        let pool = Pool::new(2, WakePolicy::Adaptive);
        let first = Arc::new(AtomicUsize::new(0));
        let workers = [(); 2].map(|()| {
            let (pool, first) = (Arc::clone(&pool), Arc::clone(&first));
            thread::spawn(move || {
                let serve = |_: &Pool, _: u32| panic!("nothing is queued");
                pool.work(Role::Worker, serve, |pool, event_loop| {
                    promote_follower(pool, event_loop, &first)
                });
            })
        });
        // The watchdog comes once, at any time.
        if let Some(call) = pool.scheduler.rescue(0, || true) {
            pool.call(call);
        }
        pool.done.wait_for(2);
        pool.retire();
        workers.into_iter().for_each(|worker| worker.join().unwrap());
        assert_eq!(pool.scheduler.loop_state(), LoopState::Retired);
        let count = pool.scheduler.count();
        assert_eq!((count.threads, count.blocked), (0, 0));
    });
}

#[test]
fn a_reserve_thread_leads_when_all_are_blocked_and_is_relieved() {
    check(|| {
        let pool = Pool::new(1, WakePolicy::Adaptive);
        let event_loop = pool.lead();
        event_loop.let_go();
        // The only thread is about to sleep.
        let call = pool.scheduler.promote_follower(event_loop, 0);
        assert!(matches!(call, Wakeup::Start(Role::Reserve)));
        let theirs = Arc::clone(&pool);
        let reserve = thread::spawn(move || {
            let lead = |pool: &Pool, event_loop: Token| {
                // An urgent call; then a worker comes back, and is served first.
                pool.enqueue(1, true);
                pool.done.wait_for(3);
                event_loop.let_go();
                pool.call(pool.scheduler.resign(event_loop, 0));
            };
            theirs.work(Role::Reserve, |pool, work| pool.done.tell(work), lead);
        });
        // It wakes up while the reserve leads, or before.
        let worker = {
            let pool = Arc::clone(&pool);
            thread::spawn(move || {
                let parker = Parker::started(Role::Worker, 0);
                let mut told = false;
                loop {
                    match pool.scheduler.next_task(&parker, 0) {
                        Next::Work(work, _) => pool.done.tell(work),
                        Next::Park { relieve } => {
                            if relieve && !std::mem::replace(&mut told, true) {
                                pool.done.tell(3);
                            }
                            while !parker.is_woken() {
                                thread::park();
                            }
                        }
                        Next::Lead(event_loop, _) => {
                            event_loop.hold();
                            event_loop.let_go();
                            return pool.done.tell(4);
                        }
                        Next::Exit | Next::Retired => panic!("the pool goes on"),
                    }
                }
            })
        };
        pool.done.wait_for(4);
        worker.join().unwrap();
        pool.retire();
        reserve.join().unwrap();
    });
}

#[test]
fn urgent_work_is_done_while_every_thread_is_blocked() {
    for policy in POLICIES {
        check(move || {
            let pool = Pool::new(1, policy);
            let event_loop = pool.lead();
            let serve = |pool: &Pool, work: u32| {
                if work == 1 {
                    pool.call(pool.scheduler.worker_blocks(0));
                    pool.done.tell(10);
                    pool.done.wait_for(3);
                    pool.scheduler.worker_resumes();
                }
                pool.done.tell(work);
            };
            let worker = pool.worker(serve);
            pool.enqueue(1, false);
            pool.done.wait_for(10);
            pool.enqueue(2, false);
            assert!(pool.started.lock().unwrap().is_empty(), "no more may be started for this");
            pool.enqueue(3, true);
            assert_eq!(*pool.started.lock().unwrap(), [Role::Reserve]);
            let theirs = Arc::clone(&pool);
            let reserve = thread::spawn(move || {
                theirs.work(Role::Reserve, serve, |_, _| panic!("the event loop is taken"));
            });
            pool.done.wait_for(2);
            event_loop.let_go();
            pool.retire();
            worker.join().unwrap();
            reserve.join().unwrap();
        });
    }
}

/// A connection: data arrives, and whoever has the connection takes it.
struct Line {
    home: ExclusiveSlot<u32>,
    arrived: AtomicUsize,
    served: AtomicUsize,
    busy: AtomicBool,
}

impl Line {
    /// Serves until there is nothing more, and brings it home.
    fn serve(&self, mut it: u32) {
        loop {
            assert!(!self.busy.swap(true, Ordering::SeqCst), "served twice at once");
            self.served.fetch_add(self.arrived.swap(0, Ordering::SeqCst), Ordering::SeqCst);
            assert!(self.busy.swap(false, Ordering::SeqCst));
            match self.home.put(it) {
                Put::Done | Put::Closed(_) => return,
                Put::Recheck(back) => it = back,
            }
        }
    }

    /// The leader hears of data.
    fn arrive(&self) {
        self.arrived.fetch_add(1, Ordering::SeqCst);
        match self.home.take() {
            Take::Value(it) => self.serve(it),
            Take::Busy | Take::Closed => {}
        }
    }
}

#[test]
fn events_during_a_service_round_are_not_lost() {
    check(|| {
        let line = Arc::new(Line {
            home: ExclusiveSlot::new_taken(),
            arrived: AtomicUsize::new(0),
            served: AtomicUsize::new(0),
            busy: AtomicBool::new(false),
        });
        let threads = [true, false].map(|has_it| {
            let line = Arc::clone(&line);
            thread::spawn(move || if has_it { line.serve(7) } else { line.arrive() })
        });
        line.arrive();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(line.served.load(Ordering::SeqCst), 2);
        assert!(matches!(line.home.take(), Take::Value(7)), "it is home");
    });
}

#[test]
fn a_connection_that_is_removed_is_closed_by_exactly_one() {
    check(|| {
        let home = Arc::new(ExclusiveSlot::new_taken());
        let theirs = Arc::clone(&home);
        let worker = thread::spawn(move || match theirs.put(7) {
            Put::Done => 0,
            Put::Closed(_) => 1,
            Put::Recheck(_) => panic!("nobody wants it"),
        });
        let here = usize::from(home.close().is_some());
        assert_eq!(here + worker.join().unwrap(), 1);
        assert!(matches!(home.take(), Take::Closed));
    });
}
