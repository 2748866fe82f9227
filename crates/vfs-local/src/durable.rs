//! What has to be synced so that a change is on disk before it is answered (`sync` exports).
//!
//! A change of names is on disk with the directories that it changed, and with a file system that
//! journals, what is known of the objects with them. btrfs keeps a log for each sync instead (seen with
//! Linux 6.1, by power cuts): an object that gets another name is written to it anew, as one that only
//! exists, which takes the attributes out again that were synced before; and a symbolic link
//! that was made and moved since the last commit has its old name as well. So the object is
//! synced after its directories, unless the file system is known to need no such thing.

use crate::errno;
use crate::local::Local;
use crate::made::Place;
use crate::open_files::OpenFile;
use std::io;
use std::os::fd::AsFd;
use sys::open::{How, open_entry, open_listing, reopen};
use vfs::{Cx, Durability, FileType, Name, Result, Status};

/// The magic number (statfs(2)) of ext2, ext3 and ext4, and that of xfs.
const JOURNALED: [u64; 2] = [0xef53, 0x5846_5342];
/// Those of tmpfs and ramfs.
const MEMORY: [u64; 2] = [0x0102_1994, 0x8584_58f6];

/// What has to be synced on a file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Medium {
    /// Nothing: it is memory itself. It does not know `RWF_NOWAIT`, and its reads wait for nothing but
    /// what was swapped out.
    Memory,
    /// The directories that have changed.
    Journaled,
    /// An object with another name as well.
    Other,
}

impl Medium {
    /// That of a file system with this magic number.
    pub fn of(kind: u64) -> Self {
        match kind {
            kind if MEMORY.contains(&kind) => Self::Memory,
            kind if JOURNALED.contains(&kind) => Self::Journaled,
            _ => Self::Other,
        }
    }
}

impl Local {
    /// Whether the export promises that changes are on disk before they are answered, and there is a
    /// disk.
    pub(crate) fn has_to_sync(&self, cx: &Cx<'_>) -> bool {
        cx.durability == Durability::Sync && self.medium != Medium::Memory
    }

    /// Puts a directory's entries on disk, if the export promises that.
    pub(crate) fn sync_dir(&self, cx: &Cx<'_>, dir: &OpenFile) -> Result<()> {
        if !self.has_to_sync(cx) {
            return Ok(());
        }
        self.may_sleep(cx);
        let open = || {
            self.actor.be_server()?;
            self.files.opening(|| open_listing(dir.path()))
        };
        match dir.take_listing().map_or_else(open, Ok) {
            Ok(listing) => {
                let result = self.synced(sys::io::sync(listing.as_fd()));
                dir.put_listing(listing);
                result
            }
            // writable but not readable for an ordinary user's server
            Err(e) if errno::status(&e) == Status::Acces => self.sync_everything(),
            Err(e) => Err(errno::from(e)),
        }
    }

    /// Puts an object itself on disk, whatever it is.
    pub(crate) fn sync_object(&self, cx: &Cx<'_>, file: &OpenFile) -> Result<()> {
        self.may_sleep(cx);
        if let Some(fd) = file.writer().or_else(|| file.reader()) {
            return self.synced(sys::io::sync(fd));
        }
        self.actor.be_server().map_err(errno::from)?;
        let open = || match file.ftype() {
            FileType::Regular => reopen(file.path(), How::Read)
                .or_else(|_| reopen(file.path(), How::WriteOnly))
                .map(Some),
            FileType::Directory => open_listing(file.path()).map(Some),
            // there is no descriptor that could be synced
            FileType::Symlink
            | FileType::Block
            | FileType::Char
            | FileType::Fifo
            | FileType::Socket => Ok(None),
        };
        match self.files.opening(open) {
            Ok(Some(fd)) => self.synced(sys::io::sync(fd.as_fd())),
            // or it may be neither read nor written by an ordinary user's server
            Ok(None) | Err(_) => self.sync_everything(),
        }
    }

    /// Puts the whole file system on disk: for objects that no descriptor can sync.
    pub(crate) fn sync_everything(&self) -> Result<()> {
        self.actor.be_server().map_err(errno::from)?;
        self.synced(sys::io::sync_filesystem(self.root.as_fd()))
    }

    /// Passes a sync's result on; a failed one may have lost data that was promised to COMMIT.
    pub(crate) fn synced(&self, result: io::Result<()>) -> Result<()> {
        result.map_err(|e| {
            self.verifier.change();
            errno::from(e)
        })
    }
}

impl Place<'_> {
    /// Puts the directory on disk.
    ///
    /// # Errors
    /// Those of the sync.
    pub fn sync(&self) -> Result<()> {
        self.local.sync_dir(self.cx, &self.file)
    }

    /// Puts an object on disk that has `name` here, where its directories alone are not enough. To be
    /// called once they are there.
    ///
    /// # Errors
    /// Those of the sync.
    pub fn sync_named(&self, name: Name<'_>) -> Result<()> {
        let Self { local, cx, .. } = self;
        if local.medium != Medium::Other || !local.has_to_sync(cx) {
            return Ok(());
        }
        local.actor.be_server().map_err(errno::from)?;
        let open = || open_entry(self.file.path(), name.bytes(), How::Path, false);
        let opened = local.files.opening(open).and_then(|fd| {
            let stat = sys::stat::of_fd(fd.as_fd())?;
            Ok(OpenFile::new(fd, &stat))
        });
        match opened {
            Ok(file) => local.sync_object(cx, &file),
            Err(_) => local.sync_everything(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Medium;

    #[test]
    fn an_unknown_file_system_gets_every_sync() {
        assert_eq!(Medium::of(0x9123_683e), Medium::Other);
        assert_eq!(Medium::of(0), Medium::Other);
        assert_eq!(Medium::of(0xef53), Medium::Journaled);
        assert_eq!(Medium::of(0x0102_1994), Medium::Memory);
    }
}
