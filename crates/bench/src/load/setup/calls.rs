//! What the calls of one version are for a file set, and what versions 2 and 3 have in common: MOUNT.

use crate::load::error::LoadError;
use crate::load::plan::{Plan, Proto};
use client::{Client, Fh, Identity};
use std::net::SocketAddr;

/// What an object is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ObjectKind {
    Dir,
    File,
    Other,
}

/// An entry of a directory, whatever the version.
pub(crate) struct DirItem {
    pub name: Vec<u8>,
    pub fh: Fh,
    pub kind: ObjectKind,
    pub size: u64,
}

/// The calls of a version. Names are of one component.
pub(super) trait SetupCalls {
    fn null(&mut self) -> Result<(), client::Error>;

    /// The directory that the plan mounts.
    fn root(&mut self, plan: &Plan) -> Result<Fh, LoadError>;

    /// All entries of a directory but `.` and `..`.
    fn list(&mut self, dir: &Fh) -> Result<Vec<DirItem>, LoadError>;

    /// The object of a name.
    fn find(&mut self, dir: &Fh, name: &[u8]) -> Result<Fh, client::Error>;

    /// Makes a directory in which everybody may do everything.
    fn make_dir(&mut self, dir: &Fh, name: &[u8]) -> Result<(), client::Error>;

    /// A file that everybody may read and write, and its size; an existing one is reused.
    fn make_file(&mut self, dir: &Fh, name: &[u8]) -> Result<(Fh, u64), client::Error>;

    /// The most bytes of a WRITE.
    fn write_max(&self) -> usize;

    /// How many bytes were written.
    fn write(&mut self, fh: &Fh, offset: u64, data: &[u8]) -> Result<usize, client::Error>;

    fn remove(&mut self, dir: &Fh, name: &[u8]) -> Result<(), client::Error>;

    fn remove_dir(&mut self, dir: &Fh, name: &[u8]) -> Result<(), client::Error>;
}

/// A client with a reserved port if the process may have one.
pub(crate) fn connect(addr: SocketAddr, plan: &Plan) -> Result<Client, client::Error> {
    let mut client = match plan.proto {
        Proto::Tcp => match sys::outgoing::connect_reserved(addr) {
            Ok(stream) => Client::over_tcp(stream, plan.timeout)?,
            Err(_) => Client::tcp(addr, plan.timeout)?,
        },
        Proto::Udp => {
            Client::udp_reserved(addr, plan.timeout).or_else(|_| Client::udp(addr, plan.timeout))?
        }
    };
    client.set_identity(Some(Identity::new(plan.uid, plan.uid)));
    Ok(client)
}

/// The root's handle by MOUNT of a version: from NFS's own port, else from where the port mapper says MOUNT is.
pub(super) fn mounted(
    nfs: &mut Client,
    plan: &Plan,
    version: u32,
    mount_on: fn(&mut Client, &[u8]) -> Result<Fh, client::Error>,
) -> Result<Fh, LoadError> {
    let path = plan.export.as_bytes();
    let first = plan.servers.first().copied().unwrap_or_else(|| ([127, 0, 0, 1], 111).into());
    if let Some(port) = plan.mount_port {
        return Ok(mount_on(&mut connect(SocketAddr::new(first.ip(), port), plan)?, path)?);
    }
    match mount_on(nfs, path) {
        Err(client::Error::Rejected(_)) => {}
        other => return Ok(other?),
    }
    let mut portmap = connect(SocketAddr::new(first.ip(), 111), plan).map_err(|error| {
        let what = format!(
            "{first} has no MOUNT on its NFS port, and no port mapper says where it is ({error}); name its port"
        );
        LoadError::Nothing(what)
    })?;
    let protocol = plan.proto.ip_protocol();
    let port = portmap.getport(proto::mount::PROGRAM, version, protocol)?.ok_or_else(|| {
        LoadError::Nothing(format!("the port mapper of {first} knows no MOUNT version {version}"))
    })?;
    Ok(mount_on(&mut connect(SocketAddr::new(first.ip(), port), plan)?, path)?)
}
