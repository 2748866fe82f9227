//! Open descriptors, kept from call to call, shared by all exports.
//!
//! What it saves: GETATTR of a cached object is one system call of 0.2 µs instead of an open by
//! handle of 1.9 µs. A look-up takes no lock, no reference count and writes no shared line: the map
//! is read under an epoch guard. Only a call that is going to block clones the `Arc`.
//!
//! Bounds: at most [`OpenFiles::limit`] entries, each of up to three descriptors (a path, one for
//! reading, one for writing). Beyond, those not used for longest (to a second) go first.
//! [`OpenFiles::sweep`], called each second, closes what has not been written for two seconds (a
//! program that was written may be run soon), everything after thirty idle seconds, and what was
//! removed behind the server's back, so that it gives its space back. What was written and is not known
//! to be on disk stays for a minute, so that whoever commits it learns of an error of the disk.

use crate::acl_cell::AclCell;
use crate::attr::file_type;
use crate::changes::Changes;
use crate::errno;
use crate::inode_table::InodeTable;
use crate::names::{self, Names};
use crate::rounds::Rounds;
use crate::unsynced::Unsynced;
use papaya::{Guard, HashMap};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant};
use sys::stat::Stat;
use vfs::{Fid, FileType};

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
/// The same of one that owes its clients a sync. The kernel writes data back after half a minute, and
/// tells of an error whoever has had the file open since then; who opens it later may not learn of it.
const OWING_IDLE_S: u32 = 60;
/// Seconds between two syncs of the tables of names: what a power cut may take of them.
const TABLE_SYNC_S: u32 = 5;
/// Seconds for which a directory counts as cached by the kernel after it was listed.
const LISTED_S: u32 = 60;
/// Idle seconds after which an entry is asked whether its object is still there: often at first,
/// because a file removed behind the server's back keeps its space while it is open.
const ASKED_S: [u32; 5] = [1, 2, 4, 8, 16];
/// Values that a batch of the map's garbage must have before it can be freed: one for each thread
/// that is inside the map at that moment. Threads do not sleep inside, so these are few.
const PADDING: u32 = 64;
/// Removed files that wait for being closed together, at the most.
const LEAVING_MAX: usize = 1024;
/// How long they wait: their space is not given back before.
const TOGETHER: Duration = Duration::from_millis(5);
/// How often descriptors are waited for, each time twice as long, half a second in all; then the
/// client is told to come again.
const ROOM_TRIES: u32 = 9;
/// Somebody who evicts for longer than this is off the CPU.
const STALLED_MS: u64 = 50;
/// The backend number of padding.
const NO_BACKEND: u32 = u32::MAX;

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
    /// Whether `path` is open for writing as well.
    path_writes: bool,
    ftype: FileType,
    /// Device and inode number, which nothing else has as long as this is open.
    id: (u64, u64),
    /// The time of creation, where it is known.
    birth: Option<(i64, u32)>,
    /// Shared with replies that send the file's pages.
    reader: OnceLock<Arc<OwnedFd>>,
    writer: OnceLock<OwnedFd>,
    /// Second of the last use, of [`OpenFiles::now_s`].
    used_s: AtomicU32,
    /// Second of the last listing, plus one; 0 is never.
    listed_s: AtomicU32,
    /// Second of the last writing.
    written_s: AtomicU32,
    unsynced: Unsynced,
    rounds: Rounds,
    changes: Changes,
    /// Whether it has been or is being taken out of the cache.
    retired: AtomicBool,
    acl: AclCell,
    /// A directory, open for listing, while nobody lists through it. Locked to take it or to put
    /// it back.
    listing: Mutex<Option<OwnedFd>>,
}

impl OpenFile {
    /// An object that was opened as a path, and its attributes.
    pub fn new(path: OwnedFd, stat: &Stat) -> Self {
        Self {
            path,
            path_writes: false,
            ftype: file_type(stat.mode),
            id: (stat.dev, stat.ino),
            birth: stat.btime,
            reader: OnceLock::new(),
            writer: OnceLock::new(),
            used_s: AtomicU32::new(0),
            listed_s: AtomicU32::new(0),
            written_s: AtomicU32::new(0),
            unsynced: Unsynced::default(),
            rounds: Rounds::default(),
            changes: Changes::default(),
            retired: AtomicBool::new(false),
            acl: AclCell::default(),
            listing: Mutex::new(None),
        }
    }

    /// A regular file that was just made, open for writing, and its attributes.
    pub fn made(fd: OwnedFd, stat: &Stat, now_s: u32) -> Self {
        let mut file = Self::new(fd, stat);
        file.path_writes = true;
        file.note_written(now_s);
        file
    }

    /// The descriptor for attributes and look-ups.
    pub fn path(&self) -> BorrowedFd<'_> {
        self.path.as_fd()
    }

    /// The type, which an object keeps for life.
    pub const fn ftype(&self) -> FileType {
        self.ftype
    }

    /// Device and inode number.
    pub const fn id(&self) -> (u64, u64) {
        self.id
    }

    /// Whether these are attributes of this very object: its number cannot be another's while it
    /// is open here. The time of creation is compared for file systems whose numbers are not to be
    /// trusted.
    pub fn is(&self, stat: &Stat) -> bool {
        self.id == (stat.dev, stat.ino) && self.birth == stat.btime
    }

    /// The descriptor for reading, if there is one already.
    pub fn reader(&self) -> Option<BorrowedFd<'_>> {
        self.reader.get().map(AsFd::as_fd)
    }

    /// The descriptor for reading, if there is one already, to be kept for longer than the object
    /// is cached.
    pub fn shared_reader(&self) -> Option<&Arc<OwnedFd>> {
        self.reader.get()
    }

    /// The descriptor for writing, if there is one already.
    pub fn writer(&self) -> Option<BorrowedFd<'_>> {
        if self.path_writes { Some(self.path()) } else { self.writer.get().map(AsFd::as_fd) }
    }

    /// The descriptor for reading; `open` makes it.
    ///
    /// # Errors
    /// Those of `open`.
    pub fn reader_or(
        &self,
        open: impl FnOnce() -> io::Result<OwnedFd>,
    ) -> io::Result<BorrowedFd<'_>> {
        opened_or(&self.reader, || open().map(Arc::new))
    }

    /// The descriptor for writing; `open` makes it.
    ///
    /// # Errors
    /// Those of `open`.
    pub fn writer_or(
        &self,
        open: impl FnOnce() -> io::Result<OwnedFd>,
    ) -> io::Result<BorrowedFd<'_>> {
        if self.path_writes { Ok(self.path()) } else { opened_or(&self.writer, open) }
    }

    /// Takes the descriptor for listing, if it is there and nobody else has it. Kept from call to
    /// call because some file systems (overlays) read a directory whole when it is opened.
    pub fn take_listing(&self) -> Option<OwnedFd> {
        self.listing.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Puts a descriptor for listing back; if there is one by now, it is closed.
    pub fn put_listing(&self, listing: OwnedFd) {
        let mut place = self.listing.lock().unwrap_or_else(PoisonError::into_inner);
        let spare = place.replace(listing);
        drop(place);
        drop(spare);
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

    /// What COMMIT would have to put on disk.
    pub const fn unsynced(&self) -> &Unsynced {
        &self.unsynced
    }

    /// Its syncs.
    pub const fn rounds(&self) -> &Rounds {
        &self.rounds
    }

    /// Who changes it.
    pub const fn changes(&self) -> &Changes {
        &self.changes
    }

    /// Whether another may stand for the object in the cache by now: nobody who asks that one
    /// learns what is done through this.
    pub fn is_retired(&self) -> bool {
        self.retired.load(SeqCst)
    }

    /// What is known of the object's ACL.
    pub const fn acl(&self) -> &AclCell {
        &self.acl
    }

    /// Whether nobody has used it for a while, or it is open for writing and nobody has written.
    fn is_idle(&self, now_s: u32) -> bool {
        let (used_s, written_s) = (self.used_s.load(Relaxed), self.written_s.load(Relaxed));
        let for_longer = |second: u32, idle_s: u32| now_s.saturating_sub(second) > idle_s;
        if self.unsynced.owes() {
            return for_longer(used_s.max(written_s), OWING_IDLE_S);
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

    /// Whether the object has lost its last name.
    fn is_removed(&self) -> bool {
        sys::stat::of_fd(self.path()).is_ok_and(|stat| stat.nlink == 0)
    }

    fn use_at(&self, now_s: u32) {
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

/// Removed files that are still open. Locked to add one, or to take all.
#[derive(Default)]
struct Leaving {
    keys: Mutex<Vec<Key>>,
    /// The first has come.
    filled: Condvar,
}

/// The cache.
pub struct OpenFiles {
    /// `None` is padding, see [`OpenFiles::settle`].
    map: HashMap<Key, Option<Arc<OpenFile>>, foldhash::fast::RandomState>,
    limit: usize,
    /// Seconds since the start, as [`OpenFiles::sweep`] was told.
    now_s: AtomicU32,
    /// When the cache was made.
    epoch: Instant,
    /// Since when somebody evicts, after `epoch`; 0 if nobody does.
    evicting_ms: AtomicU64,
    next_backend: AtomicU32,
    /// What names led to lately.
    names: Names,
    leaving: Leaving,
    /// The tables of names that are in use. Locked to copy or to add.
    tables: Mutex<Vec<Weak<InodeTable>>>,
}

impl OpenFiles {
    /// A cache for a process that may have this many descriptors.
    pub fn new(descriptors_max: u64) -> Self {
        let share = descriptors_max.saturating_sub(RESERVE.min(descriptors_max / 2)) / 3;
        let share = usize::try_from(share).unwrap_or(ENTRIES_MAX);
        let limit = share.clamp(ENTRIES_MIN, ENTRIES_MAX);
        Self {
            map: HashMap::with_hasher(foldhash::fast::RandomState::default()),
            limit,
            names: Names::new(names::SLOTS),
            now_s: AtomicU32::new(1),
            epoch: Instant::now(),
            evicting_ms: AtomicU64::new(0),
            next_backend: AtomicU32::new(0),
            leaving: Leaving::default(),
            tables: Mutex::default(),
        }
    }

    /// The same with this many entries at most: each is memory of the kernel.
    #[must_use]
    pub fn at_most(self, entries: usize) -> Self {
        Self { limit: self.limit.min(entries).max(ENTRIES_MIN), ..self }
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

    /// What names led to lately.
    pub(crate) const fn names(&self) -> &Names {
        &self.names
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
        let file = self.map.get(key, &guard)?.as_ref()?;
        file.use_at(self.now_s());
        Some(work(file))
    }

    /// Adds an object, unless it is there already; gives the one that is there.
    pub fn insert(&self, key: Key, file: OpenFile) -> Arc<OpenFile> {
        file.use_at(self.now_s());
        let len = self.map.len();
        if len >= self.limit {
            self.evict(len - self.limit + self.limit / 8 + 1);
        }
        let guard = self.map.guard();
        let file = Arc::new(file);
        match self.map.try_insert(key, Some(Arc::clone(&file)), &guard) {
            Ok(_) => file,
            Err(occupied) => occupied.current.as_ref().map_or(file, Arc::clone),
        }
    }

    /// Closes an object, once nobody uses it.
    pub fn remove(&self, key: &Key) {
        let guard = self.map.guard();
        let gone = self.take_out(key, &guard);
        drop(guard);
        if let Some(gone) = gone {
            self.settle(&[gone]);
        }
    }

    /// Takes an object out of the map. It counts as retired before another can be put in its place.
    fn take_out(&self, key: &Key, guard: &impl Guard) -> Option<Weak<OpenFile>> {
        loop {
            let file = self.map.get(key, guard)?.as_ref()?;
            if self.take_out_this(key, file, guard) {
                return Some(Arc::downgrade(file));
            }
            // somebody else has taken it out, and may have put another in
        }
    }

    /// Takes this very entry out of the map, if it is there still. It is retired first.
    fn take_out_this(&self, key: &Key, file: &Arc<OpenFile>, guard: &impl Guard) -> bool {
        file.retired.store(true, SeqCst);
        let same = |_: &Key, now: &Option<Arc<OpenFile>>| {
            now.as_ref().is_some_and(|now| Arc::ptr_eq(now, file))
        };
        matches!(self.map.remove_if(key, same, guard), Ok(Some(_)))
    }

    /// Closes a file that was removed, together with others in a few milliseconds: to close one
    /// by itself interrupts every processor (see [`OpenFiles::settle`]), at five times the price of
    /// removing a small file. Needs somebody who calls [`OpenFiles::close_leaving`].
    pub fn leave(&self, key: Key) {
        let mut keys = self.leaving.keys.lock().unwrap_or_else(PoisonError::into_inner);
        keys.push(key);
        let count = keys.len();
        drop(keys);
        if count == 1 {
            self.leaving.filled.notify_one();
        } else if count >= LEAVING_MAX {
            self.close_left();
        }
    }

    /// Waits for files that leave, for `patience` at the most, and closes those that came together.
    pub fn close_leaving(&self, patience: Duration) {
        let keys = self.leaving.keys.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.leaving.filled.wait_timeout_while(keys, patience, |keys| keys.is_empty());
        drop(waited);
        std::thread::sleep(TOGETHER);
        self.close_left();
    }

    /// Closes the files that leave, now; says whether there were any.
    pub fn close_left(&self) -> bool {
        let keys = {
            let mut keys = self.leaving.keys.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::take(&mut *keys)
        };
        let guard = self.map.guard();
        let gone: Vec<_> = keys.iter().filter_map(|key| self.take_out(key, &guard)).collect();
        drop(guard);
        self.settle(&gone);
        !keys.is_empty()
    }

    /// Closes everything of a backend that goes away.
    pub fn remove_backend(&self, backend: u32) {
        self.close_if(usize::MAX, |key, _| key.backend == backend);
    }

    /// Closes up to `most` entries that `judge` condemns; says how many.
    fn close_if(&self, most: usize, judge: impl Fn(&Key, &OpenFile) -> bool) -> usize {
        let guard = self.map.guard();
        let mut gone: Vec<Weak<OpenFile>> = Vec::new();
        for (key, file) in self.map.iter(&guard) {
            let Some(file) = file else { continue };
            if gone.len() >= most {
                break;
            }
            if judge(key, file) && self.take_out_this(key, file, &guard) {
                gone.push(Arc::downgrade(file));
            }
        }
        drop(guard);
        self.settle(&gone);
        gone.len()
    }

    /// Has the map free what was taken out of it, so that its descriptors are closed now and not
    /// when others are. The map's garbage is freed in batches of more values than threads are
    /// inside the map; a batch that is too small is filled up with padding.
    fn settle(&self, gone: &[Weak<OpenFile>]) {
        if gone.is_empty() {
            return;
        }
        self.map.guard().flush();
        if gone.iter().all(|file| file.strong_count() == 0) {
            return;
        }
        let guard = self.map.guard();
        for number in 0..PADDING {
            let Some(fid) = Fid::new(&number.to_ne_bytes()) else { break };
            let key = Key { backend: NO_BACKEND, fid };
            self.map.insert(key, None, &guard);
            self.map.remove(&key, &guard);
        }
        guard.flush();
    }

    /// Runs something that opens descriptors; if there are none left, closes some and tries again.
    ///
    /// # Errors
    /// Those of `open`; still out of descriptors if eviction did not help.
    pub fn opening<T>(&self, open: impl Fn() -> io::Result<T>) -> io::Result<T> {
        self.with_room(errno::out_of_descriptors, || match open() {
            Err(e) if errno::out_of_space(&e) && self.close_left() => open(),
            other => other,
        })
    }

    /// Runs something that opens descriptors; as long as there `are_none` left, closes some and tries
    /// again, [`ROOM_TRIES`] times. In between the threads that still look at what is to be closed have
    /// time to let go: one that was interrupted while it did may be behind all others of a busy CPU.
    ///
    /// # Errors
    /// Those of `open`.
    pub fn with_room<T, E>(
        &self,
        are_none: impl Fn(&E) -> bool,
        open: impl Fn() -> Result<T, E>,
    ) -> Result<T, E> {
        for attempt in 0..ROOM_TRIES {
            match open() {
                Err(error) if are_none(&error) => {}
                other => return other,
            }
            if attempt.is_multiple_of(4) {
                self.make_room();
            }
            if attempt > 0 {
                std::thread::sleep(Duration::from_millis(1 << attempt));
            }
        }
        open()
    }

    /// Closes a quarter of what is open: there are no descriptors left.
    pub fn make_room(&self) {
        self.evict(self.map.len() / 4 + 8);
    }

    /// Closes about `count` entries, those idle for longest first. One thread at a time; others
    /// go on without, unless that one has been at it for [`STALLED_MS`]: it may be off its CPU for
    /// as long as they need to fill the table.
    fn evict(&self, count: usize) {
        let now_ms = self.epoch.elapsed().as_millis().saturating_add(1);
        let now_ms = u64::try_from(now_ms).unwrap_or(u64::MAX);
        let since_ms = self.evicting_ms.load(Relaxed);
        let busy = since_ms != 0 && now_ms.saturating_sub(since_ms) < STALLED_MS;
        let taken =
            || self.evicting_ms.compare_exchange(since_ms, now_ms, SeqCst, Relaxed).is_err();
        if busy || taken() {
            return;
        }
        let now_s = self.now_s();
        let mut left = count;
        for idle_s in [8, 2, 1, 0] {
            let idle = |file: &OpenFile| now_s.saturating_sub(file.used_s.load(Relaxed));
            left -= self.close_if(left, |_, file| idle(file) >= idle_s);
            if left == 0 {
                break;
            }
        }
        // unless another has taken over
        let _ = self.evicting_ms.compare_exchange(now_ms, 0, SeqCst, Relaxed);
    }

    fn sync_tables(&self) {
        let tables = self.tables.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for table in tables.iter().filter_map(Weak::upgrade) {
            if let Err(error) = table.tidy() {
                tracing::warn!(%error, "the table of file names cannot be written anew, and grows");
            }
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
        self.close_if(usize::MAX, |_, file| {
            let idle_s = now_s.saturating_sub(file.used_s.load(Relaxed));
            file.is_idle(now_s) || ASKED_S.contains(&idle_s) && file.is_removed()
        });
    }
}

#[cfg(test)]
mod tests {
    use super::{Key, OpenFile, OpenFiles};
    use std::os::fd::{AsFd, OwnedFd};
    use vfs::Fid;

    fn key(n: u32) -> Key {
        Key { backend: 0, fid: Fid::new(&n.to_be_bytes()).unwrap() }
    }

    fn opened(fd: OwnedFd) -> OpenFile {
        let stat = sys::stat::of_fd(fd.as_fd()).unwrap();
        OpenFile::new(fd, &stat)
    }

    fn file() -> OpenFile {
        opened(sys::open::open_path("/".as_ref()).unwrap())
    }

    #[test]
    fn descriptors_that_are_let_go_late_are_waited_for() {
        let files = OpenFiles::new(300);
        let tries = std::cell::Cell::new(0);
        let open = |until: u32| {
            tries.set(tries.get() + 1);
            let none = || std::io::Error::from_raw_os_error(24);
            if tries.get() < until { Err(none()) } else { Ok(()) }
        };
        files.opening(|| open(6)).unwrap();
        assert_eq!(tries.replace(0), 6);
        let begun = std::time::Instant::now();
        assert!(files.opening(|| open(u32::MAX)).is_err(), "not for ever");
        assert!(begun.elapsed() > std::time::Duration::from_millis(500));
    }

    #[test]
    fn files_that_leave_are_closed_together_and_soon() {
        let files = std::sync::Arc::new(OpenFiles::new(300));
        let held: Vec<_> = (0..40).map(|n| files.insert(key(n), file())).collect();
        let weak: Vec<_> = held.iter().map(std::sync::Arc::downgrade).collect();
        drop(held);
        for n in 0..40 {
            files.leave(key(n));
        }
        assert!(weak.iter().all(|file| file.strong_count() > 0), "not one by one");
        files.close_leaving(std::time::Duration::from_secs(60));
        assert!(weak.iter().all(|file| file.strong_count() == 0));
        assert!(files.is_empty() && !files.close_left());
        // nobody closes them: there is a bound all the same
        for n in 0..super::LEAVING_MAX as u32 {
            files.insert(key(n), file());
            files.leave(key(n));
        }
        assert!(files.is_empty());
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
    fn one_that_evicts_and_is_off_its_cpu_does_not_stop_the_others_for_long() {
        let files = OpenFiles::new(300);
        files.evicting_ms.store(1, super::SeqCst);
        for n in 0..60 {
            files.insert(key(n), file());
        }
        assert_eq!(files.len(), 60, "the other one is thought to be at it");
        std::thread::sleep(std::time::Duration::from_millis(super::STALLED_MS + 1));
        files.insert(key(60), file());
        assert!(files.len() <= files.limit(), "the next catches up at once");
    }

    #[test]
    fn what_is_idle_is_closed_and_what_is_used_stays() {
        let files = OpenFiles::new(3000);
        files.insert(key(1), file());
        let kept = files.insert(key(2), file());
        kept.writer_or(|| sys::open::open_path("/".as_ref())).unwrap();
        kept.note_written(1);
        files.sweep(3);
        assert_eq!(files.with(&key(2), |_| ()), Some(()));
        files.sweep(4);
        let left = files.with(&key(2), |_| ());
        assert_eq!(left, None, "a writer leaves after two seconds, though others read");
        assert_eq!(files.with(&key(1), |_| ()), Some(()));
        files.sweep(100);
        assert!(files.is_empty());
    }

    #[test]
    fn what_may_not_be_on_disk_stays_open_until_it_is_or_for_a_minute() {
        let files = OpenFiles::new(3000);
        let written = |n| {
            let file = files.insert(key(n), file());
            file.writer_or(|| sys::open::open_path("/".as_ref())).unwrap();
            file.note_written(1);
            file.unsynced().note_write();
            file
        };
        written(1);
        let synced = written(2);
        let is_there = |n| files.with(&key(n), |_| ()).is_some();
        files.sweep(4);
        assert!(is_there(1) && is_there(2));
        synced.unsynced().done(synced.unsynced().begin().unwrap());
        files.sweep(5);
        assert!(is_there(1) && !is_there(2));
        // that was a use
        files.sweep(65);
        assert_eq!(files.len(), 1);
        files.sweep(66);
        assert!(files.is_empty());
    }

    #[test]
    fn a_removed_file_is_really_closed() {
        let files = OpenFiles::new(3000);
        let (alive, held) = std::os::unix::net::UnixStream::pair().unwrap();
        files.insert(key(1), opened(held.into()));
        files.remove(&key(1));
        // the other end sees the end of the stream only once our descriptor is closed
        alive.set_read_timeout(Some(std::time::Duration::from_secs(5))).unwrap();
        assert_eq!(std::io::Read::read(&mut &alive, &mut [0]).unwrap(), 0);
    }

    #[test]
    fn a_removed_file_is_closed_at_once_while_others_use_the_cache() {
        let files = std::sync::Arc::new(OpenFiles::new(30_000));
        let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
        files.insert(key(u32::MAX), file());
        let readers = [(); 3].map(|()| {
            let (files, stop) = (files.clone(), stop.clone());
            std::thread::spawn(move || {
                while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                    assert_eq!(files.with(&key(u32::MAX), |_| ()), Some(()));
                }
            })
        });
        for n in 0..300 {
            let held = std::sync::Arc::downgrade(&files.insert(key(n), file()));
            files.remove(&key(n));
            // a reader that was inside the map at that moment frees it when it leaves
            let until = std::time::Instant::now() + std::time::Duration::from_secs(5);
            while held.strong_count() > 0 {
                assert!(std::time::Instant::now() < until, "still open");
                std::thread::yield_now();
            }
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        readers.into_iter().for_each(|reader| reader.join().unwrap());
    }

    #[test]
    fn what_was_removed_behind_our_back_is_closed_by_the_sweep() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        let fd = std::fs::File::create(&path).unwrap().into();
        let files = OpenFiles::new(3000);
        files.sweep(10);
        files.insert(key(1), opened(fd));
        files.sweep(11);
        assert!(!files.is_empty());
        std::fs::remove_file(&path).unwrap();
        files.sweep(12);
        assert!(files.is_empty());
    }

    #[test]
    fn a_backend_that_goes_takes_only_its_own_with_it() {
        let files = OpenFiles::new(3000);
        files.insert(key(1), file());
        files.insert(Key { backend: 1, ..key(1) }, file());
        files.remove_backend(0);
        assert_eq!((files.len(), files.with(&key(1), |_| ())), (1, None));
    }
}
