//! Output of commands: results on standard output, errors on standard error. Nothing here panics when
//! the other end is closed, and output that cannot be written is an error.

use anyhow::Context;
use std::fmt::Display;
use std::io::{self, ErrorKind, IsTerminal, Write};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

/// The exit status of [`UsageError`].
pub const USAGE_STATUS: u8 = 2;

/// The exit status of [`AddressInUse`].
pub const ADDRESS_IN_USE_STATUS: u8 = 3;

/// Another program has the address that is to be served. To try again at once would not help.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct AddressInUse(pub String);

/// The command line is wrong, or a file or directory that it names; found before anything was tried.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct UsageError(pub String);

impl UsageError {
    /// An error with its causes, as one of the command line.
    pub fn of(error: &anyhow::Error) -> anyhow::Error {
        Self(error_text(error)).into()
    }
}

/// The exit status of a command that failed.
pub fn status(error: &anyhow::Error) -> ExitCode {
    ExitCode::from(if error.is::<UsageError>() {
        USAGE_STATUS
    } else if error.is::<AddressInUse>() {
        ADDRESS_IN_USE_STATUS
    } else {
        1
    })
}

/// Whether tables have all their columns on any terminal (`--wide`).
static WIDE: AtomicBool = AtomicBool::new(false);

/// Has tables printed with all their columns.
pub fn show_all_columns() {
    WIDE.store(true, Ordering::Relaxed);
}

/// The width of tables: that of the terminal. None without a terminal: what programs read has all columns.
pub fn table_width() -> Option<usize> {
    if WIDE.load(Ordering::Relaxed) || !io::stdout().is_terminal() {
        return None;
    }
    ratatui::crossterm::terminal::size().ok().map(|(width, _)| width.into())
}

/// Writes text to standard output. A reader that has closed its end (`| head`) is not an error.
///
/// # Errors
/// The text cannot be written, for example because the disk is full.
pub fn print(text: impl AsRef<[u8]>) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    check_written(out.write_all(text.as_ref()).and_then(|()| out.flush()))
}

/// Turns the result of a write to standard output into a command's error.
///
/// # Errors
/// As [`print()`].
pub fn check_written(result: io::Result<()>) -> anyhow::Result<()> {
    match result {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(error).context("cannot write to standard output")
        }
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Writes an error message to standard error. If that is closed, the exit status is all that is left.
pub fn print_error(message: impl Display) {
    let _ = writeln!(io::stderr(), "bowline: {message}");
}

/// An error followed by its causes. A cause whose text is already part of the line is left out.
pub fn error_text(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if !text.contains(&cause) {
            text.push_str(if text.is_empty() { "" } else { ": " });
            text.push_str(&cause);
        }
    }
    text
}

/// Replaces line ends and runs of blanks by one blank each.
pub fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::{error_text, one_line};

    #[test]
    fn repeated_causes_are_printed_once() {
        let error = anyhow::anyhow!("deep").context("middle: deep").context("top");
        assert_eq!(error_text(&error), "top: middle: deep");
    }

    #[test]
    fn messages_become_one_line() {
        assert_eq!(one_line("a\n   b\n\n c"), "a b c");
    }
}
