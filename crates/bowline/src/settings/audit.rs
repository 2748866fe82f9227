//! Settings of the record of removes, renames and changed attributes.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// Where the record is written.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum AuditFile {
    /// Nowhere.
    #[default]
    Off,
    /// This file.
    File(PathBuf),
}

impl FromStr for AuditFile {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "off" => Ok(Self::Off),
            path if path.starts_with('/') && !path.ends_with('/') => Ok(Self::File(path.into())),
            _ => Err("write off, or the full path of a file".into()),
        }
    }
}

impl fmt::Display for AuditFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => f.write_str("off"),
            Self::File(path) => path.display().fmt(f),
        }
    }
}

/// Bytes of a file of the record, from which on the next one is begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AuditSize(pub u64);

impl AuditSize {
    /// A hundred thousand records or so.
    pub const DEFAULT: Self = Self(64 << 20);
}

impl TryFrom<u64> for AuditSize {
    type Error = &'static str;

    fn try_from(bytes: u64) -> Result<Self, Self::Error> {
        /// The least and the most bytes.
        const RANGE: std::ops::RangeInclusive<u64> = 64 << 10..=1 << 40;
        if RANGE.contains(&bytes) { Ok(Self(bytes)) } else { Err("out of range: 64K to 1T") }
    }
}

impl From<AuditSize> for u64 {
    fn from(size: AuditSize) -> Self {
        size.0
    }
}

/// How many full files of the record are kept beside the one that is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AuditFiles(pub u32);

impl Default for AuditFiles {
    fn default() -> Self {
        Self(5)
    }
}

impl FromStr for AuditFiles {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = text.parse().ok().filter(|number| *number <= 100);
        number.map(Self).ok_or_else(|| format!("{text:?} is not a number from 0 to 100"))
    }
}

impl fmt::Display for AuditFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
