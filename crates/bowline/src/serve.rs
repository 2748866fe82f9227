//! `bowline serve`: from the configuration to a running server, and to its end.
//!
//! [`start`] builds the parts, and fails before a client can connect; [`control`] answers the
//! control socket; [`run`] handles signals until the stop. Calls do not pass through this module.

mod audit;
mod backends;
mod bench_reports;
mod client_replies;
mod confinement;
mod connection_rows;
mod control;
mod crossed_exports;
mod crossed_mounts;
mod explain;
mod export_changes;
mod export_loader;
mod export_opener;
mod export_watch;
mod grace_status;
mod hung_calls;
mod io_errors;
mod kerberos;
mod limit_warnings;
mod line_limiter;
mod listen_addresses;
mod lock_manager;
mod lock_rows;
mod lock_timer;
mod metrics;
mod name_conflicts;
pub mod parts;
mod periodic_task;
pub mod port_owner;
pub mod portmap;
mod process_info;
mod recent_calls;
pub mod recovery;
mod refusals;
mod refused_mounts;
mod run;
mod self_test;
mod signals;
mod start;
mod startup_message;
mod startup_warnings;
mod state_dir;
mod statistics;
mod status_monitor;
mod systemd;
mod tls;
mod unserved_calls;
mod v4_rows;

pub use process_info::host_name;

use crate::config;
use crate::output::UsageError;
use crate::serve_options::ServeOptions;
use std::process::ExitCode;

/// Serves until SIGTERM or Ctrl-C.
///
/// # Errors
/// Why the server cannot start, and what to do about it.
pub fn serve(options: ServeOptions) -> anyhow::Result<ExitCode> {
    let config = config::resolve(options.clone()).map_err(|error| UsageError::of(&error))?;
    run::run(start::start(&config, options)?)
}
