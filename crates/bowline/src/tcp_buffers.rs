//! `tcp-rcvbuf` and `tcp-sndbuf`: sizes for all connections, for those of a network, and for
//! those that use an export; and what there is to say about a size.
//!
//! A setting's name may be followed by whom it is for: `tcp-rcvbuf@10.0.0.0/8=16M`,
//! `tcp-sndbuf@/srv/data=4M`. What an exports(5) rule says goes before the export's size, that
//! before the network's (the longest prefix counts), and that before the server-wide one.

use crate::values::Size;
use export::{BufferSize, BufferSizes, Client, Network};
use rpc::{SocketBufferSize, SocketBufferSizes};
use std::fmt;
use std::net::IpAddr;
use svc::{Applied, BufferTotals};
use sys::tcp::Side;

/// Most networks and exports with sizes of their own, for each of the two settings.
const SCOPES_MAX: usize = 256;

/// Whose connections a size is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scope {
    /// Everybody's.
    All,
    /// Those of a network's clients.
    Network(Network),
    /// Those over which the export of this path is used.
    Export(String),
}

impl Scope {
    /// Parses what stands behind the `@` of a setting's name.
    ///
    /// # Errors
    /// What could stand there.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.starts_with('/') {
            return Ok(Self::Export(text.to_owned()));
        }
        match Client::parse(text) {
            Ok(Client::Network(network)) => Ok(Self::Network(network)),
            Ok(Client::Address(address)) => {
                let bits = if address.is_ipv4() { 32 } else { 128 };
                Network::new(address, bits).map(Self::Network).ok_or_else(|| text.to_owned())
            }
            Ok(_) | Err(_) => Err(format!(
                "{text:?} is neither a network nor an export: write @10.0.0.0/8, @2001:db8::/32 or \
                 @/the/export's/path"
            )),
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => Ok(()),
            Self::Network(network) => write!(f, "@{network}"),
            Self::Export(path) => write!(f, "@{path}"),
        }
    }
}

/// A size, and for whom.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scoped {
    /// For whom.
    pub scope: Scope,
    /// The size.
    pub size: BufferSize,
}

impl Scoped {
    /// Parses a value for a scope.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(scope: Scope, text: &str) -> Result<Self, String> {
        let size = match (text.parse().map_err(|e: export::BufferSizeError| e.to_string())?, &scope)
        {
            // 0 restores the default, which for everybody is the kernel's own sizing.
            (BufferSize::Unset, Scope::All) => BufferSize::Auto,
            (size, Scope::All | Scope::Network(_) | Scope::Export(_)) => size,
        };
        Ok(Self { scope, size })
    }
}

/// The sizes of one setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sizes {
    all: BufferSize,
    /// The longest prefix first.
    networks: Vec<(Network, BufferSize)>,
    exports: Vec<(String, BufferSize)>,
}

impl Default for Sizes {
    fn default() -> Self {
        Self { all: BufferSize::Auto, networks: Vec::new(), exports: Vec::new() }
    }
}

impl Sizes {
    /// The size of one scope.
    pub fn of(&self, scope: &Scope) -> Scoped {
        let size = match scope {
            Scope::All => self.all,
            Scope::Network(network) => found(&self.networks, network),
            Scope::Export(path) => found(&self.exports, path),
        };
        Scoped { scope: scope.clone(), size }
    }

    /// All sizes: everybody's first.
    pub fn list(&self) -> Vec<Scoped> {
        let network = |(network, size): &(Network, _)| (Scope::Network(*network), *size);
        let export = |(path, size): &(String, _)| (Scope::Export(path.clone()), *size);
        let all = std::iter::once((Scope::All, self.all));
        let rest = self.networks.iter().map(network).chain(self.exports.iter().map(export));
        all.chain(rest).map(|(scope, size)| Scoped { scope, size }).collect()
    }

    /// Takes a size; `0` strikes that of a network or an export out.
    pub fn put(&mut self, new: Scoped) {
        match new.scope {
            Scope::All => self.all = new.size,
            Scope::Network(network) => {
                set(&mut self.networks, network, new.size);
                self.networks.sort_by_key(|(network, _)| std::cmp::Reverse(network.bits()));
            }
            Scope::Export(path) => set(&mut self.exports, path, new.size),
        }
    }

    /// Whether there is room for one more.
    ///
    /// # Errors
    /// That there is none.
    pub fn has_room(&self) -> Result<(), String> {
        if self.networks.len().max(self.exports.len()) < SCOPES_MAX {
            return Ok(());
        }
        Err(format!("sizes for {SCOPES_MAX} networks or exports are set already: set some to 0"))
    }

    fn for_client(&self, client: IpAddr) -> BufferSize {
        let client = client.to_canonical();
        let found = self.networks.iter().find(|(network, _)| network.contains(client));
        found.map_or(BufferSize::Unset, |(_, size)| *size)
    }
}

fn found<T: PartialEq>(list: &[(T, BufferSize)], key: &T) -> BufferSize {
    list.iter().find(|(own, _)| own == key).map_or(BufferSize::Unset, |(_, size)| *size)
}

fn set<T: PartialEq>(list: &mut Vec<(T, BufferSize)>, key: T, size: BufferSize) {
    list.retain(|(own, _)| *own != key);
    if size != BufferSize::Unset {
        list.push((key, size));
    }
}

/// Both settings, as the server's crate asks for them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rules {
    /// `tcp-rcvbuf`.
    pub receive: Sizes,
    /// `tcp-sndbuf`.
    pub send: Sizes,
}

impl Rules {
    /// What an export's connections are to have.
    pub fn for_export(&self, path: &str) -> BufferSizes {
        let path = path.to_owned();
        BufferSizes {
            receive: found(&self.receive.exports, &path),
            send: found(&self.send.exports, &path),
        }
    }
}

impl svc::BufferRules for Rules {
    fn server_wide(&self) -> SocketBufferSizes {
        SocketBufferSizes { receive: wish(self.receive.all), send: wish(self.send.all) }
    }

    fn for_client(&self, client: IpAddr) -> SocketBufferSizes {
        SocketBufferSizes {
            receive: wish(self.receive.for_client(client)),
            send: wish(self.send.for_client(client)),
        }
    }
}

const fn wish(size: BufferSize) -> SocketBufferSize {
    match size {
        BufferSize::Unset => SocketBufferSize::UNSET,
        BufferSize::Auto => SocketBufferSize::AUTO,
        BufferSize::Bytes(bytes) => SocketBufferSize::bytes(bytes),
    }
}

/// Whether a size can be taken at all.
///
/// # Errors
/// One such buffer alone is more than all may have together.
pub fn check(name: &str, new: &Scoped, totals: BufferTotals) -> Result<(), String> {
    let BufferSize::Bytes(bytes) = new.size else { return Ok(()) };
    let twice = u64::from(bytes).saturating_mul(2);
    if totals.promised_bytes_max == 0 || twice <= totals.promised_bytes_max {
        return Ok(());
    }
    Err(format!(
        "{name}={}: one such buffer, {} with the kernel's overhead, is more than all connections \
         may have together, {} (net.ipv4.tcp_mem): choose less, or raise the sysctl",
        new.size,
        admin::bytes(twice),
        admin::bytes(totals.promised_bytes_max)
    ))
}

/// What there is to say about a size that was taken.
pub fn notes(side: Side, new: &Scoped, rules: &Rules, applied: &Applied) -> Vec<String> {
    let mut notes = Vec::new();
    if let BufferSize::Bytes(bytes) = new.size {
        notes.extend(clamped(side, bytes));
        notes.extend(below_default(side, bytes));
        if side == Side::Receive && new.scope != Scope::All {
            notes.extend(beyond_scale(bytes, rules.receive.all));
        }
    }
    notes.extend(on_open_connections(applied));
    notes
}

/// What a sysctl leaves of a size, asked of the kernel with a socket of its own.
fn clamped(side: Side, bytes: u32) -> Option<String> {
    let got = sys::tcp::try_buffer(side, bytes).ok()?;
    if u64::from(got) >= u64::from(bytes).saturating_mul(2) {
        return None;
    }
    let name = match side {
        Side::Receive => "net.core.rmem_max",
        Side::Send => "net.core.wmem_max",
    };
    Some(format!(
        "{name} cuts it to {}: raise it with `sysctl -w {name}={bytes}`, or give the server \
         CAP_NET_ADMIN",
        Size((got / 2).into())
    ))
}

fn below_default(side: Side, bytes: u32) -> Option<String> {
    let name = match side {
        Side::Receive => "tcp_rmem",
        Side::Send => "tcp_wmem",
    };
    let default = *sys::tcp::sysctl_triple(name)?.get(1)?;
    (u64::from(bytes).saturating_mul(2) <= default).then(|| {
        format!(
            "it changes nothing: sizes are minima, and a connection begins with {} \
             (net.ipv4.{name}), half of which counts",
            Size(default)
        )
    })
}

/// Beyond what the kernel reserves for in the window scale, only the listener's size counts.
fn beyond_scale(bytes: u32, server_wide: BufferSize) -> Option<String> {
    let largest = *sys::tcp::sysctl_triple("tcp_rmem")?.get(2)?;
    let listener = match server_wide {
        BufferSize::Bytes(bytes) => bytes.into(),
        BufferSize::Unset | BufferSize::Auto => 0,
    };
    let reach = largest.max(listener);
    (u64::from(bytes) > reach).then(|| {
        format!(
            "windows beyond {} may be out of reach: how far a window can be scaled is agreed on \
             before the client or the export is known; raise the last number of net.ipv4.tcp_rmem, \
             or set tcp-rcvbuf for all",
            Size(reach)
        )
    })
}

fn on_open_connections(applied: &Applied) -> Option<String> {
    let Applied { connections, as_wanted, cut_by_sysctl, cut_by_memory, cut_by_scale } = *applied;
    if connections == 0 {
        return None;
    }
    let mut text = format!("of {connections} open connections, {as_wanted} changed as wanted");
    for (count, why) in [
        (cut_by_sysctl, "are cut by a sysctl"),
        (cut_by_memory, "are cut because all buffers together must fit net.ipv4.tcp_mem"),
        (cut_by_scale, "cannot use all of it before they connect again"),
    ] {
        if count > 0 {
            text.push_str(&format!(", {count} {why}"));
        }
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::{Rules, Scope, Scoped, Sizes, check};
    use export::BufferSize;
    use svc::{BufferRules, BufferTotals};

    fn put(sizes: &mut Sizes, scope: &str, size: &str) {
        let scope = if scope.is_empty() { Scope::All } else { Scope::parse(scope).unwrap() };
        sizes.put(Scoped::parse(scope, size).unwrap());
    }

    #[test]
    fn the_longest_prefix_counts_and_0_strikes_out() {
        let mut sizes = Sizes::default();
        put(&mut sizes, "", "1M");
        put(&mut sizes, "10.0.0.0/8", "4M");
        put(&mut sizes, "10.1.0.0/16", "auto");
        put(&mut sizes, "10.1.2.3", "16M");
        put(&mut sizes, "/srv", "8M");
        let of = |sizes: &Sizes, ip: &str| sizes.for_client(ip.parse().unwrap()).to_string();
        assert_eq!(of(&sizes, "10.9.9.9"), "4M");
        assert_eq!(of(&sizes, "10.1.9.9"), "auto");
        assert_eq!(of(&sizes, "::ffff:10.1.2.3"), "16M");
        assert_eq!(of(&sizes, "192.168.0.1"), "0");
        let shown: Vec<String> =
            sizes.list().iter().map(|s| format!("{}={}", s.scope, s.size)).collect();
        assert_eq!(
            shown,
            ["=1M", "@10.1.2.3/32=16M", "@10.1.0.0/16=auto", "@10.0.0.0/8=4M", "@/srv=8M"]
        );
        put(&mut sizes, "10.1.2.3/32", "0");
        assert_eq!(of(&sizes, "10.1.2.3"), "auto");
        put(&mut sizes, "", "0");
        assert_eq!(sizes.of(&Scope::All).size, BufferSize::Auto);
        let rules = Rules { receive: sizes, send: Sizes::default() };
        assert_eq!(rules.for_export("/srv").receive, BufferSize::Bytes(8 << 20));
        assert_eq!(rules.server_wide().send.size(), None);
        assert_eq!(rules.for_client("10.0.0.1".parse().unwrap()).receive.size(), Some(4 << 20));
    }

    #[test]
    fn who_is_no_network_and_no_export_is_refused() {
        for text in ["", "host", "*", "10.0.0.0/33", "@group", "srv"] {
            assert!(Scope::parse(text).unwrap_err().contains("@10.0.0.0/8"), "{text}");
        }
        let six = Scope::parse("2001:db8::/32").unwrap();
        assert_eq!(six.to_string(), "@2001:db8::/32");
    }

    #[test]
    fn a_buffer_for_which_there_is_no_memory_is_refused() {
        let totals = BufferTotals { promised_bytes: 0, promised_bytes_max: 32 << 20 };
        let size = |text| Scoped::parse(Scope::All, text).unwrap();
        assert!(check("tcp-rcvbuf", &size("16M"), totals).is_ok());
        let told = check("tcp-rcvbuf", &size("17M"), totals).unwrap_err();
        assert!(told.contains("net.ipv4.tcp_mem"), "{told}");
    }
}
