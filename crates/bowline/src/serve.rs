//! `bowline serve`: from settings to a running server, and to its end.
//!
//! `start` builds the parts in an order in which each failure is told before anything is
//! promised; `desk` answers the control socket; `run` waits for signals. Nothing here is on the
//! way of a call.

mod announce;
mod buffers;
mod desk;
mod gather;
mod listening;
mod notify;
mod opener;
mod port_owner;
mod portmap;
mod process;
mod refused;
mod run;
mod scarce;
mod start;
mod state_dir;
mod sweep;

use crate::cli::{ServeOptions, Usage};
use crate::config;
use std::process::ExitCode;

/// Serves until told to stop.
///
/// # Errors
/// What keeps the server from starting, and what to do about it.
pub fn serve(options: ServeOptions) -> anyhow::Result<ExitCode> {
    let settings = config::settle(options.clone()).map_err(|error| Usage::of(&error))?;
    let running = start::start(&settings, options)?;
    run::run(running)
}
