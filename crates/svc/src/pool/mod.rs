//! A pool: its event loop, its inbox, and which of its threads does what.

pub(crate) mod event_loop;
pub(crate) mod scheduler;
pub(crate) mod thread_shortage;
pub(crate) mod worker_pool;
