//! The registrations and their look-up. Immutable after `new`, but for whether UDP is served.

use proto::portmap::{Netid, Registration};
use rpc::{Call, Peer, Transport};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{SystemTime, UNIX_EPOCH};

/// Seconds since 1970 for GETTIME.
type Clock = fn() -> u32;

fn system_clock() -> u32 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u32::try_from(since.as_secs()).unwrap_or(u32::MAX)
}

/// The most registrations that are kept: three programs of at most three versions over four
/// transports on a few addresses; a longer list would make DUMP amplify more.
const REGISTRATIONS_MAX: usize = 256;

/// The address under which a caller that came to `local` reaches `service`: its own, or, where it
/// listens on all addresses, the one that the caller already reached. `None` if the two are of
/// different families, so that nothing is known.
pub(super) fn reachable(service: &Registration, local: SocketAddr) -> Option<SocketAddr> {
    if !service.addr.ip().is_unspecified() {
        return Some(service.addr);
    }
    let ip = local.ip().to_canonical();
    (ip.is_ipv4() == service.addr.is_ipv4()).then(|| SocketAddr::new(ip, service.addr.port()))
}

/// The state of the program: a fixed list.
#[derive(Debug)]
pub struct Portmap {
    list: Vec<Registration>,
    /// Whether services are found over UDP. Independent of all other data: relaxed.
    udp: AtomicBool,
    pub(super) clock: Clock,
}

impl Portmap {
    /// Answers for these services; those beyond the limit of 256 are left out.
    pub fn new(mut list: Vec<Registration>) -> Self {
        list.truncate(REGISTRATIONS_MAX);
        Self { list, udp: AtomicBool::new(true), clock: system_clock }
    }

    /// The same with another clock (seconds since 1970).
    #[must_use]
    pub const fn with_clock(mut self, clock: fn() -> u32) -> Self {
        self.clock = clock;
        self
    }

    /// Whether the services are to be found over UDP, as they are at first.
    pub fn set_udp(&self, served: bool) {
        self.udp.store(served, Relaxed);
    }

    /// All registrations.
    pub fn list(&self) -> impl Iterator<Item = &Registration> + Clone {
        let udp = self.udp.load(Relaxed);
        self.list.iter().filter(move |service| udp || service.netid.is_tcp())
    }

    /// The registration of exactly this version on the transport `netid`; one on the address
    /// that the caller reached is preferred.
    pub(super) fn find(
        &self,
        program: u32,
        version: u32,
        netid: Netid,
        local: SocketAddr,
    ) -> Option<&Registration> {
        let here = local.ip().to_canonical();
        let fits =
            |r: &&Registration| r.program == program && r.version == version && r.netid == netid;
        let near = |r: &&Registration| r.addr.ip().is_unspecified() || r.addr.ip() == here;
        let mut fitting = self.list().filter(fits);
        fitting.clone().find(near).or_else(|| fitting.next())
    }

    /// As [`Portmap::find`], and where that version is not there, any other of the program: the
    /// caller then learns from the program itself (PROG_MISMATCH) which versions there are, as
    /// `rpcinfo` does.
    pub(super) fn find_any(
        &self,
        program: u32,
        version: u32,
        netid: Netid,
        local: SocketAddr,
    ) -> Option<&Registration> {
        self.find(program, version, netid, local).or_else(|| {
            let other = self.list().find(|r| r.program == program && r.netid == netid)?;
            self.find(program, other.version, netid, local)
        })
    }
}

/// The transport that a call came by.
pub(super) fn netid_of(peer: &Peer) -> Netid {
    Netid::new(peer.transport == Transport::Tcp, peer.local.ip().to_canonical())
}

/// Whether a list may be sent: by datagram only to this machine itself. A list is tens of times
/// longer than its call, and the sender of a datagram can be forged.
pub(crate) fn may_list(call: &Call<'_>) -> bool {
    let from = call.peer.addr.ip().to_canonical();
    call.peer.transport == Transport::Tcp
        || from.is_loopback()
        || from == call.peer.local.ip().to_canonical()
}

#[cfg(test)]
mod tests {
    use super::{Netid, Portmap, Registration, reachable};
    use std::net::SocketAddr;

    fn at(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    #[test]
    fn services_without_udp_are_not_found_over_udp() {
        let here = at("10.0.0.1:2049");
        let both = [true, false].map(|tcp| Registration::new(7, 3, tcp, here));
        let map = Portmap::new(both.to_vec());
        let found = |netid| map.find_any(7, 3, netid, here).is_some();
        assert!(found(Netid::Tcp) && found(Netid::Udp));
        map.set_udp(false);
        assert!(found(Netid::Tcp) && !found(Netid::Udp));
        assert_eq!(map.list().count(), 1);
        map.set_udp(true);
        assert!(found(Netid::Udp));
    }

    #[test]
    fn an_unspecified_address_is_replaced_by_the_local_address_of_the_call() {
        let any = Registration::new(1, 1, true, at("0.0.0.0:2049"));
        assert_eq!(reachable(&any, at("10.0.0.1:111")), Some(at("10.0.0.1:2049")));
        assert_eq!(reachable(&any, at("[::ffff:10.0.0.1]:111")), Some(at("10.0.0.1:2049")));
        assert_eq!(reachable(&any, at("[::1]:111")), None);
        let one = Registration::new(1, 1, true, at("10.9.9.9:2049"));
        assert_eq!(reachable(&one, at("127.0.0.1:111")), Some(at("10.9.9.9:2049")));
    }

    #[test]
    fn the_nearest_registration_wins() {
        let map = Portmap::new(vec![
            Registration::new(7, 1, false, at("10.0.0.1:1")),
            Registration::new(7, 1, false, at("10.0.0.2:2")),
            Registration::new(7, 1, true, at("10.0.0.2:3")),
        ]);
        let port = |version, local: &str| {
            map.find_any(7, version, Netid::Udp, at(local)).map(|r| r.addr.port())
        };
        assert_eq!(port(1, "10.0.0.2:111"), Some(2));
        assert_eq!(port(1, "10.0.0.3:111"), Some(1));
        assert_eq!(port(9, "10.0.0.2:111"), Some(2));
        assert_eq!(map.find(7, 9, Netid::Udp, at("10.0.0.2:111")), None);
        assert_eq!(map.find_any(8, 1, Netid::Udp, at("10.0.0.2:111")), None);
        assert_eq!(map.find_any(7, 1, Netid::Udp6, at("10.0.0.2:111")), None);
    }

    #[test]
    fn the_list_is_bounded() {
        let one = Registration::new(7, 1, false, at("10.0.0.1:1"));
        assert_eq!(Portmap::new(vec![one; 300]).list().count(), 256);
    }
}
