//! `bowline top`: what a running server does now, by client, export, operation, connection or pool.
//!
//! [`admin::rates`] makes figures of two samples of the server's counters, [`text`] prints them, [`screen`] shows them on a
//! terminal until a key ends it.

#[cfg(test)]
mod samples;
mod screen;
mod text;
pub mod view;

use crate::cli::TopOptions;
use crate::{default_paths, output};
use admin::Client;
use admin::api::{Request, Sample};
use admin::rates::Rates;
use std::io::IsTerminal;
use std::path::Path;
use std::process::ExitCode;

/// Shows or prints the rates.
///
/// # Errors
/// No server answers, or the terminal cannot be used.
pub fn top(options: &TopOptions) -> anyhow::Result<ExitCode> {
    let path = options.control.clone().unwrap_or_else(default_paths::control_socket);
    if options.once {
        return once(options, &path);
    }
    if !std::io::stdout().is_terminal() {
        anyhow::bail!(
            "top needs a terminal: write `bowline top --once` for text, or --once --json"
        );
    }
    // a server that does not answer is said before the screen changes
    let first = sample(&path, true)?;
    screen::run(first, options.view, options.interval, path)
}

fn once(options: &TopOptions, path: &Path) -> anyhow::Result<ExitCode> {
    let before = sample(path, true)?;
    std::thread::sleep(options.interval);
    let rates = Rates::between(&before, &sample(path, true)?);
    let mut text = match options.json {
        true => serde_json::to_string_pretty(&rates)?,
        false => text::page(&rates, options.view),
    };
    if !text.ends_with('\n') {
        text.push('\n');
    }
    output::print(text)?;
    Ok(ExitCode::SUCCESS)
}

fn sample(path: &Path, conns: bool) -> anyhow::Result<Sample> {
    Ok(Client::connect(path)?.ask(&Request::Sample { conns })?)
}
