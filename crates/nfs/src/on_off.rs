//! The values of settings that are switched on or off.

use std::fmt;
use std::str::FromStr;

/// Whether something is on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnOff {
    /// It is.
    On,
    /// It is not.
    Off,
}

/// A word that is neither.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OnOffError;

impl fmt::Display for OnOffError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("on or off")
    }
}

impl std::error::Error for OnOffError {}

impl FromStr for OnOff {
    type Err = OnOffError;

    fn from_str(word: &str) -> Result<Self, OnOffError> {
        match word {
            "on" => Ok(Self::On),
            "off" => Ok(Self::Off),
            _ => Err(OnOffError),
        }
    }
}

impl fmt::Display for OnOff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::On => "on",
            Self::Off => "off",
        })
    }
}
