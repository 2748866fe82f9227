//! `bowline top`: what a running server does now, by client, export, operation, connection or pool.
//!
//! The server makes figures of two samples of its counters ([`admin::rates`]), so that nobody else's requests disturb them;
//! [`text`] prints them, [`screen`] shows them on a terminal until a key ends it.

#[cfg(test)]
mod samples;
mod screen;
mod text;
pub mod view;

use crate::cli::TopOptions;
use crate::{default_paths, host_names, output};
use admin::Client;
use admin::api::Request;
use admin::rates::Watched;
use screen::Screen;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;

/// Rows of each view that the screen has: the busiest.
const ROWS_MAX: usize = 500;

/// Shows or prints the rates.
///
/// # Errors
/// No server answers, or the terminal cannot be used.
pub fn top(options: &TopOptions) -> anyhow::Result<ExitCode> {
    let path = options.control.clone().unwrap_or_else(default_paths::control_socket);
    if options.names {
        host_names::start();
    }
    if options.once {
        return once(options, Watching { path, rows: None, client: None });
    }
    if !std::io::stdout().is_terminal() {
        anyhow::bail!(
            "top needs a terminal: write `bowline top --once` for text, or --once --json"
        );
    }
    let mut server = Watching { path, rows: Some(ROWS_MAX), client: None };
    // a server that does not answer is said before the screen changes
    let first = server.next()?;
    screen::run(Screen::new(first, options.view, options.names), options.interval, server)
}

fn once(options: &TopOptions, mut server: Watching) -> anyhow::Result<ExitCode> {
    server.next()?;
    std::thread::sleep(options.interval);
    let rates = server.next()?.rates;
    let mut text = match options.json {
        true => serde_json::to_string_pretty(&rates)?,
        false => {
            host_names::settle(|| _ = text::page(&rates, options.view));
            text::page(&rates, options.view)
        }
    };
    if !text.ends_with('\n') {
        text.push('\n');
    }
    output::print(text)?;
    Ok(ExitCode::SUCCESS)
}

/// A server that is asked again and again over one connection, by which it knows what the last figures were.
struct Watching {
    path: PathBuf,
    /// Rows of each kind; all without.
    rows: Option<usize>,
    client: Option<Client>,
}

impl Watching {
    /// The figures since the last time; without rates the first time, and after a restart of the server.
    fn next(&mut self) -> anyhow::Result<Watched> {
        let request = Request::Rates { conns: true, rows: self.rows };
        if let Some(client) = &mut self.client
            && let Ok(watched) = client.ask(&request)
        {
            return Ok(watched);
        }
        let mut client = Client::connect(&self.path)?;
        let watched = client.ask(&request)?;
        self.client = Some(client);
        Ok(watched)
    }
}
