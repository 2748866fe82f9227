//! The server as its operator sees it: answers what the control socket asks.
//!
//! Invariants: `values` is what is in force, changed only under its lock together with the part
//! that it is for; a reload holds `reloading` so that two cannot mix. Neither lock is on the way
//! of a call. `server` is `None` once it has been stopped.

use super::portmap::PortmapService;
use super::{process_info, statistics, tcp_buffers};
use crate::cli::ServeOptions;
use crate::config::{self, ServeConfig};
use crate::export_specs::{self, ServerUser};
use crate::logging::LogHandle;
use crate::settings::{self, ROWS, Value, Values, When};
use crate::values::{UdpSockets, ZeroCopy};
use admin::api::{
    Changed, ClientRow, ConnRow, ExportRow, OpRow, PoolRow, Reloaded, RuleRow, SettingRow,
    SocketRow, Status,
};
use admin::{Control, Refused};
use export::{ExportSpec, Exports, Identity, Table};
use nfs::Nfs;
use nfs::mount::Mount;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant};
use svc::{Server, SettingError};
use sys::tcp::Side;
use telemetry::Telemetry;
use vfs::Backend;

/// Opens the files of an export.
pub type OpenBackend = Box<dyn Fn(&ExportSpec) -> anyhow::Result<Arc<dyn Backend>> + Send + Sync>;

/// All that the operator may ask about.
pub struct ServerControl {
    /// What the server was started with.
    pub settings: ServeConfig,
    /// The command line of that, which names the configuration file.
    pub options: ServeOptions,
    /// The user that everybody is mapped to, without privileges.
    pub squash_to: Option<ServerUser>,
    /// The user that the server runs as.
    pub uid: u32,
    /// How portmappers know of it.
    pub found: PortmapService,
    /// What the operator should know.
    pub warnings: Vec<String>,
    /// When it began to serve.
    pub started: Instant,
    /// The exports in force.
    pub exports: Arc<Exports>,
    /// What outlives the server.
    pub identity: Arc<Identity>,
    /// Opens backends of new exports.
    pub open: OpenBackend,
    /// NFS's live settings.
    pub nfs: Arc<Nfs>,
    /// Who mounted what.
    pub mount: Arc<Mount>,
    /// Counters.
    pub telemetry: Arc<Telemetry>,
    /// Sockets and threads; `None` after the stop.
    pub server: RwLock<Option<Server>>,
    /// The values in force.
    pub values: Mutex<Values>,
    /// The log's level.
    pub log: LogHandle,
    /// Calls and time when the status was last asked for.
    pub last_asked: Mutex<(Instant, u64)>,
    /// Held during a reload.
    pub reloading: Mutex<()>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ServerControl {
    /// Ends the service: no new calls, those that run get `patience` to finish.
    pub fn stop(&self, patience: Duration) {
        let server = self.server.write().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(server) = server {
            server.stop(patience);
        }
    }

    pub(super) fn with_server<T: Default>(&self, ask: impl FnOnce(&Server) -> T) -> T {
        let server = self.server.read().unwrap_or_else(PoisonError::into_inner);
        server.as_ref().map(ask).unwrap_or_default()
    }

    /// Calls per second since the status was last asked for.
    fn recent_rate(&self, calls: u64) -> f64 {
        let mut last = lock(&self.last_asked);
        let (before, then) = (last.1, last.0);
        let elapsed = then.elapsed();
        *last = (Instant::now(), calls);
        rate(calls.saturating_sub(before), elapsed)
    }

    /// Applies a new value; `after` has it already. What there is to say about it.
    fn apply(&self, new: &Value, after: &Values) -> Result<Vec<String>, Refused> {
        match new {
            Value::TcpRcvbuf(size) => return self.size_buffers(Side::Receive, size, after),
            Value::TcpSndbuf(size) => return self.size_buffers(Side::Send, size, after),
            Value::UdpSockets(layout) => return self.set_udp_sockets(*layout),
            Value::Threads(range) => {
                self.tell(|server| server.set_threads(range.min, range.max))?
            }
            Value::PoolMode(mode) => {
                self.tell(|server| server.set_pool_mode(statistics::pool_mode(*mode)))?;
            }
            Value::WakePolicy(policy) => {
                self.tell(|server| server.set_wake_policy(statistics::wake_policy(*policy)))?;
            }
            Value::UdpBuffer(buffer) => {
                self.tell(|server| server.set_udp_buffer(buffer.bytes()))?
            }
            Value::TcpCongestion(name) => {
                self.tell(|server| server.set_congestion(statistics::congestion(name)))?;
            }
            Value::MaxRead(size) => {
                self.nfs.settings.max_read.store(size.bytes(), Ordering::Relaxed);
            }
            Value::MaxWrite(size) => {
                self.nfs.settings.max_write.store(size.bytes(), Ordering::Relaxed);
            }
            Value::ZeroCopy(choice) => {
                self.with_server(|server| server.set_zero_copy(zero_copy(*choice)));
            }
            Value::Memory(memory) => self.with_server(|server| server.set_memory(memory.bytes())),
            Value::LogLevel(level) => self.log.set(*level),
        }
        Ok(Vec::new())
    }

    /// Has the server change something.
    fn tell(
        &self,
        change: impl FnOnce(&Server) -> Result<(), SettingError>,
    ) -> Result<(), Refused> {
        let error = self.with_server(|server| change(server).err());
        error.map_or(Ok(()), |error| Err(Refused(error.to_string())))
    }

    /// Nobody is to find what is not there: portmappers hear of UDP after it is served, and that it is not any
    /// more before.
    fn set_udp_sockets(&self, layout: UdpSockets) -> Result<Vec<String>, Refused> {
        let served = layout != UdpSockets::Off;
        let update =
            || self.found.set_udp(served).err().map(|error| crate::output::error_text(&error));
        let before = if served { None } else { update() };
        self.tell(|server| server.set_udp_sockets(udp_sockets(layout)))?;
        let after = if served { update() } else { None };
        Ok(before.into_iter().chain(after).collect())
    }
}

/// The setting in the words of the server's crate.
pub const fn udp_sockets(layout: UdpSockets) -> svc::UdpSockets {
    match layout {
        UdpSockets::Single => svc::UdpSockets::Single,
        UdpSockets::Interface => svc::UdpSockets::Interface,
        UdpSockets::Cpu => svc::UdpSockets::Cpu,
        UdpSockets::InterfaceCpu => svc::UdpSockets::InterfaceCpu,
        UdpSockets::Off => svc::UdpSockets::Off,
    }
}

/// The setting in the words of the server's crate.
pub const fn zero_copy(choice: ZeroCopy) -> svc::ZeroCopy {
    match choice {
        ZeroCopy::On => svc::ZeroCopy::On,
        ZeroCopy::Off => svc::ZeroCopy::Off,
        ZeroCopy::Auto => svc::ZeroCopy::Auto,
    }
}

fn rate(calls: u64, elapsed: Duration) -> f64 {
    let seconds = elapsed.as_secs_f64();
    if seconds > 0.0 { calls as f64 / seconds } else { 0.0 }
}

impl Control for ServerControl {
    fn status(&self) -> Status {
        let snapshot = self.telemetry.snapshot();
        let seen = process_info::read();
        let totals = snapshot.totals;
        let used = &snapshot.exports;
        Status {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            uptime_s: self.started.elapsed().as_secs(),
            listen: self.with_server(statistics::listening),
            privileged: self.squash_to.is_none(),
            uid: self.uid,
            state_dir: self.settings.state_dir.display().to_string(),
            portmap: self.found.how.clone(),
            exports: self.exports.load().exports().len() as u64,
            connections: self.with_server(Server::connections) as u64,
            calls: totals.calls,
            calls_per_s: rate(totals.calls, self.started.elapsed()),
            calls_per_s_recent: self.recent_rate(totals.calls),
            errors: totals.failed,
            rejected: statistics::counter(&snapshot, "calls-rejected"),
            bytes_in: totals.bytes_in,
            bytes_out: totals.bytes_out,
            bytes_read: used.iter().map(|export| export.bytes_read).sum(),
            bytes_written: used.iter().map(|export| export.bytes_written).sum(),
            threads: seen.threads,
            memory_bytes: seen.memory_bytes,
            memory_bytes_max: sys::limits::memory_bytes_max(),
            open_files: seen.open_files,
            open_files_max: seen.open_files_max,
            tcp_memory: self.tcp_memory(),
            counters: statistics::counters(&snapshot),
            warnings: self.warnings.clone(),
        }
    }

    fn exports(&self) -> Vec<ExportRow> {
        let snapshot = self.telemetry.snapshot();
        let table = self.exports.load();
        let row = |export: &Arc<export::Export>| {
            let used = snapshot.exports.iter().find(|row| row.index == export.index);
            let rules = export_specs::rules_text(export.rules(), export.fsid);
            let rule = |(clients, options)| RuleRow { clients, options };
            ExportRow {
                path: export.path_text(),
                directory: export.source.to_string(),
                id: export.id.0,
                uuid: export::uuid_text(&export.uuid),
                rules: rules.into_iter().map(rule).collect(),
                calls: used.map_or(0, |row| row.calls),
                errors: used.map_or(0, |row| row.failed),
                bytes_read: used.map_or(0, |row| row.bytes_read),
                bytes_written: used.map_or(0, |row| row.bytes_written),
            }
        };
        table.exports().iter().map(row).collect()
    }

    fn clients(&self) -> Vec<ClientRow> {
        statistics::clients(&self.with_server(Server::clients), &self.mount.mounted())
    }

    fn conns(&self) -> Vec<ConnRow> {
        statistics::conns(&self.with_server(|server| server.measured_conns(tcp_buffers::WATCH)))
    }

    fn sockets(&self) -> Vec<SocketRow> {
        statistics::sockets(&self.with_server(Server::sockets))
    }

    fn pools(&self) -> Vec<PoolRow> {
        statistics::pools(&self.with_server(Server::pools))
    }

    fn ops(&self) -> Vec<OpRow> {
        statistics::ops(&self.telemetry.snapshot())
    }

    fn set(&self, key: &str, value: &str) -> Result<Changed, Refused> {
        let new = settings::parse(key, value).map_err(Refused)?;
        let mut values = lock(&self.values);
        let before = values.before(&new);
        let mut notes = Vec::new();
        if before != new {
            let mut after = values.clone();
            after.put(new.clone());
            notes = self.apply(&new, &after)?;
            *values = after;
            tracing::info!("{key} is now {new} (was {before})");
            for note in &notes {
                tracing::info!("{key}={new}: {note}");
            }
        }
        let (before, value) = (before.to_string(), new.to_string());
        Ok(Changed { key: key.to_owned(), before, value, notes })
    }

    fn settings(&self, key: Option<&str>) -> Result<Vec<SettingRow>, Refused> {
        if let Some(key) = key {
            settings::row(key).map_err(Refused)?;
        }
        let values = lock(&self.values).clone();
        let of_row = |row: &'static settings::Row| {
            values.all_of(row.key).into_iter().map(move |value| SettingRow {
                key: value.full_name(),
                value: value.to_string(),
                live: row.when == When::Live,
                changes: match row.when {
                    When::Live => "live",
                }
                .to_owned(),
                about: row.about.to_owned(),
            })
        };
        let key = match key {
            Some(key) if key.contains('@') => {
                Some(settings::parse(key, "0").map_err(Refused)?.full_name())
            }
            Some(key) => Some(key.to_owned()),
            None => None,
        };
        let key = key.as_deref();
        let all = ROWS.iter().flat_map(of_row);
        let mut found: Vec<_> = all.filter(|row| key.is_none_or(|key| key == row.key)).collect();
        if let (true, Some(key)) = (found.is_empty(), key) {
            // A network or an export without a size of its own.
            let default = settings::parse(key, "0").map_err(Refused)?;
            let row = settings::row(key).map_err(Refused)?;
            let own = of_row(row).take(1);
            found.extend(own.map(|own| SettingRow {
                key: default.full_name(),
                value: values.before(&default).to_string(),
                ..own
            }));
        }
        Ok(found)
    }

    fn reload(&self) -> Result<Reloaded, Refused> {
        let _one_at_a_time = lock(&self.reloading);
        super::systemd::reloading();
        let done = self.reload_now();
        super::systemd::ready("serving");
        done.map_err(|error| Refused(crate::output::error_text(&error)))
    }
}

impl ServerControl {
    /// Applies what the files say of exports now. What else the configuration says is pointed out.
    fn reload_now(&self) -> anyhow::Result<Reloaded> {
        let settings = config::resolve(self.options.clone())?;
        let mut wanted = export_specs::load(&settings, self.squash_to)?;
        wanted.notes.extend(self.settings.restart_notes(&settings));
        let old = self.exports.load();
        let open = |spec: &ExportSpec| (self.open)(spec);
        let table = Table::build(&wanted.specs, &self.identity, &open, Some(&old))
            .map_err(|errors| export_specs::first_error(&errors))?;
        let changes = Table::difference(&old, &table);
        let exports = table.exports().len() as u64;
        drop(old);
        tcp_buffers::size_exports(&table, &lock(&self.values).buffers());
        self.exports.replace(table);
        Ok(Reloaded { changes, exports, notes: wanted.notes })
    }
}
