//! The counters at one moment, of which rates and latencies are made.

use super::{ClientRow, ConnRow, PoolRow, Status};
use crate::rates::ConnActivity;
use serde::{Deserialize, Serialize};

/// All counters at one moment. The difference of two of them gives rates and latencies in between, so that several
/// who ask do not disturb each other.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Sample {
    /// Milliseconds since the server began to serve, when the counters were read.
    pub at_ms: u64,
    /// The whole server.
    pub status: Status,
    /// Procedures that have been called.
    pub ops: Vec<OpSample>,
    /// The exports.
    pub exports: Vec<ExportSample>,
    /// The clients.
    pub clients: Vec<ClientRow>,
    /// The connections that were asked for.
    pub conns: Vec<ConnRow>,
    /// What all connections do; for rates within the server only.
    #[serde(skip)]
    pub activity: Vec<ConnActivity>,
    /// The pools of threads.
    pub pools: Vec<PoolRow>,
    /// Calls that sleep in a file system now or, if connections were watched, did in that time, the longest first.
    #[serde(default)]
    pub sleeping: Vec<SleepingCallRow>,
    /// Lock requests of clients that wait for another's lock.
    #[serde(default)]
    pub lock_requests_waiting: u64,
}

/// A call that sleeps in a file system.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SleepingCallRow {
    /// The call, for example `nfs v3 READ`.
    pub call: String,
    /// The path of the export.
    pub export: String,
    /// The client's address and port, if they are known.
    pub client: Option<String>,
    /// For how long.
    pub age_ms: u64,
    /// Whether it has ended since.
    #[serde(default)]
    pub ended: bool,
    /// The system call that its thread is in, and the file that it is about, for example `pread64 of /srv/a`; none if
    /// the kernel does not tell.
    pub system_call: Option<String>,
}

/// Calls by latency.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Histogram {
    /// Nanoseconds of all calls together.
    pub total_ns: u64,
    /// Number of a bucket, calls in it; empty buckets are left out. Eight buckets for each power of two, from 128 ns
    /// to 137 s.
    pub buckets: Vec<(usize, u64)>,
}

/// One procedure's counters since the start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpSample {
    /// The program's short name.
    pub program: String,
    /// The version.
    pub version: u32,
    /// The procedure's name in its RFC.
    pub procedure: String,
    /// Calls answered.
    pub calls: u64,
    /// Calls answered with a status other than success.
    pub errors: u64,
    /// Bytes of the calls.
    pub bytes_in: u64,
    /// Bytes of the replies.
    pub bytes_out: u64,
    /// How long they took.
    pub latency: Histogram,
}

/// One export's counters since the start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExportSample {
    /// The path that clients mount.
    pub path: String,
    /// Calls for it.
    pub calls: u64,
    /// Calls answered with a status other than success.
    pub errors: u64,
    /// Data bytes read.
    pub bytes_read: u64,
    /// Data bytes written.
    pub bytes_written: u64,
    /// Calls that it refused.
    pub refused: u64,
    /// How long the calls took.
    pub latency: Histogram,
}
