//! How many slots a session may have, as it is set.

use std::fmt;
use std::str::FromStr;

/// The most slots of a session.
const MAX: u16 = 1024;

/// Slots that a session of version 4.1 may have at the most: 1 to 1024.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SessionSlots(u16);

impl SessionSlots {
    /// That of [`V4Limits::default`](crate::v4::V4Limits).
    pub const DEFAULT: Self = Self(MAX);

    /// The number.
    pub fn count(self) -> usize {
        self.0.into()
    }
}

/// No number of slots.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a number from 1 to 1024")]
pub struct SessionSlotsError;

impl FromStr for SessionSlots {
    type Err = SessionSlotsError;

    fn from_str(text: &str) -> Result<Self, SessionSlotsError> {
        let digits = text.bytes().all(|byte| byte.is_ascii_digit());
        let slots = text.parse().ok().filter(|slots| digits && (1..=MAX).contains(slots));
        slots.map(Self).ok_or(SessionSlotsError)
    }
}

impl fmt::Display for SessionSlots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::SessionSlots;

    #[test]
    fn a_number_of_slots_has_bounds() {
        let parsed = |text: &str| text.parse::<SessionSlots>().ok();
        assert_eq!(parsed("1024"), Some(SessionSlots::DEFAULT));
        assert_eq!(SessionSlots::DEFAULT.count(), crate::v4::V4Limits::default().slots_most);
        assert_eq!(parsed("1").map(SessionSlots::count), Some(1));
        for wrong in ["0", "1025", "+5", "64k", "", "99999999999"] {
            assert_eq!(parsed(wrong), None, "{wrong}");
        }
    }
}
