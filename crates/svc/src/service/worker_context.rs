//! What a worker thread has for its service rounds: its pool, its statistics, its buffers, and the event
//! loop while it leads.
//!
//! A worker owns its receive buffer and its reply buffers; connections own none. It keeps them from
//! round to round and frees them when nobody has woken it for some seconds.

use crate::limits::RECEIVE_BYTES;
use crate::pipes::PipeState;
use crate::pool::event_loop::EventLoop;
use crate::pool::worker_pool::Pool;
use crate::service::datagram_reply::Reply;
use crate::udp::reply_socket::ReplySocket;
use std::sync::Arc;
use sys::mmsg::Batch;
use telemetry::WorkerStats;
use xdr::Writer;

/// What a worker thread has.
pub(crate) struct WorkerContext {
    pub pool: Arc<Pool>,
    pub stats: WorkerStats,
    pub buffers: WorkerBuffers,
    /// While this worker leads, between two rounds.
    pub event_loop: Option<Box<EventLoop>>,
    /// The round under way.
    pub active_round: Option<ActiveRound>,
    /// A reserve thread: it takes one call at a time.
    pub is_reserve: bool,
}

/// What a worker has to know of its round if it panics.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ActiveRound {
    /// The number of the leader's round; `None` for a worker that does not lead.
    pub number: Option<u64>,
    /// The connection that is served.
    pub token: Option<u64>,
}

/// A worker's buffers.
#[derive(Default)]
pub(crate) struct WorkerBuffers {
    /// What was received; empty until first used.
    pub receive: Vec<u8>,
    /// The reply being written.
    pub reply: Writer,
    /// The replies before it.
    pub collected: Writer,
    /// Memory for the next large record.
    pub spare: Writer,
    /// For the data of large WRITEs.
    pub pipe: PipeState,
    /// Datagrams received together.
    pub batch: Option<Batch>,
    /// Memory for replies to datagrams.
    pub replies: Vec<Writer>,
    /// The list of replies to be sent; empty between two rounds.
    pub pending: Vec<Reply>,
    /// Sockets for replies to datagrams.
    pub reply_sockets: Vec<ReplySocket>,
}

impl WorkerBuffers {
    /// Makes the receive buffer.
    pub fn prepare(&mut self) {
        if self.receive.is_empty() {
            self.receive = vec![0; RECEIVE_BYTES];
        }
    }

    /// Frees what a rare large reply or record has taken beyond `keep_bytes`.
    pub fn trim(&mut self, keep_bytes: usize) {
        for writer in [&mut self.reply, &mut self.collected] {
            writer.clear_to(keep_bytes);
        }
        if self.spare.capacity() > keep_bytes.saturating_mul(2) {
            self.spare = Writer::default();
        }
    }
}

/// Keeps the larger of two pieces of memory; [`WorkerBuffers::trim`] frees what is too much.
pub(crate) fn keep_larger(spare: &mut Writer, memory: Writer) {
    if memory.capacity() > spare.capacity() {
        *spare = memory;
    }
}
