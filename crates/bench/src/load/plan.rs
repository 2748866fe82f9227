//! What load is to be made: everything that a person can choose, as types that cannot be wrong.

use super::op::Version;
use super::sec::Sec;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

/// The most calls that one client may have under way: an xid keeps this many apart.
pub const DEPTH_MAX: usize = 1 << SLOT_BITS;
/// Bits of an xid that say which of its client's calls it is.
pub(crate) const SLOT_BITS: u32 = 12;
/// The most simulated clients: each has a socket.
pub const CLIENTS_MAX: usize = 60_000;

/// How calls travel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Proto {
    /// A connection for each client.
    Tcp,
    /// A socket for each client.
    Udp,
}

impl FromStr for Proto {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "tcp" => Ok(Self::Tcp),
            "udp" => Ok(Self::Udp),
            _ => Err(format!("{text}: not a transport; one of tcp, udp")),
        }
    }
}

impl Proto {
    /// As on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
        }
    }

    /// Its number in IP, by which port mappers know it.
    pub(crate) const fn ip_protocol(self) -> u32 {
        match self {
            Self::Tcp => 6,
            Self::Udp => 17,
        }
    }
}

/// What the clients do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Workload {
    /// The NULL procedure; since version 4.1 SEQUENCE alone.
    Null,
    /// Gets attributes of random files.
    Getattr,
    /// Checks permissions of random files.
    Access,
    /// Looks up random names.
    Lookup,
    /// Lists whole directories.
    Readdir,
    /// The same with attributes and handles.
    Readdirplus,
    /// Walks a tree as rsync does from an old client.
    Walk,
    /// Reads files at random offsets.
    Read,
    /// Each client writes its own file sequentially, repeatedly.
    Write,
    /// Creates and removes files.
    Create,
    /// Unpacks small files, each call of it stable.
    Untar,
    /// The mix of calls of an office file server.
    Mixed,
    /// Locks and unlocks byte ranges, in version 3 by NLM.
    Lock,
    /// Opens and closes existing files; version 4 only.
    OpenClose,
    /// Replays a recorded list of calls.
    Replay(PathBuf),
}

impl Workload {
    /// The names, as on the command line.
    pub const NAMES: [&'static str; 15] = [
        "null",
        "getattr",
        "access",
        "lookup",
        "readdir",
        "readdirplus",
        "walk",
        "read",
        "write",
        "create",
        "untar",
        "mixed",
        "lock",
        "open-close",
        "replay",
    ];

    /// The name.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Getattr => "getattr",
            Self::Access => "access",
            Self::Lookup => "lookup",
            Self::Readdir => "readdir",
            Self::Readdirplus => "readdirplus",
            Self::Walk => "walk",
            Self::Read => "read",
            Self::Write => "write",
            Self::Create => "create",
            Self::Untar => "untar",
            Self::Mixed => "mixed",
            Self::Lock => "lock",
            Self::OpenClose => "open-close",
            Self::Replay(_) => "replay",
        }
    }

    /// Whether the version has what it takes.
    pub const fn fits(&self, version: Version) -> bool {
        match version {
            Version::V40 | Version::V41 | Version::V42 => true,
            Version::V3 => !matches!(self, Self::OpenClose),
            Version::V2 => !matches!(
                self,
                Self::Access
                    | Self::Readdirplus
                    | Self::Walk
                    | Self::Untar
                    | Self::Mixed
                    | Self::Lock
                    | Self::OpenClose
            ),
        }
    }

    /// Whether it changes files.
    pub const fn writes(&self) -> bool {
        matches!(self, Self::Write | Self::Create | Self::Untar | Self::Mixed)
    }
}

impl FromStr for Workload {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Ok(match text {
            "null" => Self::Null,
            "getattr" => Self::Getattr,
            "access" => Self::Access,
            "lookup" => Self::Lookup,
            "readdir" => Self::Readdir,
            "readdirplus" => Self::Readdirplus,
            "walk" => Self::Walk,
            "read" => Self::Read,
            "write" => Self::Write,
            "create" => Self::Create,
            "untar" => Self::Untar,
            "mixed" => Self::Mixed,
            "lock" => Self::Lock,
            "open-close" => Self::OpenClose,
            _ => {
                let known = Self::NAMES.join(", ");
                return Err(format!("{text}: not a workload; one of {known}"));
            }
        })
    }
}

/// When a call is sent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Pace {
    /// When its slot is free: as fast as the server answers.
    Closed,
    /// At this many calls a second over all clients, whether the server keeps up or not. A call's
    /// time counts from the moment at which it was due, so that a server that stalls is charged for
    /// the calls that had to wait (coordinated omission).
    Open(f64),
}

/// How stable a WRITE must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stable {
    /// UNSTABLE, and a COMMIT at the end of each file.
    Unstable,
    /// FILE_SYNC.
    FileSync,
}

/// A load.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Addresses of the server; clients are spread over them evenly.
    pub servers: Vec<SocketAddr>,
    /// The port of MOUNT; `None`: NFS's own, else what the port mapper says.
    pub mount_port: Option<u16>,
    /// The port of the lock manager; `None`: NFS's own, else what the port mapper says.
    pub lock_port: Option<u16>,
    /// What is mounted.
    pub export: String,
    /// Version.
    pub version: Version,
    /// Transport.
    pub proto: Proto,
    /// How calls are protected.
    pub sec: Sec,
    /// The server's name in its principal and its certificate.
    pub server_name: String,
    /// What the clients do.
    pub workload: Workload,
    /// Simulated clients, each with a socket and an identity of its own.
    pub clients: usize,
    /// Calls that each client has under way.
    pub depth: usize,
    /// Threads that the clients share.
    pub threads: usize,
    /// Closed or open.
    pub pace: Pace,
    /// Run without counting, first.
    pub warmup: Duration,
    /// How long is counted.
    pub time: Duration,
    /// Bytes of a READ, a WRITE, or a piece of a directory.
    pub size: u32,
    /// The most bytes of a fragment of record marking; 0: each record is one.
    pub fragment: u32,
    /// Added to the offset of every READ, to read from where no page begins.
    pub shift: u64,
    /// Files that `read` works on.
    pub files: usize,
    /// Bytes of each of them.
    pub file_size: u64,
    /// How often `write` goes through its file before the load ends; `None`: until the time is over.
    pub passes: Option<u32>,
    /// How safe a WRITE must be.
    pub stable: Stable,
    /// A server that answers nothing for this long is given up.
    pub timeout: Duration,
    /// A datagram is sent again after this long; twice as long for each time more.
    pub retransmit: Duration,
    /// The user id of the first client; each client has the next, unless it is 0: then all are root.
    pub uid: u32,
    /// Clients take ports below 1024, as exports marked `secure` want it. `None`: if the process may
    /// and there are enough of them.
    pub reserved_ports: Option<bool>,
    /// For the choices that are made at random.
    pub seed: u64,
    /// CPUs that the threads are bound to; empty: any.
    pub cpus: Vec<usize>,
}

/// Files that `read` works on, unless told otherwise.
pub(crate) const FILES: usize = 8;
/// Bytes of each file, read or written, unless told otherwise.
pub(crate) const FILE_BYTES: usize = 4 << 20;

impl Plan {
    /// A load of one client at depth 1 for a second, to be changed as wanted.
    pub fn new(server: SocketAddr, export: &str, workload: Workload) -> Self {
        Self {
            servers: vec![server],
            mount_port: None,
            lock_port: None,
            export: export.to_owned(),
            version: Version::V3,
            proto: Proto::Tcp,
            sec: Sec::Sys,
            server_name: server.ip().to_string(),
            workload,
            clients: 1,
            depth: 1,
            threads: 1,
            pace: Pace::Closed,
            warmup: Duration::from_millis(200),
            time: Duration::from_secs(1),
            size: 32 << 10,
            fragment: 0,
            shift: 0,
            files: FILES,
            file_size: FILE_BYTES as u64,
            passes: None,
            stable: Stable::Unstable,
            timeout: Duration::from_secs(10),
            retransmit: Duration::from_millis(500),
            uid: 0,
            reserved_ports: None,
            seed: 1,
            cpus: Vec::new(),
        }
    }

    /// # Errors
    /// What does not go together, in a line that says what to change.
    pub fn check(&self) -> Result<(), String> {
        if self.servers.is_empty() {
            return Err("no server: name one".into());
        }
        if self.clients == 0 || self.clients > CLIENTS_MAX {
            return Err(format!("{} clients: 1 to {CLIENTS_MAX}", self.clients));
        }
        if self.depth == 0 || self.depth > DEPTH_MAX {
            return Err(format!("a depth of {}: 1 to {DEPTH_MAX}", self.depth));
        }
        if !self.workload.fits(self.version) {
            let (name, version) = (self.workload.name(), self.version.name());
            let needed = if self.workload == Workload::OpenClose { 4 } else { 3 };
            return Err(format!(
                "workload {name} needs NFS version {needed}: version {version} lacks its calls"
            ));
        }
        if self.version.opens() && self.proto == Proto::Udp {
            let version = self.version.name();
            return Err(format!("NFS version {version} is not spoken over udp: take tcp"));
        }
        let most = match (self.version, self.proto) {
            (Version::V2, _) => 8192,
            (_, Proto::Udp) => 60 << 10,
            (Version::V3, Proto::Tcp) => 4 << 20,
            // what the session is asked for
            (Version::V40 | Version::V41 | Version::V42, Proto::Tcp) => 1 << 20,
        };
        if self.size == 0 || self.size > most {
            return Err(format!("a size of {} bytes: 1 to {most} here", self.size));
        }
        if let Pace::Open(rate) = self.pace
            && !(rate.is_finite() && rate > 0.0)
        {
            return Err(format!("a rate of {rate} calls/s: more than 0"));
        }
        self.sec.check(self)
    }
}

#[cfg(test)]
mod tests {
    use super::{Plan, Proto, Workload};
    use crate::load::op::Version;

    #[test]
    fn every_name_but_replay_is_a_workload() {
        for name in Workload::NAMES {
            match name.parse::<Workload>() {
                Ok(workload) => assert_eq!(workload.name(), name),
                Err(_) => assert_eq!(name, "replay"),
            }
        }
    }

    #[test]
    fn conflicting_options_are_refused() {
        let good = Plan::new("127.0.0.1:2049".parse().unwrap(), "/x", Workload::Read);
        assert_eq!(good.check(), Ok(()));
        let bad = |change: fn(&mut Plan)| {
            let mut plan = good.clone();
            change(&mut plan);
            plan.check().unwrap_err()
        };
        assert!(bad(|p| p.clients = 0).contains("clients"));
        assert!(bad(|p| p.depth = 5000).contains("depth"));
        assert!(bad(|p| (p.proto, p.size) = (Proto::Udp, 1 << 20)).contains("61440"));
        assert!(bad(|p| (p.version, p.proto) = (Version::V41, Proto::Udp)).contains("udp"));
        assert!(bad(|p| p.workload = Workload::OpenClose).contains("needs NFS version 4"));
    }

    #[test]
    fn version_2_lacks_access() {
        assert!(!Workload::Access.fits(Version::V2));
        assert!(Workload::Read.fits(Version::V2));
    }
}
