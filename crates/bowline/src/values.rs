//! The values of run-time settings as types that cannot be wrong; each parses what people write
//! and displays in the form that `set` takes.

use std::fmt;
use std::str::FromStr;

/// Most threads: beyond it a machine only swaps stacks.
pub const THREADS_MAX: usize = 4096;
/// Smallest transfer size that a setting may ask for, in bytes: a page.
pub const TRANSFER_MIN: u64 = 4096;
/// Largest transfer size, in bytes: what the record limit and the buffers are made for.
pub const TRANSFER_MAX: u64 = 4 << 20;

/// Least memory for calls under way, in bytes: a few of the largest records and replies.
pub const MEMORY_MIN: u64 = 16 << 20;
/// Most memory for calls under way, in bytes.
pub const MEMORY_MAX: u64 = 1 << 40;

/// Smallest buffer of a UDP socket, in bytes: below it not even small calls fit.
pub const UDP_BUFFER_MIN: u64 = 4096;
/// Largest buffer of a UDP socket, in bytes: a second of a 10 Gbit/s line.
pub const UDP_BUFFER_MAX: u64 = 1 << 30;

/// A number of bytes, as `65536`, `64K`, `64KiB`, `1M`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Size(pub u64);

impl FromStr for Size {
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
            _ => return Err(wrong()),
        };
        let number: u64 = number.parse().map_err(|_| wrong())?;
        number.checked_mul(1 << shift).map(Self).ok_or_else(wrong)
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [(30, "G"), (20, "M"), (10, "K")];
        let fits = |shift: u32| self.0 != 0 && self.0.trailing_zeros() >= shift;
        match units.into_iter().find(|(shift, _)| fits(*shift)) {
            Some((shift, unit)) => write!(f, "{}{unit}", self.0 >> shift),
            None => write!(f, "{}", self.0),
        }
    }
}

/// A transfer size: [`TRANSFER_MIN`] to [`TRANSFER_MAX`], in whole pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transfer(u32);

impl Transfer {
    /// What Linux clients ask for at most, whatever they are offered.
    pub const DEFAULT: Self = Self(1 << 20);

    /// Bytes.
    pub const fn bytes(self) -> u32 {
        self.0
    }
}

impl FromStr for Transfer {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let size: Size = text.parse()?;
        if !(TRANSFER_MIN..=TRANSFER_MAX).contains(&size.0) || !size.0.is_multiple_of(TRANSFER_MIN)
        {
            let (min, max) = (Size(TRANSFER_MIN), Size(TRANSFER_MAX));
            return Err(format!("{size} is out of range: {min} to {max}, in steps of {min}"));
        }
        u32::try_from(size.0).map(Self).map_err(|e| e.to_string())
    }
}

impl fmt::Display for Transfer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Size(self.0.into()).fmt(f)
    }
}

/// Memory for calls and replies under way: [`MEMORY_MIN`] to [`MEMORY_MAX`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Memory(u64);

impl Memory {
    /// Enough for some hundreds of large WRITEs that arrive at once.
    const AMPLE: u64 = 512 << 20;

    /// So many bytes, or as many as are of use.
    pub fn nearest(bytes: u64) -> Self {
        Self(bytes.clamp(MEMORY_MIN, Self::AMPLE))
    }

    /// Bytes.
    pub fn bytes(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }
}

impl FromStr for Memory {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let size: Size = text.parse()?;
        if (MEMORY_MIN..=MEMORY_MAX).contains(&size.0) {
            return Ok(Self(size.0));
        }
        Err(format!("{size} is out of range: {} to {}", Size(MEMORY_MIN), Size(MEMORY_MAX)))
    }
}

impl fmt::Display for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Size(self.0).fmt(f)
    }
}

/// Fewest and most threads of the server, as `2..64`, or `8` for exactly eight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ThreadRange {
    /// Fewest, at least 1.
    pub min: usize,
    /// Most, at least `min`, at most [`THREADS_MAX`].
    pub max: usize,
}

impl FromStr for ThreadRange {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong =
            || format!("{text:?} is not a range of threads: write MIN..MAX, 1 to {THREADS_MAX}");
        let (min, max) = text.split_once("..").unwrap_or((text, text));
        let min: usize = min.trim().parse().map_err(|_| wrong())?;
        let max: usize = max.trim().parse().map_err(|_| wrong())?;
        if min < 1 || min > max || max > THREADS_MAX { Err(wrong()) } else { Ok(Self { min, max }) }
    }
}

impl fmt::Display for ThreadRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}..{}", self.min, self.max)
    }
}

/// The congestion control of connections: the system's, with or without an exception for local ones, or one by
/// its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Congestion {
    /// The system's; for clients on this machine one that does not pace.
    Auto,
    /// What `net.ipv4.tcp_congestion_control` says.
    System,
    /// One of `net.ipv4.tcp_available_congestion_control`.
    Named(String),
}

/// Longest name of a congestion control (TCP_CA_NAME_MAX, less the end).
const CONGESTION_NAME_MAX: usize = 15;

impl FromStr for Congestion {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let fits = |b: u8| b.is_ascii_alphanumeric() || b"_-".contains(&b);
        match text {
            "auto" => Ok(Self::Auto),
            "system" => Ok(Self::System),
            name if (1..=CONGESTION_NAME_MAX).contains(&name.len()) && name.bytes().all(fits) => {
                Ok(Self::Named(name.to_owned()))
            }
            _ => Err(format!("{text:?} is no congestion control: write auto, system, or a name")),
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

/// The buffers of UDP sockets, each direction: as large as the sysctls allow up to 4 MiB, or fixed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UdpBuffer {
    /// As large as the sysctls allow, 4 MiB at most.
    Auto,
    /// So many bytes, [`UDP_BUFFER_MIN`] to [`UDP_BUFFER_MAX`].
    Fixed(Size),
}

impl UdpBuffer {
    /// Bytes, if fixed.
    pub fn bytes(self) -> Option<usize> {
        match self {
            Self::Auto => None,
            Self::Fixed(size) => usize::try_from(size.0).ok(),
        }
    }
}

impl FromStr for UdpBuffer {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "auto" {
            return Ok(Self::Auto);
        }
        let size: Size = text.parse().map_err(|error| format!("{error}; or auto"))?;
        if (UDP_BUFFER_MIN..=UDP_BUFFER_MAX).contains(&size.0) {
            return Ok(Self::Fixed(size));
        }
        let (min, max) = (Size(UDP_BUFFER_MIN), Size(UDP_BUFFER_MAX));
        Err(format!("{size} is out of range: {min} to {max}, or auto"))
    }
}

impl fmt::Display for UdpBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Fixed(size) => size.fmt(f),
        }
    }
}

/// Declares a setting that takes one of a few words.
macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $word:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum $name { $($(#[$vdoc])* $variant,)+ }

        impl FromStr for $name {
            type Err = String;

            fn from_str(text: &str) -> Result<Self, String> {
                match text {
                    $($word => Ok(Self::$variant),)+
                    _ => Err(format!("{text:?} is none of {}", [$($word),+].join(", "))),
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self { $(Self::$variant => $word,)+ })
            }
        }
    };
}

words! {
    /// Which CPUs share a pool of threads.
    PoolMode {
        /// As few as can serve the load.
        Auto = "auto",
        /// One pool.
        Global = "global",
        /// One for each CPU.
        PerCpu = "percpu",
        /// One for each NUMA node.
        PerNode = "pernode",
    }
}

words! {
    /// How UDP sockets are laid out.
    UdpSockets {
        /// One for all.
        Single = "single",
        /// One for each interface.
        Interface = "interface",
        /// One for each CPU.
        Cpu = "cpu",
        /// One for each CPU of each interface.
        InterfaceCpu = "interface-cpu",
        /// None: UDP is not served.
        Off = "off",
    }
}

words! {
    /// Whether READ sends file pages without copying them.
    ZeroCopy {
        /// Always.
        On = "on",
        /// Never.
        Off = "off",
        /// Where it pays.
        Auto = "auto",
    }
}

words! {
    /// What goes to the log.
    LogLevel {
        /// What stops a part of the server.
        Error = "error",
        /// What an operator should look at.
        Warn = "warn",
        /// What changes: start, stop, reload.
        Info = "info",
        /// Details of odd clients.
        Debug = "debug",
        /// All.
        Trace = "trace",
    }
}

/// Who is woken for a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WakePolicy {
    /// Leaders run to completion, followers step in.
    Adaptive,
    /// Every call wakes a thread.
    Unlimited,
    /// At most so many threads are on their way.
    Cap(u32),
    /// Each woken thread wakes the next.
    Chain,
}

impl FromStr for WakePolicy {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is none of adaptive, unlimited, cap:N, chain");
        match text {
            "adaptive" => Ok(Self::Adaptive),
            "unlimited" => Ok(Self::Unlimited),
            "chain" => Ok(Self::Chain),
            _ => {
                let n = text.strip_prefix("cap:").and_then(|n| n.parse().ok());
                n.filter(|n| *n > 0).map(Self::Cap).ok_or_else(wrong)
            }
        }
    }
}

impl fmt::Display for WakePolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Adaptive => f.write_str("adaptive"),
            Self::Unlimited => f.write_str("unlimited"),
            Self::Cap(n) => write!(f, "cap:{n}"),
            Self::Chain => f.write_str("chain"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{
        Congestion, LogLevel, PoolMode, Size, ThreadRange, Transfer, UdpBuffer, WakePolicy,
    };
    use std::fmt::{Debug, Display};
    use std::str::FromStr;

    fn same<T: FromStr<Err = String> + Display + Debug>(texts: &[&str]) {
        for text in texts {
            assert_eq!(text.parse::<T>().unwrap().to_string(), *text);
        }
    }

    fn wrong<T: FromStr<Err = String> + Display + Debug>(texts: &[&str]) {
        for text in texts {
            let parsed = text.parse::<T>();
            assert!(parsed.is_err(), "{text:?} became {parsed:?}");
        }
    }

    #[test]
    fn what_is_shown_can_be_set() {
        same::<Size>(&["0", "1", "1023", "1K", "64K", "3M", "1G", "1025"]);
        same::<ThreadRange>(&["1..1", "2..64", "1..4096"]);
        same::<Transfer>(&["4K", "64K", "1M", "4M", "12K"]);
        same::<UdpBuffer>(&["auto", "256K", "1G"]);
        same::<Congestion>(&["auto", "system", "cubic", "bbr"]);
        same::<WakePolicy>(&["adaptive", "unlimited", "cap:5", "chain"]);
        same::<PoolMode>(&["auto", "global", "percpu", "pernode"]);
        same::<LogLevel>(&["error", "trace"]);
    }

    #[test]
    fn units_are_what_people_write() {
        for text in ["65536", "64k", "64K", "64KiB", "65536B"] {
            assert_eq!(text.parse::<Size>().unwrap(), Size(65536), "{text}");
        }
        assert_eq!("8".parse::<ThreadRange>().unwrap(), ThreadRange { min: 8, max: 8 });
    }

    #[test]
    fn nonsense_is_refused() {
        wrong::<Size>(&["", "K", "-1", "1.5M", "64X", "18446744073709551615K", "1 K"]);
        wrong::<ThreadRange>(&["", "0", "4..2", "1..4097", "a..b", "..", "1...2"]);
        wrong::<Transfer>(&["0", "1K", "5000", "8M"]);
        wrong::<UdpBuffer>(&["", "0", "2G", "2K", "none"]);
        wrong::<Congestion>(&["", "a b", "abcdefghijklmnop"]);
        wrong::<WakePolicy>(&["cap:0", "cap:", "cap", "lifo"]);
        wrong::<PoolMode>(&["cpu", ""]);
    }
}
