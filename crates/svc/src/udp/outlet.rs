//! Where replies to datagrams leave: by a socket for sending only that the worker has to itself,
//! or by the one that the call came by.
//!
//! A reply that is sent in pieces (header, then pages of a file) is joined by the kernel in the
//! socket, so that two workers must not do that at the same time on one. With a socket of its own
//! no worker ever waits for another's reply. `udp-sockets=single` is one socket in both directions,
//! as it always was; every other setting has these, but not for sockets of both families, as
//! somebody else may have bound them: one of these sends to one family only.
//!
//! A worker may be acting as some caller, and the kernel lets only sockets of the same user share
//! a port. So workers make none: the keeper has some in stock, and whoever finds none there sends
//! by the socket that the call came by, or by the base beside it.
//!
//! Lock: the stock; held for a list operation.

use super::port::Port;
use crate::lock;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, RwLockReadGuard, RwLockWriteGuard};
use sys::datagram::Families;
use sys::event::Event;
use telemetry::WorkerStats;

/// Most sockets for sending only; a worker that gets none sends by the socket of the call.
const OUTLETS_MAX: usize = 256;
/// Sockets in stock for each family and port.
const SPARE: usize = 4;

/// A socket for sending only.
pub(crate) struct Outlet {
    ipv6: bool,
    port: u16,
    /// The stock that it is of.
    issue: u64,
    socket: UdpSocket,
    open: Arc<AtomicUsize>,
}

impl Drop for Outlet {
    fn drop(&mut self) {
        self.open.fetch_sub(1, Relaxed);
    }
}

impl Outlet {
    fn fits(&self, local: &SocketAddr) -> bool {
        self.ipv6 == local.is_ipv6() && self.port == local.port()
    }
}

/// The stock.
pub(crate) struct Outlets {
    /// Changes when all that were given out before are to be thrown away; 0: there are none.
    issue: AtomicU64,
    /// How many are in stock, so that an empty one is not locked.
    spare: AtomicUsize,
    open: Arc<AtomicUsize>,
    stock: Mutex<Vec<Outlet>>,
    /// Wakes the keeper, who makes more.
    keeper: Arc<Event>,
}

impl Outlets {
    pub fn new(keeper: Arc<Event>) -> Self {
        Self {
            issue: AtomicU64::new(0),
            spare: AtomicUsize::new(0),
            open: Arc::default(),
            stock: Mutex::default(),
            keeper,
        }
    }

    /// Whether there are none by the operator's wish.
    pub fn is_off(&self) -> bool {
        self.issue.load(Relaxed) == 0
    }

    /// How many there are.
    pub fn open(&self) -> usize {
        self.open.load(Relaxed)
    }

    /// Throws away what there is; workers do so when they next send. 0 is none from here on.
    pub fn renew(&self, issue: u64) {
        self.issue.store(issue, Relaxed);
        self.spare.store(0, Relaxed);
        let old = std::mem::take(&mut *lock(&self.stock));
        drop(old);
    }

    /// Makes as many as the stock should have for these addresses. Not for workers.
    ///
    /// # Errors
    /// As bind(2); the stock has what could be made.
    pub fn fill(&self, addrs: &[SocketAddr], buffer: Option<usize>) -> std::io::Result<()> {
        let issue = self.issue.load(Relaxed);
        if issue == 0 {
            return Ok(());
        }
        for local in addrs {
            let have = lock(&self.stock).iter().filter(|outlet| outlet.fits(local)).count();
            for _ in have..SPARE {
                if self.open() >= OUTLETS_MAX {
                    return Ok(());
                }
                let socket = sys::datagram::transmit_only(*local)?;
                // as far as the sysctls allow
                let _ = super::ports::size(&socket, buffer);
                self.open.fetch_add(1, Relaxed);
                let (ipv6, port) = (local.is_ipv6(), local.port());
                let outlet = Outlet { ipv6, port, issue, socket, open: Arc::clone(&self.open) };
                let mut stock = lock(&self.stock);
                stock.push(outlet);
                self.spare.store(stock.len(), Relaxed);
            }
        }
        Ok(())
    }

    fn take(&self, local: &SocketAddr) -> Option<Outlet> {
        if self.spare.load(Relaxed) == 0 {
            return None;
        }
        let mut stock = lock(&self.stock);
        let index = stock.iter().position(|outlet| outlet.fits(local))?;
        let outlet = stock.swap_remove(index);
        self.spare.store(stock.len(), Relaxed);
        drop(stock);
        self.keeper.raise();
        Some(outlet)
    }

    /// The way out for replies to what came by `port`; `held` are the worker's own.
    pub fn way<'w>(&self, held: &'w mut Vec<Outlet>, port: &'w Port) -> Way<'w> {
        let port = port.reply_by.as_deref().unwrap_or(port);
        let issue = self.issue.load(Relaxed);
        held.retain(|outlet| outlet.issue == issue);
        if issue == 0 || port.families == Families::Both {
            return Way::Shared(port);
        }
        if !held.iter().any(|outlet| outlet.fits(&port.local))
            && let Some(outlet) = self.take(&port.local)
        {
            held.push(outlet);
        }
        match held.iter().find(|outlet| outlet.fits(&port.local)) {
            Some(outlet) => Way::Own(&outlet.socket),
            None => Way::Shared(port),
        }
    }
}

/// A way out.
#[derive(Clone, Copy)]
pub(crate) enum Way<'w> {
    /// The worker's own socket.
    Own(&'w UdpSocket),
    /// The socket that the call came by, or the base beside it; others send by it as well.
    Shared(&'w Port),
}

impl<'w> Way<'w> {
    /// The socket.
    pub const fn socket(&self) -> &'w UdpSocket {
        match self {
            Self::Own(socket) => socket,
            Self::Shared(port) => &port.socket,
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
