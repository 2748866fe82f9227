//! `bowline bench`: runs the bench crate and prints its results.
//!
//! Exit status: 0 if everything was measured and no call failed; 2 if nothing was started because the command
//! line, or something it names, is wrong; 1 otherwise.

mod compare;
mod experiments;
mod load;
mod mktree;
mod progress;
mod server_cost;

use crate::cli::bench::Bench;
use crate::output::print;
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

/// Writes data as JSON into a file; `-` is standard output.
fn write_json(file: &std::path::Path, data: &impl serde::Serialize) -> anyhow::Result<()> {
    let text = serde_json::to_string_pretty(data)? + "\n";
    if file.as_os_str() == "-" {
        return print(text);
    }
    std::fs::write(file, text).map_err(|e| anyhow::anyhow!("{}: {e}", file.display()))
}
