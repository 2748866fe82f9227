//! One datagram socket that receives, and its counters.

use crate::addresses::canonical;
use crate::udp::layout::Binding;
use crossbeam_utils::CachePadded;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, TryLockError};
use sys::datagram::{self, Families};
use telemetry::{Counter, WorkerStats};

/// Counters of a socket: each pool has one of this many sets to itself, or shares it with few.
const STRIPES: usize = 8;

/// Datagrams and bytes, both ways.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Traffic {
    pub received: u64,
    pub bytes_in: u64,
    pub sent: u64,
    pub bytes_out: u64,
}

/// One datagram socket.
pub(crate) struct DatagramSocket {
    /// Never given to two sockets.
    pub number: u64,
    pub udp: UdpSocket,
    pub local: SocketAddr,
    pub binding: Binding,
    /// The base beside it, by which its replies leave: when it hides, nothing can be sent by it.
    /// `None` for those that can send at any time.
    pub reply_by: Option<Arc<Self>>,
    /// Both, if somebody else has bound it so, or the base that it is beside.
    pub families: Families,
    /// Whether somebody else has bound it.
    pub inherited: bool,
    /// Hidden, and to be closed when it is empty.
    pub closing: AtomicBool,
    /// Written while a reply leaves in more than one piece, which the kernel joins by socket; read
    /// while replies leave in one piece, which would be joined to it.
    cork: RwLock<()>,
    counters: [CachePadded<SocketCounters>; STRIPES],
}

#[derive(Default)]
struct SocketCounters {
    received: AtomicU64,
    bytes_in: AtomicU64,
    sent: AtomicU64,
    bytes_out: AtomicU64,
}

impl DatagramSocket {
    pub fn new(
        number: u64,
        socket: UdpSocket,
        binding: Binding,
        reply_by: Option<Arc<Self>>,
        inherited: bool,
    ) -> std::io::Result<Self> {
        let local = canonical(socket.local_addr()?);
        let families = datagram::families(&socket)?;
        Ok(Self {
            number,
            udp: socket,
            local,
            binding,
            reply_by,
            families,
            inherited,
            closing: AtomicBool::new(false),
            cork: RwLock::new(()),
            counters: Default::default(),
        })
    }

    /// Whether it is to be closed.
    pub fn is_closing(&self) -> bool {
        self.closing.load(Relaxed)
    }

    /// Everything that was received and sent.
    pub fn totals(&self) -> Traffic {
        let mut all = Traffic::default();
        for counters in &self.counters {
            all.received = all.received.wrapping_add(counters.received.load(Relaxed));
            all.bytes_in = all.bytes_in.wrapping_add(counters.bytes_in.load(Relaxed));
            all.sent = all.sent.wrapping_add(counters.sent.load(Relaxed));
            all.bytes_out = all.bytes_out.wrapping_add(counters.bytes_out.load(Relaxed));
        }
        all
    }

    /// Counts a batch that a worker of `pool` has received or sent.
    pub fn count(&self, pool: usize, traffic: Traffic) {
        let Some(counters) = self.counters.get(pool % STRIPES) else { return };
        if traffic.received > 0 {
            counters.received.fetch_add(traffic.received, Relaxed);
            counters.bytes_in.fetch_add(traffic.bytes_in, Relaxed);
        }
        if traffic.sent > 0 {
            counters.sent.fetch_add(traffic.sent, Relaxed);
            counters.bytes_out.fetch_add(traffic.bytes_out, Relaxed);
        }
    }

    /// Exclusive use of the socket, to send one reply in several pieces; counted if another worker has it. The
    /// holder waits for nothing.
    pub fn cork(&self, stats: &WorkerStats) -> RwLockWriteGuard<'_, ()> {
        match self.cork.try_write() {
            Ok(corked) => corked,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => {
                stats.add(Counter::UdpSendsWaited, 1);
                self.cork.write().unwrap_or_else(PoisonError::into_inner)
            }
        }
    }

    /// Shared use of the socket, to send replies in one piece each.
    pub fn uncorked(&self, stats: &WorkerStats) -> RwLockReadGuard<'_, ()> {
        match self.cork.try_read() {
            Ok(uncorked) => uncorked,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => {
                stats.add(Counter::UdpSendsWaited, 1);
                self.cork.read().unwrap_or_else(PoisonError::into_inner)
            }
        }
    }
}

/// Sizes the buffers as the operator wishes, or as fits many transfers.
pub(crate) fn size(socket: &UdpSocket, buffer: Option<usize>) -> std::io::Result<()> {
    match buffer {
        Some(bytes) => datagram::size_buffers(socket, bytes),
        None => datagram::size_buffers_auto(socket),
    }
}
