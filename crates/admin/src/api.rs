//! Requests and answers of the control socket: one JSON object per line each way.
//!
//! A request is `{"command":"status"}`; an answer is `{"version":1,"ok":true,"result":…}` or
//! `{"version":1,"ok":false,"error":"…"}`. Programs rely on these field names (`bowline … --json` prints the
//! result): fields are added, never renamed. Names end in their unit.

mod connections;
mod diagnosis;
mod exporting;
mod reports;
mod samples;
mod state;

pub use connections::{BlockedCallRow, ConnRow, DelayRow, LinkRow, PoolRow, SocketRow, TlsRow};
pub use diagnosis::{ExplainQuestion, ExplainStep, Explanation, RefusalRow};
pub use exporting::ExportChange;
pub use reports::ReportRow;
pub use samples::{ExportSample, Histogram, OpSample, Sample, SleepingCallRow};
use serde::{Deserialize, Serialize};
pub use state::{
    CopyRow, DelegationRow, GraceHostRow, GraceStatus, LockRow, OpenRow, Released, SessionRow,
};

/// A request of the command line.
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
    /// [`GraceStatus`].
    Grace {
        /// Ends the grace period.
        #[serde(default)]
        end: bool,
    },
    /// [`Reloaded`].
    Reload {
        /// Change nothing: the answer says what would be.
        #[serde(default)]
        dry_run: bool,
    },
    /// [`Reloaded`].
    Export(ExportChange),
    /// A list of [`LockRow`].
    Locks,
    /// A list of [`SessionRow`].
    Sessions,
    /// A list of [`OpenRow`].
    Opens,
    /// A list of [`DelegationRow`].
    Delegations,
    /// [`Released`].
    Release {
        /// A client's address or name, or the path of a file on the server's machine.
        what: String,
    },
    /// [`Explanation`].
    Explain(ExplainQuestion),
    /// A list of [`RefusalRow`], the latest first.
    Why,
    /// The metrics as text, in Prometheus' format.
    Metrics {
        /// In the format of OpenMetrics instead.
        #[serde(default)]
        openmetrics: bool,
    },
    /// The token that lets the web page change settings, as text.
    Token,
    /// [`crate::rates::Watched`]: the figures since the last such request of this connection, none of the first.
    Rates {
        /// Also with connections, which are watched for a quarter of a second.
        #[serde(default)]
        conns: bool,
        /// Rows of each kind, the busiest ones; all if missing.
        #[serde(default)]
        rows: Option<usize>,
    },
    /// [`Sample`].
    Sample {
        /// Also with connections, which are watched for a quarter of a second.
        #[serde(default)]
        conns: bool,
    },
}

/// The version of the answers and of what `--json` prints. Keys may be added to it; one that goes or changes its meaning
/// changes the number.
pub const VERSION: u32 = 1;

/// An answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Answer<T> {
    /// [`VERSION`].
    pub version: u32,
    /// Whether the request was granted.
    pub ok: bool,
    /// The result.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<T>,
    /// Why the request was refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl<T> Answer<T> {
    /// A granted request.
    pub const fn granted(result: T) -> Self {
        Self { version: VERSION, ok: true, result: Some(result), error: None }
    }

    /// A refused request.
    pub const fn refused(error: String) -> Self {
        Self { version: VERSION, ok: false, result: None, error: Some(error) }
    }
}

/// The whole server in one page.
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
    /// What the process has given up that serving does not need; `off` if it has kept it.
    #[serde(default)]
    pub sandbox: String,
    /// The cipher suites whose TLS records the kernel encrypts and decrypts; `off`; `none`, and why; or `no certificate`.
    #[serde(default)]
    pub kernel_tls: String,
    /// Whether the kernel can hold programs of this machine back from directories, so that clients may have delegations of
    /// them.
    #[serde(default)]
    pub directory_delegations: String,
    /// Its state directory.
    pub state_dir: String,
    /// How portmappers know it, for example `registered with rpcbind`.
    pub portmap: String,
    /// Number of exports.
    pub exports: u64,
    /// Open connections.
    pub connections: u64,
    /// How many there may be.
    pub connections_max: u64,
    /// Calls answered since the start.
    pub calls: u64,
    /// Calls per second since the start.
    pub calls_per_s: f64,
    /// Calls per second over the last ten seconds, or since an earlier status request if there was none.
    pub calls_per_s_recent: f64,
    /// Calls answered with a status other than success.
    pub errors: u64,
    /// Calls rejected before they reached a procedure.
    pub rejected: u64,
    /// Bytes received.
    pub bytes_in: u64,
    /// Bytes sent.
    pub bytes_out: u64,
    /// Data bytes that clients read, directory listings included.
    pub bytes_read: u64,
    /// Data bytes that clients wrote.
    pub bytes_written: u64,
    /// Threads of the process.
    pub threads: u64,
    /// Of these, threads of pools, which process calls.
    #[serde(default)]
    pub worker_threads: u64,
    /// Resident memory of the process.
    pub memory_bytes: u64,
    /// The memory limit: of the control group or the address space, or the machine's memory.
    #[serde(default)]
    pub memory_bytes_max: u64,
    /// What calls under way and unread replies may take: the setting `memory`, or less where address space is
    /// limited.
    #[serde(default)]
    pub call_memory_bytes_max: u64,
    /// Open descriptors of the process.
    pub open_files: u64,
    /// The limit of open descriptors.
    pub open_files_max: u64,
    /// Files in the directories `.bowline-open`: clients have them open, and they have no other name.
    #[serde(default)]
    pub unlinked_files: u64,
    /// Socket buffers of all connections.
    #[serde(default)]
    pub tcp_memory: TcpMemory,
    /// Exports with calls that are blocked in their file system now.
    #[serde(default)]
    pub blocked_exports: Vec<BlockedExport>,
    /// Calls of the server to its clients' machines.
    #[serde(default)]
    pub outbound: OutboundStatus,
    /// `ok`, or `degraded` if something that is configured is not served.
    #[serde(default)]
    pub state: String,
    /// Exports that are configured and not served now.
    #[serde(default)]
    pub waiting_exports: Vec<WaitingExport>,
    /// Counters that are not zero.
    pub counters: Vec<Counter>,
    /// Warnings for the operator.
    pub warnings: Vec<String>,
}

/// An export that is configured and not served now; it is served when its directory can be opened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitingExport {
    /// The path that clients mount.
    pub path: String,
    /// The directory with its files.
    pub directory: String,
    /// Why it is not served.
    pub reason: String,
    /// For how long it has been waiting.
    pub waiting_s: u64,
}

/// An export with calls that are blocked in its file system.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockedExport {
    /// The path that clients mount.
    pub path: String,
    /// Calls that are blocked now.
    pub calls: u64,
    /// Further calls that wait because the export's share of the threads is used up.
    pub waiting: u64,
    /// How long the oldest call has been blocked.
    pub oldest_ms: u64,
    /// The oldest call, for example `nfs v3 READ`.
    pub oldest_call: String,
    /// Calls that were answered "try again later" since the start.
    pub refused: u64,
}

/// Calls of the server to its clients' machines: lock callbacks and notifications.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct OutboundStatus {
    /// Calls since the start.
    pub calls: u64,
    /// Calls that were answered.
    pub answered: u64,
    /// Calls that were not, cancelled and dropped ones included.
    pub failed: u64,
    /// Calls dropped because there were too many.
    pub dropped: u64,
    /// Calls that wait for their turn now.
    pub waiting: u64,
    /// Calls that are under way now.
    pub under_way: u64,
    /// Open connections and sockets.
    pub sockets: u64,
    /// Machines that did not answer the last time.
    pub unanswering: u64,
    /// Those that failed most often, at most 64.
    pub unanswering_hosts: Vec<UnansweringHost>,
}

/// A machine that did not answer the last call of the server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnansweringHost {
    /// Its address.
    pub address: String,
    /// Failures in a row.
    pub failures: u64,
    /// The last failure.
    pub last: String,
    /// Calls that wait for it.
    pub waiting: u64,
    /// Time until it is called again.
    pub next_in_ms: u64,
}

/// Memory of socket buffers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct TcpMemory {
    /// What buffers with a configured size hold if all are full.
    pub promised_bytes: u64,
    /// The most that the server configures: the first number of `net.ipv4.tcp_mem`.
    pub promised_bytes_max: u64,
    /// What all TCP sockets of the machine hold now.
    pub machine_bytes: u64,
    /// Above this the kernel slows down all connections; 0 if unknown.
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

/// One export.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExportRow {
    /// The path that clients mount.
    pub path: String,
    /// The directory with its files.
    pub directory: String,
    /// Its number in file handles.
    pub id: u32,
    /// Its UUID, as 32 hexadecimal digits.
    pub uuid: String,
    /// `served`, or `waiting` if it cannot be served now.
    #[serde(default)]
    pub state: String,
    /// Its clients and their options.
    pub rules: Vec<RuleRow>,
    /// Calls for it.
    pub calls: u64,
    /// Calls answered with a status other than success.
    pub errors: u64,
    /// How many of them because its disk or file system failed.
    #[serde(default)]
    pub io_errors: u64,
    /// Data bytes read.
    pub bytes_read: u64,
    /// Data bytes written.
    pub bytes_written: u64,
    /// Calls, MNT included, that it refused since the start, because of the client, its port or its flavour.
    #[serde(default)]
    pub refused: u64,
    /// Why it refused the last one.
    #[serde(default)]
    pub last_refusal: Option<String>,
}

/// One rule of an export.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleRow {
    /// The clients.
    pub clients: String,
    /// Their options, as in exports(5).
    pub options: String,
}

/// One client, by its address.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientRow {
    /// Its address.
    pub address: String,
    /// Its open connections.
    pub connections: u64,
    /// Its connections that were closed, since the start, because it had more than other clients, who needed places.
    pub displaced: u64,
    /// Calls since the server started: on all its connections, closed ones included, and over UDP.
    pub calls: u64,
    /// How many of them came over UDP; forgotten when many other clients call over UDP.
    #[serde(default)]
    pub udp_calls: u64,
    /// Bytes received from it.
    pub bytes_in: u64,
    /// Bytes sent to it.
    pub bytes_out: u64,
    /// The paths that it has mounted, as far as MOUNT calls tell.
    pub mounts: Vec<String>,
    /// Its sessions of version 4.
    #[serde(default)]
    pub sessions: u64,
    /// Files that it has open over version 4, each once for each owner.
    #[serde(default)]
    pub opens: u64,
    /// Its clients of version 4 whose lease is over: what they have is kept until somebody else wants it.
    #[serde(default)]
    pub courtesy: u64,
    /// Whether the callback addresses of its clients of version 4.0 answer: up, down, untried.
    #[serde(default)]
    pub callback: Vec<String>,
    /// Calls, MNT included, that were refused since the start, because of the client, its port, its flavour or
    /// the path.
    #[serde(default)]
    pub refused: u64,
    /// What was refused last, and why.
    #[serde(default)]
    pub last_refusal: Option<String>,
    /// The Kerberos principals that have contexts from there.
    #[serde(default)]
    pub principals: Vec<String>,
    /// The names in the certificates of its connections.
    #[serde(default)]
    pub certificates: Vec<String>,
    /// The addresses of machines that call themselves the same over version 4, seen within the last hour: each takes away
    /// what the other holds, or cannot get in.
    #[serde(default)]
    pub same_name: Vec<String>,
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
    /// Calls answered with a status other than success, by status.
    pub errors: Vec<Counter>,
    /// Median latency.
    pub p50_ns: u64,
    /// 99th percentile of the latency.
    pub p99_ns: u64,
    /// The slowest call.
    pub max_ns: u64,
    /// Bytes of the calls.
    pub bytes_in: u64,
    /// Bytes of the replies.
    pub bytes_out: u64,
    /// How often it ran in a COMPOUND that is counted as another operation: neither in `calls` nor in the latency.
    #[serde(default)]
    pub inside: u64,
    /// How many of those ended with an error.
    #[serde(default)]
    pub inside_failed: u64,
    /// Of COPY: those that were answered and are under way.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub copies: Vec<CopyRow>,
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
    /// When it can be changed: `live` or `at start`.
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
    /// Notes: what limits the value, what it changed.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// What `reload` changed.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Reloaded {
    /// The differences, one line each; empty if nothing changed.
    pub changes: Vec<String>,
    /// The number of exports now.
    pub exports: u64,
    /// Notes, for example about options without effect.
    pub notes: Vec<String>,
}
