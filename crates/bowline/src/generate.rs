//! Generates man pages and completions from the definition of the command line.

use crate::cli::Cli;
use crate::{manual, output};
use anyhow::Context;
use clap::CommandFactory;
use std::path::Path;
use std::process::ExitCode;

/// Writes `bowline.1`, a page for each command, and the other pages into `dir`.
pub fn man(dir: &Path) -> anyhow::Result<ExitCode> {
    std::fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
    // the manual has its own sections for the text at the end of the help
    clap_mangen::generate_to(Cli::command().after_help(None::<&str>), dir)
        .with_context(|| format!("cannot write man pages into {}", dir.display()))?;
    manual::write(dir)?;
    Ok(ExitCode::SUCCESS)
}

/// Prints the completion script for `shell`.
pub fn completions(shell: clap_complete::Shell) -> anyhow::Result<ExitCode> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "bowline", &mut script);
    output::print(script)?;
    Ok(ExitCode::SUCCESS)
}
