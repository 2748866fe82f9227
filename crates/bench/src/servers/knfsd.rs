//! The kernel's own NFS server as a peer, where the kernel has it.
//!
//! It runs in a network of its own (nfsd is one per network namespace), so that the machine's own exports,
//! if any, are not touched; with a portmapper and `/var/lib/nfs` that only it can see.

use super::isolated::PortMapper;
use super::process::Placement;
use super::{ScratchDir, ServerError, TestServer, command, isolated, ports, ready};
use std::net::Ipv4Addr;
use std::path::Path;

/// Threads of the server; Debian's default since nfs-utils 2.7.
const THREADS: u16 = 16;
/// The largest READ and WRITE. The kernel's default is less with less than 4 GiB of memory, and a load of 1 MiB would
/// then get short READs, and its WRITEs would end the connection.
const BLOCK_BYTES_MAX: u32 = 1 << 20;
/// The shortest grace period that the kernel accepts.
const GRACE_S: u16 = 10;

/// Ends as `rpc.mountd` in the foreground: `$1` directory, `$2` NFS port, `$3` MOUNT port, `$4` threads, `$5` what leaves
/// version 4 out, or nothing, `$6` bytes of the largest READ and WRITE, `$7` seconds of the grace period, `$8` the `fsid`.
/// The grace period ends at once where the kernel can end it, which it cannot in a network of its own, without a record of
/// clients: then it is waited for.
const SCRIPT: &str = "mount -t tmpfs none /var/lib/nfs
mkdir -p /var/lib/nfs/v4recovery /run/lock
touch /var/lib/nfs/etab /var/lib/nfs/rmtab /var/lib/nfs/xtab
mount -t nfsd nfsd /proc/fs/nfsd
echo $6 >/proc/fs/nfsd/max_block_size
echo $7 >/proc/fs/nfsd/nfsv4gracetime
exportfs -i -o rw,no_root_squash,insecure,no_subtree_check,sync,fsid=$8 \"*:$1\"
trap 'rpc.nfsd 0; exportfs -au' EXIT TERM
rpc.nfsd --port \"$2\" $5 --udp \"$4\"
if [ -z \"$5\" ]; then echo Y >/proc/fs/nfsd/v4_end_grace 2>/dev/null || sleep $(($7 + 1)); fi
rpc.mountd --foreground --port \"$3\" $5 &
wait $!
";

/// Starts it for `dir`, without version 4. `place`, or the calling thread, must be in a private network.
///
/// # Errors
/// [`ServerError::Unable`] without root, without the module, or in the machine's own network.
pub fn start(dir: &Path, place: &Placement) -> Result<TestServer, ServerError> {
    start_with(dir, place, Some("--no-nfs-version 4"))
}

/// The same with version 4, whose root is the directory: the kernel makes no root above it where `/` is an overlay.
///
/// # Errors
/// As [`start`].
pub fn start_with_version4(dir: &Path, place: &Placement) -> Result<TestServer, ServerError> {
    start_with(dir, place, None)
}

/// `without`: what leaves version 4 out.
fn start_with(
    dir: &Path,
    place: &Placement,
    without: Option<&str>,
) -> Result<TestServer, ServerError> {
    isolated::need_root("knfsd")?;
    is_there()?;
    for program in ["rpc.nfsd", "rpc.mountd", "exportfs"] {
        isolated::need(program, "nfs-kernel-server")?;
    }
    isolated::need("rpcbind", "rpcbind")?;
    if !is_private(place)? {
        return Err(ServerError::Unable(
            "knfsd is measured in a private network only: the machine's own exports stay alone"
                .into(),
        ));
    }
    let dir = dir.canonicalize();
    let dir = dir.map_err(|e| ServerError::io("the directory to serve", &e))?;
    let path = dir.to_string_lossy().into_owned();
    let (versions, fsid) = (without.unwrap_or_default(), if without.is_some() { "1" } else { "0" });
    let scratch = ScratchDir::new()?;
    let before = kernel_threads();
    let port = ports::free(place, Some(2049))?;
    let mount_port = command::other(place, port)?;
    let numbers = [port, mount_port, THREADS, GRACE_S].map(|n| n.to_string());
    let [nfs_text, mount_text, threads, grace_s] = &numbers;
    let block_bytes_max = BLOCK_BYTES_MAX.to_string();
    let words =
        [path.as_str(), nfs_text, mount_text, threads, versions, &block_bytes_max, grace_s, fsid];
    let mut process = isolated::start(SCRIPT, &words, PortMapper::Hidden, place)?;
    let addr = Ipv4Addr::LOCALHOST.into();
    let (nfs, mount) = ((addr, port).into(), (addr, mount_port).into());
    ready::wait("knfsd", &mut process, place, nfs, mount)?;
    isolated::inner_pid("knfsd", &mut process)?;
    let pids = kernel_threads().into_iter().filter(|pid| !before.contains(pid)).collect();
    Ok(TestServer {
        name: "knfsd".into(),
        addr,
        port,
        mount_port,
        lock_port: None,
        export: if without.is_some() { path } else { "/".into() },
        command: format!("rpc.nfsd --port {port} {versions} --udp {THREADS}"),
        control: None,
        pids,
        process,
        place: place.clone(),
        _scratch: scratch,
    })
}

/// Whether `place` is in another network than the machine itself.
fn is_private(place: &Placement) -> Result<bool, ServerError> {
    let own = place.run(|| std::fs::read_link("/proc/thread-self/ns/net"))?;
    Ok(own.ok() != std::fs::read_link("/proc/1/ns/net").ok())
}

/// Whether the kernel has a server, loading it if it is a module.
fn is_there() -> Result<(), ServerError> {
    let known = || {
        let list = std::fs::read_to_string("/proc/filesystems").unwrap_or_default();
        list.lines().any(|line| line.split_whitespace().any(|word| word == "nfsd"))
    };
    if !known() {
        let path = format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default());
        let mut modprobe = std::process::Command::new("modprobe");
        let _ = modprobe.args(["--quiet", "nfsd"]).env("PATH", path).output();
    }
    if known() {
        return Ok(());
    }
    Err(ServerError::Unable(
        "this kernel has no NFS server (module nfsd): knfsd cannot be measured here".into(),
    ))
}

/// The kernel's threads called nfsd.
fn kernel_threads() -> Vec<u32> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|pid: &u32| {
        std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name.trim() == "nfsd")
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use crate::servers::{Placement, ScratchDir};

    #[test]
    fn knfsd_without_module_or_namespace_is_unable() {
        let dir = ScratchDir::new().unwrap();
        let error = super::start(dir.path(), &Placement::default()).unwrap_err();
        assert!(matches!(error.outcome(), crate::result::Outcome::Unable(_)), "{error}");
    }
}
