//! Types of `tcp-rcvbuf` and `tcp-sndbuf`: sizes for all connections, for the clients of a network, and for
//! the connections that use an export.
//!
//! The scope follows the setting's name: `tcp-rcvbuf@10.0.0.0/8=16M`, `tcp-sndbuf@/srv/data=4M`. The size
//! in an exports(5) rule takes precedence over the export's, that over the network's (longest prefix), and
//! that over the server-wide size.

use super::setting_type::SettingType;
use export::{BufferSize, BufferSizeError, BufferSizes, Client, Network};
use rpc::{SocketBufferSize, SocketBufferSizes};
use std::fmt;
use std::net::IpAddr;

/// Most networks and exports with sizes of their own, for each of the two settings.
const SCOPES_MAX: usize = 256;

/// The connections that a size applies to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scope {
    /// All.
    Server,
    /// Those of a network's clients.
    Network(Network),
    /// Those that use the export with this path.
    Export(String),
}

impl Scope {
    /// Parses the part of a setting's name after the `@`.
    ///
    /// # Errors
    /// It is neither a network nor a path.
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
            Self::Server => Ok(()),
            Self::Network(network) => write!(f, "@{network}"),
            Self::Export(path) => write!(f, "@{path}"),
        }
    }
}

/// A size and its scope; prints as the size.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScopedSize {
    /// The connections.
    pub scope: Scope,
    /// The size.
    pub size: BufferSize,
}

impl fmt::Display for ScopedSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.size.fmt(f)
    }
}

/// The sizes of one setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScopedSizes {
    server: BufferSize,
    /// The longest prefix first.
    networks: Vec<(Network, BufferSize)>,
    exports: Vec<(String, BufferSize)>,
}

impl Default for ScopedSizes {
    fn default() -> Self {
        Self { server: BufferSize::Auto, networks: Vec::new(), exports: Vec::new() }
    }
}

impl SettingType for ScopedSizes {
    type Assigned = ScopedSize;

    fn parse(scope: Option<&str>, text: &str) -> Result<ScopedSize, String> {
        let scope = scope.map_or(Ok(Scope::Server), Scope::parse)?;
        let size = text.parse().map_err(|error: BufferSizeError| error.to_string())?;
        let size = match (size, &scope) {
            // 0 restores the default, which for the server is the kernel's own sizing
            (BufferSize::Unset, Scope::Server) => BufferSize::Auto,
            (size, Scope::Server | Scope::Network(_) | Scope::Export(_)) => size,
        };
        Ok(ScopedSize { scope, size })
    }

    fn of_scope(&self, scope: &str) -> Result<ScopedSize, String> {
        let scope = Scope::parse(scope)?;
        Ok(ScopedSize { size: self.size_of(&scope), scope })
    }

    fn previous(&self, new: &ScopedSize) -> ScopedSize {
        ScopedSize { scope: new.scope.clone(), size: self.size_of(&new.scope) }
    }

    /// Takes a size; `0` removes that of a network or an export.
    fn set(&mut self, new: ScopedSize) {
        match new.scope {
            Scope::Server => self.server = new.size,
            Scope::Network(network) => {
                replace(&mut self.networks, network, new.size);
                self.networks.sort_by_key(|(network, _)| std::cmp::Reverse(network.bits()));
            }
            Scope::Export(path) => replace(&mut self.exports, path, new.size),
        }
    }

    fn list(&self) -> Vec<ScopedSize> {
        let network = |(network, size): &(Network, _)| (Scope::Network(*network), *size);
        let export = |(path, size): &(String, _)| (Scope::Export(path.clone()), *size);
        let server = std::iter::once((Scope::Server, self.server));
        let rest = self.networks.iter().map(network).chain(self.exports.iter().map(export));
        server.chain(rest).map(|(scope, size)| ScopedSize { scope, size }).collect()
    }

    fn scope(assigned: &ScopedSize) -> String {
        assigned.scope.to_string()
    }
}

impl ScopedSizes {
    /// The size for all connections.
    pub const fn server_wide(&self) -> BufferSize {
        self.server
    }

    /// Whether there is room for one more network or export.
    ///
    /// # Errors
    /// [`SCOPES_MAX`] have a size.
    pub fn has_room(&self) -> Result<(), String> {
        if self.networks.len().max(self.exports.len()) < SCOPES_MAX {
            return Ok(());
        }
        Err(format!("sizes for {SCOPES_MAX} networks or exports are set already: set some to 0"))
    }

    fn size_of(&self, scope: &Scope) -> BufferSize {
        match scope {
            Scope::Server => self.server,
            Scope::Network(network) => find(&self.networks, network),
            Scope::Export(path) => find(&self.exports, path),
        }
    }

    fn of_client(&self, client: IpAddr) -> BufferSize {
        let client = client.to_canonical();
        let found = self.networks.iter().find(|(network, _)| network.contains(client));
        found.map_or(BufferSize::Unset, |(_, size)| *size)
    }
}

fn find<T: PartialEq>(list: &[(T, BufferSize)], key: &T) -> BufferSize {
    list.iter().find(|(own, _)| own == key).map_or(BufferSize::Unset, |(_, size)| *size)
}

fn replace<T: PartialEq>(list: &mut Vec<(T, BufferSize)>, key: T, size: BufferSize) {
    list.retain(|(own, _)| *own != key);
    if size != BufferSize::Unset {
        list.push((key, size));
    }
}

/// Both settings, in the form that the server looks sizes up in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BufferSettings {
    /// `tcp-rcvbuf`.
    pub receive: ScopedSizes,
    /// `tcp-sndbuf`.
    pub send: ScopedSizes,
}

impl BufferSettings {
    /// The sizes that are set for an export.
    pub fn of_export(&self, path: &str) -> BufferSizes {
        let path = path.to_owned();
        BufferSizes {
            receive: find(&self.receive.exports, &path),
            send: find(&self.send.exports, &path),
        }
    }
}

impl svc::BufferRules for BufferSettings {
    fn server_wide(&self) -> SocketBufferSizes {
        SocketBufferSizes {
            receive: socket_size(self.receive.server),
            send: socket_size(self.send.server),
        }
    }

    fn for_client(&self, client: IpAddr) -> SocketBufferSizes {
        SocketBufferSizes {
            receive: socket_size(self.receive.of_client(client)),
            send: socket_size(self.send.of_client(client)),
        }
    }
}

const fn socket_size(size: BufferSize) -> SocketBufferSize {
    match size {
        BufferSize::Unset => SocketBufferSize::UNSET,
        BufferSize::Auto => SocketBufferSize::AUTO,
        BufferSize::Bytes(bytes) => SocketBufferSize::bytes(bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::{BufferSettings, Scope, ScopedSizes, SettingType};
    use export::BufferSize;
    use svc::BufferRules;

    fn set(sizes: &mut ScopedSizes, scope: Option<&str>, size: &str) {
        sizes.set(ScopedSizes::parse(scope, size).unwrap());
    }

    #[test]
    fn the_longest_prefix_applies_and_0_removes_a_size() {
        let mut sizes = ScopedSizes::default();
        set(&mut sizes, None, "1M");
        set(&mut sizes, Some("10.0.0.0/8"), "4M");
        set(&mut sizes, Some("10.1.0.0/16"), "auto");
        set(&mut sizes, Some("10.1.2.3"), "16M");
        set(&mut sizes, Some("/srv"), "8M");
        let of = |sizes: &ScopedSizes, ip: &str| sizes.of_client(ip.parse().unwrap()).to_string();
        assert_eq!(of(&sizes, "10.9.9.9"), "4M");
        assert_eq!(of(&sizes, "10.1.9.9"), "auto");
        assert_eq!(of(&sizes, "::ffff:10.1.2.3"), "16M");
        assert_eq!(of(&sizes, "192.168.0.1"), "0");
        let listed: Vec<String> = sizes.list().iter().map(|s| format!("{}={s}", s.scope)).collect();
        assert_eq!(
            listed,
            ["=1M", "@10.1.2.3/32=16M", "@10.1.0.0/16=auto", "@10.0.0.0/8=4M", "@/srv=8M"]
        );
        set(&mut sizes, Some("10.1.2.3/32"), "0");
        assert_eq!(of(&sizes, "10.1.2.3"), "auto");
        set(&mut sizes, None, "0");
        assert_eq!(sizes.server_wide(), BufferSize::Auto);
        let settings = BufferSettings { receive: sizes, send: ScopedSizes::default() };
        assert_eq!(settings.of_export("/srv").receive, BufferSize::Bytes(8 << 20));
        assert_eq!(settings.server_wide().send.size(), None);
        assert_eq!(settings.for_client("10.0.0.1".parse().unwrap()).receive.size(), Some(4 << 20));
    }

    #[test]
    fn other_scopes_are_rejected() {
        for text in ["", "host", "*", "10.0.0.0/33", "@group", "srv"] {
            assert!(Scope::parse(text).unwrap_err().contains("@10.0.0.0/8"), "{text}");
        }
        let six = Scope::parse("2001:db8::/32").unwrap();
        assert_eq!(six.to_string(), "@2001:db8::/32");
    }
}
