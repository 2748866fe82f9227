//! The registrations and their look-up. The list is filled once; which of it is served now (UDP, the versions of NFS)
//! is asked at each call.

use proto::portmap::{Netid, Registration};
use rpc::{Call, Peer, ServedVersions, Transport};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::time::{SystemTime, UNIX_EPOCH};

/// Seconds since 1970 for GETTIME.
type Clock = fn() -> u32;

fn system_clock() -> u32 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u32::try_from(since.as_secs()).unwrap_or(u32::MAX)
}

/// The most registrations that are kept: 14 versions of seven programs over two transports, and the port mapper's own
/// six, on 30 addresses. DUMP is answered over TCP and to this machine only ([`may_list`]).
const REGISTRATIONS_MAX: usize = 1024;

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

/// The state of the program.
#[derive(Debug)]
pub struct Portmap {
    /// Empty until it is filled.
    list: OnceLock<Vec<Registration>>,
    /// A program of which not all versions are served, and those that are.
    served_versions: Option<(u32, Arc<ServedVersions>)>,
    /// Whether services are found over UDP. Independent of all other data: relaxed.
    udp: AtomicBool,
    /// A program that is not announced, 0 for none. As `udp`.
    left_out: AtomicU32,
    pub(super) clock: Clock,
}

impl Portmap {
    /// Answers for these services; those beyond the limit of 1024 are left out.
    pub fn new(list: Vec<Registration>) -> Self {
        let new = Self::empty();
        new.fill(list);
        new
    }

    /// Answers for no service until it is filled: the list comes of the dispatcher, of which this program is part.
    pub const fn empty() -> Self {
        Self {
            list: OnceLock::new(),
            served_versions: None,
            udp: AtomicBool::new(true),
            left_out: AtomicU32::new(0),
            clock: system_clock,
        }
    }

    /// The same, which announces of this program the versions that are served at that moment.
    #[must_use]
    pub fn with_served_versions(mut self, program: u32, served: Arc<ServedVersions>) -> Self {
        self.served_versions = Some((program, served));
        self
    }

    /// Fills an empty list, as for [`Portmap::new`]; a second list is ignored.
    pub fn fill(&self, mut list: Vec<Registration>) {
        list.truncate(REGISTRATIONS_MAX);
        let _filled = self.list.set(list);
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

    /// Leaves a program to another server of this machine; `None`: none, as at first.
    pub fn set_left_out(&self, program: Option<u32>) {
        self.left_out.store(program.unwrap_or(0), Relaxed);
    }

    /// The registrations of what is served now.
    pub fn list(&self) -> impl Iterator<Item = &Registration> + Clone {
        let (udp, left_out) = (self.udp.load(Relaxed), self.left_out.load(Relaxed));
        let all = self.list.get().map_or(&[][..], Vec::as_slice);
        all.iter().filter(move |service| {
            let tcp = service.netid.is_tcp();
            (udp || tcp) && service.program != left_out && self.has_version(service, tcp)
        })
    }

    fn has_version(&self, service: &Registration, tcp: bool) -> bool {
        let transport = if tcp { Transport::Tcp } else { Transport::Udp };
        match &self.served_versions {
            Some((program, served)) if *program == service.program => {
                served.has(service.version, transport)
            }
            _ => true,
        }
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
    use super::{Arc, Netid, Portmap, Registration, ServedVersions, reachable};
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
    fn a_program_that_is_left_out_is_not_announced() {
        let here = at("10.0.0.1:2049");
        let map = Portmap::new([7, 8].map(|n| Registration::new(n, 1, true, here)).to_vec());
        let programs = || map.list().map(|service| service.program).collect::<Vec<_>>();
        map.set_left_out(Some(8));
        assert_eq!(programs(), [7]);
        map.set_left_out(None);
        assert_eq!(programs(), [7, 8]);
    }

    #[test]
    fn versions_are_found_while_they_are_served() {
        let here = at("10.0.0.1:2049");
        let served = Arc::new(ServedVersions::new(&[3], &[3]));
        let map = Portmap::empty().with_served_versions(7, Arc::clone(&served));
        let found =
            |program, version, netid| map.find(program, version, netid, here).map(|r| r.version);
        assert_eq!(map.list().count(), 0, "nothing is known yet");
        let all = [(7, 3, true), (7, 4, true), (7, 3, false), (7, 4, false), (8, 4, true)];
        let all = all.map(|(program, version, tcp)| Registration::new(program, version, tcp, here));
        map.fill(all.to_vec());
        assert_eq!(found(7, 3, Netid::Tcp), Some(3));
        assert_eq!(found(7, 4, Netid::Tcp), None);
        assert_eq!(found(8, 4, Netid::Tcp), Some(4), "another program");
        served.set(&[3, 4], &[]);
        assert_eq!(found(7, 4, Netid::Tcp), Some(4));
        assert_eq!(found(7, 3, Netid::Udp), None);
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
        assert_eq!(Portmap::new(vec![one; 3000]).list().count(), 1024);
    }
}
