//! The sending side of a connection: whole replies, in the order in which they got the transmit lock.
//!
//! Sending never waits. What the socket does not take is queued, and while anything is queued the connection
//! is not read, so that a client that never reads its replies blocks only itself. What all clients together
//! leave unread is bounded (`pool/unread.rs`).
//!
//! Under the transmit lock ([`Conn::tx`]) there is a non-blocking send and epoll_ctl, nothing else. Whether a
//! connection can go on is decided in one place, [`Conn::rearm`].
//!
//! Invariant: a connection in a pool's event loop is watched by epoll, or with a worker, or in the ready
//! queue, or a detached call tells the pool when it ends (`Tx::waiting`).

use crate::budget::Budget;
use crate::conn::connection::{Conn, ConnAction, Rx, Sent, Tx};
use crate::conn::pool_handles::PoolHandles;
use crate::conn::send_queue::{SendPart, send_bytes, send_parts};
use crate::sync::{add, lock};
use std::io::ErrorKind;
use std::os::fd::AsFd;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, MutexGuard};
use sys::epoll::Interest;
use telemetry::{Counter, WorkerStats};
use xdr::{FileRange, Writer};

/// Bytes of a cold file that are read at once.
const FETCH: usize = 128 << 10;

/// Receives from a lingering connection before others are looked at.
const LINGER_READS: usize = 16;

impl Conn {
    /// Sends replies, or queues what the socket does not take.
    pub fn send(&self, pool: &PoolHandles, stats: &WorkerStats, replies: &[&Writer]) -> Sent {
        if replies.iter().all(|reply| reply.is_empty()) {
            return Sent::All;
        }
        self.write(&mut lock(&self.tx), pool, stats, replies)
    }

    /// Sends the replies collected so far, and counts one more call that runs detached.
    pub fn begin_detached_call(
        &self,
        pool: &PoolHandles,
        stats: &WorkerStats,
        collected: &Writer,
    ) -> Sent {
        let mut tx = lock(&self.tx);
        tx.in_flight = tx.in_flight.saturating_add(1);
        self.counters.in_flight.store(tx.in_flight.into(), Relaxed);
        match collected.is_empty() {
            true => Sent::All,
            false => self.write(&mut tx, pool, stats, &[collected]),
        }
    }

    /// Sends a detached call's reply and counts one less. Tells the pool that has the connection now, if
    /// it waits for that; it need not be the pool that the call began in.
    pub fn end_detached_call(&self, stats: &WorkerStats, reply: &Writer) -> Sent {
        let mut tx = lock(&self.tx);
        let sent = match tx.pool.clone() {
            Some(pool) if !reply.is_empty() => self.write(&mut tx, &pool, stats, &[reply]),
            Some(_) | None => Sent::All,
        };
        self.end_call(tx);
        sent
    }

    /// Counts one more call that is answered later; `false` if there are `most` already.
    pub fn begin_deferred_call(&self, most: u32) -> bool {
        let mut tx = lock(&self.tx);
        let fits = tx.in_flight < most;
        if fits {
            tx.in_flight = tx.in_flight.saturating_add(1);
            self.counters.in_flight.store(tx.in_flight.into(), Relaxed);
        }
        fits
    }

    /// Sends the reply of a call that is answered later, which remains counted.
    pub fn send_deferred(&self, stats: &WorkerStats, replies: &[&Writer]) -> Sent {
        let mut tx = lock(&self.tx);
        match tx.pool.clone() {
            Some(pool) => self.write(&mut tx, &pool, stats, replies),
            None => Sent::Broken,
        }
    }

    /// Sends a message that is not a reply; `None` if more than `most` bytes wait to be sent already.
    pub fn post(&self, stats: &WorkerStats, message: &[&Writer], most: usize) -> Option<Sent> {
        let mut tx = lock(&self.tx);
        match tx.pool.clone() {
            Some(_) if !tx.dead && tx.queue.len() > most => None,
            Some(pool) => Some(self.write(&mut tx, &pool, stats, message)),
            None => Some(Sent::Broken),
        }
    }

    /// Counts one less, as [`Conn::end_detached_call`] does.
    pub fn end_deferred_call(&self) {
        self.end_call(lock(&self.tx));
    }

    /// Whether as many calls are under way as may be.
    pub fn is_busy(&self, most: u32) -> bool {
        lock(&self.tx).in_flight >= most
    }

    fn end_call(&self, mut tx: MutexGuard<'_, Tx>) {
        tx.in_flight = tx.in_flight.saturating_sub(1);
        self.counters.in_flight.store(tx.in_flight.into(), Relaxed);
        let (pool, token) = (tx.pool.clone(), tx.token);
        let waiting = std::mem::take(&mut tx.waiting);
        drop(tx);
        if let (Some(pool), true) = (pool, waiting) {
            pool.inbox.call_ended(token);
        }
    }

    /// What there is to be sent now.
    pub fn unsent(&self) -> Sent {
        lock(&self.tx).state()
    }

    /// Offers what is queued to the socket again.
    ///
    /// # Errors
    /// The next range was in the page cache when it was queued and is not any more: it has to be read first,
    /// which may block.
    pub fn flush(&self, pool: &PoolHandles, stats: &WorkerStats) -> Result<Sent, FileRange> {
        self.flush_unless_cold(pool, stats, false)
    }

    /// As [`Conn::flush`]; `fetched`: the first range has just been read.
    fn flush_unless_cold(
        &self,
        pool: &PoolHandles,
        stats: &WorkerStats,
        mut fetched: bool,
    ) -> Result<Sent, FileRange> {
        let mut tx = lock(&self.tx);
        while !tx.queue.is_empty() && !tx.dead {
            // a hole may never be in the page cache, however often it is read
            if !std::mem::take(&mut fetched)
                && let Some(range) = tx.queue.next_range()
                && !sys::io::is_cached(range.file.as_fd(), range.offset, range.len, true)
                    .unwrap_or(true)
            {
                return Err(range);
            }
            match send_parts(&self.stream, stats, tx.queue.next_parts()) {
                Ok(0) => break,
                Ok(len) => {
                    add(&self.counters.bytes_out, len as u64);
                    let before = tx.queue.cost();
                    tx.queue.taken(len);
                    let kernel_bytes = std::mem::take(&mut tx.kernel_bytes);
                    let freed = before.saturating_sub(tx.queue.cost()).saturating_add(kernel_bytes);
                    pool.queued.give_back(freed);
                    self.counters.taken_ms.store(pool.clock.now_ms(), Relaxed);
                    self.note(&tx);
                }
                Err(_) => self.abandon(&mut tx, &pool.queued),
            }
        }
        self.watch(&mut tx, pool);
        Ok(tx.state())
    }

    /// Offers what is queued to the socket again, and reads ranges that are not in the page cache. Not while
    /// leading.
    pub fn flush_waiting(&self, pool: &PoolHandles, stats: &WorkerStats) -> Sent {
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

    /// Decides how a connection goes on, and has epoll watch for it. `anew`: there may be something to read,
    /// or room to send, that epoll has reported already.
    pub fn rearm(
        &self,
        pool: &PoolHandles,
        has_tail: bool,
        ending: bool,
        anew: bool,
    ) -> ConnAction {
        let mut tx = lock(&self.tx);
        let empty = tx.queue.is_empty();
        if tx.dead || (ending && empty && !has_tail && tx.in_flight == 0) {
            return ConnAction::Close;
        }
        let busy = tx.in_flight >= pool.in_flight_max;
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

    /// Joins a pool.
    pub fn join_pool(&self, pool: &Arc<PoolHandles>, token: u64) {
        let mut tx = lock(&self.tx);
        tx.token = token;
        tx.pool = Some(Arc::clone(pool));
        tx.moving = false;
    }

    /// Its token in its pool's event loop.
    pub fn token(&self) -> u64 {
        lock(&self.tx).token
    }

    /// Has nobody watch it until it is rearmed; whether nothing of it is under way.
    pub fn pause(&self) -> bool {
        let mut tx = lock(&self.tx);
        tx.reading = false;
        if tx.watched.take().is_some()
            && let Some(pool) = &tx.pool
        {
            let _ = self.stream.unwatch(&pool.epoll);
        }
        !tx.dead && tx.queue.is_empty() && tx.in_flight == 0
    }

    /// Leaves a pool for another, where it is rearmed.
    pub fn leave_pool(&self) {
        let mut tx = lock(&self.tx);
        if tx.watched.take().is_some()
            && let Some(pool) = &tx.pool
        {
            let _ = self.stream.unwatch(&pool.epoll);
        }
        tx.moving = true;
    }

    /// Whether epoll does not watch it for reading, and did not when that was last decided.
    pub fn is_read_paused(&self) -> bool {
        !lock(&self.tx).reading
    }

    /// Tells the client that nothing more will come; `false` if the connection is broken.
    pub fn begin_lingering_close(&self, pool: &PoolHandles) -> bool {
        let mut tx = lock(&self.tx);
        tx.reading = false;
        if tx.watched.take().is_some() {
            let _ = self.stream.unwatch(&pool.epoll);
        }
        !tx.dead && self.stream.end_sending()
    }

    /// Whether the client has taken everything since the end of the stream was sent, or has closed. What it
    /// sends is thrown away: if it were left, closing would reset the connection and lose what is unsent.
    pub fn lingering_close_is_done(&self, buf: &mut [u8]) -> bool {
        for _ in 0..LINGER_READS {
            match self.stream.receive_raw(buf) {
                Ok(0) => return true,
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    return self.stream.unacknowledged_bytes() == 0;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return true,
            }
        }
        false
    }

    /// Forgets what is queued and ends the connection. Detached calls that still run find it dead.
    pub fn close(&self, pool: &PoolHandles) {
        let mut tx = lock(&self.tx);
        self.abandon(&mut tx, &pool.queued);
        if tx.watched.take().is_some() {
            let _ = self.stream.unwatch(&pool.epoll);
        }
        tx.pool = None;
    }

    /// Sends behind what is queued already.
    fn write(
        &self,
        tx: &mut Tx,
        pool: &PoolHandles,
        stats: &WorkerStats,
        replies: &[&Writer],
    ) -> Sent {
        if tx.dead {
            return Sent::Broken;
        }
        let mut gone = 0_usize;
        if tx.queue.is_empty() {
            let offered = match replies {
                [reply] if !reply.has_ranges() => send_bytes(&self.stream, stats, reply.bytes()),
                _ => send_parts(&self.stream, stats, SendPart::of(replies)),
            };
            match offered {
                Ok(len) => gone = len,
                Err(_) => {
                    self.abandon(tx, &pool.queued);
                    return Sent::Broken;
                }
            }
            add(&self.counters.bytes_out, gone as u64);
            if gone == replies.iter().map(|reply| reply.total_len()).sum() {
                return Sent::All;
            }
        }
        let before = tx.queue.cost();
        if tx.queue.is_empty() {
            self.counters.taken_ms.store(pool.clock.now_ms(), Relaxed);
        }
        tx.queue.keep(&self.stream, SendPart::of(replies), gone);
        pool.queued.force_take(tx.queue.cost().saturating_sub(before));
        stats.add(Counter::RepliesQueued, 1);
        self.note(tx);
        self.watch(tx, pool);
        Sent::Queued
    }

    /// Takes what the kernel holds for a client that takes nothing from the budget; once until the client
    /// takes some.
    pub fn charge_kernel_buffer(&self, queued: &Budget) {
        let mut tx = lock(&self.tx);
        if tx.queue.is_empty() || tx.kernel_bytes > 0 {
            return;
        }
        tx.kernel_bytes = self.stream.unacknowledged_bytes();
        queued.force_take(tx.kernel_bytes);
        self.note(&tx);
    }

    /// Gives the connection up if replies wait, with what the kernel holds of them; whether they did.
    pub fn end_unread(&self, queued: &Budget) -> bool {
        let mut tx = lock(&self.tx);
        let unread = !tx.queue.is_empty();
        if unread {
            self.stream.discard_unsent();
            self.abandon(&mut tx, queued);
        }
        unread
    }

    /// Forgets what is queued and ends the connection, of which epoll tells its pool.
    fn abandon(&self, tx: &mut Tx, queued: &Budget) {
        if !tx.dead {
            tx.dead = true;
            let kernel_bytes = std::mem::take(&mut tx.kernel_bytes);
            queued.give_back(std::mem::take(&mut tx.queue).cost().saturating_add(kernel_bytes));
            self.note(tx);
            self.shut_down();
        }
    }

    fn note(&self, tx: &Tx) {
        let cost = tx.queue.cost().saturating_add(tx.kernel_bytes);
        self.counters.queued.store(tx.queue.len(), Relaxed);
        self.counters.queued_cost.store(cost, Relaxed);
    }

    /// Makes epoll watch for what is wanted now.
    fn watch(&self, tx: &mut Tx, pool: &PoolHandles) {
        self.watch_anew(tx, pool, false);
    }

    /// Makes epoll watch for what is wanted now; `anew`: and report again what is ready already.
    fn watch_anew(&self, tx: &mut Tx, pool: &PoolHandles, anew: bool) {
        if tx.moving {
            return;
        }
        let empty = tx.queue.is_empty();
        let (readable, writable) = (tx.reading && empty, !empty);
        let wanted = Interest { readable, writable, edge: true };
        let done = match tx.watched {
            Some(watched) if watched == wanted && !anew => return,
            Some(_) if wanted.is_none() => self.stream.unwatch(&pool.epoll),
            Some(_) => self.stream.rewatch(&pool.epoll, tx.token, wanted),
            None if wanted.is_none() => return,
            None => self.stream.watch(&pool.epoll, tx.token, wanted),
        };
        tx.watched = if wanted.is_none() { None } else { Some(wanted) };
        if done.is_err() {
            // Out of memory or over the user's limit of watches: nothing would report its events.
            tx.watched = None;
            tx.waiting = true;
            self.abandon(tx, &pool.queued);
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

impl Rx {
    /// Decides how the connection goes on, and has epoll watch for it; see [`Conn::rearm`].
    pub fn rearm(&mut self, pool: &PoolHandles) -> ConnAction {
        let anew = self.more || self.read_until_empty;
        let fate = self.conn.rearm(pool, self.tail.is_some(), self.input_ended, anew);
        if fate == ConnAction::Read {
            (self.more, self.read_until_empty) = (false, false);
        }
        fate
    }
}
