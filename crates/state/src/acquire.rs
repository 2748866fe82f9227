//! Taking a mutex. Everything that the mutexes of this crate guard is valid after every statement, so that a
//! poisoned one is as good as any other.

use crate::sync::{Mutex, MutexGuard};
use std::sync::PoisonError;

pub(crate) fn acquire<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
