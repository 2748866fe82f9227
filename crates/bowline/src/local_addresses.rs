//! The addresses of this machine, from the kernel's own tables.

use std::fs;
use std::net::{IpAddr, Ipv6Addr};

/// All current addresses of this machine, including loopback.
pub fn local_addresses() -> Vec<IpAddr> {
    let v4 = fs::read_to_string("/proc/net/fib_trie").unwrap_or_default();
    let v6 = fs::read_to_string("/proc/net/if_inet6").unwrap_or_default();
    let mut addresses: Vec<IpAddr> = local_v4(&v4).chain(local_v6(&v6)).collect();
    addresses.sort_unstable();
    addresses.dedup();
    addresses
}

/// The leaves of the routing table that the next line marks as local hosts.
fn local_v4(trie: &str) -> impl Iterator<Item = IpAddr> {
    trie.lines().zip(trie.lines().skip(1)).filter_map(|(leaf, about)| {
        let address = leaf.trim_start().strip_prefix("|-- ")?;
        if about.contains("/32 host LOCAL") { address.parse().ok() } else { None }
    })
}

/// Lines that begin with an address as 32 hexadecimal digits.
fn local_v6(table: &str) -> impl Iterator<Item = IpAddr> {
    table.lines().filter_map(|line| {
        let digits = line.split_whitespace().next().filter(|digits| digits.len() == 32)?;
        let bits = u128::from_str_radix(digits, 16).ok()?;
        Some(IpAddr::V6(Ipv6Addr::from_bits(bits)))
    })
}

#[cfg(test)]
mod tests {
    use super::{local_addresses, local_v4, local_v6};
    use std::net::IpAddr;

    #[test]
    fn addresses_are_read_from_the_kernels_tables() {
        let trie = "Local:\n  +-- 10.0.0.0/24 2 0 2\n     |-- 10.0.0.0\n        /32 link BROADCAST\n\
                    \x20    |-- 10.0.0.7\n        /32 host LOCAL\n";
        let ten: IpAddr = "10.0.0.7".parse().unwrap();
        assert_eq!(local_v4(trie).collect::<Vec<_>>(), [ten]);
        let table = "00000000000000000000000000000001 01 80 10 80       lo\nnonsense\n";
        let one: IpAddr = "::1".parse().unwrap();
        assert_eq!(local_v6(table).collect::<Vec<_>>(), [one]);
    }

    #[test]
    fn this_machine_has_a_loopback_address() {
        assert!(local_addresses().contains(&"127.0.0.1".parse().unwrap()));
    }
}
