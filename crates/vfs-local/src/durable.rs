//! What has to be synced so that a change is on disk before it is answered (`sync` exports).
//!
//! Where a journal has each change of names as a whole (ext3, ext4, xfs), the name of a new object is on
//! disk with the object, and what is known of an object with the directory in which its name has
//! changed: one sync is enough, and a disk is asked to write its cache back once instead of twice.
//!
//! Elsewhere both are synced. btrfs keeps a log for each sync (seen with Linux 6.1, by power cuts): an
//! object that gets another name is written to it anew, as one that only exists, which takes the
//! attributes out again that were synced before; and a symbolic link that was made and moved since
//! the last commit has its old name as well. So there the object is synced after its directories.
//!
//! ext4 without a journal has a new object on disk with all of the file system only (seen in the same
//! way); the server does not go so far for each call.

use crate::errno;
use crate::local::Local;
use crate::made::Place;
use crate::open_files::OpenFile;
use crate::rounds::Extent;
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, BorrowedFd};
use sys::open::{How, open_entry, open_listing, reopen};
use vfs::{Cx, Durability, FileType, Name, Result, Status};

/// The magic number (statfs(2)) of overlayfs.
const OVERLAY: u64 = 0x794c_7630;
/// The magic numbers (statfs(2)) of tmpfs and ramfs.
const MEMORY: [u64; 2] = [0x0102_1994, 0x8584_58f6];
/// That of xfs.
const XFS: u64 = 0x5846_5342;
/// That of ext2, ext3 and ext4.
const EXT: u64 = 0xef53;

/// What has to be synced on a file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Medium {
    /// Nothing: it is memory itself. It does not know `RWF_NOWAIT`, and its reads wait for nothing but
    /// what was swapped out.
    Memory,
    /// A new object, or the directories in which names have changed.
    Journaled,
    /// The directories, and an object with a new name or another one.
    Other,
}

impl Medium {
    /// That of a file system with this magic number, on this device.
    pub fn of(kind: u64, dev: u64) -> Self {
        match kind {
            kind if MEMORY.contains(&kind) => Self::Memory,
            XFS => Self::Journaled,
            EXT if sys::stat::has_journal(dev).unwrap_or(false) => Self::Journaled,
            _ => Self::Other,
        }
    }
}

/// Whether a directory is on overlayfs, as the own files of a container are.
pub fn is_overlay(dir: BorrowedFd<'_>) -> bool {
    sys::stat::figures(dir).is_ok_and(|figures| figures.kind == OVERLAY)
}

/// Whether a directory is on ext3 or ext4 that is known to have no journal.
pub fn lacks_journal(dir: BorrowedFd<'_>) -> bool {
    let figures = sys::stat::figures(dir);
    let device = || Ok(sys::stat::of_fd(dir)?.dev);
    figures.is_ok_and(|figures| figures.kind == EXT)
        && device().and_then(sys::stat::has_journal).is_ok_and(|has| !has)
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
            return self.sync_file(file, fd, Extent::File).map(drop);
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

    /// Puts so much of a file on disk, through a descriptor that its calls share; how much that was.
    /// The caller has said that it may sleep.
    pub(crate) fn sync_file(
        &self,
        file: &OpenFile,
        fd: BorrowedFd<'_>,
        extent: Extent,
    ) -> Result<Extent> {
        let sync = |extent| {
            let (result, done) = match extent {
                Extent::Range(offset, len) => match sys::io::sync_data_range(fd, offset, len) {
                    Err(e) if e.kind() == ErrorKind::Unsupported => {
                        (sys::io::sync_data(fd), Extent::Data)
                    }
                    result => (result, extent),
                },
                Extent::Data => (sys::io::sync_data(fd), extent),
                Extent::File => (sys::io::sync(fd), extent),
            };
            // before the next round begins: who commits in that one must see it
            result.inspect_err(|_| self.verifier.change()).map(|()| done)
        };
        file.rounds().sync(extent, sync).map_err(errno::from)
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

    /// Puts a new object on disk, with its name.
    ///
    /// # Errors
    /// Those of the sync.
    pub fn sync_made(&self, made: &OpenFile) -> Result<()> {
        let Self { local, cx, .. } = self;
        if !local.has_to_sync(cx) {
            return Ok(());
        }
        // other types are on disk with their directory
        if matches!(made.ftype(), FileType::Regular | FileType::Directory) {
            local.sync_object(cx, made)?;
            if local.medium == Medium::Journaled {
                return Ok(());
            }
        }
        self.sync()
    }

    /// Puts a new object on disk that is not to be found any more: somebody may have moved it.
    ///
    /// # Errors
    /// Those of the sync.
    pub fn sync_unseen(&self) -> Result<()> {
        let Self { local, cx, .. } = self;
        if local.medium != Medium::Other || !local.has_to_sync(cx) {
            return self.sync();
        }
        local.may_sleep(cx);
        local.sync_everything()
    }

    /// Puts an object on disk that has got another name here, if its directories alone are not enough. To be
    /// called once they are there.
    ///
    /// # Errors
    /// Those of the sync.
    pub fn sync_named(&self, object: &OpenFile) -> Result<()> {
        let Self { local, cx, .. } = self;
        if local.medium == Medium::Other && local.has_to_sync(cx) {
            local.sync_object(cx, object)?;
        }
        Ok(())
    }

    /// The same for what has been moved to `name`.
    ///
    /// # Errors
    /// Those of the sync.
    pub fn sync_moved(&self, name: Name<'_>) -> Result<()> {
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
            Ok(moved) => self.sync_named(&moved),
            // it has been moved on
            Err(_) => local.sync_everything(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Medium;

    #[test]
    fn an_unknown_file_system_gets_every_sync() {
        for (kind, medium) in [
            (0x9123_683e, Medium::Other),
            (0, Medium::Other),
            // on a device that nobody knows it may have no journal
            (0xef53, Medium::Other),
            (0x5846_5342, Medium::Journaled),
            (0x0102_1994, Medium::Memory),
        ] {
            assert_eq!(Medium::of(kind, u64::MAX), medium, "{kind:x}");
        }
    }
}
