//! The pools: those that new connections go to, and those that are being left.
//!
//! `pool-mode` changes while the server runs. New pools are started first; from then on the
//! acceptor gives connections to them. The leader of each old pool then takes no more datagrams,
//! and sends its connections over, each when it is home: with what was received and not answered,
//! with what is queued to be sent, and with calls that run detached still running.
//! When it has none left, and its inbox is empty and closed, it retires. So no connection drops
//! and no call is lost; calls of one connection go on side by side across the change.
//!
//! The lock guards the lists; it is taken when a connection is accepted or moves, by the watchdog
//! once a tick and when somebody asks or sets; never by a call.

use crate::conn::connection::{Conn, Rx};
use crate::pool::worker_pool::{Message, Pool};
use crate::sync::lock;
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

impl Pools {
    /// The pools that take connections.
    pub fn current(&self) -> Arc<[Arc<Pool>]> {
        Arc::clone(&lock(&self.0).current)
    }

    /// All pools that have threads, those that take connections first.
    pub fn all(&self) -> Vec<Arc<Pool>> {
        let mut state = lock(&self.0);
        state.draining.retain(|pool| !pool.is_gone());
        state.current.iter().chain(&state.draining).map(Arc::clone).collect()
    }

    /// Whether a pool that is being left still has threads.
    pub fn is_leaving(&self) -> bool {
        lock(&self.0).draining.iter().any(|pool| !pool.is_gone())
    }

    /// Puts others in their place; those that are to be left.
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

    /// Gives a connection to the pool that has the fewest.
    pub fn hand_out(&self, parcel: ConnTransfer) {
        let mut parcel = parcel;
        loop {
            let current = self.current();
            let fewest = current.iter().min_by_key(|pool| pool.connections.load(Relaxed));
            // None after the end of the server only.
            let Some(pool) = fewest else { return parcel.conn().shut_down() };
            pool.connections.fetch_add(1, Relaxed);
            parcel.conn().pool.store(pool.index, Relaxed);
            match pool.try_post(parcel.mail()) {
                Ok(()) => return,
                // It was left at this moment: there are others now.
                Err(mail) => {
                    pool.connections.fetch_sub(1, Relaxed);
                    match mail {
                        Message::Open(conn) => parcel = ConnTransfer::New(conn),
                        Message::Moved(rx) => parcel = ConnTransfer::Moved(rx),
                        _ => return,
                    }
                    if Arc::ptr_eq(&current, &self.current()) {
                        return parcel.conn().shut_down();
                    }
                }
            }
        }
    }

    /// Leaves mail that any pool can deal with.
    pub fn post(&self, mail: Message) {
        if let Some(pool) = self.current().first() {
            // Closed after the end of the server only, or once more at this moment.
            let _ = pool.try_post(mail);
        }
    }
}

/// A connection on its way to a pool.
pub(crate) enum ConnTransfer {
    /// It was accepted.
    New(Arc<Conn>),
    /// It comes from a pool that is being left.
    Moved(Box<Rx>),
}

impl ConnTransfer {
    fn conn(&self) -> &Arc<Conn> {
        match self {
            Self::New(conn) => conn,
            Self::Moved(rx) => &rx.conn,
        }
    }

    fn mail(self) -> Message {
        match self {
            Self::New(conn) => Message::Open(conn),
            Self::Moved(rx) => Message::Moved(rx),
        }
    }
}
