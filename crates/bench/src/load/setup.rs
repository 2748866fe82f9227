//! The calls that a file set is made with: one blocking client that speaks the version of the plan.
//!
//! `version2`, `version3` and `version4` have the calls of one version each; what does not depend on it is here.

mod calls;
mod version2;
mod version3;
mod version4;

pub(crate) use calls::{DirItem, ObjectKind, connect};

use super::error::LoadError;
use super::op::Version;
use super::pattern;
use super::plan::Plan;
use super::sec::Protection;
use calls::SetupCalls;
use client::{Client, Fh, Identity};
use std::net::{SocketAddr, TcpStream};

/// NFS3ERR_EXIST, NFSERR_EXIST and NFS4ERR_EXIST.
const EXIST: u32 = 17;
/// NFS3ERR_NOENT and those of the other versions.
const NOENT: u32 = 2;

/// One blocking client that speaks the version of the plan.
pub(crate) struct SetupClient {
    calls: Box<dyn SetupCalls>,
}

/// Connects, inside of TLS if the load is: the export may demand it.
pub(super) fn connect_sealed(addr: SocketAddr, plan: &Plan) -> Result<Client, LoadError> {
    let protection = Protection::of_connection(plan)?;
    if matches!(protection, Protection::None) {
        return Ok(connect(addr, plan)?);
    }
    let failed = |source| LoadError::Connect { client: 0, server: addr, source };
    let stream = sys::outgoing::connect_reserved(addr)
        .or_else(|_| TcpStream::connect_timeout(&addr, plan.timeout))
        .map_err(failed)?;
    let stream = protection.sealed(plan, stream, addr)?;
    let mut client = Client::over_tls(stream, plan.timeout);
    client.set_identity(Some(Identity::new(plan.uid, plan.uid)));
    Ok(client)
}

impl SetupClient {
    pub(super) fn connect(plan: &Plan) -> Result<Self, LoadError> {
        let first = plan.servers.first().ok_or_else(|| LoadError::Plan("no server".into()))?;
        let client = connect_sealed(*first, plan)?;
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
