//! The log on standard error: changes and errors, never a line for each call. Its level can be changed while
//! the server runs.

use std::fmt;
use std::io::IsTerminal;
use std::str::FromStr;
use tracing::level_filters::LevelFilter;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Registry, reload};

/// The least severity that is logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogLevel {
    /// A part of the server does not work.
    Error,
    /// The operator should look at it.
    Warn,
    /// Changes: start, stop, reload, settings.
    Info,
    /// Details about unusual clients.
    Debug,
    /// Everything.
    Trace,
}

impl LogLevel {
    const ALL: [(Self, &'static str); 5] = [
        (Self::Error, "error"),
        (Self::Warn, "warn"),
        (Self::Info, "info"),
        (Self::Debug, "debug"),
        (Self::Trace, "trace"),
    ];
}

impl FromStr for LogLevel {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.iter().find(|(_, word)| *word == text);
        found.map(|(level, _)| *level).ok_or_else(|| {
            let words: Vec<&str> = Self::ALL.iter().map(|(_, word)| *word).collect();
            format!("{text:?} is none of {}", words.join(", "))
        })
    }
}

impl fmt::Display for LogLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = Self::ALL.iter().find(|(level, _)| level == self);
        f.write_str(word.map_or("", |(_, word)| word))
    }
}

/// Changes the level of the log.
#[derive(Clone)]
pub struct LogHandle(reload::Handle<LevelFilter, Registry>);

impl LogHandle {
    /// Logs messages of `level` and more severe ones from now on.
    pub fn set(&self, level: LogLevel) {
        // fails only if the subscriber is gone, at the end of the process
        let _ = self.0.modify(|filter| *filter = filter_of(level));
    }
}

/// Starts the log; once in a process.
pub fn start(level: LogLevel) -> LogHandle {
    let (filter, handle) = reload::Layer::new(filter_of(level));
    let stderr = std::io::stderr();
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(std::io::stderr)
        .with_ansi(stderr.is_terminal())
        .with_target(false);
    if std::env::var_os("JOURNAL_STREAM").is_some() {
        // the journal has its own timestamps and levels
        let format = tracing_subscriber::fmt::format().without_time().with_target(false);
        let lines = lines.with_ansi(false).event_format(SyslogPriority(format.with_level(false)));
        let _ = tracing_subscriber::registry().with(filter).with(lines).try_init();
    } else {
        let _ = tracing_subscriber::registry().with(filter).with(lines).try_init();
    }
    LogHandle(handle)
}

/// Begins each line with its priority, `<3>` for an error, as journald expects it (sd-daemon(3)).
struct SyslogPriority<F>(F);

impl<S, N, F> FormatEvent<S, N> for SyslogPriority<F>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
    F: FormatEvent<S, N>,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let priority = match *event.metadata().level() {
            Level::ERROR => 3,
            Level::WARN => 4,
            Level::INFO => 6,
            Level::DEBUG | Level::TRACE => 7,
        };
        write!(writer, "<{priority}>")?;
        self.0.format_event(context, writer, event)
    }
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
