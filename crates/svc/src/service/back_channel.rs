//! Messages to clients that are not replies ([`rpc::BackChannel`]), by whatever thread has them.
//!
//! A back channel does not keep its connection or socket. What a client leaves unread counts in the same budget as
//! replies that it leaves unread; besides, nothing is added once [`POSTED_BYTES_MAX`] wait, because nothing else would
//! stop the messages: they are not answers to calls, which are not read any more by then.
//!
//! Nothing here waits. The statistics are those of deferred replies, under the same lock.

use crate::conn::connection::{Conn, Sent};
use crate::limits::POSTED_BYTES_MAX;
use crate::pool::shared::Shared;
use crate::pool::unread;
use crate::sync::lock;
use crate::udp::reply_socket::ReplyPath;
use crate::udp::socket::{DatagramSocket, Traffic};
use rpc::{BackChannel, ConnId, Peer, Posted};
use std::net::SocketAddr;
use std::sync::{Arc, Weak};
use sys::mmsg::{self, Local, Outgoing};
use telemetry::Counter;
use xdr::Writer;

/// The way back over a connection.
pub(crate) struct ConnBackChannel {
    id: ConnId,
    peer: Peer,
    conn: Weak<Conn>,
    shared: Weak<Shared>,
}

impl ConnBackChannel {
    pub fn new(conn: &Arc<Conn>, shared: &Arc<Shared>) -> Self {
        let (id, peer) = (ConnId(conn.id), conn.caller());
        Self { id, peer, conn: Arc::downgrade(conn), shared: Arc::downgrade(shared) }
    }
}

impl BackChannel for ConnBackChannel {
    fn conn(&self) -> Option<ConnId> {
        Some(self.id)
    }

    fn peer(&self) -> Peer {
        self.peer
    }

    fn post(&self, message: Writer) -> Posted {
        let (Some(shared), Some(conn)) = (self.shared.upgrade(), self.conn.upgrade()) else {
            return Posted::Gone;
        };
        let Some(mark) = rpc::record::mark(message.total_len()) else { return Posted::Gone };
        let mut marked = Writer::with_capacity(rpc::record::MARK_LEN);
        marked.u32(mark);
        let stats = lock(&shared.deferred_stats);
        let Some(sent) = conn.post(&stats, &[&marked, &message], POSTED_BYTES_MAX) else {
            return Posted::Full;
        };
        match unread::account(sent, &conn, &shared, &stats) {
            Sent::All | Sent::Queued => Posted::Sent,
            Sent::Broken => Posted::Gone,
        }
    }
}

/// The way back to the sender of a datagram.
pub(crate) struct DatagramBackChannel {
    pub socket: Weak<DatagramSocket>,
    pub shared: Weak<Shared>,
    pub to: SocketAddr,
    pub from: Local,
    pub peer: Peer,
    /// Whose counters of the socket are used.
    pub pool: usize,
}

impl BackChannel for DatagramBackChannel {
    fn conn(&self) -> Option<ConnId> {
        None
    }

    fn peer(&self) -> Peer {
        self.peer
    }

    fn post(&self, message: Writer) -> Posted {
        let (Some(shared), Some(socket)) = (self.shared.upgrade(), self.socket.upgrade()) else {
            return Posted::Gone;
        };
        let stats = lock(&shared.deferred_stats);
        let path = ReplyPath::Shared(socket.reply_by.as_deref().unwrap_or(&socket));
        let outgoing = Outgoing { bytes: message.bytes(), to: self.to, from: self.from };
        stats.add(Counter::SendCalls, 1);
        let uncorked = path.uncorked(&stats);
        let sent = mmsg::send(path.socket(), &[outgoing]);
        drop(uncorked);
        if !matches!(sent, Ok(1)) {
            stats.add(Counter::DatagramsDropped, 1);
            return Posted::Gone;
        }
        let bytes_out = message.len() as u64;
        socket.count(self.pool, Traffic { sent: 1, bytes_out, ..Traffic::default() });
        Posted::Sent
    }
}
