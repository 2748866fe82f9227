//! The calls of version 3.

use super::calls::{DirItem, ObjectKind, SetupCalls, mounted};
use crate::load::error::LoadError;
use crate::load::plan::{Plan, Proto};
use client::{Client, Fh};
use proto::nfs3::{CreateHow3, FileType3, Sattr3, StableHow, Verf};

/// Bytes of a READDIR reply while the tree is read.
const PIECE: u32 = 32 << 10;
/// Bytes of one WRITE while files are created; the second is a size that every server accepts over UDP as well.
const WRITE_AT_ONCE: (usize, usize) = (256 << 10, 32 << 10);

pub(super) struct Calls {
    client: Client,
    proto: Proto,
}

impl Calls {
    pub(super) const fn new(client: Client, proto: Proto) -> Self {
        Self { client, proto }
    }
}

impl SetupCalls for Calls {
    fn null(&mut self) -> Result<(), client::Error> {
        self.client.null()
    }

    fn root(&mut self, plan: &Plan) -> Result<Fh, LoadError> {
        mounted(&mut self.client, plan, 3, |client, path| client.mount(path))
    }

    fn list(&mut self, dir: &Fh) -> Result<Vec<DirItem>, LoadError> {
        let (mut all, mut cookie, mut verf) = (Vec::new(), 0, Verf::default());
        loop {
            let piece = self.client.readdirplus(dir, cookie, verf, PIECE)?;
            verf = piece.verf;
            let stuck = piece.entries.is_empty() && !piece.eof;
            for entry in piece.entries {
                cookie = entry.cookie;
                if entry.name == b"." || entry.name == b".." {
                    continue;
                }
                let (fh, attr) = match (entry.handle, entry.attr) {
                    (Some(fh), Some(attr)) => (fh, Some(attr)),
                    _ => match self.client.lookup(dir, &entry.name) {
                        Ok(found) => (found.handle, found.attr),
                        // removed meanwhile
                        Err(client::Error::Nfs { .. }) => continue,
                        Err(other) => return Err(other.into()),
                    },
                };
                let kind = match attr.map(|attr| attr.ftype) {
                    Some(FileType3::Dir) => ObjectKind::Dir,
                    Some(FileType3::Reg) => ObjectKind::File,
                    _ => ObjectKind::Other,
                };
                let size = attr.map_or(0, |a| a.size);
                all.push(DirItem { name: entry.name, fh, kind, size });
            }
            if piece.eof || stuck {
                return Ok(all);
            }
        }
    }

    fn find(&mut self, dir: &Fh, name: &[u8]) -> Result<Fh, client::Error> {
        self.client.lookup(dir, name).map(|found| found.handle)
    }

    fn make_dir(&mut self, dir: &Fh, name: &[u8]) -> Result<(), client::Error> {
        let set = Sattr3 { mode: Some(0o777), ..Sattr3::default() };
        self.client.mkdir(dir, name, set).map(|_| ())
    }

    fn make_file(&mut self, dir: &Fh, name: &[u8]) -> Result<(Fh, u64), client::Error> {
        let set = Sattr3 { mode: Some(0o666), ..Sattr3::default() };
        self.client.create(dir, name, CreateHow3::Unchecked(set))?;
        let found = self.client.lookup(dir, name)?;
        Ok((found.handle, found.attr.map_or(0, |attr| attr.size)))
    }

    fn write_max(&self) -> usize {
        if self.proto == Proto::Udp { WRITE_AT_ONCE.1 } else { WRITE_AT_ONCE.0 }
    }

    fn write(&mut self, fh: &Fh, offset: u64, data: &[u8]) -> Result<usize, client::Error> {
        let written = self.client.write(fh, offset, data, StableHow::Unstable)?;
        Ok(written.count as usize)
    }

    fn remove(&mut self, dir: &Fh, name: &[u8]) -> Result<(), client::Error> {
        self.client.remove(dir, name).map(|_| ())
    }

    fn remove_dir(&mut self, dir: &Fh, name: &[u8]) -> Result<(), client::Error> {
        self.client.rmdir(dir, name).map(|_| ())
    }
}
