//! The handle to the thread that makes calls.

use crate::outbound::OutboundConfig;
use crate::outbound::engine::Engine;
use crate::outbound::info::OutboundInfo;
use crate::sync::lock;
use rpc::{CallFailure, CallId, ConnId, Outbound, OutboundCall, Replies};
use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;
use sys::event::Event;

/// Messages to the thread that may wait: as many calls as there may be, and as many cancellations.
const INBOX_MAX: usize = 16_384;
/// Calls under way over one connection of a client.
const CALLS_PER_CONN: usize = 64;

/// What the thread is told.
pub(super) enum Message {
    Call(CallId, OutboundCall),
    Cancel(CallId),
    /// The reply to a call over a client's connection.
    Reply(CallId, Vec<u8>),
    /// A client's connection is closed, on which calls are under way.
    ConnClosed(ConnId),
    Info(Sender<OutboundInfo>),
}

/// What the thread and its handles share.
#[derive(Default)]
pub(super) struct Shared {
    inbox: Mutex<Vec<Message>>,
    wake: Mutex<Option<Arc<Event>>>,
    pub stopping: AtomicBool,
    next_call: AtomicU64,
    /// The calls under way over clients' connections, by xid.
    on_conns: Mutex<HashMap<ConnId, HashMap<u32, CallId>>>,
    pub stray_replies: AtomicU64,
}

impl Shared {
    /// Leaves a message; gives it back if there are too many.
    fn tell(&self, message: Message) -> Option<Message> {
        let first = {
            let mut inbox = lock(&self.inbox);
            if inbox.len() >= INBOX_MAX || self.stopping.load(Relaxed) {
                return Some(message);
            }
            inbox.push(message);
            inbox.len() == 1
        };
        if first {
            self.wake();
        }
        None
    }

    fn wake(&self) {
        if let Some(event) = &*lock(&self.wake) {
            event.raise();
        }
    }

    /// All messages.
    pub fn messages(&self) -> Vec<Message> {
        std::mem::take(&mut *lock(&self.inbox))
    }

    /// Notes that a call goes over a client's connection; `false` if too many do.
    pub fn expect_on_conn(&self, conn: ConnId, xid: u32, call: CallId) -> bool {
        let mut on_conns = lock(&self.on_conns);
        let calls = on_conns.entry(conn).or_default();
        let fits = calls.len() < CALLS_PER_CONN;
        if fits {
            calls.insert(xid, call);
        }
        fits
    }

    /// No reply is expected any more.
    pub fn forget_on_conn(&self, conn: ConnId, xid: u32) {
        let mut on_conns = lock(&self.on_conns);
        if let Some(calls) = on_conns.get_mut(&conn) {
            calls.remove(&xid);
            if calls.is_empty() {
                on_conns.remove(&conn);
            }
        }
    }
}

/// Makes calls to clients and their machines. Dropping it ends its thread.
pub struct OutboundCalls {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl OutboundCalls {
    /// Starts the thread.
    ///
    /// # Errors
    /// The kernel refuses the thread or a descriptor.
    pub fn start(config: OutboundConfig) -> io::Result<Arc<Self>> {
        let shared = Arc::new(Shared::default());
        let event = Arc::new(Event::new()?);
        *lock(&shared.wake) = Some(Arc::clone(&event));
        let engine = Engine::new(config, Arc::clone(&shared), event)?;
        let thread = Builder::new().name("outbound".into()).spawn(move || engine.run())?;
        Ok(Arc::new(Self { shared, thread: Mutex::new(Some(thread)) }))
    }

    /// Ends all calls and the thread. What is asked for later fails at once.
    pub fn stop(&self) {
        self.shared.stopping.store(true, Relaxed);
        self.shared.wake();
        // not under the lock: a completion may ask for another call
        let thread = lock(&self.thread).take();
        if let Some(thread) = thread {
            let _ = thread.join();
        }
        for message in self.shared.messages() {
            if let Message::Call(_, call) = message {
                (call.done)(Err(CallFailure::Stopped));
            }
        }
    }

    /// What there is now; a default once it has been stopped, or if the thread is busy for a second.
    pub fn info(&self) -> OutboundInfo {
        let (sender, receiver) = channel();
        if self.shared.tell(Message::Info(sender)).is_some() {
            return OutboundInfo::default();
        }
        receiver.recv_timeout(Duration::from_secs(1)).unwrap_or_default()
    }
}

impl Drop for OutboundCalls {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Outbound for OutboundCalls {
    fn call(&self, call: OutboundCall) -> CallId {
        let id = CallId(self.shared.next_call.fetch_add(1, Relaxed));
        if let Some(Message::Call(_, call)) = self.shared.tell(Message::Call(id, call)) {
            let stopping = self.shared.stopping.load(Relaxed);
            let why = if stopping { CallFailure::Stopped } else { CallFailure::NoRoom };
            (call.done)(Err(why));
        }
        id
    }

    fn cancel(&self, call: CallId) {
        let _full = self.shared.tell(Message::Cancel(call));
    }
}

impl Replies for OutboundCalls {
    fn arrived(&self, conn: ConnId, xid: u32, record: &[u8]) {
        let call = {
            let mut on_conns = lock(&self.shared.on_conns);
            let calls = on_conns.get_mut(&conn);
            calls.and_then(|calls| calls.remove(&xid))
        };
        match call {
            Some(call) => drop(self.shared.tell(Message::Reply(call, record.to_vec()))),
            None => {
                self.shared.stray_replies.fetch_add(1, Relaxed);
            }
        }
    }

    fn closed(&self, conn: ConnId) {
        let had_calls = lock(&self.shared.on_conns).remove(&conn).is_some();
        if had_calls {
            let _full = self.shared.tell(Message::ConnClosed(conn));
        }
    }
}
