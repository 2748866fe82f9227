//! What clients hold on the server: locks, opens and sessions, and the grace period in which they claim them again.

use serde::{Deserialize, Serialize};

/// The grace period after a restart, and who is told of the restart.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct GraceStatus {
    /// Whether only locks of before the restart are granted now.
    pub running: bool,
    /// When it ends at the latest; 0 if there is none.
    pub ends_in_ms: u64,
    /// Who may reclaim.
    pub hosts: Vec<GraceHostRow>,
    /// Machines that are told of the restart.
    pub machines: u64,
    /// Those that have answered.
    pub machines_answered: u64,
    /// Those that did not and are not told any more.
    pub machines_given_up: u64,
    /// The server's state number, which they are told.
    pub state_number: i64,
    /// Reboots of clients since the start.
    pub client_reboots: u64,
    /// Locks that were dropped because of them.
    pub locks_dropped: u64,
    /// Notifications of reboots that were not believed.
    pub notifications_ignored: u64,
    /// Who hears of reboots: `own`, `statd` (rpc.statd of the machine as well) or `off`.
    #[serde(default)]
    pub monitor: String,
    /// Machines that rpc.statd watches.
    #[serde(default)]
    pub watched_by_statd: u64,
}

/// A client that held locks before the restart.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GraceHostRow {
    /// Its address.
    pub address: String,
    /// What it calls itself.
    pub name: String,
    /// What it speaks: `NLM`, `4.0`, or `4.1` for all versions with sessions.
    #[serde(default)]
    pub version: String,
    /// Whether it has reclaimed a lock or an open.
    pub reclaimed: bool,
    /// Whether it has answered that it knows of the restart; a client with sessions, that it is done.
    pub answered: bool,
}

/// A lock, a request that waits for one, or a share reservation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LockRow {
    /// The client's address.
    pub address: String,
    /// What the client calls itself.
    pub client: String,
    /// The process on the client and its owner handle.
    pub owner: String,
    /// The path of the export; empty if it is not served any more.
    pub export: String,
    /// The file on the server's machine, or its number if its path is not known.
    pub file: String,
    /// `lock`, `waiting` or `share`.
    pub kind: String,
    /// `read` or `write`; of a share what is wanted and denied.
    pub mode: String,
    /// The first byte.
    pub start: u64,
    /// The last byte; missing if the range goes to the end of the file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<u64>,
    /// How long the request has been waiting.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting_ms: Option<u64>,
    /// A request is held up by a program on the server's machine, or by a limit.
    #[serde(default)]
    pub blocked_locally: bool,
}

/// A session of NFS version 4.1, or a client of version 4.0, which has none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionRow {
    /// The address that the client made itself known from.
    pub address: String,
    /// What the client calls itself.
    pub client: String,
    /// The session, in hexadecimal; empty for a client of version 4.0.
    pub id: String,
    /// `active`, or `courtesy` if the client's lease is over and nobody has wanted what it has.
    pub state: String,
    /// How long ago the client last renewed its lease, to a second.
    pub silent_ms: u64,
    /// Slots: requests that the client may have in flight.
    pub slots: u64,
    /// Slots that were ever used.
    pub slots_used: u64,
    /// Slots whose request runs now.
    pub slots_running: u64,
    /// The longest request.
    pub request_bytes: u64,
    /// The longest reply.
    pub response_bytes: u64,
    /// Opens of the client, over all its sessions.
    pub opens: u64,
    /// Open owners and lock owners of a client of version 4.0, each of which has one request in flight at most.
    #[serde(default)]
    pub owners: u64,
    /// Whether callbacks reach the client: `up`, `down` or, in version 4.0 before CB_NULL was answered, `untried`.
    #[serde(default)]
    pub callback: String,
}

/// A file that a client has open over NFS version 4.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenRow {
    /// The address that the client made itself known from.
    pub address: String,
    /// What the client calls itself.
    pub client: String,
    /// Who opened the file, within the client.
    pub owner: String,
    /// The path of the export; empty if it is not served any more.
    pub export: String,
    /// The file on the server's machine, or its number if its path is not known.
    pub file: String,
    /// What it is open for: `read`, `write` or `read and write`.
    pub access: String,
    /// What others may not open it for.
    pub deny: String,
}

/// A file that a client of NFS version 4 may take for unchanged, until it is told otherwise.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DelegationRow {
    /// The address that the client made itself known from.
    pub address: String,
    /// What the client calls itself.
    pub client: String,
    /// The path of the export; empty if it is not served any more.
    pub export: String,
    /// The file on the server's machine, or its number if its path is not known.
    pub file: String,
    /// What it is for: `read` or `write`; `directory` for a directory.
    pub kind: String,
    /// How long ago it was granted.
    pub age_ms: u64,
    /// How long ago it was recalled, if it was.
    pub recalled_ms: Option<u64>,
}

/// A COPY of NFS version 4.2 that was answered and is under way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CopyRow {
    /// The address that the client made itself known from.
    pub address: String,
    /// What the client calls itself.
    pub client: String,
    /// The path of the export.
    pub export: String,
    /// The file that is copied, on the server's machine; empty if its path is not known.
    pub source: String,
    /// The file that it is copied to.
    pub target: String,
    /// Bytes copied.
    pub copied: u64,
    /// Bytes to copy.
    pub total: u64,
    /// How long ago it was begun.
    pub age_ms: u64,
}

/// What a release took away.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Released {
    /// Clients that lost everything.
    pub clients: u64,
    /// Files that are not locked any more.
    pub files: u64,
    /// Locks.
    pub locks: u64,
}
