//! The configured lengths of the grace period and of leases.

use std::fmt;
use std::str::FromStr;

/// The longest grace period in seconds: nobody gets new locks meanwhile.
const MAX_S: u32 = 600;

/// Seconds that a grace period lasts at the most: 1 to 600.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct GraceSeconds(u32);

impl GraceSeconds {
    /// That of [`Limits::default`](crate::Limits).
    pub const DEFAULT: Self = Self(60);

    /// In milliseconds.
    pub const fn ms(self) -> u64 {
        self.0 as u64 * 1000
    }
}

/// No length of a grace period.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a number of seconds from 1 to 600")]
pub struct GraceSecondsError;

impl FromStr for GraceSeconds {
    type Err = GraceSecondsError;

    fn from_str(text: &str) -> Result<Self, GraceSecondsError> {
        let digits = text.bytes().all(|byte| byte.is_ascii_digit());
        let seconds = text.parse().ok().filter(|s| digits && (1..=MAX_S).contains(s));
        seconds.map(Self).ok_or(GraceSecondsError)
    }
}

impl fmt::Display for GraceSeconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The bounds of a lease in seconds: clients renew it after two thirds.
const LEASES_S: std::ops::RangeInclusive<u32> = 5..=3600;

/// Seconds that a lease lasts: 5 to 3600.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LeaseSeconds(u32);

impl LeaseSeconds {
    /// That of [`V4Limits::default`](crate::v4::V4Limits).
    pub const DEFAULT: Self = Self(60);

    /// In milliseconds.
    pub const fn ms(self) -> u64 {
        self.0 as u64 * 1000
    }
}

/// No length of a lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a number of seconds from 5 to 3600")]
pub struct LeaseSecondsError;

impl FromStr for LeaseSeconds {
    type Err = LeaseSecondsError;

    fn from_str(text: &str) -> Result<Self, LeaseSecondsError> {
        let digits = text.bytes().all(|byte| byte.is_ascii_digit());
        let seconds = text.parse().ok().filter(|s| digits && LEASES_S.contains(s));
        seconds.map(Self).ok_or(LeaseSecondsError)
    }
}

impl fmt::Display for LeaseSeconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::{GraceSeconds, LeaseSeconds};

    #[test]
    fn a_lease_is_a_number_of_seconds() {
        let parsed = |text: &str| text.parse::<LeaseSeconds>().ok();
        assert_eq!(parsed("60"), Some(LeaseSeconds::DEFAULT));
        assert_eq!(LeaseSeconds::DEFAULT.ms(), crate::v4::V4Limits::default().lease_ms);
        for wrong in ["0", "4", "3601", "-5", "1m", ""] {
            assert_eq!(parsed(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_grace_length_is_a_number_of_seconds() {
        let parsed = |text: &str| text.parse::<GraceSeconds>().ok();
        assert_eq!(parsed("60"), Some(GraceSeconds::DEFAULT));
        assert_eq!(GraceSeconds::DEFAULT.ms(), crate::Limits::default().grace_ms);
        for wrong in ["0", "601", "+5", "1m", "", "99999999999"] {
            assert_eq!(parsed(wrong), None, "{wrong}");
        }
    }
}
