//! The command line of `bowline bench`.

use crate::completion;
use bench::load::{Pace, Plan, Proto, Sec, Stable, Version, Workload};
use clap::{Args, Subcommand, ValueHint};
use clap_complete::engine::ArgValueCompleter;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

/// NFS's own port.
const NFS_PORT: u16 = 2049;

/// The subcommands.
#[derive(Debug, Subcommand)]
pub enum Bench {
    /// List the experiments
    List {
        /// Print JSON, for programs
        #[arg(long)]
        json: bool,
    },
    /// Run an experiment, or all of them, and write the results
    ///
    /// Each experiment starts the servers that it needs, runs its variants alternately (A B A B), and prints
    /// ratios with their spread. If this machine cannot run one, the result says why.
    Run(RunOptions),
    /// Generate a load on any NFS server and measure the replies
    Load(Box<LoadOptions>),
    /// Run the same loads alternately on Bowline and another server
    Compare(CompareOptions),
    /// Make one HTML page of the results of a run
    Report {
        /// The directory given to `bench run --out`, or a compact file of results
        #[arg(value_name = "DIR|FILE", value_hint = ValueHint::AnyPath)]
        from: PathBuf,
        /// Write the results as one compact JSON file instead of a page
        #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
        compact: Option<PathBuf>,
    },
    /// Make the tree of the walk experiment: 10,841 directories and 161,480 files
    ///
    /// The same scale gives the same tree on every machine. An existing tree is completed. Files have sizes
    /// but no data.
    Mktree(MktreeOptions),
    /// Answer every call with a canned reply, as the lower bound in comparisons
    #[command(hide = true)]
    Canned {
        /// Port on 127.0.0.1
        #[arg(long)]
        port: u16,
        /// Event loops [default: one for each CPU]
        #[arg(long, value_name = "N")]
        loops: Option<NonZeroUsize>,
        /// A directory in memory for the files
        #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
        files: PathBuf,
    },
}

/// `bowline bench mktree`.
#[derive(Debug, Args)]
pub struct MktreeOptions {
    /// An empty or new directory
    #[arg(value_hint = ValueHint::DirPath)]
    pub dir: PathBuf,
    /// Size factor, for example 0.1 or 10
    #[arg(long, value_name = "F", default_value_t = 1.0)]
    pub scale: f64,
    /// Print JSON, for programs
    #[arg(long)]
    pub json: bool,
}

/// `bowline bench run`.
#[derive(Debug, Args)]
pub struct RunOptions {
    /// An experiment's name, or `all`
    #[arg(required = true, value_name = "NAME|all", add = ArgValueCompleter::new(completion::experiments))]
    pub names: Vec<String>,
    /// Fewer and shorter rounds: all experiments in minutes instead of an hour, with more spread
    #[arg(long)]
    pub quick: bool,
    /// Write results and the report here
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, default_value = "bowline-bench")]
    pub out: PathBuf,
}

/// `bowline bench compare`.
#[derive(Debug, Args)]
pub struct CompareOptions {
    /// The other server: `ganesha` (Debian's nfs-ganesha), `knfsd` (the kernel's), or a command that serves
    /// {DIR} on {PORT} in the foreground
    #[arg(long, value_name = "ganesha|knfsd|CMD")]
    pub peer: String,
    /// NFS version that all speak, 3 or later
    #[arg(long, value_name = "3|4.0|4.1|4.2", default_value = "3")]
    pub vers: Version,
    /// Fewer and shorter rounds
    #[arg(long)]
    pub quick: bool,
    /// Rounds [default: 11, with --quick 3]
    #[arg(long)]
    pub rounds: Option<u32>,
    /// Only loads with this text in their names, for example `getattr` or `read 1`; may be repeated
    #[arg(long, value_name = "TEXT")]
    pub only: Vec<String>,
    /// Serve a directory made in this one, on a disk [default: in memory]; with `--only untar`, what it costs that files
    /// and names survive a power cut
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub below: Option<PathBuf>,
    /// More options of Bowline's export, as in bowline-exports(5); the peer keeps its own
    #[arg(long, value_name = "OPTION,...")]
    pub export_options: Option<String>,
    /// Write the table as JSON
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub json: Option<PathBuf>,
}

/// `bowline bench load`.
#[derive(Debug, Args)]
pub struct LoadOptions {
    /// The server; several addresses, separated by commas, are its interfaces
    #[arg(long, value_name = "HOST[:PORT]", required = true, value_delimiter = ',')]
    pub server: Vec<String>,
    /// The export to mount
    #[arg(long, value_name = "PATH", default_value = "/")]
    pub export: String,
    /// null, getattr, access, lookup, readdir, readdirplus, walk, read, write, create, untar, mixed,
    /// lock (LOCK and UNLOCK; in version 3 of NLM 4), open-close (version 4 only), replay
    #[arg(long, value_name = "W", default_value = "getattr")]
    pub workload: String,
    /// For `replay`: the recorded calls, one line each: OPERATION PATH [OFFSET COUNT]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub calls: Option<PathBuf>,
    /// tcp or udp
    #[arg(long, default_value = "tcp")]
    pub proto: Proto,
    /// How calls are protected: sys, krb5, krb5i, krb5p (with the tickets of this user: `kinit`, or
    /// KRB5_CLIENT_KTNAME), tls (the server's certificate is not checked); versions 2 and 3. Files are prepared by
    /// AUTH_SYS
    #[arg(long, value_name = "SEC", default_value = "sys")]
    pub sec: Sec,
    /// The server's name in its principal, nfs/NAME, and its certificate [default: that of --server]
    #[arg(long, value_name = "NAME")]
    pub server_name: Option<String>,
    /// NFS version; since 4.1 each client has a session of as many slots as it has calls in progress, and `null` is
    /// SEQUENCE alone
    #[arg(long, value_name = "2|3|4.0|4.1|4.2", default_value = "3")]
    pub vers: Version,
    /// Simulated clients, each with its own socket and user
    #[arg(long, value_name = "N", default_value_t = 16)]
    pub clients: usize,
    /// Calls in progress for each client
    #[arg(long, value_name = "D", default_value_t = 1)]
    pub depth: usize,
    /// Measured time in seconds
    #[arg(long, value_name = "S", default_value_t = 10.0)]
    pub seconds: f64,
    /// Time before the measurement in seconds
    #[arg(long, value_name = "S", default_value_t = 0.5)]
    pub warmup: f64,
    /// Calls per second of all clients together, even if the server cannot keep up (open loop; latency counts
    /// from the time when a call was due) [default: as fast as the server answers]
    #[arg(long, value_name = "CALLS/S")]
    pub rate: Option<f64>,
    /// Bytes of a READ, a WRITE or a directory listing, for example 4K or 1M
    #[arg(long, default_value = "32K", value_parser = size)]
    pub size: u32,
    /// Files that `read` reads
    #[arg(long, value_name = "N", default_value_t = 8)]
    pub files: usize,
    /// Bytes of each file, read or written
    #[arg(long, value_name = "SIZE", default_value = "4M", value_parser = size)]
    pub file_size: u32,
    /// WRITE with FILE_SYNC instead of UNSTABLE and COMMIT
    #[arg(long)]
    pub sync: bool,
    /// Threads of the generator [default: half of the CPUs, at most 4]
    #[arg(long, value_name = "N")]
    pub threads: Option<usize>,
    /// The port of MOUNT, if it differs from that of NFS and the port mapper does not know it
    #[arg(long, value_name = "N")]
    pub mount_port: Option<u16>,
    /// The port of the lock manager for `lock`, if it differs from that of NFS and the port mapper does not know it
    #[arg(long, value_name = "N")]
    pub lock_port: Option<u16>,
    /// User id of the first client; each further client has the next; 0: all are root
    #[arg(long, default_value_t = 0)]
    pub uid: u32,
    /// Give up if the server does not answer for this long
    #[arg(long, value_name = "S", default_value_t = 10.0)]
    pub timeout: f64,
    /// Retransmit a datagram after this long
    #[arg(long, value_name = "MS", default_value_t = 500)]
    pub retransmit_ms: u64,
    /// Process id of a server on this machine, to measure its CPU time per call, context switches and memory
    #[arg(long, value_name = "PID")]
    pub server_pid: Option<u32>,
    /// Control socket of a Bowline on this machine: the same, and bytes copied and not copied
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub control: Option<PathBuf>,
    /// A second server with the same export: both get the load alternately, three times
    #[arg(long, value_name = "HOST[:PORT]", conflicts_with_all = ["server_pid", "control"])]
    pub vs: Option<String>,
    /// Write the result as JSON; - for standard output
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub json: Option<PathBuf>,
    /// Keep the files of the load for the next one
    #[arg(long)]
    pub keep: bool,
    /// No progress bar
    #[arg(long)]
    pub quiet: bool,
}

/// A size as 4096, 4K or 1M, at most 1 GiB.
fn size(text: &str) -> Result<u32, String> {
    let (digits, shift) = match text.strip_suffix(['K', 'k']) {
        Some(digits) => (digits, 10),
        None => match text.strip_suffix(['M', 'm']) {
            Some(digits) => (digits, 20),
            None => (text, 0),
        },
    };
    let value: Option<u64> = digits.parse().ok();
    let bytes = value.and_then(|v| v.checked_mul(1 << shift)).filter(|v| *v <= 1 << 30);
    let bytes = bytes.and_then(|v| u32::try_from(v).ok());
    bytes.ok_or_else(|| format!("{text}: not a size; as in 4096, 32K, 1M, at most 1024M"))
}

/// The address of `HOST[:PORT]`, `[V6]:PORT` or `V6`.
fn address(text: &str) -> Result<SocketAddr, String> {
    let resolved = if let Ok(address) = text.parse::<SocketAddr>() {
        Some(address)
    } else if let Ok(ip) = text.trim_matches(['[', ']']).parse() {
        Some(SocketAddr::new(ip, NFS_PORT))
    } else {
        let with_port =
            if text.contains(':') { text.to_owned() } else { format!("{text}:{NFS_PORT}") };
        with_port.to_socket_addrs().ok().and_then(|mut all| all.next())
    };
    resolved.ok_or_else(|| format!("--server {text}: no such host, or not HOST[:PORT]"))
}

/// The host of `HOST[:PORT]`, `[V6]:PORT` or `V6`.
fn host(text: &str) -> String {
    if let Ok(address) = text.parse::<SocketAddr>() {
        return address.ip().to_string();
    }
    let text = text.trim_matches(['[', ']']);
    if text.parse::<IpAddr>().is_ok() {
        return text.to_owned();
    }
    text.split_once(':').map_or(text, |(host, _)| host).to_owned()
}

impl LoadOptions {
    /// The load that the options describe, on these servers.
    ///
    /// # Errors
    /// What is wrong with the options.
    pub fn plan(&self, servers: &[String]) -> Result<Plan, String> {
        let name = servers.first().map(|server| host(server)).unwrap_or_default();
        let servers = servers.iter().map(|s| address(s)).collect::<Result<Vec<_>, _>>()?;
        let first = servers.first().copied().ok_or("--server: name one")?;
        let workload = match (self.workload.as_str(), &self.calls) {
            ("replay", Some(calls)) => Workload::Replay(calls.clone()),
            ("replay", None) => return Err("--workload replay needs --calls FILE".into()),
            (_, Some(_)) => return Err("--calls is only for --workload replay".into()),
            (name, None) => name.parse()?,
        };
        let seconds = |name: &str, value: f64| {
            Duration::try_from_secs_f64(value)
                .map_err(|_| format!("--{name} {value}: a number of seconds, 0 or more"))
        };
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        let plan = Plan {
            servers,
            mount_port: self.mount_port,
            lock_port: self.lock_port,
            version: self.vers,
            proto: self.proto,
            sec: self.sec,
            server_name: self.server_name.clone().unwrap_or(name),
            clients: self.clients,
            depth: self.depth,
            threads: self.threads.unwrap_or((cpus / 2).clamp(1, 4)).max(1),
            pace: self.rate.map_or(Pace::Closed, Pace::Open),
            warmup: seconds("warmup", self.warmup)?,
            time: seconds("seconds", self.seconds)?,
            size: if self.vers == Version::V2 { self.size.min(8192) } else { self.size },
            files: self.files,
            file_size: u64::from(self.file_size),
            stable: if self.sync { Stable::FileSync } else { Stable::Unstable },
            timeout: seconds("timeout", self.timeout)?,
            retransmit: Duration::from_millis(self.retransmit_ms),
            uid: self.uid,
            seed: u64::from(std::process::id()),
            ..Plan::new(first, &self.export, workload)
        };
        plan.check().map(|()| plan)
    }
}

#[cfg(test)]
mod tests {
    use super::{address, host, size};

    #[test]
    fn sizes_are_parsed() {
        assert_eq!(size("4096"), Ok(4096));
        assert_eq!(size("32K"), Ok(32 << 10));
        assert_eq!(size("1M"), Ok(1 << 20));
        assert!(size("1G").is_err() && size("x").is_err() && size("99999999M").is_err());
    }

    #[test]
    fn addresses_are_parsed() {
        assert_eq!(address("127.0.0.1").unwrap().port(), 2049);
        assert_eq!(address("127.0.0.1:99").unwrap().port(), 99);
        assert_eq!(address("[::1]:99").unwrap().to_string(), "[::1]:99");
        assert_eq!(address("::1").unwrap().to_string(), "[::1]:2049");
        assert!(address("no.such.host.invalid").is_err());
        for text in ["server.example", "server.example:99", "::1", "[::1]:99", "[::1]"] {
            assert!(["server.example", "::1"].contains(&host(text).as_str()), "{text}");
        }
    }
}
