//! The threads that perform TLS handshakes, each with its own epoll, and the connections in a handshake.
//!
//! A worker that has answered a probe hands the connection over, so that a handshake occupies only the connection's slot
//! in its pool. After the handshake the connection goes back through the pool's inbox, with the data that arrived behind
//! the last handshake message as its tail.
//!
//! Limits: [`HANDSHAKES_MAX`] in all, [`HANDSHAKES_PER_CLIENT_MAX`] per client; beyond them the oldest handshake of this
//! client, or of the client with the most, is closed. Each handshake has a time limit. Of incomplete messages all
//! handshakes together keep [`HANDSHAKE_BYTES_MAX`], a part of it in each thread; beyond it the one that keeps the most is
//! closed.
//!
//! Locks: `by_client` guards which handshakes each client has; a thread's inbox guards the connections on their way to it. Each is held
//! for one table or list operation.

use crate::conn::client_network::{ClientNetwork, IdsByClient};
use crate::conn::connection::{Conn, Rx};
use crate::epoll_tokens::TOKEN_INBOX;
use crate::handshake::log::HandshakeLog;
use crate::handshake::pending_handshake::{Outcome, PendingHandshake};
use crate::kernel_tls::KernelTls;
use crate::limits::{
    EVENTS_PER_WAIT, HANDSHAKE_BYTES_MAX, HANDSHAKES_MAX, HANDSHAKES_PER_CLIENT_MAX,
};
use crate::pool::inbox::Message;
use crate::pool::shared::{Handshakes, Shared};
use crate::pool::worker_pool::Pool;
use crate::server::config::TlsConfig;
use crate::sync::lock;
use std::collections::{BTreeMap, HashMap};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;
use sys::epoll::{Epoll, Events, Interest};
use sys::event::Event;
use telemetry::{Counter, WorkerStats};
use tls::ServerTls;

/// Bytes per receive call: a flight of a client.
const RECEIVE_BYTES: usize = 16 << 10;

/// The handshake threads.
pub(crate) struct HandshakeThreads {
    server: Arc<ServerTls>,
    /// Who hands sessions over to the kernel.
    pub kernel: KernelTls,
    /// How long a handshake may take.
    time_max: Duration,
    by_client: Mutex<IdsByClient>,
    threads: Vec<HandshakeThread>,
    /// The thread that gets the next handshake.
    next: AtomicUsize,
    stopping: AtomicBool,
    log: HandshakeLog,
}

/// Handle to a thread.
struct HandshakeThread {
    epoll: Epoll,
    event: Event,
    inbox: Mutex<Vec<PendingHandshake>>,
}

/// State owned by a thread.
struct ThreadState<'d> {
    handshakes: &'d HandshakeThreads,
    thread: &'d HandshakeThread,
    shared: &'d Shared,
    stats: WorkerStats,
    pending: HashMap<u64, PendingHandshake>,
    /// Bytes that those keep of incomplete messages.
    kept: usize,
    /// Deadlines, on the server's clock.
    ends: BTreeMap<(u64, u64), ()>,
    buf: Vec<u8>,
}

impl HandshakeThreads {
    /// Creates the threads without starting them, and finds out what the kernel can do.
    ///
    /// # Errors
    /// No descriptors or memory left.
    pub fn new(config: TlsConfig) -> io::Result<Self> {
        let TlsConfig { server, kernel, threads, handshake_max } = config;
        let thread = |_| {
            let (epoll, event) = (Epoll::new()?, Event::new()?);
            epoll.add(&event, TOKEN_INBOX, Interest::READABLE)?;
            Ok(HandshakeThread { epoll, event, inbox: Mutex::default() })
        };
        Ok(Self {
            server,
            kernel: KernelTls::new(kernel),
            time_max: handshake_max,
            by_client: Mutex::default(),
            threads: (0..threads.max(1)).map(thread).collect::<io::Result<_>>()?,
            next: AtomicUsize::new(0),
            stopping: AtomicBool::new(false),
            log: HandshakeLog::default(),
        })
    }

    /// Starts the threads.
    ///
    /// # Errors
    /// A thread cannot be started; those that run end with [`HandshakeThreads::stop`].
    pub fn start(self: &Arc<Self>, shared: &Arc<Shared>) -> io::Result<Vec<JoinHandle<()>>> {
        let start = |number| {
            let (handshakes, shared) = (Arc::clone(self), Arc::clone(shared));
            Builder::new()
                .name(format!("tls-{number}"))
                .spawn(move || handshakes.run(number, &shared))
        };
        (0..self.threads.len()).map(start).collect()
    }

    /// Whom a handshake is made with, and who takes the session afterwards.
    fn sides(&self) -> (&ServerTls, &KernelTls) {
        (&self.server, &self.kernel)
    }

    /// Ends the threads; their connections are closed.
    pub fn stop(&self) {
        self.stopping.store(true, Relaxed);
        self.threads.iter().for_each(|thread| thread.event.raise());
    }

    fn run(&self, number: usize, shared: &Shared) {
        let Some(thread) = self.threads.get(number) else { return };
        // a flood of handshakes must delay other handshakes more than calls
        let _ = sys::thread::lower_priority();
        let mut own = ThreadState {
            handshakes: self,
            thread,
            shared,
            stats: shared.telemetry.worker(),
            pending: HashMap::new(),
            kept: 0,
            ends: BTreeMap::new(),
            buf: vec![0; RECEIVE_BYTES],
        };
        let mut events = Events::with_capacity(EVENTS_PER_WAIT);
        loop {
            if let Err(error) = thread.epoll.wait(&mut events, own.wait_at_most()) {
                tracing::error!(%error, "cannot wait for handshakes");
                std::thread::sleep(Duration::from_millis(50));
            }
            let mut index = 0_usize;
            while let Some(ready) = events.at(index) {
                index = index.saturating_add(1);
                match ready.token {
                    TOKEN_INBOX => own.take_inbox(),
                    id => own.go_on(id),
                }
            }
            own.end_late();
            if self.stopping.load(Relaxed) {
                own.take_inbox();
                return own.end_all();
            }
        }
    }

    /// Counts a connection, which may displace another handshake.
    fn take_place(&self, client: ClientNetwork, id: u64) -> Option<u64> {
        let mut by_client = lock(&self.by_client);
        let from = if by_client.count_of(client) >= HANDSHAKES_PER_CLIENT_MAX {
            Some(client)
        } else if by_client.len() >= HANDSHAKES_MAX {
            by_client.with_more_than(0).next().map(|(busiest, _)| busiest)
        } else {
            None
        };
        let displaced = from.and_then(|from| {
            let oldest = by_client.ids(from, 0).next()?;
            by_client.remove(from, oldest);
            Some(oldest)
        });
        by_client.insert(client, id);
        displaced
    }
}

impl Handshakes for HandshakeThreads {
    fn begin(&self, mut rx: Box<Rx>, pool: &Arc<Pool>) {
        let (conn, shared) = (Arc::clone(&rx.conn), &pool.shared);
        let client = ClientNetwork::of(conn.peer.addr.ip());
        if let Some(displaced) = self.take_place(client, conn.id)
            && let Some(other) = shared.conns.find(displaced)
        {
            lock(&shared.deferred_stats).add(Counter::TlsDisplaced, 1);
            other.shut_down();
        }
        let number = self.next.fetch_add(1, Relaxed) % self.threads.len().max(1);
        match self.threads.get(number) {
            Some(thread) if !self.stopping.load(Relaxed) => {
                lock(&thread.inbox).push(PendingHandshake::new(rx, Arc::clone(pool)));
                thread.event.raise();
            }
            Some(_) | None => {
                rx.broken = true;
                pool.post(Message::ReturnedConn(rx));
            }
        }
    }
}

impl ThreadState<'_> {
    fn now_ms(&self) -> u64 {
        self.shared.clock.now_ms()
    }

    /// Time until the next deadline.
    fn wait_at_most(&self) -> Option<Duration> {
        let ((end, _), ()) = self.ends.first_key_value()?;
        Some(Duration::from_millis(end.saturating_sub(self.now_ms()).saturating_add(1)))
    }

    fn take_inbox(&mut self) {
        self.thread.event.lower();
        let arrived = std::mem::take(&mut *lock(&self.thread.inbox));
        let time_ms = u64::try_from(self.handshakes.time_max.as_millis()).unwrap_or(u64::MAX);
        let end = self.now_ms().saturating_add(time_ms);
        for pending_one in arrived {
            let id = pending_one.conn().id;
            self.ends.insert((end, id), ());
            let watched =
                pending_one.conn().stream.watch(&self.thread.epoll, id, Interest::READABLE);
            match watched {
                Ok(()) => self.put(id, pending_one),
                Err(error) => self.end(Outcome::Failed(pending_one, Some(error.to_string()))),
            }
        }
    }

    /// Keeps a handshake until more of it arrives.
    fn put(&mut self, id: u64, pending_one: PendingHandshake) {
        self.kept = self.kept.saturating_add(pending_one.kept());
        self.pending.insert(id, pending_one);
    }

    fn take(&mut self, id: u64) -> Option<PendingHandshake> {
        let pending_one = self.pending.remove(&id)?;
        self.kept = self.kept.saturating_sub(pending_one.kept());
        Some(pending_one)
    }

    /// Closes the handshakes that keep the most, until all together keep no more than they may.
    fn shrink(&mut self) {
        let share = HANDSHAKE_BYTES_MAX.checked_div(self.handshakes.threads.len()).unwrap_or(0);
        while self.kept > share {
            let largest = self.pending.iter().max_by_key(|(_, pending_one)| pending_one.kept());
            let Some(pending_one) = largest.map(|(id, _)| *id).and_then(|id| self.take(id)) else {
                return;
            };
            self.stats.add(Counter::TlsDisplaced, 1);
            let why = "handshakes keep too much memory, and of all it had sent the most";
            self.end(Outcome::Failed(pending_one, Some(why.to_owned())));
        }
    }

    fn go_on(&mut self, id: u64) {
        let Some(pending_one) = self.take(id) else { return };
        let (conn, pool) = (Arc::clone(pending_one.conn()), Arc::clone(&pending_one.pool));
        // a panic, which is a bug, costs this connection and not the thread
        let went_on =
            AssertUnwindSafe(|| pending_one.go_on(self.handshakes.sides(), &mut self.buf));
        match catch_unwind(went_on) {
            Ok(Outcome::More(pending_one)) => {
                self.put(id, pending_one);
                self.shrink();
            }
            Ok(over) => self.end(over),
            Err(_panic) => {
                self.stats.add(Counter::TlsFailed, 1);
                let _ = conn.stream.unwatch(&self.thread.epoll);
                self.give_place_back(&conn);
                let token = conn.token();
                pool.post(Message::Panicked(token));
            }
        }
    }

    /// Returns a connection after its handshake.
    fn end(&mut self, outcome: Outcome) {
        let mut pending_one = match outcome {
            Outcome::Done(pending_one) => {
                HandshakeLog::done(pending_one.conn());
                self.stats.add(Counter::TlsHandshakes, 1);
                let in_kernel = !pending_one.conn().stream.opens_records();
                self.stats.add(Counter::TlsInKernel, u64::from(in_kernel));
                pending_one
            }
            Outcome::More(pending_one) => pending_one,
            Outcome::Failed(mut pending_one, why) => {
                if let Some(why) = why {
                    self.handshakes.log.failed(pending_one.conn().peer.addr, &why, self.now_ms());
                }
                self.stats.add(Counter::TlsFailed, 1);
                pending_one.rx.broken = true;
                pending_one
            }
        };
        let conn = Arc::clone(pending_one.conn());
        // it was not watched if adding it failed
        let _ = conn.stream.unwatch(&self.thread.epoll);
        self.give_place_back(&conn);
        (pending_one.rx.needs_rearm, pending_one.rx.read_until_empty) = (true, true);
        pending_one.pool.post(Message::ReturnedConn(pending_one.rx));
    }

    fn give_place_back(&self, conn: &Conn) {
        lock(&self.handshakes.by_client).remove(ClientNetwork::of(conn.peer.addr.ip()), conn.id);
    }

    fn end_late(&mut self) {
        let now_ms = self.now_ms();
        while let Some(first) = self.ends.first_entry().filter(|first| first.key().0 <= now_ms) {
            let (_, id) = *first.key();
            first.remove();
            if let Some(pending_one) = self.take(id) {
                self.stats.add(Counter::TlsTimedOut, 1);
                let why = format!(
                    "its handshake was not completed within {:?}",
                    self.handshakes.time_max
                );
                self.end(Outcome::Failed(pending_one, Some(why)));
            }
        }
    }

    fn end_all(&mut self) {
        for (_, pending_one) in std::mem::take(&mut self.pending) {
            self.end(Outcome::Failed(pending_one, None));
        }
    }
}
