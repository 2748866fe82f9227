//! Whether the server monitors its clients (`nsm`).

use std::fmt;
use std::str::FromStr;

/// Who monitors the clients that hold locks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NsmMode {
    /// rpc.statd as well while this machine runs one, which then has the program's number; else the server itself.
    Auto,
    /// The server itself.
    Own,
    /// The server, and rpc.statd of this machine, which is left the program's number.
    Statd,
    /// Nobody: notifications are ignored, and none are sent after a restart.
    Off,
}

/// A word that is not a value of [`NsmMode`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NsmModeError;

impl fmt::Display for NsmModeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("auto, own, statd or off")
    }
}

impl std::error::Error for NsmModeError {}

impl FromStr for NsmMode {
    type Err = NsmModeError;

    fn from_str(word: &str) -> Result<Self, NsmModeError> {
        match word {
            "auto" => Ok(Self::Auto),
            "own" => Ok(Self::Own),
            "statd" => Ok(Self::Statd),
            "off" => Ok(Self::Off),
            _ => Err(NsmModeError),
        }
    }
}

impl fmt::Display for NsmMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Auto => "auto",
            Self::Own => "own",
            Self::Statd => "statd",
            Self::Off => "off",
        })
    }
}
