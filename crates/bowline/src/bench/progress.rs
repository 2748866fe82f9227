//! Progress of a load on a terminal: a bar with the current rate. Also handles Ctrl-C.

use bench::load::LiveCounters;
use indicatif::{ProgressBar, ProgressStyle};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};
use sys::signal::{Signal, Signals};

/// How often the bar is drawn.
const REDRAW: Duration = Duration::from_millis(200);

/// Returns a flag that is set by the first signal; a second Ctrl-C ends the process.
///
/// # Errors
/// No descriptors or memory left.
pub fn stop_on_signals() -> anyhow::Result<Arc<AtomicBool>> {
    let signals = Signals::take_over()?;
    let stop = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&stop);
    std::thread::spawn(move || {
        while let Ok(signal) = signals.wait() {
            if signal == Signal::Report {
                continue;
            }
            if flag.swap(true, Relaxed) {
                // a second Ctrl-C: does not wait for the last replies
                bench::servers::remove_scratch_dirs();
                std::process::exit(130);
            }
        }
    });
    Ok(stop)
}

/// Draws a bar for `work`, which takes about `expected`, while it runs.
pub fn with_bar<T: Send>(
    label: &str,
    expected: Duration,
    live: &LiveCounters,
    quiet: bool,
    work: impl FnOnce() -> T + Send,
) -> T {
    if quiet {
        return work();
    }
    let length = u64::try_from(expected.as_millis()).unwrap_or(u64::MAX);
    let bar = ProgressBar::new(length.max(1));
    let style = ProgressStyle::with_template("{prefix} [{bar:30}] {msg}");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()).progress_chars("=> "));
    bar.set_prefix(label.to_owned());
    let done = AtomicBool::new(false);
    let result = std::thread::scope(|scope| {
        scope.spawn(|| {
            let start = Instant::now();
            let (mut before, mut at) = (0, start);
            while !done.load(Relaxed) {
                std::thread::sleep(REDRAW);
                let (calls, now) = (live.calls(), Instant::now());
                #[expect(clippy::cast_precision_loss, reason = "counts far below 2^52")]
                let rate = calls.saturating_sub(before) as f64 / (now - at).as_secs_f64();
                (before, at) = (calls, now);
                bar.set_position(u64::try_from(start.elapsed().as_millis()).unwrap_or(length));
                bar.set_message(format!("{rate:.0} calls/s"));
            }
        });
        let result = work();
        done.store(true, Relaxed);
        result
    });
    bar.finish_and_clear();
    result
}

/// A status line on a terminal.
pub struct Spinner(ProgressBar);

impl Spinner {
    /// An empty line.
    pub fn new() -> Self {
        let bar = ProgressBar::new_spinner();
        bar.enable_steady_tick(REDRAW);
        Self(bar)
    }

    /// Replaces the text.
    pub fn say(&self, text: &str) {
        self.0.set_message(text.to_owned());
    }

    /// Clears the line.
    pub fn end(&self) {
        self.0.finish_and_clear();
    }
}
