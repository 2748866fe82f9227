//! The thread that maintains datagram sockets: it hears of interfaces that come, go and change, finishes the
//! removal of hidden sockets, and keeps spare sockets for sending. It sleeps without a timer while nothing
//! of that is to be done.

use crate::epoll_tokens::TOKEN_INBOX;
use crate::udp::removal::SocketRemoval;
use crate::udp::sockets::{DatagramSockets, RemovalTarget};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};
use sys::epoll::{Epoll, Events, Interest};
use sys::netlink::LinkWatch;

/// The token of the interfaces' watch.
const TOKEN_LINKS: u64 = 1;
/// Between two checks of hidden sockets that are not empty.
const REMOVAL_POLL: Duration = Duration::from_millis(1);
/// Between two checks of unregistered sockets that a call still uses.
const USED_POLL: Duration = Duration::from_millis(50);
/// Changes of interfaces come in bursts; what comes within this is one change.
const BURST: Duration = Duration::from_millis(5);
/// Between two attempts to bind what could not be bound.
const RETRY: Duration = Duration::from_secs(5);

/// The thread's state.
struct Maintenance {
    ports: Arc<DatagramSockets>,
    epoll: Epoll,
    watch: Option<LinkWatch>,
    closing: Vec<SocketRemoval<RemovalTarget>>,
    /// Whether an unregistered socket is in use still.
    used: bool,
    retried: Instant,
}

/// An epoll for the thread.
///
/// # Errors
/// No descriptors or no memory left.
pub(crate) fn prepare(ports: &DatagramSockets) -> std::io::Result<Epoll> {
    let epoll = Epoll::new()?;
    epoll.add(&*ports.event, TOKEN_INBOX, Interest::READABLE)?;
    Ok(epoll)
}

/// The thread's body.
pub(crate) fn run(ports: Arc<DatagramSockets>, epoll: Epoll) {
    let retried = Instant::now();
    let mut maintenance =
        Maintenance { ports, epoll, watch: None, closing: Vec::new(), used: false, retried };
    let mut events = Events::with_capacity(2);
    maintenance.look();
    while !maintenance.ports.stopping.load(Relaxed) {
        if let Err(error) = maintenance.epoll.wait(&mut events, maintenance.rest()) {
            tracing::error!(%error, "cannot wait for network interface changes");
            std::thread::sleep(RETRY);
        }
        let woken = maintenance.ports.event.lower();
        let heard = maintenance.watch.as_ref().is_some_and(LinkWatch::drain);
        if heard {
            std::thread::sleep(BURST);
            maintenance.watch.as_ref().map(LinkWatch::drain);
        }
        if woken || heard || maintenance.is_retry_due() {
            maintenance.look();
        }
        maintenance.advance_removals();
    }
}

impl Maintenance {
    /// How long to wait; `None`: for ever.
    fn rest(&self) -> Option<Duration> {
        if !self.closing.is_empty() {
            return Some(REMOVAL_POLL);
        }
        if self.used {
            return Some(USED_POLL);
        }
        self.ports.is_short().then_some(RETRY)
    }

    fn is_retry_due(&self) -> bool {
        self.retried.elapsed() >= RETRY && self.ports.is_short()
    }

    /// Asks what interfaces there are, if that matters, and makes the sockets fit.
    fn look(&mut self) {
        self.retried = Instant::now();
        if !self.ports.mode().by_interface() {
            if let Some(watch) = self.watch.take() {
                let _ = self.epoll.delete(&watch);
            }
            return self.ports.retry();
        }
        // first the watch, then the list: what changes in between is told
        if self.watch.is_none() {
            let watch = LinkWatch::new().and_then(|watch| {
                self.epoll.add(&watch, TOKEN_LINKS, Interest::READABLE)?;
                Ok(watch)
            });
            match watch {
                Ok(watch) => self.watch = Some(watch),
                Err(error) => tracing::warn!(%error, "cannot watch for network interface changes"),
            }
        }
        match sys::netlink::links() {
            Ok(links) => self.ports.set_interfaces(links),
            Err(error) => tracing::warn!(%error, "cannot list the network interfaces"),
        }
    }

    /// Goes on with the removals.
    fn advance_removals(&mut self) {
        self.closing.extend(self.ports.take_removals());
        if self.closing.iter().any(SocketRemoval::is_unsettled) {
            sys::datagram::settle_arrivals();
            self.closing.iter_mut().for_each(SocketRemoval::settle);
        }
        self.closing.retain_mut(|closing| !closing.advance());
        // unregistering one may have begun another change
        self.closing.extend(self.ports.take_removals());
        self.used = self.ports.close_unused();
    }
}
