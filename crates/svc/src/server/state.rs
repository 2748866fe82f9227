//! What a server consists of besides its threads.

use crate::conn::congestion::CongestionSetting;
use crate::conn::tcp_buffers::Buffers;
use crate::handshake::handshake_threads::HandshakeThreads;
use crate::pool::shared::Shared;
use crate::server::pools::Pools;
use crate::settings::{PoolMode, WakePolicy};
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex, Weak};
use sys::event::Event;

/// What the settings say of the pools.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PoolSettings {
    /// The fewest and the most threads of all pools together.
    pub threads: (usize, usize),
    pub pool_mode: PoolMode,
    pub wake_policy: WakePolicy,
    /// The share of the threads that may block in one export, in percent.
    pub export_share: usize,
    /// How many pools there are to be under [`PoolMode::Auto`].
    pub auto_pools: usize,
}

impl PoolSettings {
    /// How many calls may block in one export at a time.
    pub const fn blocked_max(&self) -> usize {
        self.threads.1.saturating_mul(self.export_share) / 100
    }
}

/// A listener; its socket is the acceptor's, and closes with it.
pub(crate) struct Listener {
    pub local: SocketAddr,
    /// Whether it was inherited.
    pub inherited: bool,
    /// The socket, while the acceptor has it.
    pub socket: Weak<TcpListener>,
    /// Connections accepted.
    pub accepted: AtomicU64,
}

impl Listener {
    pub fn new(socket: &Arc<TcpListener>, inherited: bool) -> io::Result<Self> {
        let local = socket.local_addr()?;
        Ok(Self { local, inherited, socket: Arc::downgrade(socket), accepted: AtomicU64::new(0) })
    }
}

/// A server.
pub(crate) struct State {
    pub shared: Arc<Shared>,
    pub pools: Arc<Pools>,
    /// Held for the length of a change of the pools, by the operator's request or by the watchdog.
    pub pool_settings: Mutex<PoolSettings>,
    pub listeners: Vec<Listener>,
    /// The most connections, as far as the descriptors reach.
    pub connections_max: usize,
    /// Connections' socket buffers.
    pub buffers: Buffers,
    /// Connections' congestion control.
    pub congestion: CongestionSetting,
    /// The threads that make TLS handshakes.
    pub handshakes: Option<Arc<HandshakeThreads>>,
    /// Wakes the acceptor for the last time.
    pub accept_end: Event,
    /// No connection is accepted any more.
    pub stopping: AtomicBool,
    /// The watchdog is to end.
    pub stopped: AtomicBool,
}
