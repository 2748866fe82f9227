//! Requests and answers of the control socket: one JSON object per line each way.
//!
//! A request is `{"command":"status"}`; an answer is `{"ok":true,"result":…}` or
//! `{"ok":false,"error":"…"}`. Programs rely on these field names (`bowline … --json` prints the
//! result): fields are added, not renamed. Units stand at the end of a name.

use serde::{Deserialize, Serialize};

/// What the command line asks a server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "lowercase")]
pub enum Request {
    /// [`Status`].
    Status,
    /// A list of [`ExportRow`].
    Exports,
    /// A list of [`ClientRow`].
    Clients,
    /// A list of [`ConnRow`].
    Conns,
    /// A list of [`SocketRow`].
    Sockets,
    /// A list of [`PoolRow`].
    Pools,
    /// A list of [`OpRow`].
    Ops,
    /// [`Changed`].
    Set {
        /// The setting's name.
        key: String,
        /// Its new value.
        value: String,
    },
    /// A list of [`SettingRow`].
    Get {
        /// One setting; all if missing.
        #[serde(default)]
        key: Option<String>,
    },
    /// [`Reloaded`].
    Reload,
}

/// The answer's envelope.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Answer<T> {
    /// Whether the request was granted.
    pub ok: bool,
    /// What was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<T>,
    /// Why not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl<T> Answer<T> {
    /// A granted request.
    pub const fn granted(result: T) -> Self {
        Self { ok: true, result: Some(result), error: None }
    }

    /// A refused request.
    pub const fn refused(error: String) -> Self {
        Self { ok: false, result: None, error: Some(error) }
    }
}

/// The server in one page.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Status {
    /// The server's version.
    pub version: String,
    /// Its process id.
    pub pid: u32,
    /// Seconds since it began to serve.
    pub uptime_s: u64,
    /// Where it listens, as `tcp 127.0.0.1:2049`.
    pub listen: Vec<String>,
    /// Whether it can act as other users.
    pub privileged: bool,
    /// The user id that it runs as.
    pub uid: u32,
    /// Its state directory.
    pub state_dir: String,
    /// How clients find it, as `portmap: registered with rpcbind`.
    pub portmap: String,
    /// Number of exports.
    pub exports: u64,
    /// Open connections.
    pub connections: u64,
    /// Calls answered since the start.
    pub calls: u64,
    /// Calls per second since the start.
    pub calls_per_s: f64,
    /// Calls per second since the last time that anyone asked for the status.
    pub calls_per_s_recent: f64,
    /// Answers whose status was not success.
    pub errors: u64,
    /// Calls that were refused before they reached a procedure.
    pub rejected: u64,
    /// Bytes that came in.
    pub bytes_in: u64,
    /// Bytes that went out.
    pub bytes_out: u64,
    /// Data bytes that clients read, directory listings included.
    pub bytes_read: u64,
    /// Data bytes that clients wrote.
    pub bytes_written: u64,
    /// Threads of the process.
    pub threads: u64,
    /// Resident memory of the process.
    pub memory_bytes: u64,
    /// What it may have, with all of its control group: the machine's memory or the group's limit.
    #[serde(default)]
    pub memory_bytes_max: u64,
    /// Open descriptors of the process.
    pub open_files: u64,
    /// How many it may have.
    pub open_files_max: u64,
    /// Socket buffers of all connections.
    #[serde(default)]
    pub tcp_memory: TcpMemory,
    /// Named counters that are not zero, for those who look closer.
    pub counters: Vec<Counter>,
    /// What the operator should know.
    pub warnings: Vec<String>,
}

/// What socket buffers hold and may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct TcpMemory {
    /// What buffers with a set size hold if all are full.
    pub promised_bytes: u64,
    /// The most that the server promises: the first number of `net.ipv4.tcp_mem`.
    pub promised_bytes_max: u64,
    /// What all TCP of the machine holds now.
    pub machine_bytes: u64,
    /// From where on the kernel slows all connections down; 0 if it does not show it.
    pub machine_bytes_pressure: u64,
}

/// A named counter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counter {
    /// Its name.
    pub name: String,
    /// Its value since the start.
    pub value: u64,
}

/// One export to one group of clients.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExportRow {
    /// The path that clients mount.
    pub path: String,
    /// Where the files are.
    pub directory: String,
    /// Its number in file handles.
    pub id: u32,
    /// Its lasting identity, as 32 hexadecimal digits.
    pub uuid: String,
    /// Who may mount it, and how.
    pub rules: Vec<RuleRow>,
    /// Calls that were for it.
    pub calls: u64,
    /// Answers whose status was not success.
    pub errors: u64,
    /// Data bytes read.
    pub bytes_read: u64,
    /// Data bytes written.
    pub bytes_written: u64,
}

/// One rule of an export.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleRow {
    /// The clients that it is for.
    pub clients: String,
    /// What they get, as in exports(5).
    pub options: String,
}

/// One client, by its address.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientRow {
    /// Its address.
    pub address: String,
    /// Its open connections.
    pub connections: u64,
    /// Calls on all its connections since the server started, those that closed included.
    pub calls: u64,
    /// Bytes received on them.
    pub bytes_in: u64,
    /// Bytes sent on them.
    pub bytes_out: u64,
    /// What it has mounted, as far as it told (MOUNT has no way to know for sure).
    pub mounts: Vec<String>,
}

/// One connection.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConnRow {
    /// The client's end.
    pub peer: String,
    /// The server's end.
    pub local: String,
    /// The pool that serves it.
    pub pool: u64,
    /// Seconds since it was accepted.
    pub age_s: u64,
    /// Seconds since it last sent something.
    pub idle_s: u64,
    /// Calls that came on it.
    pub calls: u64,
    /// Bytes received.
    pub bytes_in: u64,
    /// Bytes sent.
    pub bytes_out: u64,
    /// Calls that run now.
    pub in_flight: u64,
    /// Bytes of replies that wait for the client to read.
    pub unsent_bytes: u64,
    /// What limits it, as seen for a quarter of a second; missing if it has just ended.
    #[serde(default)]
    pub link: Option<LinkRow>,
}

/// How a connection does now.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct LinkRow {
    /// What limits it: `idle`, `client` (it asks for no more), `server` (what arrived is not
    /// read), `receive-window`, `send-buffer`, `client-window`, `congestion`.
    pub limit: String,
    /// The setting that would lift the limit, as `tcp-rcvbuf=2M`.
    pub lift: Option<String>,
    /// Bytes received per second.
    pub in_bytes_per_s: u64,
    /// Bytes per second that the client took.
    pub out_bytes_per_s: u64,
    /// Round trip, smoothed; 0 if not known.
    pub rtt_us: u64,
    /// The shortest round trip of late; 0 if not known.
    pub rtt_min_us: u64,
    /// The window that the server offers.
    pub window_bytes: u64,
    /// The window that the client offers.
    pub client_window_bytes: u64,
    /// What the server's congestion control allows in flight.
    pub congestion_window_bytes: u64,
    /// What the network has delivered to the client of late, per second.
    pub delivery_bytes_per_s: u64,
    /// Segments that the server sent again.
    pub retransmits: u64,
    /// Segments that came out of order: some before them were lost.
    pub out_of_order: u64,
    /// Bytes that have arrived and were not read.
    pub unread_bytes: u64,
    /// The receive buffer, with the kernel's overhead: twice what a setting says.
    pub receive_buffer_bytes: u64,
    /// The send buffer, with the kernel's overhead.
    pub send_buffer_bytes: u64,
    /// What is set for the receive buffer: `auto` or a size.
    pub receive_buffer: String,
    /// What is set for the send buffer.
    pub send_buffer: String,
    /// Why the receive buffer is less than that: a sysctl, or `window-scale`.
    pub receive_buffer_cut_by: Option<String>,
    /// Why the send buffer is less than that.
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
    /// Whether systemd handed it over.
    pub adopted: bool,
    /// The interface whose datagrams it takes; none: all, or all that have no socket.
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
    /// Bytes of the kernel's buffer for what arrives; 0: it sizes it itself.
    pub buffer_in: u64,
    /// Bytes of the kernel's buffer for what leaves; 0: it sizes it itself.
    pub buffer_out: u64,
    /// What the operator should know.
    pub note: String,
}

/// One pool of threads.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PoolRow {
    /// Its number.
    pub pool: u64,
    /// The CPUs that its threads run on, as `0-3`; empty: any.
    pub cpus: String,
    /// Threads that exist.
    pub threads: u64,
    /// Threads parked with nothing to do.
    pub parked: u64,
    /// Fewest threads.
    pub threads_min: u64,
    /// Most threads.
    pub threads_max: u64,
    /// Its connections.
    pub connections: u64,
    /// Calls that it answered.
    pub calls: u64,
    /// Times that a follower took over because a call was about to sleep.
    pub promotions: u64,
    /// Times that one was needed and none was free.
    pub promotions_failed: u64,
    /// Times that the watchdog found a call asleep that had not said so.
    pub rescues: u64,
    /// What its leader does: `waiting`, `queueing`, `serving`, `vacant`, `retired`.
    pub leader: String,
    /// Who is woken for a call.
    pub wake_policy: String,
    /// Threads that sleep over a call, under a policy with a queue.
    pub blocked: u64,
    /// Threads beyond the most, for MOUNT and portmap while all others are blocked.
    pub reserves: u64,
    /// Connections and datagrams that wait in the queue now.
    pub queued: u64,
    /// Times that a connection or socket became ready (the kernel's packets-arrived).
    pub arrived: u64,
    /// Connections and datagrams put into the queue.
    pub enqueued: u64,
    /// Of these, those for which no thread was woken (the kernel's sockets-enqueued).
    pub waited: u64,
    /// Of these, those for which there was a parked thread but enough were on the way.
    pub overloads_avoided: u64,
    /// Threads woken (the kernel's threads-woken).
    pub woken: u64,
    /// Threads that left after some seconds without work (the kernel's threads-timedout).
    pub timed_out: u64,
    /// Times that every thread was blocked and no more could be started.
    pub exhausted: u64,
    /// Times that the watchdog woke a thread for a queue that nobody came for.
    pub unstuck: u64,
    /// How long work waited in the queue.
    pub queue_delay: DelayRow,
    /// How long it took from waking a thread until it ran.
    pub wake_delay: DelayRow,
}

/// How long something took, over all times.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct DelayRow {
    /// How often.
    pub count: u64,
    /// The mean, in nanoseconds.
    pub mean_ns: u64,
    /// What 99 of 100 did not exceed, in nanoseconds.
    pub p99_ns: u64,
    /// The longest, in nanoseconds.
    pub max_ns: u64,
}

/// One procedure.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpRow {
    /// The program's short name.
    pub program: String,
    /// The version.
    pub version: u32,
    /// The procedure's name in its RFC.
    pub procedure: String,
    /// Calls answered.
    pub calls: u64,
    /// Answers whose status was not success, by the status' name.
    pub errors: Vec<Counter>,
    /// Half of the calls took at most this long.
    pub p50_ns: u64,
    /// 99 of 100 calls took at most this long.
    pub p99_ns: u64,
    /// The slowest call.
    pub max_ns: u64,
    /// Bytes of the calls.
    pub bytes_in: u64,
    /// Bytes of the replies.
    pub bytes_out: u64,
}

/// One run-time setting.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SettingRow {
    /// Its name.
    pub key: String,
    /// The value in force.
    pub value: String,
    /// Whether `set` changes it in a running server.
    pub live: bool,
    /// When it can be changed: `live`, `at start`, `not in this version`.
    pub changes: String,
    /// What it does and which values it takes.
    pub about: String,
}

/// What `set` did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Changed {
    /// The setting.
    pub key: String,
    /// The value before.
    pub before: String,
    /// The value now in force.
    pub value: String,
    /// What there is to say about it: limits that it meets, what it did.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// What `reload` changed.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Reloaded {
    /// What is different from before, a line each; empty if nothing is.
    pub changes: Vec<String>,
    /// How many exports there are now.
    pub exports: u64,
    /// Options that were accepted but have no effect, and the like.
    pub notes: Vec<String>,
}
