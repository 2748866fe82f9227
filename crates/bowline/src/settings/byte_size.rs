//! How sizes are written: `65536`, `64K`, `64KiB`, `1M`; with `auto` where a setting has that.

use std::fmt;
use std::str::FromStr;

/// Units by their binary exponent, as they are printed.
const UNITS: [(u32, &str); 4] = [(40, "T"), (30, "G"), (20, "M"), (10, "K")];

/// A number of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ByteSize(pub u64);

impl FromStr for ByteSize {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is not a size: write bytes, or a number with K, M or G");
        let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        let (number, unit) = text.split_at(digits);
        let shift = match unit.to_ascii_lowercase().as_str() {
            "" | "b" => 0,
            "k" | "kib" => 10,
            "m" | "mib" => 20,
            "g" | "gib" => 30,
            "t" | "tib" => 40,
            _ => return Err(wrong()),
        };
        let number: u64 = number.parse().map_err(|_| wrong())?;
        number.checked_mul(1 << shift).map(Self).ok_or_else(wrong)
    }
}

impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let divides = |shift: u32| self.0 != 0 && self.0.trailing_zeros() >= shift;
        match UNITS.into_iter().find(|(shift, _)| divides(*shift)) {
            Some((shift, unit)) => write!(f, "{}{unit}", self.0 >> shift),
            None => write!(f, "{}", self.0),
        }
    }
}

/// A value of a setting that is written as a size; `T` knows its range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bytes<T>(pub T);

impl<T> FromStr for Bytes<T>
where
    T: TryFrom<u64>,
    T::Error: fmt::Display,
{
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let size: ByteSize = text.parse()?;
        T::try_from(size.0).map(Self).map_err(|error| format!("{size} is {error}"))
    }
}

impl<T: Into<u64> + Copy> fmt::Display for Bytes<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        ByteSize(self.0.into()).fmt(f)
    }
}

/// A value, or `auto`: the server chooses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AutoOr<T> {
    /// The server chooses.
    Auto,
    /// This value.
    Value(T),
}

impl<T: FromStr<Err = String>> FromStr for AutoOr<T> {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "auto" {
            return Ok(Self::Auto);
        }
        text.parse().map(Self::Value).map_err(|error| format!("{error}; or auto"))
    }
}

impl<T: fmt::Display> fmt::Display for AutoOr<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Value(value) => value.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{AutoOr, ByteSize, Bytes};
    use nfs::TransferSize;
    use svc::UdpBufferSize;

    #[test]
    fn printed_sizes_parse_to_the_same_value() {
        for text in ["0", "1", "1023", "1K", "64K", "3M", "1G", "1025", "1T"] {
            assert_eq!(text.parse::<ByteSize>().unwrap().to_string(), text);
        }
        for text in ["auto", "256K", "1G"] {
            let parsed: AutoOr<Bytes<UdpBufferSize>> = text.parse().unwrap();
            assert_eq!(parsed.to_string(), text);
        }
    }

    #[test]
    fn units_have_several_spellings() {
        for text in ["65536", "64k", "64K", "64KiB", "65536B"] {
            assert_eq!(text.parse(), Ok(ByteSize(65536)), "{text}");
        }
    }

    #[test]
    fn malformed_sizes_are_rejected() {
        for text in ["", "K", "-1", "1.5M", "64X", "18446744073709551615K", "1 K"] {
            assert!(text.parse::<ByteSize>().is_err(), "{text}");
        }
        let error = "3K".parse::<Bytes<TransferSize>>().unwrap_err();
        assert_eq!(error, "3K is out of range: 4K to 4M, in steps of 4K");
        for text in ["", "0", "2G", "2K", "none"] {
            let error = text.parse::<AutoOr<Bytes<UdpBufferSize>>>().unwrap_err();
            assert!(error.ends_with("; or auto"), "{error}");
        }
    }
}
