//! The kernel's leases on files and delegations on directories of all backends, and the thread that hears of it when one is
//! broken.
//!
//! The thread starts with the first lease and ends with the cache. It alone gets the signals ([`sys::lease`]).
//!
//! A change of attributes by the client because of whom the lease is held is not told to it ([`Leases::change_by_holder`]): what
//! has happened to the file is its doing alone if the file's ctime is the one that the change has left.
//!
//! Lock: [`Table`] is locked to add a lease, to remove one, and while the thread calls back those whose lease is broken, which
//! must not block. No descriptor is closed under it.
//!
//! The kernel holds back the server itself from a directory with a delegation. So a call that is about to change one asks
//! first ([`Leases::check_directory`]), and does not wait in the kernel; a change that shall not end the delegation has it given
//! back for the time being ([`Leases::let_pass`]).

use crate::cache::closers::CloseQueue;
use crate::cache::descriptors::Descriptors;
use crate::cache::key::Key;
use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use sys::event::Event;
use sys::lease::{self, BreakSignals, Broken, Kind, NameWatch};
use vfs::{LeaseBreakCallback, Status};

/// How long the kernel must hold back whoever is in the way: a client is given 40 s to return what it holds.
const BREAK_TIME_MIN_S: u64 = 45;

struct Lease {
    key: Key,
    kind: Kind,
    fd: OwnedFd,
    watch: i32,
    on_break: LeaseBreakCallback,
    by_holder: ByHolder,
    /// Given back for a moment: a change of the directory passes.
    lets_pass: bool,
}

/// Seconds and nanoseconds.
type Ctime = (i64, u32);

/// What the client because of whom a file has a lease has done to its attributes.
#[derive(Default)]
struct ByHolder {
    /// Changes under way.
    under_way: usize,
    /// Something was changed meanwhile.
    is_changed: bool,
    /// What the last change has left.
    left: Option<Ctime>,
}

/// A file of which something was changed, and what its ctime is if its holder alone has done that.
type Doubted = (RawFd, OwnedFd, Ctime);

impl Lease {
    /// Something was changed: tells whoever holds the lease, unless it may have done so itself.
    fn doubted(&self, fd: RawFd) -> Option<Doubted> {
        let doubted = self.by_holder.left.zip(self.fd.try_clone().ok());
        if doubted.is_none() {
            (self.on_break)();
        }
        doubted.map(|(left, file)| (fd, file, left))
    }
}

#[derive(Default)]
struct Table {
    leases: HashMap<RawFd, Lease>,
    /// The lease of each watch.
    of_watch: HashMap<i32, RawFd>,
    /// The lease of each file that has one.
    files: HashMap<Key, RawFd>,
    stopped: bool,
}

/// How many leases there are of a kind.
#[derive(Default)]
struct Counts {
    against_everybody: AtomicUsize,
    of_directories: AtomicUsize,
}

impl Counts {
    fn of(&self, kind: Kind) -> Option<&AtomicUsize> {
        match kind {
            Kind::Writers => None,
            Kind::Everybody => Some(&self.against_everybody),
            Kind::Changes => Some(&self.of_directories),
        }
    }
}

struct Shared {
    table: Mutex<Table>,
    counts: Arc<Counts>,
    names: NameWatch,
    stop: Event,
    /// The number of the thread.
    thread: i32,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Removes a lease; its descriptor, to be closed without the lock.
    fn remove(&self, fd: RawFd) -> Option<OwnedFd> {
        let mut table = self.lock();
        let lease = table.leases.remove(&fd)?;
        if let Some(count) = self.counts.of(lease.kind) {
            count.fetch_sub(1, Relaxed);
        }
        table.of_watch.remove(&lease.watch);
        table.files.remove(&lease.key);
        self.names.remove(lease.watch);
        drop(table);
        let _there = lease::give_back(lease.fd.as_fd(), lease.kind);
        Some(lease.fd)
    }

    fn run(&self, signals: &BreakSignals) {
        loop {
            lease::wait_readable([signals.as_fd(), self.names.as_fd(), self.stop.as_fd()]);
            let changed = self.names.changed();
            let mut table = self.lock();
            if table.stopped {
                return;
            }
            while let Some(broken) = signals.next() {
                match broken {
                    Broken::Descriptor(fd) => table.disturb(fd),
                    Broken::Any => table.disturb_broken(),
                }
            }
            let Some(watches) = changed else {
                table.leases.values().for_each(|lease| (lease.on_break)());
                continue;
            };
            let doubted: Vec<Doubted> =
                watches.iter().filter_map(|watch| table.note_changed(*watch)).collect();
            drop(table);
            doubted.into_iter().for_each(|doubted| self.disturb_if_by_another(doubted));
        }
    }

    fn disturb_if_by_another(&self, doubted: Doubted) {
        let mut next = Some(doubted);
        while let Some((fd, file, left)) = next {
            if sys::stat::basic_of_fd(file.as_fd()).is_ok_and(|found| found.ctime == left) {
                return;
            }
            next = self.lock().note_changed_since(fd, left);
        }
    }
}

impl Table {
    fn of_file(&self, key: &Key) -> Option<&Lease> {
        self.leases.get(self.files.get(key)?)
    }

    /// The file of a watch has got other names or attributes: who holds the lease is told, unless that may be its own doing.
    fn note_changed(&mut self, watch: i32) -> Option<Doubted> {
        let fd = *self.of_watch.get(&watch)?;
        let lease = self.leases.get_mut(&fd)?;
        if lease.by_holder.under_way > 0 {
            lease.by_holder.is_changed = true;
            return None;
        }
        lease.doubted(fd)
    }

    /// The file of a lease is not as a change by the holder has left it: that may be its next change.
    fn note_changed_since(&mut self, fd: RawFd, left: Ctime) -> Option<Doubted> {
        let lease = self.leases.get_mut(&fd)?;
        if lease.by_holder.under_way > 0 {
            lease.by_holder.is_changed = true;
            return None;
        }
        if lease.by_holder.left.is_some_and(|now| now != left) {
            return lease.doubted(fd);
        }
        (lease.on_break)();
        None
    }

    /// Begins or ends a change by the holder of the lease of this watch.
    fn by_holder(&mut self, watch: i32) -> Option<(RawFd, &mut Lease)> {
        let fd = *self.of_watch.get(&watch)?;
        Some((fd, self.leases.get_mut(&fd)?))
    }

    fn disturb(&self, fd: RawFd) {
        if let Some(lease) = self.leases.get(&fd) {
            (lease.on_break)();
        }
    }

    fn disturb_broken(&self) {
        let is_whole =
            |lease: &&Lease| lease.lets_pass || lease::is_whole(lease.fd.as_fd(), lease.kind);
        let broken = self.leases.values().filter(|lease| !is_whole(lease));
        broken.for_each(|lease| (lease.on_break)());
    }
}

/// The leases of all backends.
#[derive(Default)]
pub struct Leases {
    shared: Mutex<Option<Arc<Shared>>>,
    counts: Arc<Counts>,
}

impl Leases {
    fn started(&self) -> io::Result<Arc<Shared>> {
        let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(shared) = &*shared {
            return Ok(Arc::clone(shared));
        }
        if lease::break_time_s().is_none_or(|seconds| seconds < BREAK_TIME_MIN_S) {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let new = start(Arc::clone(&self.counts))?;
        *shared = Some(Arc::clone(&new));
        Ok(new)
    }

    fn running(&self) -> Option<Arc<Shared>> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Before a directory is changed; costs one load if none is held. One that is held is reported as disturbed.
    ///
    /// # Errors
    /// [`Status::Jukebox`] if it is held: the kernel would let the caller wait.
    #[inline]
    pub fn check_directory(&self, key: impl Fn() -> Key) -> Result<(), Status> {
        if self.counts.of_directories.load(Relaxed) == 0 {
            return Ok(());
        }
        self.check_held(&key())
    }

    #[cold]
    fn check_held(&self, key: &Key) -> Result<(), Status> {
        let Some(shared) = self.running() else { return Ok(()) };
        let table = shared.lock();
        match table.of_file(key) {
            Some(lease) if lease.kind == Kind::Changes && !lease.lets_pass => {
                (lease.on_break)();
                Err(Status::Jukebox)
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Gives a directory's delegation back until the result is dropped; `None` if it has none, or it is given back already.
    pub fn let_pass(&self, key: &Key) -> Option<PassingChange> {
        let shared = self.running()?;
        let mut table = shared.lock();
        let number = *table.files.get(key)?;
        let lease = table.leases.get_mut(&number)?;
        if lease.kind != Kind::Changes || lease.lets_pass {
            return None;
        }
        lease::give_back(lease.fd.as_fd(), lease.kind).ok()?;
        lease.lets_pass = true;
        drop(table);
        Some(PassingChange { shared, key: *key })
    }

    /// How many leases there are.
    pub fn len(&self) -> usize {
        self.running().map_or(0, |shared| shared.lock().leases.len())
    }

    /// Whether there is a lease of this file against those who write it.
    pub fn has_against_writers(&self, key: &Key) -> bool {
        let is_against_writers = |shared: Arc<Shared>| {
            let table = shared.lock();
            table.of_file(key).is_some_and(|lease| lease.kind == Kind::Writers)
        };
        self.running().is_some_and(is_against_writers)
    }

    /// The file's only open file, if there is a lease of it against everybody: opening it again would break the lease.
    ///
    /// # Errors
    /// The kernel's error: no descriptors are left.
    pub fn sole_open_file(&self, key: &Key) -> io::Result<Option<OwnedFd>> {
        if self.counts.against_everybody.load(Relaxed) == 0 {
            return Ok(None);
        }
        let Some(shared) = self.running() else { return Ok(None) };
        let table = shared.lock();
        let lease = table.of_file(key).filter(|lease| lease.kind == Kind::Everybody);
        lease.map(|lease| lease.fd.try_clone()).transpose()
    }

    /// Does `change` to the attributes of a file for whoever holds its lease, who is not told of what that alone has left; with
    /// `None` he is.
    pub fn change_by_holder(&self, key: &Key, change: &mut dyn FnMut() -> Option<Ctime>) {
        let Some(shared) = self.running() else {
            change();
            return;
        };
        let watch = {
            let mut table = shared.lock();
            let watch = table.of_file(key).map(|lease| lease.watch);
            if let Some((_, lease)) = watch.and_then(|watch| table.by_holder(watch)) {
                lease.by_holder.under_way = lease.by_holder.under_way.saturating_add(1);
            }
            watch
        };
        let left = change();
        // another lease of the file has another watch
        let doubted = watch.and_then(|watch| {
            let mut table = shared.lock();
            let (fd, lease) = table.by_holder(watch)?;
            let by_holder = &mut lease.by_holder;
            by_holder.under_way = by_holder.under_way.saturating_sub(1);
            by_holder.left = left;
            let is_over = by_holder.under_way == 0;
            (is_over && std::mem::take(&mut by_holder.is_changed)).then(|| lease.doubted(fd))?
        });
        if let Some(doubted) = doubted {
            shared.disturb_if_by_another(doubted);
        }
    }

    /// Takes a lease of a file that was opened for it, as its kind wants it; `None` if somebody has it open whom it would
    /// hold back.
    ///
    /// # Errors
    /// The kernel's error; `Unsupported` if it holds nobody back, or not for long enough.
    pub fn take(
        &self,
        (key, fd): (Key, OwnedFd),
        kind: Kind,
        queue: &Arc<CloseQueue>,
        on_break: LeaseBreakCallback,
    ) -> io::Result<Option<HeldLease>> {
        let shared = self.started()?;
        let number = fd.as_raw_fd();
        let watch = shared.names.add(fd.as_fd(), kind)?;
        {
            let mut table = shared.lock();
            // the kernel has one watch of a file, which two leases of it cannot share
            if table.of_watch.contains_key(&watch) {
                return Ok(None);
            }
            table.of_watch.insert(watch, number);
            table.files.insert(key, number);
            if let Some(count) = shared.counts.of(kind) {
                count.fetch_add(1, Relaxed);
            }
            let by_holder = ByHolder::default();
            let lease = Lease { key, kind, fd, watch, on_break, by_holder, lets_pass: false };
            table.leases.insert(number, lease);
        }
        let held = HeldLease { shared, queue: Arc::clone(queue), number };
        // known before it is taken: it may be broken at once
        let taken = {
            let table = held.shared.lock();
            let lease = table.leases.get(&number);
            lease.map(|lease| lease::take(lease.fd.as_fd(), kind, held.shared.thread))
        };
        match taken {
            Some(Ok(true)) => Ok(Some(held)),
            Some(Ok(false)) | None => Ok(None),
            Some(Err(error)) => Err(error),
        }
    }
}

impl Drop for Leases {
    fn drop(&mut self) {
        if let Some(shared) = &*self.shared.lock().unwrap_or_else(PoisonError::into_inner) {
            shared.lock().stopped = true;
            shared.stop.raise();
        }
    }
}

/// Starts the thread.
fn start(counts: Arc<Counts>) -> io::Result<Arc<Shared>> {
    let (names, stop) = (NameWatch::new()?, Event::new()?);
    let (told, thread) = mpsc::channel();
    let (ready, shared) = mpsc::channel::<Arc<Shared>>();
    std::thread::Builder::new().name("leases".to_owned()).spawn(move || {
        let signals = BreakSignals::take_over();
        let number = signals.as_ref().map(BreakSignals::thread);
        let known =
            told.send(number.map_err(|error| io::Error::new(error.kind(), error.to_string())));
        if let (Ok(()), Ok(signals), Ok(shared)) = (known, signals, shared.recv()) {
            shared.run(&signals);
        }
    })?;
    let thread = thread.recv().map_err(io::Error::other)??;
    let shared = Arc::new(Shared { table: Mutex::default(), counts, names, stop, thread });
    ready.send(Arc::clone(&shared)).map_err(io::Error::other)?;
    Ok(shared)
}

/// A lease. Dropping it waits for nothing.
pub struct HeldLease {
    shared: Arc<Shared>,
    queue: Arc<CloseQueue>,
    number: RawFd,
}

impl Drop for HeldLease {
    fn drop(&mut self) {
        if let Some(fd) = self.shared.remove(self.number) {
            self.queue.close(Descriptors::new(fd));
        }
    }
}

/// A change of a directory that passes its delegation. Dropping it waits for nothing.
pub struct PassingChange {
    shared: Arc<Shared>,
    key: Key,
}

impl Drop for PassingChange {
    fn drop(&mut self) {
        let mut table = self.shared.lock();
        let Some(number) = table.files.get(&self.key).copied() else { return };
        let Some(lease) = table.leases.get_mut(&number).filter(|lease| lease.lets_pass) else {
            return;
        };
        lease.lets_pass = false;
        if !lease::take(lease.fd.as_fd(), lease.kind, self.shared.thread).unwrap_or(false) {
            (lease.on_break)();
        }
    }
}
