//! Debian's nfs-ganesha as a peer: NFSv3 over TCP and UDP, or with version 4 besides, on a directory of this machine.
//!
//! It insists on a portmapper, so it runs wrapped, with one that only it can see. Its lock manager grants nothing to a
//! client that no rpc.statd monitors, and asks for that program on port 111 of the loopback.

use super::isolated::PortMapper;
use super::process::Placement;
use super::{ScratchDir, ServerError, TestServer, command, isolated, ports, ready};
use std::net::Ipv4Addr;
use std::path::Path;

/// Which of its services run besides NFS and MOUNT.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Services {
    None,
    /// NLM on this port, without a grace period.
    Locks(u16),
    /// Version 4 with all its minor versions, without a grace period.
    Version4,
}

/// Becomes the server, with a directory of state that only it sees; rpc.statd before it if `$3` is NLM's port, and not
/// empty.
const SCRIPT: &str = "mount -t tmpfs none /var/lib/nfs
mkdir -p /var/lib/nfs/ganesha /var/lib/nfs/sm /var/lib/nfs/sm.bak
if [ -n \"$3\" ]; then
rpc.statd
fi
exec ganesha.nfsd -F -L STDERR -f \"$1\" -p \"$2\"";

/// Starts it for `dir`; everyone may do everything, root as root. Without locks.
///
/// # Errors
/// [`ServerError`].
pub fn start(dir: &Path, place: &Placement) -> Result<TestServer, ServerError> {
    start_with(dir, place, Services::None)
}

/// The same with NLM. `place`, or the calling thread, must be in a private network: port 111 is needed.
///
/// # Errors
/// [`ServerError`].
pub fn start_with_locks(dir: &Path, place: &Placement) -> Result<TestServer, ServerError> {
    isolated::need("rpc.statd", "nfs-common")?;
    start_with(dir, place, Services::Locks(ports::free(place, None)?))
}

/// The same with version 4, where paths are as in version 3.
///
/// # Errors
/// [`ServerError`].
pub fn start_with_version4(dir: &Path, place: &Placement) -> Result<TestServer, ServerError> {
    start_with(dir, place, Services::Version4)
}

fn start_with(
    dir: &Path,
    place: &Placement,
    services: Services,
) -> Result<TestServer, ServerError> {
    isolated::need("ganesha.nfsd", "nfs-ganesha nfs-ganesha-vfs")?;
    isolated::need("rpcbind", "rpcbind")?;
    isolated::need_root("ganesha")?;
    let dir = dir.canonicalize();
    let dir = dir.map_err(|e| ServerError::io("the directory to serve", &e))?;
    let export = dir.to_string_lossy().into_owned();
    if export.contains(['"', '\n', ';', '{', '}']) {
        let why = format!("its configuration cannot name the directory {export}");
        return Err(ServerError::Refused { name: "ganesha".into(), why });
    }
    let scratch = ScratchDir::new()?;
    let port = ports::free(place, None)?;
    let mount_port = command::other(place, port)?;
    let text = configuration(&export, port, mount_port, services);
    let file = scratch.file("ganesha.conf", &text)?.to_string_lossy().into_owned();
    let pid_file = scratch.path().join("ganesha.pid").to_string_lossy().into_owned();
    let (mapper, lock_port) = match services {
        Services::None | Services::Version4 => (PortMapper::Hidden, None),
        Services::Locks(port) => (PortMapper::InNetwork, Some(port)),
    };
    let lock_text = lock_port.map_or_else(String::new, |port| port.to_string());
    let mut process = isolated::start(SCRIPT, &[&file, &pid_file, &lock_text], mapper, place)?;
    let addr = Ipv4Addr::LOCALHOST.into();
    let (nfs, mount) = ((addr, port).into(), (addr, mount_port).into());
    ready::wait("ganesha", &mut process, place, nfs, mount)?;
    Ok(TestServer {
        name: "ganesha".into(),
        addr,
        port,
        mount_port,
        lock_port,
        export,
        command: format!("ganesha.nfsd -F -f ganesha.conf   # {}", text.replace('\n', " ")),
        control: None,
        pids: vec![isolated::inner_pid("ganesha", &mut process)?],
        process,
        place: place.clone(),
        _scratch: scratch,
    })
}

/// NFSv3, and of the other services those that a load uses.
fn configuration(export: &str, port: u16, mount_port: u16, services: Services) -> String {
    const GRACELESS: &str = "NFSv4 { Graceless = true; }\n";
    let no_locks = || "Enable_NLM = false;".to_owned();
    let (protocols, locks, grace) = match services {
        Services::None => ("3", no_locks(), ""),
        Services::Locks(port) => ("3", format!("Enable_NLM = true; NLM_Port = {port};"), GRACELESS),
        Services::Version4 => ("3, 4", no_locks(), GRACELESS),
    };
    format!(
        "NFS_CORE_PARAM {{ Protocols = {protocols}; NFS_Port = {port}; MNT_Port = {mount_port}; \
         {locks} Enable_RQUOTA = false; }}\n{grace}\
         EXPORT {{ Export_Id = 1; Path = \"{export}\"; Pseudo = \"{export}\"; Access_Type = RW; \
         Squash = No_Root_Squash; Protocols = {protocols}; SecType = sys; FSAL {{ Name = VFS; }} }}\n\
         LOG {{ Default_Log_Level = CRIT; }}\n"
    )
}
