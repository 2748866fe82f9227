//! The setting of what the process gives up before it serves.

use std::fmt;
use std::str::FromStr;

/// Whether the server gives up what serving does not need.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Sandbox {
    /// As far as the kernel goes.
    #[default]
    Auto,
    /// Nothing but `CAP_SYS_RESOURCE`.
    Off,
}

impl FromStr for Sandbox {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(Self::Auto),
            "off" => Ok(Self::Off),
            _ => Err(format!("{text:?} is none of auto, off")),
        }
    }
}

impl fmt::Display for Sandbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Auto => "auto",
            Self::Off => "off",
        })
    }
}
