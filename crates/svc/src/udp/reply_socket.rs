//! Where replies to datagrams leave: by a socket for sending only that the worker has to itself, or by the
//! one that the call came by.
//!
//! A reply that is sent in pieces (header, then pages of a file) is joined by the kernel in the socket, so
//! two workers must not do that at the same time on one. With a socket of its own no worker ever waits for
//! another's reply. `udp-sockets=single` is one socket in both directions; every other setting has these,
//! but not for sockets of both address families, as somebody else may have bound them: one of these sends
//! to one family only.
//!
//! A worker may be acting as some caller, and the kernel lets only sockets of the same user share a port.
//! So workers make none: the maintenance thread keeps some spare ones, and a worker that finds none sends by
//! the socket that the call came by, or by the base beside it.
//!
//! Lock: the spare sockets; held for a list operation.

use crate::sync::lock;
use crate::udp::socket::{self, DatagramSocket};
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, RwLockReadGuard, RwLockWriteGuard};
use sys::datagram::Families;
use sys::event::Event;
use telemetry::WorkerStats;

/// Most sockets for sending only; a worker that gets none sends by the socket of the call.
const REPLY_SOCKETS_MAX: usize = 256;
/// Spare sockets for each address family and port.
const SPARES_PER_PORT: usize = 4;

/// A socket for sending only.
pub(crate) struct ReplySocket {
    ipv6: bool,
    port: u16,
    /// The generation that it is of; see [`ReplySockets::renew`].
    generation: u64,
    socket: UdpSocket,
    open: Arc<AtomicUsize>,
}

impl Drop for ReplySocket {
    fn drop(&mut self) {
        self.open.fetch_sub(1, Relaxed);
    }
}

impl ReplySocket {
    fn fits(&self, local: &SocketAddr) -> bool {
        self.ipv6 == local.is_ipv6() && self.port == local.port()
    }
}

/// The spare sockets.
pub(crate) struct ReplySockets {
    /// Changes when all that were made before are to be closed; 0: there are none.
    generation: AtomicU64,
    /// How many are spare, so that an empty list is not locked.
    spare_count: AtomicUsize,
    open: Arc<AtomicUsize>,
    spare_sockets: Mutex<Vec<ReplySocket>>,
    /// Wakes the maintenance thread, which makes more.
    maintenance: Arc<Event>,
}

impl ReplySockets {
    pub fn new(maintenance: Arc<Event>) -> Self {
        Self {
            generation: AtomicU64::new(0),
            spare_count: AtomicUsize::new(0),
            open: Arc::default(),
            spare_sockets: Mutex::default(),
            maintenance,
        }
    }

    /// Whether the setting is that there are none.
    pub fn is_off(&self) -> bool {
        self.generation.load(Relaxed) == 0
    }

    /// How many there are.
    pub fn open(&self) -> usize {
        self.open.load(Relaxed)
    }

    /// Closes those that there are; workers close theirs when they next send. With 0 there are none from here
    /// on.
    pub fn renew(&self, generation: u64) {
        self.generation.store(generation, Relaxed);
        self.spare_count.store(0, Relaxed);
        let old = std::mem::take(&mut *lock(&self.spare_sockets));
        drop(old);
    }

    /// Makes the spare ones for these addresses that are missing. Not for workers.
    ///
    /// # Errors
    /// As bind(2); those that could be made are spare.
    pub fn fill(&self, addrs: &[SocketAddr], buffer: Option<usize>) -> std::io::Result<()> {
        let generation = self.generation.load(Relaxed);
        if generation == 0 {
            return Ok(());
        }
        for local in addrs {
            let have = lock(&self.spare_sockets)
                .iter()
                .filter(|reply_socket| reply_socket.fits(local))
                .count();
            for _ in have..SPARES_PER_PORT {
                if self.open() >= REPLY_SOCKETS_MAX {
                    return Ok(());
                }
                let socket = sys::datagram::transmit_only(*local)?;
                // as far as the sysctls allow
                let _ = socket::size(&socket, buffer);
                self.open.fetch_add(1, Relaxed);
                let (ipv6, port) = (local.is_ipv6(), local.port());
                let reply_socket =
                    ReplySocket { ipv6, port, generation, socket, open: Arc::clone(&self.open) };
                let mut spare_sockets = lock(&self.spare_sockets);
                spare_sockets.push(reply_socket);
                self.spare_count.store(spare_sockets.len(), Relaxed);
            }
        }
        Ok(())
    }

    fn take(&self, local: &SocketAddr) -> Option<ReplySocket> {
        if self.spare_count.load(Relaxed) == 0 {
            return None;
        }
        let mut spare_sockets = lock(&self.spare_sockets);
        let index = spare_sockets.iter().position(|reply_socket| reply_socket.fits(local))?;
        let reply_socket = spare_sockets.swap_remove(index);
        self.spare_count.store(spare_sockets.len(), Relaxed);
        drop(spare_sockets);
        self.maintenance.raise();
        Some(reply_socket)
    }

    /// How replies leave to what came by `socket`; `held` are the worker's own.
    pub fn reply_path<'w>(
        &self,
        held: &'w mut Vec<ReplySocket>,
        port: &'w DatagramSocket,
    ) -> ReplyPath<'w> {
        let port = port.reply_by.as_deref().unwrap_or(port);
        let generation = self.generation.load(Relaxed);
        held.retain(|reply_socket| reply_socket.generation == generation);
        if generation == 0 || port.families == Families::Both {
            return ReplyPath::Shared(port);
        }
        if !held.iter().any(|reply_socket| reply_socket.fits(&port.local))
            && let Some(reply_socket) = self.take(&port.local)
        {
            held.push(reply_socket);
        }
        match held.iter().find(|reply_socket| reply_socket.fits(&port.local)) {
            Some(reply_socket) => ReplyPath::Own(&reply_socket.socket),
            None => ReplyPath::Shared(port),
        }
    }
}

/// How a reply leaves.
#[derive(Clone, Copy)]
pub(crate) enum ReplyPath<'w> {
    /// The worker's own socket.
    Own(&'w UdpSocket),
    /// The socket that the call came by, or the base beside it; others send by it as well.
    Shared(&'w DatagramSocket),
}

impl<'w> ReplyPath<'w> {
    /// The socket.
    pub const fn socket(&self) -> &'w UdpSocket {
        match self {
            Self::Own(socket) => socket,
            Self::Shared(socket) => &socket.udp,
        }
    }

    /// To be held while a reply is sent in several pieces. Nothing that waits may be done under
    /// it.
    pub fn cork(&self, stats: &WorkerStats) -> Option<RwLockWriteGuard<'w, ()>> {
        match self {
            Self::Own(_) => None,
            Self::Shared(port) => Some(port.cork(stats)),
        }
    }

    /// To be held while replies are sent in one piece each. Others may do so at the same time.
    pub fn uncorked(&self, stats: &WorkerStats) -> Option<RwLockReadGuard<'w, ()>> {
        match self {
            Self::Own(_) => None,
            Self::Shared(port) => Some(port.uncorked(stats)),
        }
    }
}
