//! MOUNT (RFC 1094, appendix A; RFC 1813 §5) from the client's side.

use crate::client::{Client, Nothing};
use crate::error::{Error, Result};
use crate::handle::Fh;
use crate::message::Target;
use proto::mount::{
    DirPath, HANDLE_V1, Mount1Result, Mount3Result, PROGRAM, decode_dump, decode_exports, procedure,
};

/// One row of `showmount -e`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exported {
    /// The path.
    pub path: Vec<u8>,
    /// The clients that may mount it; empty means all.
    pub groups: Vec<String>,
}

/// One row of `showmount -a`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MountedBy {
    /// The client's name.
    pub host: String,
    /// The path.
    pub path: Vec<u8>,
}

/// The result of MNT of version 3.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mounted {
    /// The handle.
    pub handle: Fh,
    /// Authentication flavours that the server accepts.
    pub flavors: Vec<u32>,
}

const fn target(version: u32, procedure: u32) -> Target {
    Target { program: PROGRAM, version, procedure }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

impl Client {
    /// Whether MOUNT of this version answers.
    ///
    /// # Errors
    /// Any.
    pub fn mount_null(&mut self, version: u32) -> Result<()> {
        let reply = self.call(target(version, procedure::NULL), &Nothing)?;
        reply.decode::<Nothing>("NULL").map(|_| ())
    }

    /// The handle of a path, by version 3.
    ///
    /// # Errors
    /// [`Error::Mount`] if the server refuses.
    pub fn mount(&mut self, path: &[u8]) -> Result<Fh> {
        self.mount_with_flavors(path).map(|mounted| mounted.handle)
    }

    /// The handle of a path and the flavours that the server accepts, by version 3.
    ///
    /// # Errors
    /// [`Error::Mount`] if the server refuses.
    pub fn mount_with_flavors(&mut self, path: &[u8]) -> Result<Mounted> {
        let reply = self.call(target(3, procedure::MNT), &DirPath(path))?;
        match reply.decode::<Mount3Result<'_>>("MNT")? {
            Mount3Result::Ok(mounted) => Ok(Mounted {
                handle: Fh::new(mounted.handle)
                    .ok_or(Error::Unsendable("the server gave a handle over 64 bytes"))?,
                flavors: mounted.flavors.list().to_vec(),
            }),
            Mount3Result::Err(source) => Err(Error::Mount { path: text(path), source }),
        }
    }

    /// The handle of a path, by version 1 or 2, for NFS version 2.
    ///
    /// # Errors
    /// [`Error::MountOld`] if the server refuses.
    pub fn mount_old(&mut self, version: u32, path: &[u8]) -> Result<[u8; HANDLE_V1]> {
        let reply = self.call(target(version, procedure::MNT), &DirPath(path))?;
        match reply.decode::<Mount1Result>("MNT")? {
            Mount1Result::Ok(handle) => Ok(handle),
            Mount1Result::Err(number) => Err(Error::MountOld { path: text(path), number }),
        }
    }

    /// Tells the server that a path is no longer mounted here.
    ///
    /// # Errors
    /// Any; servers do not refuse.
    pub fn unmount(&mut self, path: &[u8]) -> Result<()> {
        let reply = self.call(target(3, procedure::UMNT), &DirPath(path))?;
        reply.decode::<Nothing>("UMNT").map(|_| ())
    }

    /// Tells the server that nothing is mounted here any more.
    ///
    /// # Errors
    /// Any; servers do not refuse.
    pub fn unmount_all(&mut self) -> Result<()> {
        let reply = self.call(target(3, procedure::UMNTALL), &Nothing)?;
        reply.decode::<Nothing>("UMNTALL").map(|_| ())
    }

    /// The exports and their clients.
    ///
    /// # Errors
    /// Any.
    pub fn exports(&mut self) -> Result<Vec<Exported>> {
        let reply = self.call(target(3, procedure::EXPORT), &Nothing)?;
        let rows = reply.decode_with("EXPORT", decode_exports)?;
        let row = |row: proto::mount::ExportRow<'_>| Exported {
            path: row.path.to_vec(),
            groups: row.groups.iter().map(|group| text(group.0)).collect(),
        };
        Ok(rows.into_iter().map(row).collect())
    }

    /// The mounts of all clients.
    ///
    /// # Errors
    /// Any.
    pub fn mounts(&mut self) -> Result<Vec<MountedBy>> {
        let reply = self.call(target(3, procedure::DUMP), &Nothing)?;
        let rows = reply.decode_with("DUMP", decode_dump)?;
        Ok(rows.iter().map(|r| MountedBy { host: text(r.host), path: r.path.to_vec() }).collect())
    }
}
