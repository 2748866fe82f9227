//! The acceptor: one thread that takes new connections from all listeners, sets them up, and
//! assigns each to the pool that has the fewest.
//!
//! When there are as many connections as there may be, a silent one of the client with most makes room
//! (`room.rs`). When descriptors or memory run out one makes room as well, and the acceptor pauses; so it does when
//! the kernel refuses connections otherwise. Connections that are not accepted yet wait in the kernel.

use crate::conn::byte_stream::ByteStream;
use crate::conn::client_network::ClientNetwork;
use crate::conn::connection::Conn;
use crate::conn::table::TableFull;
use crate::conn::tcp_buffers::ConnBuffers;
use crate::epoll_tokens::TOKEN_INBOX;
use crate::limits::EVENTS_PER_WAIT;
use crate::server::room::{Need, RoomMaker};
use crate::server::state::{Listener, State};
use std::io::{self, ErrorKind};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use sys::epoll::{Epoll, Events, Interest};
use telemetry::{Counter, WorkerStats};

/// Pause after a shortage of descriptors or memory.
const SHORTAGE_PAUSE: Duration = Duration::from_millis(50);
/// Milliseconds between two messages about a shortage in the log.
const SHORTAGE_LOG_EVERY_MS: u64 = 60_000;
/// Pause until connections that made room are closed, and how often at most: their pool does that at once,
/// unless all its threads compute.
const CLOSING_PAUSE: Duration = Duration::from_millis(1);
const CLOSING_PAUSES_MAX: u32 = 100;
/// Connections accepted from one listener before the others are looked at.
const ACCEPTS_AT_ONCE: usize = 64;

/// The acceptor's state.
struct Acceptor<'a> {
    state: &'a State,
    stats: WorkerStats,
    last_id: u64,
    /// A shortage is not logged before.
    log_after_ms: u64,
    room: RoomMaker<'a>,
}

/// The acceptor's epoll, watching the listeners and the event that ends it.
///
/// # Errors
/// No descriptors or memory left.
pub(crate) fn watch(state: &State, sockets: &[Arc<TcpListener>]) -> io::Result<Epoll> {
    let epoll = Epoll::new()?;
    epoll.add(&state.accept_end, TOKEN_INBOX, Interest::READABLE)?;
    for (number, socket) in sockets.iter().enumerate() {
        epoll.add(socket, number as u64, Interest::READABLE)?;
    }
    Ok(epoll)
}

/// The acceptor's thread.
pub(crate) fn accept(state: &State, epoll: &Epoll, sockets: &[Arc<TcpListener>]) {
    let stats = state.shared.telemetry.worker();
    let room = RoomMaker::new(state);
    let mut acceptor = Acceptor { state, stats, last_id: 0, log_after_ms: 0, room };
    let mut events = Events::with_capacity(EVENTS_PER_WAIT);
    while !state.stopping.load(Relaxed) {
        if let Err(error) = epoll.wait(&mut events, None) {
            tracing::error!(%error, "cannot wait for connections");
            std::thread::sleep(SHORTAGE_PAUSE);
        }
        let mut index = 0_usize;
        while let Some(ready) = events.at(index) {
            index = index.saturating_add(1);
            let number = usize::try_from(ready.token).ok();
            let found = number.and_then(|n| Some((sockets.get(n)?, state.listeners.get(n)?)));
            if let Some((socket, listener)) = found {
                acceptor.take_from(socket, listener);
            }
        }
    }
}

impl Acceptor<'_> {
    fn take_from(&mut self, socket: &TcpListener, listener: &Listener) {
        for _ in 0..ACCEPTS_AT_ONCE {
            match ByteStream::accept(socket) {
                Ok(stream) => {
                    listener.accepted.fetch_add(1, Relaxed);
                    self.set_up(stream);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                // It was gone before it was accepted, or the network was.
                Err(error) if sys::socket::is_of_connection(&error) => {}
                Err(error) => {
                    if sys::socket::is_shortage(&error) {
                        self.stats.add(Counter::AcceptShortages, 1);
                        self.room.make(Need::Anybody, &self.stats);
                    }
                    self.log_refused(&error);
                    std::thread::sleep(SHORTAGE_PAUSE);
                    return;
                }
            }
        }
    }

    /// Sets a connection up and assigns it to a pool.
    fn set_up(&mut self, stream: ByteStream) {
        let (state, shared) = (self.state, &*self.state.shared);
        // It may have ended already.
        let Ok(peer) = stream.prepare() else { return };
        self.last_id = self.last_id.saturating_add(1);
        let buffers = ConnBuffers::new(&state.buffers);
        let conn = Conn::new(self.last_id, stream, peer, shared.clock.now_ms(), buffers);
        let conn = Arc::new(conn);
        if !self.add(&conn) {
            self.stats.add(Counter::ConnectionsRefused, 1);
            return;
        }
        self.stats.add(Counter::Connections, 1);
        state.buffers.set_up(&conn.buffers, &conn.stream, peer.addr.ip(), &self.stats);
        state.congestion.set_up(&conn.stream, peer);
        state.pools.assign_new(conn);
    }

    /// Adds a connection to the table, for which another may have to go.
    fn add(&mut self, conn: &Arc<Conn>) -> bool {
        let (state, shared) = (self.state, &*self.state.shared);
        let per_client = shared.limits.connections_per_client_max;
        for _ in 0..CLOSING_PAUSES_MAX {
            match shared.conns.add(conn, state.connections_max, per_client) {
                Ok(()) => return true,
                // No reason to end another client's connection.
                Err(TableFull::Client) => return false,
                Err(TableFull::Server) => {
                    let newcomer = ClientNetwork::of(conn.peer.addr.ip());
                    if !self.room.make(Need::Of(newcomer), &self.stats) {
                        return false;
                    }
                }
                Err(TableFull::Closing) => std::thread::sleep(CLOSING_PAUSE),
            }
        }
        false
    }

    /// Logs why clients have to wait, rate-limited.
    fn log_refused(&mut self, error: &io::Error) {
        let now_ms = self.state.shared.clock.now_ms();
        if self.log_after_ms > now_ms {
            return;
        }
        self.log_after_ms = now_ms.saturating_add(SHORTAGE_LOG_EVERY_MS);
        if sys::socket::is_shortage(error) {
            let limit = sys::socket::descriptors_max();
            tracing::warn!(%error, limit, "no descriptor or memory for a new connection, which has to wait");
        } else {
            tracing::error!(%error, "the kernel refuses new connections; clients have to wait");
        }
    }
}
