//! All datagram sockets: which there are, who watches them, and how one setting becomes another.
//!
//! Workers see the [`Table`], a snapshot that they read without a lock. Everything else is in [`State`], which
//! the maintenance thread, the operator's requests and starting pools change under its lock; no worker ever
//! takes it. Under it there are system calls that do not wait: bind, setsockopt, connect of a datagram
//! socket, epoll_ctl.
//!
//! A change is one [`DatagramSockets::reconcile`]: what is wanted and missing is bound, what is there and not
//! wanted is hidden and left to the maintenance thread (`removal.rs`), groups are steered anew. A socket is
//! not added to a group that another one is just leaving, as the group's order would change under the
//! program that steers it; the next reconciliation does it. As every address has its base, no interface is
//! without a socket meanwhile, unless there are to be none.

use crate::epoll_tokens::TOKEN_SOCKET;
use crate::errors::{SettingError, StartError};
use crate::settings::UdpSockets;
use crate::socket_info::{SocketInfo, SocketKind};
use crate::sync::lock;
use crate::udp::layout::{self, Binding, wanted};
use crate::udp::removal::{RemovableSocket, SocketRemoval};
use crate::udp::reply_socket::ReplySockets;
use crate::udp::socket::{DatagramSocket, size};
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
use sys::snapshot::{Held, LongReads, Snapshot};

/// The sockets that workers receive from, by rising number.
#[derive(Default)]
pub(crate) struct Table(Vec<Arc<DatagramSocket>>);

impl Table {
    /// The socket with that number, if it is open still.
    pub fn find(&self, number: u64) -> Option<&Arc<DatagramSocket>> {
        let at = self.0.binary_search_by_key(&number, |socket| socket.number).ok()?;
        self.0.get(at)
    }
}

/// All datagram sockets.
pub(crate) struct DatagramSockets {
    table: Snapshot<Table, LongReads>,
    state: Mutex<State>,
    pub reply_sockets: ReplySockets,
    /// Wakes the maintenance thread.
    pub event: Arc<Event>,
    /// The maintenance thread is to end.
    pub stopping: AtomicBool,
}

struct State {
    mode: UdpSockets,
    /// Bytes for each buffer of each socket, if the operator has chosen.
    buffer: Option<usize>,
    addresses: Vec<SocketAddr>,
    /// Those whose inherited socket is bound to an interface.
    bound_to_interface: Vec<usize>,
    interfaces: Vec<Link>,
    cpus: u32,
    sockets: Vec<Arc<DatagramSocket>>,
    /// Inherited sockets that are out of service, with their addresses: whoever holds them as well
    /// has the port, so that no other could be bound.
    out_of_service: Vec<(usize, UdpSocket)>,
    /// Hidden sockets that the maintenance thread has not taken yet.
    closing: Vec<SocketRemoval<RemovalTarget>>,
    pools: Vec<(usize, Arc<Epoll>)>,
    last_number: u64,
    last_generation: u64,
    /// What could not be bound, and why; each is logged once.
    bind_errors: BTreeMap<Binding, String>,
    /// Addresses that no interface has a socket for, though each should.
    without_interface_socket: Vec<usize>,
}

/// A socket that is being removed, with the sockets that it is one of.
pub(crate) struct RemovalTarget {
    socket: Arc<DatagramSocket>,
    sockets: Arc<DatagramSockets>,
}

impl RemovableSocket for RemovalTarget {
    fn hide(&self) {
        let DatagramSocket { udp, binding, reply_by, inherited, .. } = &*self.socket;
        // others have it open as well, and the next server is to receive by it
        if *inherited && datagram::discard_arrivals(udp).is_ok() {
            return;
        }
        // refused to those without a privilege if the address is of one interface
        if reply_by.is_none() || datagram::bind_to_no_interface(udp).is_err() {
            // where it fails there is no route to anywhere, and nothing arrives either
            let _ = datagram::hide(udp, binding.interface);
        }
    }

    fn has_arrivals(&self) -> bool {
        datagram::has_arrivals(&self.socket.udp)
    }

    fn unregister(&self) {
        self.sockets.unregister(&self.socket);
    }
}

impl DatagramSockets {
    /// Binds what is wanted on `addrs`, and takes the inherited sockets as bases.
    ///
    /// # Errors
    /// [`StartError`]: an address that no socket could be bound on.
    pub fn bind(
        addrs: &[SocketAddr],
        inherited: Vec<UdpSocket>,
        mode: UdpSockets,
        buffer: Option<usize>,
    ) -> Result<Arc<Self>, StartError> {
        let event = Arc::new(Event::new()?);
        let interfaces = if mode.by_interface() { sys::netlink::links()? } else { Vec::new() };
        let mut state = State::new(buffer, interfaces);
        let mut failed = Vec::new();
        for addr in addrs {
            failed.extend(state.bind_first(*addr, mode)?);
        }
        for socket in inherited {
            state.adopt(socket, mode).map_err(StartError::Adopt)?;
        }
        let sockets = Arc::new(Self {
            table: Snapshot::new(Table::default()),
            reply_sockets: ReplySockets::new(Arc::clone(&event)),
            state: Mutex::new(state),
            event,
            stopping: AtomicBool::new(false),
        });
        let mut state = lock(&sockets.state);
        state.mode = mode;
        sockets.reconcile(&mut state);
        for (binding, source) in failed {
            if !state.sockets.iter().any(|socket| socket.binding.address == binding.address) {
                let addr = state.addresses.get(binding.address).copied();
                let addr = addr.unwrap_or_else(|| ([0, 0, 0, 0], 0).into());
                return Err(StartError::Bind { transport: Transport::Udp, addr, source });
            }
        }
        drop(state);
        Ok(sockets)
    }

    /// The sockets as they are now. They stay open as long as this is held, also by a call that blocks.
    pub fn table(&self) -> Held<'_, Table, LongReads> {
        self.table.load()
    }

    /// Closes unregistered sockets that nobody uses any more; whether some are left.
    pub fn close_unused(&self) -> bool {
        self.table.collect() > 0
    }

    /// A pool begins to watch all sockets, those to come included.
    ///
    /// # Errors
    /// As epoll_ctl(2).
    pub fn add_pool(&self, pool: usize, epoll: &Arc<Epoll>) -> io::Result<()> {
        let mut state = lock(&self.state);
        for socket in &state.sockets {
            epoll.add_exclusive(&socket.udp, TOKEN_SOCKET | socket.number)?;
        }
        state.pools.push((pool, Arc::clone(epoll)));
        Ok(())
    }

    /// A pool watches no sockets any more; the numbers of those that it has watched.
    pub fn remove_pool(&self, epoll: &Arc<Epoll>) -> Vec<u64> {
        let mut state = lock(&self.state);
        state.pools.retain(|(_, other)| !Arc::ptr_eq(epoll, other));
        for socket in &state.sockets {
            let _ = epoll.delete(&socket.udp);
        }
        state.sockets.iter().map(|socket| socket.number).collect()
    }

    /// Changes the setting; the new sockets are there when it returns, the old ones hidden.
    ///
    /// # Errors
    /// [`SettingError`]: the interfaces cannot be listed, or an address that only its interfaces'
    /// sockets serve has none without them. Nothing has changed then.
    pub fn set_mode(self: &Arc<Self>, mode: UdpSockets) -> Result<(), SettingError> {
        let listed = if mode.by_interface() { sys::netlink::links() } else { Ok(Vec::new()) };
        let interfaces = listed.map_err(|error| {
            SettingError(format!("cannot list the network interfaces ({error}): is AF_NETLINK forbidden to this service?"))
        })?;
        let mut state = lock(&self.state);
        if matches!(mode, UdpSockets::Single | UdpSockets::Cpu) {
            for (index, binding) in (0..state.addresses.len()).map(|n| (n, Binding::base(n))) {
                // where one is just leaving, the next reconciliation binds
                if !state.has(binding) && !state.is_group_changing(binding) {
                    state.bind(binding).map_err(|error| {
                        let addr = state.addresses.get(index).map(ToString::to_string);
                        SettingError(format!(
                            "cannot bind UDP {} for all interfaces ({error}): another process has \
                             the port on one of them",
                            addr.unwrap_or_default()
                        ))
                    })?;
                }
            }
        }
        state.mode = mode;
        state.interfaces = interfaces;
        self.reconcile(&mut state);
        drop(state);
        // to watch the interfaces, or not any more, and to remove the old sockets
        self.event.raise();
        Ok(())
    }

    /// The setting.
    pub fn mode(&self) -> UdpSockets {
        lock(&self.state).mode
    }

    /// Sizes the buffers of all sockets; `None` is the size that nobody has chosen.
    ///
    /// # Errors
    /// [`SettingError`]: the kernel refuses.
    pub fn set_buffer(self: &Arc<Self>, buffer: Option<usize>) -> Result<(), SettingError> {
        let mut state = lock(&self.state);
        for socket in &state.sockets {
            size(&socket.udp, buffer)
                .map_err(|error| SettingError(format!("cannot size UDP buffers: {error}")))?;
        }
        state.buffer = buffer;
        // workers have the sockets for sending only, and close them
        state.renew_reply_sockets(&self.reply_sockets);
        drop(state);
        self.event.raise();
        Ok(())
    }

    /// Takes what the maintenance thread has heard of interfaces.
    pub fn set_interfaces(self: &Arc<Self>, interfaces: Vec<Link>) {
        let mut state = lock(&self.state);
        state.interfaces = interfaces;
        self.reconcile(&mut state);
    }

    /// Tries again to bind what is missing.
    pub fn retry(self: &Arc<Self>) {
        self.reconcile(&mut lock(&self.state));
    }

    /// Whether something is missing that may be had later.
    pub fn is_short(&self) -> bool {
        !lock(&self.state).bind_errors.is_empty()
    }

    /// Sockets that were hidden since this was last asked.
    pub fn take_removals(&self) -> Vec<SocketRemoval<RemovalTarget>> {
        std::mem::take(&mut lock(&self.state).closing)
    }

    /// Makes the sockets those that there should be, as far as they can be bound now.
    fn reconcile(self: &Arc<Self>, state: &mut State) {
        let addrs = state.addresses.clone();
        let wanted =
            wanted(state.mode, &addrs, &state.bound_to_interface, &state.interfaces, state.cpus);
        if state.mode.is_many() {
            // before anything binds beside them
            for socket in state.sockets.iter().filter(|socket| socket.binding.is_base()) {
                let _ = datagram::share(&socket.udp);
            }
        }
        if state.mode.is_many() == self.reply_sockets.is_off() {
            state.renew_reply_sockets(&self.reply_sockets);
        }
        let missing: Vec<Binding> = wanted.iter().copied().filter(|p| !state.has(*p)).collect();
        let mut bind_errors = BTreeMap::new();
        for binding in missing {
            if state.is_group_changing(binding) {
                continue;
            }
            if let Err(error) = state.bind(binding) {
                bind_errors.insert(binding, error.to_string());
            }
        }
        let spare: Vec<Arc<DatagramSocket>> = state
            .sockets
            .iter()
            .filter(|socket| !socket.is_closing() && !wanted.contains(&socket.binding))
            .cloned()
            .collect();
        for socket in spare {
            let _ = datagram::stop_steering(&socket.udp);
            socket.closing.store(true, Relaxed);
            let exit = RemovalTarget { socket, sockets: Arc::clone(self) };
            state.closing.push(SocketRemoval::begin(exit));
        }
        state.steer();
        self.table.replace(Table(state.sockets.clone()));
        state.log_changes(bind_errors);
        if let Err(error) = self.reply_sockets.fill(&addrs, state.buffer) {
            tracing::debug!(%error, "no send-only sockets: replies are sent from the receiving socket");
        }
    }

    /// Removes a socket that is empty from the epolls and the table; the last worker that uses it closes it.
    fn unregister(self: &Arc<Self>, socket: &Arc<DatagramSocket>) {
        let mut state = lock(&self.state);
        for (_, epoll) in &state.pools {
            let _ = epoll.delete(&socket.udp);
        }
        state.sockets.retain(|other| other.number != socket.number);
        if socket.inherited
            && let Ok(udp) = socket.udp.try_clone()
        {
            let _ = datagram::park(&udp);
            state.out_of_service.push((socket.binding.address, udp));
        }
        state.leave_single_group(socket.binding);
        // what had to wait until the group did not change
        self.reconcile(&mut state);
    }

    /// Ends the maintenance thread, and leaves inherited sockets as they came: their owner may start a server
    /// when something arrives.
    pub fn stop(&self) {
        let state = lock(&self.state);
        let out_of_service = state.out_of_service.iter().map(|(_, socket)| socket);
        let deaf = state.sockets.iter().filter(|socket| socket.inherited && socket.is_closing());
        for socket in out_of_service.chain(deaf.map(|socket| &socket.udp)) {
            let _ = datagram::unpark(socket);
        }
        drop(state);
        self.stopping.store(true, Relaxed);
        self.event.raise();
    }

    /// The addresses served, one for each base.
    pub fn local_addrs(&self) -> Vec<SocketAddr> {
        let state = lock(&self.state);
        if state.mode == UdpSockets::Off { Vec::new() } else { state.addresses.clone() }
    }

    /// All sockets, for the operator.
    pub fn infos(&self) -> Vec<SocketInfo> {
        let state = lock(&self.state);
        let mut infos: Vec<SocketInfo> = state
            .sockets
            .iter()
            .map(|socket| state.info(socket, self.reply_sockets.open()))
            .collect();
        infos.sort_by(|a, b| a.local.cmp(&b.local).then_with(|| a.interface.cmp(&b.interface)));
        infos
    }
}

impl State {
    /// No socket yet.
    fn new(buffer: Option<usize>, interfaces: Vec<Link>) -> Self {
        Self {
            mode: UdpSockets::Single,
            buffer,
            addresses: Vec::new(),
            bound_to_interface: Vec::new(),
            interfaces,
            cpus: sys::thread::online_cpus(),
            sockets: Vec::new(),
            out_of_service: Vec::new(),
            closing: Vec::new(),
            pools: Vec::new(),
            last_number: 0,
            last_generation: 0,
            bind_errors: BTreeMap::new(),
            without_interface_socket: Vec::new(),
        }
    }

    /// Binds the base of a new address, unless there is to be no socket. Where each interface gets a socket, that the
    /// base cannot be bound is no error yet but returned: a socket of an interface may be bound all the same.
    fn bind_first(
        &mut self,
        addr: SocketAddr,
        mode: UdpSockets,
    ) -> Result<Option<(Binding, io::Error)>, StartError> {
        let binding = Binding::base(self.addresses.len());
        if mode == UdpSockets::Off {
            self.addresses.push(addr);
            return Ok(None);
        }
        let bound = datagram::bind_alone(addr).and_then(|s| Ok((s.local_addr()?, s)));
        // port 0 has become a port
        let addr = bound.as_ref().map_or(addr, |(local, _)| *local);
        self.addresses.push(addr);
        match bound.and_then(|(_, socket)| self.add_socket(socket, binding, false)) {
            Ok(()) => Ok(None),
            Err(source) if mode.by_interface() => Ok(Some((binding, source))),
            Err(source) => Err(StartError::Bind { transport: Transport::Udp, addr, source }),
        }
    }

    /// Takes an inherited socket as the base of its address, or out of service if there is to be no socket.
    fn adopt(&mut self, socket: UdpSocket, mode: UdpSockets) -> io::Result<()> {
        // the server before may have ended while it was out of service
        datagram::unpark(&socket)?;
        sys::mmsg::enable_pktinfo(&socket)?;
        let addr = socket.local_addr()?;
        let binding = Binding::base(self.addresses.len());
        if datagram::is_bound_to_interface(&socket)? {
            self.bound_to_interface.push(binding.address);
        }
        self.addresses.push(addr);
        if mode != UdpSockets::Off {
            return self.add_socket(socket, binding, true);
        }
        datagram::park(&socket)?;
        // for a server that was there before, or for none
        datagram::forget_arrivals(&socket);
        self.out_of_service.push((binding.address, socket));
        Ok(())
    }

    fn has(&self, binding: Binding) -> bool {
        self.sockets.iter().any(|socket| socket.binding == binding && !socket.is_closing())
    }

    /// Whether a socket of the same group is leaving.
    fn is_group_changing(&self, binding: Binding) -> bool {
        self.sockets
            .iter()
            .any(|socket| socket.is_closing() && socket.binding.is_same_group(&binding))
    }

    /// Binds a socket beside those that there are.
    fn bind(&mut self, binding: Binding) -> io::Result<()> {
        let Some(addr) = self.addresses.get(binding.address).copied() else { return Ok(()) };
        let out_of_service =
            self.out_of_service.iter().position(|(address, _)| *address == binding.address);
        if let (true, Some(index)) = (binding.is_base(), out_of_service) {
            let (_, socket) = self.out_of_service.get(index).ok_or(io::ErrorKind::NotFound)?;
            datagram::unpark(socket)?;
            datagram::share(socket)?;
            let (_, socket) = self.out_of_service.swap_remove(index);
            self.add_socket(socket, binding, true)?;
            return Ok(());
        }
        if binding.is_base() {
            self.check_port_free(binding.address, addr)?;
        }
        let socket = datagram::join(addr, self.families(binding.address), binding.interface)?;
        self.add_socket(socket, binding, false)?;
        if binding.is_base() {
            self.leave_single_group(binding);
        }
        Ok(())
    }

    /// Which datagrams the base of an address is for.
    fn families(&self, address: usize) -> Families {
        let base = self.sockets.iter().find(|socket| socket.binding == Binding::base(address));
        base.map_or(Families::Own, |base| base.families)
    }

    /// Whether nobody else has bound the port of an address that has no base. Linux ends its search at the
    /// first of our own sockets, so each interface that we have none on is tried.
    fn check_port_free(&self, address: usize, addr: SocketAddr) -> io::Result<()> {
        for link in &self.interfaces {
            let binding = Binding { address, interface: Some(link.index), member: 0 };
            if !self.has(binding) {
                drop(datagram::join(addr, Families::Own, binding.interface)?);
            }
        }
        Ok(())
    }

    /// Adds a socket, and lets all pools watch it.
    fn add_socket(
        &mut self,
        socket: UdpSocket,
        binding: Binding,
        inherited: bool,
    ) -> io::Result<()> {
        if !inherited || self.buffer.is_some() {
            // as far as the sysctls allow
            let _ = size(&socket, self.buffer);
        }
        self.last_number = self.last_number.saturating_add(1);
        let base =
            || self.sockets.iter().find(|socket| socket.binding == Binding::base(binding.address));
        let reply_by =
            base().filter(|base| !binding.is_base() && base.binding.is_same_group(&binding));
        let socket =
            DatagramSocket::new(self.last_number, socket, binding, reply_by.cloned(), inherited)?;
        let socket = Arc::new(socket);
        for (_, epoll) in &self.pools {
            epoll.add_exclusive(&socket.udp, TOKEN_SOCKET | socket.number)?;
        }
        self.sockets.push(socket);
        Ok(())
    }

    /// Takes a base that is alone in its group out of the group.
    fn leave_single_group(&self, binding: Binding) {
        let scoped = self.addresses.get(binding.address).is_none_or(layout::is_scoped);
        let mut group = self.sockets.iter().filter(|socket| socket.binding.is_same_group(&binding));
        if let (Some(base), None, false) = (group.next(), group.next(), scoped)
            && base.binding.is_base()
        {
            let _ = datagram::leave_group(&base.udp);
        }
    }

    /// Steers each group by CPU that has several members, none of them leaving.
    fn steer(&self) {
        for first in
            self.sockets.iter().filter(|socket| socket.binding.member == 0 && !socket.is_closing())
        {
            let group = || {
                self.sockets.iter().filter(|socket| socket.binding.is_same_group(&first.binding))
            };
            let members = u32::try_from(group().count()).unwrap_or(u32::MAX);
            if members > 1
                && !group().any(|socket| socket.is_closing())
                && let Err(error) = datagram::steer_by_cpu(&first.udp, members)
            {
                tracing::warn!(%error, "cannot steer UDP by CPU: the kernel distributes it by hash");
            }
        }
    }

    fn renew_reply_sockets(&mut self, reply_sockets: &ReplySockets) {
        self.last_generation = self.last_generation.saturating_add(1);
        reply_sockets.renew(if self.mode.is_many() { self.last_generation } else { 0 });
    }

    /// Logs what has changed.
    fn log_changes(&mut self, bind_errors: BTreeMap<Binding, String>) {
        for (binding, error) in &bind_errors {
            if self.bind_errors.get(binding) != Some(error) {
                let (at, by) = (self.address_text(*binding), self.interface_text(*binding));
                let then = if binding.is_base() || !self.has(Binding::base(binding.address)) {
                    "its calls are not served until it is free"
                } else {
                    "the socket for all interfaces takes its calls"
                };
                tracing::warn!("cannot bind UDP {at} for {by}: {error}; {then}");
            }
        }
        for binding in self.bind_errors.keys().filter(|binding| !bind_errors.contains_key(binding))
        {
            if self.has(*binding) {
                let (at, by) = (self.address_text(*binding), self.interface_text(*binding));
                tracing::info!("UDP {at} is now bound for {by}");
            }
        }
        self.bind_errors = bind_errors;
        let spread = |address: usize| {
            // where one is leaving, its successor is bound in the next reconciliation
            let mut sockets = self.sockets.iter();
            sockets.any(|socket| {
                socket.binding.address == address && socket.binding.interface.is_some()
            })
        };
        let should = |address: &usize| {
            self.mode.by_interface() && !self.bound_to_interface.contains(address)
        };
        let all = 0..self.addresses.len();
        let without_interface_socket: Vec<usize> =
            all.filter(|a| should(a) && !spread(*a)).collect();
        for address in without_interface_socket
            .iter()
            .filter(|address| !self.without_interface_socket.contains(address))
        {
            let at = self.address_text(Binding::base(*address));
            tracing::warn!(
                "udp-sockets={}: no interface that UDP {at} can be reached by is up; one socket \
                 for all of them serves it until one is",
                self.mode
            );
        }
        self.without_interface_socket = without_interface_socket;
    }

    fn address_text(&self, binding: Binding) -> String {
        self.addresses.get(binding.address).map_or_else(String::new, ToString::to_string)
    }

    fn name_of(&self, interface: u32) -> String {
        let link = self.interfaces.iter().find(|link| link.index == interface);
        link.map_or_else(|| format!("#{interface}"), |link| link.name.clone())
    }

    fn interface_text(&self, binding: Binding) -> String {
        binding.interface.map_or_else(|| "all interfaces".to_owned(), |index| self.name_of(index))
    }

    fn info(&self, socket: &DatagramSocket, reply_sockets: usize) -> SocketInfo {
        let traffic = socket.totals();
        let memory = datagram::memory(&socket.udp);
        let steered =
            self.sockets.iter().filter(|p| p.binding.is_same_group(&socket.binding)).count() > 1;
        SocketInfo {
            transport: SocketKind::Udp,
            local: socket.local,
            inherited: socket.inherited,
            interface: socket.binding.interface.map(|index| self.name_of(index)),
            cpu: steered.then_some(socket.binding.member),
            received: traffic.received,
            sent: traffic.sent,
            bytes_in: traffic.bytes_in,
            bytes_out: traffic.bytes_out,
            drops: memory.drops,
            buffer_in: memory.buffers.receive,
            buffer_out: memory.buffers.send,
            note: self.note(socket, reply_sockets),
        }
    }

    /// What the operator should know of a socket.
    fn note(&self, socket: &DatagramSocket, reply_sockets: usize) -> String {
        if socket.is_closing() {
            return "closes when it is empty".to_owned();
        }
        if !socket.binding.is_base() {
            return String::new();
        }
        let mut notes = Vec::new();
        let address = socket.binding.address;
        if self.mode.by_interface() && self.without_interface_socket.contains(&address) {
            notes.push("serves all interfaces, as none has a socket".to_owned());
        } else if self.mode.by_interface() {
            notes.push("for what comes by no other interface".to_owned());
        }
        for (binding, error) in
            self.bind_errors.iter().filter(|(binding, _)| binding.address == address)
        {
            notes.push(format!("{}: {error}", self.interface_text(*binding)));
        }
        if reply_sockets > 0 {
            notes.push(format!("{reply_sockets} more for sending only"));
        }
        notes.join("; ")
    }
}
