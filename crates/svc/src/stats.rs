//! What the server tells about itself, its clock, and how one answered call is counted.
//!
//! Nothing here stops a call: the numbers are read with relaxed loads while they change, so that
//! two of them need not be of the same instant.

use crate::config::WakePolicy;
use crate::conn::clients::ClientTotals;
use crate::conn::connection::Conn;
use crate::conn::link::LinkInfo;
use crate::pool::scheduler::DelayHistogram;
use rpc::{Copied, Done, Duplicate, Outcome, Reject};
use serde::Serialize;
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use telemetry::{Counter, WorkerStats};

/// One open connection.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ConnInfo {
    /// Its number; rises with each connection.
    pub id: u64,
    /// The client's end.
    pub peer: SocketAddr,
    /// The server's end.
    pub local: SocketAddr,
    /// How it came: `tcp`.
    pub transport: SocketKind,
    /// Milliseconds since it was accepted.
    pub age_ms: u64,
    /// Milliseconds since it last sent something.
    pub idle_ms: u64,
    /// Calls that came.
    pub calls: u64,
    /// Bytes received.
    pub bytes_in: u64,
    /// Bytes sent.
    pub bytes_out: u64,
    /// Bytes of replies that the client has not taken.
    pub queued_bytes: usize,
    /// Bytes of memory for what has arrived and is not answered.
    pub partial_bytes: usize,
    /// Calls that sleep now.
    pub in_flight: u64,
    /// Its pool.
    pub pool: usize,
    /// How it does, if that was asked for.
    pub link: Option<LinkInfo>,
}

impl ConnInfo {
    /// What is known without asking the kernel.
    pub(crate) fn new(conn: &Conn, now_ms: u64) -> Self {
        Self {
            id: conn.id,
            peer: conn.peer.addr,
            local: conn.peer.local,
            transport: SocketKind::Tcp,
            age_ms: now_ms.saturating_sub(conn.since_ms),
            idle_ms: now_ms.saturating_sub(conn.seen.last_ms.load(Relaxed)),
            calls: conn.seen.calls.load(Relaxed),
            bytes_in: conn.seen.bytes_in.load(Relaxed),
            bytes_out: conn.seen.bytes_out.load(Relaxed),
            queued_bytes: conn.seen.queued.load(Relaxed),
            partial_bytes: conn.seen.partial.load(Relaxed),
            in_flight: conn.seen.in_flight.load(Relaxed),
            pool: conn.pool.load(Relaxed),
            link: None,
        }
    }
}

/// One client: an address that is connected, or was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct ClientInfo {
    /// Its address.
    pub address: IpAddr,
    /// Its open connections.
    pub connections: u64,
    /// What it did on all its connections since the server started, or since it was forgotten.
    pub totals: ClientTotals,
}

impl ClientInfo {
    /// The clients of open connections, and those that are known from closed ones, by address.
    pub(crate) fn all(conns: &[Arc<Conn>], closed: Vec<(IpAddr, ClientTotals)>) -> Vec<Self> {
        let mut all: BTreeMap<IpAddr, Self> = BTreeMap::new();
        let mut add = |address, connections, totals| {
            let none = Self { address, connections: 0, totals: ClientTotals::default() };
            let client = all.entry(address).or_insert(none);
            client.connections = client.connections.saturating_add(connections);
            client.totals.add(totals);
        };
        conns.iter().for_each(|conn| add(conn.peer.addr.ip(), 1, conn.seen.totals()));
        closed.into_iter().for_each(|(address, totals)| add(address, 0, totals));
        all.into_values().collect()
    }
}

/// The kind of a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum SocketKind {
    /// Connections.
    Tcp,
    /// Datagrams.
    Udp,
}

/// One listening or datagram socket.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SocketInfo {
    /// Its kind.
    pub transport: SocketKind,
    /// Where it is bound.
    pub local: SocketAddr,
    /// Whether somebody else has bound it.
    pub adopted: bool,
    /// The interface whose datagrams it takes; `None`: all, or all that have no socket.
    pub interface: Option<String>,
    /// Which of the sockets it is that datagrams are shared out to by CPU.
    pub cpu: Option<u32>,
    /// Connections accepted or datagrams received.
    pub received: u64,
    /// Datagrams sent.
    pub sent: u64,
    /// Bytes of the datagrams received.
    pub bytes_in: u64,
    /// Bytes of the datagrams sent.
    pub bytes_out: u64,
    /// Datagrams that found no room in the kernel's buffer.
    pub drops: u64,
    /// Bytes of the kernel's buffer for what arrives, by its own count; 0: it sizes it itself.
    pub buffer_in: usize,
    /// Bytes of the kernel's buffer for what leaves, by its own count; 0: it sizes it itself.
    pub buffer_out: usize,
    /// What the operator should know.
    pub note: String,
}

/// What the core of a pool does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Leader {
    /// The leader waits for events.
    Waiting,
    /// The leader waits for events and queues what is ready.
    Queueing,
    /// The leader runs a call.
    Serving,
    /// Nobody leads: a follower is on its way, or all threads are busy.
    Vacant,
    /// The pool has stopped.
    Retired,
}

/// One pool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PoolInfo {
    /// Its number.
    pub index: usize,
    /// The CPUs that its threads are bound to; empty: any.
    pub cpus: Vec<usize>,
    /// Threads.
    pub threads: usize,
    /// Threads that are parked.
    pub parked: usize,
    /// Fewest threads.
    pub threads_min: usize,
    /// Most threads.
    pub threads_max: usize,
    /// What its leader does.
    pub leader: Leader,
    /// Its connections.
    pub connections: usize,
    /// Calls that arrived.
    pub calls: u64,
    /// Times that a follower took over because a call was about to sleep.
    pub promotions: u64,
    /// Times that no follower was free and none could be started.
    pub promotions_failed: u64,
    /// Times that the watchdog took the core from a call that slept unannounced.
    pub rescues: u64,
    /// Threads woken (the kernel's "threads-woken").
    pub wakeups: u64,
    /// Who is woken for a call.
    pub wake_policy: WakePolicy,
    /// Threads whose calls have said that they sleep, under a policy with a queue.
    pub blocked: usize,
    /// Reserve threads: beyond the most, for MOUNT and portmap while all others are blocked.
    pub reserves: usize,
    /// Connections and datagrams that wait in the queue now.
    pub queued: usize,
    /// Times that a connection or socket became ready (the kernel's "packets-arrived").
    pub arrived: u64,
    /// Connections and datagrams put into the queue.
    pub enqueued: u64,
    /// Of these, those for which no thread was woken (the kernel's "sockets-enqueued").
    pub waited: u64,
    /// Of these, those for which there was a parked thread, but enough others were on the way
    /// (the "overloads-avoided" of 2009).
    pub overloads_avoided: u64,
    /// Threads that left after some seconds without work (the kernel's "threads-timedout").
    pub timed_out: u64,
    /// Times that every thread was blocked and no more could be started.
    pub exhausted: u64,
    /// Times that the watchdog woke a thread for a queue that nobody came for.
    pub unstuck: u64,
    /// How long work waited in the queue.
    pub queue_delay: Delay,
    /// How long it took from waking a thread until it ran.
    pub wake_delay: Delay,
}

/// How long something took, over all times since the pool was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Delay {
    /// How often.
    pub count: u64,
    /// The mean, in nanoseconds.
    pub mean_ns: u64,
    /// What 99 of 100 did not exceed, in nanoseconds.
    pub p99_ns: u64,
    /// The longest, in nanoseconds.
    pub max_ns: u64,
}

impl From<&DelayHistogram> for Delay {
    fn from(delays: &DelayHistogram) -> Self {
        let mean_ns = delays.total_ns.checked_div(delays.count).unwrap_or(0);
        Self { count: delays.count, mean_ns, p99_ns: delays.p99_ns(), max_ns: delays.max_ns }
    }
}

/// The server's clock: starts with the server, never goes back.
#[derive(Debug)]
pub(crate) struct Clock {
    began_ns: u64,
}

impl Clock {
    pub fn new() -> Self {
        Self { began_ns: sys::clock::monotonic_ns() }
    }

    pub fn now_ns(&self) -> u64 {
        sys::clock::monotonic_ns().saturating_sub(self.began_ns)
    }

    pub fn now_ms(&self) -> u64 {
        self.now_ns() / NS_PER_MS
    }
}

/// Nanoseconds of a millisecond.
pub(crate) const NS_PER_MS: u64 = 1_000_000;

/// Counts payload that was copied. Of a range it is not known before it leaves: whoever sends it counts.
fn count_copied(stats: &WorkerStats, outcome: &Outcome) {
    let read = u64::from(outcome.bytes_read);
    let received = outcome.bytes_written.saturating_sub(outcome.bytes_piped);
    if received > 0 {
        stats.add(Counter::BytesCopied, u64::from(received));
    }
    let Some(why) = outcome.copied.filter(|_| read > 0) else { return };
    stats.add(Counter::BytesCopied, read);
    stats.add(
        match why {
            Copied::NotTaken => Counter::CopiedNotTaken,
            Copied::Short => Counter::CopiedShort,
            Copied::Cold => Counter::CopiedCold,
            Copied::NoFile => Counter::CopiedNoFile,
            Copied::Listing => return,
        },
        1,
    );
}

/// Counts one call.
pub(crate) fn count(
    stats: &WorkerStats,
    done: &Done,
    latency_ns: u64,
    bytes_in: usize,
    bytes_out: usize,
) {
    if let Some(op) = done.op {
        stats.call(&telemetry::Call {
            op: op.0,
            export: done.outcome.export,
            status: done.outcome.status,
            latency_ns,
            bytes_in: bytes_in as u64,
            bytes_out: bytes_out as u64,
            bytes_read: done.outcome.bytes_read,
            bytes_written: done.outcome.bytes_written,
        });
    }
    count_copied(stats, &done.outcome);
    match done.rejected {
        None => {}
        Some(Reject::Malformed) => stats.add(Counter::RecordsMalformed, 1),
        Some(Reject::Panicked) => stats.add(Counter::ProcedurePanics, 1),
        Some(
            Reject::RpcMismatch
            | Reject::Auth(_)
            | Reject::ProgUnavail
            | Reject::ProgMismatch
            | Reject::ProcUnavail
            | Reject::GarbageArgs
            | Reject::SystemErr,
        ) => stats.add(Counter::CallsRejected, 1),
    }
    match done.duplicate {
        None => {}
        Some(Duplicate::Dropped) => stats.add(Counter::DuplicatesDropped, 1),
        Some(Duplicate::Replayed) => stats.add(Counter::DuplicatesReplayed, 1),
    }
}
