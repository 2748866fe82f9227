//! Locking a mutex without poisoning: everything that this crate's mutexes guard is valid after every statement, so a
//! panic of another thread does no harm.

use crate::sync::{Mutex, MutexGuard};
use std::sync::PoisonError;

pub(crate) fn acquire<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
