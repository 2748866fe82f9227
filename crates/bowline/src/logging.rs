//! The log, on standard error: what changes and what goes wrong, never a line per call. Its
//! level can be changed while the server runs.

use crate::values::LogLevel;
use std::io::IsTerminal;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Registry, fmt, reload};

/// Changes the level of the log.
#[derive(Clone)]
pub struct LogHandle(reload::Handle<LevelFilter, Registry>);

impl LogHandle {
    /// From now on, log `level` and what is graver.
    pub fn set(&self, level: LogLevel) {
        // fails only if the subscriber is gone, that is at the end of the process
        let _ = self.0.modify(|filter| *filter = filter_of(level));
    }
}

/// Starts the log; at most once in a process.
pub fn start(level: LogLevel) -> LogHandle {
    let (filter, handle) = reload::Layer::new(filter_of(level));
    let stderr = std::io::stderr();
    let lines = fmt::layer()
        .with_writer(std::io::stderr)
        .with_ansi(stderr.is_terminal())
        .with_target(false);
    // under systemd the journal has its own times
    if std::env::var_os("JOURNAL_STREAM").is_some() {
        let _ = tracing_subscriber::registry().with(filter).with(lines.without_time()).try_init();
    } else {
        let _ = tracing_subscriber::registry().with(filter).with(lines).try_init();
    }
    LogHandle(handle)
}

const fn filter_of(level: LogLevel) -> LevelFilter {
    match level {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    }
}
