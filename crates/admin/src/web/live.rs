//! The figures of the last second, made once for all viewers of the page, and those of the last minutes.
//!
//! Counters are read at most once a second, and only while the page is open somewhere, so that a server with many clients does not
//! count them for each. `taken` is locked by the thread that reads the counters, for as long as that takes; others give
//! what was `shown` last, which is locked for a copy.

use crate::control::Control;
use crate::rates::{HiddenRows, Rates, Watched, Watcher};
use serde::Serialize;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};

/// The version of the JSON: it rises when a field goes or changes its meaning.
pub const VERSION: u32 = 1;
/// How long figures are given again.
const FRESH: Duration = Duration::from_millis(900);
/// Points of the charts: five minutes.
const POINTS_MAX: usize = 300;
/// Rows of each table; the busiest are kept.
pub const ROWS_MAX: usize = 200;

/// A point of the charts.
#[derive(Debug, Clone, Serialize)]
struct Point {
    /// Milliseconds since the server began to serve.
    at_ms: u64,
    calls_per_s: f64,
    errors_per_s: f64,
    in_bytes_per_s: f64,
    out_bytes_per_s: f64,
    p50_ns: Option<u64>,
    p99_ns: Option<u64>,
    disk_calls: u64,
}

/// The answer to `/api/live`.
#[derive(Serialize)]
struct Page<'l> {
    version: u32,
    at_ms: u64,
    points: &'l VecDeque<Point>,
    /// Rows that are left out because others are busier.
    hidden: HiddenRows,
    rates: Rates,
}

#[derive(Default)]
struct Taken {
    watcher: Watcher,
    points: VecDeque<Point>,
}

#[derive(Clone)]
struct Shown {
    at: Instant,
    conns: bool,
    json: Arc<String>,
}

/// The figures.
#[derive(Default)]
pub struct Live {
    taken: Mutex<Taken>,
    shown: Mutex<Option<Shown>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Live {
    /// The figures as JSON; with connections, if they are asked for.
    pub fn json(&self, control: &dyn Control, conns: bool) -> Arc<String> {
        let shown = lock(&self.shown).clone();
        let fits = |shown: &&Shown| shown.at.elapsed() < FRESH && (shown.conns || !conns);
        if let Some(shown) = shown.as_ref().filter(fits) {
            return Arc::clone(&shown.json);
        }
        let mut taken = match (self.taken.try_lock(), shown) {
            (Ok(taken), _) => taken,
            // another thread reads the counters
            (Err(TryLockError::WouldBlock), Some(shown)) => return shown.json,
            (Err(TryLockError::WouldBlock), None) => lock(&self.taken),
            (Err(TryLockError::Poisoned(taken)), _) => taken.into_inner(),
        };
        let json = Arc::new(taken.page(control, conns));
        *lock(&self.shown) = Some(Shown { at: Instant::now(), conns, json: Arc::clone(&json) });
        json
    }
}

impl Taken {
    fn page(&mut self, control: &dyn Control, conns: bool) -> String {
        let first = self.watcher.at_ms().is_none();
        let Watched { rates, hidden } = self.watcher.look(control, conns, ROWS_MAX);
        let at_ms = self.watcher.at_ms().unwrap_or(0);
        if !first {
            let total = &rates.total;
            self.points.push_back(Point {
                at_ms,
                calls_per_s: total.calls_per_s,
                errors_per_s: total.errors_per_s.unwrap_or(0.0),
                in_bytes_per_s: total.in_bytes_per_s,
                out_bytes_per_s: total.out_bytes_per_s,
                p50_ns: total.p50_ns,
                p99_ns: total.p99_ns,
                disk_calls: rates.server.waits.disk_calls,
            });
        }
        if self.points.len() > POINTS_MAX {
            self.points.pop_front();
        }
        let page = Page { version: VERSION, at_ms, points: &self.points, hidden, rates };
        // encoding these types does not fail
        serde_json::to_string(&page).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::Taken;
    use crate::control::tests::TestServer;
    use crate::rates::ConnActivity;

    #[test]
    fn connections_have_rates_when_they_are_shown_for_the_first_time() {
        let (server, mut taken) = (TestServer::default(), Taken::default());
        let mut rate = |calls, conns| {
            *server.conns.lock().unwrap() = vec![ConnActivity {
                id: 1,
                client: [192, 0, 2, 7].into(),
                idle_ms: 0,
                calls,
                bytes_in: 0,
                bytes_out: 0,
                unsent_bytes: 0,
                in_flight: 0,
            }];
            let page: serde_json::Value =
                serde_json::from_str(&taken.page(&server, conns)).unwrap();
            let rate = |row: &serde_json::Value| row["calls_per_s"].as_f64().unwrap();
            (rate(&page["rates"]["total"]), page["rates"]["connections"].get(0).map(rate))
        };
        assert_eq!(rate(500, false), (0.0, None));
        assert_eq!(rate(600, true), (100.0, Some(100.0)));
        assert_eq!(rate(800, true), (200.0, Some(200.0)));
    }
}
