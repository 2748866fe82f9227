//! Which rule holds for which client.
//!
//! The most exact rule wins, whatever its place in the file (exports(5)): a single host, then a
//! network (the longer prefix first), then a wildcard name, then a netgroup, then everybody; among
//! equals the first. Rules by address need no name service. For the others the client's name is
//! looked up by [`crate::names`], which blocks: a worker asks [`Client::needs_names`] first.

use std::net::IpAddr;

/// Who a rule is for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Pattern {
    /// One address.
    Address(IpAddr),
    /// A network: address and prefix length.
    Network(IpAddr, u8),
    /// This machine: loopback and all addresses of its own interfaces.
    ThisMachine,
    /// One host by name, lower case.
    Host(String),
    /// Names by `*` and `?`, which do not match dots at the start of a label; lower case.
    Wildcard(String),
    /// A netgroup.
    Netgroup(String),
    /// Everybody.
    Anyone,
}

/// What is known of a client.
#[derive(Clone, Copy)]
pub struct Client<'a> {
    /// Its address; an IPv4 address in IPv6 clothes is IPv4.
    pub address: IpAddr,
    /// Its names, lower case; empty where they were not looked up.
    pub names: &'a [String],
    /// Whether the address is one of this machine's own.
    pub local: bool,
    /// Tells whether one of the names is in a netgroup.
    pub in_netgroup: &'a dyn Fn(&str, &str) -> bool,
}

impl Pattern {
    /// Parses the host part of an exports(5) entry, or the value of `--client`.
    ///
    /// # Errors
    /// What is wrong with it, for people.
    pub fn parse(text: &[u8]) -> Result<Self, String> {
        let text = std::str::from_utf8(text).map_err(|_| "a host name is ASCII text".to_owned())?;
        if text == "*" {
            return Ok(Self::Anyone);
        }
        if let Some(group) = text.strip_prefix('@') {
            return if group.is_empty() {
                Err("@ wants the name of a netgroup".into())
            } else {
                Ok(Self::Netgroup(group.into()))
            };
        }
        if let Some((address, mask)) = text.split_once('/') {
            return network(address, mask);
        }
        if let Ok(address) = text.parse::<IpAddr>() {
            return Ok(Self::Address(address.to_canonical()));
        }
        let fine = |c: char| c.is_ascii_alphanumeric() || "-_.*?[]".contains(c);
        if text.is_empty() || text.len() > 255 || !text.chars().all(fine) {
            return Err(format!("{text} is no host, address, network, wildcard or @netgroup"));
        }
        let lower = text.to_ascii_lowercase();
        let wild = lower.contains(['*', '?']);
        Ok(if wild { Self::Wildcard(lower) } else { Self::Host(lower) })
    }

    /// Whether the rule can only be decided with the client's name.
    pub const fn needs_names(&self) -> bool {
        matches!(self, Self::Host(_) | Self::Wildcard(_) | Self::Netgroup(_))
    }

    /// How exact the rule is: the highest that matches wins.
    pub fn rank(&self) -> u16 {
        match self {
            Self::Address(_) | Self::Host(_) => 1000,
            Self::ThisMachine => 900,
            Self::Network(_, prefix) => 100 + u16::from(*prefix),
            Self::Wildcard(_) => 50,
            Self::Netgroup(_) => 40,
            Self::Anyone => 0,
        }
    }

    /// Whether the rule is for this client.
    pub fn matches(&self, client: &Client<'_>) -> bool {
        match self {
            Self::Address(address) => *address == client.address,
            Self::Network(network, prefix) => contains(*network, *prefix, client.address),
            Self::ThisMachine => client.local || client.address.is_loopback(),
            Self::Host(name) => client.names.iter().any(|n| n == name),
            Self::Wildcard(pattern) => {
                client.names.iter().any(|n| wildcard(pattern.as_bytes(), n.as_bytes()))
            }
            Self::Netgroup(group) => client.names.iter().any(|n| (client.in_netgroup)(group, n)),
            Self::Anyone => true,
        }
    }

    /// The rule as exports(5) and showmount write it.
    pub fn text(&self) -> String {
        match self {
            Self::Address(address) => address.to_string(),
            Self::Network(address, prefix) => format!("{address}/{prefix}"),
            Self::ThisMachine => "localhost".into(),
            Self::Host(name) | Self::Wildcard(name) => name.clone(),
            Self::Netgroup(group) => format!("@{group}"),
            Self::Anyone => "*".into(),
        }
    }
}

fn network(address: &str, mask: &str) -> Result<Pattern, String> {
    let address: IpAddr =
        address.parse().map_err(|_| format!("{address} is no address of a network"))?;
    let bits = if address.is_ipv4() { 32 } else { 128 };
    let prefix = if let Ok(IpAddr::V4(mask)) = mask.parse::<IpAddr>() {
        let mask = mask.to_bits();
        let prefix = mask.leading_ones();
        if mask.checked_shl(prefix).unwrap_or(0) != 0 {
            return Err("the netmask has holes".into());
        }
        prefix
    } else {
        mask.parse().map_err(|_| format!("{mask} is no prefix length or netmask"))?
    };
    match u8::try_from(prefix) {
        Ok(prefix) if u32::from(prefix) <= bits => Ok(Pattern::Network(address, prefix)),
        _ => Err(format!("a prefix is at most {bits} long here")),
    }
}

fn contains(network: IpAddr, prefix: u8, address: IpAddr) -> bool {
    let prefix = u32::from(prefix);
    match (network, address) {
        (IpAddr::V4(network), IpAddr::V4(address)) => {
            let mask = u32::MAX.checked_shl(32 - prefix.min(32)).unwrap_or(0);
            (network.to_bits() ^ address.to_bits()) & mask == 0
        }
        (IpAddr::V6(network), IpAddr::V6(address)) => {
            let mask = u128::MAX.checked_shl(128 - prefix.min(128)).unwrap_or(0);
            (network.to_bits() ^ address.to_bits()) & mask == 0
        }
        (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => false,
    }
}

/// `*` matches any run of bytes, `?` one; in the time of pattern times text, without recursion.
fn wildcard(pattern: &[u8], text: &[u8]) -> bool {
    let (mut p, mut t, mut star) = (0, 0, None);
    while t < text.len() {
        match pattern.get(p) {
            Some(b'*') => {
                star = Some((p, t));
                p += 1;
            }
            Some(b'?') => (p, t) = (p + 1, t + 1),
            Some(byte) if text.get(t) == Some(byte) => (p, t) = (p + 1, t + 1),
            _ => match star {
                Some((at, from)) => {
                    (p, t) = (at + 1, from + 1);
                    star = Some((at, t));
                }
                None => return false,
            },
        }
    }
    pattern.get(p..).is_some_and(|rest| rest.iter().all(|b| *b == b'*'))
}

#[cfg(test)]
mod tests {
    use super::{Client, Pattern, wildcard};

    fn matches(pattern: &str, address: &str, names: &[&str]) -> bool {
        let names: Vec<String> = names.iter().map(|n| (*n).to_owned()).collect();
        let in_netgroup = |group: &str, name: &str| group == "trusted" && name == "a.lan";
        let client = Client {
            address: address.parse().unwrap(),
            names: &names,
            local: address == "10.1.1.1",
            in_netgroup: &in_netgroup,
        };
        Pattern::parse(pattern.as_bytes()).unwrap().matches(&client)
    }

    #[test]
    fn addresses_and_networks() {
        assert!(matches("10.0.0.1", "10.0.0.1", &[]) && !matches("10.0.0.1", "10.0.0.2", &[]));
        assert!(matches("10.0.0.0/8", "10.9.9.9", &[]) && !matches("10.0.0.0/8", "11.0.0.0", &[]));
        assert!(matches("10.0.0.0/255.255.0.0", "10.0.9.9", &[]));
        assert!(matches("0.0.0.0/0", "1.2.3.4", &[]) && !matches("0.0.0.0/0", "::1", &[]));
        assert!(matches("fd00::/16", "fd00:1::2", &[]) && !matches("fd00::/16", "fd01::", &[]));
        assert!(matches("::/0", "::1", &[]));
        for wrong in ["10.0.0.0/33", "10.0.0.0/255.0.255.0", "x/8", "::/129", "@", "a b", ""] {
            assert!(Pattern::parse(wrong.as_bytes()).is_err(), "{wrong}");
        }
    }

    #[test]
    fn names_wildcards_and_netgroups() {
        assert!(matches("A.LAN", "10.0.0.1", &["a.lan"]));
        assert!(matches("*.lan", "10.0.0.1", &["x", "a.lan"]));
        assert!(!matches("*.lan", "10.0.0.1", &[]));
        assert!(matches("@trusted", "10.0.0.1", &["a.lan"]));
        assert!(!matches("@other", "10.0.0.1", &["a.lan"]));
        assert!(matches("*", "10.0.0.1", &[]));
    }

    #[test]
    fn wildcards_match_as_written() {
        assert!(wildcard(b"a*c?e", b"abbcxe") && !wildcard(b"a*c?e", b"abbcxf"));
        assert!(wildcard(b"*", b"") && wildcard(b"**", b"x") && !wildcard(b"?", b""));
        assert!(!wildcard(&b"*a".repeat(40), &b"b".repeat(200)));
    }

    #[test]
    fn the_more_exact_rule_has_the_higher_rank() {
        let ranks = ["*", "@g", "*.x", "10.0.0.0/8", "10.0.0.0/24", "h"]
            .map(|p| Pattern::parse(p.as_bytes()).unwrap().rank());
        assert!(ranks.is_sorted_by(|a, b| a < b), "{ranks:?}");
    }
}
