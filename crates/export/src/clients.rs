//! The clients of a rule: the patterns of exports(5), and how specific each kind is.
//!
//! Owns: the syntax of a client and its comparison with an address or a name. Queries no name
//! service.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The longest host name (RFC 1035 §2.3.4), pattern or netgroup.
const NAME_MAX: usize = 255;

/// The clients of a rule.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Client {
    /// One host by its address.
    Address(IpAddr),
    /// One host by its name, in lower case.
    Host(String),
    /// All addresses of a network.
    Network(Network),
    /// All hosts whose name matches.
    Wildcard(Pattern),
    /// All hosts of a netgroup.
    Netgroup(String),
    /// All clients.
    Anyone,
}

/// Why a text is not a client.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ClientError {
    /// Neither an address nor a possible name.
    #[error("{0:?} is neither an address, a network, a host name, @NETGROUP nor *")]
    Unrecognized(String),
    /// The prefix length or mask is invalid.
    #[error(
        "{0:?} is no network mask: write a number of bits up to {1}, or a mask like 255.255.0.0"
    )]
    Mask(String, u8),
    /// A wildcard over digits only.
    #[error("{0:?}: wildcards match names, not addresses: write a network like 10.1.0.0/16")]
    WildcardAddress(String),
    /// An unmatched bracket, or an empty character class.
    #[error("{0:?}: the brackets contain no list of characters")]
    Class(String),
    /// A security flavour in place of a client.
    #[error("{0:?} is the old syntax for Kerberos: write * or a network with the option sec=krb5")]
    Kerberos(String),
    /// A name over 255 bytes.
    #[error("a client's name is longer than 255 bytes")]
    TooLong,
}

impl Client {
    /// Parses a client as exports(5) writes it.
    ///
    /// # Errors
    /// [`ClientError`], the reason.
    pub fn parse(text: &str) -> Result<Self, ClientError> {
        if text.len() > NAME_MAX {
            return Err(ClientError::TooLong);
        }
        if text == "*" {
            return Ok(Self::Anyone);
        }
        if let Some(group) = text.strip_prefix('@') {
            return netgroup(group).ok_or_else(|| ClientError::Unrecognized(text.to_owned()));
        }
        if text.starts_with("gss/") {
            return Err(ClientError::Kerberos(text.to_owned()));
        }
        let bare = text.strip_prefix('[').and_then(|t| t.strip_suffix(']')).unwrap_or(text);
        if let Ok(address) = bare.parse::<IpAddr>() {
            return Ok(Self::Address(address.to_canonical()));
        }
        if let Some((address, mask)) = text.split_once('/') {
            return Network::parse(address, mask).map(Self::Network);
        }
        if text.contains(['*', '?', '[', ']']) {
            return Pattern::parse(text).map(Self::Wildcard);
        }
        host(text)
    }

    /// The rank of this kind; the most specific has the smallest number (exports(5), "Machine Name
    /// Formats").
    pub const fn rank(&self) -> u8 {
        match self {
            Self::Address(_) | Self::Host(_) => 0,
            Self::Network(_) => 1,
            Self::Wildcard(_) => 2,
            Self::Netgroup(_) => 3,
            Self::Anyone => 4,
        }
    }

    /// Whether the client matches by its address alone; `None` if a name service must be queried.
    /// The address must be canonical (no IPv4 in IPv6).
    pub fn matches_address(&self, address: IpAddr) -> Option<bool> {
        match self {
            Self::Address(own) => Some(*own == address),
            Self::Network(network) => Some(network.contains(address)),
            Self::Anyone => Some(true),
            Self::Host(_) | Self::Wildcard(_) | Self::Netgroup(_) => None,
        }
    }
}

impl fmt::Display for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => address.fmt(f),
            Self::Host(name) => f.write_str(name),
            Self::Network(network) => network.fmt(f),
            Self::Wildcard(pattern) => f.write_str(&pattern.0),
            Self::Netgroup(name) => write!(f, "@{name}"),
            Self::Anyone => f.write_str("*"),
        }
    }
}

fn netgroup(name: &str) -> Option<Client> {
    let fits = |b: u8| b.is_ascii_graphic() && !b"()\"\\,@#".contains(&b);
    (!name.is_empty() && name.bytes().all(fits)).then(|| Client::Netgroup(name.to_owned()))
}

const fn in_host_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_')
}

fn host(text: &str) -> Result<Client, ClientError> {
    let nothing = || ClientError::Unrecognized(text.to_owned());
    // only digits and dots: an invalid address, not a name
    let numeric = text.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    let edges = text.starts_with(['-', '.']) || text.contains("..");
    if numeric || edges || !text.bytes().all(in_host_name) {
        return Err(nothing());
    }
    let name = text.strip_suffix('.').unwrap_or(text);
    if name.is_empty() { Err(nothing()) } else { Ok(Client::Host(name.to_ascii_lowercase())) }
}

/// A network: all addresses that begin with the same bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Network {
    /// The first address; the bits after the prefix are zero.
    base: IpAddr,
    bits: u8,
}

impl Network {
    /// The network of an address and a number of bits, which are at most 32 or 128.
    pub fn new(address: IpAddr, bits: u8) -> Option<Self> {
        let base = match address {
            IpAddr::V4(v4) => (bits <= 32).then(|| IpAddr::V4(first4(v4, bits))),
            IpAddr::V6(v6) => (bits <= 128).then(|| IpAddr::V6(first6(v6, bits))),
        }?;
        Some(Self { base, bits })
    }

    fn parse(address: &str, mask: &str) -> Result<Self, ClientError> {
        let base: IpAddr =
            address.parse().map_err(|_| ClientError::Unrecognized(format!("{address}/{mask}")))?;
        let bits = mask.parse::<u8>().ok().or_else(|| mask_bits(base, mask));
        let most = if base.is_ipv4() { 32 } else { 128 };
        let wrong = || ClientError::Mask(mask.to_owned(), most);
        Self::new(base, bits.ok_or_else(wrong)?).ok_or_else(wrong)
    }

    /// How many bits of its addresses are the same.
    pub const fn bits(&self) -> u8 {
        self.bits
    }

    /// Whether an address is in it.
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.base, address) {
            (IpAddr::V4(base), IpAddr::V4(v4)) => first4(v4, self.bits) == base,
            (IpAddr::V6(base), IpAddr::V6(v6)) => first6(v6, self.bits) == base,
            (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => false,
        }
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.base, self.bits)
    }
}

fn first4(address: Ipv4Addr, bits: u8) -> Ipv4Addr {
    let mask = u32::MAX.checked_shl(32u32.saturating_sub(u32::from(bits))).unwrap_or(0);
    Ipv4Addr::from_bits(address.to_bits() & mask)
}

fn first6(address: Ipv6Addr, bits: u8) -> Ipv6Addr {
    let mask = u128::MAX.checked_shl(128u32.saturating_sub(u32::from(bits))).unwrap_or(0);
    Ipv6Addr::from_bits(address.to_bits() & mask)
}

/// The length of a mask like 255.255.252.0; `None` if its ones are not contiguous.
fn mask_bits(base: IpAddr, mask: &str) -> Option<u8> {
    let (ones, rest) = match (base, mask.parse().ok()?) {
        (IpAddr::V4(_), IpAddr::V4(m)) => {
            let bits = m.to_bits();
            (bits.leading_ones(), u128::from(bits.checked_shl(bits.leading_ones()).unwrap_or(0)))
        }
        (IpAddr::V6(_), IpAddr::V6(m)) => {
            let bits = m.to_bits();
            (bits.leading_ones(), bits.checked_shl(bits.leading_ones()).unwrap_or(0))
        }
        (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => return None,
    };
    if rest == 0 { u8::try_from(ones).ok() } else { None }
}

/// A pattern for host names: `*` is any text (including dots, as in exports(5)), `?` any character,
/// `[a-z]` a class, `[!a-z]` its complement. In lower case.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Pattern(String);

impl Pattern {
    fn parse(text: &str) -> Result<Self, ClientError> {
        if !text.bytes().all(|b| in_host_name(b) || b"*?[]!^".contains(&b)) {
            return Err(ClientError::Unrecognized(text.to_owned()));
        }
        if text.contains(|c: char| c.is_ascii_digit())
            && text.bytes().all(|b| b.is_ascii_digit() || b".*?".contains(&b))
        {
            return Err(ClientError::WildcardAddress(text.to_owned()));
        }
        let mut rest = text.as_bytes();
        while let Some(open) = rest.iter().position(|b| matches!(b, b'[' | b']')) {
            let inside = rest.get(open..).unwrap_or_default();
            let class = Class::split(inside).ok_or_else(|| ClientError::Class(text.to_owned()))?;
            rest = class.rest;
        }
        Ok(Self(text.to_ascii_lowercase()))
    }

    /// A pattern for names of certificates, which may be addresses.
    pub(crate) fn of_certificate(text: &str) -> Option<Self> {
        let fits = |b: u8| in_host_name(b) || b"*?:".contains(&b);
        let whole = !text.is_empty() && text.len() <= NAME_MAX && text.bytes().all(fits);
        whole.then(|| Self(text.to_ascii_lowercase()))
    }

    /// As it was written, in lower case.
    pub(crate) fn text(&self) -> &str {
        &self.0
    }

    /// Whether a name matches, ignoring case.
    pub fn matches(&self, name: &str) -> bool {
        matches(self.0.as_bytes(), name.to_ascii_lowercase().as_bytes())
    }
}

/// Backtracks to the last `*` only: quadratic at worst, in strings of at most 255 bytes.
fn matches(mut pattern: &[u8], mut name: &[u8]) -> bool {
    let mut retry: Option<(&[u8], &[u8])> = None;
    loop {
        match (pattern.split_first(), name.split_first()) {
            (Some((b'*', rest)), _) => {
                retry = Some((rest, name));
                pattern = rest;
                continue;
            }
            (None, None) => return true,
            (Some((_, _)), Some((byte, left))) => {
                if let Some(rest) = one(pattern, *byte) {
                    (pattern, name) = (rest, left);
                    continue;
                }
            }
            (Some(_), None) => return false,
            (None, Some(_)) => {}
        }
        let Some((after_star, from)) = retry else { return false };
        let Some((_, from)) = from.split_first() else { return false };
        retry = Some((after_star, from));
        (pattern, name) = (after_star, from);
    }
}

/// The rest of the pattern if its first element takes this byte.
fn one(pattern: &[u8], byte: u8) -> Option<&[u8]> {
    match pattern.split_first()? {
        (b'?', rest) => Some(rest),
        (b'[', _) => {
            let class = Class::split(pattern)?;
            class.takes(byte).then_some(class.rest)
        }
        (own, rest) => (*own == byte).then_some(rest),
    }
}

/// `[...]` at the front of a pattern.
struct Class<'p> {
    members: &'p [u8],
    negated: bool,
    rest: &'p [u8],
}

impl<'p> Class<'p> {
    fn split(pattern: &'p [u8]) -> Option<Self> {
        let inside = pattern.strip_prefix(b"[")?;
        let end = inside.iter().position(|b| *b == b']')?;
        let (members, rest) = inside.split_at_checked(end)?;
        let negated = matches!(members.first(), Some(b'!' | b'^'));
        let members = members.get(usize::from(negated)..)?;
        let whole = !members.is_empty() && !members.contains(&b'[');
        whole.then_some(Self { members, negated, rest: rest.get(1..)? })
    }

    fn takes(&self, byte: u8) -> bool {
        let mut left = self.members;
        let mut found = false;
        while let Some((first, rest)) = left.split_first() {
            if let [b'-', last, after @ ..] = rest {
                found |= (*first..=*last).contains(&byte);
                left = after;
            } else {
                found |= *first == byte;
                left = rest;
            }
        }
        found != self.negated
    }
}

#[cfg(test)]
mod tests;
