//! How an operation reaches an object: from the cache of open files, or opened by its file id.

use crate::attr::{convert, file_type};
use crate::cache::attr_cache::{AttrCopy, AttrTable, CopyNumber, MaxAge};
use crate::cache::change_attr::{ChangeSource, counted, ctime_ns};
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
use vfs::{Attr, Change, Cx, Fid, Result, Status, Time};

/// Directories between one and the root of its export: more than any path has.
const DEPTH_MAX: usize = 2048;

impl LocalFs {
    /// The cache's key of an object.
    pub(crate) const fn key(&self, fid: &Fid) -> Key {
        Key { backend: self.backend, fid: *fid }
    }

    /// Its key if it can be queried without blocking; else one that is not in the cache, so that the call takes the
    /// path of an object that is not open, and announces that it may block.
    pub(crate) const fn warm_key(&self, fid: &Fid) -> Key {
        Key { backend: self.warm_backend, fid: *fid }
    }

    /// An object, open, with its attributes: from the cache without a shared write if it is there,
    /// else opened, which may sleep. `work` must not block; it gets the descriptor's owner.
    pub(crate) fn with<T>(
        &self,
        cx: &Cx<'_>,
        fid: &Fid,
        work: impl Fn(&Arc<OpenFile>, Attr) -> Result<T>,
    ) -> Result<T> {
        self.with_attr(cx, fid, |file| self.stat(file), work)
    }

    /// The same, with attributes that may be as old as the caller's export allows.
    #[inline]
    pub(crate) fn with_recent<T>(
        &self,
        cx: &Cx<'_>,
        fid: &Fid,
        work: impl Fn(&Arc<OpenFile>, Attr) -> Result<T>,
    ) -> Result<T> {
        if cx.attr_cache_ms == 0 {
            return self.with(cx, fid, work);
        }
        self.with_copied(cx, fid, work)
    }

    /// Apart from the way without copies, which it would make longer.
    #[inline(never)]
    fn with_copied<T>(
        &self,
        cx: &Cx<'_>,
        fid: &Fid,
        work: impl Fn(&Arc<OpenFile>, Attr) -> Result<T>,
    ) -> Result<T> {
        self.with_attr(cx, fid, |file| self.recent(cx, file).map(|(attr, _)| attr), work)
    }

    #[inline(always)]
    fn with_attr<T>(
        &self,
        cx: &Cx<'_>,
        fid: &Fid,
        attr: impl Fn(&OpenFile) -> Result<Attr>,
        work: impl Fn(&Arc<OpenFile>, Attr) -> Result<T>,
    ) -> Result<T> {
        let cached = self.files.with(&self.warm_key(fid), |file| {
            let attr = attr(file)?;
            work(file, attr)
        });
        let result = cached.unwrap_or_else(|| {
            let file = self.open_object(cx, fid)?;
            let attr = attr(&file)?;
            work(&file, attr)
        });
        if matches!(result, Err(Status::Stale)) {
            self.files.remove(&self.key(fid));
        }
        result
    }

    /// An object to keep open while the call blocks, with its attributes.
    pub(crate) fn hold(&self, cx: &Cx<'_>, fid: &Fid) -> Result<(Arc<OpenFile>, Attr)> {
        self.with(cx, fid, |file, attr| Ok((Arc::clone(file), attr)))
    }

    /// An object that the call is going to change, kept open, with its attributes before that.
    #[inline]
    pub(crate) fn begin_change(&self, cx: &Cx<'_>, fid: &Fid) -> Result<(OngoingChange<'_>, Attr)> {
        let changing = OngoingChange::begin(self.opened(cx, fid)?, &self.files.attrs);
        let before = self.stat_before(&changing);
        if matches!(before, Err(Status::Stale)) {
            self.files.remove(&self.key(fid));
        }
        Ok((changing, before?))
    }

    /// An object to keep open, the state of its change counter, and its attributes after that: whoever begins a change
    /// in between is seen.
    pub(crate) fn watch(
        &self,
        cx: &Cx<'_>,
        fid: &Fid,
    ) -> Result<(Arc<OpenFile>, ChangeState, Attr)> {
        let file = self.opened(cx, fid)?;
        let since = file.changes().now();
        let before = self.stat(&file);
        if matches!(before, Err(Status::Stale)) {
            self.files.remove(&self.key(fid));
        }
        Ok((file, since, before?))
    }

    /// An object, from the cache or opened.
    #[inline]
    fn opened(&self, cx: &Cx<'_>, fid: &Fid) -> Result<Arc<OpenFile>> {
        match self.files.with(&self.warm_key(fid), Arc::clone) {
            Some(file) => Ok(file),
            None => self.open_object(cx, fid),
        }
    }

    /// Attributes before a change that has begun.
    fn stat_before(&self, change: &OngoingChange<'_>) -> Result<Attr> {
        let stat = sys::stat::basic_of_fd(change.path()).map_err(errno::from)?;
        check_alive(&stat, change)?;
        let before = || change.changes().count().wrapping_sub(1);
        Ok(convert(&stat, self.change_attr(&stat, before)))
    }

    /// A directory to keep open, with attributes that may be as old as the caller's export allows.
    pub(crate) fn hold_dir(&self, cx: &Cx<'_>, fid: &Fid) -> Result<(Arc<OpenFile>, Attr)> {
        self.with_recent(cx, fid, |file, attr| match attr.ftype {
            vfs::FileType::Directory => Ok((Arc::clone(file), attr)),
            _ => Err(Status::NotDir),
        })
    }

    /// Attributes of an open object that still has a name or is kept, but for the time of creation.
    pub(crate) fn stat(&self, file: &OpenFile) -> Result<Attr> {
        if let Some(copies) = self.files.attrs.in_use() {
            return self.stat_beside(copies, file);
        }
        let stat = sys::stat::basic_of_fd(file.path()).map_err(errno::from)?;
        self.attr_if_alive(&stat, file)
    }

    /// The same where there are copies, which must not say something older.
    #[inline(never)]
    fn stat_beside(&self, copies: &AttrTable, file: &OpenFile) -> Result<Attr> {
        let stat = sys::stat::basic_of_fd(file.path()).map_err(errno::from)?;
        copies.invalidate_if_changed(&file.visible_stat(&stat));
        self.attr_if_alive(&stat, file)
    }

    /// The same, which may be as old as the caller's export allows; and the number of the copy that there is of them.
    #[inline(always)]
    pub(crate) fn recent(
        &self,
        cx: &Cx<'_>,
        file: &OpenFile,
    ) -> Result<(Attr, Option<CopyNumber>)> {
        if cx.attr_cache_ms == 0 {
            return Ok((self.stat(file)?, None));
        }
        self.copied(file, MaxAge::now(cx.attr_cache_ms))
    }

    /// Attributes of an open object by the copy that there is, or as they are now and copied.
    #[inline(never)]
    pub(crate) fn copied(
        &self,
        file: &OpenFile,
        age: MaxAge,
    ) -> Result<(Attr, Option<CopyNumber>)> {
        let copies = self.files.attrs.table();
        if let Some(copy) = copies.find_born(file.id(), file.birth(), age) {
            copies.count(1, 0);
            return Ok((self.attr_of_copy(&copy, || file.changes().count()), Some(copy.number)));
        }
        let fill = copies.begin_fill(file.id(), age);
        let stat = sys::stat::basic_of_fd(file.path()).map_err(errno::from)?;
        copies.count(0, 1);
        let stat = Stat { btime: file.birth(), ..stat };
        let number = fill.store(&file.visible_stat(&stat), self.is_settled(&stat), None);
        Ok((self.attr_if_alive(&stat, file)?, number))
    }

    /// Attributes by a copy; `count` is that of the object's changes.
    #[inline]
    pub(crate) fn attr_of_copy(&self, copy: &AttrCopy, count: impl FnOnce() -> u64) -> Attr {
        let (sec, nsec) = copy.stat.ctime;
        let change = match self.change_source {
            ChangeSource::Ctime => ctime_ns(Time { sec, nsec }),
            ChangeSource::CountedCtime => counted(Time { sec, nsec }, count(), copy.settled),
        };
        convert(&copy.stat, change)
    }

    /// The number of an object's changes, if it is open in the cache.
    pub(crate) fn change_count(&self, fid: &Fid) -> u64 {
        self.files.with(&self.key(fid), |file| file.changes().count()).unwrap_or(0)
    }

    /// Whether a copy of attributes that were read now may say that its ctime is settled.
    pub(crate) fn is_settled(&self, stat: &Stat) -> bool {
        let (sec, nsec) = stat.ctime;
        self.change_source == ChangeSource::CountedCtime
            && self.files.is_settled(Time { sec, nsec })
    }

    /// Attributes of an open object that must still have a name, or be kept: a removed object is stale although
    /// a descriptor of ours may hold it.
    ///
    /// # Errors
    /// [`Status::Stale`].
    pub(crate) fn attr_if_alive(&self, stat: &Stat, file: &OpenFile) -> Result<Attr> {
        check_alive(stat, file)?;
        Ok(self.attr_of(stat, file))
    }

    /// Attributes of an open object. In each caller, so that they are made where they are wanted: a copy of them is what
    /// making them costs.
    #[inline(always)]
    pub(crate) fn attr_of(&self, stat: &Stat, file: &OpenFile) -> Attr {
        let mut attr = self.attr_with_all_links(stat, file);
        attr.nlink = file.visible_links(stat.nlink);
        attr
    }

    /// The same with links that clients do not see.
    #[inline(always)]
    fn attr_with_all_links(&self, stat: &Stat, file: &OpenFile) -> Attr {
        convert(stat, self.change_attr(stat, || file.changes().count()))
    }

    /// Attributes of an object that may be open in the cache. As [`Self::attr_of`], in each caller.
    #[inline(always)]
    pub(crate) fn attr_by_fid(&self, stat: &Stat, fid: &Fid) -> Attr {
        let mut attr = convert(stat, self.change_attr(stat, || self.change_count(fid)));
        if self.files.unlinked.has_files() {
            attr.nlink = self.visible_links(stat, fid);
        }
        attr
    }

    fn change_attr(&self, stat: &Stat, count: impl FnOnce() -> u64) -> u64 {
        let (sec, nsec) = stat.ctime;
        let ctime = Time { sec, nsec };
        match self.change_source {
            ChangeSource::Ctime => ctime_ns(ctime),
            ChangeSource::CountedCtime => counted(ctime, count(), self.files.is_settled(ctime)),
        }
    }

    /// An object around a change, which has just been made.
    pub(crate) fn wcc_data(&self, change: &OngoingChange<'_>, before: &Attr) -> Change {
        change.end();
        self.wcc_data_since(change, before, change.since())
    }

    /// An object around a change since this state of its change counter. Its attributes after that, for weak cache consistency,
    /// are absent if they cannot be had.
    pub(crate) fn wcc_data_since(
        &self,
        file: &OpenFile,
        before: &Attr,
        since: &ChangeState,
    ) -> Change {
        let after = sys::stat::basic_of_fd(file.path()).ok();
        let after = after.map(|stat| self.attr_with_all_links(&stat, file));
        // one look at both
        if !file.is_usual() {
            return self.unusual_change(file, before, since);
        }
        let alone = file.changes().unchanged_since(since);
        Change { before: alone.then(|| before.wcc()), after }
    }

    /// The same by an entry that is retired, or has a link that clients do not see. Apart, and it asks for the attributes itself, because
    /// handing them over would make the way of all other objects longer.
    #[cold]
    #[inline(never)]
    fn unusual_change(&self, file: &OpenFile, before: &Attr, since: &ChangeState) -> Change {
        let after = sys::stat::basic_of_fd(file.path()).ok();
        let after = after.map(|stat| self.attr_of(&stat, file));
        let alone = file.changes().unchanged_since(since) && !file.is_retired();
        Change { before: alone.then(|| before.wcc()), after }
    }

    fn open_object(&self, cx: &Cx<'_>, fid: &Fid) -> Result<Arc<OpenFile>> {
        self.will_block(cx)?;
        if self.warm_backend != self.backend
            && let Some(file) = self.files.with(&self.key(fid), Arc::clone)
        {
            return Ok(file);
        }
        // an object that cannot be closed would keep using descriptors
        if self.closing.is_stuck() {
            return Err(Status::Jukebox);
        }
        self.identity.act_as_server().map_err(errno::from)?;
        let fd = self.open_by_fid(fid)?;
        let stat = sys::stat::of_fd(fd.as_fd()).map_err(errno::from)?;
        let ftype = file_type(stat.mode);
        // a directory that was moved out of the export takes its descendants along
        if ftype == vfs::FileType::Directory && !is_inside(self, fd.as_fd(), &stat)? {
            return Err(Status::Stale);
        }
        Ok(self.files.insert(self.key(fid), Arc::new(self.entry_of(fd, &stat))))
    }

    /// An entry for the cache, of an object that was opened as a path.
    pub(crate) fn entry_of(&self, path: OwnedFd, stat: &Stat) -> OpenFile {
        let file = OpenFile::new(path, stat);
        file.close_by(&self.closing);
        file
    }

    /// Without free descriptors, some are closed and it is retried.
    fn open_by_fid(&self, fid: &Fid) -> Result<OwnedFd> {
        let open = || self.resolver.open(self.root.as_fd(), &self.root_fid, fid);
        self.files.with_descriptors(|status| *status == Status::Jukebox, open)
    }

    /// Puts an object that was just opened into the cache, unless it is present; returns the one
    /// that is.
    pub(crate) fn cache(&self, fid: &Fid, file: Arc<OpenFile>) -> Arc<OpenFile> {
        let key = self.key(fid);
        let known = self.files.with(&key, Arc::clone);
        known.unwrap_or_else(|| {
            file.close_by(&self.closing);
            self.files.insert(key, file)
        })
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
        if let Some(fd) = self.files.leases.sole_open_file(&self.key(fid))? {
            return Ok(fd);
        }
        self.files
            .open_with_retry(|| self.resolver.open_data(self.root.as_fd(), fid, file.path(), how))
    }

    /// Lets other calls be served meanwhile: to be called before every system call that may wait for
    /// a disk. Does nothing for a file system in memory.
    ///
    /// # Errors
    /// [`Status::Jukebox`]: the file system hangs, and the limit of calls that wait for it is
    /// reached.
    pub(crate) fn will_block(&self, cx: &Cx<'_>) -> Result<()> {
        if self.medium == Medium::Memory {
            return Ok(());
        }
        cx.blocking.will_block()
    }
}

/// Refuses an object without a name that is not kept.
fn check_alive(stat: &Stat, file: &OpenFile) -> Result<()> {
    if stat.nlink == 0 && !file.is_pinned() { Err(Status::Stale) } else { Ok(()) }
}

/// Whether a directory currently is the exported one or below it.
///
/// # Errors
/// The kernel's error.
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
