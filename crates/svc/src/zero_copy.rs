//! When READ's data leaves as a range of a file and when it is copied: the setting and the table.
//!
//! Sending a range costs two system calls more than copying into the reply (one to find out whether it
//! is in memory, one for the header), and saves copying the data twice. From
//! which size on it pays depends on the transport, and on whether other replies leave together with this one: those
//! that are copied share one send, a range never does.

use rpc::Transport;
use std::fmt;
use std::str::FromStr;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

use crate::errors::SettingError;

/// Whether READ sends file pages without copying them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ZeroCopy {
    /// Whatever the size.
    On,
    /// Never.
    Off,
    /// From the size on where it pays, over a transport where it does.
    #[default]
    Auto,
}

/// How a reply leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReplyBatch {
    /// By itself.
    One,
    /// Other calls came together with this one.
    Many,
}

/// Bytes from which on a range is cheaper, by how the reply leaves; `None`: never.
///
/// The table is `docs/bench/zero-copy.md`, measured with this server by `bowline bench run zc-read`. In
/// a batch the copied replies share one send where each range takes two system calls, so that the
/// range has to save that as well: twice the size is an estimate. In datagrams it cost more at every size.
const fn crossover(transport: Transport, batch: ReplyBatch) -> Option<usize> {
    match (transport, batch) {
        (Transport::Tcp, ReplyBatch::One) => Some(16 << 10),
        (Transport::Tcp, ReplyBatch::Many) => Some(32 << 10),
        (Transport::Udp, ReplyBatch::One | ReplyBatch::Many) => None,
    }
}

impl ZeroCopy {
    /// The shortest range that is taken; `None`: none.
    pub(crate) const fn range_min(self, transport: Transport, batch: ReplyBatch) -> Option<usize> {
        match self {
            Self::On => Some(1),
            Self::Off => None,
            Self::Auto => crossover(transport, batch),
        }
    }
}

impl FromStr for ZeroCopy {
    type Err = SettingError;

    fn from_str(text: &str) -> Result<Self, SettingError> {
        match text {
            "on" => Ok(Self::On),
            "off" => Ok(Self::Off),
            "auto" => Ok(Self::Auto),
            _ => Err(SettingError(format!("{text:?} is none of on, off, auto"))),
        }
    }
}

impl fmt::Display for ZeroCopy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::On => "on",
            Self::Off => "off",
            Self::Auto => "auto",
        })
    }
}

/// The setting as workers read it.
#[derive(Debug)]
pub(crate) struct ZeroCopySetting(AtomicU8);

impl ZeroCopySetting {
    pub fn new(choice: ZeroCopy) -> Self {
        let all = Self(AtomicU8::new(0));
        all.set(choice);
        all
    }

    pub fn set(&self, choice: ZeroCopy) {
        let number = match choice {
            ZeroCopy::On => 0,
            ZeroCopy::Off => 1,
            ZeroCopy::Auto => 2,
        };
        self.0.store(number, Relaxed);
    }

    pub fn now(&self) -> ZeroCopy {
        match self.0.load(Relaxed) {
            0 => ZeroCopy::On,
            1 => ZeroCopy::Off,
            _ => ZeroCopy::Auto,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{ReplyBatch, ZeroCopy, ZeroCopySetting};
    use rpc::Transport;

    #[test]
    fn a_zero_copy_setting_takes_effect() {
        for text in ["on", "off", "auto"] {
            let choice: ZeroCopy = text.parse().unwrap();
            assert_eq!(choice.to_string(), text);
            assert_eq!(ZeroCopySetting::new(choice).now(), choice);
        }
        assert!("maybe".parse::<ZeroCopy>().is_err());
        let least = |choice: ZeroCopy| choice.range_min(Transport::Tcp, ReplyBatch::One);
        assert_eq!((least(ZeroCopy::On), least(ZeroCopy::Off)), (Some(1), None));
        assert!(least(ZeroCopy::Auto) > Some(1));
        assert_eq!(ZeroCopy::Auto.range_min(Transport::Udp, ReplyBatch::One), None);
    }
}
