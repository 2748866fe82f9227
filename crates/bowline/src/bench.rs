//! `bowline bench`: reads the command line, runs the bench crate, prints what it found.
//!
//! Exit status: 0 if everything was measured and no call failed; 1 else.

mod load;
mod progress;

use crate::cli::bench::Bench;
use std::process::ExitCode;

/// Runs one of the subcommands.
pub fn bench(what: Bench) -> anyhow::Result<ExitCode> {
    match what {
        Bench::Load(options) => load::load(&options),
    }
}
