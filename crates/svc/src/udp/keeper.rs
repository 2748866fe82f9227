//! The keeper: a thread that hears of interfaces that come, go and change, sees hidden sockets
//! out, and keeps sockets for sending only in stock. It sleeps without a timer while nothing of
//! that is to be done.

use super::leaving::Leaving;
use super::ports::{Exiting, Ports};
use crate::core::TOKEN_INBOX;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};
use sys::epoll::{Epoll, Events, Interest};
use sys::netlink::LinkWatch;

/// The token of the interfaces' watch.
const TOKEN_LINKS: u64 = 1;
/// Between two looks at hidden sockets that are not empty.
const LOOK: Duration = Duration::from_millis(1);
/// Between two looks at sockets that were struck out and that a call still uses.
const USED_LOOK: Duration = Duration::from_millis(50);
/// Changes of interfaces come in bursts; what comes within this is one change.
const BURST: Duration = Duration::from_millis(5);
/// Between two attempts to bind what could not be bound.
const RETRY: Duration = Duration::from_secs(5);

/// The keeper's own things.
struct Keeper {
    ports: Arc<Ports>,
    epoll: Epoll,
    watch: Option<LinkWatch>,
    leaving: Vec<Leaving<Exiting>>,
    /// Whether a socket that was struck out is in use still.
    used: bool,
    retried: Instant,
}

/// An epoll for the keeper.
///
/// # Errors
/// No descriptors or no memory left.
pub(crate) fn prepare(ports: &Ports) -> std::io::Result<Epoll> {
    let epoll = Epoll::new()?;
    epoll.add(&*ports.event, TOKEN_INBOX, Interest::READABLE)?;
    Ok(epoll)
}

/// The keeper's thread.
pub(crate) fn keep(ports: Arc<Ports>, epoll: Epoll) {
    let retried = Instant::now();
    let mut keeper =
        Keeper { ports, epoll, watch: None, leaving: Vec::new(), used: false, retried };
    let mut events = Events::with_capacity(2);
    keeper.look();
    while !keeper.ports.stopping.load(Relaxed) {
        if let Err(error) = keeper.epoll.wait(&mut events, keeper.rest()) {
            tracing::error!(%error, "cannot wait for changes of interfaces");
            std::thread::sleep(RETRY);
        }
        let woken = keeper.ports.event.lower();
        let heard = keeper.watch.as_ref().is_some_and(LinkWatch::drain);
        if heard {
            std::thread::sleep(BURST);
            keeper.watch.as_ref().map(LinkWatch::drain);
        }
        if woken || heard || keeper.is_retry_due() {
            keeper.look();
        }
        keeper.see_out();
    }
}

impl Keeper {
    /// How long to wait; `None`: for ever.
    fn rest(&self) -> Option<Duration> {
        if !self.leaving.is_empty() {
            return Some(LOOK);
        }
        if self.used {
            return Some(USED_LOOK);
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
            return self.ports.look_again();
        }
        // first the watch, then the list: what changes in between is told
        if self.watch.is_none() {
            let watch = LinkWatch::new().and_then(|watch| {
                self.epoll.add(&watch, TOKEN_LINKS, Interest::READABLE)?;
                Ok(watch)
            });
            match watch {
                Ok(watch) => self.watch = Some(watch),
                Err(error) => tracing::warn!(%error, "cannot hear of changes of interfaces"),
            }
        }
        match sys::netlink::links() {
            Ok(links) => self.ports.set_links(links),
            Err(error) => tracing::warn!(%error, "cannot list the interfaces"),
        }
    }

    /// Goes on with the sockets that leave.
    fn see_out(&mut self) {
        self.leaving.extend(self.ports.leavers());
        if self.leaving.iter().any(Leaving::is_unsettled) {
            sys::datagram::settle_arrivals();
            self.leaving.iter_mut().for_each(Leaving::settle);
        }
        self.leaving.retain_mut(|leaving| !leaving.advance());
        // striking one out may have begun another change
        self.leaving.extend(self.ports.leavers());
        self.used = self.ports.close_unused();
    }
}
