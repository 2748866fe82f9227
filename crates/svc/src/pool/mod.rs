//! A pool: its event loop, its inbox, and which of its threads does what.

pub(crate) mod blocked_calls;
pub(crate) mod conn_return;
pub(crate) mod event_loop;
pub(crate) mod inbox;
pub(crate) mod info;
pub(crate) mod postponed;
pub(crate) mod scheduler;
pub(crate) mod scheduler_counters;
pub(crate) mod shared;
pub(crate) mod thread_shortage;
pub(crate) mod unread;
pub(crate) mod watchdog_waker;
pub(crate) mod worker_pool;
