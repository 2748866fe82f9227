//! Values of settings that have a range: each type holds only what the server accepts.
//!
//! The other settings are enums beside the code that uses them. How a value is written (`64K`, `auto`) is
//! the configuration's matter, except where the text is the value: `MIN..MAX`, a name.

use crate::conn::congestion::Congestion;
use crate::errors::SettingError;
use crate::server::config::EXPORT_SHARE_DEFAULT;
use std::fmt;
use std::str::FromStr;

/// Most worker threads. More of them only spend the CPU time on switching.
pub const THREADS_MAX: usize = 4096;
/// Least memory for calls in progress, in bytes: a few records and replies of the largest size.
pub const MEMORY_MIN_BYTES: u64 = 16 << 20;
/// Most memory for calls in progress, in bytes.
pub const MEMORY_MAX_BYTES: u64 = 1 << 40;
/// Most memory for calls in progress by default, in bytes: some hundreds of large WRITEs at once.
const MEMORY_DEFAULT_MAX_BYTES: u64 = 512 << 20;
/// Smallest buffer of a UDP socket, in bytes: below it not even small calls fit.
const UDP_BUFFER_MIN_BYTES: u64 = 4096;
/// Largest buffer of a UDP socket, in bytes: a second of a 10 Gbit/s link.
const UDP_BUFFER_MAX_BYTES: u64 = 1 << 30;
/// Longest name of a congestion control (TCP_CA_NAME_MAX, less the terminating NUL).
const CONGESTION_NAME_BYTES_MAX: usize = 15;

/// Fewest and most worker threads of all pools together, written `2..64`, or `8` for exactly eight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ThreadRange {
    min: usize,
    max: usize,
}

impl ThreadRange {
    /// A range from 1 to [`THREADS_MAX`].
    ///
    /// # Errors
    /// It is empty or leaves those bounds.
    pub fn new(min: usize, max: usize) -> Result<Self, SettingError> {
        if min < 1 || min > max || max > THREADS_MAX {
            let text = format!("{min}..{max} is not a range of threads: 1 to {THREADS_MAX}");
            return Err(SettingError(text));
        }
        Ok(Self { min, max })
    }

    /// At most this many threads, and at least one; `min` and `max` are moved into the bounds.
    pub fn nearest(min: usize, max: usize) -> Self {
        let max = max.clamp(1, THREADS_MAX);
        Self { min: min.clamp(1, max), max }
    }

    /// Fewest threads, at least 1.
    pub const fn min(self) -> usize {
        self.min
    }

    /// Most threads, at least [`ThreadRange::min`].
    pub const fn max(self) -> usize {
        self.max
    }
}

impl FromStr for ThreadRange {
    type Err = SettingError;

    fn from_str(text: &str) -> Result<Self, SettingError> {
        let (min, max) = text.split_once("..").unwrap_or((text, text));
        let number = |text: &str| {
            text.trim().parse().map_err(|_| {
                SettingError(format!(
                    "{text:?} is not a number of threads: write MIN..MAX, 1 to {THREADS_MAX}"
                ))
            })
        };
        Self::new(number(min)?, number(max)?)
    }
}

impl fmt::Display for ThreadRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}..{}", self.min, self.max)
    }
}

/// Bytes for calls in progress and replies that clients have not taken: [`MEMORY_MIN_BYTES`] to
/// [`MEMORY_MAX_BYTES`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryLimit(u64);

impl MemoryLimit {
    /// The default where this many bytes are available for it.
    pub fn default_of(available_bytes: u64) -> Self {
        Self(available_bytes.clamp(MEMORY_MIN_BYTES, MEMORY_DEFAULT_MAX_BYTES))
    }

    /// Bytes.
    pub fn bytes(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }
}

impl TryFrom<u64> for MemoryLimit {
    type Error = SettingError;

    fn try_from(bytes: u64) -> Result<Self, SettingError> {
        if (MEMORY_MIN_BYTES..=MEMORY_MAX_BYTES).contains(&bytes) {
            return Ok(Self(bytes));
        }
        Err(SettingError("out of range: 16M to 1T".into()))
    }
}

impl From<MemoryLimit> for u64 {
    fn from(limit: MemoryLimit) -> Self {
        limit.0
    }
}

/// The share of all worker threads that may block in one export, in percent: written `75%` or `75`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExportShare(usize);

impl ExportShare {
    /// One hung export leaves a quarter of the threads to the others.
    pub const DEFAULT: Self = Self(EXPORT_SHARE_DEFAULT);

    /// Percent, 1 to 100.
    pub const fn percent(self) -> usize {
        self.0
    }
}

impl FromStr for ExportShare {
    type Err = SettingError;

    fn from_str(text: &str) -> Result<Self, SettingError> {
        let number = text.strip_suffix('%').unwrap_or(text).parse().ok();
        let percent = number.filter(|percent| (1..=100).contains(percent));
        percent.map(Self).ok_or_else(|| {
            SettingError(format!("{text:?} is not a share of the threads: write 1% to 100%"))
        })
    }
}

impl fmt::Display for ExportShare {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}%", self.0)
    }
}

/// Bytes of each buffer of a UDP socket, 4 KiB to 1 GiB.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UdpBufferSize(u64);

impl UdpBufferSize {
    /// Bytes.
    pub fn bytes(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }
}

impl TryFrom<u64> for UdpBufferSize {
    type Error = SettingError;

    fn try_from(bytes: u64) -> Result<Self, SettingError> {
        if (UDP_BUFFER_MIN_BYTES..=UDP_BUFFER_MAX_BYTES).contains(&bytes) {
            return Ok(Self(bytes));
        }
        Err(SettingError("out of range: 4K to 1G".into()))
    }
}

impl From<UdpBufferSize> for u64 {
    fn from(size: UdpBufferSize) -> Self {
        size.0
    }
}

impl FromStr for Congestion {
    type Err = SettingError;

    fn from_str(text: &str) -> Result<Self, SettingError> {
        let allowed = |b: u8| b.is_ascii_alphanumeric() || b"_-".contains(&b);
        let length = 1..=CONGESTION_NAME_BYTES_MAX;
        match text {
            "auto" => Ok(Self::Auto),
            "system" => Ok(Self::System),
            name if length.contains(&name.len()) && name.bytes().all(allowed) => {
                Ok(Self::Named(name.to_owned()))
            }
            _ => Err(SettingError(format!(
                "{text:?} is not a congestion control: write auto, system, or a name"
            ))),
        }
    }
}

impl fmt::Display for Congestion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Auto => "auto",
            Self::System => "system",
            Self::Named(name) => name,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{Congestion, ExportShare, MemoryLimit, ThreadRange, UdpBufferSize};

    #[test]
    fn printed_values_parse_to_the_same_value() {
        for text in ["1..1", "2..64", "1..4096"] {
            assert_eq!(text.parse::<ThreadRange>().unwrap().to_string(), text);
        }
        assert_eq!("8".parse::<ThreadRange>().unwrap().to_string(), "8..8");
        for text in ["1%", "75%", "100%"] {
            assert_eq!(text.parse::<ExportShare>().unwrap().to_string(), text);
        }
        for text in ["auto", "system", "cubic", "bbr"] {
            assert_eq!(text.parse::<Congestion>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn values_out_of_range_are_rejected() {
        for text in ["", "0", "4..2", "1..4097", "a..b", "..", "1...2"] {
            assert!(text.parse::<ThreadRange>().is_err(), "{text}");
        }
        for text in ["", "0%", "101%", "half", "%", "-1%"] {
            assert!(text.parse::<ExportShare>().is_err(), "{text}");
        }
        for text in ["", "a b", "abcdefghijklmnop"] {
            assert!(text.parse::<Congestion>().is_err(), "{text}");
        }
        for bytes in [0, (16 << 20) - 1, (1 << 40) + 1] {
            assert!(MemoryLimit::try_from(bytes).is_err(), "{bytes}");
        }
        assert_eq!(MemoryLimit::try_from(1 << 40).map(u64::from), Ok(1 << 40));
        assert_eq!(MemoryLimit::default_of(0).bytes(), 16 << 20);
        assert_eq!(MemoryLimit::default_of(u64::MAX).bytes(), 512 << 20);
        for bytes in [0, 4095, (1 << 30) + 1] {
            assert!(UdpBufferSize::try_from(bytes).is_err(), "{bytes}");
        }
    }

    #[test]
    fn a_default_range_stays_in_bounds() {
        let range = |min, max| ThreadRange::nearest(min, max).to_string();
        assert_eq!(range(0, 0), "1..1");
        assert_eq!(range(8, 4), "4..4");
        assert_eq!(range(1, 9999), "1..4096");
    }
}
