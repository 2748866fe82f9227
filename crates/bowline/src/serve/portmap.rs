//! How clients that ask a portmapper find the server (`--portmap`).
//!
//! `auto` never disturbs: it registers with an rpcbind that runs; it answers port 111 itself only
//! if other machines are meant to reach the server (a loopback server that took port 111 would
//! only keep a later rpcbind from starting) and the port is free and allowed; else it does
//! without, and says so. What was registered is taken back at the end.

use super::listen_addresses::ListenAddresses;
use crate::output::error_text;
use anyhow::Context;
use clap::ValueEnum;
use client::Client;
use client::rpcbind::{self, Registered, Rpcbind};
use nfs::portmap::Portmap;
use proto::portmap::{Netid, PORT, Registration};
use serde::Deserialize;
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Longest wait for rpcbind, which is on this machine.
const TIMEOUT: Duration = Duration::from_secs(2);
/// Programs and versions that are found.
const PROGRAMS: [(u32, u32); 5] =
    [(100_003, 2), (100_003, 3), (100_005, 1), (100_005, 2), (100_005, 3)];

/// `--portmap`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PortmapMode {
    /// Register with a running rpcbind. Without one, answer port 111 if other machines can reach the server
    /// and the port is free
    #[default]
    Auto,
    /// Register with the running rpcbind, or fail
    Register,
    /// Answer port 111, or fail
    Serve,
    /// Neither: clients must be told the port
    Off,
}

/// What will be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Plan {
    /// Register with rpcbind once the sockets are there; if `must`, a failure ends the start.
    Register {
        /// Whether the operator asked for it.
        must: bool,
    },
    /// Answer on these addresses as well.
    Serve(Vec<SocketAddr>),
    /// Nothing, for this reason.
    Neither(String),
}

/// The plan as it was carried out.
pub struct PortmapService {
    /// What was done, for the operator.
    pub how: String,
    listen: ListenAddresses,
    /// What this server answers itself.
    own: Arc<Portmap>,
    /// What rpcbind knows. Locked by the operator's changes and at the end.
    registered: Mutex<Option<Registered>>,
}

impl PortmapService {
    /// Carries the plan out, for services that are there on both transports, or on TCP alone.
    ///
    /// # Errors
    /// rpcbind refuses what the operator asked for.
    pub fn apply(
        plan: &Plan,
        listen: &ListenAddresses,
        own: Arc<Portmap>,
        udp: bool,
    ) -> anyhow::Result<Self> {
        own.set_udp(udp);
        let (registered, how) = match plan {
            Plan::Neither(why) => (None, why.clone()),
            Plan::Serve(_) => (None, "this server answers port 111".to_owned()),
            Plan::Register { must } => match register(listen, udp) {
                Ok(done) => (Some(done), "registered with rpcbind".to_owned()),
                Err(error) if *must => return Err(error),
                Err(error) => (None, format!("none ({})", error_text(&error))),
            },
        };
        Ok(Self { how, listen: listen.clone(), own, registered: Mutex::new(registered) })
    }

    /// From now on services are found over UDP, or not any more.
    ///
    /// # Errors
    /// rpcbind refuses, or has gone: it goes on saying what it said before.
    pub fn set_udp(&self, udp: bool) -> anyhow::Result<()> {
        self.own.set_udp(udp);
        let mut registered = self.registered.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(registered) = &mut *registered else { return Ok(()) };
        registered.change(&registered_with(&self.listen, udp)).context("rpcbind is not told")
    }

    /// Takes back what rpcbind knows.
    pub fn unregister(&self) {
        let registered = self.registered.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(registered) = registered
            && let Err(error) = registered.unregister()
        {
            tracing::warn!(%error, "rpcbind keeps a registration of ours");
        }
    }
}

/// Decides, for a server that listens on `listen`.
///
/// # Errors
/// What the operator asked for cannot be had.
pub fn plan(mode: PortmapMode, listen: &ListenAddresses) -> anyhow::Result<Plan> {
    let own: Vec<SocketAddr> =
        listen.ips().into_iter().map(|ip| SocketAddr::new(ip, PORT)).collect();
    match mode {
        PortmapMode::Off => Ok(Plan::Neither("none (--portmap off)".into())),
        PortmapMode::Register => Ok(Plan::Register { must: true }),
        PortmapMode::Serve => {
            may_serve(&own).map_err(|why| anyhow::anyhow!("cannot answer port {PORT}: {why}"))?;
            Ok(Plan::Serve(own))
        }
        PortmapMode::Auto if rpcbind_answers() => Ok(Plan::Register { must: false }),
        PortmapMode::Auto if listen.is_local() => {
            let why = "none needed on this machine: the mount command names the port";
            Ok(Plan::Neither(why.into()))
        }
        PortmapMode::Auto => Ok(match may_serve(&own) {
            Ok(()) => Plan::Serve(own),
            Err(why) => Plan::Neither(format!("none (no rpcbind, and port {PORT}: {why})")),
        }),
    }
}

/// Tries the sockets, and gives them back.
fn may_serve(own: &[SocketAddr]) -> Result<(), String> {
    for addr in own {
        let tried = TcpListener::bind(addr).and_then(|_tcp| UdpSocket::bind(addr));
        tried.map_err(|error| match error.kind() {
            ErrorKind::AddrInUse => {
                let who = super::port_owner::owner_of(PORT).unwrap_or_else(|| "something".into());
                format!("{who} has it; try --portmap register, or off")
            }
            ErrorKind::PermissionDenied => "only root may; try --portmap off".to_owned(),
            _ => format!("{error}; try --portmap off"),
        })?;
    }
    Ok(())
}

/// What is found on these addresses.
pub fn registrations(listen: &ListenAddresses) -> Vec<Registration> {
    let mut list = Vec::new();
    for (tcp, addrs) in [(true, &listen.tcp), (false, &listen.udp)] {
        for addr in addrs {
            let all = PROGRAMS.map(|(program, v)| Registration::new(program, v, tcp, *addr));
            list.extend(all);
        }
    }
    list
}

/// What this server's own portmapper answers: the services, and itself where it has port 111.
pub fn answers(listen: &ListenAddresses, plan: &Plan) -> Vec<Registration> {
    let mut list = registrations(listen);
    if let Plan::Serve(own) = plan {
        for (addr, version) in own.iter().flat_map(|addr| [2, 3, 4].map(|v| (addr, v))) {
            for tcp in [true, false] {
                list.push(Registration::new(proto::portmap::PROGRAM, version, tcp, *addr));
            }
        }
    }
    list
}

/// Registers what listens on `listen` with rpcbind.
///
/// # Errors
/// There is no rpcbind, or another server is registered; nothing is left registered then.
fn register(listen: &ListenAddresses, udp: bool) -> anyhow::Result<Registered> {
    rpcbind::register(&registered_with(listen, udp), Rpcbind::default())
        .context("cannot register (--portmap off does without)")
}

/// What rpcbind is told, which keeps one address per program, version and transport: the first one counts.
fn registered_with(listen: &ListenAddresses, udp: bool) -> Vec<Registration> {
    let mut list: Vec<Registration> = Vec::new();
    for service in registrations(listen) {
        let served = udp || service.netid.is_tcp();
        if served && !list.iter().any(|other| same_place(other, &service)) {
            list.push(service);
        }
    }
    list
}

fn same_place(a: &Registration, b: &Registration) -> bool {
    (a.program, a.version, a.netid) == (b.program, b.version, b.netid)
}

/// Whether an rpcbind answers on this machine.
fn rpcbind_answers() -> bool {
    let Rpcbind { socket, addr } = Rpcbind::default();
    let client = Client::unix(&socket, TIMEOUT).or_else(|_| Client::tcp(addr, TIMEOUT));
    let portmapper = proto::portmap::PROGRAM;
    client.is_ok_and(|mut rpcbind| rpcbind.getversaddr(portmapper, 2, Netid::Tcp).is_ok())
}

#[cfg(test)]
mod tests {
    use super::{
        ListenAddresses, Plan, PortmapMode, answers, plan, registered_with, registrations,
    };

    #[test]
    fn every_program_is_found_on_both_transports() {
        let list = registrations(&ListenAddresses::both(&["127.0.0.1:2049".parse().unwrap()]));
        assert_eq!(list.len(), 10);
        assert!(list.iter().all(|r| r.addr.port() == 2049));
    }

    #[test]
    fn rpcbind_hears_of_one_address_for_each_transport_that_is_served() {
        let addrs = ["127.0.0.1:2049".parse().unwrap(), "10.0.0.1:2049".parse().unwrap()];
        let listen = ListenAddresses::both(&addrs);
        assert_eq!(registered_with(&listen, true).len(), 10);
        let tcp = registered_with(&listen, false);
        assert!(tcp.len() == 5 && tcp.iter().all(|r| r.netid.is_tcp() && r.addr == addrs[0]));
    }

    #[test]
    fn a_portmapper_knows_itself() {
        let listen = ListenAddresses::both(&["127.0.0.1:2049".parse().unwrap()]);
        let serve = Plan::Serve(vec!["127.0.0.1:111".parse().unwrap()]);
        let own =
            |plan: &Plan| answers(&listen, plan).iter().filter(|r| r.addr.port() == 111).count();
        assert_eq!(own(&serve), 6);
        assert_eq!(own(&Plan::Neither(String::new())), 0);
    }

    #[test]
    fn a_transport_that_nothing_listens_on_is_not_found() {
        let tcp: Vec<_> = ["0.0.0.0:7", "[::]:7"].iter().map(|a| a.parse().unwrap()).collect();
        let listen = ListenAddresses { tcp: tcp.clone(), udp: Vec::new() };
        assert!(registrations(&listen).iter().all(|r| r.netid.is_tcp() && tcp.contains(&r.addr)));
        assert_eq!(registered_with(&listen, true).len(), 10, "one for each family");
    }

    #[test]
    fn off_is_off() {
        let plan =
            plan(PortmapMode::Off, &ListenAddresses::both(&["0.0.0.0:2049".parse().unwrap()]))
                .unwrap();
        assert!(matches!(plan, Plan::Neither(_)));
    }
}
