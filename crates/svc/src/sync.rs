//! The sync types of what is model-checked: the standard library's here, loom's in
//! `tests/models.rs`, which compiles the same files over its own module of this name.

pub(crate) use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
pub(crate) use std::sync::{Condvar, Mutex, MutexGuard};
pub(crate) use std::thread::{Thread, current};
