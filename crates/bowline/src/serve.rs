//! `bowline serve`: from settings to a running server, and to its end.
//!
//! `start` builds the parts in an order in which each failure is told before anything is
//! promised; `desk` answers the control socket; `run` waits for signals. Nothing here is on the
//! way of a call.

mod backends;
mod control;
mod limit_warnings;
mod listen_addresses;
mod port_owner;
mod portmap;
mod process_info;
mod refused_mounts;
mod run;
mod start;
mod startup_message;
mod state_dir;
mod statistics;
mod sweeper;
mod systemd;
mod tcp_buffers;

use crate::cli::{ServeOptions, UsageError};
use crate::config;
use std::process::ExitCode;

/// Serves until told to stop.
///
/// # Errors
/// What keeps the server from starting, and what to do about it.
pub fn serve(options: ServeOptions) -> anyhow::Result<ExitCode> {
    let settings = config::resolve(options.clone()).map_err(|error| UsageError::of(&error))?;
    let running = start::start(&settings, options)?;
    run::run(running)
}
