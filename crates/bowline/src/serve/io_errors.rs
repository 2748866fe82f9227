//! Says in the log and in the status that the disk or the file system of an export fails.
//!
//! The counts are those of the statistics; a thread compares them every few seconds. An export is named in the log when
//! its errors begin, and once a minute while they go on.
//!
//! `seen` is locked for the comparison only, never by a call.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use telemetry::ExportRow;

/// An export is named in the log at most once in this time.
const LOG_INTERVAL: Duration = Duration::from_secs(60);
/// For so long after an error the status says so.
const LATELY: Duration = Duration::from_secs(600);

/// What has been seen of each export, by its index.
#[derive(Debug, Default)]
pub struct IoErrors {
    seen: Mutex<HashMap<u16, Seen>>,
}

#[derive(Debug)]
struct Seen {
    /// Errors since the start.
    count: u64,
    /// How many of them the log has told of.
    logged: u64,
    last: Duration,
    logged_at: Option<Duration>,
}

impl IoErrors {
    /// Compares the counts at a time since the start; the lines for the log.
    pub fn update(
        &self,
        now: Duration,
        exports: &[ExportRow],
        path: impl Fn(u16) -> String,
    ) -> Vec<String> {
        let mut seen = self.lock();
        let mut lines = Vec::new();
        for export in exports.iter().filter(|export| export.io_errors > 0) {
            let new = Seen { count: 0, logged: 0, last: now, logged_at: None };
            let seen = seen.entry(export.index).or_insert(new);
            if export.io_errors > seen.count {
                seen.count = export.io_errors;
                seen.last = now;
            }
            let waits = seen.logged_at.is_some_and(|at| now.saturating_sub(at) < LOG_INTERVAL);
            if seen.count > seen.logged && !waits {
                let calls = seen.count - seen.logged;
                lines.push(format!(
                    "{}: {} failed with an I/O error: its disk or file system fails; the kernel's log (`dmesg`) says \
                     more",
                    path(export.index),
                    if calls == 1 { "a call".to_owned() } else { format!("{calls} calls") },
                ));
                seen.logged = seen.count;
                seen.logged_at = Some(now);
            }
        }
        lines
    }

    /// Warnings about exports with errors in the last minutes.
    pub fn warnings(&self, now: Duration, path: impl Fn(u16) -> String) -> Vec<String> {
        let mut lately: Vec<(u16, u64, Duration)> = self
            .lock()
            .iter()
            .map(|(index, seen)| (*index, seen.count, now.saturating_sub(seen.last)))
            .filter(|(_, _, ago)| *ago < LATELY)
            .collect();
        lately.sort_by_key(|(index, ..)| *index);
        let text = |(index, count, ago): (u16, u64, Duration)| {
            format!(
                "{}: calls fail with I/O errors, {count} since the start, the last {} ago: its disk or file system \
                 fails; the kernel's log (`dmesg`) says more",
                path(index),
                admin::duration_s(ago.as_secs())
            )
        };
        lately.into_iter().map(text).collect()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u16, Seen>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::{Duration, ExportRow, IoErrors};
    use telemetry::{OpName, Telemetry};

    /// The row of an export after `io_errors` calls that failed so, and one that failed otherwise.
    fn rows(io_errors: u64) -> Vec<ExportRow> {
        let telemetry =
            Telemetry::new(vec![OpName { program: "nfs", version: 3, procedure: "WRITE" }]);
        let stats = telemetry.worker();
        let call = telemetry::Call { export: Some(2), status: 70, ..telemetry::Call::default() };
        stats.call(&call);
        for _ in 0..io_errors {
            stats.call(&telemetry::Call { status: 5, ..call });
        }
        telemetry.snapshot().exports
    }

    #[test]
    fn errors_are_logged_when_they_begin_and_once_a_minute() {
        let errors = IoErrors::default();
        let at = Duration::from_secs;
        let path = |index| format!("/export{index}");
        assert!(errors.update(at(1), &rows(0), path).is_empty());
        assert!(errors.warnings(at(1), path).is_empty());
        let first = errors.update(at(3), &rows(1), path);
        assert_eq!(first.len(), 1);
        assert!(first[0].starts_with("/export2: a call failed with an I/O error"), "{first:?}");
        assert!(errors.update(at(5), &rows(40), path).is_empty(), "it waits for a minute");
        let second = errors.update(at(64), &rows(41), path);
        assert!(second[0].starts_with("/export2: 40 calls failed"), "{second:?}");
        assert!(errors.update(at(200), &rows(41), path).is_empty(), "no new errors");
        let warnings = errors.warnings(at(94), path);
        assert!(warnings[0].contains("41 since the start, the last 30 s ago"), "{warnings:?}");
        assert!(errors.warnings(at(664), path).is_empty(), "long ago");
    }
}
