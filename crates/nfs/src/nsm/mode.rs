//! Whether the server monitors its clients (`nsm`).

use std::fmt;
use std::str::FromStr;

/// Who monitors the clients that hold locks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NsmMode {
    /// The server itself.
    Own,
    /// Nobody: notifications are ignored, and none are sent after a restart.
    Off,
}

/// A word that is no value of [`NsmMode`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NsmModeError;

impl fmt::Display for NsmModeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("own or off")
    }
}

impl std::error::Error for NsmModeError {}

impl FromStr for NsmMode {
    type Err = NsmModeError;

    fn from_str(word: &str) -> Result<Self, NsmModeError> {
        match word {
            "own" => Ok(Self::Own),
            "off" => Ok(Self::Off),
            _ => Err(NsmModeError),
        }
    }
}

impl fmt::Display for NsmMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Own => "own",
            Self::Off => "off",
        })
    }
}
