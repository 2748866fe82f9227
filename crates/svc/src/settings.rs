//! Settings that an operator writes, as types that are parsed once.

use crate::errors::SettingError;
use serde::Serialize;
use std::fmt;
use std::str::FromStr;

/// Which CPUs share a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PoolMode {
    /// As few as can serve the load, up to one for each CPU that the process may use.
    #[default]
    Auto,
    /// One pool.
    Global,
    /// One pool for each CPU that the process may use. Its threads are not bound to that CPU: another busy
    /// program there would delay the whole pool.
    PerCpu,
    /// One pool for each memory node, its threads bound to the node's CPUs.
    PerNode,
}

impl FromStr for PoolMode {
    type Err = SettingError;

    fn from_str(text: &str) -> Result<Self, SettingError> {
        match text {
            "auto" => Ok(Self::Auto),
            "global" => Ok(Self::Global),
            "percpu" => Ok(Self::PerCpu),
            "pernode" => Ok(Self::PerNode),
            _ => Err(SettingError(format!("{text:?} is none of auto, global, percpu, pernode"))),
        }
    }
}

impl fmt::Display for PoolMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Auto => "auto",
            Self::Global => "global",
            Self::PerCpu => "percpu",
            Self::PerNode => "pernode",
        })
    }
}

/// Who is woken for a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(into = "String")]
pub enum WakePolicy {
    /// Leaders run calls to completion, and promote a follower before a call blocks.
    #[default]
    Adaptive,
    /// Each connection that is ready wakes a thread (the kernel of 2004).
    Unlimited,
    /// The same, but only while fewer than this many are woken and have not run yet (that of 2009).
    Cap(u32),
    /// One thread is woken at a time, and wakes the next if there is more (that of today).
    Chain,
}

impl From<WakePolicy> for String {
    fn from(policy: WakePolicy) -> Self {
        policy.to_string()
    }
}

impl FromStr for WakePolicy {
    type Err = SettingError;

    fn from_str(text: &str) -> Result<Self, SettingError> {
        let cap = || text.strip_prefix("cap:")?.parse().ok().filter(|n| *n > 0);
        match text {
            "adaptive" => Ok(Self::Adaptive),
            "unlimited" => Ok(Self::Unlimited),
            "chain" => Ok(Self::Chain),
            _ => cap().map(Self::Cap).ok_or_else(|| {
                SettingError(format!("{text:?} is none of adaptive, unlimited, cap:N, chain"))
            }),
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

/// How datagram sockets are laid out on each address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum UdpSockets {
    /// One, in both directions.
    #[default]
    Single,
    /// One for each interface.
    Interface,
    /// One for each CPU.
    Cpu,
    /// One for each CPU of each interface.
    InterfaceCpu,
    /// None: no datagram is received.
    Off,
}

impl UdpSockets {
    /// Whether interfaces have sockets of their own.
    pub const fn by_interface(self) -> bool {
        matches!(self, Self::Interface | Self::InterfaceCpu)
    }

    /// Whether CPUs have sockets of their own.
    pub const fn by_cpu(self) -> bool {
        matches!(self, Self::Cpu | Self::InterfaceCpu)
    }

    /// Whether an address may have several.
    pub const fn is_many(self) -> bool {
        self.by_interface() || self.by_cpu()
    }
}

impl FromStr for UdpSockets {
    type Err = SettingError;

    fn from_str(text: &str) -> Result<Self, SettingError> {
        match text {
            "single" => Ok(Self::Single),
            "interface" => Ok(Self::Interface),
            "cpu" => Ok(Self::Cpu),
            "interface-cpu" => Ok(Self::InterfaceCpu),
            "off" => Ok(Self::Off),
            _ => Err(SettingError(format!(
                "{text:?} is none of single, interface, cpu, interface-cpu, off"
            ))),
        }
    }
}

impl fmt::Display for UdpSockets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Single => "single",
            Self::Interface => "interface",
            Self::Cpu => "cpu",
            Self::InterfaceCpu => "interface-cpu",
            Self::Off => "off",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{PoolMode, UdpSockets, WakePolicy};

    #[test]
    fn printed_settings_parse_to_the_same_value() {
        for text in ["adaptive", "unlimited", "cap:5", "chain"] {
            assert_eq!(text.parse::<WakePolicy>().unwrap().to_string(), text);
        }
        for text in ["auto", "global", "percpu", "pernode"] {
            assert_eq!(text.parse::<PoolMode>().unwrap().to_string(), text);
        }
        for text in ["single", "interface", "cpu", "interface-cpu", "off"] {
            assert_eq!(text.parse::<UdpSockets>().unwrap().to_string(), text);
        }
        for text in ["cap:0", "cap:", "lifo", ""] {
            assert!(text.parse::<WakePolicy>().is_err(), "{text}");
        }
        assert!("cpu".parse::<PoolMode>().is_err());
    }
}
