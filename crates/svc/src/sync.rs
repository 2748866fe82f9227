//! The sync types of what is model-checked: the standard library's here, loom's in
//! `tests/models`, which compiles the same files over its own module of this name.

pub(crate) use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
pub(crate) use std::sync::{Condvar, Mutex, MutexGuard};
pub(crate) use std::thread::{Thread, current};

/// Locks. Data under our locks is consistent at every step, so a panic of the last holder does not matter.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Adds to a counter that the calling thread alone writes at this time.
pub(crate) fn add(counter: &AtomicU64, n: u64) {
    let before = counter.load(std::sync::atomic::Ordering::Relaxed);
    counter.store(before.wrapping_add(n), std::sync::atomic::Ordering::Relaxed);
}
