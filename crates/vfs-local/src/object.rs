//! How an operation reaches an object: from the cache of open files, or opened by its file id.

use crate::attr::{attr_if_linked, convert, file_type};
use crate::cache::change_counter::ChangeState;
use crate::cache::key::Key;
use crate::cache::ongoing_change::OngoingChange;
use crate::cache::open_file::OpenFile;
use crate::errno;
use crate::fs::LocalFs;
use crate::medium::Medium;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use sys::open::{How, open_parent};
use sys::stat::Stat;
use vfs::{Attr, Change, Cx, Fid, Result, Status};

/// Directories between one and the root of its export: more than any path has.
const DEPTH_MAX: usize = 2048;

impl LocalFs {
    /// The cache's key of an object.
    pub(crate) const fn key(&self, fid: &Fid) -> Key {
        Key { backend: self.backend, fid: *fid }
    }

    /// An object, open, with its attributes: from the cache without a shared write if it is there,
    /// else opened, which may sleep. `work` must not block; it gets the descriptor's owner.
    pub(crate) fn with<T>(
        &self,
        cx: &Cx<'_>,
        fid: &Fid,
        work: impl Fn(&Arc<OpenFile>, Attr) -> Result<T>,
    ) -> Result<T> {
        let key = self.key(fid);
        let cached = self.files.with(&key, |file| {
            let attr = self.stat(file)?;
            work(file, attr)
        });
        let result = cached.unwrap_or_else(|| {
            let file = self.open_object(cx, fid)?;
            let attr = self.stat(&file)?;
            work(&file, attr)
        });
        if matches!(result, Err(Status::Stale)) {
            self.files.remove(&key);
        }
        result
    }

    /// An object to hold on to while the call blocks, with its attributes.
    pub(crate) fn hold(&self, cx: &Cx<'_>, fid: &Fid) -> Result<(Arc<OpenFile>, Attr)> {
        self.with(cx, fid, |file, attr| Ok((Arc::clone(file), attr)))
    }

    /// An object that the call is going to change, held on to, with its attributes before that.
    pub(crate) fn begin_change(&self, cx: &Cx<'_>, fid: &Fid) -> Result<(OngoingChange, Attr)> {
        let key = self.key(fid);
        let file = match self.files.with(&key, Arc::clone) {
            Some(file) => file,
            None => self.open_object(cx, fid)?,
        };
        let changing = OngoingChange::begin(file);
        let before = self.stat(&changing);
        if matches!(before, Err(Status::Stale)) {
            self.files.remove(&key);
        }
        Ok((changing, before?))
    }

    /// A directory to hold on to.
    pub(crate) fn hold_dir(&self, cx: &Cx<'_>, fid: &Fid) -> Result<(Arc<OpenFile>, Attr)> {
        self.with(cx, fid, |file, attr| match attr.ftype {
            vfs::FileType::Directory => Ok((Arc::clone(file), attr)),
            _ => Err(Status::NotDir),
        })
    }

    /// Attributes of an open object that still has a name, but for the time of creation.
    pub(crate) fn stat(&self, file: &OpenFile) -> Result<Attr> {
        let stat = sys::stat::basic_of_fd(file.path()).map_err(errno::from)?;
        // the root may be a mount's or a deleted directory's: it is served as long as it is open
        attr_if_linked(&stat)
    }

    /// Attributes after a change, for weak cache consistency; absent if they cannot be had.
    pub(crate) fn attr_after(&self, file: &OpenFile) -> Option<Attr> {
        sys::stat::basic_of_fd(file.path()).ok().map(|s| convert(&s))
    }

    /// An object around a change, which has just been made.
    pub(crate) fn wcc_data(&self, change: &OngoingChange, before: &Attr) -> Change {
        self.wcc_data_since(change, before, change.since())
    }

    /// An object around what was done since the state of its change counter was this.
    pub(crate) fn wcc_data_since(
        &self,
        file: &OpenFile,
        before: &Attr,
        since: &ChangeState,
    ) -> Change {
        let after = self.attr_after(file);
        let alone = file.changes().unchanged_since(since) && !file.is_retired();
        Change { before: alone.then(|| before.wcc()), after }
    }

    fn open_object(&self, cx: &Cx<'_>, fid: &Fid) -> Result<Arc<OpenFile>> {
        self.will_block(cx);
        self.identity.act_as_server().map_err(errno::from)?;
        let fd = self.open_by_fid(fid)?;
        let stat = sys::stat::of_fd(fd.as_fd()).map_err(errno::from)?;
        let ftype = file_type(stat.mode);
        // a directory that was moved out of the export takes what is below it along
        if ftype == vfs::FileType::Directory && !is_inside(self, fd.as_fd(), &stat)? {
            return Err(Status::Stale);
        }
        Ok(self.files.insert(self.key(fid), OpenFile::new(fd, &stat)))
    }

    /// Out of descriptors, some are closed and it is tried again.
    fn open_by_fid(&self, fid: &Fid) -> Result<OwnedFd> {
        let open = || self.resolver.open(self.root.as_fd(), &self.root_fid, fid);
        self.files.with_descriptors(|status| *status == Status::Jukebox, open)
    }

    /// Puts an object that was just opened into the cache, unless it is there; gives what is.
    pub(crate) fn cache(&self, fid: &Fid, file: OpenFile) -> Arc<OpenFile> {
        let key = self.key(fid);
        let known = self.files.with(&key, Arc::clone);
        known.unwrap_or_else(|| self.files.insert(key, file))
    }

    /// A descriptor for data, opened if there is none yet.
    pub(crate) fn reader<'f>(&self, file: &'f OpenFile, fid: &Fid) -> Result<BorrowedFd<'f>> {
        let open = || self.open_data(fid, file, How::Read);
        file.reader_or(open).map_err(errno::from)
    }

    /// A descriptor for writing, opened if there is none yet.
    pub(crate) fn writer<'f>(&self, file: &'f OpenFile, fid: &Fid) -> Result<BorrowedFd<'f>> {
        let open = || match self.open_data(fid, file, How::Write) {
            // it may be written and not read, by a server that is no more than a user
            Err(e) if errno::status(&e) == Status::Acces => {
                self.open_data(fid, file, How::WriteOnly)
            }
            opened => opened,
        };
        file.writer_or(open).map_err(errno::from)
    }

    pub(crate) fn open_data(&self, fid: &Fid, file: &OpenFile, how: How) -> io::Result<OwnedFd> {
        self.identity.act_as_server()?;
        self.files
            .open_with_retry(|| self.resolver.open_data(self.root.as_fd(), fid, file.path(), how))
    }

    /// Lets other calls be served meanwhile: to be called before every system call that may wait for
    /// a disk. A file system that is memory has none.
    pub(crate) fn will_block(&self, cx: &Cx<'_>) {
        if self.medium != Medium::Memory {
            cx.blocking.will_block();
        }
    }
}

/// Whether a directory is the exported one or below it, as it is now.
///
/// # Errors
/// What the kernel says.
pub fn is_inside(local: &LocalFs, dir: BorrowedFd<'_>, stat: &Stat) -> Result<bool> {
    let id = |stat: &Stat| (stat.dev, stat.ino);
    let mut stat = *stat;
    let mut above: Option<OwnedFd> = None;
    for _ in 0..DEPTH_MAX {
        if id(&stat) == local.root_id {
            return Ok(true);
        }
        let here = above.as_ref().map_or(dir, AsFd::as_fd);
        let up = local.files.open_with_retry(|| open_parent(here)).map_err(errno::from)?;
        let next = sys::stat::of_fd(up.as_fd()).map_err(errno::from)?;
        // the top is its own parent, and a mount's root leads out of the file system
        if id(&next) == id(&stat) || stat.mount_root {
            return Ok(false);
        }
        (stat, above) = (next, Some(up));
    }
    Ok(false)
}
