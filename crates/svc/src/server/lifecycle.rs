//! The server: binds, starts the threads, tells what it knows, stops.

use crate::config::{Config, PoolMode, SettingError, UdpSockets, WakePolicy};
use crate::conn::congestion::{Congestion, CongestionSetting};
use crate::conn::connection::Conn;
use crate::conn::link;
use crate::conn::table::ConnTable;
use crate::conn::tcp_buffers::{Applied, BufferRules, BufferTotals, Buffers};
use crate::limits::{Budget, DESCRIPTORS_RESERVED, Limits};
use crate::pool::thread_shortage::ThreadShortage;
use crate::pool::worker_pool::{Message, Pool};
use crate::server::acceptor::{self, Listener};
use crate::server::pool_layout::{self, PoolSettings, cannot_start, make_pools, split_threads};
use crate::server::pools::Pools;
use crate::server::watchdog::{self, WatchdogWaker};
use crate::service::write_pipe::Pipes;
use crate::stats::{ClientInfo, Clock, ConnInfo, Delay, PoolInfo, SocketInfo, SocketKind};
use crate::sync::lock;
use crate::udp::maintenance;
use crate::udp::sockets::DatagramSockets;
use crate::zero_copy::{ZeroCopy, ZeroCopySetting};
use crossbeam_utils::CachePadded;
use rpc::{Dispatcher, Transport};
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};
use sys::event::Event;
use telemetry::Telemetry;

/// After the patience of a stop is over, how long the leaders get to close everything.
const ABORT_PATIENCE: Duration = Duration::from_secs(1);

/// Why a server does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// An address cannot be bound; the configuration or another process is at fault.
    #[error("cannot listen on {transport:?} {addr}: {source}")]
    Bind {
        /// For what.
        transport: Transport,
        /// Where.
        addr: SocketAddr,
        /// What the kernel said.
        source: io::Error,
    },
    /// A socket that somebody else has bound is of no use.
    #[error("cannot use an inherited socket: {0}")]
    Adopt(io::Error),
    /// A setting that this version does not know.
    #[error(transparent)]
    Setting(#[from] SettingError),
    /// The kernel refuses what every server needs: threads, descriptors, memory.
    #[error("cannot start: {0}; check the limits on processes and open files")]
    Resources(#[from] io::Error),
}

/// What all threads of a server share.
pub(crate) struct Shared {
    pub dispatcher: Arc<Dispatcher>,
    pub telemetry: Arc<Telemetry>,
    pub limits: Limits,
    /// The most connections, as far as the descriptors reach.
    pub connections_max: usize,
    pub listeners: Vec<Listener>,
    pub ports: Arc<DatagramSockets>,
    pub connections: ConnTable,
    pub pools: Pools,
    /// What is set of the pools; held while it is changed, by a person or by the watchdog.
    pub set: Mutex<PoolSettings>,
    /// Connections' socket buffers.
    pub buffers: Buffers,
    /// Connections' congestion control.
    pub congestion: CongestionSetting,
    /// Memory for records under way.
    pub partial: Budget,
    /// Memory for replies that clients have not taken.
    pub queued: Budget,
    /// Memory for datagrams that wait for a worker; written for each of them, so it lies alone.
    pub datagrams: CachePadded<Budget>,
    /// Bytes that a worker keeps in each of its buffers from call to call.
    pub keep_bytes: AtomicUsize,
    /// Whether threads are to be had.
    pub shortage: ThreadShortage,
    /// Whether READ sends file pages.
    pub zero_copy: ZeroCopySetting,
    /// The pipes that workers have for the data of large WRITEs.
    pub pipes: Pipes,
    /// Whom its threads begin as.
    pub own: sys::identity::Own,
    pub clock: Clock,
    pub watchdog_waker: WatchdogWaker,
    /// Wakes the acceptor for the last time.
    pub accept_end: Event,
    /// No connection is accepted any more.
    pub stopping: AtomicBool,
    /// The watchdog is to end.
    pub stopped: AtomicBool,
}

/// A running server. Dropping it without [`Server::stop`] leaves its threads running.
pub struct Server {
    shared: Arc<Shared>,
    acceptor: JoinHandle<()>,
    watchdog: JoinHandle<()>,
    maintenance: JoinHandle<()>,
}

impl Server {
    /// Binds everything, then starts the threads; serves when it returns.
    ///
    /// # Errors
    /// [`StartError`]; nothing runs then.
    pub fn start(
        config: Config,
        dispatcher: Arc<Dispatcher>,
        telemetry: Arc<Telemetry>,
    ) -> Result<Self, StartError> {
        let Config { threads, pool_mode, wake_policy, .. } = config;
        let set = PoolSettings { threads, pool_mode, wake_policy, spread: 1 };
        sys::identity::act_as_process()?;
        let own = sys::identity::own()?;
        let limits = config.limits;
        let descriptors = sys::socket::descriptors_max();
        let room = descriptors.saturating_sub(DESCRIPTORS_RESERVED).max(descriptors / 2);
        let adopted = config.adopted.udp;
        let ports =
            DatagramSockets::bind(&config.udp, adopted, config.udp_sockets, config.udp_buffer)?;
        let buffers = Buffers::new(config.buffers);
        let (listeners, sockets) = bind_listeners(&config.tcp, config.adopted.tcp, &buffers)?;
        let congestion = CongestionSetting::new(config.congestion);
        congestion.prepare(sockets.iter().map(|socket| &**socket))?;
        let shared = Arc::new(Shared {
            dispatcher,
            telemetry,
            limits,
            connections_max: limits.connections_max.min(room),
            listeners,
            ports,
            connections: ConnTable::default(),
            pools: Pools::default(),
            set: Mutex::new(set),
            buffers,
            congestion,
            partial: Budget::new(limits.partial_bytes_max),
            queued: Budget::new(limits.queued_bytes_max),
            datagrams: CachePadded::new(Budget::new(limits.datagram_bytes_max)),
            keep_bytes: AtomicUsize::new(limits.keep_bytes_max),
            shortage: ThreadShortage::default(),
            zero_copy: ZeroCopySetting::new(config.zero_copy),
            pipes: Pipes::default(),
            own,
            clock: Clock::new(),
            watchdog_waker: WatchdogWaker::default(),
            accept_end: Event::new()?,
            stopping: AtomicBool::new(false),
            stopped: AtomicBool::new(false),
        });
        let pools = make_pools(&shared, &set)?;
        let [acceptor, watchdog, maintenance] =
            launch(&shared, &pools, sockets).inspect_err(|_| {
                shared.stopping.store(true, Relaxed);
                shared.accept_end.raise();
                shared.stopped.store(true, Relaxed);
                shared.watchdog_waker.wake_now();
                shared.ports.stop();
                for pool in &pools {
                    pool.post(Message::Abort);
                }
                shared.pools.clear();
            })?;
        Ok(Self { shared, acceptor, watchdog, maintenance })
    }

    /// Where it listens.
    pub fn local_addrs(&self) -> Vec<(Transport, SocketAddr)> {
        let tcp = self.shared.listeners.iter().map(|l| (Transport::Tcp, l.local));
        let udp = self.shared.ports.local_addrs();
        tcp.chain(udp.into_iter().map(|local| (Transport::Udp, local))).collect()
    }

    /// The open connections, in the order in which they came.
    pub fn conns(&self) -> Vec<ConnInfo> {
        let now_ms = self.shared.clock.now_ms();
        self.sorted_conns().iter().map(|conn| ConnInfo::new(conn, now_ms)).collect()
    }

    /// The clients that are connected, and those that were last.
    pub fn clients(&self) -> Vec<ClientInfo> {
        let (conns, closed) = self.shared.connections.all_and_closed();
        ClientInfo::all(&conns, closed)
    }

    /// The same with what limits each of them now, as seen over a time in which the caller waits.
    pub fn measured_conns(&self, over: Duration) -> Vec<ConnInfo> {
        let conns = self.sorted_conns();
        let links = link::measure(&conns, over);
        let now_ms = self.shared.clock.now_ms();
        let both = conns.iter().zip(links);
        both.map(|(conn, link)| ConnInfo { link, ..ConnInfo::new(conn, now_ms) }).collect()
    }

    fn sorted_conns(&self) -> Vec<Arc<Conn>> {
        let mut conns = self.shared.connections.all();
        conns.sort_unstable_by_key(|conn| conn.id);
        conns
    }

    /// Changes what connections' socket buffers are to be: of new ones, and of those that are
    /// open, as far as the kernel lets them grow.
    pub fn set_buffers(&self, rules: Box<dyn BufferRules>) -> Applied {
        let stats = self.shared.telemetry.worker();
        let applied = self.shared.buffers.change(rules, &self.shared.connections, &stats);
        for listener in &self.shared.listeners {
            if let Some(socket) = listener.socket.upgrade() {
                self.shared.buffers.prepare_listener(&*socket);
            }
        }
        applied
    }

    /// Changes the congestion control of new connections and of those that are open.
    ///
    /// # Errors
    /// [`SettingError`]: the kernel has none of that name, or this process may not use it.
    pub fn set_congestion(&self, wanted: Congestion) -> Result<(), SettingError> {
        let sockets: Vec<_> =
            self.shared.listeners.iter().filter_map(|listener| listener.socket.upgrade()).collect();
        let listeners = sockets.iter().map(|socket| &**socket);
        let names = self.shared.congestion.change(wanted, listeners)?;
        self.shared.connections.all().iter().for_each(|conn| names.apply(&conn.stream, conn.peer));
        Ok(())
    }

    /// What the buffers of all connections together may hold.
    pub fn buffer_totals(&self) -> BufferTotals {
        self.shared.buffers.totals()
    }

    /// How many connections are open.
    pub fn connections(&self) -> usize {
        self.shared.connections.len()
    }

    /// The listening and datagram sockets.
    pub fn sockets(&self) -> Vec<SocketInfo> {
        let tcp = self.shared.listeners.iter().map(|listener| SocketInfo {
            transport: SocketKind::Tcp,
            local: listener.local,
            adopted: listener.adopted,
            interface: None,
            cpu: None,
            received: listener.accepted.load(Relaxed),
            sent: 0,
            bytes_in: 0,
            bytes_out: 0,
            drops: 0,
            buffer_in: 0,
            buffer_out: 0,
            note: String::new(),
        });
        tcp.chain(self.shared.ports.infos()).collect()
    }

    /// The pools; those that are being left after the others.
    pub fn pools(&self) -> Vec<PoolInfo> {
        let wake_policy = self.wake_policy();
        let info = |pool: &Arc<Pool>| {
            let (count, tally) = (pool.scheduler.count(), pool.scheduler.counters());
            PoolInfo {
                index: pool.index,
                cpus: pool.cpus.clone(),
                threads: count.threads,
                parked: count.parked,
                threads_min: count.min,
                threads_max: count.max,
                leader: pool.leader(),
                connections: pool.connections.load(Relaxed),
                calls: pool.seen.calls.load(Relaxed),
                promotions: pool.seen.promotions.load(Relaxed),
                promotions_failed: pool.seen.promotions_failed.load(Relaxed),
                rescues: pool.rescues(),
                wakeups: pool.seen.wakeups.load(Relaxed),
                wake_policy,
                blocked: count.blocked,
                reserves: count.reserves,
                queued: count.queued,
                arrived: pool.seen.arrived.load(Relaxed),
                enqueued: tally.enqueued,
                waited: tally.waited,
                overloads_avoided: tally.overloads_avoided,
                timed_out: tally.timed_out,
                exhausted: tally.exhausted,
                unstuck: tally.unstuck,
                queue_delay: Delay::from(&tally.queue_delay),
                wake_delay: Delay::from(&tally.wake_delay),
            }
        };
        self.shared.pools.all().iter().map(info).collect()
    }

    /// Changes the fewest and the most threads of all pools together.
    ///
    /// # Errors
    /// [`SettingError`]: fewer than one for each pool, or the wrong way round; or the kernel
    /// refuses more threads now.
    pub fn set_threads(&self, min: usize, max: usize) -> Result<(), SettingError> {
        let mut set = lock(&self.shared.set);
        if set.pool_mode == PoolMode::Auto && self.shared.pools.current().len() > max {
            let change = |set: PoolSettings| PoolSettings {
                threads: (min, max),
                spread: set.spread.min(max),
                ..set
            };
            return pool_layout::replace_pools(&self.shared, &mut set, change);
        }
        let pools = self.shared.pools.current();
        let parts = split_threads((min, max), pools.len())?;
        set.threads = (min, max);
        for (pool, threads) in pools.iter().zip(parts) {
            pool.resize(threads);
            pool.fill().map_err(cannot_start)?;
        }
        Ok(())
    }

    /// Changes who is woken for a call. Calls that are queued or run are not disturbed.
    ///
    /// # Errors
    /// [`SettingError`]: the kernel refuses the thread that a queue needs; the policy is in force
    /// all the same, with the threads that there are.
    pub fn set_wake_policy(&self, policy: WakePolicy) -> Result<(), SettingError> {
        let mut set = lock(&self.shared.set);
        set.wake_policy = policy;
        let stats = self.shared.telemetry.worker();
        let pools = self.shared.pools.all();
        let results = pools.iter().map(|pool| pool.set_policy(policy, &stats));
        let first = results.fold(Ok(()), io::Result::and);
        first.map_err(cannot_start)
    }

    /// Who is woken for a call.
    pub fn wake_policy(&self) -> WakePolicy {
        lock(&self.shared.set).wake_policy
    }

    /// Changes how datagram sockets are laid out; nothing that was received is lost.
    ///
    /// # Errors
    /// [`SettingError`]: the kernel refuses; nothing has changed then.
    pub fn set_udp_sockets(&self, layout: UdpSockets) -> Result<(), SettingError> {
        self.shared.ports.set_mode(layout)
    }

    /// How datagram sockets are laid out.
    pub fn udp_sockets(&self) -> UdpSockets {
        self.shared.ports.mode()
    }

    /// Sizes the buffers of datagram sockets; `None`: as the sysctls allow.
    ///
    /// # Errors
    /// [`SettingError`]: the kernel refuses.
    pub fn set_udp_buffer(&self, bytes: Option<usize>) -> Result<(), SettingError> {
        self.shared.ports.set_buffer(bytes)
    }

    /// Changes how many pools there are. Connections go over to the new ones with all that was
    /// received on them; threads of the old ones end when their calls have.
    ///
    /// # Errors
    /// [`SettingError`]: fewer threads than pools, or the kernel refuses threads or descriptors;
    /// nothing has changed then.
    pub fn set_pool_mode(&self, mode: PoolMode) -> Result<(), SettingError> {
        let mut set = lock(&self.shared.set);
        if mode == set.pool_mode {
            return Ok(());
        }
        // how an earlier load was spread says nothing of this one
        pool_layout::replace_pools(&self.shared, &mut set, |set| PoolSettings {
            pool_mode: mode,
            spread: 1,
            ..set
        })
    }

    /// Changes how much memory there is for records and replies under way; half for each. What is
    /// held beyond it is let go as calls are answered.
    pub fn set_memory(&self, bytes: usize) {
        let limits = self.shared.limits.with_memory(bytes);
        self.shared.partial.set_limit(limits.partial_bytes_max);
        self.shared.queued.set_limit(limits.queued_bytes_max);
        self.shared.datagrams.set_limit(limits.datagram_bytes_max);
        self.shared.keep_bytes.store(limits.keep_bytes_max, Relaxed);
    }

    /// Changes whether READ sends file pages; counts from the next call on.
    pub fn set_zero_copy(&self, choice: ZeroCopy) {
        self.shared.zero_copy.set(choice);
    }

    /// Whether READ sends file pages.
    pub fn zero_copy(&self) -> ZeroCopy {
        self.shared.zero_copy.now()
    }

    /// How many pools there are.
    pub fn pool_mode(&self) -> PoolMode {
        lock(&self.shared.set).pool_mode
    }

    /// Stops: accepts nothing more, answers what has arrived, and closes. What is not done when
    /// `patience` is over is cut off; a call that is stuck by then keeps its thread until the
    /// process ends. Tells whether everything was done.
    pub fn stop(self, patience: Duration) -> bool {
        let start = Instant::now();
        let deadline = start.checked_add(patience).unwrap_or(start);
        self.shared.stopping.store(true, Relaxed);
        // The watchdog may be changing the pools; it begins no other change now.
        drop(lock(&self.shared.set));
        self.shared.accept_end.raise();
        // A panic of either thread has been reported by its own message.
        let _ = self.acceptor.join();
        self.shared.ports.stop();
        let _ = self.maintenance.join();
        let pools = self.shared.pools.all();
        for pool in &pools {
            pool.post(Message::Stop);
        }
        let mut done = true;
        for pool in &pools {
            done &= pool.scheduler.wait_until_exited(deadline);
        }
        if !done {
            for pool in &pools {
                pool.post(Message::Abort);
            }
            let now = Instant::now();
            let deadline = now.checked_add(ABORT_PATIENCE).unwrap_or(now);
            for pool in &pools {
                pool.scheduler.wait_until_exited(deadline);
            }
        }
        self.shared.stopped.store(true, Relaxed);
        self.shared.watchdog_waker.wake_now();
        let _ = self.watchdog.join();
        self.shared.pools.clear();
        done
    }
}

/// Starts the threads: the acceptor's, the watchdog's and that of the keeper of datagram sockets.
fn launch(
    shared: &Arc<Shared>,
    pools: &[Arc<Pool>],
    sockets: Vec<Arc<TcpListener>>,
) -> io::Result<[JoinHandle<()>; 3]> {
    shared.pools.replace(pools.to_vec());
    for pool in pools {
        pool.fill()?;
    }
    let epoll = maintenance::prepare(&shared.ports)?;
    let ports = Arc::clone(&shared.ports);
    let maintenance = Builder::new()
        .name("udp-maintenance".into())
        .spawn(move || maintenance::run(ports, epoll))?;
    let epoll = acceptor::watch(shared, &sockets)?;
    let theirs = Arc::clone(shared);
    let watchdog =
        Builder::new().name("watchdog".into()).spawn(move || watchdog::watch(&theirs))?;
    let theirs = Arc::clone(shared);
    let acceptor = Builder::new()
        .name("acceptor".into())
        .spawn(move || acceptor::accept(&theirs, &epoll, &sockets))?;
    Ok([acceptor, watchdog, maintenance])
}

/// Binds the listeners and takes the inherited ones.
fn bind_listeners(
    addrs: &[SocketAddr],
    adopted: Vec<TcpListener>,
    buffers: &Buffers,
) -> Result<(Vec<Listener>, Vec<Arc<TcpListener>>), StartError> {
    let mut listeners = Vec::new();
    let mut sockets = Vec::new();
    for addr in addrs {
        let bind = |source| StartError::Bind { transport: Transport::Tcp, addr: *addr, source };
        let set_up = |fd: &_| {
            buffers.prepare_listener(fd);
            Ok(())
        };
        let socket = Arc::new(sys::socket::listen_with(*addr, set_up).map_err(bind)?);
        listeners.push(Listener::new(&socket, false).map_err(bind)?);
        sockets.push(socket);
    }
    for socket in adopted {
        socket.set_nonblocking(true).map_err(StartError::Adopt)?;
        buffers.prepare_listener(&socket);
        let socket = Arc::new(socket);
        listeners.push(Listener::new(&socket, true).map_err(StartError::Adopt)?);
        sockets.push(socket);
    }
    Ok((listeners, sockets))
}
