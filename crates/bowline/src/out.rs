//! What a command prints: never a panic where nobody reads it, and an error where it is lost.

use anyhow::Context;
use std::fmt::Display;
use std::io::{self, ErrorKind, Write};

/// Prints text to standard output in one go. A reader that goes away early (`| head`) is no fault.
///
/// # Errors
/// The text is lost, as on a disk that is full.
pub fn print(text: impl AsRef<[u8]>) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    written(out.write_all(text.as_ref()).and_then(|()| out.flush()))
}

/// What became of something that was printed, in the same way.
///
/// # Errors
/// As [`print()`].
pub fn written(result: io::Result<()>) -> anyhow::Result<()> {
    match result {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(error).context("cannot write to standard output")
        }
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Tells a fault on standard error. If that is closed the exit status has to do.
pub fn tell(what: impl Display) {
    let _ = writeln!(io::stderr(), "bowline: {what}");
}
