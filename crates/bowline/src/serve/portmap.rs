//! How clients that ask a portmapper find the server (`--portmap`).
//!
//! `auto` registers with a running rpcbind. Without one, it answers port 111 itself, but only if other machines
//! can reach the server, because a loopback server on port 111 would only keep a later rpcbind from starting,
//! and only if the port is free and permitted. Registrations are removed at the end.
//!
//! rpcbind forgets everything when it is restarted, so a thread asks it every [`CHECK_EVERY`] and registers again
//! what is missing. Lock: `Service::state`; held while rpcbind is asked, never taken by a call of a client.

use super::listen_addresses::ListenAddresses;
use crate::output::error_text;
use anyhow::Context;
use clap::ValueEnum;
use client::Client;
use client::rpcbind::{self, Registered, Rpcbind};
use nfs::portmap::Portmap;
use proto::portmap::{Netid, PORT, PROGRAM as PORTMAPPER, Registration};
use serde::Deserialize;
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

/// Longest wait for rpcbind, which runs on this machine.
const RPCBIND_TIMEOUT: Duration = Duration::from_secs(2);
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
    /// Register with rpcbind once the sockets exist; if `must`, a failure ends the start.
    Register {
        /// Whether the operator asked for it.
        must: bool,
    },
    /// Answer portmapper calls on these addresses as well.
    Serve(Vec<SocketAddr>),
    /// Neither, for this reason.
    Neither(String),
}

/// How often rpcbind is asked whether it still has the registrations.
const CHECK_EVERY: Duration = Duration::from_secs(10);
/// Programs that another server of this machine may have, such as the kernel's lock manager: NLM, NSM, rquota.
const SHARED_PROGRAMS: [u32; 3] = [NLM, NSM, 100_011];
/// The lock manager of version 3.
const NLM: u32 = 100_021;
/// The status monitor.
const NSM: u32 = 100_024;

/// Told whether another server of this machine has the status monitor's number. Must not block.
pub type OtherMonitor = Box<dyn Fn(bool) + Send + Sync>;

/// A service that is another server's.
struct Left {
    service: Registration,
    /// Whose.
    why: String,
}

/// The applied plan.
pub struct PortmapService {
    service: Arc<Service>,
    /// Ends the thread that asks rpcbind.
    watch: Mutex<Option<Sender<()>>>,
}

/// What is announced.
struct Service {
    /// The portmapper program of this server, whose list is also what rpcbind gets.
    own: Arc<Portmap>,
    state: Mutex<State>,
    /// Another server has the status monitor's number; as the state says.
    other_monitor: AtomicBool,
    on_other_monitor: OnceLock<OtherMonitor>,
}

struct State {
    /// The registrations with rpcbind.
    registered: Option<Registered>,
    /// This server answers port 111.
    served: bool,
    /// For the operator: what was done.
    how: String,
    /// What other servers are registered for.
    left: Vec<Left>,
    /// What is wrong with rpcbind now.
    trouble: Option<String>,
}

impl PortmapService {
    /// Applies the plan, for services on TCP and, with `udp`, on UDP.
    ///
    /// # Errors
    /// The operator asked for a registration that rpcbind refuses.
    pub fn apply(plan: &Plan, own: Arc<Portmap>, udp: bool) -> anyhow::Result<Self> {
        Self::apply_with(plan, own, udp, &Rpcbind::default())
    }

    fn apply_with(
        plan: &Plan,
        own: Arc<Portmap>,
        udp: bool,
        rpcbind: &Rpcbind,
    ) -> anyhow::Result<Self> {
        own.set_udp(udp);
        let (registered, left, how) = match plan {
            Plan::Neither(why) => (None, Vec::new(), why.clone()),
            Plan::Serve(_) => (None, Vec::new(), "this server answers port 111".to_owned()),
            Plan::Register { must } => match register(&own, rpcbind) {
                Ok((done, left)) => (Some(done), left, "registered with rpcbind".to_owned()),
                Err(error) if *must => return Err(error),
                Err(error) => (None, Vec::new(), format!("none ({})", error_text(&error))),
            },
        };
        let watched = registered.is_some();
        let served = matches!(plan, Plan::Serve(_));
        let state = Mutex::new(State { registered, served, how, left, trouble: None });
        let (other_monitor, on_other_monitor) = (AtomicBool::new(false), OnceLock::new());
        let service = Arc::new(Service { own, state, other_monitor, on_other_monitor });
        service.look_for_other_monitor();
        let watch = if watched { watch(&service) } else { None };
        Ok(Self { service, watch: Mutex::new(watch) })
    }

    /// The result, for the operator.
    pub fn how(&self) -> String {
        let state = self.service.lock();
        let how = format!("{}{}", state.how, left_text(&state.left));
        match &state.trouble {
            Some(trouble) => format!("{how}; {trouble}"),
            None => how,
        }
    }

    /// That clients of version 3 find another lock manager, and what can be done; `None` if they find this one.
    pub fn lock_manager_warning(&self) -> Option<String> {
        let state = self.service.lock();
        let other = state.left.iter().find(|left| left.service.program == NLM)?;
        Some(format!(
            "another lock manager is registered at this machine's port mapper ({}): clients of version 3 ask that one, \
             and their locks fail (No locks available). It is the kernel's if this machine has mounted something with \
             version 3: mount that with nolock, or with version 4, and unmount the rest; this server's is registered \
             within seconds when the other is gone",
            other.why
        ))
    }

    /// Whether clients find this server's lock manager by port 111. If so they find all that version 3 needs.
    pub fn announces_locks(&self) -> bool {
        let state = self.service.lock();
        let registered = |done: &Registered| done.services().iter().any(|one| one.program == NLM);
        state.served || state.registered.as_ref().is_some_and(registered)
    }

    /// Whether another server of this machine, which answers, has the status monitor's number.
    pub fn has_other_monitor(&self) -> bool {
        self.service.other_monitor.load(Relaxed)
    }

    /// Has `told` know whenever that may have changed; the first one stays.
    pub fn on_other_monitor(&self, told: OtherMonitor) {
        let _first = self.service.on_other_monitor.set(told);
    }

    /// Announces the status monitor, or leaves its number to rpc.statd.
    ///
    /// # Errors
    /// As for [`PortmapService::set_udp`].
    pub fn set_monitor(&self, announced: bool) -> anyhow::Result<()> {
        self.service.own.set_left_out((!announced).then_some(NSM));
        self.announce()
    }

    /// Announces the services over UDP, or no longer.
    ///
    /// # Errors
    /// rpcbind refuses or does not answer; its registrations stay as they are.
    pub fn set_udp(&self, udp: bool) -> anyhow::Result<()> {
        self.service.own.set_udp(udp);
        self.announce()
    }

    /// Announces what is served now, after versions of a program were switched on or off.
    ///
    /// # Errors
    /// As for [`PortmapService::set_udp`].
    pub fn announce(&self) -> anyhow::Result<()> {
        let done = self.announce_now();
        self.service.look_for_other_monitor();
        done
    }

    fn announce_now(&self) -> anyhow::Result<()> {
        let mut state = self.service.lock();
        let Some(registered) = &mut state.registered else { return Ok(()) };
        let (needed, shared) = registered_with(&self.service.own);
        // those that are registered stay; the others may be another server's
        let held: Vec<Registration> =
            shared.iter().filter(|one| registered.services().contains(one)).copied().collect();
        registered
            .change(&[needed, held].concat())
            .context("cannot change the registration with rpcbind")?;
        // what another server has is left to it
        let left = add_shared(registered, &shared);
        state.left = left;
        Ok(())
    }

    /// Registers again what rpcbind has lost; a note if there is something to say.
    pub fn check(&self) -> Option<String> {
        self.service.check()
    }

    /// Removes the registrations.
    pub fn unregister(&self) {
        drop(self.watch.lock().unwrap_or_else(PoisonError::into_inner).take());
        let registered = self.service.lock().registered.take();
        if let Some(registered) = registered
            && let Err(error) = registered.unregister()
        {
            tracing::warn!(%error, "cannot remove a registration with rpcbind");
        }
    }
}

impl Service {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes whether another server has the status monitor's number, and says so.
    fn look_for_other_monitor(&self) {
        let other = self.lock().left.iter().any(|left| left.service.program == NSM);
        self.other_monitor.store(other, Relaxed);
        if let Some(told) = self.on_other_monitor.get() {
            told(other);
        }
    }

    /// Registers again what is missing; what has changed since the last time.
    fn check(&self) -> Option<String> {
        let news = self.check_now();
        self.look_for_other_monitor();
        news
    }

    fn check_now(&self) -> Option<String> {
        let mut state = self.lock();
        let taken = state.take_over();
        let restored = state.registered.as_ref()?.restore();
        let (trouble, news) = match restored {
            Ok(0) => (None, state.trouble.is_some().then(|| "rpcbind answers again".to_owned())),
            Ok(count) => {
                let news =
                    format!("rpcbind had lost {count} registrations; they were registered again");
                (None, Some(news))
            }
            Err(error) => {
                let trouble = format!("{error}; trying again every {} s", CHECK_EVERY.as_secs());
                let same = state.trouble.as_ref() == Some(&trouble);
                (Some(trouble.clone()), (!same).then_some(trouble))
            }
        };
        state.trouble = trouble;
        news.or(taken)
    }
}

impl State {
    /// Registers what other servers have given up; what was.
    fn take_over(&mut self) -> Option<String> {
        let registered = self.registered.as_mut()?;
        let wanted: Vec<Registration> = self.left.iter().map(|left| left.service).collect();
        self.left = add_shared(registered, &wanted);
        let taken = wanted.len().saturating_sub(self.left.len());
        (taken > 0).then(|| format!("{taken} services that another server had registered are now registered for this one"))
    }
}

/// Starts the thread that asks rpcbind; it ends when the sender is dropped. Without it, where the kernel refuses a
/// thread, a reload registers again.
fn watch(service: &Arc<Service>) -> Option<Sender<()>> {
    let (stop, stopped) = channel::<()>();
    let service = Arc::clone(service);
    let thread = std::thread::Builder::new().name("rpcbind".into()).spawn(move || {
        while stopped.recv_timeout(CHECK_EVERY) == Err(RecvTimeoutError::Timeout) {
            if let Some(news) = service.check() {
                tracing::warn!("portmapper: {news}");
            }
        }
    });
    match thread {
        Ok(_) => Some(stop),
        Err(error) => {
            tracing::warn!("rpcbind restarts will not be detected: {error}");
            None
        }
    }
}

fn left_text(left: &[Left]) -> String {
    let mut whys: Vec<&str> = left.iter().map(|left| left.why.as_str()).collect();
    whys.dedup();
    if whys.is_empty() { String::new() } else { format!(", except {}", whys.join(", ")) }
}

/// Registers those services that nobody else has; the others.
fn add_shared(registered: &mut Registered, shared: &[Registration]) -> Vec<Left> {
    let left = |service: &Registration| {
        let refused = registered.add(service).err()?;
        Some(Left { service: *service, why: refused.to_string() })
    };
    shared.iter().filter_map(left).collect()
}

/// Decides what to do for a server that listens on `listen`.
///
/// # Errors
/// Port 111 was asked for and cannot be used.
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

/// Whether the sockets can be bound; they are closed again.
fn may_serve(own: &[SocketAddr]) -> Result<(), String> {
    for addr in own {
        let tried = TcpListener::bind(addr).and_then(|_tcp| UdpSocket::bind(addr));
        tried.map_err(|error| match error.kind() {
            ErrorKind::AddrInUse => {
                let who = super::port_owner::owner_of(PORT).unwrap_or_else(|| "something".into());
                format!("{who} uses it; try --portmap register, or off")
            }
            ErrorKind::PermissionDenied => "only root may use it; try --portmap off".to_owned(),
            _ => format!("{error}; try --portmap off"),
        })?;
    }
    Ok(())
}

/// The registrations that this server's portmapper answers with: the programs and versions of the dispatcher, and
/// itself on port 111.
pub fn answers(
    listen: &ListenAddresses,
    plan: &Plan,
    programs: &[(u32, u32)],
) -> Vec<Registration> {
    let mut list = Vec::new();
    for (tcp, addrs) in [(true, &listen.tcp), (false, &listen.udp)] {
        for addr in addrs {
            let programs = programs.iter().filter(|(number, _)| *number != PORTMAPPER);
            list.extend(programs.map(|(number, v)| Registration::new(*number, *v, tcp, *addr)));
        }
    }
    if let Plan::Serve(own) = plan {
        for (addr, version) in own.iter().flat_map(|addr| [2, 3, 4].map(|v| (addr, v))) {
            for tcp in [true, false] {
                list.push(Registration::new(PORTMAPPER, version, tcp, *addr));
            }
        }
    }
    list
}

/// Registers the services with rpcbind. Returns also what was left to other servers.
///
/// # Errors
/// rpcbind does not run, or another server is registered for NFS or MOUNT; nothing stays registered then.
fn register(own: &Portmap, rpcbind: &Rpcbind) -> anyhow::Result<(Registered, Vec<Left>)> {
    let (needed, shared) = registered_with(own);
    let mut registered = rpcbind::register(&needed, rpcbind.clone())
        .context("cannot register (--portmap off avoids this)")?;
    let left = add_shared(&mut registered, &shared);
    Ok((registered, left))
}

/// The registrations for rpcbind, which keeps one address per program, version and transport: the first. Those
/// that a server must have, and those that another server of this machine may have instead.
fn registered_with(own: &Portmap) -> (Vec<Registration>, Vec<Registration>) {
    let mut list: Vec<Registration> = Vec::new();
    for service in own.list().filter(|service| service.program != PORTMAPPER) {
        if !list.iter().any(|other| same_service(other, service)) {
            list.push(*service);
        }
    }
    list.into_iter().partition(|service| !SHARED_PROGRAMS.contains(&service.program))
}

fn same_service(a: &Registration, b: &Registration) -> bool {
    (a.program, a.version, a.netid) == (b.program, b.version, b.netid)
}

/// Whether an rpcbind answers on this machine.
fn rpcbind_answers() -> bool {
    let Rpcbind { socket, addr } = Rpcbind::default();
    let client =
        Client::unix(&socket, RPCBIND_TIMEOUT).or_else(|_| Client::tcp(addr, RPCBIND_TIMEOUT));
    client.is_ok_and(|mut rpcbind| rpcbind.getversaddr(PORTMAPPER, 2, Netid::Tcp).is_ok())
}

#[cfg(test)]
mod tests {
    use super::{
        ListenAddresses, PORTMAPPER, Plan, Portmap, PortmapMode, Registration, answers, plan,
        registered_with,
    };

    /// What a dispatcher serves.
    const SERVED: [(u32, u32); 4] = [(100_003, 3), (100_005, 3), (100_021, 4), (PORTMAPPER, 2)];
    /// Without the portmapper itself.
    const SERVICES: usize = SERVED.len() - 1;

    fn announced(listen: &ListenAddresses, plan: &Plan) -> Vec<Registration> {
        answers(listen, plan, &SERVED)
    }

    fn neither() -> Plan {
        Plan::Neither(String::new())
    }

    #[test]
    fn every_program_is_announced_for_both_transports() {
        let listen = ListenAddresses::both(&["127.0.0.1:2049".parse().unwrap()]);
        let list = announced(&listen, &neither());
        assert_eq!(list.len(), 2 * SERVICES);
        assert!(list.iter().all(|r| r.addr.port() == 2049 && r.program != PORTMAPPER));
    }

    #[test]
    fn rpcbind_gets_one_address_for_each_served_transport() {
        let addrs = ["127.0.0.1:2049".parse().unwrap(), "10.0.0.1:2049".parse().unwrap()];
        let serve = Plan::Serve(vec!["127.0.0.1:111".parse().unwrap()]);
        let own = Portmap::new(announced(&ListenAddresses::both(&addrs), &serve));
        let all = |udp| {
            own.set_udp(udp);
            let (needed, shared) = registered_with(&own);
            [needed, shared].concat()
        };
        assert_eq!(all(true).len(), 2 * SERVICES);
        let tcp = all(false);
        assert_eq!(tcp.len(), SERVICES);
        assert!(tcp.iter().all(|r| r.netid.is_tcp() && r.addr == addrs[0]));
    }

    #[test]
    fn a_portmapper_announces_itself() {
        let listen = ListenAddresses::both(&["127.0.0.1:2049".parse().unwrap()]);
        let serve = Plan::Serve(vec!["127.0.0.1:111".parse().unwrap()]);
        let own =
            |plan: &Plan| announced(&listen, plan).iter().filter(|r| r.addr.port() == 111).count();
        assert_eq!(own(&serve), 6);
        assert_eq!(own(&neither()), 0);
    }

    #[test]
    fn a_transport_without_a_socket_is_not_announced() {
        let tcp: Vec<_> = ["0.0.0.0:7", "[::]:7"].iter().map(|a| a.parse().unwrap()).collect();
        let listen = ListenAddresses { tcp: tcp.clone(), udp: Vec::new() };
        let list = announced(&listen, &neither());
        assert!(list.iter().all(|r| r.netid.is_tcp() && tcp.contains(&r.addr)));
        let (needed, shared) = registered_with(&Portmap::new(list));
        assert_eq!(needed.len() + shared.len(), 2 * SERVICES, "one for each family");
    }

    #[test]
    fn lock_programs_registered_by_another_server_are_tolerated() {
        let (needed, shared): (Vec<u32>, Vec<u32>) = [100_003, 100_005, 100_021, 100_024]
            .into_iter()
            .partition(|program| !super::SHARED_PROGRAMS.contains(program));
        assert_eq!((needed, shared), (vec![100_003, 100_005], vec![100_021, 100_024]));
        let why = "program 100021 version 4 (tcp) is registered by another".to_owned();
        let service = Registration::new(100_021, 4, true, "127.0.0.1:2049".parse().unwrap());
        let left = || super::Left { service, why: why.clone() };
        assert_eq!(super::left_text(&[left(), left()]), format!(", except {why}"));
        assert_eq!(super::left_text(&[]), "");
    }

    #[test]
    fn portmap_off_registers_nothing() {
        let plan =
            plan(PortmapMode::Off, &ListenAddresses::both(&["0.0.0.0:2049".parse().unwrap()]))
                .unwrap();
        assert!(matches!(plan, Plan::Neither(_)));
    }
}
