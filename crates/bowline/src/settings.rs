//! Run-time settings: one row per key, and the values in force.
//!
//! `--set`, the configuration's `[set]` table, `bowline set` and `bowline get` all go through
//! [`ROWS`]. [`Values`] is plain data; who shares it keeps it behind a lock of their own.

use crate::memory_shares::MemoryShares;
use crate::tcp_buffers::{Rules, Scope, Scoped, Sizes};
use crate::values::{
    Congestion, LogLevel, Memory, PoolMode, ThreadRange, Transfer, UdpBuffer, UdpSockets,
    WakePolicy, ZeroCopy,
};
use std::str::FromStr;

/// Most threads for each CPU by default; most of them sleep in a disk.
const THREADS_PER_CPU: usize = 32;
/// Bounds of the default for the most threads.
const THREADS_DEFAULT: std::ops::RangeInclusive<usize> = 64..=512;

/// Which setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Key {
    /// `threads`.
    Threads,
    /// `pool-mode`.
    PoolMode,
    /// `wake-policy`.
    WakePolicy,
    /// `udp-sockets`.
    UdpSockets,
    /// `udp-buffer`.
    UdpBuffer,
    /// `zero-copy`.
    ZeroCopy,
    /// `tcp-rcvbuf`.
    TcpRcvbuf,
    /// `tcp-sndbuf`.
    TcpSndbuf,
    /// `tcp-congestion`.
    TcpCongestion,
    /// `max-read`.
    MaxRead,
    /// `max-write`.
    MaxWrite,
    /// `memory`.
    Memory,
    /// `log-level`.
    LogLevel,
}

/// A setting with its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// Fewest and most threads.
    Threads(ThreadRange),
    /// Which CPUs share a pool.
    PoolMode(PoolMode),
    /// Who is woken.
    WakePolicy(WakePolicy),
    /// The layout of UDP sockets.
    UdpSockets(UdpSockets),
    /// The buffers of UDP sockets.
    UdpBuffer(UdpBuffer),
    /// Whether READ copies.
    ZeroCopy(ZeroCopy),
    /// Receive buffers, and whose.
    TcpRcvbuf(Scoped),
    /// Send buffers, and whose.
    TcpSndbuf(Scoped),
    /// The congestion control of connections.
    TcpCongestion(Congestion),
    /// Largest READ.
    MaxRead(Transfer),
    /// Largest WRITE.
    MaxWrite(Transfer),
    /// Memory for calls under way.
    Memory(Memory),
    /// What is logged.
    LogLevel(LogLevel),
}

/// When a new value takes effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// At once, in a running server.
    Live,
}

/// What is known about a setting.
#[derive(Debug)]
pub struct Row {
    /// Which.
    pub key: Key,
    /// Its name.
    pub name: &'static str,
    /// When a new value takes effect.
    pub when: When,
    /// What it does, and its values.
    pub about: &'static str,
    parse: fn(&str) -> Result<Value, String>,
}

/// All settings, in the order in which they are shown.
pub static ROWS: [Row; 13] = [
    Row {
        key: Key::Threads,
        name: "threads",
        when: When::Live,
        about: "MIN..MAX: fewest and most threads that answer calls",
        parse: |text| text.parse().map(Value::Threads),
    },
    Row {
        key: Key::PoolMode,
        name: "pool-mode",
        when: When::Live,
        about: "auto|global|percpu|pernode: which CPUs share a pool of threads",
        parse: |text| text.parse().map(Value::PoolMode),
    },
    Row {
        key: Key::WakePolicy,
        name: "wake-policy",
        when: When::Live,
        about: "adaptive|unlimited|cap:N|chain: who is woken for a call",
        parse: |text| text.parse().map(Value::WakePolicy),
    },
    Row {
        key: Key::UdpSockets,
        name: "udp-sockets",
        when: When::Live,
        about: "single|interface|cpu|interface-cpu|off: how UDP sockets are laid out, if there are any",
        parse: |text| text.parse().map(Value::UdpSockets),
    },
    Row {
        key: Key::UdpBuffer,
        name: "udp-buffer",
        when: When::Live,
        about: "auto|SIZE: buffers of each UDP socket; auto is what the sysctls allow, up to 4M",
        parse: |text| text.parse().map(Value::UdpBuffer),
    },
    Row {
        key: Key::ZeroCopy,
        name: "zero-copy",
        when: When::Live,
        about: "on|off|auto: whether READ sends file pages without copying them, and whether large \
                WRITEs go through a pipe: with off they do not",
        parse: |text| text.parse().map(Value::ZeroCopy),
    },
    Row {
        key: Key::TcpRcvbuf,
        name: "tcp-rcvbuf",
        when: When::Live,
        about: "auto|0|SIZE: least receive buffer of a connection; auto: the kernel's own sizing; \
                tcp-rcvbuf@NETWORK and tcp-rcvbuf@/EXPORT for some; 0: the default again",
        parse: |text| Scoped::parse(Scope::All, text).map(Value::TcpRcvbuf),
    },
    Row {
        key: Key::TcpSndbuf,
        name: "tcp-sndbuf",
        when: When::Live,
        about: "auto|0|SIZE: least send buffer of a connection; auto: the kernel's own sizing; \
                tcp-sndbuf@NETWORK and tcp-sndbuf@/EXPORT for some; 0: the default again",
        parse: |text| Scoped::parse(Scope::All, text).map(Value::TcpSndbuf),
    },
    Row {
        key: Key::TcpCongestion,
        name: "tcp-congestion",
        when: When::Live,
        about: "auto|system|NAME: congestion control of connections; system is the sysctl's, auto makes an exception for local clients",
        parse: |text| text.parse().map(Value::TcpCongestion),
    },
    Row {
        key: Key::MaxRead,
        name: "max-read",
        when: When::Live,
        about: "SIZE, 4K to 4M: largest READ that new mounts are offered",
        parse: |text| text.parse().map(Value::MaxRead),
    },
    Row {
        key: Key::MaxWrite,
        name: "max-write",
        when: When::Live,
        about: "SIZE, 4K to 4M: largest WRITE that new mounts are offered",
        parse: |text| text.parse().map(Value::MaxWrite),
    },
    Row {
        key: Key::Memory,
        name: "memory",
        when: When::Live,
        about: "SIZE, 16M to 1T: most memory for calls that arrive and replies that are not taken",
        parse: |text| text.parse().map(Value::Memory),
    },
    Row {
        key: Key::LogLevel,
        name: "log-level",
        when: When::Live,
        about: "error|warn|info|debug|trace: what goes to the log",
        parse: |text| text.parse().map(Value::LogLevel),
    },
];

/// The row of a name; what it may be followed by (`@` and for whom) does not matter.
///
/// # Errors
/// That there is none, with the names that there are.
pub fn row(name: &str) -> Result<&'static Row, String> {
    let name = name.split_once('@').map_or(name, |(name, _)| name);
    ROWS.iter().find(|row| row.name == name).ok_or_else(|| {
        let names: Vec<&str> = ROWS.iter().map(|row| row.name).collect();
        format!("no setting is called {name:?}: there are {}", names.join(", "))
    })
}

/// Parses a value for a key.
///
/// # Errors
/// Which key or value is wrong, and what is right.
pub fn parse(name: &str, value: &str) -> Result<Value, String> {
    let row = row(name)?;
    let scope = name.split_once('@').map(|(_, scope)| scope);
    let parsed = match (row.key, scope) {
        (Key::TcpRcvbuf, Some(scope)) => scoped(scope, value).map(Value::TcpRcvbuf),
        (Key::TcpSndbuf, Some(scope)) => scoped(scope, value).map(Value::TcpSndbuf),
        (_, Some(_)) => return Err(format!("{} is one for all: nothing follows it", row.name)),
        (_, None) => (row.parse)(value),
    };
    parsed.map_err(|e| format!("{name}: {e} ({})", row.about))
}

fn scoped(scope: &str, value: &str) -> Result<Scoped, String> {
    Scoped::parse(Scope::parse(scope)?, value)
}

/// `KEY=VALUE` of the command line, checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assignment(pub Value);

impl FromStr for Assignment {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (key, value) = text.rsplit_once('=').ok_or("write KEY=VALUE, as in max-read=64K")?;
        parse(key.trim(), value.trim()).map(Self)
    }
}

impl Value {
    /// The setting that it is a value of.
    pub const fn key(&self) -> Key {
        match self {
            Self::Threads(_) => Key::Threads,
            Self::PoolMode(_) => Key::PoolMode,
            Self::WakePolicy(_) => Key::WakePolicy,
            Self::UdpSockets(_) => Key::UdpSockets,
            Self::UdpBuffer(_) => Key::UdpBuffer,
            Self::ZeroCopy(_) => Key::ZeroCopy,
            Self::TcpRcvbuf(_) => Key::TcpRcvbuf,
            Self::TcpSndbuf(_) => Key::TcpSndbuf,
            Self::TcpCongestion(_) => Key::TcpCongestion,
            Self::MaxRead(_) => Key::MaxRead,
            Self::MaxWrite(_) => Key::MaxWrite,
            Self::Memory(_) => Key::Memory,
            Self::LogLevel(_) => Key::LogLevel,
        }
    }

    /// The name of its setting, with for whom it is.
    pub fn full_name(&self) -> String {
        match self {
            Self::TcpRcvbuf(v) | Self::TcpSndbuf(v) => format!("{}{}", self.name(), v.scope),
            _ => self.name().to_owned(),
        }
    }

    /// The name of its setting.
    pub fn name(&self) -> &'static str {
        ROWS.iter().find(|row| row.key == self.key()).map_or("", |row| row.name)
    }
}

impl std::fmt::Display for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Threads(v) => v.fmt(f),
            Self::PoolMode(v) => v.fmt(f),
            Self::WakePolicy(v) => v.fmt(f),
            Self::UdpSockets(v) => v.fmt(f),
            Self::UdpBuffer(v) => v.fmt(f),
            Self::ZeroCopy(v) => v.fmt(f),
            Self::TcpRcvbuf(v) | Self::TcpSndbuf(v) => v.size.fmt(f),
            Self::TcpCongestion(v) => v.fmt(f),
            Self::MaxRead(v) | Self::MaxWrite(v) => v.fmt(f),
            Self::Memory(v) => v.fmt(f),
            Self::LogLevel(v) => v.fmt(f),
        }
    }
}

/// The values in force.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Values {
    /// `threads`.
    pub threads: ThreadRange,
    /// `pool-mode`.
    pub pool_mode: PoolMode,
    /// `wake-policy`.
    pub wake_policy: WakePolicy,
    /// `udp-sockets`.
    pub udp_sockets: UdpSockets,
    /// `udp-buffer`.
    pub udp_buffer: UdpBuffer,
    /// `zero-copy`.
    pub zero_copy: ZeroCopy,
    /// `tcp-rcvbuf`.
    pub tcp_rcvbuf: Sizes,
    /// `tcp-sndbuf`.
    pub tcp_sndbuf: Sizes,
    /// `tcp-congestion`.
    pub tcp_congestion: Congestion,
    /// `max-read`.
    pub max_read: Transfer,
    /// `max-write`.
    pub max_write: Transfer,
    /// `memory`.
    pub memory: Memory,
    /// `log-level`.
    pub log_level: LogLevel,
}

impl Default for Values {
    fn default() -> Self {
        let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let (low, high) = THREADS_DEFAULT.into_inner();
        let shares = MemoryShares::of_this_process();
        let max = shares.threads((cpus * THREADS_PER_CPU).clamp(low, high).max(cpus));
        Self {
            threads: ThreadRange { min: cpus.min(max), max },
            pool_mode: PoolMode::Auto,
            wake_policy: WakePolicy::Adaptive,
            udp_sockets: UdpSockets::Single,
            udp_buffer: UdpBuffer::Auto,
            zero_copy: ZeroCopy::Auto,
            tcp_rcvbuf: Sizes::default(),
            tcp_sndbuf: Sizes::default(),
            tcp_congestion: Congestion::Auto,
            max_read: Transfer::DEFAULT,
            max_write: Transfer::DEFAULT,
            memory: shares.memory(),
            log_level: LogLevel::Info,
        }
    }
}

impl Values {
    /// The value of one setting.
    pub fn of(&self, key: Key) -> Value {
        match key {
            Key::Threads => Value::Threads(self.threads),
            Key::PoolMode => Value::PoolMode(self.pool_mode),
            Key::WakePolicy => Value::WakePolicy(self.wake_policy),
            Key::UdpSockets => Value::UdpSockets(self.udp_sockets),
            Key::UdpBuffer => Value::UdpBuffer(self.udp_buffer),
            Key::ZeroCopy => Value::ZeroCopy(self.zero_copy),
            Key::TcpRcvbuf => Value::TcpRcvbuf(self.tcp_rcvbuf.of(&Scope::All)),
            Key::TcpSndbuf => Value::TcpSndbuf(self.tcp_sndbuf.of(&Scope::All)),
            Key::TcpCongestion => Value::TcpCongestion(self.tcp_congestion.clone()),
            Key::MaxRead => Value::MaxRead(self.max_read),
            Key::MaxWrite => Value::MaxWrite(self.max_write),
            Key::Memory => Value::Memory(self.memory),
            Key::LogLevel => Value::LogLevel(self.log_level),
        }
    }

    /// The value that another one would replace.
    pub fn before(&self, new: &Value) -> Value {
        match new {
            Value::TcpRcvbuf(new) => Value::TcpRcvbuf(self.tcp_rcvbuf.of(&new.scope)),
            Value::TcpSndbuf(new) => Value::TcpSndbuf(self.tcp_sndbuf.of(&new.scope)),
            other => self.of(other.key()),
        }
    }

    /// All values of a setting: for everybody, and for some.
    pub fn all_of(&self, key: Key) -> Vec<Value> {
        match key {
            Key::TcpRcvbuf => self.tcp_rcvbuf.list().into_iter().map(Value::TcpRcvbuf).collect(),
            Key::TcpSndbuf => self.tcp_sndbuf.list().into_iter().map(Value::TcpSndbuf).collect(),
            other => vec![self.of(other)],
        }
    }

    /// Both settings of connections' buffers.
    pub fn buffers(&self) -> Rules {
        Rules { receive: self.tcp_rcvbuf.clone(), send: self.tcp_sndbuf.clone() }
    }

    /// Takes a new value.
    pub fn put(&mut self, value: Value) {
        match value {
            Value::Threads(v) => self.threads = v,
            Value::PoolMode(v) => self.pool_mode = v,
            Value::WakePolicy(v) => self.wake_policy = v,
            Value::UdpSockets(v) => self.udp_sockets = v,
            Value::UdpBuffer(v) => self.udp_buffer = v,
            Value::ZeroCopy(v) => self.zero_copy = v,
            Value::TcpRcvbuf(v) => self.tcp_rcvbuf.put(v),
            Value::TcpSndbuf(v) => self.tcp_sndbuf.put(v),
            Value::TcpCongestion(v) => self.tcp_congestion = v,
            Value::MaxRead(v) => self.max_read = v,
            Value::MaxWrite(v) => self.max_write = v,
            Value::Memory(v) => self.memory = v,
            Value::LogLevel(v) => self.log_level = v,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Assignment, ROWS, Values, parse};

    #[test]
    fn every_value_in_force_can_be_set_again() {
        let mut values = Values::default();
        for row in &ROWS {
            let shown = values.of(row.key).to_string();
            let value = parse(row.name, &shown).unwrap();
            assert_eq!(value.name(), row.name);
            values.put(value);
        }
        assert_eq!(values, Values::default());
    }

    #[test]
    fn assignments_are_checked_once() {
        let Assignment(value) = "max-read=64K".parse().unwrap();
        let mut values = Values::default();
        values.put(value);
        assert_eq!(values.max_read.bytes(), 65536);
        let wrong = "max-reed=64K".parse::<Assignment>().unwrap_err();
        assert!(wrong.contains("max-read, max-write"), "{wrong}");
    }

    #[test]
    fn buffers_may_be_for_some() {
        let mut values = Values::default();
        for (text, name) in [
            ("tcp-rcvbuf=16M", "tcp-rcvbuf"),
            ("tcp-rcvbuf@10.0.0.0/8=4M", "tcp-rcvbuf@10.0.0.0/8"),
            ("tcp-sndbuf@/srv/a=b=1M", "tcp-sndbuf@/srv/a=b"),
        ] {
            let Assignment(value) = text.parse().unwrap();
            assert_eq!(value.full_name(), name);
            assert_ne!(values.before(&value), value);
            values.put(value.clone());
            assert_eq!(values.before(&value), value);
        }
        assert_eq!(values.all_of(super::Key::TcpRcvbuf).len(), 2);
        for wrong in ["tcp-rcvbuf@nowhere=1M", "max-read@10.0.0.0/8=64K", "tcp-rcvbuf@=1M"] {
            assert!(wrong.parse::<Assignment>().is_err(), "{wrong}");
        }
    }
}
