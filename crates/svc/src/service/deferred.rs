//! Replies that are sent after their call has returned ([`rpc::Deferred`]), by whatever thread has them.
//!
//! A deferred call of a connection is one of its calls under way: it counts in
//! [`crate::limits::Limits::in_flight_max`], beyond which the connection is not read, and a server that
//! stops waits for it. A deferred call that came as a datagram counts in [`DEFERRED_DATAGRAMS_MAX`].
//! Nothing here waits.
//!
//! A thread that sends such a reply has no statistics of its own: all of them share one block, under a
//! lock of which a connection's transmit lock may be taken.

use crate::conn::connection::{Conn, Sent};
use crate::limits::DEFERRED_DATAGRAMS_MAX;
use crate::pool::shared::Shared;
use crate::pool::unread;
use crate::service::call_counters;
use crate::sync::lock;
use crate::udp::reply_socket::ReplyPath;
use crate::udp::socket::{DatagramSocket, Traffic};
use rpc::{Done, Line, Posted};
use std::net::SocketAddr;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Weak};
use sys::mmsg::{self, Local, Outgoing};
use telemetry::{Counter, DatagramTotals, WorkerStats};
use xdr::Writer;

/// What the statistics have to know of a call when it ends.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct CallStart {
    /// On the server's clock.
    pub began_ns: u64,
    /// Length of its record.
    pub bytes_in: usize,
}

impl CallStart {
    fn count(self, shared: &Shared, stats: &WorkerStats, done: &Done, bytes_out: usize) {
        let latency_ns = shared.clock.now_ns().saturating_sub(self.began_ns);
        call_counters::count(stats, done, latency_ns, self.bytes_in, bytes_out);
    }
}

/// The way of a deferred reply over the connection that its call came by.
pub(crate) struct ConnLine {
    conn: Arc<Conn>,
    shared: Weak<Shared>,
    start: CallStart,
}

impl ConnLine {
    /// `None` if the connection has as many calls under way as it may have.
    pub fn begin(conn: &Arc<Conn>, shared: &Arc<Shared>, start: CallStart) -> Option<Self> {
        conn.begin_deferred_call(shared.limits.in_flight_max).then(|| Self {
            conn: Arc::clone(conn),
            shared: Arc::downgrade(shared),
            start,
        })
    }
}

impl Line for ConnLine {
    fn post(self: Box<Self>, reply: Writer, done: &Done) -> Posted {
        let Some(shared) = self.shared.upgrade() else { return Posted::Gone };
        let Some(mark) = rpc::record::mark(reply.total_len()) else { return Posted::Gone };
        let mut marked = Writer::with_capacity(rpc::record::MARK_LEN);
        marked.u32(mark);
        let stats = lock(&shared.deferred_stats);
        let sent = self.conn.send_deferred(&stats, &[&marked, &reply]);
        self.start.count(&shared, &stats, done, reply.total_len());
        match unread::account(sent, &self.conn, &shared, &stats) {
            Sent::All | Sent::Queued => Posted::Sent,
            Sent::Broken => Posted::Gone,
        }
    }

    fn close(self: Box<Self>) {
        self.conn.shut_down();
    }
}

impl Drop for ConnLine {
    fn drop(&mut self) {
        self.conn.end_deferred_call();
    }
}

/// The way of a deferred reply to the client whose call came as a datagram.
pub(crate) struct DatagramLine {
    /// Not kept open: a socket goes when the workers leave it.
    socket: Weak<DatagramSocket>,
    shared: Weak<Shared>,
    to: SocketAddr,
    from: Local,
    /// Whose counters of the socket are used.
    pool: usize,
    start: CallStart,
}

impl DatagramLine {
    /// `None` if as many replies to datagrams are pending as may be.
    pub fn begin(
        socket: &Arc<DatagramSocket>,
        shared: &Arc<Shared>,
        pool: usize,
        (to, from): (SocketAddr, Local),
        start: CallStart,
    ) -> Option<Self> {
        // given back when it is dropped
        let before = shared.deferred_datagrams.fetch_add(1, Relaxed);
        let (socket, shared) = (Arc::downgrade(socket), Arc::downgrade(shared));
        let line = Self { socket, shared, to, from, pool, start };
        (before < DEFERRED_DATAGRAMS_MAX).then_some(line)
    }
}

impl Line for DatagramLine {
    fn post(self: Box<Self>, reply: Writer, done: &Done) -> Posted {
        let (Some(shared), Some(socket)) = (self.shared.upgrade(), self.socket.upgrade()) else {
            return Posted::Gone;
        };
        let stats = lock(&shared.deferred_stats);
        let path = ReplyPath::Shared(socket.reply_by.as_deref().unwrap_or(&socket));
        let bytes = reply.bytes();
        let outgoing = Outgoing { bytes, to: self.to, from: self.from };
        stats.add(Counter::SendCalls, 1);
        let uncorked = path.uncorked(&stats);
        let sent = mmsg::send(path.socket(), &[outgoing]);
        drop(uncorked);
        self.start.count(&shared, &stats, done, bytes.len());
        // A full socket drops it: the client sends its call again.
        if !matches!(sent, Ok(1)) {
            stats.add(Counter::DatagramsDropped, 1);
            return Posted::Gone;
        }
        let bytes_out = bytes.len() as u64;
        socket.count(self.pool, Traffic { sent: 1, bytes_out, ..Traffic::default() });
        stats.datagrams_of(self.to.ip(), DatagramTotals { bytes_out, ..DatagramTotals::default() });
        Posted::Sent
    }
}

impl Drop for DatagramLine {
    fn drop(&mut self) {
        if let Some(shared) = self.shared.upgrade() {
            shared.deferred_datagrams.fetch_sub(1, Relaxed);
        }
    }
}
