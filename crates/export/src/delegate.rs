//! Which delegations clients of version 4 get: the values of the setting and of the option of that name.

use std::fmt;
use std::str::FromStr;

/// Which delegations clients of version 4 get (the setting and the option `delegations`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Delegate {
    /// None.
    #[default]
    Off,
    /// Those for reading.
    Read,
    /// Those for reading, and for writing to whoever has the file to itself.
    Write,
}

impl Delegate {
    /// Every value, and how it is written.
    const NAMES: [(Self, &'static str); 3] =
        [(Self::Off, "off"), (Self::Read, "read"), (Self::Write, "write")];

    /// As a number of its own.
    pub const fn number(self) -> u8 {
        match self {
            Self::Off => 0,
            Self::Read => 1,
            Self::Write => 2,
        }
    }

    /// That of a number.
    pub const fn from_number(number: u8) -> Self {
        match number {
            1 => Self::Read,
            2 => Self::Write,
            _ => Self::Off,
        }
    }
}

/// A word that is not a value of [`Delegate`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DelegateError;

impl fmt::Display for DelegateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("off, read or write")
    }
}

impl std::error::Error for DelegateError {}

impl FromStr for Delegate {
    type Err = DelegateError;

    fn from_str(word: &str) -> Result<Self, DelegateError> {
        let known = Self::NAMES.iter().find(|(_, name)| *name == word);
        known.map(|(delegate, _)| *delegate).ok_or(DelegateError)
    }
}

impl fmt::Display for Delegate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = Self::NAMES.iter().find(|(delegate, _)| delegate == self);
        f.write_str(known.map_or("", |(_, name)| name))
    }
}
