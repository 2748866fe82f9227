//! A worker thread, and what it does while it leads its pool.

pub(crate) mod leader;
pub(crate) mod thread;
pub(crate) mod urgency;
