//! `bowline bench mktree`: the recorded experiment's tree, in a directory.

use super::progress;
use crate::cli::bench::MktreeOptions;
use crate::output::UsageError;
use crate::output::print;
use bench::mktree::{self, TreeError};
use std::io::{IsTerminal, Write};
use std::process::ExitCode;

/// Runs `bowline bench mktree`.
pub fn mktree(options: &MktreeOptions) -> anyhow::Result<ExitCode> {
    let stop = progress::stop_on_signals()?;
    let shown = std::io::stderr().is_terminal();
    let tell = |done: u64, total: u64| {
        if shown {
            let _ = write!(std::io::stderr(), "\r{done} of {total} ");
        }
    };
    let made = mktree::make(&options.dir, options.scale, &stop, &tell);
    if shown {
        let _ = writeln!(std::io::stderr());
    }
    let made = made.map_err(|error| match error {
        TreeError::Scale(_) | TreeError::NotEmpty(_) => UsageError(error.to_string()).into(),
        failed => anyhow::Error::new(failed),
    })?;
    if options.json {
        print(serde_json::to_string_pretty(&made)? + "\n")?;
    } else {
        print(format!(
            "{}: {} directories and {} files, {} levels deep, sizes of {} in all; {} of them \
             existed before; {:.1} s\n",
            options.dir.display(),
            made.directories,
            made.files,
            made.depth,
            admin::bytes(made.bytes),
            made.present,
            made.seconds
        ))?;
    }
    Ok(ExitCode::SUCCESS)
}
