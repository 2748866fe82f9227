//! Open descriptors, kept from call to call, shared by all exports.
//!
//! What it saves: GETATTR of a cached object is one system call of 0.2 µs instead of an open by
//! handle of 1.9 µs. A look-up takes no lock, no reference count and writes no shared line: the map
//! is read under an epoch guard. Only a call that is going to block clones the `Arc`.
//!
//! Bounds: at most [`OpenFiles::limit`] entries, each of up to three descriptors (a path, one for
//! reading, one for writing). Beyond, those not used for longest (to a second) go first.
//! [`OpenFiles::sweep`], called each second, closes descriptors for writing after two idle seconds
//! (a program that was written may be run at once), everything after thirty, so that a file deleted
//! behind the server's back gives its space back.

use crate::errno;
use crate::inode_table::InodeTable;
use papaya::{Guard as _, HashMap};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use vfs::access::Acl;
use vfs::{Attr, Fid, FileType, Time};

/// Descriptors that are left to sockets, the log and the rest of the process.
const RESERVE: u64 = 1024;
/// Entries at the most, whatever the limit of descriptors is.
const ENTRIES_MAX: usize = 65_536;
/// Entries at the least.
const ENTRIES_MIN: usize = 16;
/// Seconds after which an idle descriptor for writing is closed.
const WRITER_IDLE_S: u32 = 2;
/// Seconds after which an idle entry is closed.
const IDLE_S: u32 = 30;
/// Seconds between two syncs of the tables of names: what a power cut may take of them.
const TABLE_SYNC_S: u32 = 5;
/// Seconds for which a directory counts as cached by the kernel after it was listed.
const LISTED_S: u32 = 60;
/// Nanoseconds by which a change must be past before an ACL read after it is believed for good:
/// a second change within one tick of the file system's clock leaves the same ctime.
const TICK_NS: i128 = 20_000_000;

/// Which object of which export.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Key {
    /// The backend's own number.
    pub backend: u32,
    /// The object.
    pub fid: Fid,
}

/// An open object.
pub struct OpenFile {
    path: OwnedFd,
    ftype: FileType,
    reader: OnceLock<OwnedFd>,
    writer: OnceLock<OwnedFd>,
    /// Second of the last use, of [`OpenFiles::now_s`].
    used_s: AtomicU32,
    /// Second of the last listing, plus one; 0 is never.
    listed_s: AtomicU32,
    /// The ACL that was found, with the ctime that it belongs to. Locked for the copy only.
    acl: Mutex<Option<(Time, Option<Arc<Acl>>)>>,
    /// Whether the ACL above says "none", for reading without the lock: the ctime's parts.
    plain: PlainSince,
}

/// The ctime for which an object is known to have no ACL, in a form that a hot call reads freely.
#[derive(Debug, Default)]
struct PlainSince {
    sec: std::sync::atomic::AtomicI64,
    nsec: AtomicU32,
    known: AtomicBool,
}

impl OpenFile {
    /// An object that was opened as a path.
    pub fn new(path: OwnedFd, ftype: FileType) -> Self {
        Self {
            path,
            ftype,
            reader: OnceLock::new(),
            writer: OnceLock::new(),
            used_s: AtomicU32::new(0),
            listed_s: AtomicU32::new(0),
            acl: Mutex::new(None),
            plain: PlainSince::default(),
        }
    }

    /// The descriptor for attributes and look-ups.
    pub fn path(&self) -> BorrowedFd<'_> {
        self.path.as_fd()
    }

    /// The type, which an object keeps for life.
    pub const fn ftype(&self) -> FileType {
        self.ftype
    }

    /// The descriptor for reading, if there is one already.
    pub fn reader(&self) -> Option<BorrowedFd<'_>> {
        self.reader.get().map(AsFd::as_fd)
    }

    /// The descriptor for reading; `open` makes it.
    ///
    /// # Errors
    /// Those of `open`.
    pub fn reader_or(
        &self,
        open: impl FnOnce() -> io::Result<OwnedFd>,
    ) -> io::Result<BorrowedFd<'_>> {
        get_or(&self.reader, open)
    }

    /// The descriptor for writing; `open` makes it.
    ///
    /// # Errors
    /// Those of `open`.
    pub fn writer_or(
        &self,
        open: impl FnOnce() -> io::Result<OwnedFd>,
    ) -> io::Result<BorrowedFd<'_>> {
        get_or(&self.writer, open)
    }

    /// Notes that the directory was listed.
    pub fn note_listed(&self, now_s: u32) {
        self.listed_s.store(now_s.saturating_add(1), Relaxed);
    }

    /// Whether the directory was listed so lately that the kernel will have it cached.
    pub fn listed_lately(&self, now_s: u32) -> bool {
        let listed = self.listed_s.load(Relaxed);
        listed != 0 && now_s.saturating_sub(listed) < LISTED_S
    }

    /// The ACL that belongs to these attributes. One that was read before is believed as long as
    /// the ctime is the same.
    ///
    /// # Errors
    /// What the kernel says when the ACL has to be read.
    pub fn acl(&self, attr: &Attr) -> io::Result<Option<Arc<Acl>>> {
        if self.ftype == FileType::Symlink || self.is_plain(attr.ctime) {
            return Ok(None);
        }
        {
            let known = self.acl.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some((ctime, acl)) = &*known
                && *ctime == attr.ctime
            {
                return Ok(acl.clone());
            }
        }
        let value = sys::acl::access(self.path())?;
        let acl = value.and_then(|value| Acl::parse(&value)).map(Arc::new);
        if settled(attr.ctime) {
            if acl.is_none() {
                self.note_plain(attr.ctime);
            }
            *self.acl.lock().unwrap_or_else(PoisonError::into_inner) =
                Some((attr.ctime, acl.clone()));
        }
        Ok(acl)
    }

    fn is_plain(&self, ctime: Time) -> bool {
        let p = &self.plain;
        p.known.load(std::sync::atomic::Ordering::Acquire)
            && p.sec.load(Relaxed) == ctime.sec
            && p.nsec.load(Relaxed) == ctime.nsec
    }

    /// Two writers may interleave; then `known` could belong to a mix of two ctimes, which is no
    /// object's ctime or was "no ACL" for both.
    fn note_plain(&self, ctime: Time) {
        let p = &self.plain;
        p.known.store(false, std::sync::atomic::Ordering::Release);
        p.sec.store(ctime.sec, Relaxed);
        p.nsec.store(ctime.nsec, Relaxed);
        p.known.store(true, std::sync::atomic::Ordering::Release);
    }

    fn use_at(&self, now_s: u32) {
        // written only when it changes: else every hit would dirty a shared line
        if self.used_s.load(Relaxed) != now_s {
            self.used_s.store(now_s, Relaxed);
        }
    }
}

fn get_or<'f>(
    slot: &'f OnceLock<OwnedFd>,
    open: impl FnOnce() -> io::Result<OwnedFd>,
) -> io::Result<BorrowedFd<'f>> {
    if let Some(fd) = slot.get() {
        return Ok(fd.as_fd());
    }
    // two threads may open at once; the second's is closed again
    let fd = open()?;
    Ok(slot.get_or_init(|| fd).as_fd())
}

/// Whether a moment is so far past that a later change must have a later ctime.
fn settled(ctime: Time) -> bool {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let Ok(now) = now.map(|n| i128::try_from(n.as_nanos()).unwrap_or(0)) else { return false };
    now - (i128::from(ctime.sec) * 1_000_000_000 + i128::from(ctime.nsec)) > TICK_NS
}

/// The cache.
pub struct OpenFiles {
    map: HashMap<Key, Arc<OpenFile>>,
    limit: usize,
    /// Seconds since the start, as [`OpenFiles::sweep`] was told.
    now_s: AtomicU32,
    /// Held by the one thread that evicts.
    evicting: AtomicBool,
    next_backend: AtomicU32,
    /// The tables of names that are in use. Locked to copy or to add.
    tables: Mutex<Vec<Weak<InodeTable>>>,
}

impl OpenFiles {
    /// A cache for a process that may have this many descriptors.
    pub fn new(descriptors_max: u64) -> Self {
        let share = descriptors_max.saturating_sub(RESERVE.min(descriptors_max / 2)) / 3;
        let share = usize::try_from(share).unwrap_or(ENTRIES_MAX);
        Self {
            map: HashMap::new(),
            limit: share.clamp(ENTRIES_MIN, ENTRIES_MAX),
            now_s: AtomicU32::new(1),
            evicting: AtomicBool::new(false),
            next_backend: AtomicU32::new(0),
            tables: Mutex::default(),
        }
    }

    /// A number for a backend that uses the cache.
    pub fn register(&self) -> u32 {
        self.next_backend.fetch_add(1, Relaxed)
    }

    /// Adds a table that has to be put on disk now and then.
    pub(crate) fn add_table(&self, table: &Arc<InodeTable>) {
        let mut tables = self.tables.lock().unwrap_or_else(PoisonError::into_inner);
        tables.retain(|known| known.strong_count() > 0);
        tables.push(Arc::downgrade(table));
    }

    /// Entries at the most.
    pub const fn limit(&self) -> usize {
        self.limit
    }

    /// Entries now.
    pub fn len(&self) -> usize {
        self.map.len()
    }

    /// Whether nothing is open.
    pub fn is_empty(&self) -> bool {
        self.map.is_empty()
    }

    /// Seconds since the start.
    pub fn now_s(&self) -> u32 {
        self.now_s.load(Relaxed)
    }

    /// Does something with an open object if it is cached; it must not block in `work`.
    pub fn with<T>(&self, key: &Key, work: impl FnOnce(&Arc<OpenFile>) -> T) -> Option<T> {
        let guard = self.map.guard();
        let file = self.map.get(key, &guard)?;
        file.use_at(self.now_s());
        Some(work(file))
    }

    /// Adds an object, unless it is there already; gives the one that is there.
    pub fn insert(&self, key: Key, file: OpenFile) -> Arc<OpenFile> {
        file.use_at(self.now_s());
        if self.map.len() >= self.limit {
            self.evict(self.limit / 8 + 1);
        }
        let guard = self.map.guard();
        let file = Arc::new(file);
        match self.map.try_insert(key, Arc::clone(&file), &guard) {
            Ok(_) => file,
            Err(occupied) => Arc::clone(occupied.current),
        }
    }

    /// Closes an object, once nobody uses it.
    pub fn remove(&self, key: &Key) {
        let guard = self.map.guard();
        if self.map.remove(key, &guard).is_some() {
            guard.flush();
        }
    }

    /// Runs something that opens descriptors; if there are none left, closes some and tries again.
    ///
    /// # Errors
    /// Those of `open`; still out of descriptors if eviction did not help.
    pub fn opening<T>(&self, open: impl Fn() -> io::Result<T>) -> io::Result<T> {
        for _ in 0..3 {
            match open() {
                Err(e) if errno::out_of_descriptors(&e) => self.make_room(),
                other => return other,
            }
        }
        open()
    }

    /// Closes a quarter of what is open: there are no descriptors left.
    pub fn make_room(&self) {
        self.evict(self.map.len() / 4 + 8);
    }

    /// Closes about `count` entries, those idle for longest first. One thread at a time; others
    /// go on without.
    fn evict(&self, count: usize) {
        if self.evicting.swap(true, std::sync::atomic::Ordering::Acquire) {
            return;
        }
        let guard = self.map.guard();
        let now_s = self.now_s();
        let mut left = count;
        for idle_s in [8, 2, 1, 0] {
            for (key, file) in self.map.iter(&guard) {
                if left == 0 {
                    break;
                }
                if now_s.saturating_sub(file.used_s.load(Relaxed)) >= idle_s {
                    self.map.remove(key, &guard);
                    left -= 1;
                }
            }
        }
        guard.flush();
        self.evicting.store(false, std::sync::atomic::Ordering::Release);
    }

    fn sync_tables(&self) {
        let tables = self.tables.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for table in tables.iter().filter_map(Weak::upgrade) {
            if let Err(error) = table.sync() {
                tracing::warn!(%error, "the table of file names cannot be put on disk");
            }
        }
    }

    /// To be called each second with the seconds since the start: closes what is idle, and puts
    /// tables of names on disk now and then.
    pub fn sweep(&self, now_s: u32) {
        if now_s.is_multiple_of(TABLE_SYNC_S) {
            self.sync_tables();
        }
        self.now_s.store(now_s.max(1), Relaxed);
        let guard = self.map.guard();
        for (key, file) in self.map.iter(&guard) {
            let idle_s = now_s.saturating_sub(file.used_s.load(Relaxed));
            let writer = file.writer.get().is_some();
            if idle_s > IDLE_S || writer && idle_s > WRITER_IDLE_S {
                self.map.remove(key, &guard);
            }
        }
        guard.flush();
    }
}

#[cfg(test)]
mod tests {
    use super::{Key, OpenFile, OpenFiles};
    use vfs::{Fid, FileType};

    fn key(n: u32) -> Key {
        Key { backend: 0, fid: Fid::new(&n.to_be_bytes()).unwrap() }
    }

    fn file() -> OpenFile {
        OpenFile::new(sys::open::open_path("/".as_ref()).unwrap(), FileType::Directory)
    }

    #[test]
    fn it_stays_within_its_limit() {
        let files = OpenFiles::new(300);
        for n in 0..1000 {
            files.insert(key(n), file());
            assert!(files.len() <= files.limit() + 1);
        }
    }

    #[test]
    fn what_is_idle_is_closed_and_what_is_used_stays() {
        let files = OpenFiles::new(3000);
        files.insert(key(1), file());
        let kept = files.insert(key(2), file());
        kept.writer_or(|| sys::open::open_path("/".as_ref())).unwrap();
        files.sweep(3);
        assert_eq!(files.with(&key(2), |_| ()), Some(()));
        files.sweep(6);
        assert_eq!(files.with(&key(2), |_| ()), None, "a writer leaves after two seconds");
        assert_eq!(files.with(&key(1), |_| ()), Some(()));
        files.sweep(100);
        assert!(files.is_empty());
    }

    #[test]
    fn a_removed_file_is_really_closed() {
        let files = OpenFiles::new(3000);
        let (alive, held) = std::os::unix::net::UnixStream::pair().unwrap();
        files.insert(key(1), OpenFile::new(held.into(), FileType::Socket));
        files.remove(&key(1));
        // the other end sees the end of the stream only once our descriptor is closed
        alive.set_read_timeout(Some(std::time::Duration::from_secs(5))).unwrap();
        assert_eq!(std::io::Read::read(&mut &alive, &mut [0]).unwrap(), 0);
    }
}
