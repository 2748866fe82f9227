//! Debian's nfs-ganesha as a peer: NFSv3 over TCP and UDP on a directory of this machine.
//!
//! It insists on a portmapper, so it runs wrapped, with one that only it can see.

use super::process::Placement;
use super::{ScratchDir, ServerError, TestServer, command, isolated, ports, ready};
use std::net::Ipv4Addr;
use std::path::Path;

/// Starts it for `dir`; everyone may do everything, root as root.
///
/// # Errors
/// [`ServerError`].
pub fn start(dir: &Path, place: &Placement) -> Result<TestServer, ServerError> {
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
    let text = configuration(&export, port, mount_port);
    let file = scratch.file("ganesha.conf", &text)?.to_string_lossy().into_owned();
    let pid_file = scratch.path().join("ganesha.pid").to_string_lossy().into_owned();
    let script = "exec ganesha.nfsd -F -L STDERR -f \"$1\" -p \"$2\"";
    let mut process = isolated::start(script, &[&file, &pid_file], place)?;
    let addr = Ipv4Addr::LOCALHOST.into();
    let (nfs, mount) = ((addr, port).into(), (addr, mount_port).into());
    ready::wait("ganesha", &mut process, place, nfs, mount)?;
    Ok(TestServer {
        name: "ganesha".into(),
        addr,
        port,
        mount_port,
        export,
        command: format!("ganesha.nfsd -F -f ganesha.conf   # {}", text.replace('\n', " ")),
        control: None,
        pids: vec![isolated::inner_pid("ganesha", &mut process)?],
        process,
        place: place.clone(),
        _scratch: scratch,
    })
}

/// Only NFSv3, without the lock and quota services, which no load here uses.
fn configuration(export: &str, port: u16, mount_port: u16) -> String {
    format!(
        "NFS_CORE_PARAM {{ Protocols = 3; NFS_Port = {port}; MNT_Port = {mount_port}; \
         Enable_NLM = false; Enable_RQUOTA = false; }}\n\
         EXPORT {{ Export_Id = 1; Path = \"{export}\"; Pseudo = \"/x\"; Access_Type = RW; \
         Squash = No_Root_Squash; Protocols = 3; SecType = sys; FSAL {{ Name = VFS; }} }}\n\
         LOG {{ Default_Log_Level = CRIT; }}\n"
    )
}
