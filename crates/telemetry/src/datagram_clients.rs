//! What clients did over UDP, for which there is no connection that could count: a table of each worker, bounded.
//!
//! One thread writes: plain loads and stores. A client that has no place takes that of the one of its four whose last call
//! is the longest ago, whose counts are forgotten; forged senders can do no more than that. `version` of a place is odd while
//! its key and counts do not belong together, and grows by two with each new client (a sequence lock), so that a reader
//! never gives one client's counts to another.

use crate::cell::Cell;
use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicU64, Ordering, fence};

/// Clients that can have the same places.
const SETS: usize = 64;
/// Places of each of them.
const WAYS: usize = 4;
/// How often a reader tries a place whose client changes.
const TRIES: usize = 4;

/// What one client did over UDP.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DatagramTotals {
    /// Calls that came.
    pub calls: u64,
    /// Bytes received.
    pub bytes_in: u64,
    /// Bytes sent.
    pub bytes_out: u64,
}

impl DatagramTotals {
    const fn add(&mut self, more: Self) {
        self.calls = self.calls.wrapping_add(more.calls);
        self.bytes_in = self.bytes_in.wrapping_add(more.bytes_in);
        self.bytes_out = self.bytes_out.wrapping_add(more.bytes_out);
    }
}

#[derive(Debug, Default)]
struct ClientPlace {
    version: AtomicU64,
    /// The address as one of version 6; both 0: free.
    key: [AtomicU64; 2],
    calls: Cell,
    bytes_in: Cell,
    bytes_out: Cell,
    /// The number of its last call among the worker's.
    last: AtomicU64,
}

/// One worker's clients.
#[derive(Debug)]
pub struct DatagramClients {
    places: Box<[[ClientPlace; WAYS]]>,
    calls: Cell,
}

impl Default for DatagramClients {
    fn default() -> Self {
        let places = (0..SETS).map(|_| std::array::from_fn(|_| ClientPlace::default())).collect();
        Self { places, calls: Cell::default() }
    }
}

/// An address as two words.
fn key_of(address: IpAddr) -> [u64; 2] {
    let bits = match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().to_bits(),
        IpAddr::V6(v6) => v6.to_bits(),
    };
    #[expect(clippy::cast_possible_truncation, reason = "the two halves")]
    [(bits >> 64) as u64, bits as u64]
}

/// Which places a key can have.
const fn set_of(key: [u64; 2]) -> usize {
    // the upper bits of a product depend on all bits below (Fibonacci hashing)
    let mixed = (key[0] ^ key[1]).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 58) as usize % SETS
}

impl DatagramClients {
    /// Counts what a client did; as the only writer.
    pub fn count(&self, address: IpAddr, more: DatagramTotals) {
        let key = key_of(address);
        let Some(set) = self.places.get(set_of(key)) else { return };
        self.calls.add(1);
        let found = set.iter().find(|place| place.key() == key);
        let place = match found {
            Some(place) => place,
            None => match set.iter().min_by_key(|place| place.last.load(Ordering::Relaxed)) {
                Some(oldest) => {
                    oldest.take(key);
                    oldest
                }
                None => return,
            },
        };
        place.calls.add(more.calls);
        place.bytes_in.add(more.bytes_in);
        place.bytes_out.add(more.bytes_out);
        place.last.store(self.calls.read(), Ordering::Relaxed);
    }

    /// Adds every client's totals to `sums`.
    pub fn add_to(&self, sums: &mut HashMap<IpAddr, DatagramTotals>) {
        for place in self.places.iter().flatten() {
            if let Some((address, totals)) = (0..TRIES).find_map(|_| place.read()).flatten() {
                sums.entry(address).or_default().add(totals);
            }
        }
    }
}

impl ClientPlace {
    fn key(&self) -> [u64; 2] {
        [self.key[0].load(Ordering::Relaxed), self.key[1].load(Ordering::Relaxed)]
    }

    /// Makes it another client's.
    fn take(&self, key: [u64; 2]) {
        let version = self.version.load(Ordering::Relaxed);
        self.version.store(version.wrapping_add(1), Ordering::Relaxed);
        // no store below is seen before the version is odd
        fence(Ordering::Release);
        for (word, value) in self.key.iter().zip(key) {
            word.store(value, Ordering::Relaxed);
        }
        for cell in [&self.calls, &self.bytes_in, &self.bytes_out] {
            cell.set(0);
        }
        self.version.store(version.wrapping_add(2), Ordering::Release);
    }

    /// The client and its counts, `Some(None)` if there is none; `None` while it changes.
    fn read(&self) -> Option<Option<(IpAddr, DatagramTotals)>> {
        let version = self.version.load(Ordering::Acquire);
        if !version.is_multiple_of(2) {
            return None;
        }
        let [high, low] = self.key();
        let totals = DatagramTotals {
            calls: self.calls.read(),
            bytes_in: self.bytes_in.read(),
            bytes_out: self.bytes_out.read(),
        };
        // no load above is done after the version is looked at again
        fence(Ordering::Acquire);
        if self.version.load(Ordering::Relaxed) != version {
            return None;
        }
        let address = Ipv6Addr::from_bits(u128::from(high) << 64 | u128::from(low));
        let used = high != 0 || low != 0;
        Some(used.then(|| (IpAddr::V6(address).to_canonical(), totals)))
    }
}

#[cfg(test)]
mod tests {
    use super::{DatagramClients, DatagramTotals, SETS, WAYS, key_of, set_of};
    use std::collections::HashMap;
    use std::net::{IpAddr, Ipv4Addr};
    use std::sync::atomic::{AtomicBool, Ordering};

    fn totals(calls: u64) -> DatagramTotals {
        DatagramTotals { calls, bytes_in: 100 * calls, bytes_out: 200 * calls }
    }

    fn sums(clients: &DatagramClients) -> HashMap<IpAddr, DatagramTotals> {
        let mut sums = HashMap::new();
        clients.add_to(&mut sums);
        sums
    }

    fn address(number: u32) -> IpAddr {
        Ipv4Addr::from_bits(0x0a00_0000 | number).into()
    }

    #[test]
    fn clients_of_both_versions_are_counted() {
        let clients = DatagramClients::default();
        for (text, calls) in [("192.0.2.7", 1), ("2001:db8::7", 5), ("192.0.2.7", 2)] {
            clients.count(text.parse().unwrap(), totals(calls));
        }
        let sums = sums(&clients);
        assert_eq!(sums.len(), 2);
        assert_eq!(sums[&"192.0.2.7".parse::<IpAddr>().unwrap()], totals(3));
        assert_eq!(sums[&"2001:db8::7".parse::<IpAddr>().unwrap()], totals(5));
    }

    #[test]
    fn the_longest_silent_one_of_a_set_is_forgotten() {
        let clients = DatagramClients::default();
        let set = set_of(key_of(address(0)));
        let same = (0..).map(address).filter(|a| set_of(key_of(*a)) == set);
        let same: Vec<_> = same.take(WAYS + 1).collect();
        for client in &same[..WAYS] {
            clients.count(*client, totals(1));
        }
        clients.count(same[0], totals(1));
        clients.count(same[WAYS], totals(1));
        let sums = sums(&clients);
        assert_eq!(sums.len(), WAYS);
        assert_eq!((sums[&same[0]], sums.contains_key(&same[1])), (totals(2), false));
        for number in 0..100_000 {
            clients.count(address(number), totals(1));
        }
        assert!(self::sums(&clients).len() <= SETS * WAYS);
    }

    #[test]
    fn a_reader_never_mixes_clients() {
        let (clients, done) = (DatagramClients::default(), AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                // each client's counts are as its address says, once and for all
                for round in 0..400_000u32 {
                    let number = round % 4096 + 1;
                    let more = DatagramTotals { calls: number.into(), ..DatagramTotals::default() };
                    clients.count(address(number), more);
                }
                done.store(true, Ordering::Relaxed);
            });
            while !done.load(Ordering::Relaxed) {
                for (client, totals) in sums(&clients) {
                    let IpAddr::V4(v4) = client else { panic!("{client}") };
                    let number = u64::from(v4.to_bits() & 0xffff);
                    assert_eq!(totals.calls % number.max(1), 0, "{client}: {totals:?}");
                }
            }
        });
    }
}
