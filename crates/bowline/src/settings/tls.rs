//! Settings of RPC with TLS.

use std::fmt;
use std::str::FromStr;

/// Whether calls without TLS are served.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TlsDemand {
    /// As the exports' `xprtsec` options say.
    #[default]
    Allow,
    /// Only NULL and the probe for TLS.
    Require,
}

impl FromStr for TlsDemand {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "allow" => Ok(Self::Allow),
            "require" => Ok(Self::Require),
            _ => Err(format!("{text:?} is none of allow, require")),
        }
    }
}

impl fmt::Display for TlsDemand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Allow => "allow",
            Self::Require => "require",
        })
    }
}

/// How many threads make handshakes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HandshakeThreads(pub usize);

impl Default for HandshakeThreads {
    fn default() -> Self {
        Self(2)
    }
}

impl FromStr for HandshakeThreads {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = text.parse().ok().filter(|number| (1..=16).contains(number));
        number.map(Self).ok_or_else(|| format!("{text:?} is not a number from 1 to 16"))
    }
}

impl fmt::Display for HandshakeThreads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
