//! What a server is started with, and the settings that people write, as types that parse once.

use crate::conn::congestion::Congestion;
use crate::conn::tcp_buffers::BufferRules;
use crate::{Limits, ZeroCopy};
use rpc::SocketBufferSizes;
use serde::Serialize;
use std::fmt;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::str::FromStr;

/// What a [`crate::Server`] is started with.
#[derive(Debug)]
pub struct Config {
    /// Where to listen for connections; port 0 takes any.
    pub tcp: Vec<SocketAddr>,
    /// Where to take datagrams; port 0 takes any.
    pub udp: Vec<SocketAddr>,
    /// Sockets that somebody else has bound.
    pub adopted: Adopted,
    /// Fewest and most worker threads of all pools together; each pool has one at least.
    pub threads: (usize, usize),
    /// How many pools.
    pub pool_mode: PoolMode,
    /// Who is woken for a call.
    pub wake_policy: WakePolicy,
    /// How datagram sockets are laid out.
    pub udp_sockets: UdpSockets,
    /// Bytes for each buffer of each datagram socket; `None`: as the sysctls allow.
    pub udp_buffer: Option<usize>,
    /// Whether READ sends file pages without copying them.
    pub zero_copy: ZeroCopy,
    /// What peers may make grow.
    pub limits: Limits,
    /// What connections' socket buffers are to be.
    pub buffers: Box<dyn BufferRules>,
    /// The congestion control of connections.
    pub congestion: Congestion,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            tcp: Vec::new(),
            udp: Vec::new(),
            adopted: Adopted::default(),
            threads: (2, 128),
            pool_mode: PoolMode::Auto,
            wake_policy: WakePolicy::Adaptive,
            udp_sockets: UdpSockets::default(),
            udp_buffer: None,
            zero_copy: ZeroCopy::Auto,
            limits: Limits::default(),
            buffers: Box::new(SocketBufferSizes::UNSET),
            congestion: Congestion::Auto,
        }
    }
}

/// Sockets that were bound before the server started, by systemd for one.
#[derive(Debug, Default)]
pub struct Adopted {
    /// Listeners.
    pub tcp: Vec<TcpListener>,
    /// Datagram sockets.
    pub udp: Vec<UdpSocket>,
}

/// A setting that cannot be applied; the operator is at fault.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SettingError(pub(crate) String);

/// Which CPUs share a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PoolMode {
    /// As few as can serve the load, up to one for each CPU that the process may use.
    #[default]
    Auto,
    /// One pool.
    Global,
    /// One pool for each CPU that the process may use. Its threads are not bound to that CPU:
    /// a busy neighbour would hold the whole pool up.
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
    /// Leaders run calls to completion, followers step in before a call sleeps.
    #[default]
    Adaptive,
    /// Each connection that is ready wakes a thread (the kernel of 2004).
    Unlimited,
    /// The same, but only while fewer than so many are woken and have not run yet (that of 2009).
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
    fn what_is_printed_is_what_is_read() {
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
