//! A worker thread from start to end: it leads its pool while it holds the event loop, else takes work from
//! the queue, and parks when there is none.

use crate::limits::IDLE_THREAD_AGE;
use crate::pool::inbox::Message;
use crate::pool::scheduler::{IdleTimeout, Next, Parker, Role};
use crate::pool::worker_pool::Pool;
use crate::service::worker_context::{WorkerBuffers, WorkerContext};
use crate::worker::leader::Worker;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};
use sys::thread::ThreadNumber;
use telemetry::Counter;

/// Why a worker ends.
enum ThreadExit {
    /// There is no work for it; the scheduler does not count it any more.
    NotNeeded,
    /// The pool has retired.
    Retired,
}

/// A worker and where it parks.
struct WorkerThread {
    worker: Worker,
    parker: Arc<Parker>,
    thread: ThreadNumber,
}

/// The body of a worker thread. A panic, which only a bug in this crate can cause, costs the connection
/// that was being served.
pub(crate) fn run(pool: &Arc<Pool>, role: Role, started_ns: u64) {
    if !pool.cpus.is_empty()
        && let Err(error) = sys::thread::run_on(&pool.cpus)
    {
        tracing::warn!(pool = pool.index, %error, "cannot bind a worker to its node's CPUs");
    }
    // the thread that started this one may have been acting as some caller
    sys::identity::begin(&pool.shared.own_identity);
    let ctx = WorkerContext {
        pool: Arc::clone(pool),
        stats: pool.shared.telemetry.worker(),
        buffers: WorkerBuffers::default(),
        event_loop: None,
        active_round: None,
        is_reserve: role == Role::Reserve,
    };
    ctx.stats.add(Counter::ThreadsStarted, 1);
    let mut thread = WorkerThread {
        worker: Worker { ctx, relieved: false },
        parker: Parker::started(role, started_ns),
        thread: ThreadNumber::own(),
    };
    let exit = loop {
        match catch_unwind(AssertUnwindSafe(|| thread.run())) {
            Ok(exit) => break exit,
            Err(_panic) => thread.worker.recover(),
        }
    };
    thread.worker.ctx.stats.add(Counter::ThreadsExited, 1);
    drop(thread);
    match exit {
        ThreadExit::NotNeeded => {}
        ThreadExit::Retired => pool.scheduler.thread_exited(role),
    }
}

impl WorkerThread {
    fn run(&mut self) -> ThreadExit {
        let Self { worker, parker, thread } = self;
        loop {
            while worker.ctx.event_loop.is_some() {
                worker.step();
            }
            let pool = &worker.ctx.pool;
            match pool.scheduler.next_task(parker, pool.shared.clock.now_ns()) {
                Next::Work(work, also) => {
                    pool.wake(also, &worker.ctx.stats);
                    worker.work(work);
                }
                Next::Lead(event_loop, also) => {
                    pool.set_leader_thread(*thread);
                    worker.ctx.event_loop = Some(event_loop);
                    worker.ctx.pool.wake(also, &worker.ctx.stats);
                }
                Next::Park { relieve } => {
                    if relieve {
                        pool.post(Message::RelieveReserve);
                    }
                    if let Some(exit) = park(&mut worker.ctx, parker) {
                        return exit;
                    }
                }
                Next::Exit => return ThreadExit::NotNeeded,
                Next::Retired => return ThreadExit::Retired,
            }
        }
    }
}

/// Parks until woken, or ends if nobody needs this worker.
fn park(ctx: &mut WorkerContext, parker: &Arc<Parker>) -> Option<ThreadExit> {
    let end = Instant::now().checked_add(IDLE_THREAD_AGE);
    let mut rest = Some(IDLE_THREAD_AGE);
    while !parker.is_woken() {
        let Some(left) = rest else {
            std::thread::park();
            continue;
        };
        std::thread::park_timeout(left);
        let left = end.map(|end| end.saturating_duration_since(Instant::now()));
        rest = left.filter(|left| *left > Duration::ZERO);
        if rest.is_none() && !parker.is_woken() {
            match ctx.pool.scheduler.idle_timed_out(parker) {
                IdleTimeout::Exit => return Some(ThreadExit::NotNeeded),
                IdleTimeout::Stay => ctx.buffers = WorkerBuffers::default(),
                IdleTimeout::Woken => return None,
            }
        }
    }
    None
}
