//! Finding an object by the table of names: its path is assembled up to the root and opened
//! component by component. An object that is not at its stored path is searched for.

use crate::errno;
use crate::naming::fid::{fid_of, file_key, inode_in};
use crate::naming::inode_table::InodeTable;
use crate::naming::inode_table::dentry::{Dentry, FileKey};
use crate::naming::table_error::table_error;
use std::io;
use std::ops::ControlFlow;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use sys::open::{How, open_entry, open_listing};
use vfs::{Fid, Result, Status};

/// Directories between an object and the root of its export: more than any path has.
const DEPTH_MAX: usize = 2048;
/// Entries that are checked when an object is not at its stored path.
const SEARCH_MAX: usize = 100_000;
/// Objects that are searched for at a time, each in the next: reached only if as many directories
/// were moved by local programs, each into the next.
const SEARCH_CHAIN_MAX: usize = 16;

/// Finding one object by the table.
pub struct TableWalk<'w> {
    pub table: &'w InodeTable,
    pub root: BorrowedFd<'w>,
    pub root_fid: &'w Fid,
}

/// The objects that are being searched for, each because the one before it may be in it. The stored
/// names need not be a tree: two directories may have contained one another at different times.
#[derive(Clone, Copy)]
pub struct SearchChain<'s> {
    key: FileKey,
    before: Option<&'s Self>,
    count: usize,
}

impl SearchChain<'_> {
    fn has(&self, key: &FileKey) -> bool {
        self.key == *key || self.before.is_some_and(|before| before.has(key))
    }
}

impl TableWalk<'_> {
    /// Opens an object, for which others may be looked for already.
    ///
    /// # Errors
    /// [`Status::Stale`] if it cannot be found; other errors of the kernel.
    pub fn open(&self, fid: &Fid, within: Option<&SearchChain<'_>>) -> Result<OwnedFd> {
        let path = self.path_to_root(fid)?;
        match self.open_path(&path) {
            Ok(fd) if fid_of(fd.as_fd())? == *fid => Ok(fd),
            Ok(_) => self.repair(&path, within),
            Err(e) if matches!(errno::status(&e), Status::NoEnt | Status::NotDir) => {
                self.repair(&path, within)
            }
            Err(e) => Err(errno::from(e)),
        }
    }

    /// Keys and names from the object up to the root, the object's own first, of several names the
    /// newest.
    fn path_to_root(&self, fid: &Fid) -> Result<Vec<(FileKey, Vec<u8>)>> {
        let (root, mut key) = (file_key(self.root_fid)?, file_key(fid)?);
        let mut path = Vec::new();
        while key != root {
            let dentry = self.table.dentries(&key).into_iter().next().ok_or(Status::Stale)?;
            path.push((key, dentry.name));
            if path.len() > DEPTH_MAX {
                return Err(Status::Stale);
            }
            key = dentry.parent;
        }
        Ok(path)
    }

    fn open_path(&self, path: &[(FileKey, Vec<u8>)]) -> io::Result<OwnedFd> {
        let mut at = self.root.try_clone_to_owned()?;
        for (_, name) in path.iter().rev() {
            at = open_entry(at.as_fd(), name, How::Path, false)?;
        }
        Ok(at)
    }

    /// Follows a path that no longer matches: components that have moved are searched for, from the
    /// top on, so that everything below a renamed directory is found by one search. Returns the object
    /// at the end.
    fn repair(
        &self,
        path: &[(FileKey, Vec<u8>)],
        within: Option<&SearchChain<'_>>,
    ) -> Result<OwnedFd> {
        let mut at = self.root.try_clone_to_owned().map_err(errno::from);
        for (key, name) in path.iter().rev() {
            let fid = Fid::new(key.bytes()).ok_or(Status::Stale)?;
            let there = match at {
                Ok(dir) => entry_if(dir.as_fd(), name, &fid)?,
                Err(_) => None,
            };
            at = match there.map_or_else(|| self.search_dentries(key, &fid, within), Ok) {
                // its descendants may have moved
                Err(Status::Stale) => Err(Status::Stale),
                found => Ok(found?),
            };
        }
        at
    }

    /// The object is not under its newest name: tries the others, then searches the directories
    /// where it was. If it is not there either it is removed from the table, so that the next call
    /// with this id is cheap; a look-up that finds it elsewhere adds it again. It is not removed if
    /// it could not be searched for, as without a descriptor or a right.
    fn search_dentries(
        &self,
        key: &FileKey,
        fid: &Fid,
        before: Option<&SearchChain<'_>>,
    ) -> Result<OwnedFd> {
        let count = before.map_or(0, |before| before.count);
        if count >= SEARCH_CHAIN_MAX || before.is_some_and(|before| before.has(key)) {
            return Err(Status::Stale);
        }
        let within = SearchChain { key: *key, before, count: count.saturating_add(1) };
        let mut dirs: Vec<(FileKey, OwnedFd)> = Vec::new();
        let mut unsure = None;
        for dentry in self.table.dentries(key) {
            let dir = match self.dir(&dentry.parent, &within) {
                Ok(dir) => dir,
                Err(Status::Stale | Status::XDev) => continue,
                Err(status) => {
                    unsure = Some(status);
                    continue;
                }
            };
            if let Some(fd) = entry_if(dir.as_fd(), &dentry.name, fid)? {
                self.table.prefer(&dentry, key).map_err(table_error)?;
                return Ok(fd);
            }
            if dirs.iter().all(|(known, _)| *known != dentry.parent) {
                dirs.push((dentry.parent, dir));
            }
        }
        for (parent, dir) in dirs {
            if let Some((name, fd)) = entry_of(dir.as_fd(), fid)? {
                self.table.prefer(&Dentry { parent, name }, key).map_err(table_error)?;
                return Ok(fd);
            }
        }
        if let Some(status) = unsure {
            return Err(status);
        }
        self.table.forget(key).map_err(table_error)?;
        Err(Status::Stale)
    }

    fn dir(&self, key: &FileKey, within: &SearchChain<'_>) -> Result<OwnedFd> {
        let fid = Fid::new(key.bytes()).ok_or(Status::Stale)?;
        if fid == *self.root_fid {
            return self.root.try_clone_to_owned().map_err(errno::from);
        }
        self.open(&fid, Some(within))
    }
}

/// The entry of this name, if it is this object.
fn entry_if(dir: BorrowedFd<'_>, name: &[u8], fid: &Fid) -> Result<Option<OwnedFd>> {
    match open_entry(dir, name, How::Path, false).map_err(errno::from) {
        Ok(fd) => Ok((fid_of(fd.as_fd())? == *fid).then_some(fd)),
        // mounts are not entered
        Err(Status::NoEnt | Status::NotDir | Status::Stale | Status::XDev) => Ok(None),
        Err(status) => Err(status),
    }
}

/// The entry of a directory that is this object: its name, and open as a path.
#[inline(never)] // its room is not to be on the stack of everybody who waits for it
fn entry_of(dir: BorrowedFd<'_>, fid: &Fid) -> Result<Option<(Vec<u8>, OwnedFd)>> {
    let wanted = inode_in(fid);
    let listing = open_listing(dir).map_err(errno::from)?;
    let mut found = Ok(None);
    let mut looked_at = 0;
    let mut room = sys::dirent::Room::default();
    let listed = sys::dirent::list(listing.as_fd(), &mut room, sys::dirent::BATCH, &mut |entry| {
        let name = entry.name.to_bytes();
        let may_be = wanted.is_none_or(|ino| ino == entry.ino) && !matches!(name, b"." | b"..");
        if may_be {
            match entry_if(dir, name, fid) {
                Ok(None) => {}
                Ok(Some(fd)) => {
                    found = Ok(Some((name.to_vec(), fd)));
                    return ControlFlow::Break(());
                }
                Err(status) => found = Err(status),
            }
        }
        looked_at += 1;
        if looked_at < SEARCH_MAX { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    });
    listed.map(drop).map_err(errno::from)?;
    found
}
