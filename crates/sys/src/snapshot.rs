//! Values that every call reads and hardly anybody changes: tables, rules, settings.
//!
//! A read costs a few plain instructions on the reader's own cache line: no lock, no reference
//! count, no locked instruction, no write that another thread would see. A writer puts a new value
//! in slots and keeps the old one until every reader that may still look at it has gone.
//!
//! How it is known that they have gone, told in [`protocol`]: each thread has a slot in which it
//! says under which epoch it began to read. How a reader can do without a locked instruction: the
//! order "I said that I read" before "I took the pointer" is enforced by the writer, which has the
//! kernel interrupt all other threads of the process (`membarrier`). Where the kernel or a sandbox
//! has no such call, each reader pays a fence of its own.
//!
//! Reads come in two kinds that do not wait for each other ([`ShortReads`] and [`LongReads`]).
//!
//! Lock: `ALL_SLOTS` guards the list of slots; taken when a thread reads for the first time or ends,
//! and by writers. Nobody waits under it.

mod protocol;

use protocol::{Slot, is_past};
use std::cell::Cell;
use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

/// The protocol's atomics: here the standard library's, in its model the model checker's.
mod atomics {
    pub(super) use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, compiler_fence, fence};
}

/// How long a writer that waits sleeps before it looks again.
const POLL: Duration = Duration::from_micros(100);
/// `MEMBARRIER_CMD_PRIVATE_EXPEDITED`: all running threads of the process pass a full fence.
const EXPEDITED: i32 = 1 << 3;
/// `MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED`: to be said once before.
const REGISTER_EXPEDITED: i32 = 1 << 4;

/// Counts the replaced values of the process; begins at 1, because 0 in a slot says "not reading".
static EPOCH: AtomicU64 = AtomicU64::new(1);
static ALL_SLOTS: Mutex<Vec<&'static ThreadSlots>> = Mutex::new(Vec::new());

/// A thread's slots, one for each kind of reads. Never freed, but used again.
#[repr(align(128))]
#[derive(Default)]
struct ThreadSlots {
    slots: [Slot; 2],
    free: std::sync::atomic::AtomicBool,
}

/// A kind of reads.
pub trait Kind: sealed::Kind {}

/// Reads that end soon and never sleep: a writer may wait for them.
#[derive(Debug)]
pub struct ShortReads;
/// Reads that last as long as a call, which may sleep: no writer waits for them.
#[derive(Debug)]
pub struct LongReads;

impl Kind for ShortReads {}
impl Kind for LongReads {}

mod sealed {
    pub trait Kind {
        const INDEX: usize;
    }
    impl Kind for super::ShortReads {
        const INDEX: usize = 0;
    }
    impl Kind for super::LongReads {
        const INDEX: usize = 1;
    }
}

thread_local! {
    static SLOTS_OF_THREAD: Cell<Option<&'static ThreadSlots>> = const { Cell::new(None) };
    static OWNER: Owner = const { Owner };
}

/// Gives the thread's slots to another when the thread ends.
struct Owner;

impl Drop for Owner {
    fn drop(&mut self) {
        if let Some(slots) = SLOTS_OF_THREAD.take() {
            slots.free.store(true, Ordering::Release);
        }
    }
}

fn all_slots() -> MutexGuard<'static, Vec<&'static ThreadSlots>> {
    ALL_SLOTS.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cold]
fn take_slots() -> &'static ThreadSlots {
    let mut all_slots = all_slots();
    let known = all_slots.iter().copied().find(|slots| slots.free.swap(false, Ordering::AcqRel));
    let slots = known.unwrap_or_else(|| {
        let slots: &'static ThreadSlots = Box::leak(Box::default());
        let fenced = !membarrier_works();
        slots.slots.iter().for_each(|slot| slot.set_fenced(fenced));
        all_slots.push(slots);
        slots
    });
    drop(all_slots);
    SLOTS_OF_THREAD.set(Some(slots));
    // in a destructor of another thread-local ours may be gone; then the slots stays taken
    let _ = OWNER.try_with(|_| ());
    slots
}

/// Whether the kernel fences other threads for us; asked once.
fn membarrier_works() -> bool {
    static WORKS: OnceLock<bool> = OnceLock::new();
    *WORKS.get_or_init(|| membarrier(REGISTER_EXPEDITED) && membarrier(EXPEDITED))
}

fn membarrier(command: i32) -> bool {
    // SAFETY: the call takes no memory of ours.
    unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) == 0 }
}

/// The writer's half of the order: after it, whoever is in a slot is seen there, and whoever is not
/// will take the new pointer.
fn fence_everybody() {
    std::sync::atomic::fence(Ordering::SeqCst);
    if membarrier_works() && !membarrier(EXPEDITED) {
        // it worked once, so this cannot be; without it readers could not be trusted any more
        std::process::abort();
    }
}

/// While it lives, nothing that the thread has read under it goes away. Nests.
pub struct ReadGuard<K: Kind> {
    slots: &'static ThreadSlots,
    /// Not to be sent: the slot is the thread's.
    kind: PhantomData<(K, *const ())>,
}

impl<K: Kind> ReadGuard<K> {
    /// Begins to read.
    #[inline]
    pub fn begin() -> Self {
        let slots = SLOTS_OF_THREAD.get().unwrap_or_else(take_slots);
        if let Some(slot) = slots.slots.get(K::INDEX) {
            slot.enter(&EPOCH);
        }
        Self { slots, kind: PhantomData }
    }
}

impl<K: Kind> Drop for ReadGuard<K> {
    #[inline]
    fn drop(&mut self) {
        if let Some(slot) = self.slots.slots.get(K::INDEX) {
            slot.leave();
        }
    }
}

impl<K: Kind> fmt::Debug for ReadGuard<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReadGuard").finish_non_exhaustive()
    }
}

/// Whether all reads of a kind that began before the epoch have ended.
fn ended<K: Kind>(epoch: u64) -> bool {
    let all_slots = all_slots();
    is_past(all_slots.iter().filter_map(|slots| slots.slots.get(K::INDEX)), epoch)
}

/// A value that is read with [`ReadGuard`] and replaced as a whole.
pub struct Snapshot<T, K: Kind> {
    /// From `Box::into_raw`; ours until it has been replaced and its readers have ended.
    current: AtomicPtr<T>,
    /// Values that were replaced, each with the epoch whose readers no longer see it.
    limbo: Mutex<Vec<(u64, Box<T>)>>,
    kind: PhantomData<K>,
}

// SAFETY: a value is reached from several threads by reference (`Sync`), and is dropped by any of
// them (`Send`).
unsafe impl<T: Send + Sync, K: Kind> Sync for Snapshot<T, K> {}
// SAFETY: it owns its values, which may be sent.
unsafe impl<T: Send + Sync, K: Kind> Send for Snapshot<T, K> {}

impl<T: Send + Sync, K: Kind> Snapshot<T, K> {
    /// With a first value.
    pub fn new(value: T) -> Self {
        let current = AtomicPtr::new(Box::into_raw(Box::new(value)));
        Self { current, limbo: Mutex::default(), kind: PhantomData }
    }

    /// The value in force.
    #[inline]
    pub fn read<'r>(&'r self, _reading: &'r ReadGuard<K>) -> &'r T {
        // SAFETY: the pointer came from a box. It is freed only after all readings of this kind
        // that began before it was replaced have ended, and `_reading` outlives the reference.
        unsafe { &*self.current.load(Ordering::Acquire) }
    }

    /// The value in force, kept from being replaced's consequences for as long as it is held.
    #[inline]
    pub fn load(&self) -> Held<'_, T, K> {
        let reading = ReadGuard::begin();
        let value = self.current.load(Ordering::Acquire);
        Held { value, _reading: reading, snapshot: PhantomData }
    }

    /// Puts another value in force. The old one is dropped by whoever calls [`Snapshot::collect`]
    /// or replaces again once its last reader has gone. Never waits.
    pub fn replace(&self, value: T) {
        drop(self.begin_replacing(value));
        self.collect();
    }

    /// Puts another value in force; what is given back still has readers. Never waits.
    pub fn begin_replacing(&self, value: T) -> Replaced<'_, T, K> {
        Replaced { snapshot: self, old: Some(self.swap(value)) }
    }

    /// Drops replaced values that nobody reads any more; how many are left.
    pub fn collect(&self) -> usize {
        let mut limbo = self.limbo();
        let (gone, kept) = std::mem::take(&mut *limbo)
            .into_iter()
            .partition::<Vec<_>, _>(|(epoch, _)| ended::<K>(*epoch));
        *limbo = kept;
        let left = limbo.len();
        drop(limbo);
        // what a value does when it goes is not our lock's business
        drop(gone);
        left
    }

    fn swap(&self, value: T) -> (u64, Box<T>) {
        let old = self.current.swap(Box::into_raw(Box::new(value)), Ordering::AcqRel);
        // whoever reads this epoch from now on began after the swap
        let epoch = EPOCH.fetch_add(1, Ordering::AcqRel).saturating_add(1);
        fence_everybody();
        // SAFETY: the pointer came from a box and has just been taken out: nobody else frees it.
        // That readers may still look at it is why it is not dropped before they have ended.
        (epoch, unsafe { Box::from_raw(old) })
    }

    fn limbo(&self) -> MutexGuard<'_, Vec<(u64, Box<T>)>> {
        self.limbo.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A value that was replaced, and that some may still be reading. Dropped, it is left to
/// [`Snapshot::collect`].
pub struct Replaced<'s, T: Send + Sync, K: Kind> {
    snapshot: &'s Snapshot<T, K>,
    /// Until it is waited for.
    old: Option<(u64, Box<T>)>,
}

impl<T: Send + Sync> Replaced<'_, T, ShortReads> {
    /// Waits until the last reader has gone, and hands the value out; `None` never. Not to be
    /// called while reading, nor under a lock.
    pub fn wait(mut self) -> Option<Box<T>> {
        let (epoch, value) = self.old.take()?;
        while !ended::<ShortReads>(epoch) {
            std::thread::sleep(POLL);
        }
        Some(value)
    }
}

impl<T: Send + Sync, K: Kind> Drop for Replaced<'_, T, K> {
    fn drop(&mut self) {
        if let Some(old) = self.old.take() {
            self.snapshot.limbo().push(old);
        }
    }
}

impl<T, K: Kind> Drop for Snapshot<T, K> {
    fn drop(&mut self) {
        // SAFETY: the pointer came from a box; `&mut self` says that nobody reads any more.
        drop(unsafe { Box::from_raw(*self.current.get_mut()) });
    }
}

impl<T: fmt::Debug + Send + Sync, K: Kind> fmt::Debug for Snapshot<T, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Snapshot").field(&*self.load()).finish()
    }
}

/// A value in force when it was loaded.
pub struct Held<'s, T, K: Kind> {
    value: *const T,
    _reading: ReadGuard<K>,
    snapshot: PhantomData<&'s T>,
}

impl<T, K: Kind> Deref for Held<'_, T, K> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: as in `Snapshot::read`; the reading is held beside it.
        unsafe { &*self.value }
    }
}

#[cfg(test)]
mod tests;
