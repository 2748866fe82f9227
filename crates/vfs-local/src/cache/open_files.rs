//! Open descriptors, kept between calls, shared by all exports.
//!
//! Benefit: GETATTR of a cached object is one system call of 0.2 µs instead of an open by handle of 1.9 µs. A look-up
//! takes no lock and no reference count and writes no shared cache line: the map is read under an epoch guard. Only
//! a call that is going to block clones the `Arc`.
//!
//! Bounds: at most [`OpenFiles::limit`] entries, each of up to three descriptors (a path, one for reading, one for
//! writing). Beyond, the least recently used (to a second) are closed first. [`OpenFiles::sweep`], called each second,
//! closes files not written for two seconds (a written program may be run soon), everything after thirty idle seconds,
//! and files that were removed by local programs, so that their space is freed. Files with writes that are not known to
//! be on disk stay for a minute, so that a COMMIT gets an error of the disk.

use crate::cache::attr_cache::{AttrCache, AttrCacheCounts, AttrTable};
use crate::cache::change_attr::{SETTLED_S, is_settled};
use crate::cache::closers::{CloseQueue, Closers};
use crate::cache::kept_files::KeptFiles;
use crate::cache::kept_listings::KeptListings;
use crate::cache::key::Key;
use crate::cache::leases::Leases;
use crate::cache::name_cache::{self, NameCache};
use crate::cache::open_file::OpenFile;
use crate::cache::unlinked_files::UnlinkedFiles;
use crate::errno;
use crate::naming::inode_table::InodeTable;
use papaya::{Guard, HashMap};
use std::collections::HashMap as HashMapOfStd;
use std::io;
use std::sync::atomic::{
    AtomicI64, AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed, Ordering::SeqCst,
};
use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};
use sys::descriptors::DescriptorBudget;
use vfs::{Fid, Time};

/// The most entries, whatever the limit of descriptors is.
const ENTRIES_MAX: usize = 65_536;
/// Descriptors that an entry may have: a path, one for reading, one for writing.
const DESCRIPTORS_PER_ENTRY: usize = 3;
/// The fewest entries.
const ENTRIES_MIN: usize = 16;
/// Seconds between two syncs of the tables of names: what a power cut may lose of them.
const TABLE_SYNC_S: u32 = 5;
/// Idle seconds after which an entry is checked for removal of its object: often at first, because
/// a file removed by a local program keeps its space while it is open.
const LINK_CHECK_IDLE_S: [u32; 5] = [1, 2, 4, 8, 16];
/// Values that a batch of the map's garbage must have before it can be freed: one for each thread
/// that is inside the map at that moment. Threads do not sleep inside, so these are few.
const PADDING: u32 = 64;
/// Removed files that wait for being closed together, at most.
const REMOVED_MAX: usize = 1024;
/// How long they wait: their space is not freed before.
const CLOSE_DELAY: Duration = Duration::from_millis(5);
/// How long a thread that found an object removed, or needs descriptors, waits for others to close them.
const CLOSE_PATIENCE: Duration = Duration::from_millis(50);
/// How long a thread that is out of space waits for removed files to be closed.
const FREE_PATIENCE: Duration = Duration::from_millis(500);
/// Number of waits for descriptors, each twice as long, half a second in all; then the client must
/// retry.
const DESCRIPTOR_TRIES: u32 = 9;
/// A thread that evicts for longer than this has been preempted.
const EVICTION_STALLED_MS: u64 = 50;
/// The backend number of padding.
const NO_BACKEND: u32 = u32::MAX;

/// Removed files that are still open. Locked to add one, or to take all.
#[derive(Default)]
struct RemovedFiles {
    keys: Mutex<Vec<Key>>,
    /// The first has been added.
    filled: Condvar,
}

/// The cache.
pub struct OpenFiles {
    /// `None` is padding, see [`OpenFiles::flush_garbage`].
    pub(super) map: HashMap<Key, Option<Arc<OpenFile>>, foldhash::fast::RandomState>,
    /// The descriptor budget of the process.
    descriptors: Arc<DescriptorBudget>,
    entries_max: usize,
    /// Seconds since the start, as [`OpenFiles::sweep`] was told.
    now_s: AtomicU32,
    /// When the cache was made.
    epoch: Instant,
    /// Since when a thread evicts, after `epoch`; 0 if none does.
    evicting_ms: AtomicU64,
    /// How many entries stand in front of those that are to be looked at next for eviction; about.
    evicted_to: AtomicUsize,
    /// Entries that were left by an eviction which found too few; 0 after one that found enough, and each second.
    stuck: AtomicUsize,
    next_backend: AtomicU32,
    /// Which files are kept: their entries are pinned.
    pub(super) kept: KeptFiles,
    /// Which of them have lost their last name.
    pub(crate) unlinked: UnlinkedFiles,
    /// The clock's second at the last [`OpenFiles::sweep`].
    wall_s: AtomicI64,
    /// Recent results of look-ups.
    names: NameCache,
    /// Attributes that were read a moment ago.
    pub(crate) attrs: AttrCache,
    /// Names of directories that were listed a moment ago.
    pub(crate) listings: KeptListings,
    removed: RemovedFiles,
    /// Before the closers, by which its descriptors are closed.
    pub(crate) leases: Leases,
    closers: Closers,
    /// The tables of names that are in use. Locked to copy or to add.
    tables: Mutex<Vec<Weak<InodeTable>>>,
}

impl OpenFiles {
    /// A cache for a process that may have this many descriptors and has no connections.
    pub fn new(descriptors_max: u64) -> Self {
        Self::with_descriptors_of(Arc::new(DescriptorBudget::new(descriptors_max)))
    }

    /// A cache for a process whose connections take from the same descriptors.
    pub fn with_descriptors_of(descriptors: Arc<DescriptorBudget>) -> Self {
        Self {
            map: HashMap::with_hasher(foldhash::fast::RandomState::default()),
            descriptors,
            entries_max: ENTRIES_MAX,
            names: NameCache::new(name_cache::SLOTS),
            attrs: AttrCache::new(ENTRIES_MAX),
            listings: KeptListings::new(ENTRIES_MAX),
            now_s: AtomicU32::new(1),
            epoch: Instant::now(),
            evicting_ms: AtomicU64::new(0),
            evicted_to: AtomicUsize::new(0),
            stuck: AtomicUsize::new(0),
            next_backend: AtomicU32::new(0),
            kept: KeptFiles::default(),
            unlinked: UnlinkedFiles::default(),
            wall_s: AtomicI64::new(Time::now().sec),
            removed: RemovedFiles::default(),
            leases: Leases::default(),
            closers: Closers::default(),
            tables: Mutex::default(),
        }
    }

    /// The same with this many entries at most: each is memory of the kernel.
    #[must_use]
    pub fn with_entries_max(self, entries: usize) -> Self {
        let entries_max = self.entries_max.min(entries).max(ENTRIES_MIN);
        let (attrs, listings) = (AttrCache::new(entries_max), KeptListings::new(entries_max));
        Self { entries_max, attrs, listings, ..self }
    }

    /// A number for a backend that uses the cache.
    pub fn register(&self) -> u32 {
        self.next_backend.fetch_add(1, Relaxed)
    }

    /// The queue that closes the descriptors of a backend.
    pub(crate) fn close_queue(&self) -> Arc<CloseQueue> {
        self.closers.queue()
    }

    /// Adds a table that must be synced periodically.
    pub(crate) fn add_table(&self, table: &Arc<InodeTable>) {
        let mut tables = self.tables.lock().unwrap_or_else(PoisonError::into_inner);
        tables.retain(|known| known.strong_count() > 0);
        tables.push(Arc::downgrade(table));
    }

    /// Recent results of look-ups.
    pub(crate) const fn names(&self) -> &NameCache {
        &self.names
    }

    /// How often attributes came from those read a moment ago (`attr-cache`).
    pub fn attr_cache_counts(&self) -> AttrCacheCounts {
        self.attrs.in_use().map(AttrTable::counts).unwrap_or_default()
    }

    /// The most entries, as of now.
    pub fn limit(&self) -> usize {
        let share = self.descriptors.files() / DESCRIPTORS_PER_ENTRY;
        share.clamp(ENTRIES_MIN, self.entries_max)
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

    /// Whether a change that is made now gives another ctime than this. Asks the clock only about changes of the last
    /// seconds.
    pub fn is_settled(&self, ctime: Time) -> bool {
        let long_ago = ctime.sec.saturating_add(SETTLED_S) < self.wall_s.load(Relaxed);
        long_ago || is_settled(ctime, Time::now())
    }

    /// Runs `work` on an open object if it is cached; it must not block.
    pub fn with<T>(&self, key: &Key, work: impl FnOnce(&Arc<OpenFile>) -> T) -> Option<T> {
        let guard = self.map.guard();
        let file = self.map.get(key, &guard)?.as_ref()?;
        file.use_at(self.now_s());
        Some(work(file))
    }

    /// Makes room for `coming` more entries. The limit falls when clients connect. If it is exceeded by entries that cannot
    /// be evicted, not every new one has all others looked at.
    fn make_room(&self, coming: usize) {
        let (len, limit) = (self.map.len() + coming, self.limit());
        if len > limit && len > self.stuck.load(Relaxed) + limit / 8 {
            self.evict(len - limit + limit / 8);
        }
    }

    /// Adds an object, unless it is present; returns the one that is present. Open files are passed by reference
    /// count: one is several hundred bytes.
    pub fn insert(&self, key: Key, file: Arc<OpenFile>) -> Arc<OpenFile> {
        file.use_at(self.now_s());
        if self.kept.has(&key) {
            file.try_pin();
        }
        self.make_room(1);
        let guard = self.map.guard();
        match self.map.try_insert(key, Some(Arc::clone(&file)), &guard) {
            Ok(_) => {
                // when others can see it: whoever gives the file its hidden name has noted that before
                self.note_hidden_link(&key.fid, &file);
                file
            }
            Err(occupied) => occupied.current.as_ref().map_or(file, Arc::clone),
        }
    }

    /// Closes an object, once no call uses it, and waits a moment for that: as long as it is open it can be opened
    /// by its handle, although it was removed.
    pub fn remove(&self, key: &Key) {
        let guard = self.map.guard();
        let gone = self.retire(key, &guard);
        drop(guard);
        let Some(gone) = gone else { return };
        let queue = gone.upgrade().and_then(|file| file.queue().map(Arc::clone));
        self.flush_garbage(&[gone]);
        if let Some(queue) = queue.filter(|queue| !queue.hangs()) {
            queue.wait(CLOSE_PATIENCE);
        }
    }

    /// Takes an object out of the map. It counts as retired before another can be put in its slot.
    fn retire(&self, key: &Key, guard: &impl Guard) -> Option<Weak<OpenFile>> {
        loop {
            let file = self.map.get(key, guard)?.as_ref()?;
            if self.retire_entry(key, file, guard) {
                return Some(Arc::downgrade(file));
            }
            if file.is_pinned() {
                return None;
            }
            // somebody else has taken it out, and may have put another in
        }
    }

    /// Takes this very entry out of the map, if it is there still and not pinned. It is retired first.
    fn retire_entry(&self, key: &Key, file: &Arc<OpenFile>, guard: &impl Guard) -> bool {
        file.try_retire() && self.take_out(key, file, guard)
    }

    /// Takes this very entry out of the map, if it is there still. It has been retired.
    pub(super) fn take_out(&self, key: &Key, file: &Arc<OpenFile>, guard: &impl Guard) -> bool {
        let same = |_: &Key, now: &Option<Arc<OpenFile>>| {
            now.as_ref().is_some_and(|now| Arc::ptr_eq(now, file))
        };
        matches!(self.map.remove_if(key, same, guard), Ok(Some(_)))
    }

    /// Closes a file that was removed, together with others in a few milliseconds: to close one by itself interrupts every
    /// processor ([`OpenFiles::flush_garbage`]), at five times the price of removing it. Needs [`OpenFiles::close_removed`].
    pub fn close_later(&self, key: Key) {
        let mut keys = self.removed.keys.lock().unwrap_or_else(PoisonError::into_inner);
        keys.push(key);
        let count = keys.len();
        drop(keys);
        if count == 1 {
            self.removed.filled.notify_one();
        } else if count >= REMOVED_MAX {
            self.close_removed_now();
        }
    }

    /// Waits for removed files, for `patience` at most, and closes those that have accumulated.
    pub fn close_removed(&self, patience: Duration) {
        let keys = self.removed.keys.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.removed.filled.wait_timeout_while(keys, patience, |keys| keys.is_empty());
        drop(waited);
        std::thread::sleep(CLOSE_DELAY);
        self.close_removed_now();
    }

    /// Closes the removed files now; returns whether there were any.
    pub fn close_removed_now(&self) -> bool {
        let keys = {
            let mut keys = self.removed.keys.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::take(&mut *keys)
        };
        let guard = self.map.guard();
        let gone: Vec<_> = keys.iter().filter_map(|key| self.retire(key, &guard)).collect();
        drop(guard);
        self.flush_garbage(&gone);
        !keys.is_empty()
    }

    /// Closes the removed files, and waits a while for their space; returns whether there were any.
    pub fn free_removed(&self) -> bool {
        let any = self.close_removed_now();
        if any {
            self.closers.wait(FREE_PATIENCE);
        }
        any
    }

    /// Closes everything of a removed backend.
    pub fn remove_backend(&self, backend: u32) {
        self.unpin_backend(backend);
        self.close_if(usize::MAX, |key, _| key.backend == backend);
    }

    /// Closes everything, kept files as well, and waits for it at the end of the process.
    pub fn close_all(&self) {
        let guard = self.map.guard();
        let mut gone = Vec::new();
        for (key, file) in self.map.iter(&guard) {
            let Some(file) = file else { continue };
            file.retire();
            self.take_out(key, file, &guard);
            gone.push(Arc::downgrade(file));
        }
        drop(guard);
        self.flush_garbage(&gone);
        self.closers.wait(Duration::MAX);
    }

    /// Closes up to `most` entries that `condition` selects; returns how many.
    fn close_if(&self, most: usize, condition: impl Fn(&Key, &OpenFile) -> bool) -> usize {
        let guard = self.map.guard();
        let mut gone: Vec<Weak<OpenFile>> = Vec::new();
        self.take_in_turn(most, &guard, |key, file| {
            let is_taken = condition(key, file) && self.retire_entry(key, file, &guard);
            if is_taken {
                gone.push(Arc::downgrade(file));
            }
            is_taken
        });
        drop(guard);
        self.flush_garbage(&gone);
        gone.len()
    }

    /// Passes entries on until `most` have been taken: those behind the ones that it ended with last time come first. If it
    /// always began at the same end of the map, the other end would fill up: a map that is half empty has no place there
    /// for another entry then, and papaya (0.2.5) copies it to one of the same size, with the same places, without end.
    pub(super) fn take_in_turn<G: Guard>(
        &self,
        most: usize,
        guard: &G,
        mut take: impl FnMut(&Key, &Arc<OpenFile>) -> bool,
    ) {
        let (begin, len) = (self.evicted_to.load(Relaxed), self.map.len());
        let behind = self.map.iter(guard).skip(begin);
        let all = behind.chain(self.map.iter(guard).take(begin));
        let (mut looked_at, mut taken) = (0_usize, 0_usize);
        for (key, file) in all {
            if taken >= most {
                break;
            }
            looked_at = looked_at.saturating_add(1);
            if file.as_ref().is_some_and(|file| take(key, file)) {
                taken = taken.saturating_add(1);
            }
        }
        // by the next time as many have come in front of that as were taken
        let end = begin.saturating_add(looked_at).checked_rem(len);
        self.evicted_to.store(end.unwrap_or(0), Relaxed);
    }

    /// Has the map free what was taken out of it, so that its descriptors are closed now and not
    /// when others are. The map's garbage is freed in batches of more values than threads are
    /// inside the map; a batch that is too small is filled up with padding.
    pub(super) fn flush_garbage(&self, gone: &[Weak<OpenFile>]) {
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
    pub fn open_with_retry<T>(&self, open: impl Fn() -> io::Result<T>) -> io::Result<T> {
        self.with_descriptors(errno::out_of_descriptors, || match open() {
            Err(e) if errno::out_of_space(&e) && self.free_removed() => open(),
            other => other,
        })
    }

    /// Runs something that opens descriptors; as long as there `are_none` left, closes some and tries
    /// again, [`DESCRIPTOR_TRIES`] times. In between the threads that still look at what is to be closed have
    /// time to let go: one that was interrupted while it did may be behind all others of a busy CPU.
    ///
    /// # Errors
    /// Those of `open`.
    pub fn with_descriptors<T, E>(
        &self,
        are_none: impl Fn(&E) -> bool,
        open: impl Fn() -> Result<T, E>,
    ) -> Result<T, E> {
        for attempt in 0..DESCRIPTOR_TRIES {
            match open() {
                Err(error) if are_none(&error) => {}
                other => return other,
            }
            if attempt.is_multiple_of(4) {
                self.evict_some();
            }
            if attempt > 0 {
                std::thread::sleep(Duration::from_millis(1 << attempt));
            }
        }
        open()
    }

    /// Closes a quarter of what is open, and waits a moment for that: there are no descriptors left.
    pub fn evict_some(&self) {
        self.evict(self.map.len() / 4 + 8);
        self.closers.wait(CLOSE_PATIENCE);
    }

    /// Closes about `count` entries, those idle for longest first. One thread at a time; others
    /// go on without, unless that one has been at it for [`EVICTION_STALLED_MS`]: it may be off its CPU for
    /// as long as they need to fill the table.
    fn evict(&self, count: usize) {
        let now_ms = self.epoch.elapsed().as_millis().saturating_add(1);
        let now_ms = u64::try_from(now_ms).unwrap_or(u64::MAX);
        let since_ms = self.evicting_ms.load(Relaxed);
        let busy = since_ms != 0 && now_ms.saturating_sub(since_ms) < EVICTION_STALLED_MS;
        let taken =
            || self.evicting_ms.compare_exchange(since_ms, now_ms, SeqCst, Relaxed).is_err();
        if busy || taken() {
            return;
        }
        let now_s = self.now_s();
        let mut left = count;
        for idle_s in [8, 2, 1, 0] {
            left -= self.close_if(left, |_, file| file.idle_s(now_s) >= idle_s);
            if left == 0 {
                break;
            }
        }
        if left > 0 && self.kept.len() > self.limit() / 2 {
            left -= self.close_named(left);
            if left > 0 {
                self.close_data_of_removed();
            }
        }
        self.stuck.store(if left > 0 { self.map.len() } else { 0 }, Relaxed);
        // unless another has taken over
        let _ = self.evicting_ms.compare_exchange(now_ms, 0, SeqCst, Relaxed);
    }

    /// Closes a file's descriptors for data, and waits a moment for that; false if data that was written by them is not
    /// known to be on disk. A call that uses them now keeps them open.
    pub fn close_data(&self, key: &Key) -> bool {
        let guard = self.map.guard();
        let Some(Some(file)) = self.map.get(key, &guard) else { return true };
        if file.unsynced().has_unsynced() {
            return false;
        }
        let queue = file.queue().map(Arc::clone);
        let gone = if file.is_pinned() {
            let Some(gone) = self.reduce_to_path(key, file, &guard) else { return false };
            gone
        } else {
            file.retire();
            self.take_out(key, file, &guard);
            Arc::downgrade(file)
        };
        drop(guard);
        self.flush_garbage(&[gone]);
        if let Some(queue) = queue.filter(|queue| !queue.hangs()) {
            queue.wait(CLOSE_PATIENCE);
        }
        true
    }

    fn sync_tables(&self) {
        let tables = self.tables.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for table in tables.iter().filter_map(Weak::upgrade) {
            if let Err(error) = table.compact() {
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
        self.wall_s.store(Time::now().sec, Relaxed);
        self.stuck.store(0, Relaxed);
        self.make_room(0);
        self.close_idle_writers(now_s);
        self.check_for_removed(now_s);
        self.close_if(usize::MAX, |_, file| file.is_idle(now_s) || file.was_removed());
    }

    /// Checks idle entries for the removal of their last name: those of a backend by the thread that closes its
    /// files, because a file system may not answer.
    fn check_for_removed(&self, now_s: u32) {
        type Asked = (Arc<CloseQueue>, Vec<Arc<OpenFile>>);
        let mut of_queues: HashMapOfStd<usize, Asked> = HashMapOfStd::new();
        let guard = self.map.guard();
        for (_, file) in self.map.iter(&guard) {
            let Some(file) = file else { continue };
            if !LINK_CHECK_IDLE_S.contains(&file.idle_s(now_s)) {
                continue;
            }
            match file.queue() {
                Some(queue) => {
                    let of = of_queues.entry(Arc::as_ptr(queue).addr());
                    let (_, files) = of.or_insert_with(|| (Arc::clone(queue), Vec::new()));
                    files.push(Arc::clone(file));
                }
                None => file.check_for_removal(),
            }
        }
        drop(guard);
        for (queue, files) in of_queues.into_values() {
            queue.ask(move || files.iter().for_each(|file| file.check_for_removal()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::OpenFiles;
    use crate::cache::key::Key;
    use crate::cache::open_file::OpenFile;
    use std::os::fd::{AsFd, OwnedFd};
    use std::sync::Arc;
    use sys::descriptors::DescriptorBudget;
    use vfs::Fid;

    fn key(n: u32) -> Key {
        Key { backend: 0, fid: Fid::new(&n.to_be_bytes()).unwrap() }
    }

    fn opened(fd: OwnedFd) -> Arc<OpenFile> {
        let stat = sys::stat::of_fd(fd.as_fd()).unwrap();
        Arc::new(OpenFile::new(fd, &stat))
    }

    fn dup(file: &OpenFile) -> OwnedFd {
        file.path().try_clone_to_owned().unwrap()
    }

    fn file() -> Arc<OpenFile> {
        opened(sys::open::open_path("/".as_ref()).unwrap())
    }

    #[test]
    fn opening_waits_for_descriptors_to_be_released() {
        let files = OpenFiles::new(300);
        let tries = std::cell::Cell::new(0);
        let open = |until: u32| {
            tries.set(tries.get() + 1);
            let none = || std::io::Error::from_raw_os_error(24);
            if tries.get() < until { Err(none()) } else { Ok(()) }
        };
        files.open_with_retry(|| open(6)).unwrap();
        assert_eq!(tries.replace(0), 6);
        let begun = std::time::Instant::now();
        assert!(files.open_with_retry(|| open(u32::MAX)).is_err(), "not for ever");
        assert!(begun.elapsed() > std::time::Duration::from_millis(500));
    }

    #[test]
    fn removed_files_are_closed_soon_in_batches() {
        let files = std::sync::Arc::new(OpenFiles::new(300));
        let held: Vec<_> = (0..40).map(|n| files.insert(key(n), file())).collect();
        let weak: Vec<_> = held.iter().map(std::sync::Arc::downgrade).collect();
        drop(held);
        for n in 0..40 {
            files.close_later(key(n));
        }
        assert!(weak.iter().all(|file| file.strong_count() > 0), "not one by one");
        files.close_removed(std::time::Duration::from_secs(60));
        assert!(weak.iter().all(|file| file.strong_count() == 0));
        assert!(files.is_empty() && !files.close_removed_now());
        // without a thread that closes them there is a bound all the same
        for n in 0..super::REMOVED_MAX as u32 {
            files.insert(key(n), file());
            files.close_later(key(n));
        }
        assert!(files.is_empty());
    }

    #[test]
    fn the_cache_shrinks_for_connections() {
        let descriptors = Arc::new(DescriptorBudget::new(600));
        let files = OpenFiles::with_descriptors_of(Arc::clone(&descriptors));
        for n in 0..100 {
            files.insert(key(n), file());
        }
        assert_eq!((files.len(), files.limit()), (100, 100));
        descriptors.set_connections(150);
        files.sweep(1);
        assert!(files.len() <= 50 && files.limit() == 50, "{}", files.len());
    }

    #[test]
    fn the_cache_stays_within_its_limit() {
        let files = OpenFiles::new(300);
        for n in 0..1000 {
            files.insert(key(n), file());
            assert!(files.len() <= files.limit() + 1);
        }
    }

    /// Entries are evicted from all of the map in turn: one that is crowded at one end cannot take another entry.
    #[test]
    fn a_cache_that_is_full_takes_any_number_of_files() {
        let files = OpenFiles::new(100_000).with_entries_max(6_000);
        let made = opened(sys::open::open_path("/".as_ref()).unwrap());
        for n in 0..60_000 {
            files.insert(key(n), Arc::new(made.again(dup(&made))));
            assert!(files.len() <= files.limit() + 1);
        }
    }

    #[test]
    fn a_preempted_eviction_is_taken_over_by_another_thread() {
        let files = OpenFiles::new(300);
        files.evicting_ms.store(1, super::SeqCst);
        for n in 0..60 {
            files.insert(key(n), file());
        }
        assert_eq!(files.len(), 60, "the other one is thought to be at it");
        std::thread::sleep(std::time::Duration::from_millis(super::EVICTION_STALLED_MS + 1));
        files.insert(key(60), file());
        assert!(files.len() <= files.limit(), "the next catches up at once");
    }

    #[test]
    fn idle_files_are_closed_and_used_ones_stay() {
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
    fn files_with_unsynced_writes_stay_open_for_up_to_a_minute() {
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
    fn files_removed_by_local_programs_are_closed_by_the_sweep() {
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
    fn removing_a_backend_closes_only_its_files() {
        let files = OpenFiles::new(3000);
        files.insert(key(1), file());
        files.insert(Key { backend: 1, ..key(1) }, file());
        files.remove_backend(0);
        assert_eq!((files.len(), files.with(&key(1), |_| ())), (1, None));
    }
}
