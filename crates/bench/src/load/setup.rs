//! The calls that a file set is made with: one blocking client that speaks the version of the plan.
//!
//! `version2`, `version3` and `version4` have the calls of one version each; what does not depend on it is here.

mod version2;
mod version3;
mod version4;

use super::error::LoadError;
use super::op::Version;
use super::pattern;
use super::plan::{Plan, Proto};
use client::{Client, Fh, Identity};
use std::net::SocketAddr;

/// NFS3ERR_EXIST, NFSERR_EXIST and NFS4ERR_EXIST.
const EXIST: u32 = 17;
/// NFS3ERR_NOENT and those of the other versions.
const NOENT: u32 = 2;

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
trait SetupCalls {
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

/// One blocking client that speaks the version of the plan.
pub(crate) struct SetupClient {
    calls: Box<dyn SetupCalls>,
}

/// A client with a reserved port if the process may have one.
pub(super) fn connect(addr: SocketAddr, plan: &Plan) -> Result<Client, client::Error> {
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

impl SetupClient {
    pub(super) fn connect(plan: &Plan) -> Result<Self, LoadError> {
        let first = plan.servers.first().ok_or_else(|| LoadError::Plan("no server".into()))?;
        let client = connect(*first, plan)?;
        let calls: Box<dyn SetupCalls> = match plan.version {
            Version::V2 => Box::new(version2::Calls::new(client)),
            Version::V3 => Box::new(version3::Calls::new(client, plan.proto)),
            Version::V40 | Version::V41 | Version::V42 => {
                Box::new(version4::Calls::new(client, plan))
            }
        };
        Ok(Self { calls })
    }

    pub(super) fn null(&mut self) -> Result<(), client::Error> {
        self.calls.null()
    }

    /// The root's handle.
    pub(super) fn mount(&mut self, plan: &Plan) -> Result<Fh, LoadError> {
        self.calls.root(plan)
    }

    /// All entries of a directory but `.` and `..`.
    pub(super) fn list(&mut self, dir: &Fh) -> Result<Vec<DirItem>, LoadError> {
        self.calls.list(dir)
    }

    /// The object of a name; `None` if there is none.
    pub(super) fn find(&mut self, dir: &Fh, name: &[u8]) -> Result<Option<Fh>, LoadError> {
        match self.calls.find(dir, name) {
            Err(client::Error::Nfs { number: NOENT, .. }) => Ok(None),
            other => Ok(Some(other?)),
        }
    }

    pub(super) fn make_dir(&mut self, dir: &Fh, name: &[u8]) -> Result<Fh, LoadError> {
        match self.calls.make_dir(dir, name) {
            Ok(()) | Err(client::Error::Nfs { number: EXIST, .. }) => {}
            Err(source @ client::Error::Nfs { .. }) => {
                let name = String::from_utf8_lossy(name).into_owned();
                return Err(LoadError::NotWritable { name, source });
            }
            Err(other) => return Err(other.into()),
        }
        let gone = || {
            let name = String::from_utf8_lossy(name).into_owned();
            LoadError::Nothing(format!("the server made {name} but does not find it"))
        };
        self.find(dir, name)?.ok_or_else(gone)
    }

    /// A file and its size; an existing one is reused.
    pub(super) fn make_file(&mut self, dir: &Fh, name: &[u8]) -> Result<(Fh, u64), LoadError> {
        Ok(self.calls.make_file(dir, name)?)
    }

    /// Writes the known content.
    pub(super) fn fill(&mut self, fh: &Fh, number: u32, size: u64) -> Result<(), LoadError> {
        let at_once = self.calls.write_max();
        let mut data = vec![0; at_once];
        let mut offset = 0;
        while offset < size {
            let left = usize::try_from(size - offset).unwrap_or(at_once).min(at_once);
            let piece = data.get_mut(..left).unwrap_or_default();
            pattern::fill(number, offset, piece);
            let done = self.calls.write(fh, offset, piece)?;
            if done == 0 {
                return Err(LoadError::Nothing("the server writes 0 bytes of a WRITE".into()));
            }
            // a short WRITE may end within a word of the pattern
            offset += (done as u64) & !7;
        }
        Ok(())
    }

    /// Removes everything below a directory.
    pub(super) fn empty(&mut self, dir: &Fh) -> Result<(), LoadError> {
        for entry in self.list(dir)? {
            if entry.kind == ObjectKind::Dir {
                self.empty(&entry.fh)?;
                self.remove_dir(dir, &entry.name)?;
            } else {
                self.calls.remove(dir, &entry.name)?;
            }
        }
        Ok(())
    }

    pub(super) fn remove_dir(&mut self, dir: &Fh, name: &[u8]) -> Result<(), LoadError> {
        Ok(self.calls.remove_dir(dir, name)?)
    }
}

/// The root's handle by MOUNT of a version: from NFS's own port, else from where the port mapper says MOUNT is.
fn mounted(
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
