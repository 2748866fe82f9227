//! The syncs with which a change is on disk before it is answered (`sync` exports).
//!
//! With a journal that contains each change of names as a whole (ext3, ext4, xfs), the name of a new
//! object is on disk with the object, and the attributes of an object with the directory in which its
//! name has changed: one sync is enough, and the disk flushes its cache once instead of twice.
//!
//! Elsewhere both are synced. btrfs keeps a log for each sync (observed with Linux 6.1, by power
//! cuts): an object that gets another name is logged again, as one that only exists, which drops the
//! attributes that were synced before; and a symbolic link that was created and renamed since the last
//! commit has its old name as well. So there the object is synced after its directories.
//!
//! ext4 without a journal has a new object on disk only after a sync of the whole file system
//! (observed in the same way); the server does not do that for each call.

use crate::cache::group_sync::Extent;
use crate::cache::open_file::OpenFile;
use crate::errno;
use crate::fs::LocalFs;
use crate::medium::Medium;
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, BorrowedFd};
use sys::open::{How, open_listing, reopen};
use vfs::{Cx, Durability, Fid, FileType, Result, Status};

impl LocalFs {
    /// Whether the export guarantees that changes are on disk before they are answered, and there is
    /// a disk.
    pub(crate) fn has_to_sync(&self, cx: &Cx<'_>) -> bool {
        cx.durability == Durability::Sync && self.medium != Medium::Memory
    }

    /// Syncs a directory's entries, if the export guarantees that.
    pub(crate) fn sync_dir(&self, cx: &Cx<'_>, dir: &OpenFile) -> Result<()> {
        if !self.has_to_sync(cx) {
            return Ok(());
        }
        self.will_block(cx)?;
        let open = || {
            self.identity.act_as_server()?;
            self.files.open_with_retry(|| open_listing(dir.path()))
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

    /// Syncs an object itself, of any type.
    pub(crate) fn sync_object(&self, cx: &Cx<'_>, file: &OpenFile) -> Result<()> {
        self.will_block(cx)?;
        if let Some(fd) = file.writer().or_else(|| file.reader()) {
            return self.sync_file(file, fd, Extent::File).map(drop);
        }
        self.identity.act_as_server().map_err(errno::from)?;
        let open = || match file.ftype() {
            FileType::Regular => reopen(file.path(), How::Read)
                .or_else(|_| reopen(file.path(), How::WriteOnly))
                .map(Some),
            FileType::Directory => open_listing(file.path()).map(Some),
            // no descriptor can be synced
            FileType::Symlink
            | FileType::Block
            | FileType::Char
            | FileType::Fifo
            | FileType::Socket => Ok(None),
        };
        match self.files.open_with_retry(open) {
            Ok(Some(fd)) => self.synced(sys::io::sync(fd.as_fd())),
            // or it is neither readable nor writable for an unprivileged server
            Ok(None) | Err(_) => self.sync_everything(),
        }
    }

    /// The same of an object that may be a file with a lease against everybody, which opening it again would break.
    pub(crate) fn sync_leased(&self, cx: &Cx<'_>, fid: &Fid, object: &OpenFile) -> Result<()> {
        match self.files.leases.sole_open_file(&self.key(fid)).map_err(errno::from)? {
            Some(fd) => {
                self.will_block(cx)?;
                self.synced(sys::io::sync(fd.as_fd()))
            }
            None => self.sync_object(cx, object),
        }
    }

    /// Syncs an extent of a file, through a descriptor that its calls share; returns the extent
    /// synced. The caller has announced that it may block.
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
            // before the next sync starts: a COMMIT in that one must see it
            result.inspect_err(|_| self.verifier.change()).map(|()| done)
        };
        file.group_sync().sync(extent, sync).map_err(errno::from)
    }

    /// Syncs the whole file system: for objects that no descriptor can sync.
    pub(crate) fn sync_everything(&self) -> Result<()> {
        self.identity.act_as_server().map_err(errno::from)?;
        self.synced(sys::io::sync_filesystem(self.root.as_fd()))
    }

    /// Returns a sync's result; a failed one may have lost data that COMMIT would have to report.
    pub(crate) fn synced(&self, result: io::Result<()>) -> Result<()> {
        result.map_err(|e| {
            self.verifier.change();
            errno::from(e)
        })
    }
}
