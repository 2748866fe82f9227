//! A table of names that cannot be written: the status for clients and the log message for the
//! operator.

use crate::errno;
use std::io;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use vfs::Status;

/// The least time between two lines in the log about tables that cannot be written: a call fails
/// for each name that is new, and clients try again and again.
const LOG_INTERVAL: Duration = Duration::from_secs(60);

/// The status for a table that cannot be written. Its client gets the error of a full disk that is
/// not the export's, so the log names the file.
#[expect(clippy::needless_pass_by_value, reason = "the form that map_err calls")]
pub fn table_error(error: io::Error) -> Status {
    log_table_error(&error);
    errno::status(&error)
}

/// Logs that tables cannot be written, at most once per interval.
pub fn log_table_error(error: &io::Error) {
    static LAST: Mutex<Option<Instant>> = Mutex::new(None);
    let now = Instant::now();
    let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
    if last.is_none_or(|then| now.duration_since(then) >= LOG_INTERVAL) {
        *last = Some(now);
        drop(last);
        tracing::warn!(
            "the table of file names (names-* in the state directory, which `bowline status` names) \
             cannot be written, and calls fail for files that it does not know: {error}"
        );
    }
}
