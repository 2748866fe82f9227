//! Starting and stopping a server.

use crate::budget::Budget;
use crate::clock::Clock;
use crate::conn::congestion::CongestionSetting;
use crate::conn::table::ConnTable;
use crate::conn::tcp_buffers::Buffers;
use crate::errors::StartError;
use crate::handshake::handshake_threads::HandshakeThreads;
use crate::pipes::Pipes;
use crate::pool::blocked_calls::BlockedCalls;
use crate::pool::inbox::Message;
use crate::pool::shared::{Handshakes, OtherPools, Shared};
use crate::pool::thread_shortage::ThreadShortage;
use crate::pool::watchdog_waker::WatchdogWaker;
use crate::pool::worker_pool::Pool;
use crate::server::config::Config;
use crate::server::pool_layout::make_pools;
use crate::server::pools::Pools;
use crate::server::state::{Listener, PoolSettings, State};
use crate::server::{acceptor, watchdog};
use crate::sync::lock;
use crate::udp::maintenance;
use crate::udp::sockets::DatagramSockets;
use crate::zero_copy::ZeroCopySetting;
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

/// A running server. Dropping it without [`Server::stop`] leaves its threads running.
pub struct Server {
    pub(crate) state: Arc<State>,
    /// Until it is stopped.
    threads: Mutex<Option<Threads>>,
}

/// The threads that are not workers.
struct Threads {
    acceptor: JoinHandle<()>,
    watchdog: JoinHandle<()>,
    /// Maintains datagram sockets.
    maintenance: JoinHandle<()>,
    /// Make TLS handshakes.
    handshakes: Vec<JoinHandle<()>>,
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
        let Config { threads, export_share, pool_mode, wake_policy, .. } = config;
        let settings =
            PoolSettings { threads, pool_mode, wake_policy, export_share, auto_pools: 1 };
        let (state, sockets) = make_state(config, settings, dispatcher, telemetry)?;
        let pools = make_pools(&state.shared, &settings)?;
        let threads = launch(&state, &pools, sockets).inspect_err(|_| abort(&state, &pools))?;
        Ok(Self { state, threads: Mutex::new(Some(threads)) })
    }

    /// Stops: accepts nothing more, answers what has arrived, and closes. What is not done when
    /// `patience` is over is cut off; a call that is stuck by then keeps its thread until the
    /// process ends. Tells whether everything was done. Stopping again does nothing.
    pub fn stop(&self, patience: Duration) -> bool {
        let Some(threads) = lock(&self.threads).take() else { return true };
        let Threads { acceptor, watchdog, maintenance, handshakes } = threads;
        let start = Instant::now();
        let deadline = start.checked_add(patience).unwrap_or(start);
        self.state.stopping.store(true, Relaxed);
        // The watchdog may be changing the pools; it begins no other change now.
        drop(lock(&self.state.pool_settings));
        self.state.accept_end.raise();
        // A panic of either thread has been reported by its own message.
        let _ = acceptor.join();
        self.state.shared.datagram_sockets.stop();
        let _ = maintenance.join();
        if let Some(handshakes) = &self.state.handshakes {
            handshakes.stop();
        }
        for thread in handshakes {
            let _ = thread.join();
        }
        let pools = self.state.pools.all();
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
        self.state.stopped.store(true, Relaxed);
        self.state.shared.watchdog.wake_now();
        let _ = watchdog.join();
        self.state.pools.clear();
        done
    }
}

/// Binds the sockets and makes everything but the pools and the threads.
fn make_state(
    config: Config,
    settings: PoolSettings,
    dispatcher: Arc<Dispatcher>,
    telemetry: Arc<Telemetry>,
) -> Result<(Arc<State>, Vec<Arc<TcpListener>>), StartError> {
    sys::identity::act_as_process()?;
    let own_identity = sys::identity::own()?;
    let limits = config.limits;
    let connections_max = limits.connections_max.min(config.descriptors.connections_max());
    let inherited = config.inherited.udp;
    let datagram_sockets =
        DatagramSockets::bind(&config.udp, inherited, config.udp_sockets, config.udp_buffer)?;
    let buffers = Buffers::new(config.buffers);
    let (listeners, sockets) = bind_listeners(&config.tcp, config.inherited.tcp, &buffers)?;
    let congestion = CongestionSetting::new(config.congestion);
    congestion.prepare(sockets.iter().map(|socket| &**socket))?;
    let pools = Arc::new(Pools::default());
    let other_pools: Arc<dyn OtherPools> = Arc::<Pools>::clone(&pools);
    let handshakes = match config.tls {
        Some(tls) => Some(Arc::new(HandshakeThreads::new(tls)?)),
        None => None,
    };
    let shared = Shared {
        dispatcher,
        deferred_stats: Mutex::new(telemetry.worker()),
        deferred_datagrams: AtomicUsize::new(0),
        telemetry,
        limits,
        clock: Clock::new(),
        watchdog: WatchdogWaker::default(),
        datagram_sockets,
        conns: ConnTable::new(config.descriptors),
        blocked: BlockedCalls::new(settings.blocked_max()),
        other_pools,
        handshakes: handshakes.clone().map(|handshakes| handshakes as Arc<dyn Handshakes>),
        partial: Budget::new(limits.partial_bytes_max),
        queued: Arc::new(Budget::new(limits.queued_bytes_max)),
        datagrams: CachePadded::new(Budget::new(limits.datagram_bytes_max)),
        keep_bytes: AtomicUsize::new(limits.keep_bytes_max),
        thread_shortage: ThreadShortage::default(),
        zero_copy: ZeroCopySetting::new(config.zero_copy),
        pipes: Pipes::default(),
        own_identity,
    };
    let state = State {
        shared: Arc::new(shared),
        pools,
        pool_settings: Mutex::new(settings),
        listeners,
        connections_max,
        buffers,
        congestion,
        handshakes,
        accept_end: Event::new()?,
        stopping: AtomicBool::new(false),
        stopped: AtomicBool::new(false),
    };
    Ok((Arc::new(state), sockets))
}

/// Ends what has started of a server that cannot start.
fn abort(state: &State, pools: &[Arc<Pool>]) {
    state.stopping.store(true, Relaxed);
    state.accept_end.raise();
    if let Some(handshakes) = &state.handshakes {
        handshakes.stop();
    }
    state.stopped.store(true, Relaxed);
    state.shared.watchdog.wake_now();
    state.shared.datagram_sockets.stop();
    for pool in pools {
        pool.post(Message::Abort);
    }
    state.pools.clear();
}

/// Starts the threads.
fn launch(
    state: &Arc<State>,
    pools: &[Arc<Pool>],
    sockets: Vec<Arc<TcpListener>>,
) -> io::Result<Threads> {
    state.pools.replace(pools.to_vec());
    for pool in pools {
        pool.start_min_threads()?;
    }
    let epoll = maintenance::prepare(&state.shared.datagram_sockets)?;
    let ports = Arc::clone(&state.shared.datagram_sockets);
    let maintenance = Builder::new()
        .name("udp-maintenance".into())
        .spawn(move || maintenance::run(ports, epoll))?;
    let handshakes = match &state.handshakes {
        Some(handshakes) => handshakes.start(&state.shared)?,
        None => Vec::new(),
    };
    let epoll = acceptor::watch(state, &sockets)?;
    let theirs = Arc::clone(state);
    let watchdog =
        Builder::new().name("watchdog".into()).spawn(move || watchdog::watch(&theirs))?;
    let theirs = Arc::clone(state);
    let acceptor = Builder::new()
        .name("acceptor".into())
        .spawn(move || acceptor::accept(&theirs, &epoll, &sockets))?;
    Ok(Threads { acceptor, watchdog, maintenance, handshakes })
}

/// Binds the listeners and takes the inherited ones.
fn bind_listeners(
    addrs: &[SocketAddr],
    inherited: Vec<TcpListener>,
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
    for socket in inherited {
        socket.set_nonblocking(true).map_err(StartError::Adopt)?;
        buffers.prepare_listener(&socket);
        let socket = Arc::new(socket);
        listeners.push(Listener::new(&socket, true).map_err(StartError::Adopt)?);
        sockets.push(socket);
    }
    Ok((listeners, sockets))
}
