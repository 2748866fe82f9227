//! How a connection goes on after a worker has served it: it waits for events, is served again, moves to
//! another pool, or is closed.

use crate::conn::connection::{ConnAction, Rx, Sent};
use crate::conn::exclusive_slot::Put;
use crate::pool::event_loop::EventLoop;
use crate::pool::inbox::Message;
use crate::pool::shared::Shared;
use crate::pool::worker_pool::{Pool, Work};
use rpc::ConnId;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use telemetry::{Counter, WorkerStats};

/// The leader returns a connection to its event loop.
pub(crate) fn return_to_loop(
    pool: &Pool,
    stats: &WorkerStats,
    event_loop: &mut EventLoop,
    mut rx: Box<Rx>,
) {
    charge(&mut rx, &pool.shared, stats);
    if event_loop.draining && !event_loop.stopping && !rx.broken {
        event_loop.forget(rx.token);
        pool.connections.fetch_sub(1, Relaxed);
        rx.conn.leave_pool();
        return pool.shared.other_pools.assign(rx);
    }
    rx.needs_rearm |= rx.more || rx.read_until_empty;
    loop {
        let token = rx.token;
        let conn = Arc::clone(&rx.conn);
        let mut action = ConnAction::Read;
        if rx.broken || rx.needs_rearm || event_loop.stopping {
            rx.input_ended |= event_loop.stopping && rx.final_read_done;
            action = match rx.broken {
                true => ConnAction::Close,
                false => rx.rearm(&pool.handles),
            };
            rx.needs_rearm = action != ConnAction::Read;
        }
        let read_again = event_loop.stopping && !rx.final_read_done;
        let lingers = action == ConnAction::Close
            && event_loop.stopping
            && !rx.broken
            && conn.begin_lingering_close(&pool.handles);
        match conn.rx_slot.put(rx) {
            Put::Done => {}
            // Something happened while it was served: decide anew.
            Put::Recheck(mut back) => {
                (back.needs_rearm, back.read_until_empty) = (true, true);
                rx = back;
                continue;
            }
            Put::Closed(mut rx) => return rx.discharge(&pool.shared.partial),
        }
        return match action {
            ConnAction::Close if lingers => event_loop.lingering.push(token),
            ConnAction::Close => close(pool, stats, event_loop, token),
            ConnAction::Serve => event_loop.ready_queue.push_back(token),
            ConnAction::Read if read_again => event_loop.ready_queue.push_back(token),
            ConnAction::Read | ConnAction::Wait => {}
        };
    }
}

/// A worker that does not lead returns a connection: to its slot, to the queue, or to the leader.
pub(crate) fn return_without_loop(pool: &Arc<Pool>, stats: &WorkerStats, mut rx: Box<Rx>) {
    charge(&mut rx, &pool.shared, stats);
    loop {
        if rx.broken || pool.is_stopping() {
            return pool.post(Message::ReturnedConn(rx));
        }
        // while replies wait it is not read, whatever there is to be read
        let replies_wait = rx.conn.counters.queued.load(Relaxed) > 0;
        rx.needs_rearm |= (rx.more || rx.read_until_empty) && replies_wait;
        if rx.needs_rearm {
            match rx.rearm(&pool.handles) {
                ConnAction::Close => return pool.post(Message::ReturnedConn(rx)),
                ConnAction::Serve => return pool.enqueue(Work::Conn(rx), false, stats),
                ConnAction::Read => rx.needs_rearm = false,
                ConnAction::Wait => {}
            }
        } else if rx.more || rx.read_until_empty {
            return pool.enqueue(Work::Conn(rx), false, stats);
        }
        let conn = Arc::clone(&rx.conn);
        match conn.rx_slot.put(rx) {
            Put::Done => return,
            Put::Closed(mut rx) => return rx.discharge(&pool.shared.partial),
            Put::Recheck(back) => rx = back,
        }
        // What happened meanwhile may be room to send as well as something to read.
        rx.read_until_empty = true;
        if rx.needs_rearm || conn.has_queued_replies() {
            rx.broken |= conn.flush_waiting(&pool.handles, stats) == Sent::Broken;
        }
        rx.needs_rearm |= conn.is_read_paused();
    }
}

/// Closes a connection and forgets it.
pub(crate) fn close(pool: &Pool, stats: &WorkerStats, event_loop: &mut EventLoop, token: u64) {
    let Some((conn, rx)) = event_loop.remove(token) else { return };
    if let Some(mut rx) = rx {
        rx.discharge(&pool.shared.partial);
    }
    conn.close(&pool.handles);
    pool.shared.conns.remove(&conn);
    pool.shared.dispatcher.conn_closed(ConnId(conn.id));
    pool.connections.fetch_sub(1, Relaxed);
    stats.add(Counter::ConnectionsClosed, 1);
}

/// Takes the memory that a connection holds from the budget; without budget the connection has to be
/// closed.
fn charge(rx: &mut Rx, shared: &Shared, stats: &WorkerStats) {
    if !rx.charge(&shared.partial) {
        stats.add(Counter::BudgetClosed, 1);
        rx.broken = true;
    }
    if rx.is_charged() {
        shared.watchdog.wake_for_memory();
    }
}
