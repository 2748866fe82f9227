//! A delay for measurements and tests: a share of the calls to a file system in memory blocks for some
//! time. Written `delay=SHARE:MIN..MAXms`, as in `delay=5%:5..20ms`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// Number of calls of which [`Delay::share`] are delayed.
pub const SHARE_OF: u16 = 10_000;
/// The longest delay of a call, in ms.
const LONGEST_MS: u64 = 60_000;

/// The delayed calls and their delay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Delay {
    share: u16,
    min_ms: u64,
    max_ms: u64,
}

impl Delay {
    /// How many of [`SHARE_OF`] calls are delayed: 1 to all.
    pub const fn share(self) -> u16 {
        self.share
    }

    /// The shortest and the longest delay; uniformly distributed.
    pub const fn range(self) -> (Duration, Duration) {
        (Duration::from_millis(self.min_ms), Duration::from_millis(self.max_ms))
    }
}

impl FromStr for Delay {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!("{text:?} is not a delay: write delay=SHARE:MIN..MAXms, as in delay=5%:5..20ms")
        };
        let (share, range) =
            text.strip_prefix("delay=").and_then(|rest| rest.split_once("%:")).ok_or_else(wrong)?;
        // The unit is a hundredth of a percent; two decimals are parsed.
        let (whole, part) = share.split_once('.').unwrap_or((share, "0"));
        let part = format!("{part:0<2}");
        let number = |digits: &str| digits.parse::<u16>().map_err(|_| wrong());
        let share = number(whole)?.checked_mul(100).and_then(|w| Some((w, number(&part).ok()?)));
        let share = share.and_then(|(whole, part)| whole.checked_add(part)).ok_or_else(wrong)?;
        let (min, max) =
            range.strip_suffix("ms").and_then(|range| range.split_once("..")).ok_or_else(wrong)?;
        let ms = |digits: &str| digits.parse::<u64>().map_err(|_| wrong());
        let (min_ms, max_ms) = (ms(min)?, ms(max)?);
        let fits = part.len() == 2 && (1..=SHARE_OF).contains(&share);
        if !fits || min_ms > max_ms || max_ms > LONGEST_MS {
            return Err(wrong());
        }
        Ok(Self { share, min_ms, max_ms })
    }
}

impl fmt::Display for Delay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, part) = (self.share / 100, self.share % 100);
        write!(f, "delay={whole}")?;
        if part > 0 {
            write!(f, ".{part:02}")?;
        }
        write!(f, "%:{}..{}ms", self.min_ms, self.max_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::Delay;
    use std::time::Duration;

    #[test]
    fn display_and_parse_agree() {
        for text in ["delay=5%:5..20ms", "delay=100%:0..0ms", "delay=0.05%:1..60000ms"] {
            assert_eq!(text.parse::<Delay>().unwrap().to_string(), text);
        }
        let delay: Delay = "delay=2.5%:5..20ms".parse().unwrap();
        assert_eq!(delay.share(), 250);
        assert_eq!(delay.range(), (Duration::from_millis(5), Duration::from_millis(20)));
    }

    #[test]
    fn invalid_delays_are_refused() {
        for text in [
            "",
            "5%:5..20ms",
            "delay=5:5..20ms",
            "delay=0%:1..2ms",
            "delay=101%:1..2ms",
            "delay=5%:20..5ms",
            "delay=5%:5..20",
            "delay=5%:5ms",
            "delay=5.123%:1..2ms",
            "delay=700%:1..2ms",
            "delay=5%:1..60001ms",
            "delay=-1%:1..2ms",
        ] {
            assert!(text.parse::<Delay>().is_err(), "{text}");
        }
    }
}
