//! Logs refused mounts with their reason, at most one line a minute for each reason, because any client can
//! cause refusals.

use nfs::mount::{RefusalReason, RefusedMount};
use nfs::object::ClientRefused;
use std::collections::HashMap;
use std::mem::{Discriminant, discriminant};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The least time between two lines with the same reason.
const LOG_EVERY: Duration = Duration::from_secs(60);

/// A reason without its data: as many as there are lines of log text.
type Kind = (Discriminant<RefusalReason>, Option<Discriminant<ClientRefused>>);

fn kind(reason: RefusalReason) -> Kind {
    let client = match &reason {
        RefusalReason::Client(refused) => Some(discriminant(refused)),
        RefusalReason::NoPath
        | RefusalReason::NoExport
        | RefusalReason::NotServed
        | RefusalReason::Tree(_) => None,
    };
    (discriminant(&reason), client)
}

/// When a reason was last logged, and how many refusals were left out since. One entry for each [`Kind`].
#[derive(Default)]
struct LogLimiter(HashMap<Kind, (Instant, u64)>);

impl LogLimiter {
    /// If a line is to be logged now, the number of refusals left out before it.
    fn due(&mut self, reason: RefusalReason, now: Instant) -> Option<u64> {
        let kind = kind(reason);
        if let Some((then, left_out)) = self.0.get_mut(&kind)
            && now.duration_since(*then) < LOG_EVERY
        {
            *left_out += 1;
            return None;
        }
        Some(self.0.insert(kind, (now, 0)).map_or(0, |(_, left_out)| left_out))
    }
}

/// Returns a function that logs refused mounts.
pub fn log_refusals() -> impl Fn(&RefusedMount<'_>) + Send + Sync {
    let limiter = Mutex::new(LogLimiter::default());
    move |refusal| {
        let mut limiter = limiter.lock().unwrap_or_else(PoisonError::into_inner);
        let due = limiter.due(refusal.reason, Instant::now());
        drop(limiter);
        match due {
            None => {}
            Some(0) => tracing::warn!("{refusal}"),
            Some(more) => {
                tracing::warn!("{refusal}; {more} more for the same reason since the last line");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{ClientRefused, LOG_EVERY, LogLimiter, RefusalReason};
    use std::time::{Duration, Instant};

    #[test]
    fn each_reason_is_logged_once_a_minute() {
        let mut limiter = LogLimiter::default();
        let now = Instant::now();
        let port = RefusalReason::Client(ClientRefused::Port);
        assert_eq!(limiter.due(port, now), Some(0));
        assert_eq!(limiter.due(port, now), None);
        let other_client = RefusalReason::Client(ClientRefused::NotForClient);
        assert_eq!(limiter.due(other_client, now), Some(0));
        assert_eq!(limiter.due(RefusalReason::NoExport, now), Some(0));
        assert_eq!(limiter.due(port, now + LOG_EVERY - Duration::from_secs(1)), None);
        assert_eq!(limiter.due(port, now + LOG_EVERY), Some(2));
        assert_eq!(limiter.due(port, now + 2 * LOG_EVERY), Some(0));
    }
}
