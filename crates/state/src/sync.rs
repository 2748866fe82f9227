//! The locks and atomics that the crate uses, in one place, so that a model checker (shuttle, loom) can
//! replace them: a test compiles the same files over a `sync` module of its own.

pub(crate) use std::sync::atomic::{AtomicU64, AtomicUsize};
pub(crate) use std::sync::{Arc, Mutex, MutexGuard};
