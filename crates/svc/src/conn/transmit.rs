//! What leaves on a connection: whole replies, in the order in which they got the transmit lock.
//!
//! Sending never waits. What the socket does not take is queued, and while anything is queued the
//! connection is not read, so that a client that never takes its replies holds up itself alone. What
//! all of them leave unread has a bound (`unread.rs`).
//!
//! The transmit lock ([`Conn::tx`]) guards the queue, the number of calls that run detached, and
//! what epoll knows of the socket; under it there is a non-blocking send and epoll_ctl, nothing
//! else. Whether a connection can go on is decided in one place, [`Conn::settle`].
//!
//! Invariant: a connection in a pool's table is watched by epoll, or out with a worker, or in the
//! list of connections to be served, or a detached call will report back when it ends (`waiting`).

use crate::conn::connection::{Conn, add};
use crate::conn::send_queue::{Part, Queue, offer, offer_bytes};
use crate::conn::unread;
use crate::pool::worker_pool::Pool;
use crate::server::lifecycle::Shared;
use crate::sync::lock;
use std::io::ErrorKind;
use std::net::Shutdown;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use sys::epoll::Interest;
use telemetry::{Counter, WorkerStats};
use xdr::{FileRange, Writer};

/// Bytes of a cold file that are read at once.
const FETCH: usize = 128 << 10;

/// Receives from a parting connection before others have their turn.
const LINGER_READS: usize = 16;

/// The state of a connection's sending side.
#[derive(Default)]
pub(crate) struct Tx {
    token: u64,
    /// Whose table it is in; `None` before it is in any, and after it was closed.
    pool: Option<Arc<Pool>>,
    /// On its way from one pool to another: no epoll watches it.
    moving: bool,
    /// What the socket has not taken.
    queue: Queue,
    /// Calls that run detached.
    in_flight: u32,
    /// Whether the pool wants to read.
    reading: bool,
    /// Whether the pool wants to hear of the end of a detached call.
    waiting: bool,
    /// Broken, or given up: nothing is sent any more.
    dead: bool,
    /// What epoll watches for; `None` if it does not know the socket.
    watched: Option<Interest>,
}

/// What became of bytes to be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sent {
    /// The socket took them all.
    All,
    /// Some wait for the socket to take them.
    Queued,
    /// The connection is broken.
    Broken,
}

/// What the pool has to do with a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ConnAction {
    /// Strike it out.
    Close,
    /// Wait for it to be readable.
    Read,
    /// Wait for room to send, or for the end of a detached call.
    Wait,
    /// Serve its tail.
    Serve,
}

impl Conn {
    /// Sends replies, or queues what the socket does not take.
    pub fn send(&self, pool: &Pool, stats: &WorkerStats, replies: &[&Writer]) -> Sent {
        if replies.iter().all(|reply| reply.is_empty()) {
            return Sent::All;
        }
        let mut tx = lock(&self.tx);
        let sent = self.write(&mut tx, pool, stats, replies);
        drop(tx);
        self.account(sent, pool, stats)
    }

    /// Sends what a batch has collected, and counts one more call that runs detached.
    pub fn detach(&self, pool: &Pool, stats: &WorkerStats, collected: &Writer) {
        let mut tx = lock(&self.tx);
        tx.in_flight = tx.in_flight.saturating_add(1);
        self.seen.in_flight.store(tx.in_flight.into(), Relaxed);
        if !collected.is_empty() {
            let sent = self.write(&mut tx, pool, stats, &[collected]);
            drop(tx);
            self.account(sent, pool, stats);
        }
    }

    /// Sends a detached call's reply and counts one less; the pool that wants to know, if one
    /// does, and under which token. It need not be the pool that the call began in.
    #[must_use]
    pub fn finish(&self, stats: &WorkerStats, reply: &Writer) -> Option<(Arc<Pool>, u64)> {
        let mut tx = lock(&self.tx);
        let pool = tx.pool.clone();
        let sent = match &pool {
            Some(pool) if !reply.is_empty() => self.write(&mut tx, pool, stats, &[reply]),
            Some(_) | None => Sent::All,
        };
        tx.in_flight = tx.in_flight.saturating_sub(1);
        self.seen.in_flight.store(tx.in_flight.into(), Relaxed);
        let (wanted, token) = (std::mem::take(&mut tx.waiting), tx.token);
        drop(tx);
        let pool = pool?;
        self.account(sent, &pool, stats);
        wanted.then_some((pool, token))
    }

    /// Offers what is queued to the socket again.
    ///
    /// # Errors
    /// The file whose turn it is was in memory when its range was queued and is not any more: it
    /// has to be brought there first, which takes time.
    pub fn flush(&self, pool: &Pool, stats: &WorkerStats) -> Result<Sent, FileRange> {
        self.flush_unless_cold(pool, stats, false)
    }

    /// As [`Conn::flush`]; `fetched`: the first range has just been read.
    fn flush_unless_cold(
        &self,
        pool: &Pool,
        stats: &WorkerStats,
        mut fetched: bool,
    ) -> Result<Sent, FileRange> {
        let mut tx = lock(&self.tx);
        while !tx.queue.is_empty() && !tx.dead {
            // a hole may never come to memory, however often it is read
            if !std::mem::take(&mut fetched)
                && let Some(range) = tx.queue.next_range()
                && !sys::io::is_cached(range.file.as_fd(), range.offset, range.len, true)
                    .unwrap_or(true)
            {
                return Err(range);
            }
            match offer(&self.stream, stats, tx.queue.next_parts()) {
                Ok(0) => break,
                Ok(len) => {
                    add(&self.seen.bytes_out, len as u64);
                    let before = tx.queue.cost();
                    tx.queue.taken(len);
                    pool.shared.queued.give_back(before.saturating_sub(tx.queue.cost()));
                    self.seen.taken_ms.store(pool.shared.clock.now_ms(), Relaxed);
                    self.note(&tx.queue);
                }
                Err(_) => self.abandon(&mut tx, &pool.shared),
            }
        }
        self.watch(&mut tx, pool);
        Ok(tx.state())
    }

    /// Offers what is queued to the socket again, and brings files into memory if need be. Not while
    /// leading.
    pub fn flush_waiting(&self, pool: &Pool, stats: &WorkerStats) -> Sent {
        let mut fetched = false;
        loop {
            match self.flush_unless_cold(pool, stats, fetched) {
                Ok(sent) => return sent,
                Err(range) => {
                    stats.add(Counter::RangesFetched, 1);
                    fetch(&range);
                    fetched = true;
                }
            }
        }
    }

    /// Decides how a connection in the table goes on, and tells epoll. `anew`: there may be something to
    /// read, or room to send, of which epoll has told already.
    pub fn rearm(&self, pool: &Pool, has_tail: bool, ending: bool, anew: bool) -> ConnAction {
        let mut tx = lock(&self.tx);
        let empty = tx.queue.is_empty();
        if tx.dead || (ending && empty && !has_tail && tx.in_flight == 0) {
            return ConnAction::Close;
        }
        let busy = tx.in_flight >= pool.shared.limits.in_flight_max;
        tx.waiting = busy || ending;
        tx.reading = !ending && !has_tail && !busy;
        let anew = anew && (tx.reading || !empty);
        self.watch_anew(&mut tx, pool, anew);
        match has_tail {
            _ if tx.dead => ConnAction::Close,
            true if empty && !busy => ConnAction::Serve,
            false if tx.reading => ConnAction::Read,
            true | false => ConnAction::Wait,
        }
    }

    /// Whether replies wait for the client to take them.
    pub fn has_queued_replies(&self) -> bool {
        !lock(&self.tx).queue.is_empty()
    }

    /// Is in a pool's table from now on.
    pub fn enter(&self, pool: &Arc<Pool>, token: u64) {
        let mut tx = lock(&self.tx);
        tx.token = token;
        tx.pool = Some(Arc::clone(pool));
        tx.moving = false;
    }

    /// Leaves a pool for another. Whoever settles it there learns what happened on the way.
    pub fn leave_pool(&self) {
        let mut tx = lock(&self.tx);
        if tx.watched.take().is_some()
            && let Some(pool) = &tx.pool
        {
            let _ = pool.epoll.delete(&self.stream);
        }
        tx.moving = true;
    }

    /// Whether epoll does not watch it for reading, and did not when that was last decided.
    pub fn is_read_paused(&self) -> bool {
        !lock(&self.tx).reading
    }

    /// Tells the client that nothing more will come; `false` if the connection is broken.
    pub fn begin_lingering_close(&self, pool: &Pool) -> bool {
        let mut tx = lock(&self.tx);
        tx.reading = false;
        if tx.watched.take().is_some() {
            let _ = pool.epoll.delete(&self.stream);
        }
        !tx.dead && self.stream.shutdown(Shutdown::Write).is_ok()
    }

    /// Whether the client has taken everything since it was told the end, or has gone. What it
    /// sends is thrown away: were it left, closing would destroy what is on its way out.
    pub fn lingering_close_is_done(&self, buf: &mut [u8]) -> bool {
        for _ in 0..LINGER_READS {
            match sys::socket::receive(&self.stream, buf) {
                Ok(0) => return true,
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    return sys::socket::unacknowledged(&self.stream) == 0;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return true,
            }
        }
        false
    }

    /// Gives the connection up: forgets what is queued and ends it. Detached calls that still run
    /// find it dead.
    pub fn close(&self, pool: &Pool) {
        let mut tx = lock(&self.tx);
        self.abandon(&mut tx, &pool.shared);
        if tx.watched.take().is_some() {
            let _ = pool.epoll.delete(&self.stream);
        }
        tx.pool = None;
    }

    /// Sends behind what is queued already.
    fn write(&self, tx: &mut Tx, pool: &Pool, stats: &WorkerStats, replies: &[&Writer]) -> Sent {
        if tx.dead {
            return Sent::Broken;
        }
        let mut gone = 0_usize;
        if tx.queue.is_empty() {
            let offered = match replies {
                [reply] if !reply.has_ranges() => offer_bytes(&self.stream, stats, reply.bytes()),
                _ => offer(&self.stream, stats, Part::of(replies)),
            };
            match offered {
                Ok(len) => gone = len,
                Err(_) => {
                    self.abandon(tx, &pool.shared);
                    return Sent::Broken;
                }
            }
            add(&self.seen.bytes_out, gone as u64);
            if gone == replies.iter().map(|reply| reply.total_len()).sum() {
                return Sent::All;
            }
        }
        let before = tx.queue.cost();
        if tx.queue.is_empty() {
            self.seen.taken_ms.store(pool.shared.clock.now_ms(), Relaxed);
        }
        tx.queue.keep(Part::of(replies), gone);
        pool.shared.queued.overdraw(tx.queue.cost().saturating_sub(before));
        stats.add(Counter::RepliesQueued, 1);
        self.note(&tx.queue);
        self.watch(tx, pool);
        Sent::Queued
    }

    /// After a write, and without its lock: if replies had to be queued, sees to it that they are within
    /// the budget, and that somebody looks whether they are ever taken.
    fn account(&self, sent: Sent, pool: &Pool, stats: &WorkerStats) -> Sent {
        if sent != Sent::Queued {
            return sent;
        }
        if pool.shared.queued.is_over() {
            unread::relieve(&pool.shared, stats);
        }
        pool.shared.watchdog_waker.wake_for_memory();
        lock(&self.tx).state()
    }

    /// Gives the connection up if replies wait; whether they did.
    pub fn end_unread(&self, shared: &Shared) -> bool {
        let mut tx = lock(&self.tx);
        let unread = !tx.queue.is_empty();
        if unread {
            self.abandon(&mut tx, shared);
        }
        unread
    }

    /// Forgets what is queued; the socket's end wakes whoever watches it.
    fn abandon(&self, tx: &mut Tx, shared: &Shared) {
        if !tx.dead {
            tx.dead = true;
            shared.queued.give_back(std::mem::take(&mut tx.queue).cost());
            self.note(&tx.queue);
            self.shut_down();
        }
    }

    fn note(&self, queue: &Queue) {
        self.seen.queued.store(queue.len(), Relaxed);
        self.seen.queued_cost.store(queue.cost(), Relaxed);
    }

    /// Makes epoll watch for what is wanted now.
    fn watch(&self, tx: &mut Tx, pool: &Pool) {
        self.watch_anew(tx, pool, false);
    }

    /// Makes epoll watch for what is wanted now; `anew`: and tell again of what is there.
    fn watch_anew(&self, tx: &mut Tx, pool: &Pool, anew: bool) {
        if tx.moving {
            return;
        }
        let empty = tx.queue.is_empty();
        let (readable, writable) = (tx.reading && empty, !empty);
        let wanted = Interest { readable, writable, edge: true };
        let done = match tx.watched {
            Some(watched) if watched == wanted && !anew => return,
            Some(_) if wanted.is_none() => pool.epoll.delete(&self.stream),
            Some(_) => pool.epoll.modify(&self.stream, tx.token, wanted),
            None if wanted.is_none() => return,
            None => pool.epoll.add(&self.stream, tx.token, wanted),
        };
        tx.watched = if wanted.is_none() { None } else { Some(wanted) };
        if done.is_err() {
            // Out of memory or over the user's limit of watches: better no connection than one
            // that nobody looks after.
            tx.watched = None;
            tx.waiting = true;
            self.abandon(tx, &pool.shared);
        }
    }
}

/// Reads a range, so that the page cache has it.
fn fetch(range: &FileRange) {
    let mut scratch = vec![0; FETCH.min(range.len)];
    let mut at = 0_usize;
    while at < range.len {
        let most = scratch.len().min(range.len.saturating_sub(at));
        let piece = scratch.get_mut(..most).unwrap_or_default();
        match sys::io::read(range.file.as_fd(), piece, range.offset.saturating_add(at as u64)) {
            Ok(len) if len > 0 => at = at.saturating_add(len),
            // the end, or what sending will find as well
            Ok(_) | Err(_) => return,
        }
    }
}

impl Tx {
    fn state(&self) -> Sent {
        match self.queue.is_empty() {
            _ if self.dead => Sent::Broken,
            true => Sent::All,
            false => Sent::Queued,
        }
    }
}
