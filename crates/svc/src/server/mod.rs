//! Starting, changing and stopping the server; the acceptor and the watchdog.

pub(crate) mod acceptor;
pub(crate) mod lifecycle;
pub(crate) mod pool_layout;
pub(crate) mod pool_sizing;
pub(crate) mod pools;
pub(crate) mod watchdog;
