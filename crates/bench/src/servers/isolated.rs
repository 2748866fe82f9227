//! Servers that need an isolated environment: a portmapper to register with, a `/run` of their own.
//!
//! A script runs in new mount and pid namespaces, in the network of the server's place. The process that
//! this one starts is `unshare`; when it dies, the kernel ends the script and all that it started,
//! daemons included. The portmapper is reached through its socket in `/run` and is itself in an empty
//! network, so that port 111 of the server's network stays free, unless the server's own programs ask it there.

use super::ServerError;
use super::process::{Placement, Process};
use std::process::Command;
use std::time::{Duration, Instant};

/// How long the script's first process may take to appear.
const PATIENCE: Duration = Duration::from_secs(10);

/// Where the portmapper listens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PortMapper {
    /// On its socket in `/run` only.
    Hidden,
    /// On port 111 of the server's network as well, which must be a private one.
    InNetwork,
}

impl PortMapper {
    const fn command(self) -> &'static str {
        match self {
            Self::Hidden => "unshare --net rpcbind",
            Self::InNetwork => "rpcbind",
        }
    }
}

/// What every script begins with: a private `/run`; then comes a portmapper.
const PRELUDE: &str = "set -e
mount -t tmpfs none /run
mkdir -p /run/rpcbind /run/ganesha /run/dbus
";

/// Waits for the portmapper.
const WAIT: &str = "
n=0
while [ ! -S /run/rpcbind.sock ]; do
  n=$((n + 1))
  [ $n -lt 500 ] || { echo 'rpcbind does not start' >&2; exit 1; }
  sleep 0.02
done
";

/// Starts `script`, with `words` as its `$1`, `$2` …
pub fn start(
    script: &str,
    words: &[&str],
    mapper: PortMapper,
    place: &Placement,
) -> Result<Process, ServerError> {
    let mut command = Command::new("unshare");
    command.args(["--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c"]);
    let mapper = mapper.command();
    command.arg(format!("{PRELUDE}{mapper}{WAIT}{script}")).arg("sh").args(words);
    let path = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{path}:/usr/sbin:/sbin"));
    Process::start(command, "util-linux", place)
}

/// The script itself, or the program that replaced it by `exec`: the child of `unshare`. It gets the
/// termination signal from now on.
pub fn inner_pid(name: &str, process: &mut Process) -> Result<u32, ServerError> {
    let begun = Instant::now();
    let path = format!("/proc/{0}/task/{0}/children", process.pid());
    loop {
        let children = std::fs::read_to_string(&path).unwrap_or_default();
        if let Some(Ok(pid)) = children.split_whitespace().next().map(str::parse) {
            process.terminate_instead(pid);
            return Ok(pid);
        }
        if !process.is_alive() || begun.elapsed() > PATIENCE {
            return Err(process.did_not_start(name));
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Whether a program is installed; the message of `unshare` would be unclear.
pub fn need(program: &str, package: &str) -> Result<(), ServerError> {
    let path = std::env::var("PATH").unwrap_or_default();
    let all = format!("{path}:/usr/sbin:/sbin:/usr/bin:/bin");
    if all.split(':').any(|dir| std::path::Path::new(dir).join(program).exists()) {
        return Ok(());
    }
    Err(ServerError::NotInstalled { program: program.into(), package: package.into() })
}

/// Whether this process may create namespaces.
pub fn need_root(name: &str) -> Result<(), ServerError> {
    match sys::identity::own() {
        Ok(own) if own.uid == 0 => Ok(()),
        _ => Err(ServerError::Unable(format!("{name} needs root: run this with sudo"))),
    }
}
