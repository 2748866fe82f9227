//! From settings to a server that answers: builds the parts in order, undoes nothing by halves
//! (what was built before a failure is dropped), and tells what it did.

use super::backends::Backends;
use super::control::ServerControl;
use super::listen_addresses::{ListenAddresses, loopback_for_wildcard};
use super::portmap::{self, Plan, PortmapService};
use super::startup_message::{ExportLine, StartupMessage};
use super::tcp_buffers;
use super::{
    control, limit_warnings, port_owner, process_info, refused_mounts, state_dir, statistics,
    systemd,
};
use crate::cli::{ServeOptions, UsageError};
use crate::config::ServeConfig;
use crate::export_specs::{self, ServerUser};
use crate::logging;
use crate::memory_shares::MemoryShares;
use crate::values::UdpSockets;
use admin::{Control, ControlServer};
use anyhow::{Context, anyhow, bail};
use client::Client;
use export::{ExportSpec, Exports, Identity, Options, Source, Squash, Table};
use nfs::mount::Mount;
use nfs::portmap::Portmap;
use nfs::{Nfs, NfsSettings};
use rpc::{DispatchSettings, Dispatcher, Program};
use std::io::{ErrorKind, Write};
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex, RwLock};
use std::time::Instant;
use svc::{Adopted, Server, StartError};
use sys::identity::{Capability, Namespace};
use sys::signal::{Signal, Signals, ignore_others};
use telemetry::{OpName, Telemetry};

/// A server that answers, and what keeps it so.
pub struct RunningServer {
    /// Answers the operator; has the server.
    pub desk: Arc<ServerControl>,
    /// What the outside asks.
    pub signals: Receiver<Signal>,
    /// The control socket.
    pub control: ControlServer,
    /// The open files of all exports.
    pub files: Backends,
}

/// Starts the server. The settings are those of `options`, which are read again at a reload.
///
/// # Errors
/// What is in the way, and what to do.
pub fn start(settings: &ServeConfig, options: ServeOptions) -> anyhow::Result<RunningServer> {
    // before any thread: they inherit the signal mask, the capabilities and the file mode mask,
    // and descriptors from systemd must not be taken by anything else first
    sys::limits::keep_memory_small(MemoryShares::of_this_process().bytes());
    let inherited = sys::inherited::take().map_err(|error| {
        let remedy =
            "let its socket unit have ListenStream= and ListenDatagram= with ports, no others";
        anyhow!("systemd's {error}: {remedy}")
    })?;
    if !Path::new("/proc/self/fd").exists() {
        bail!("/proc is not there, by which open files are reached: mount -t proc proc /proc");
    }
    let signals = Signals::take_over().context("cannot take signals over")?;
    ignore_others().context("cannot ignore signals")?;
    let log = logging::start(settings.values.log_level);
    let own = sys::identity::own().context("who am I?")?;
    let squash_to = (!is_privileged()?).then_some(ServerUser { uid: own.uid, gid: own.gid });
    sys::limits::raise_open_files();
    sys::open::clear_umask();
    if squash_to.is_none() {
        sys::identity::drop_resource_capability().context("cannot drop CAP_SYS_RESOURCE")?;
    }

    let wanted = export_specs::load(settings, squash_to).map_err(|error| UsageError::of(&error))?;
    make_control_dir(&settings.control, own.uid)?;
    state_dir::make(&settings.state_dir)?;
    let identity = Arc::new(Identity::open(&settings.state_dir)?);
    let files = Backends::start()?;
    let open = files.opener(settings.state_dir.clone(), Arc::clone(&identity), squash_to);
    let opening = |spec: &ExportSpec| open(spec);
    let table = Table::build(&wanted.specs, &identity, &opening, None)
        .map_err(|errors| export_specs::first_error(&errors))?;
    let exports = Arc::new(Exports::new(table));

    tcp_buffers::size_exports(&exports.load(), &settings.values.buffers());
    let adopted = Adopted { tcp: inherited.tcp, udp: inherited.udp };
    let listen = ListenAddresses::of(settings, &adopted)?;
    let plan = portmap::plan(settings.portmap, &listen)?;
    files.collect_retired_from(&exports);
    let nfs = Arc::new(Nfs::new(Arc::clone(&exports), NfsSettings::default()));
    nfs.settings.max_read.store(settings.values.max_read.bytes(), Relaxed);
    nfs.settings.max_write.store(settings.values.max_write.bytes(), Relaxed);
    let mount = Mount::new(Arc::clone(&exports)).with_nfs(Arc::clone(&nfs));
    let mount = Arc::new(mount.with_tell_refused(Box::new(refused_mounts::log_refusals())));
    let services = Arc::new(Portmap::new(portmap::answers(&listen, &plan)));
    let dispatcher = Arc::new(dispatcher(&nfs, &mount, Arc::clone(&services)));
    let telemetry = Telemetry::new(op_names(&dispatcher));
    let server = serve(settings, adopted, &listen, &plan, (dispatcher, Arc::clone(&telemetry)))?;

    let udp = settings.values.udp_sockets != UdpSockets::Off;
    let found = PortmapService::apply(&plan, &listen, services, udp)?;
    let mut notes = notes(settings, &listen, squash_to, &wanted.notes);
    notes.extend(exported_state_dir_warning(settings, &wanted.specs));
    notes.extend(limit_warnings::notes(settings.values.memory));
    notes.extend(no_journal_warning(&wanted.specs));
    notes.extend(overlayfs_warning(&wanted.specs));
    notes.extend(
        squash_to.is_none().then(|| unmapped_anonymous_user_warning(&wanted.specs)).flatten(),
    );
    notes.extend(tcp_buffers::at_start(&settings.values, server.buffer_totals())?);
    let desk = Arc::new(ServerControl {
        settings: settings.clone(),
        options,
        squash_to,
        uid: own.uid,
        found,
        warnings: notes,
        started: Instant::now(),
        exports,
        identity,
        open,
        nfs,
        mount,
        telemetry,
        server: RwLock::new(Some(server)),
        values: Mutex::new(settings.values.clone()),
        log,
        last_asked: Mutex::new((Instant::now(), 0)),
        reloading: Mutex::new(()),
    });
    let control = ControlServer::start(&settings.control, Arc::clone(&desk) as Arc<dyn Control>)?;
    // the last of the threads: whoever is told that it serves may count on it
    let signals = super::run::spawn_signal_thread(signals)?;
    if settings.prove {
        prove(&desk, &listen)?;
    }
    announce(&desk, &listen);
    systemd::ready("serving");
    Ok(RunningServer { desk, signals, control, files })
}

/// Whether files are served for each client's own user: what the backends will do.
///
/// # Errors
/// The process may override permissions but not become its callers: everybody would be root.
fn is_privileged() -> anyhow::Result<bool> {
    let privileged = vfs_local::acts_as_callers().context("cannot tell who this process is")?;
    // root of a namespace of one user overrides nothing but that user's own permissions
    let harmless = Namespace::look().is_one_ordinary_user();
    if !privileged && sys::identity::has(Capability::DacOverride) && !harmless {
        bail!(
            "this process may override permissions but not act as other users, so every client \
             would have root's rights: give it CAP_SETUID and CAP_SETGID as root (in a user \
             namespace, more users and leave to set groups), or run it as an ordinary user without \
             capabilities"
        );
    }
    Ok(privileged)
}

/// The directory of the default control socket of an ordinary user is in `/tmp`, where anybody
/// may have made it first.
fn make_control_dir(control: &Path, uid: u32) -> anyhow::Result<()> {
    use std::os::unix::fs::{DirBuilderExt, MetadataExt};
    let Some(dir) = control.parent() else { return Ok(()) };
    if dir.starts_with("/tmp/") && !dir.exists() {
        let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(dir);
        let else_say =
            || format!("cannot make {}; name another path with --control", dir.display());
        made.with_context(else_say)?;
    }
    if dir != Path::new(&format!("/tmp/bowline-{uid}")) {
        return Ok(());
    }
    // also what was just made: somebody else may have been quicker
    let meta = std::fs::symlink_metadata(dir)?;
    let ours = meta.is_dir() && meta.uid() == uid && meta.mode() & 0o022 == 0;
    let whose = "is not a directory of this user alone: choose another with --control";
    if ours { Ok(()) } else { Err(anyhow!("{} {whose}", dir.display())) }
}

/// All programs share all sockets.
fn dispatcher(nfs: &Arc<Nfs>, mount: &Arc<Mount>, services: Arc<Portmap>) -> Dispatcher {
    let programs: Vec<Box<dyn Program>> = vec![
        Box::new(nfs::nfs_program(Arc::clone(nfs))),
        Box::new(nfs::mount::mount_program(Arc::clone(mount))),
        Box::new(nfs::portmap::portmap_program(services)),
    ];
    let ample = DispatchSettings::default();
    let reply_cache_bytes = MemoryShares::of_this_process().reply_cache(ample.reply_cache_bytes);
    Dispatcher::new(programs, DispatchSettings { reply_cache_bytes, ..ample })
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
fn serve(
    settings: &ServeConfig,
    adopted: Adopted,
    listen: &ListenAddresses,
    plan: &Plan,
    (dispatcher, telemetry): (Arc<Dispatcher>, Arc<Telemetry>),
) -> anyhow::Result<Server> {
    let mut bind = Vec::new();
    if adopted.tcp.is_empty() && adopted.udp.is_empty() {
        bind.extend(listen.all());
    }
    if let Plan::Serve(addrs) = plan {
        bind.extend_from_slice(addrs);
    }
    let values = &settings.values;
    let config = svc::Config {
        tcp: bind.clone(),
        udp: bind,
        adopted,
        threads: (values.threads.min, values.threads.max),
        pool_mode: statistics::pool_mode(values.pool_mode),
        wake_policy: statistics::wake_policy(values.wake_policy),
        udp_sockets: control::udp_sockets(values.udp_sockets),
        zero_copy: control::zero_copy(values.zero_copy),
        udp_buffer: values.udp_buffer.bytes(),
        limits: svc::Limits::default().with_memory(values.memory.bytes()),
        buffers: Box::new(values.buffers()),
        congestion: statistics::congestion(&values.tcp_congestion),
    };
    Server::start(config, dispatcher, telemetry).map_err(explain)
}

/// What to do about a server that does not start.
fn explain(error: StartError) -> anyhow::Error {
    let StartError::Bind { addr, source, .. } = &error else { return error.into() };
    match source.kind() {
        ErrorKind::AddrInUse => {
            let who = port_owner::owner_of(addr.port())
                .map_or_else(String::new, |who| format!(" by {who}"));
            anyhow!("{addr} is in use{who}: stop it, or choose another port with --port")
        }
        ErrorKind::PermissionDenied => anyhow!(
            "no permission to listen on {addr}: ports below 1024 need root; choose another with \
             --port"
        ),
        ErrorKind::AddrNotAvailable => anyhow!(
            "{} is not an address of this machine (`ip address` shows them): choose another with \
             --listen",
            addr.ip()
        ),
        _ => error.into(),
    }
}

/// What gives root of a user namespace other users.
const IN_NAMESPACE: &str = "give its user namespace more users (/etc/subuid and /etc/subgid)";

/// What the operator should know.
fn notes(
    settings: &ServeConfig,
    listen: &ListenAddresses,
    squash_to: Option<ServerUser>,
    files: &[String],
) -> Vec<String> {
    let mut notes = files.to_vec();
    if let Some(server_user) = squash_to {
        let user = process_info::user_name(server_user.uid);
        notes.push(format!(
            "not privileged: everybody acts as {user}, owners cannot be changed and device nodes \
             cannot be made; {} to serve each client's own user",
            if server_user.uid == 0 { IN_NAMESPACE } else { "run it as root" }
        ));
        if settings.clients.is_empty() && !settings.dirs.is_empty() {
            notes.push(format!(
                "every user of this machine who can call NFS acts as {user} in what is served"
            ));
        }
    }
    if !listen.is_local() && settings.clients.is_empty() && !settings.dirs.is_empty() {
        notes.push(
            "other machines can reach the server, but only this one may mount the directories \
             named: say who else with --client"
                .to_owned(),
        );
    }
    if listen.all().iter().all(|at| at.port() != settings.port) {
        let told = "systemd's sockets are used, and what --listen and --port say is not";
        notes.push(told.to_owned());
    }
    notes
}

/// Whether a client could reach the handle key through an export.
fn exported_state_dir_warning(settings: &ServeConfig, specs: &[ExportSpec]) -> Option<String> {
    let state = settings.state_dir.canonicalize().ok()?;
    let inside = specs.iter().find(|spec| match &spec.source {
        Source::Directory(dir) => dir.canonicalize().is_ok_and(|dir| state.starts_with(dir)),
        Source::Memory | Source::SlowMemory(_) => false,
    })?;
    Some(format!(
        "the state directory {} is inside the export {}: clients who act as its owner can read \
         the key of all file handles; put it elsewhere with --state-dir",
        state.display(),
        export_specs::shown(&inside.path)
    ))
}

/// Whether clients are squashed to a user whom the container does not have.
fn unmapped_anonymous_user_warning(specs: &[ExportSpec]) -> Option<String> {
    let there = Namespace::look();
    let mut rules = specs.iter().flat_map(|spec| &spec.rules).map(|rule| rule.options);
    let lacks = |o: &Options| o.squash != Squash::None && !there.have(o.anonuid, o.anongid);
    let Options { anonuid, anongid, .. } = rules.find(lacks)?;
    Some(format!(
        "squashed clients are to act as user {anonuid} and group {anongid}, which this user namespace \
         does not have, and are refused: give it more ids (/etc/subuid and /etc/subgid), or name \
         others with anonuid= and anongid= in an exports file"
    ))
}

/// Whether a power cut may take what an export answers.
fn no_journal_warning(specs: &[ExportSpec]) -> Option<String> {
    let lacks = |spec: &&ExportSpec| match &spec.source {
        Source::Directory(dir) => {
            std::fs::File::open(dir).is_ok_and(|dir| vfs_local::lacks_journal(dir.as_fd()))
        }
        Source::Memory | Source::SlowMemory(_) => false,
    };
    let promises = |spec: &&ExportSpec| {
        spec.rules.iter().any(|rule| rule.options.durability == vfs::Durability::Sync)
    };
    let mut without = specs.iter().filter(promises).filter(lacks);
    let first = export_specs::shown(&without.next()?.path);
    let more = match without.count() {
        0 => String::new(),
        more => format!(" (and {more} more)"),
    };
    Some(format!(
        "{first}{more} is on ext4 without a journal: a power cut may take files that were just made, \
         whatever is synced; `tune2fs -j` gives the file system a journal while it is not mounted"
    ))
}

/// Whether what came with a container's image is served, which has no lasting identity.
fn overlayfs_warning(specs: &[ExportSpec]) -> Option<String> {
    let overlay = |spec: &&ExportSpec| match &spec.source {
        Source::Directory(dir) => {
            std::fs::File::open(dir).is_ok_and(|dir| vfs_local::is_overlay(dir.as_fd()))
        }
        Source::Memory | Source::SlowMemory(_) => false,
    };
    Some(format!(
        "{} is on overlayfs, where what comes from a lower layer becomes another file when it is first \
         changed: clients then find their handles stale; serve a volume of the container instead",
        export_specs::shown(&specs.iter().find(overlay)?.path)
    ))
}

/// A connection to this server: from a reserved port, as an export marked `secure` asks for, if this process may have
/// one.
fn connected(at: SocketAddr) -> client::Result<Client> {
    let reserved = sys::outgoing::connect_reserved(at);
    reserved.map_or_else(
        |_| Client::tcp(at, client::prove::TIMEOUT),
        |stream| Client::over_tcp(stream, client::prove::TIMEOUT),
    )
}

/// Mounts, lists and reads over the wire.
fn prove(desk: &ServerControl, listen: &ListenAddresses) -> anyhow::Result<()> {
    let table = desk.exports.load();
    let (Some(export), Some(addr)) = (table.exports().first(), listen.tcp.first()) else {
        return Ok(());
    };
    let local = match &export.source {
        Source::Directory(dir) => Some(dir.as_path()),
        Source::Memory | Source::SlowMemory(_) => None,
    };
    let at = SocketAddr::new(loopback_for_wildcard(addr.ip()), addr.port());
    let seen = connected(at)
        .map_err(anyhow::Error::from)
        .and_then(|client| Ok(client::prove::prove(client, &export.path, local)?))
        .with_context(|| format!("the server does not prove itself on {}", export.path_text()))?;
    let entries = if seen.entries == 1 { "entry" } else { "entries" };
    let mut line = format!("proof: mounted {}, {} {entries}", export.path_text(), seen.entries);
    match &seen.file {
        None => line.push_str(", no file to read"),
        Some(file) => {
            line.push_str(&format!(", read {file} ({})", admin::bytes(seen.bytes)));
            if seen.compared {
                line.push_str(", the same bytes as on disk");
            }
        }
    }
    say(&format!("{line}, in {}\n", admin::duration_ns(seen.elapsed_us.saturating_mul(1000))));
    Ok(())
}

fn announce(desk: &ServerControl, listen: &ListenAddresses) {
    let offer = |export: &Arc<export::Export>| ExportLine {
        path: export.path_text(),
        directory: export.source.to_string(),
        rules: export_specs::rules_text(export.rules(), export.fsid),
    };
    let announcement = StartupMessage {
        listen: listen.clone(),
        exports: desk.exports.load().exports().iter().map(offer).collect(),
        portmap: desk.found.how.clone(),
        control: desk.settings.control.display().to_string(),
        notes: desk.warnings.clone(),
    };
    // only this machine may mount: then its loopback address is the one to use
    let local_only = desk.settings.clients.is_empty() && !desk.settings.dirs.is_empty();
    say(&announcement.text(listen.address_for_clients(local_only)));
}

/// To standard output; a closed one is no reason not to serve.
fn say(text: &str) {
    let mut out = std::io::stdout();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}
