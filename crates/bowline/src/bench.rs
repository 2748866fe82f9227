//! `bowline bench`: runs the bench crate and prints its results.
//!
//! Exit status: 0 if everything was measured and no call failed; 2 if nothing was started because the command
//! line, or something it names, is wrong; 1 otherwise.

mod compare;
mod experiments;
mod json_file;
mod load;
mod mktree;
mod progress;
mod server_cost;

use crate::cli::bench::Bench;
use std::process::ExitCode;

/// Runs one of the subcommands.
pub fn bench(command: Bench) -> anyhow::Result<ExitCode> {
    match command {
        Bench::List { json } => experiments::list(json),
        Bench::Run(options) => experiments::run(&options),
        Bench::Load(options) => load::load(&options),
        Bench::Report { from, compact } => experiments::report(&from, compact.as_deref()),
        Bench::Mktree(options) => mktree::mktree(&options),
        Bench::Compare(options) => compare::compare(&options),
        Bench::Canned { port, loops, files } => {
            Ok(bench::canned::serve(port, loops, &files).map(|()| ExitCode::SUCCESS)?)
        }
    }
}
