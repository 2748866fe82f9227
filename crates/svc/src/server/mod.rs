//! Starting, changing and stopping the server; the acceptor and the watchdog.

pub(crate) mod acceptor;
pub(crate) mod changes;
pub(crate) mod config;
pub(crate) mod lifecycle;
pub(crate) mod pool_layout;
pub(crate) mod pool_sizing;
pub(crate) mod pools;
pub(crate) mod room;
pub(crate) mod state;
pub(crate) mod status;
pub(crate) mod watchdog;
