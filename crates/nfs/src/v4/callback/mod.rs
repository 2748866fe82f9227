//! Callbacks. Those of version 4.0 go to an address ([`address`]); those of later versions are
//! calls to a client over the connections that it has bound to its sessions' back channels (RFC 8881
//! §2.10.3.1, §20).
//!
//! A connection is bound by CREATE_SESSION or BIND_CONN_TO_SESSION and by nothing else, is probed by CB_NULL then, and
//! is unbound when it closes. [`state::v4::BackChannel`] chooses the slot and the connection of a callback; here
//! callbacks are encoded and passed to [`rpc::Outbound`], their answers are decoded ([`operation`]), and the status
//! flags of SEQUENCE are updated ([`table`]).
//!
//! No thread waits for a callback: [`Callbacks::call`] returns at once, and the completion runs on the outbound thread,
//! or before `call` returns if the client has no usable connection. A session or client ends although callbacks are in
//! progress; these are sent over another session of the client, or fail.
//!
//! One mutex guards the table of channels and is held for list and map operations. No call is made and no completion
//! runs under it.

mod address;
mod calls;
mod client_program;
mod counters;
mod holder_attrs;
mod operation;
mod table;

pub use counters::CallbackCounts;
pub use holder_attrs::{HolderAttrs, HolderTimes};
pub use operation::{CallbackAnswer, CallbackFailure, Done, Operation};

use address::AddressCallbacks;
use counters::Counters;
use rpc::{CallCredential, ConnId, Outbound};
use state::v4::{Session, SessionId};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Instant;
use table::Table;

/// Wakes the thread that calls [`Callbacks::tick`]. Must not block.
type Waker = Box<dyn Fn() + Send + Sync>;

/// Parameters of a session's callbacks.
#[derive(Debug, Clone)]
pub struct CallbackParams {
    /// The number of the client's callback program.
    pub program: u32,
    /// The credential of callbacks; `None`: the client accepts none that is implemented here.
    pub credential: Option<CallCredential>,
    /// The minor version of the session.
    pub minor: u32,
    /// The slots that the client offers.
    pub slots: u32,
}

/// To whom a callback is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recipient {
    /// A client of a later version than 4.0, over any of its sessions.
    Client(u64),
    /// A session.
    Session(SessionId),
}

/// All back channels.
#[derive(Default)]
pub struct Callbacks {
    table: Mutex<Table>,
    /// Those of clients of version 4.0.
    pub by_address: Arc<AddressCallbacks>,
    /// How many connections are bound: while none is, a closed connection needs no lock.
    bound: AtomicUsize,
    outbound: OnceLock<Arc<dyn Outbound>>,
    waker: OnceLock<Waker>,
    counters: Arc<Counters>,
}

impl Callbacks {
    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets what makes calls, once; further ones are ignored. Without it no connection is bound, and no address called.
    pub fn set_outbound(&self, outbound: Arc<dyn Outbound>) {
        self.by_address.set_outbound(Arc::clone(&outbound), Arc::clone(&self.counters));
        let _first = self.outbound.set(outbound);
    }

    /// Sets what is called when [`Callbacks::tick`] is due earlier than it returned, once; further ones are ignored.
    pub fn set_waker(&self, waker: Waker) {
        let _first = self.waker.set(waker);
    }

    fn wake(&self) {
        if let Some(wake) = self.waker.get() {
            wake();
        }
    }

    /// How many callbacks there were.
    pub fn counts(&self) -> CallbackCounts {
        self.counters.counts()
    }

    /// A session was made. No connection is bound yet.
    pub fn add_session(&self, session: Arc<Session>, params: CallbackParams) {
        self.lock().add(session, params);
    }

    /// Changes the parameters of a session's callbacks (BACKCHANNEL_CTL); those in progress keep theirs.
    pub fn set_params(&self, session: &SessionId, program: u32, credential: CallCredential) {
        self.lock().set_params(session, program, credential);
    }

    /// Binds a connection to a session's back channel and probes it. `false`: the session is not known, accepts no
    /// callbacks or has too many connections, or the call did not arrive over a connection.
    pub fn bind(
        self: &Arc<Self>,
        session: &SessionId,
        connection: Arc<dyn rpc::BackChannel>,
    ) -> bool {
        let Some(conn) = connection.conn().filter(|_| self.outbound.get().is_some()) else {
            return false;
        };
        let (bound, program) = {
            let mut table = self.lock();
            let bound = table.bind(session, conn, &connection);
            self.bound.store(table.bound(), Relaxed);
            (bound, table.program(session))
        };
        if bound && let Some(program) = program {
            self.probe(connection, program);
        }
        bound
    }

    /// Whether a connection is bound to a session's back channel.
    pub fn is_bound(&self, session: &SessionId, conn: ConnId) -> bool {
        self.lock().is_bound(session, conn)
    }

    /// A session has been destroyed: its waiting callbacks are sent over other sessions of the client, or fail.
    pub fn end_session(self: &Arc<Self>, session: &SessionId) {
        let waiting = {
            let mut table = self.lock();
            let waiting = table.remove(session);
            self.bound.store(table.bound(), Relaxed);
            waiting
        };
        for callback in waiting {
            self.start(callback);
        }
    }

    /// A connection is closed.
    pub fn closed(&self, conn: ConnId) {
        if self.bound.load(Relaxed) == 0 {
            return;
        }
        let mut table = self.lock();
        table.unbind(conn);
        self.bound.store(table.bound(), Relaxed);
    }

    /// Sends the callbacks that were delayed and are due, and removes sessions that have ended. Returns after how many
    /// milliseconds it is to be called again.
    pub fn tick(self: &Arc<Self>) -> Option<u64> {
        let now = Instant::now();
        let (due, waiting, next) = {
            let mut table = self.lock();
            let waiting = table.remove_ended();
            self.bound.store(table.bound(), Relaxed);
            (table.take_due(now), waiting, table.next_due())
        };
        for delayed in due {
            self.go_on(delayed);
        }
        for callback in waiting {
            self.start(callback);
        }
        next.map(|at| u64::try_from(at.saturating_duration_since(now).as_millis()).unwrap_or(0))
    }
}
