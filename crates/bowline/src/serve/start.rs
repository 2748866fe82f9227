//! Builds a running server from its configuration: process, exports, sockets, threads, control socket, in
//! this order. If a step fails, what was built before is dropped and nothing stays behind.

use super::audit::AuditLog;
use super::backends::Backends;
use super::client_replies::ClientReplies;
use super::control::ServerControl;
use super::export_loader::ExportLoader;
use super::export_watch::ExportWatch;
use super::io_errors::IoErrors;
use super::kerberos::Kerberos;
use super::line_limiter::LineLimiter;
use super::listen_addresses::ListenAddresses;
use super::parts::ServerParts;
use super::periodic_task::PeriodicTask;
use super::portmap::{self, Plan, PortmapService};
use super::recent_calls::RecentCalls;
use super::recovery::RecoveryStore;
use super::refusals::Refusals;
use super::status_monitor::StatusMonitor;
use super::tls::TlsService;
use super::{
    confinement, hung_calls, lock_manager, name_conflicts, port_owner, process_info,
    refused_mounts, self_test, signals, startup_message, startup_warnings, state_dir, systemd,
    unserved_calls,
};
use crate::config::ServeConfig;
use crate::export_specs::{self, ExportSpecs, ServerUser};
use crate::logging;
use crate::memory_shares::MemoryShares;
use crate::output::{AddressInUse, UsageError};
use crate::serve_options::ServeOptions;
use crate::settings::{self, udp_buffer_bytes};
use admin::{Control, ControlServer, HttpConfig, HttpCounts, HttpServer, Token};
use anyhow::{Context, anyhow, bail};
use export::{Exports, Identity, RefusedCall};
use nfs::mount::Mount;
use nfs::nlm::Nlm;
use nfs::nsm::{Nsm, NsmMode, Reboots};
use nfs::portmap::Portmap;
use nfs::{Nfs, NfsSettings, Store};
use rpc::{DispatchSettings, Dispatcher, Program, Replies, VersionFilter};
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex, RwLock, Weak};
use std::time::Instant;
use svc::{
    InheritedSockets, OutboundCalls, OutboundConfig, Server, StartError, TlsConfig, UdpSockets,
};
use sys::descriptors::DescriptorBudget;
use sys::identity::{Capability, Namespace};
use sys::signal::{Signal, Signals, ignore_others};
use telemetry::{OpName, Telemetry};

/// A running server and what must live as long.
pub struct RunningServer {
    /// Answers the operator; owns the server.
    pub control: Arc<ServerControl>,
    /// Signals for the main thread.
    pub signals: Receiver<Signal>,
    /// The control socket.
    pub control_socket: ControlServer,
    /// Serves exports that had to wait.
    pub export_watch: ExportWatch,
    /// Serves metrics, if asked for.
    pub metrics: Option<HttpServer>,
    /// Names hung calls in the log.
    pub hung_calls: PeriodicTask,
    /// The open files of all exports.
    pub backends: Backends,
}

/// Starts the server. `config` was made from `options`, which a reload reads again.
///
/// # Errors
/// Why the server cannot start, and what to do.
pub fn start(config: &ServeConfig, options: ServeOptions) -> anyhow::Result<RunningServer> {
    let process = prepare_process(config)?;
    let squash_to = process.squash_to;
    let Exported { specs, backends, export_loader } = open_exports(config, &process)?;
    let exports = Arc::clone(&export_loader.exports);

    let listen = ListenAddresses::of(&config.listen, config.port, &process.inherited)?;
    let plan = portmap::plan(config.portmap, &listen)?;
    let refusals = Arc::new(Refusals::default());
    observe_refusals(&exports, &refusals);
    let outbound = start_outbound()?;
    let programs = Programs::new(config, &exports, &outbound, &refusals);
    let versions = Arc::clone(&programs.nfs.settings.served);
    let services = Arc::new(Portmap::empty().with_served_versions(proto::nfs3::PROGRAM, versions));
    let dispatcher = Arc::new(dispatcher(&programs, Arc::clone(&services)));
    let known: Vec<(u32, u32)> = dispatcher.served().collect();
    services.fill(portmap::answers(&listen, &plan, &known));
    take_replies(&dispatcher, &programs.nfs, &outbound);
    let Programs { nfs, mount, nlm, nsm, recovery } = programs;
    let telemetry = Telemetry::new(op_names(&dispatcher));
    let kerberos = Kerberos::start(&dispatcher, &exports, &config.values);
    let tls = TlsService::open(config, &exports, &dispatcher)?;
    let calls = (dispatcher, Arc::clone(&telemetry), tls.as_ref().map(|s| s.config(config)));
    let server =
        start_service(config, process.inherited, &listen, &plan, calls, backends.descriptors())?;

    let portmap = announce(config, &plan, services)?;
    let monitor = watch_clients(&nlm, &nsm, config.values.nsm, &portmap);
    let mut warnings = startup_warnings::all(config, &listen, squash_to, &specs, &exports);
    warnings.extend(settings::check_tcp_buffers(&config.values.buffers(), server.buffer_totals())?);
    let started = Instant::now();
    let lock_timer = lock_manager::start_lock_timer(&nlm, &nfs.state, &outbound, monitor.who())
        .context("cannot start the thread of the lock timer")?;
    let audit = AuditLog::start(&nfs, &config.values).map_err(anyhow::Error::msg)?;
    let parts = ServerParts {
        exports,
        open_files: backends.open_files(),
        nfs,
        audit,
        nlm,
        nsm,
        monitor,
        recovery,
        lock_timer,
        portmap,
        kerberos,
        log: process.log,
        outbound,
        server: RwLock::new(Some(server)),
    };
    let control = Arc::new(ServerControl {
        parts,
        config: config.clone(),
        options,
        squash_to,
        uid: process.uid,
        confinement: process.confinement,
        warnings,
        started,
        export_loader,
        tls,
        mount,
        refusals,
        io_errors: IoErrors::default(),
        token: config.metrics.is_some().then(new_token).transpose()?,
        web_counts: config.metrics.is_some().then(Arc::<HttpCounts>::default),
        telemetry,
        values: Mutex::new(config.values.clone()),
        recent_calls: Mutex::new(RecentCalls::new(started)),
        reloading: Mutex::new(()),
    });
    run_beside(config, control, process.signals, backends, &listen)
}

/// The exports, opened, or being opened.
struct Exported {
    specs: ExportSpecs,
    backends: Backends,
    export_loader: ExportLoader,
}

/// Reads which exports there are and opens them.
fn open_exports(config: &ServeConfig, process: &Process) -> anyhow::Result<Exported> {
    let squash_to = process.squash_to;
    let specs =
        export_specs::load_valid(config, squash_to).map_err(|error| UsageError::of(&error))?;
    let identity = prepare_directories(config, process.uid)?;
    let backends = Backends::start()?;
    let open = backends.opener(config.state_dir.clone(), Arc::clone(&identity), squash_to);
    let export_loader = ExportLoader::start(&specs, identity, open)?;
    settings::size_exports(&export_loader.exports.load(), &config.values.buffers());
    backends.collect_retired_from(&export_loader.exports);
    Ok(Exported { specs, backends, export_loader })
}

/// Starts what operates the server or observes it, and announces that it is ready.
fn run_beside(
    config: &ServeConfig,
    control: Arc<ServerControl>,
    signals: Signals,
    backends: Backends,
    listen: &ListenAddresses,
) -> anyhow::Result<RunningServer> {
    let for_socket = Arc::clone(&control) as Arc<dyn Control>;
    let control_socket = ControlServer::start(&config.control, for_socket)?;
    let export_watch = ExportWatch::start(&control)?;
    let metrics = config.metrics.map(|addr| start_metrics(addr, &control)).transpose()?;
    let hung_calls = hung_calls::watch(Arc::downgrade(&control) as Weak<dyn hung_calls::Source>)
        .context("cannot start a thread")?;
    // the last thread to be started: once readiness is announced, nothing can fail for lack of threads
    let signals = signals::forward(signals)?;
    if config.prove {
        self_test::run(&control.parts.exports, listen, &config.values.versions)?;
    }
    startup_message::print(&control, listen, metrics.as_ref().map(HttpServer::addr));
    systemd::ready("serving");
    Ok(RunningServer {
        control,
        signals,
        control_socket,
        export_watch,
        metrics,
        hung_calls,
        backends,
    })
}

/// Makes the directories of the control socket and of the state, where they are missing, and reads who the server is.
fn prepare_directories(config: &ServeConfig, uid: u32) -> anyhow::Result<Arc<Identity>> {
    make_control_dir(&config.control, uid)?;
    state_dir::make(&config.state_dir)?;
    Ok(Arc::new(Identity::open(&config.state_dir)?))
}

fn new_token() -> anyhow::Result<Arc<Token>> {
    Token::new().map(Arc::new).context("cannot read /dev/urandom")
}

/// Serves metrics and the web page on an address; with a certificate over TLS too, always with the one in force.
fn start_metrics(addr: SocketAddr, control: &Arc<ServerControl>) -> anyhow::Result<HttpServer> {
    let certificates = control.tls.as_ref().map(|tls| {
        let tls = Arc::clone(&tls.tls);
        Box::new(move || Arc::clone(&tls.current().http)) as admin::Certificates
    });
    let config = HttpConfig {
        token: control.token.clone(),
        certificates,
        counts: control.web_counts.clone().unwrap_or_default(),
    };
    HttpServer::start(addr, &(Arc::clone(control) as Arc<dyn Control>), config).with_context(|| {
        format!("cannot serve metrics on {addr}; name another address with --metrics")
    })
}

/// What the process has before any part of the server is built.
struct Process {
    /// Sockets from systemd.
    inherited: InheritedSockets,
    signals: Signals,
    log: logging::LogHandle,
    uid: u32,
    /// Without privileges, the user that everybody is mapped to.
    squash_to: Option<ServerUser>,
    /// What it has given up, in words.
    confinement: String,
}

/// Prepares the process. Runs before any thread is started, because threads inherit the signal mask, the
/// capabilities and the file mode mask; descriptors from systemd are taken before anything opens others.
fn prepare_process(config: &ServeConfig) -> anyhow::Result<Process> {
    let shares = MemoryShares::of_this_process();
    if let Some(why) = shares.too_little() {
        bail!("{why}");
    }
    sys::limits::keep_memory_small(shares.bytes());
    let inherited = sys::inherited::take().map_err(|error| {
        let remedy = "its socket unit may have only ListenStream= and ListenDatagram= with ports";
        anyhow!("systemd's {error}: {remedy}")
    })?;
    if !Path::new("/proc/self/fd").exists() {
        bail!(
            "/proc is not mounted, and open files are reached through it: mount -t proc proc /proc"
        );
    }
    let refused = sys::required_calls::refused();
    if !refused.is_empty() {
        bail!(
            "this process may not use {}: let the filter of system calls permit that (of systemd, \
             SystemCallFilter=@system-service; of a container, the engine's own profile)",
            refused.join(", ")
        );
    }
    let signals = Signals::take_over().context("cannot handle signals")?;
    ignore_others().context("cannot ignore signals")?;
    let log = logging::start(config.values.log_level);
    let own = sys::identity::own().context("cannot read the process's user id")?;
    let squash_to = (!is_privileged()?).then_some(ServerUser { uid: own.uid, gid: own.gid });
    sys::limits::raise_open_files();
    sys::open::clear_umask();
    port_owner::look_ahead(&[config.port, proto::portmap::PORT]);
    let confinement = confinement::apply(config.values.sandbox, squash_to.is_none())?;
    Ok(Process { inherited, signals, log, uid: own.uid, squash_to, confinement })
}

/// Whether back ends can act as each client's own user.
///
/// # Errors
/// The process may override permissions but not change its user: every client would be root.
fn is_privileged() -> anyhow::Result<bool> {
    let privileged =
        vfs_local::acts_as_callers().context("cannot read the process's capabilities")?;
    // root of a user namespace with one user overrides only that user's own permissions
    let harmless = Namespace::look().is_one_ordinary_user();
    if !privileged && sys::identity::has(Capability::DacOverride) && !harmless {
        bail!(
            "this process may override permissions but not act as other users, so every client would \
             have root's rights: run it as root with CAP_SETUID and CAP_SETGID (in a user namespace, map \
             more users and permit setgroups), or as an ordinary user without capabilities"
        );
    }
    Ok(privileged)
}

/// Makes the directory of the control socket if it is the default of an ordinary user, which is in `/tmp`,
/// where any other user may have made it first.
fn make_control_dir(control: &Path, uid: u32) -> anyhow::Result<()> {
    use std::os::unix::fs::{DirBuilderExt, MetadataExt};
    let Some(dir) = control.parent() else { return Ok(()) };
    if dir.starts_with("/tmp/") && !dir.exists() {
        let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(dir);
        made.with_context(|| {
            format!("cannot make {}; name another path with --control", dir.display())
        })?;
    }
    if dir != Path::new(&format!("/tmp/bowline-{uid}")) {
        return Ok(());
    }
    // checked even if it was just made: another user may have been faster
    let meta = std::fs::symlink_metadata(dir)?;
    if meta.is_dir() && meta.uid() == uid && meta.mode() & 0o022 == 0 {
        return Ok(());
    }
    let problem = "is not a directory that only this user can write";
    Err(anyhow!("{} {problem}: name another path with --control", dir.display()))
}

/// The state of the RPC programs.
struct Programs {
    nfs: Arc<Nfs>,
    mount: Arc<Mount>,
    nlm: Arc<Nlm>,
    nsm: Arc<Nsm>,
    recovery: Arc<RecoveryStore>,
}

impl Programs {
    fn new(
        config: &ServeConfig,
        exports: &Arc<Exports>,
        outbound: &Arc<OutboundCalls>,
        refusals: &Arc<Refusals>,
    ) -> Self {
        let (grace, lease) = (config.values.grace, config.values.lease);
        let (recovery, v4) = lock_manager::open_state(&config.state_dir, grace, lease);
        let store = Arc::clone(&recovery) as Arc<dyn Store>;
        let nfs = Nfs::new(Arc::clone(exports), NfsSettings::default())
            .with_version_4(v4)
            .with_store(store);
        let nfs = Arc::new(nfs);
        name_conflicts::log(&nfs);
        nfs.settings.set_versions(&config.values.versions);
        nfs.settings.set_delegations(config.values.delegations);
        nfs.settings.set_copy(config.values.copy);
        nfs.settings.set_preserve_unlinked(config.values.preserve_unlinked);
        nfs.serve_copies();
        nfs.exports.owner_names().set_domain(&config.values.idmap_domain);
        nfs.v4.set_session_slots(config.values.session_slots.count());
        nfs.settings.max_read.store(config.values.max_read.0.bytes(), Relaxed);
        nfs.settings.max_write.store(config.values.max_write.0.bytes(), Relaxed);
        let mount = Mount::new(Arc::clone(exports)).with_nfs(Arc::clone(&nfs));
        let (log, refusals) = (refused_mounts::log_refusals(), Arc::clone(refusals));
        let mount = Arc::new(mount.with_on_refused(Box::new(move |refused| {
            refusals.mount(refused);
            log(refused);
        })));
        let nlm = lock_manager::lock_manager(&nfs, outbound, config.values.local_locks);
        let reboots = Arc::clone(&nlm) as Arc<dyn Reboots>;
        let nsm = Arc::new(Nsm::new(Arc::clone(&nfs.state), reboots));
        Self { nfs, mount, nlm, nsm, recovery }
    }
}

/// Has clients' replies to the server's own calls go to who made them.
fn take_replies(dispatcher: &Dispatcher, nfs: &Nfs, outbound: &Arc<OutboundCalls>) {
    let callbacks = Arc::clone(&nfs.v4.callbacks);
    let replies = ClientReplies { callbacks, calls: Arc::clone(outbound) };
    // nobody else has asked for them
    let _first = dispatcher.set_replies(Arc::new(replies) as Arc<dyn Replies>);
}

/// Has port mappers know the services that are served.
fn announce(
    config: &ServeConfig,
    plan: &Plan,
    services: Arc<Portmap>,
) -> anyhow::Result<PortmapService> {
    let values = &config.values;
    services.set_left_out((values.nsm == NsmMode::Statd).then_some(proto::nsm::PROGRAM));
    PortmapService::apply(plan, services, values.udp_sockets != UdpSockets::Off)
}

/// Who watches the clients that hold locks, as `mode` says and as long as it does.
fn watch_clients(
    nlm: &Arc<Nlm>,
    nsm: &Arc<Nsm>,
    mode: NsmMode,
    portmap: &PortmapService,
) -> Arc<StatusMonitor> {
    let monitor = StatusMonitor::new(nlm, nsm, mode, portmap.has_other_monitor());
    let told = Arc::clone(&monitor);
    portmap.on_other_monitor(Box::new(move |other| told.set_other(other)));
    monitor
}

/// Starts the thread that calls clients' machines.
fn start_outbound() -> anyhow::Result<Arc<OutboundCalls>> {
    let machine_name = process_info::host_name().into_bytes();
    OutboundCalls::start(OutboundConfig { machine_name, ..OutboundConfig::default() })
        .context("cannot start the thread that calls clients' machines")
}

/// Has what exports refuse counted, and logged where a flavour or TLS is missing; mounts are logged by themselves.
fn observe_refusals(exports: &Exports, refusals: &Arc<Refusals>) {
    let refusals = Arc::clone(refusals);
    let limiter = LineLimiter::default();
    exports.observe_refusals(Box::new(move |refused| {
        let RefusedCall { export, client, identity, is_unproven, why } = refused;
        let client = client.ip().to_canonical();
        refusals.by_export(export.index, client, why);
        if !is_unproven {
            return;
        }
        if let Some(left_out) = limiter.due((client, export.index, *why), Instant::now()) {
            let identity =
                if identity.is_empty() { String::new() } else { format!(" ({identity})") };
            let path = export.path_text();
            tracing::warn!("{path}: a call of {client}{identity} is refused: {why}{left_out}");
        }
    }));
}

/// All programs are served on all sockets.
fn dispatcher(programs: &Programs, services: Arc<Portmap>) -> Dispatcher {
    let log_clients = unserved_calls::log_clients(Arc::clone(&programs.nfs));
    let programs: Vec<Box<dyn Program>> = vec![
        Box::new(VersionFilter {
            program: nfs::nfs_program(Arc::clone(&programs.nfs)),
            served: Arc::clone(&programs.nfs.settings.served),
        }),
        Box::new(nfs::acl::acl_program(Arc::clone(&programs.nfs))),
        Box::new(nfs::rquota::rquota_program(Arc::clone(&programs.nfs))),
        Box::new(nfs::mount::mount_program(Arc::clone(&programs.mount))),
        Box::new(nfs::nlm::nlm_program(Arc::clone(&programs.nlm))),
        Box::new(nfs::nsm::nsm_program(Arc::clone(&programs.nsm))),
        Box::new(nfs::portmap::portmap_program(services)),
    ];
    let defaults = DispatchSettings::default();
    let shares = MemoryShares::of_this_process();
    let reply_cache_bytes = shares.reply_cache(defaults.reply_cache_bytes);
    Dispatcher::new(programs, DispatchSettings { reply_cache_bytes, ..defaults })
        .with_unserved_observer(Box::new(log_clients))
}

fn op_names(dispatcher: &Dispatcher) -> Vec<OpName> {
    let name = |op: &rpc::OpName| OpName {
        program: op.program,
        version: op.version,
        procedure: op.procedure,
    };
    dispatcher.ops().iter().map(name).collect()
}

/// Opens the sockets and starts the threads.
fn start_service(
    config: &ServeConfig,
    inherited: InheritedSockets,
    listen: &ListenAddresses,
    plan: &Plan,
    (dispatcher, telemetry, tls): (Arc<Dispatcher>, Arc<Telemetry>, Option<TlsConfig>),
    descriptors: Arc<DescriptorBudget>,
) -> anyhow::Result<Server> {
    let mut bind = Vec::new();
    if inherited.tcp.is_empty() && inherited.udp.is_empty() {
        bind.extend(listen.all());
    }
    if let Plan::Serve(addrs) = plan {
        bind.extend_from_slice(addrs);
    }
    let values = &config.values;
    let config = svc::Config {
        tcp: bind.clone(),
        udp: bind,
        inherited,
        threads: (values.threads.min(), values.threads.max()),
        export_share: values.export_threads.percent(),
        pool_mode: values.pool_mode,
        wake_policy: values.wake_policy,
        udp_sockets: values.udp_sockets,
        zero_copy: values.zero_copy,
        udp_buffer: udp_buffer_bytes(values.udp_buffer),
        limits: svc::Limits::default()
            .with_memory(MemoryShares::of_this_process().memory_in_force(values.memory.0).0),
        descriptors,
        buffers: Box::new(values.buffers()),
        congestion: values.tcp_congestion.clone(),
        tls,
    };
    Server::start(config, dispatcher, telemetry).map_err(start_error)
}

/// Says what to do about a server that does not start.
fn start_error(error: StartError) -> anyhow::Error {
    let StartError::Bind { addr, source, .. } = &error else { return error.into() };
    match source.kind() {
        ErrorKind::AddrInUse => {
            let who = port_owner::owner_of(addr.port())
                .map_or_else(String::new, |who| format!(" by {who}"));
            let remedy = "stop it, or choose another port with --port";
            AddressInUse(format!("{addr} is in use{who}: {remedy}")).into()
        }
        ErrorKind::PermissionDenied => anyhow!(
            "no permission to listen on {addr}: ports below 1024 need root; choose another with \
             --port"
        ),
        ErrorKind::AddrNotAvailable => anyhow!(
            "{} is not an address of this machine (`ip address` lists them): choose another with \
             --listen",
            addr.ip()
        ),
        _ => error.into(),
    }
}
