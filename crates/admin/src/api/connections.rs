//! What carries calls: connections and what limits each, sockets, pools of threads.

use serde::{Deserialize, Serialize};

/// One connection.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConnRow {
    /// Its number; rises with each connection.
    #[serde(default)]
    pub id: u64,
    /// The client's end.
    pub peer: String,
    /// The server's end.
    pub local: String,
    /// What protects it: `none`, `tls`, or `mtls` with the name in the client's certificate; with `, kernel` behind it if
    /// the kernel encrypts and decrypts the records.
    #[serde(default)]
    pub security: String,
    /// The cipher suite, the subject, issuer, serial number and SHA-256 of the client's certificate, of those that there
    /// are.
    #[serde(default)]
    pub tls: Option<TlsRow>,
    /// The pool that serves it.
    pub pool: u64,
    /// Seconds since it was accepted.
    pub age_s: u64,
    /// Seconds since it last sent data.
    pub idle_s: u64,
    /// Calls received.
    pub calls: u64,
    /// Bytes received.
    pub bytes_in: u64,
    /// Bytes sent.
    pub bytes_out: u64,
    /// Calls in progress.
    pub in_flight: u64,
    /// Bytes of replies that the client has not taken.
    pub unsent_bytes: u64,
    /// The oldest of its calls that sleep in a file system now.
    #[serde(default)]
    pub oldest_blocked: Option<BlockedCallRow>,
    /// What limits it, measured for a quarter of a second; missing if it has just been closed.
    #[serde(default)]
    pub link: Option<LinkRow>,
}

/// TLS of a connection.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TlsRow {
    /// The cipher suite.
    pub suite: String,
    /// Whether the kernel encrypts and decrypts its records.
    #[serde(default)]
    pub in_kernel: bool,
    /// The subject of the client's certificate; empty without one, as are the others.
    pub subject: String,
    /// Its issuer.
    pub issuer: String,
    /// Its serial number.
    pub serial: String,
    /// Its SHA-256.
    pub fingerprint: String,
}

/// A call that sleeps in a file system.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockedCallRow {
    /// The path of the export.
    pub export: String,
    /// The call, for example `nfs v3 READ`.
    pub call: String,
    /// For how long.
    pub age_ms: u64,
}

/// What limits a connection now.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct LinkRow {
    /// The limit: `idle`, `disk` (a call sleeps in the file system), `client` (it asks for no more), `server` (received data is not read),
    /// `receive-window`, `send-buffer`, `client-window`, `congestion`.
    pub limit: String,
    /// The setting that would raise the limit, for example `tcp-rcvbuf=2M`.
    pub lift: Option<String>,
    /// Bytes received per second.
    pub in_bytes_per_s: u64,
    /// Bytes per second that the client took.
    pub out_bytes_per_s: u64,
    /// Smoothed round-trip time; 0 if unknown.
    pub rtt_us: u64,
    /// Shortest recent round-trip time; 0 if unknown.
    pub rtt_min_us: u64,
    /// The window that the server offers.
    pub window_bytes: u64,
    /// The window that the client offers.
    pub client_window_bytes: u64,
    /// The server's congestion window.
    pub congestion_window_bytes: u64,
    /// Recent rate of delivery to the client, per second.
    pub delivery_bytes_per_s: u64,
    /// Segments that the server retransmitted.
    pub retransmits: u64,
    /// Segments received out of order.
    pub out_of_order: u64,
    /// Bytes received by the kernel and not read yet.
    pub unread_bytes: u64,
    /// Size of the receive buffer with the kernel's overhead: twice the configured size.
    pub receive_buffer_bytes: u64,
    /// Size of the send buffer with the kernel's overhead.
    pub send_buffer_bytes: u64,
    /// The configured size of the receive buffer, or `auto`.
    pub receive_buffer: String,
    /// The configured size of the send buffer, or `auto`.
    pub send_buffer: String,
    /// Why the receive buffer is smaller: a sysctl, or `window-scale`.
    pub receive_buffer_cut_by: Option<String>,
    /// Why the send buffer is smaller.
    pub send_buffer_cut_by: Option<String>,
    /// Its congestion control.
    pub congestion_control: String,
}

/// One listening or datagram socket.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SocketRow {
    /// `tcp` or `udp`.
    pub transport: String,
    /// Where it is bound.
    pub local: String,
    /// Whether systemd opened it.
    pub adopted: bool,
    /// The interface whose datagrams it receives; none: all interfaces, or all without a socket.
    pub interface: Option<String>,
    /// Its index among the sockets that datagrams are distributed to by CPU.
    pub cpu: Option<u32>,
    /// Connections accepted or datagrams received.
    pub received: u64,
    /// Datagrams sent.
    pub sent: u64,
    /// Bytes of the datagrams received.
    pub bytes_in: u64,
    /// Bytes of the datagrams sent.
    pub bytes_out: u64,
    /// Datagrams dropped because the kernel's buffer was full.
    pub drops: u64,
    /// Size of the receive buffer; 0: the kernel chooses it.
    pub buffer_in: u64,
    /// Size of the send buffer; 0: the kernel chooses it.
    pub buffer_out: u64,
    /// A note for the operator.
    pub note: String,
}

/// One pool of threads.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PoolRow {
    /// Its number.
    pub pool: u64,
    /// The CPUs that its threads serve, for example `0-3`; empty: any.
    pub cpus: String,
    /// Threads that exist.
    pub threads: u64,
    /// Idle threads.
    pub parked: u64,
    /// Fewest threads.
    pub threads_min: u64,
    /// Most threads.
    pub threads_max: u64,
    /// Its connections.
    pub connections: u64,
    /// Calls answered.
    pub calls: u64,
    /// Times that a follower was promoted because a call was about to block.
    pub promotions: u64,
    /// Times that a follower was needed and none was idle.
    pub promotions_failed: u64,
    /// Times that the watchdog promoted a follower because a call blocked unexpectedly.
    pub rescues: u64,
    /// What its leader does: `waiting`, `queueing`, `serving`, `vacant`, `retired`.
    pub leader: String,
    /// Who is woken for a call.
    pub wake_policy: String,
    /// Threads blocked in a call, under a wake policy with a queue.
    pub blocked: u64,
    /// Extra threads for MOUNT and portmap while all others are blocked.
    pub reserves: u64,
    /// Connections and datagrams in the queue now.
    pub queued: u64,
    /// Times that a connection or socket became ready (the kernel's packets-arrived).
    pub arrived: u64,
    /// Connections and datagrams put into the queue.
    pub enqueued: u64,
    /// Of these, those for which no thread was woken (the kernel's sockets-enqueued).
    pub waited: u64,
    /// Of these, those with an idle thread that was not woken because enough were on the way.
    pub overloads_avoided: u64,
    /// Threads woken (the kernel's threads-woken).
    pub woken: u64,
    /// Threads ended after some seconds without work (the kernel's threads-timedout).
    pub timed_out: u64,
    /// Times that every thread was blocked and no more could be started.
    pub exhausted: u64,
    /// Times that the watchdog woke a thread for a queue that no thread was serving.
    pub unstuck: u64,
    /// Time that work waited in the queue.
    pub queue_delay: DelayRow,
    /// Time from waking a thread until it ran.
    pub wake_delay: DelayRow,
}

/// A distribution of times.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct DelayRow {
    /// How often.
    pub count: u64,
    /// The mean, in nanoseconds.
    pub mean_ns: u64,
    /// The 99th percentile, in nanoseconds.
    pub p99_ns: u64,
    /// The longest, in nanoseconds.
    pub max_ns: u64,
}
