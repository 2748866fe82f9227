//! The size of a connection's socket buffer in text form: `auto`, `0` or a number of bytes.

use std::fmt;
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Smallest buffer that can be set, in bytes: a page. Sizes below the kernel's own default have no
/// effect anyway.
pub const BUFFER_MIN: u32 = 4096;
/// Largest, in bytes: the kernel doubles it, and no TCP window is larger than 1 GiB (RFC 7323
/// §2.3).
pub const BUFFER_MAX: u32 = 512 << 20;

/// The setting of a socket buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum BufferSize {
    /// Not set here (`0`): the setting of the next scope applies, and finally `auto`.
    #[default]
    Unset,
    /// The kernel's automatic sizing.
    Auto,
    /// At least this many bytes, [`BUFFER_MIN`] to [`BUFFER_MAX`].
    Bytes(u32),
}

/// A text that is not a buffer size.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BufferSizeError {
    /// Not a number.
    #[error("{0:?} is not a buffer size: write auto, 0, or bytes with K, M or G, as in 16M")]
    NotASize(String),
    /// Out of range.
    #[error("a buffer of {0:?} is out of range: 4K to 512M, or auto, or 0")]
    Range(String),
}

impl FromStr for BufferSize {
    type Err = BufferSizeError;

    fn from_str(text: &str) -> Result<Self, BufferSizeError> {
        match text {
            "auto" => return Ok(Self::Auto),
            "0" => return Ok(Self::Unset),
            _ => {}
        }
        let not_a_size = || BufferSizeError::NotASize(text.to_owned());
        let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        let (number, unit) = text.split_at(digits);
        let scale: u64 = match unit.to_ascii_lowercase().as_str() {
            "" | "b" => 1,
            "k" | "kib" => 1 << 10,
            "m" | "mib" => 1 << 20,
            "g" | "gib" => 1 << 30,
            _ => return Err(not_a_size()),
        };
        let number: u64 = number.parse().map_err(|_| not_a_size())?;
        let bytes = number.checked_mul(scale).and_then(|bytes| u32::try_from(bytes).ok());
        let fits = bytes.filter(|bytes| (BUFFER_MIN..=BUFFER_MAX).contains(bytes));
        fits.map(Self::Bytes).ok_or_else(|| BufferSizeError::Range(text.to_owned()))
    }
}

impl fmt::Display for BufferSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unset => f.write_str("0"),
            Self::Auto => f.write_str("auto"),
            Self::Bytes(bytes) => {
                let units = [(20, "M"), (10, "K")];
                match units.into_iter().find(|(shift, _)| bytes.trailing_zeros() >= *shift) {
                    Some((shift, unit)) => write!(f, "{}{unit}", bytes >> shift),
                    None => bytes.fmt(f),
                }
            }
        }
    }
}

impl BufferSize {
    /// This, or `other` if it is not set.
    #[must_use]
    pub const fn or(self, other: Self) -> Self {
        match self {
            Self::Unset => other,
            Self::Auto | Self::Bytes(_) => self,
        }
    }

    const fn to_word(self) -> u32 {
        match self {
            Self::Unset => 0,
            Self::Auto => 1,
            Self::Bytes(bytes) => bytes,
        }
    }

    const fn from_word(word: u32) -> Self {
        match word {
            0 => Self::Unset,
            1 => Self::Auto,
            bytes => Self::Bytes(bytes),
        }
    }
}

/// Both sizes of a connection: for receiving and for sending.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct BufferSizes {
    /// `tcp-rcvbuf`.
    pub receive: BufferSize,
    /// `tcp-sndbuf`.
    pub send: BufferSize,
}

impl BufferSizes {
    /// These, each side that is not set replaced by the other's.
    #[must_use]
    pub const fn or(self, other: Self) -> Self {
        Self { receive: self.receive.or(other.receive), send: self.send.or(other.send) }
    }
}

/// Sizes that an operator changes while calls read them: one word, so that a call sees both sides
/// of the same change.
#[derive(Debug, Default)]
pub(crate) struct AtomicBufferSizes(AtomicU64);

impl AtomicBufferSizes {
    pub fn get(&self) -> BufferSizes {
        let word = self.0.load(Relaxed);
        BufferSizes {
            receive: BufferSize::from_word((word >> 32) as u32),
            send: BufferSize::from_word((word & u64::from(u32::MAX)) as u32),
        }
    }

    pub fn put(&self, sizes: BufferSizes) {
        let word = u64::from(sizes.receive.to_word()) << 32 | u64::from(sizes.send.to_word());
        self.0.store(word, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::{AtomicBufferSizes, BufferSize, BufferSizes};

    #[test]
    fn display_and_parse_agree() {
        for text in ["auto", "0", "4K", "16M", "512M", "5000", "1025K"] {
            assert_eq!(text.parse::<BufferSize>().unwrap().to_string(), text);
        }
        let told = "1GiB".parse::<BufferSize>().unwrap_err().to_string();
        assert!(told.contains("4K to 512M"), "{told}");
        assert_eq!("16mib".parse::<BufferSize>(), Ok(BufferSize::Bytes(16 << 20)));
        for text in ["", "K", "-1", "1K", "1.5M", "16X", "513M", "99999999999999999999"] {
            assert!(text.parse::<BufferSize>().is_err(), "{text}");
        }
    }

    #[test]
    fn atomic_buffer_sizes_return_what_was_stored() {
        let live = AtomicBufferSizes::default();
        assert_eq!(live.get(), BufferSizes::default());
        let sizes = BufferSizes { receive: BufferSize::Bytes(512 << 20), send: BufferSize::Auto };
        live.put(sizes);
        assert_eq!(live.get(), sizes);
        let more = BufferSizes { receive: BufferSize::Auto, send: BufferSize::Unset };
        assert_eq!(more.or(sizes), BufferSizes { receive: BufferSize::Auto, ..sizes });
    }
}
