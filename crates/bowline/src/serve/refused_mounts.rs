//! Refused mounts in the log: who is to mend a mount that fails must find out why. Anybody can make
//! the server refuse something, so there is one line a minute for each reason.

use nfs::mount::{RefusalReason, RefusedMount};
use std::collections::HashMap;
use std::mem::{Discriminant, discriminant};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The least time between two lines with the same reason.
const TELL_EVERY: Duration = Duration::from_secs(60);

/// When a reason was last told, and how often it was not since. As many rows as reasons.
#[derive(Default)]
struct LogLimiter(HashMap<Discriminant<RefusalReason>, (Instant, u64)>);

impl LogLimiter {
    /// Whether to tell it now; then how many were left out before.
    fn due(&mut self, why: RefusalReason, now: Instant) -> Option<u64> {
        let reason = discriminant(&why);
        if let Some((then, left_out)) = self.0.get_mut(&reason)
            && now.duration_since(*then) < TELL_EVERY
        {
            *left_out += 1;
            return None;
        }
        Some(self.0.insert(reason, (now, 0)).map_or(0, |(_, left_out)| left_out))
    }
}

/// Tells of refused mounts.
pub fn log_refusals() -> impl Fn(&RefusedMount<'_>) + Send + Sync {
    let told = Mutex::new(LogLimiter::default());
    move |refusal| {
        let mut rows = told.lock().unwrap_or_else(PoisonError::into_inner);
        let due = rows.due(refusal.why, Instant::now());
        drop(rows);
        match due {
            None => {}
            Some(0) => tracing::warn!("{refusal}"),
            Some(more) => tracing::warn!("{refusal}; before, {more} more for the same reason"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{LogLimiter, TELL_EVERY};
    use nfs::mount::RefusalReason;
    use std::time::{Duration, Instant};

    #[test]
    fn each_reason_is_told_once_a_minute() {
        let mut told = LogLimiter::default();
        let now = Instant::now();
        assert_eq!(told.due(RefusalReason::NoPath, now), Some(0));
        assert_eq!(told.due(RefusalReason::NoPath, now), None);
        assert_eq!(told.due(RefusalReason::NoExport, now), Some(0));
        assert_eq!(
            told.due(RefusalReason::NoPath, now + TELL_EVERY - Duration::from_secs(1)),
            None
        );
        assert_eq!(told.due(RefusalReason::NoPath, now + TELL_EVERY), Some(2));
        assert_eq!(told.due(RefusalReason::NoPath, now + 2 * TELL_EVERY), Some(0));
    }
}
