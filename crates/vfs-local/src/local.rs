//! The backend itself: its parts, how an object is reached, and the trait's calls by file.

use crate::access::MountState;
use crate::actor::Actor;
use crate::attr::{convert, file_type, living};
use crate::changes::Changing;
use crate::durable::Medium;
use crate::errno;
use crate::inode_table::InodeTable;
use crate::naming::{Finder, fid_of};
use crate::open_files::{Key, OpenFile, OpenFiles};
use crate::verifier::WriteVerifier;
use std::fs::DirBuilder;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::ops::ControlFlow;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use sys::open::How;
use vfs::{
    AccessMask, Attr, Backend, Change, Component, Create, Created, Cx, DirEntry, Fid, Found,
    Limits, ListArgs, Listing, Name, NodeKind, ReadDone, ReadRange, Result, SetAttr, Stability,
    StatFs, Status, Time, Verifier, Want, WriteDone,
};

/// How a directory is served.
#[derive(Debug, Clone, Default)]
pub struct LocalOptions {
    /// Where the table of names is kept, if one is needed; without it, it is kept in a temporary
    /// file and handles die with the server.
    pub table: Option<PathBuf>,
    /// Use the table even where handles would work; for tests.
    pub force_table: bool,
}

/// How a backend names its objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Naming {
    /// By the kernel's handles.
    Handles,
    /// By the persistent table: no privilege, or a file system without handles.
    Table,
}

/// Why a directory cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// It is not there, not a directory, or not ours to enter.
    #[error("cannot serve {path}: {what}")]
    Directory {
        /// The directory.
        path: PathBuf,
        /// What is wrong and what to do.
        what: &'static str,
    },
    /// The kernel said something else.
    #[error("cannot serve {path}: {source}")]
    Kernel {
        /// The directory.
        path: PathBuf,
        /// What it said.
        source: io::Error,
    },
    /// The table of names cannot be used.
    #[error("the table of file names {path}: {source}")]
    Table {
        /// The file.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
}

/// A Linux directory.
pub struct Local {
    /// Where it was opened.
    path: PathBuf,
    pub(crate) root: OwnedFd,
    pub(crate) root_fid: Fid,
    /// Device and inode number of the root.
    pub(crate) root_id: (u64, u64),
    pub(crate) mount: MountState,
    pub(crate) finder: Finder,
    pub(crate) actor: Actor,
    pub(crate) files: Arc<OpenFiles>,
    pub(crate) verifier: WriteVerifier,
    /// Whether reads cannot tell if they would block (`RWF_NOWAIT` unknown to the file system).
    pub(crate) blind_reads: AtomicBool,
    /// What has to be synced.
    pub(crate) medium: Medium,
    limits: Limits,
    backend: u32,
}

impl Local {
    /// Opens a directory for serving.
    ///
    /// # Errors
    /// [`OpenError`], which says what to do.
    pub fn open(
        root: &Path,
        options: &LocalOptions,
        files: Arc<OpenFiles>,
    ) -> std::result::Result<Self, OpenError> {
        let kernel = |source| OpenError::Kernel { path: root.to_owned(), source };
        // what the process may do is asked below, not what the last caller may
        sys::identity::act_as_process().map_err(kernel)?;
        let path = sys::open::open_path(root).map_err(|e| explain(root, e))?;
        // handles are opened on a descriptor that is open for more than its path
        let Ok(dir) = sys::open::open_listing(path.as_fd()) else {
            let what = "no permission to list it: run as a user who may, or change its mode";
            return Err(OpenError::Directory { path: root.to_owned(), what });
        };
        let root_stat = sys::stat::of_fd(dir.as_fd()).map_err(kernel)?;
        let root_fid =
            fid_of(dir.as_fd()).map_err(|status| kernel(io::Error::other(status.to_string())))?;
        let backend = files.register();
        let finder = if !options.force_table && handles_work(dir.as_fd(), &root_fid) {
            Finder::Handles
        } else {
            let table = Arc::new(open_table(options)?);
            files.add_table(&table);
            Finder::Table(table)
        };
        let limits = crate::statfs::limits(dir.as_fd()).map_err(kernel)?;
        let fs_kind = sys::stat::figures(dir.as_fd()).map_or(0, |fs| fs.kind);
        let medium = Medium::of(fs_kind, root_stat.dev);
        Ok(Self {
            path: root.to_owned(),
            root: dir,
            root_fid,
            root_id: (root_stat.dev, root_stat.ino),
            mount: MountState::default(),
            finder,
            actor: Actor::new().map_err(kernel)?,
            backend,
            files,
            verifier: WriteVerifier::default(),
            blind_reads: AtomicBool::new(medium == Medium::Memory),
            medium,
            limits,
        })
    }

    /// How objects are named.
    pub const fn naming(&self) -> Naming {
        match self.finder {
            Finder::Handles => Naming::Handles,
            Finder::Table(_) => Naming::Table,
        }
    }

    /// Whether calls act as their callers; if not, everybody is the server's own user.
    pub const fn acts_as_callers(&self) -> bool {
        self.actor.changes()
    }

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
    pub(crate) fn begin_change(&self, cx: &Cx<'_>, fid: &Fid) -> Result<(Changing, Attr)> {
        let key = self.key(fid);
        let file = match self.files.with(&key, Arc::clone) {
            Some(file) => file,
            None => self.open_object(cx, fid)?,
        };
        let changing = Changing::begin(file);
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
        living(&stat)
    }

    /// Attributes after a change, for weak cache consistency; absent if they cannot be had.
    pub(crate) fn attr_after(&self, file: &OpenFile) -> Option<Attr> {
        sys::stat::basic_of_fd(file.path()).ok().map(|s| convert(&s))
    }

    fn open_object(&self, cx: &Cx<'_>, fid: &Fid) -> Result<Arc<OpenFile>> {
        self.may_sleep(cx);
        self.actor.be_server().map_err(errno::from)?;
        let fd = self.finder_open(fid)?;
        let stat = sys::stat::of_fd(fd.as_fd()).map_err(errno::from)?;
        let ftype = file_type(stat.mode);
        // a directory that was moved out of the export takes what is below it along
        if ftype == vfs::FileType::Directory && !crate::lookup::is_inside(self, fd.as_fd(), &stat)?
        {
            return Err(Status::Stale);
        }
        Ok(self.files.insert(self.key(fid), OpenFile::new(fd, &stat)))
    }

    /// Out of descriptors, some are closed and it is tried again.
    fn finder_open(&self, fid: &Fid) -> Result<OwnedFd> {
        let open = || self.finder.open(self.root.as_fd(), &self.root_fid, fid);
        self.files.with_room(|status| *status == Status::Jukebox, open)
    }

    /// Puts an object that was just opened into the cache, unless it is there; gives what is.
    pub(crate) fn adopt(&self, fid: &Fid, file: OpenFile) -> Arc<OpenFile> {
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
        self.actor.be_server()?;
        self.files.opening(|| self.finder.open_data(self.root.as_fd(), fid, file.path(), how))
    }

    /// Lets other calls be served meanwhile: to be called before every system call that may wait for
    /// a disk. A file system that is memory has none.
    pub(crate) fn may_sleep(&self, cx: &Cx<'_>) {
        if self.medium != Medium::Memory {
            cx.blocking.will_block();
        }
    }
}

fn explain(root: &Path, error: io::Error) -> OpenError {
    let what = match errno::status(&error) {
        Status::NoEnt => "there is no such directory: create it first",
        Status::NotDir => "it is not a directory: name the directory that it is in",
        Status::Acces => "no permission to enter it: run as a user who may, or change its mode",
        _ => return OpenError::Kernel { path: root.to_owned(), source: error },
    };
    OpenError::Directory { path: root.to_owned(), what }
}

/// Whether the kernel opens handles of this file system for this process.
fn handles_work(root: BorrowedFd<'_>, fid: &Fid) -> bool {
    let Ok(other) = sys::open::open_listing(root) else { return false };
    let opened = Finder::Handles.open_data(root, fid, other.as_fd(), How::List);
    let by_handle = sys::file_handle::of_fd(root).is_ok()
        && sys::identity::has(sys::identity::Capability::DacReadSearch);
    by_handle && opened.is_ok()
}

fn open_table(options: &LocalOptions) -> std::result::Result<InodeTable, OpenError> {
    if let Some(path) = &options.table {
        return InodeTable::open(path)
            .map_err(|source| OpenError::Table { path: path.clone(), source });
    }
    // a directory of our own: others may write in the one for temporary files
    let name = format!("bowline-names-{:016x}", RandomState::new().hash_one(std::process::id()));
    let dir = std::env::temp_dir().join(name);
    let path = dir.join("names");
    let table = DirBuilder::new().mode(0o700).create(&dir).and_then(|()| InodeTable::open(&path));
    // the open descriptor is enough; the names would outlive the server
    std::fs::remove_file(&path).ok();
    std::fs::remove_dir(&dir).ok();
    table.map_err(|source| OpenError::Table { path, source })
}

impl Drop for Local {
    /// Lets go of the file system, so that it can be unmounted.
    fn drop(&mut self) {
        self.files.remove_backend(self.backend);
    }
}

impl Backend for Local {
    fn root(&self) -> Fid {
        self.root_fid
    }

    fn is_still_there(&self) -> bool {
        let now = || {
            self.actor.be_server()?;
            let path = sys::open::open_path(&self.path)?;
            sys::stat::of_fd(path.as_fd()).map(|stat| (stat.dev, stat.ino))
        };
        // of what was removed the number may be another's by now, but not while it is open here
        now().is_ok_and(|id| id == self.root_id)
    }

    fn limits(&self) -> Limits {
        self.limits
    }

    fn write_verifier(&self) -> Verifier {
        self.verifier.now()
    }

    fn statfs(&self, cx: &Cx<'_>, fid: &Fid) -> Result<StatFs> {
        crate::statfs::statfs(self, cx, fid)
    }

    fn getattr(&self, cx: &Cx<'_>, fid: &Fid, want: Want) -> Result<Attr> {
        crate::getattr::getattr(self, cx, fid, want)
    }

    fn setattr(
        &self,
        cx: &Cx<'_>,
        fid: &Fid,
        set: &SetAttr,
        guard: Option<Time>,
    ) -> Result<Change> {
        crate::setattr::setattr(self, cx, fid, set, guard)
    }

    fn access(&self, cx: &Cx<'_>, fid: &Fid, mask: AccessMask) -> Result<(AccessMask, Attr)> {
        crate::access::access(self, cx, fid, mask)
    }

    fn lookup(&self, cx: &Cx<'_>, dir: &Fid, name: Component<'_>) -> Result<Found> {
        crate::lookup::lookup(self, cx, dir, name)
    }

    fn readlink(&self, cx: &Cx<'_>, fid: &Fid, target: &mut Vec<u8>) -> Result<Attr> {
        crate::readlink::readlink(self, cx, fid, target)
    }

    fn read(&self, cx: &Cx<'_>, fid: &Fid, offset: u64, data: &mut [u8]) -> Result<ReadDone> {
        crate::read::read(self, cx, fid, offset, data)
    }

    fn read_range(
        &self,
        cx: &Cx<'_>,
        fid: &Fid,
        offset: u64,
        count: usize,
        shortest: usize,
    ) -> Result<ReadRange> {
        crate::read_range::read_range(self, cx, fid, (offset, count), shortest)
    }

    fn write(
        &self,
        cx: &Cx<'_>,
        fid: &Fid,
        offset: u64,
        data: &[u8],
        stable: Stability,
    ) -> Result<WriteDone> {
        crate::write::write(self, cx, fid, offset, data, stable)
    }

    fn write_piped(
        &self,
        cx: &Cx<'_>,
        fid: &Fid,
        offset: u64,
        pipe: BorrowedFd<'_>,
        len: usize,
    ) -> Result<WriteDone> {
        crate::write::write_piped(self, cx, fid, offset, pipe, len)
    }

    fn commit(&self, cx: &Cx<'_>, fid: &Fid, offset: u64, count: u64) -> Result<Change> {
        crate::commit::commit(self, cx, fid, offset, count)
    }

    fn create(&self, cx: &Cx<'_>, dir: &Fid, name: Name<'_>, how: Create) -> Result<Created> {
        crate::create::create(self, cx, dir, name, how)
    }

    fn mkdir(&self, cx: &Cx<'_>, dir: &Fid, name: Name<'_>, set: &SetAttr) -> Result<Created> {
        crate::mkdir::mkdir(self, cx, dir, name, set)
    }

    fn symlink(
        &self,
        cx: &Cx<'_>,
        dir: &Fid,
        name: Name<'_>,
        target: &[u8],
        set: &SetAttr,
    ) -> Result<Created> {
        crate::symlink::symlink(self, cx, dir, name, target, set)
    }

    fn mknod(
        &self,
        cx: &Cx<'_>,
        dir: &Fid,
        name: Name<'_>,
        kind: NodeKind,
        set: &SetAttr,
    ) -> Result<Created> {
        crate::mknod::mknod(self, cx, dir, name, kind, set)
    }

    fn remove(&self, cx: &Cx<'_>, dir: &Fid, name: Name<'_>) -> Result<Change> {
        crate::remove::remove(self, cx, dir, name)
    }

    fn rmdir(&self, cx: &Cx<'_>, dir: &Fid, name: Name<'_>) -> Result<Change> {
        crate::remove::rmdir(self, cx, dir, name)
    }

    fn rename(
        &self,
        cx: &Cx<'_>,
        from: (&Fid, Name<'_>),
        to: (&Fid, Name<'_>),
    ) -> Result<(Change, Change)> {
        crate::rename::rename(self, cx, from, to)
    }

    fn link(&self, cx: &Cx<'_>, fid: &Fid, dir: &Fid, name: Name<'_>) -> Result<(Attr, Change)> {
        crate::link::link(self, cx, fid, dir, name)
    }

    fn readdir(
        &self,
        cx: &Cx<'_>,
        dir: &Fid,
        args: ListArgs,
        sink: &mut dyn FnMut(&DirEntry<'_>) -> ControlFlow<()>,
    ) -> Result<Listing> {
        crate::readdir::readdir(self, cx, dir, args, sink)
    }
}
