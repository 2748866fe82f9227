//! One open object: its descriptors, and cached data about it.
//!
//! An object that was put into the cache is closed by its backend's [`CloseQueue`], whichever thread drops it:
//! close(2) may wait for the file system. One that never was is closed where it is dropped.
//!
//! An object keeps its place in the cache until it is *retired*: from then on another [`OpenFile`] may
//! stand for the same object, and data stored in this one is not seen there.

use crate::attr::file_type;
use crate::cache::acl_cache::AclCache;
use crate::cache::change_counter::ChangeCounter;
use crate::cache::closers::CloseQueue;
use crate::cache::descriptors::{Descriptors, PathDescriptor};
use crate::cache::group_sync::GroupSync;
use crate::cache::unsynced_writes::UnsyncedWrites;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{Arc, OnceLock, PoisonError};
use sys::send_on_drop::{Receive, SendOnDrop};
use sys::stat::Stat;
use vfs::FileType;

/// Seconds after which an idle descriptor for writing is closed.
const WRITER_IDLE_S: u32 = 2;
/// Seconds after which an idle entry is closed.
const IDLE_S: u32 = 30;
/// The same for one with writes that are not known to be on disk. The kernel writes data back after
/// half a minute, and reports an error to every descriptor that was open since then; one opened later
/// may not get it.
const UNSYNCED_IDLE_S: u32 = 60;
/// The entry is not retired while this is set.
const PINNED: u8 = 1;
/// It has been or is being removed from the cache.
const RETIRED: u8 = 2;
/// One of its links is a name of the server's own, which clients do not see.
const HIDDEN: u8 = 4;
/// Seconds for which a directory counts as cached by the kernel after it was listed.
const LISTED_S: u32 = 60;

/// Apart from the way of all other objects, which it would make longer.
#[cold]
const fn without_hidden(links: u32) -> u32 {
    links.saturating_sub(1)
}

/// The queue that closes an object's descriptors.
#[derive(Default)]
struct ClosedBy(OnceLock<Arc<CloseQueue>>);

impl Receive<Descriptors> for ClosedBy {
    fn receive(&self, descriptors: Descriptors) {
        match self.0.get() {
            Some(queue) => queue.close(descriptors),
            None => drop(descriptors),
        }
    }
}

/// An open object.
pub struct OpenFile {
    fds: SendOnDrop<Descriptors, ClosedBy>,
    /// Whether `path` is open for writing as well.
    path_writes: bool,
    ftype: FileType,
    /// Device and inode number, which are not reused while this is open.
    id: (u64, u64),
    /// The time of creation, where it is known.
    birth: Option<(i64, u32)>,
    /// Second of the last use, of `OpenFiles::now_s`.
    used_s: AtomicU32,
    /// Second of the last listing, plus one; 0 is never.
    listed_s: AtomicU32,
    /// Second of the last writing.
    written_s: AtomicU32,
    unsynced: UnsyncedWrites,
    group_sync: GroupSync,
    changes: ChangeCounter,
    /// [`PINNED`], [`RETIRED`] and [`HIDDEN`].
    state: AtomicU8,
    /// It is known to have lost its last name.
    seen_removed: AtomicBool,
    acl: AclCache,
}

impl OpenFile {
    /// An object that was opened as a path, and its attributes.
    pub fn new(path: OwnedFd, stat: &Stat) -> Self {
        let path = PathDescriptor::Own(path);
        Self::with_identity(path, file_type(stat.mode), (stat.dev, stat.ino), stat.btime)
    }

    fn with_identity(
        path: PathDescriptor,
        ftype: FileType,
        id: (u64, u64),
        birth: Option<(i64, u32)>,
    ) -> Self {
        Self {
            fds: SendOnDrop::new(Descriptors::new(path), ClosedBy::default()),
            path_writes: false,
            ftype,
            id,
            birth,
            used_s: AtomicU32::new(0),
            listed_s: AtomicU32::new(0),
            written_s: AtomicU32::new(0),
            unsynced: UnsyncedWrites::default(),
            group_sync: GroupSync::default(),
            changes: ChangeCounter::default(),
            state: AtomicU8::new(0),
            seen_removed: AtomicBool::new(false),
            acl: AclCache::default(),
        }
    }

    /// The same object by another descriptor of its path. Makes no request to the file system.
    pub fn again(&self, path: OwnedFd) -> Self {
        self.again_by(PathDescriptor::Own(path))
    }

    /// The same object by a descriptor for data that this one has beside its path: one that is open is needed no more when
    /// this is dropped. None if it has no such descriptor.
    pub(super) fn again_by_data(&self) -> Option<Self> {
        let data = |slot: &OnceLock<_>| slot.get().map(Arc::clone).map(PathDescriptor::OfData);
        match data(&self.fds.reader) {
            Some(reader) => Some(self.again_by(reader)),
            None => {
                let file = self.again_by(data(&self.fds.writer)?);
                let written_s = AtomicU32::new(self.written_s.load(Relaxed));
                Some(Self { path_writes: true, written_s, ..file })
            }
        }
    }

    fn again_by(&self, path: PathDescriptor) -> Self {
        let file = Self::with_identity(path, self.ftype, self.id, self.birth);
        file.seen_removed.store(self.was_removed(), Relaxed);
        if let Some(queue) = self.queue() {
            file.close_by(queue);
        }
        file
    }

    /// Sets the queue that closes it.
    pub fn close_by(&self, queue: &Arc<CloseQueue>) {
        self.fds.receiver().0.get_or_init(|| Arc::clone(queue));
    }

    /// Who closes it.
    pub fn queue(&self) -> Option<&Arc<CloseQueue>> {
        self.fds.receiver().0.get()
    }

    /// A regular file that was just made, open for writing, and its attributes.
    pub fn created(fd: OwnedFd, stat: &Stat, now_s: u32) -> Self {
        let file = Self::new(fd, stat);
        Self { path_writes: true, written_s: AtomicU32::new(now_s), ..file }
    }

    /// The descriptor for attributes and look-ups.
    pub fn path(&self) -> BorrowedFd<'_> {
        self.fds.path.as_fd()
    }

    /// The type, which an object keeps for life.
    pub const fn ftype(&self) -> FileType {
        self.ftype
    }

    /// Device and inode number.
    pub const fn id(&self) -> (u64, u64) {
        self.id
    }

    /// The time of creation, which an object keeps for life, where it is known.
    pub const fn birth(&self) -> Option<(i64, u32)> {
        self.birth
    }

    /// Whether these are attributes of this object: its number cannot be reused while it is open
    /// here. The time of creation is compared for file systems whose numbers are not reliable.
    pub fn is(&self, stat: &Stat) -> bool {
        self.id == (stat.dev, stat.ino) && self.birth == stat.btime
    }

    /// The descriptor for reading, if there is one already.
    pub fn reader(&self) -> Option<BorrowedFd<'_>> {
        self.fds.reader.get().map(AsFd::as_fd)
    }

    /// The descriptor for reading, if there is one already, to be kept for longer than the object
    /// is cached.
    pub fn shared_reader(&self) -> Option<&Arc<OwnedFd>> {
        self.fds.reader.get()
    }

    /// The descriptor for writing, if there is one already.
    pub fn writer(&self) -> Option<BorrowedFd<'_>> {
        if self.path_writes { Some(self.path()) } else { self.fds.writer.get().map(AsFd::as_fd) }
    }

    /// Whether it has descriptors beside its path.
    pub(super) fn has_data_descriptors(&self) -> bool {
        self.fds.reader.get().is_some() || self.fds.writer.get().is_some()
    }

    /// The descriptor for reading; `open` makes it.
    ///
    /// # Errors
    /// Those of `open`.
    pub fn reader_or(
        &self,
        open: impl FnOnce() -> io::Result<OwnedFd>,
    ) -> io::Result<BorrowedFd<'_>> {
        opened_or(&self.fds.reader, || open().map(Arc::new))
    }

    /// The descriptor for writing; `open` makes it.
    ///
    /// # Errors
    /// Those of `open`.
    pub fn writer_or(
        &self,
        open: impl FnOnce() -> io::Result<OwnedFd>,
    ) -> io::Result<BorrowedFd<'_>> {
        if self.path_writes {
            Ok(self.path())
        } else {
            opened_or(&self.fds.writer, || open().map(Arc::new))
        }
    }

    /// Takes the descriptor for listing, if it exists and is not in use. Kept between calls because
    /// some file systems (overlays) read a whole directory when it is opened.
    pub fn take_listing(&self) -> Option<OwnedFd> {
        self.fds.listing.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Puts a descriptor for listing back; if there is one by now, it is closed.
    pub fn put_listing(&self, listing: OwnedFd) {
        let mut slot = self.fds.listing.lock().unwrap_or_else(PoisonError::into_inner);
        let spare = slot.replace(listing);
        drop(slot);
        drop(spare);
    }

    /// Notes that the directory was listed.
    pub fn note_listed(&self, now_s: u32) {
        self.listed_s.store(now_s.saturating_add(1), Relaxed);
    }

    /// Whether the directory was listed so recently that the kernel will have it cached.
    pub fn listed_lately(&self, now_s: u32) -> bool {
        let listed = self.listed_s.load(Relaxed);
        listed != 0 && now_s.saturating_sub(listed) < LISTED_S
    }

    /// The writes that COMMIT has to sync.
    pub const fn unsynced(&self) -> &UnsyncedWrites {
        &self.unsynced
    }

    /// Its syncs.
    pub const fn group_sync(&self) -> &GroupSync {
        &self.group_sync
    }

    /// The counter of its changes.
    pub const fn changes(&self) -> &ChangeCounter {
        &self.changes
    }

    /// Retires the entry, so that another may stand for the object in the cache, unless it is pinned;
    /// whether it did.
    pub(super) fn try_retire(&self) -> bool {
        let retire = |state| (state & PINNED == 0).then_some(state | RETIRED);
        self.state.fetch_update(SeqCst, SeqCst, retire).is_ok()
    }

    /// The same whether it is pinned or not; it is no more.
    pub(super) fn retire(&self) {
        let retire = |state| Some(state & HIDDEN | RETIRED);
        let _always = self.state.fetch_update(SeqCst, SeqCst, retire);
    }

    /// Holds the entry in the cache: it is not retired before it is unpinned. False if it is retired.
    pub fn try_pin(&self) -> bool {
        let pin = |state| (state & RETIRED == 0).then_some(state | PINNED);
        self.state.fetch_update(SeqCst, SeqCst, pin).is_ok()
    }

    /// Lets the entry be retired.
    pub(super) fn unpin(&self) {
        self.state.fetch_and(!PINNED, SeqCst);
    }

    /// Whether the file is kept, and lives on without a name.
    pub fn is_pinned(&self) -> bool {
        self.state.load(SeqCst) & PINNED != 0
    }

    /// Seconds since the last use.
    pub(super) fn idle_s(&self, now_s: u32) -> u32 {
        now_s.saturating_sub(self.used_s.load(Relaxed))
    }

    /// Whether another entry may stand for the object in the cache by now: changes through this one
    /// are not visible there.
    pub fn is_retired(&self) -> bool {
        self.state.load(SeqCst) & RETIRED != 0
    }

    /// Whether it is neither retired nor has links that clients do not see.
    #[inline(always)]
    pub fn is_usual(&self) -> bool {
        self.state.load(SeqCst) & (RETIRED | HIDDEN) == 0
    }

    /// The cached ACL.
    pub const fn acl(&self) -> &AclCache {
        &self.acl
    }

    /// Whether it is open for writing and nobody has written for a while.
    pub(super) fn has_idle_writer(&self, now_s: u32) -> bool {
        let written_s = self.written_s.load(Relaxed);
        self.writer().is_some()
            && !self.unsynced.has_unsynced()
            && now_s.saturating_sub(written_s) > WRITER_IDLE_S
    }

    /// Whether nobody has used it for a while, or it is open for writing and nobody has written.
    pub(super) fn is_idle(&self, now_s: u32) -> bool {
        let (used_s, written_s) = (self.used_s.load(Relaxed), self.written_s.load(Relaxed));
        let for_longer = |second: u32, idle_s: u32| now_s.saturating_sub(second) > idle_s;
        if self.unsynced.has_unsynced() {
            return for_longer(used_s.max(written_s), UNSYNCED_IDLE_S);
        }
        for_longer(used_s, IDLE_S)
            || self.writer().is_some() && for_longer(written_s, WRITER_IDLE_S)
    }

    /// Notes that the descriptor for writing was used.
    pub fn note_written(&self, now_s: u32) {
        if self.written_s.load(Relaxed) != now_s {
            self.written_s.store(now_s, Relaxed);
        }
    }

    /// The links that clients see, of these.
    #[inline(always)]
    pub fn visible_links(&self, links: u32) -> u32 {
        if self.state.load(Relaxed) & HIDDEN == 0 { links } else { without_hidden(links) }
    }

    /// Attributes with the links that clients see.
    pub fn visible_stat(&self, stat: &Stat) -> Stat {
        Stat { nlink: self.visible_links(stat.nlink), ..*stat }
    }

    /// Sets whether one of its links is a name of the server's own.
    pub(super) fn set_hidden_link(&self, is_hidden: bool) {
        if is_hidden {
            self.state.fetch_or(HIDDEN, SeqCst);
        } else {
            self.state.fetch_and(!HIDDEN, SeqCst);
        }
    }

    /// Whether the object has lost its last name. Makes a request to the file system.
    pub(super) fn is_removed(&self) -> bool {
        sys::stat::basic_of_fd(self.path()).is_ok_and(|stat| stat.nlink == 0)
    }

    /// Whether it is known to have lost it.
    pub(super) fn was_removed(&self) -> bool {
        self.seen_removed.load(Relaxed)
    }

    /// Records that it has lost its last name.
    pub(super) fn note_removed(&self) {
        self.seen_removed.store(true, Relaxed);
    }

    /// Records whether it has lost its last name. Makes a request to the file system.
    pub(super) fn check_for_removal(&self) {
        if self.is_removed() {
            self.note_removed();
        }
    }

    pub(super) fn use_at(&self, now_s: u32) {
        // written only when it changes: else every hit would dirty a shared line
        if self.used_s.load(Relaxed) != now_s {
            self.used_s.store(now_s, Relaxed);
        }
    }
}

fn opened_or<F: AsFd>(
    slot: &OnceLock<F>,
    open: impl FnOnce() -> io::Result<F>,
) -> io::Result<BorrowedFd<'_>> {
    if let Some(fd) = slot.get() {
        return Ok(fd.as_fd());
    }
    // two threads may open at once; the second's is closed again
    let fd = open()?;
    Ok(slot.get_or_init(|| fd).as_fd())
}
