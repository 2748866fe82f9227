//! The calls of version 2.

use super::calls::{DirItem, ObjectKind, SetupCalls, mounted};
use crate::load::call::fh2;
use crate::load::error::LoadError;
use crate::load::plan::Plan;
use client::{Client, Fh};
use proto::nfs2::{FileType2, Sattr2};

/// The most bytes of a call's data.
const DATA_MAX: usize = 8192;

pub(super) struct Calls {
    client: Client,
}

impl Calls {
    pub(super) const fn new(client: Client) -> Self {
        Self { client }
    }
}

fn mount(client: &mut Client, path: &[u8]) -> Result<Fh, client::Error> {
    let handle = client.mount_old(1, path)?;
    Fh::new(&handle).ok_or(client::Error::Unsendable("a handle over 128 bytes"))
}

impl SetupCalls for Calls {
    fn null(&mut self) -> Result<(), client::Error> {
        self.client.null2()
    }

    fn root(&mut self, plan: &Plan) -> Result<Fh, LoadError> {
        mounted(&mut self.client, plan, 1, mount)
    }

    fn list(&mut self, dir: &Fh) -> Result<Vec<DirItem>, LoadError> {
        let dir = fh2(dir);
        let (mut all, mut cookie) = (Vec::new(), 0);
        loop {
            let (entries, eof) = self.client.readdir2(&dir, cookie, 8192)?;
            let stuck = entries.is_empty() && !eof;
            for entry in entries {
                cookie = entry.cookie;
                if entry.name == b"." || entry.name == b".." {
                    continue;
                }
                let found = match self.client.lookup2(&dir, &entry.name) {
                    Ok(found) => found,
                    Err(client::Error::Nfs { .. }) => continue,
                    Err(other) => return Err(other.into()),
                };
                let Some(fh) = Fh::new(&found.file) else { continue };
                let kind = match found.attr.ftype {
                    FileType2::Dir => ObjectKind::Dir,
                    FileType2::Reg => ObjectKind::File,
                    _ => ObjectKind::Other,
                };
                all.push(DirItem { name: entry.name, fh, kind, size: found.attr.size.into() });
            }
            if eof || stuck {
                return Ok(all);
            }
        }
    }

    fn find(&mut self, dir: &Fh, name: &[u8]) -> Result<Fh, client::Error> {
        let found = self.client.lookup2(&fh2(dir), name)?;
        Ok(Fh::new(&found.file).unwrap_or(*dir))
    }

    fn make_dir(&mut self, dir: &Fh, name: &[u8]) -> Result<(), client::Error> {
        let set = Sattr2 { mode: 0o777, ..Sattr2::default() };
        self.client.mkdir2(&fh2(dir), name, set).map(|_| ())
    }

    fn make_file(&mut self, dir: &Fh, name: &[u8]) -> Result<(Fh, u64), client::Error> {
        let dir2 = fh2(dir);
        let set = Sattr2 { mode: 0o666, ..Sattr2::default() };
        self.client.create2(&dir2, name, set)?;
        let found = self.client.lookup2(&dir2, name)?;
        Ok((Fh::new(&found.file).unwrap_or(*dir), found.attr.size.into()))
    }

    fn write_max(&self) -> usize {
        DATA_MAX
    }

    fn write(&mut self, fh: &Fh, offset: u64, data: &[u8]) -> Result<usize, client::Error> {
        let at = u32::try_from(offset).unwrap_or(u32::MAX);
        self.client.write2(&fh2(fh), at, data)?;
        Ok(data.len())
    }

    fn remove(&mut self, dir: &Fh, name: &[u8]) -> Result<(), client::Error> {
        self.client.remove2(&fh2(dir), name)
    }

    fn remove_dir(&mut self, dir: &Fh, name: &[u8]) -> Result<(), client::Error> {
        self.client.rmdir2(&fh2(dir), name)
    }
}
