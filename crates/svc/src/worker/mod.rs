//! Worker threads.

pub(crate) mod thread;
