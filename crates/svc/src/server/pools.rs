//! The pools: those that new connections go to, and those that are drained.
//!
//! `pool-mode` changes while the server runs. New pools are started first; from then on the acceptor
//! assigns connections to them. The leader of each old pool then takes no more datagrams, and sends its
//! connections over, each when no worker serves it: with what was received and not answered, with what is
//! queued to be sent, and with calls that run detached still running. When it has none left, and its inbox
//! is empty and closed, it retires; calls that wait in the queue of their export are then run by the pools that have
//! their connections. So no connection drops and no call is lost; calls of one connection go
//! on side by side across the change.
//!
//! The lock guards the lists; it is taken when a connection is accepted or moves, by the watchdog at each
//! of its looks, when a call leaves the queue of its export, and when somebody asks or sets; never by another call.

use crate::conn::connection::{Conn, Rx};
use crate::pool::inbox::Message;
use crate::pool::postponed::{PostponedCall, ResumedCalls};
use crate::pool::shared::OtherPools;
use crate::pool::worker_pool::Pool;
use crate::sync::lock;
use crate::udp::received::ReceivedDatagram;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};

/// All pools of a server.
#[derive(Default)]
pub(crate) struct Pools(Mutex<State>);

#[derive(Default)]
struct State {
    current: Arc<[Arc<Pool>]>,
    draining: Vec<Arc<Pool>>,
}

/// A connection on its way to a pool.
enum ConnTransfer {
    /// It was accepted.
    New(Arc<Conn>),
    /// It comes from a pool that is drained.
    Moved(Box<Rx>),
}

impl ConnTransfer {
    fn conn(&self) -> &Arc<Conn> {
        match self {
            Self::New(conn) => conn,
            Self::Moved(rx) => &rx.conn,
        }
    }
}

impl From<ConnTransfer> for Message {
    fn from(transfer: ConnTransfer) -> Self {
        match transfer {
            ConnTransfer::New(conn) => Self::NewConn(conn),
            ConnTransfer::Moved(rx) => Self::MovedConn(rx),
        }
    }
}

impl Pools {
    /// The pools that take connections.
    pub fn current(&self) -> Arc<[Arc<Pool>]> {
        Arc::clone(&lock(&self.0).current)
    }

    /// All pools that have threads, those that take connections first.
    pub fn all(&self) -> Vec<Arc<Pool>> {
        let mut state = lock(&self.0);
        state.draining.retain(|pool| !pool.has_ended());
        state.current.iter().chain(&state.draining).map(Arc::clone).collect()
    }

    /// Whether a pool that is drained still has threads.
    pub fn are_draining(&self) -> bool {
        lock(&self.0).draining.iter().any(|pool| !pool.has_ended())
    }

    /// Puts others in their place; those that are to be drained.
    pub fn replace(&self, pools: Vec<Arc<Pool>>) -> Arc<[Arc<Pool>]> {
        let mut state = lock(&self.0);
        let old = std::mem::replace(&mut state.current, pools.into());
        state.draining.extend(old.iter().map(Arc::clone));
        old
    }

    /// Forgets all of them, which hold each other alive.
    pub fn clear(&self) {
        *lock(&self.0) = State::default();
    }

    /// Assigns a new connection to the pool that has the fewest.
    pub fn assign_new(&self, conn: Arc<Conn>) {
        self.assign_to_fewest(ConnTransfer::New(conn));
    }

    fn assign_to_fewest(&self, mut transfer: ConnTransfer) {
        loop {
            let current = self.current();
            let fewest = current.iter().min_by_key(|pool| pool.connections.load(Relaxed));
            // None after the end of the server only.
            let Some(pool) = fewest else { return transfer.conn().shut_down() };
            pool.connections.fetch_add(1, Relaxed);
            transfer.conn().pool.store(pool.index, Relaxed);
            let Err(message) = pool.inbox.post(transfer.into()) else { return };
            // It retired at this moment: there are others now.
            pool.connections.fetch_sub(1, Relaxed);
            transfer = match message {
                Message::NewConn(conn) => ConnTransfer::New(conn),
                Message::MovedConn(rx) => ConnTransfer::Moved(rx),
                _ => return,
            };
            if Arc::ptr_eq(&current, &self.current()) {
                return transfer.conn().shut_down();
            }
        }
    }
}

impl ResumedCalls for Pools {
    fn resume(&self, call: Box<PostponedCall>) {
        let at = call.conn.pool.load(Relaxed);
        let mut message = Message::Resumed(call);
        loop {
            let current = self.current();
            let (before, from) = current.split_at(at.min(current.len()));
            for pool in from.iter().chain(before) {
                match pool.inbox.post(message) {
                    Ok(()) => return,
                    Err(back) => message = back,
                }
            }
            // After the end of the server nobody is left: the call ends with its connection.
            if Arc::ptr_eq(&current, &self.current()) {
                return;
            }
        }
    }
}

impl OtherPools for Pools {
    fn assign(&self, rx: Box<Rx>) {
        self.assign_to_fewest(ConnTransfer::Moved(rx));
    }

    fn answer(&self, datagrams: Vec<ReceivedDatagram>) {
        if let Some(pool) = self.current().first() {
            // Closed after the end of the server only, or once more at this moment.
            let _ = pool.inbox.post(Message::Datagrams(datagrams));
        }
    }
}
