//! Replies that clients do not take: which connections are ended when all of them together exceed the budget.
//!
//! It is not the one whose reply was too much: a client that reads its replies has one in the queue now and
//! then, and a single client that never reads would cost all others their connections. Those are ended that
//! hold the most for longest, by bytes times the time since their socket last took any, until the rest fits.
//! What waits for a client that reads is young, however much it is.
//!
//! A worker checks after it has queued a reply and released the transmit lock; so the budget may be exceeded for
//! a moment, by what workers write at the same time. No lock is held but one connection's at a time.

use crate::conn::connection::{Conn, Sent};
use crate::pool::shared::Shared;
use std::cmp::Reverse;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use telemetry::{Counter, WorkerStats};

/// After a send, and without the transmit lock: if replies had to be queued, keeps them within the
/// budget, and has the watchdog look whether they are ever taken.
pub(crate) fn account(sent: Sent, conn: &Conn, shared: &Shared, stats: &WorkerStats) -> Sent {
    if sent != Sent::Queued {
        return sent;
    }
    if shared.queued.is_over() {
        end_conns_over_budget(shared, stats);
    }
    shared.watchdog.wake_for_memory();
    conn.unsent()
}

/// Ends connections until the replies that wait fit into the budget.
#[cold]
pub(crate) fn end_conns_over_budget(shared: &Shared, stats: &WorkerStats) {
    let now_ms = shared.clock.now_ms();
    let weighed = |conn: Arc<Conn>| (weight(&conn, now_ms), conn);
    let all = shared.conns.all().into_iter().map(weighed);
    let mut holders: Vec<(u64, Arc<Conn>)> = all.filter(|(weight, _)| *weight > 0).collect();
    holders.sort_unstable_by_key(|(weight, _)| Reverse(*weight));
    for (_, conn) in holders {
        if !shared.queued.is_over() {
            return;
        }
        if conn.end_unread(&shared.queued) {
            stats.add(Counter::BudgetClosed, 1);
        }
    }
}

/// How much a connection holds, and for how long.
fn weight(conn: &Conn, now_ms: u64) -> u64 {
    let age_ms = now_ms.saturating_sub(conn.counters.taken_ms.load(Relaxed));
    let cost = conn.counters.queued_cost.load(Relaxed) as u64;
    cost.saturating_mul(age_ms.saturating_add(1))
}
