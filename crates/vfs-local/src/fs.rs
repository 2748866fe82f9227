//! The backend: what it consists of, and opening a directory for serving.

use crate::cache::change_attr::ChangeSource;
use crate::cache::closers::CloseQueue;
use crate::cache::open_files::OpenFiles;
use crate::errno;
use crate::identity::FsIdentity;
use crate::medium::{self, Medium};
use crate::mount_state::MountState;
use crate::naming::fid::fid_of;
use crate::naming::inode_table::InodeTable;
use crate::naming::resolver::FidResolver;
use crate::naming::unlinked_dir::UnlinkedDir;
use crate::write_verifier::WriteVerifier;
use std::fs::DirBuilder;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use sys::open::How;
use vfs::{ChangeKind, Fid, Limits, Status};

/// How a directory is served.
#[derive(Debug, Clone, Default)]
pub struct LocalOptions {
    /// The file of the table of names, if one is needed; without it, the table is in a temporary
    /// file and handles become stale with the server's end.
    pub table: Option<PathBuf>,
    /// Use the table even where handles would work; for tests.
    pub force_table: bool,
    /// Count changes even where ctime tells them apart; for tests.
    pub count_changes: bool,
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
    /// It does not exist, is not a directory, or cannot be entered.
    #[error("cannot serve {path}: {what}")]
    Directory {
        /// The directory.
        path: PathBuf,
        /// The problem and its solution.
        what: &'static str,
    },
    /// Another error of the kernel.
    #[error("cannot serve {path}: {source}")]
    Kernel {
        /// The directory.
        path: PathBuf,
        /// The error.
        source: io::Error,
    },
    /// The table of names cannot be used.
    #[error("the table of file names {path}: {source}")]
    Table {
        /// The file.
        path: PathBuf,
        /// The kernel's error.
        source: io::Error,
    },
}

/// A Linux directory.
pub struct LocalFs {
    /// Where it was opened.
    pub(crate) path: PathBuf,
    pub(crate) root: OwnedFd,
    pub(crate) root_fid: Fid,
    /// Device and inode number of the root.
    pub(crate) root_id: (u64, u64),
    pub(crate) mount: MountState,
    pub(crate) resolver: FidResolver,
    pub(crate) identity: FsIdentity,
    pub(crate) files: Arc<OpenFiles>,
    pub(crate) verifier: WriteVerifier,
    /// Whether reads cannot tell if they would block (`RWF_NOWAIT` unknown to the file system).
    pub(crate) blind_reads: AtomicBool,
    /// The objects that must be synced.
    pub(crate) medium: Medium,
    /// The source of change attributes.
    pub(crate) change_source: ChangeSource,
    pub(crate) limits: Limits,
    pub(crate) backend: u32,
    /// The same where an open object can be queried without blocking; else a number that nothing in the cache
    /// has.
    pub(crate) warm_backend: u32,
    /// The queue that closes its descriptors.
    pub(crate) closing: Arc<CloseQueue>,
    /// The directory of open files that have lost their last name, once it was wanted or found; `None` if there can be none.
    pub(crate) unlinked: OnceLock<Option<Arc<UnlinkedDir>>>,
    /// There may be files in it that an earlier run of the server has left.
    pub(crate) left_over: AtomicBool,
}

/// How long a removed backend waits until its descriptors are closed.
const CLOSE_PATIENCE: Duration = Duration::from_secs(1);
/// Nothing in the cache is of this backend.
const NOTHING_WARM: u32 = u32::MAX - 1;

impl LocalFs {
    /// Opens a directory for serving.
    ///
    /// # Errors
    /// [`OpenError`], with advice.
    pub fn open(
        root: &Path,
        options: &LocalOptions,
        files: Arc<OpenFiles>,
    ) -> std::result::Result<Self, OpenError> {
        let kernel = |source| OpenError::Kernel { path: root.to_owned(), source };
        // the checks below use the process's own rights, not those of the last caller
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
        let resolver = if !options.force_table && supports_handles(dir.as_fd(), &root_fid) {
            FidResolver::Handles
        } else {
            let table = Arc::new(open_table(options)?);
            files.add_table(&table);
            FidResolver::Table(table)
        };
        let limits = limits(dir.as_fd()).map_err(kernel)?;
        let fs_kind = sys::stat::figures(dir.as_fd()).map_or(0, |fs| fs.kind);
        let medium = Medium::of(fs_kind, root_stat.dev);
        let warm_backend = if medium::requests_may_block(fs_kind) { NOTHING_WARM } else { backend };
        let closing = files.close_queue();
        let ctime_is_fine = !options.count_changes
            && medium::has_multigrain_times(fs_kind)
            && sys::stat::ctime_is_fine(dir.as_fd()).unwrap_or(false);
        let clones =
            medium::may_clone(fs_kind) && sys::space::can_clone(dir.as_fd()).unwrap_or(false);
        let block = sys::stat::figures(dir.as_fd()).map_or(4096, |fs| fs.block_bytes);
        let clone_block = clones.then_some(block);
        let change_source =
            if ctime_is_fine { ChangeSource::Ctime } else { ChangeSource::CountedCtime };
        files.unlinked.add_backend(backend, (root_stat.dev, root_stat.ino), &closing);
        let local = Self {
            path: root.to_owned(),
            root: dir,
            root_fid,
            root_id: (root_stat.dev, root_stat.ino),
            mount: MountState::default(),
            resolver,
            identity: FsIdentity::new().map_err(kernel)?,
            backend,
            warm_backend,
            closing,
            files,
            verifier: WriteVerifier::default(),
            blind_reads: AtomicBool::new(medium == Medium::Memory),
            medium,
            change_source,
            limits: Limits { change_kind: change_source.kind(), clone_block, ..limits },
            unlinked: OnceLock::new(),
            left_over: AtomicBool::new(false),
        };
        local.find_unlinked_dir();
        Ok(local)
    }

    /// How objects are named.
    pub const fn naming(&self) -> Naming {
        match self.resolver {
            FidResolver::Handles => Naming::Handles,
            FidResolver::Table(_) => Naming::Table,
        }
    }

    /// Whether calls act as their callers; if not, every caller is the server's own user.
    pub const fn acts_as_callers(&self) -> bool {
        self.identity.can_switch()
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
fn supports_handles(root: BorrowedFd<'_>, fid: &Fid) -> bool {
    let Ok(other) = sys::open::open_listing(root) else { return false };
    let opened = FidResolver::Handles.open_data(root, fid, other.as_fd(), How::List);
    let by_handle = sys::file_handle::of_fd(root).is_ok()
        && sys::identity::has(sys::identity::Capability::DacReadSearch);
    by_handle && opened.is_ok()
}

fn open_table(options: &LocalOptions) -> std::result::Result<InodeTable, OpenError> {
    if let Some(path) = &options.table {
        return InodeTable::open(path)
            .map_err(|source| OpenError::Table { path: path.clone(), source });
    }
    // a directory of our own: other users may write in the one for temporary files
    let name = format!("bowline-names-{:016x}", RandomState::new().hash_one(std::process::id()));
    let dir = std::env::temp_dir().join(name);
    let path = dir.join("names");
    let table = DirBuilder::new().mode(0o700).create(&dir).and_then(|()| InodeTable::open(&path));
    // the open descriptor is enough; the names would outlive the server
    std::fs::remove_file(&path).ok();
    std::fs::remove_dir(&dir).ok();
    table.map_err(|source| OpenError::Table { path, source })
}

/// What the file system of a directory can do.
///
/// # Errors
/// The kernel's error.
fn limits(root: BorrowedFd<'_>) -> io::Result<Limits> {
    let figures = sys::stat::figures(root)?;
    Ok(Limits {
        name_max: u32::try_from(figures.name_max).unwrap_or(255),
        link_max: link_max(figures.kind),
        file_size_max: i64::MAX.cast_unsigned(),
        time_delta_ns: 1,
        hard_links: true,
        symlinks: true,
        case_insensitive: false,
        chown_restricted: true,
        change_kind: ChangeKind::Undefined,
        clone_block: None,
    })
}

/// Hard links to a file, by the file system's magic number (linux/magic.h).
const fn link_max(kind: u64) -> u32 {
    match kind {
        0xEF53 => 65_000,               // ext4
        0x5846_5342 => i32::MAX as u32, // XFS
        0x9123_683E => 65_535,          // btrfs
        0x2FC1_2FC1 => u32::MAX,        // ZFS
        _ => 32_000,
    }
}

impl Drop for LocalFs {
    /// Releases the file system, so that it can be unmounted.
    fn drop(&mut self) {
        self.files.remove_backend(self.backend);
        self.files.remove_place(self.backend);
        self.closing.wait(CLOSE_PATIENCE);
    }
}
