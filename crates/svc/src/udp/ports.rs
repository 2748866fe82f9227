//! All datagram sockets: which there are, who watches them, and how one setting becomes another.
//!
//! Workers see the [`Table`], a snapshot that they read without a lock. Everything else is in the
//! [`Book`], which the keeper, the operator's requests and starting pools change under its lock;
//! no worker ever takes it. Under it there are system calls that do not wait: bind, setsockopt,
//! connect of a datagram socket, epoll_ctl.
//!
//! A change is one [`Ports::pass`]: what is wanted and missing is bound, what is there and not
//! wanted is hidden and handed to the keeper (`leaving.rs`), groups are steered anew. A socket is
//! not added to a group that another one is just leaving, as the group's order would change under
//! the program that steers it; the pass after that does it. As every address has its base, nothing
//! is without a socket meanwhile, unless there are to be none.

use super::layout::{self, Place, wanted};
use super::leaving::{Exit, Leaving};
use super::outlet::Outlets;
use super::port::Port;
use crate::config::{SettingError, UdpSockets};
use crate::core::TOKEN_SOCKET;
use crate::lock;
use crate::server::StartError;
use crate::stats::{SocketInfo, SocketKind};
use rpc::Transport;
use std::collections::BTreeMap;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use sys::datagram::{self, Families};
use sys::epoll::Epoll;
use sys::event::Event;
use sys::netlink::Link;
use sys::snapshot::{Held, Long, Snapshot};

/// The sockets that workers receive from, by rising number.
#[derive(Default)]
pub(crate) struct Table(Vec<Arc<Port>>);

impl Table {
    /// The socket with that number, if it is open still.
    pub fn find(&self, number: u64) -> Option<&Arc<Port>> {
        let at = self.0.binary_search_by_key(&number, |port| port.number).ok()?;
        self.0.get(at)
    }
}

/// All datagram sockets.
pub(crate) struct Ports {
    table: Snapshot<Table, Long>,
    book: Mutex<Book>,
    pub outlets: Outlets,
    /// Wakes the keeper.
    pub event: Arc<Event>,
    /// The keeper is to end.
    pub stopping: AtomicBool,
}

struct Book {
    mode: UdpSockets,
    /// Bytes for each buffer of each socket, if the operator has chosen.
    buffer: Option<usize>,
    addresses: Vec<SocketAddr>,
    /// Those whose inherited socket is bound to an interface.
    fixed: Vec<usize>,
    links: Vec<Link>,
    cpus: u32,
    ports: Vec<Arc<Port>>,
    /// Inherited sockets that are out of service, with their addresses: whoever holds them as well
    /// has the port, so that no other could be bound.
    parked: Vec<(usize, UdpSocket)>,
    /// Hidden sockets that the keeper has not fetched yet.
    leaving: Vec<Leaving<Exiting>>,
    pools: Vec<(usize, Arc<Epoll>)>,
    last_number: u64,
    last_issue: u64,
    /// What could not be bound, and why; each is logged once.
    trouble: BTreeMap<Place, String>,
    /// Addresses that no interface has a socket for, though each should.
    alone: Vec<usize>,
}

/// A socket on its way out, with all that it has to be struck out of.
pub(crate) struct Exiting {
    port: Arc<Port>,
    ports: Arc<Ports>,
}

impl Exit for Exiting {
    fn hide(&self) {
        let Port { socket, place, reply_by, adopted, .. } = &*self.port;
        // others hold it as well, and the next server is to hear by it
        if *adopted && datagram::discard_arrivals(socket).is_ok() {
            return;
        }
        // refused to those without a privilege if the address is of one interface
        if reply_by.is_none() || datagram::strand(socket).is_err() {
            // where it fails there is no way to anywhere, and nothing arrives either
            let _ = datagram::hide(socket, place.interface);
        }
    }

    fn has_arrivals(&self) -> bool {
        datagram::has_arrivals(&self.port.socket)
    }

    fn strike_out(&self) {
        self.ports.strike_out(&self.port);
    }
}

/// Sizes the buffers as the operator wishes, or as fits many transfers.
pub(super) fn size(socket: &UdpSocket, buffer: Option<usize>) -> io::Result<()> {
    match buffer {
        Some(bytes) => datagram::size_buffers(socket, bytes),
        None => datagram::size_buffers_auto(socket),
    }
}

impl Ports {
    /// Binds what is wanted on `addrs`, and takes the inherited sockets as bases.
    ///
    /// # Errors
    /// [`StartError`]: an address that no socket could be bound on.
    pub fn bind(
        addrs: &[SocketAddr],
        adopted: Vec<UdpSocket>,
        mode: UdpSockets,
        buffer: Option<usize>,
    ) -> Result<Arc<Self>, StartError> {
        let event = Arc::new(Event::new()?);
        let links = if mode.by_interface() { sys::netlink::links()? } else { Vec::new() };
        let mut book = Book {
            mode: UdpSockets::Single,
            buffer,
            addresses: Vec::new(),
            fixed: Vec::new(),
            links,
            cpus: sys::thread::online_cpus(),
            ports: Vec::new(),
            parked: Vec::new(),
            leaving: Vec::new(),
            pools: Vec::new(),
            last_number: 0,
            last_issue: 0,
            trouble: BTreeMap::new(),
            alone: Vec::new(),
        };
        let mut failed = Vec::new();
        for addr in addrs {
            if mode == UdpSockets::Off {
                book.addresses.push(*addr);
                continue;
            }
            let bound = datagram::bind_alone(*addr).and_then(|s| Ok((s.local_addr()?, s)));
            let addr = bound.as_ref().map_or(*addr, |(local, _)| *local);
            let place = Place::base(book.addresses.len());
            book.addresses.push(addr);
            match bound.and_then(|(_, socket)| book.keep(socket, place, false)) {
                Ok(()) => {}
                Err(source) if mode.by_interface() => failed.push((place, source)),
                Err(source) => {
                    return Err(StartError::Bind { transport: Transport::Udp, addr, source });
                }
            }
        }
        for socket in adopted {
            // the server before may have ended while it was out of service
            let known = datagram::unpark(&socket)
                .and_then(|()| sys::mmsg::tell_destinations(&socket))
                .and_then(|()| socket.local_addr());
            let addr = known.map_err(StartError::Adopt)?;
            if datagram::is_bound_to_interface(&socket).map_err(StartError::Adopt)? {
                book.fixed.push(book.addresses.len());
            }
            let place = Place::base(book.addresses.len());
            book.addresses.push(addr);
            if mode == UdpSockets::Off {
                datagram::park(&socket).map_err(StartError::Adopt)?;
                // for a server that was there before, or for none
                datagram::forget_arrivals(&socket);
                book.parked.push((place.address, socket));
                continue;
            }
            book.keep(socket, place, true).map_err(StartError::Adopt)?;
        }
        let ports = Arc::new(Self {
            table: Snapshot::new(Table::default()),
            outlets: Outlets::new(Arc::clone(&event)),
            book: Mutex::new(book),
            event,
            stopping: AtomicBool::new(false),
        });
        let mut book = lock(&ports.book);
        book.mode = mode;
        ports.pass(&mut book);
        for (place, source) in failed {
            if !book.ports.iter().any(|port| port.place.address == place.address) {
                let addr = book.addresses.get(place.address).copied();
                let addr = addr.unwrap_or_else(|| ([0, 0, 0, 0], 0).into());
                return Err(StartError::Bind { transport: Transport::Udp, addr, source });
            }
        }
        drop(book);
        Ok(ports)
    }

    /// The sockets as they are now. They stay open as long as this is held, for a call that sleeps
    /// included.
    pub fn table(&self) -> Held<'_, Table, Long> {
        self.table.load()
    }

    /// Closes what was struck out and nobody uses any more; whether something is left.
    pub fn close_unused(&self) -> bool {
        self.table.collect() > 0
    }

    /// A pool begins to watch all sockets, those to come included.
    ///
    /// # Errors
    /// As epoll_ctl(2).
    pub fn enter(&self, pool: usize, epoll: &Arc<Epoll>) -> io::Result<()> {
        let mut book = lock(&self.book);
        for port in &book.ports {
            epoll.add_exclusive(&port.socket, TOKEN_SOCKET | port.number)?;
        }
        book.pools.push((pool, Arc::clone(epoll)));
        Ok(())
    }

    /// A pool watches no sockets any more; the numbers of those that it has watched.
    pub fn leave(&self, epoll: &Arc<Epoll>) -> Vec<u64> {
        let mut book = lock(&self.book);
        book.pools.retain(|(_, other)| !Arc::ptr_eq(epoll, other));
        for port in &book.ports {
            let _ = epoll.delete(&port.socket);
        }
        book.ports.iter().map(|port| port.number).collect()
    }

    /// Changes the setting; the new sockets are there when it returns, the old ones hidden.
    ///
    /// # Errors
    /// [`SettingError`]: the interfaces cannot be listed, or an address that only its interfaces'
    /// sockets serve has none without them. Nothing has changed then.
    pub fn set_mode(self: &Arc<Self>, mode: UdpSockets) -> Result<(), SettingError> {
        let listed = if mode.by_interface() { sys::netlink::links() } else { Ok(Vec::new()) };
        let links = listed.map_err(|error| {
            SettingError(format!("cannot list the network interfaces ({error}): is AF_NETLINK forbidden to this service?"))
        })?;
        let mut book = lock(&self.book);
        if matches!(mode, UdpSockets::Single | UdpSockets::Cpu) {
            for (index, place) in (0..book.addresses.len()).map(|n| (n, Place::base(n))) {
                // where one is just leaving, the pass after it binds
                if !book.has(place) && !book.is_left(place) {
                    book.bind(place).map_err(|error| {
                        let addr = book.addresses.get(index).map(ToString::to_string);
                        SettingError(format!(
                            "cannot bind UDP {} for all interfaces ({error}): another process has \
                             the port on one of them",
                            addr.unwrap_or_default()
                        ))
                    })?;
                }
            }
        }
        book.mode = mode;
        book.links = links;
        self.pass(&mut book);
        drop(book);
        // to watch the interfaces, or not any more, and to see the old sockets out
        self.event.raise();
        Ok(())
    }

    /// The setting.
    pub fn mode(&self) -> UdpSockets {
        lock(&self.book).mode
    }

    /// Sizes the buffers of all sockets; `None` is the size that nobody has chosen.
    ///
    /// # Errors
    /// [`SettingError`]: the kernel refuses.
    pub fn set_buffer(self: &Arc<Self>, buffer: Option<usize>) -> Result<(), SettingError> {
        let mut book = lock(&self.book);
        for port in &book.ports {
            size(&port.socket, buffer)
                .map_err(|error| SettingError(format!("cannot size UDP buffers: {error}")))?;
        }
        book.buffer = buffer;
        // sockets for sending only are with workers, who throw them away
        book.renew_outlets(&self.outlets);
        drop(book);
        self.event.raise();
        Ok(())
    }

    /// What the keeper has heard of interfaces.
    pub fn set_links(self: &Arc<Self>, links: Vec<Link>) {
        let mut book = lock(&self.book);
        book.links = links;
        self.pass(&mut book);
    }

    /// Looks again at what is missing.
    pub fn look_again(self: &Arc<Self>) {
        self.pass(&mut lock(&self.book));
    }

    /// Whether something is missing that may be had later.
    pub fn is_short(&self) -> bool {
        !lock(&self.book).trouble.is_empty()
    }

    /// Sockets that were hidden since this was last asked.
    pub fn leavers(&self) -> Vec<Leaving<Exiting>> {
        std::mem::take(&mut lock(&self.book).leaving)
    }

    /// Makes what there is what there should be, as far as it can be had now.
    fn pass(self: &Arc<Self>, book: &mut Book) {
        let addrs = book.addresses.clone();
        let wanted = wanted(book.mode, &addrs, &book.fixed, &book.links, book.cpus);
        if book.mode.is_many() {
            // before anything binds beside them
            for port in book.ports.iter().filter(|port| port.place.is_base()) {
                let _ = datagram::share(&port.socket);
            }
        }
        if book.mode.is_many() == self.outlets.is_off() {
            book.renew_outlets(&self.outlets);
        }
        let missing: Vec<Place> = wanted.iter().copied().filter(|p| !book.has(*p)).collect();
        let mut trouble = BTreeMap::new();
        for place in missing {
            if book.is_left(place) {
                continue;
            }
            if let Err(error) = book.bind(place) {
                trouble.insert(place, error.to_string());
            }
        }
        let spare: Vec<Arc<Port>> = book
            .ports
            .iter()
            .filter(|port| !port.is_leaving() && !wanted.contains(&port.place))
            .cloned()
            .collect();
        for port in spare {
            let _ = datagram::stop_steering(&port.socket);
            port.leaving.store(true, Relaxed);
            let exit = Exiting { port, ports: Arc::clone(self) };
            book.leaving.push(Leaving::begin(exit));
        }
        book.steer();
        self.table.replace(Table(book.ports.clone()));
        book.tell(trouble);
        if let Err(error) = self.outlets.fill(&addrs, book.buffer) {
            tracing::debug!(%error, "no sockets for sending only: replies leave as calls came");
        }
    }

    /// Takes a socket that is empty out of everybody's sight; whoever uses it still closes it.
    fn strike_out(self: &Arc<Self>, port: &Arc<Port>) {
        let mut book = lock(&self.book);
        for (_, epoll) in &book.pools {
            let _ = epoll.delete(&port.socket);
        }
        book.ports.retain(|other| other.number != port.number);
        if port.adopted
            && let Ok(socket) = port.socket.try_clone()
        {
            let _ = datagram::park(&socket);
            book.parked.push((port.place.address, socket));
        }
        book.dissolve(port.place);
        // what had to wait until the group was at rest
        self.pass(&mut book);
    }

    /// Ends the keeper, and leaves inherited sockets as they came: their owner may start a server
    /// when something arrives.
    pub fn stop(&self) {
        let book = lock(&self.book);
        let parked = book.parked.iter().map(|(_, socket)| socket);
        let deaf = book.ports.iter().filter(|port| port.adopted && port.is_leaving());
        for socket in parked.chain(deaf.map(|port| &port.socket)) {
            let _ = datagram::unpark(socket);
        }
        drop(book);
        self.stopping.store(true, Relaxed);
        self.event.raise();
    }

    /// The addresses served, one for each base.
    pub fn local_addrs(&self) -> Vec<SocketAddr> {
        let book = lock(&self.book);
        if book.mode == UdpSockets::Off { Vec::new() } else { book.addresses.clone() }
    }

    /// All sockets, for the operator.
    pub fn infos(&self) -> Vec<SocketInfo> {
        let book = lock(&self.book);
        let mut infos: Vec<SocketInfo> =
            book.ports.iter().map(|port| book.info(port, self.outlets.open())).collect();
        infos.sort_by(|a, b| a.local.cmp(&b.local).then_with(|| a.interface.cmp(&b.interface)));
        infos
    }
}

impl Book {
    fn has(&self, place: Place) -> bool {
        self.ports.iter().any(|port| port.place == place && !port.is_leaving())
    }

    /// Whether a socket of the place's group is leaving.
    fn is_left(&self, place: Place) -> bool {
        self.ports.iter().any(|port| port.is_leaving() && port.place.is_beside(&place))
    }

    /// Binds the socket of a place beside those that there are.
    fn bind(&mut self, place: Place) -> io::Result<()> {
        let Some(addr) = self.addresses.get(place.address).copied() else { return Ok(()) };
        let parked = self.parked.iter().position(|(address, _)| *address == place.address);
        if let (true, Some(index)) = (place.is_base(), parked) {
            let (_, socket) = self.parked.get(index).ok_or(io::ErrorKind::NotFound)?;
            datagram::unpark(socket)?;
            datagram::share(socket)?;
            let (_, socket) = self.parked.swap_remove(index);
            self.keep(socket, place, true)?;
            return Ok(());
        }
        if place.is_base() {
            self.make_sure_of(place.address, addr)?;
        }
        let socket = datagram::join(addr, self.families(place.address), place.interface)?;
        self.keep(socket, place, false)?;
        if place.is_base() {
            self.dissolve(place);
        }
        Ok(())
    }

    /// Which datagrams the base of an address is for.
    fn families(&self, address: usize) -> Families {
        let base = self.ports.iter().find(|port| port.place == Place::base(address));
        base.map_or(Families::Own, |base| base.families)
    }

    /// Whether nobody else has the port of an address that has no base. Linux ends its search for
    /// somebody at the first of our own sockets, so each interface that we have none on is tried.
    fn make_sure_of(&self, address: usize, addr: SocketAddr) -> io::Result<()> {
        for link in &self.links {
            let place = Place { address, interface: Some(link.index), member: 0 };
            if !self.has(place) {
                drop(datagram::join(addr, Families::Own, place.interface)?);
            }
        }
        Ok(())
    }

    /// Takes a socket in, and lets all pools watch it.
    fn keep(&mut self, socket: UdpSocket, place: Place, adopted: bool) -> io::Result<()> {
        if !adopted || self.buffer.is_some() {
            // as far as the sysctls allow
            let _ = size(&socket, self.buffer);
        }
        self.last_number = self.last_number.saturating_add(1);
        let base = || self.ports.iter().find(|port| port.place == Place::base(place.address));
        let reply_by = base().filter(|base| !place.is_base() && base.place.is_beside(&place));
        let port = Port::new(self.last_number, socket, place, reply_by.cloned(), adopted)?;
        let port = Arc::new(port);
        for (_, epoll) in &self.pools {
            epoll.add_exclusive(&port.socket, TOKEN_SOCKET | port.number)?;
        }
        self.ports.push(port);
        Ok(())
    }

    /// A base that is alone in its group is weighed by itself again.
    fn dissolve(&self, place: Place) {
        let scoped = self.addresses.get(place.address).is_none_or(layout::is_scoped);
        let mut group = self.ports.iter().filter(|port| port.place.is_beside(&place));
        if let (Some(base), None, false) = (group.next(), group.next(), scoped)
            && base.place.is_base()
        {
            let _ = datagram::leave_group(&base.socket);
        }
    }

    /// Steers each group by CPU that has several members, none of them leaving.
    fn steer(&self) {
        for first in self.ports.iter().filter(|port| port.place.member == 0 && !port.is_leaving()) {
            let group = || self.ports.iter().filter(|port| port.place.is_beside(&first.place));
            let members = u32::try_from(group().count()).unwrap_or(u32::MAX);
            if members > 1
                && !group().any(|port| port.is_leaving())
                && let Err(error) = datagram::steer_by_cpu(&first.socket, members)
            {
                tracing::warn!(%error, "cannot steer UDP by CPU: it is steered by a hash");
            }
        }
    }

    fn renew_outlets(&mut self, outlets: &Outlets) {
        self.last_issue = self.last_issue.saturating_add(1);
        outlets.renew(if self.mode.is_many() { self.last_issue } else { 0 });
    }

    /// Logs what has become different.
    fn tell(&mut self, trouble: BTreeMap<Place, String>) {
        for (place, error) in &trouble {
            if self.trouble.get(place) != Some(error) {
                let (at, by) = (self.address_text(*place), self.interface_text(*place));
                let then = if place.is_base() || !self.has(Place::base(place.address)) {
                    "its calls are not served until it is free"
                } else {
                    "the socket for all interfaces takes its calls"
                };
                tracing::warn!("cannot bind UDP {at} for {by}: {error}; {then}");
            }
        }
        for place in self.trouble.keys().filter(|place| !trouble.contains_key(place)) {
            if self.has(*place) {
                let (at, by) = (self.address_text(*place), self.interface_text(*place));
                tracing::info!("UDP {at} is bound for {by} now");
            }
        }
        self.trouble = trouble;
        let spread = |address: usize| {
            // where one is leaving, its successor is bound in the pass after that
            let mut ports = self.ports.iter();
            ports.any(|port| port.place.address == address && port.place.interface.is_some())
        };
        let should = |address: &usize| self.mode.by_interface() && !self.fixed.contains(address);
        let all = 0..self.addresses.len();
        let alone: Vec<usize> = all.filter(|a| should(a) && !spread(*a)).collect();
        for address in alone.iter().filter(|address| !self.alone.contains(address)) {
            let at = self.address_text(Place::base(*address));
            tracing::warn!(
                "udp-sockets={}: no interface that UDP {at} can be reached by is up; one socket \
                 for all of them serves it until one is",
                self.mode
            );
        }
        self.alone = alone;
    }

    fn address_text(&self, place: Place) -> String {
        self.addresses.get(place.address).map_or_else(String::new, ToString::to_string)
    }

    fn name_of(&self, interface: u32) -> String {
        let link = self.links.iter().find(|link| link.index == interface);
        link.map_or_else(|| format!("#{interface}"), |link| link.name.clone())
    }

    fn interface_text(&self, place: Place) -> String {
        place.interface.map_or_else(|| "all interfaces".to_owned(), |index| self.name_of(index))
    }

    fn info(&self, port: &Port, outlets: usize) -> SocketInfo {
        let traffic = port.totals();
        let memory = datagram::memory(&port.socket);
        let steered = self.ports.iter().filter(|p| p.place.is_beside(&port.place)).count() > 1;
        SocketInfo {
            transport: SocketKind::Udp,
            local: port.local,
            adopted: port.adopted,
            interface: port.place.interface.map(|index| self.name_of(index)),
            cpu: steered.then_some(port.place.member),
            received: traffic.received,
            sent: traffic.sent,
            bytes_in: traffic.bytes_in,
            bytes_out: traffic.bytes_out,
            drops: memory.drops,
            buffer_in: memory.buffers.receive,
            buffer_out: memory.buffers.send,
            note: self.note(port, outlets),
        }
    }

    /// What the operator should know of a socket.
    fn note(&self, port: &Port, outlets: usize) -> String {
        if port.is_leaving() {
            return "closes when it is empty".to_owned();
        }
        if !port.place.is_base() {
            return String::new();
        }
        let mut notes = Vec::new();
        let address = port.place.address;
        if self.mode.by_interface() && self.alone.contains(&address) {
            notes.push("serves all interfaces, as none has a socket".to_owned());
        } else if self.mode.by_interface() {
            notes.push("for what comes by no other interface".to_owned());
        }
        for (place, error) in self.trouble.iter().filter(|(place, _)| place.address == address) {
            notes.push(format!("{}: {error}", self.interface_text(*place)));
        }
        if outlets > 0 {
            notes.push(format!("{outlets} more for sending only"));
        }
        notes.join("; ")
    }
}
