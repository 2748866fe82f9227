//! Answers the control socket: what the operator asks about a running server and changes in it.
//!
//! `values` holds the settings in force; a change is applied to the part concerned and stored under its
//! lock, so that no two changes mix. A reload holds `reloading`. Calls take neither lock.

use super::export_loader::{ExportLoader, Modified};
use super::io_errors::IoErrors;
use super::parts::{Applied, ServerParts};
use super::recent_calls::{RecentCalls, rate};
use super::refusals::{RefusalCount, Refusals, RefusedTarget};
use super::tls::TlsService;
use super::{
    bench_reports, connection_rows, explain, export_changes, grace_status, hung_calls,
    limit_warnings, lock_rows, metrics, name_conflicts, process_info, statistics, systemd, v4_rows,
};
use crate::config::{self, ServeConfig};
use crate::export_specs::{self, ServerUser};
use crate::output::error_text;
use crate::serve_options::ServeOptions;
use crate::settings::{self, Assignment, ROWS, Values};
use admin::api::{
    Changed, ClientRow, ConnRow, DelegationRow, ExplainQuestion, Explanation, ExportChange,
    ExportRow, GraceStatus, LockRow, OpRow, OpenRow, PoolRow, RefusalRow, Released, Reloaded,
    ReportRow, RuleRow, Sample, SessionRow, SettingRow, SleepingCallRow, SocketRow, Status,
};
use admin::rates::ConnActivity;
use admin::{Control, Format, HttpCounts, Refused, Token};
use export::{ExportId, ExportSpec, Table, WaitingExport};
use nfs::mount::Mount;
use nfs::nlm::Taken;
use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use svc::Server;
use telemetry::{OpName, Telemetry};

/// A running server for its operator.
pub struct ServerControl {
    /// What settings change.
    pub parts: ServerParts,
    /// What the server was started with.
    pub config: ServeConfig,
    /// The command line; a reload combines it with the configuration file again.
    pub options: ServeOptions,
    /// Without privileges: the user that everybody is mapped to.
    pub squash_to: Option<ServerUser>,
    /// The user that the server runs as.
    pub uid: u32,
    /// What the process has given up, in words.
    pub confinement: String,
    /// Shown at the start and by `bowline status`.
    pub warnings: Vec<String>,
    /// When it began to serve.
    pub started: Instant,
    /// Opens the exports, and changes them.
    pub export_loader: ExportLoader,
    /// RPC with TLS, if there is a certificate.
    pub tls: Option<TlsService>,
    /// Who mounted what.
    pub mount: Arc<Mount>,
    /// Who was refused.
    pub refusals: Arc<Refusals>,
    /// Which exports' disks fail.
    pub io_errors: IoErrors,
    /// Lets the web page change settings; none without a page.
    pub token: Option<Arc<Token>>,
    /// Connections to the web page; none without a page.
    pub web_counts: Option<Arc<HttpCounts>>,
    /// Counters.
    pub telemetry: Arc<Telemetry>,
    /// The settings in force.
    pub values: Mutex<Values>,
    /// Calls at the times when the status was asked for.
    pub recent_calls: Mutex<RecentCalls>,
    /// Held during a reload.
    pub reloading: Mutex<()>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
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
            listen: self.server(statistics::listening),
            privileged: self.squash_to.is_none(),
            uid: self.uid,
            sandbox: self.confinement.clone(),
            kernel_tls: self
                .server(Server::kernel_tls)
                .map_or_else(|| "no certificate".to_owned(), |state| state.to_string()),
            directory_delegations: directory_delegations().to_owned(),
            state_dir: self.config.state_dir.display().to_string(),
            portmap: self.parts.portmap.how(),
            exports: self.parts.exports.load().exports().len() as u64,
            connections: self.server(Server::connections) as u64,
            connections_max: self.server(Server::conn_usage).max as u64,
            calls: totals.calls,
            calls_per_s: rate(totals.calls, self.started.elapsed()),
            calls_per_s_recent: lock(&self.recent_calls).per_second(Instant::now(), totals.calls),
            errors: totals.failed,
            rejected: statistics::counter(&snapshot, "calls-rejected"),
            bytes_in: totals.bytes_in,
            bytes_out: totals.bytes_out,
            bytes_read: used.iter().map(|export| export.bytes_read).sum(),
            bytes_written: used.iter().map(|export| export.bytes_written).sum(),
            threads: seen.threads,
            worker_threads: self.server(Server::pools).iter().map(|p| p.threads as u64).sum(),
            memory_bytes: seen.memory_bytes,
            memory_bytes_max: sys::limits::memory_bytes_max(),
            call_memory_bytes_max: self.server(Server::memory) as u64,
            open_files: seen.open_files,
            open_files_max: seen.open_files_max,
            unlinked_files: self.parts.open_files.unlinked_counts().held,
            tcp_memory: statistics::tcp_memory(self.parts.with_server(Server::buffer_totals)),
            blocked_exports: self.blocked_exports(),
            outbound: statistics::outbound(&self.parts.outbound.info()),
            state: if self.is_degraded() { "degraded" } else { "ok" }.to_owned(),
            waiting_exports: self.export_loader.waiting(),
            counters: statistics::counters(&snapshot),
            warnings: self.warnings(),
        }
    }

    fn exports(&self) -> Vec<ExportRow> {
        let snapshot = self.telemetry.snapshot();
        let table = self.parts.exports.load();
        let row = |export: &Arc<export::Export>| {
            let used = snapshot.exports.iter().find(|row| row.index == export.index);
            let rules = export_specs::rules_text(export.rules(), &export.shared_options());
            let rule = |(clients, options)| RuleRow { clients, options };
            let refused = self.refusals.of_export(export.index);
            ExportRow {
                path: export.path_text(),
                directory: export.source.to_string(),
                id: export.id.0,
                uuid: export::uuid_text(&export.uuid),
                state: "served".to_owned(),
                rules: rules.into_iter().map(rule).collect(),
                calls: used.map_or(0, |row| row.calls),
                errors: used.map_or(0, |row| row.failed),
                io_errors: used.map_or(0, |row| row.io_errors),
                bytes_read: used.map_or(0, |row| row.bytes_read),
                bytes_written: used.map_or(0, |row| row.bytes_written),
                refused: refused.as_ref().map_or(0, |refused| refused.count),
                last_refusal: refused.map(|refused| refused.why.to_owned()),
            }
        };
        table.exports().iter().map(row).chain(table.waiting().iter().map(waiting_row)).collect()
    }

    fn clients(&self) -> Vec<ClientRow> {
        let refused = self.refusals.of_clients();
        let refused: Vec<_> = refused
            .into_iter()
            .map(|(client, refused)| (client, refused.count, self.refusal_text(&refused)))
            .collect();
        let v4 = v4_rows::counts(&self.parts.nfs);
        let infos = self.server(Server::clients);
        let certified = self.server(Server::certified_clients).into_iter();
        let identities = statistics::Identities {
            principals: self.parts.kerberos.holders(),
            certificates: certified.map(|(client, name)| (client.to_canonical(), name)).collect(),
            same_names: name_conflicts::pairs(&self.parts.nfs),
        };
        let traffic = (infos, self.telemetry.datagram_clients());
        statistics::clients(traffic, &self.mount.mounted(), &v4, refused, identities)
    }

    fn conns(&self) -> Vec<ConnRow> {
        self.watch(None).0
    }

    fn sockets(&self) -> Vec<SocketRow> {
        statistics::sockets(&self.server(Server::sockets))
    }

    fn pools(&self) -> Vec<PoolRow> {
        statistics::pools(&self.server(Server::pools))
    }

    fn ops(&self) -> Vec<OpRow> {
        let mut rows = statistics::ops(&self.telemetry.snapshot());
        if let Some(row) = rows.iter_mut().find(|row| row.procedure == "COPY") {
            row.copies = v4_rows::copies(&self.parts.nfs);
        }
        rows
    }

    fn conn_activity(&self) -> Vec<ConnActivity> {
        let activity = self.server(Server::conn_activity);
        activity.iter().map(connection_rows::activity).collect()
    }

    fn sample(&self, conns: Option<&HashSet<u64>>) -> Sample {
        let (conns, sleeping) = match conns {
            Some(_) => self.watch(conns),
            None => (Vec::new(), hung_calls::rows(self)),
        };
        let snapshot = self.telemetry.snapshot();
        let at_ms = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX);
        let table = self.parts.exports.load();
        let refused = |index| self.refusals.of_export(index).map_or(0, |refused| refused.count);
        let exports = table.exports().iter().map(|export| {
            let used = snapshot.exports.iter().find(|row| row.index == export.index);
            statistics::export_sample(export.path_text(), used, refused(export.index))
        });
        Sample {
            at_ms,
            ops: statistics::op_samples(&snapshot),
            exports: exports.collect(),
            clients: self.clients(),
            conns,
            activity: self.conn_activity(),
            pools: self.pools(),
            sleeping,
            lock_requests_waiting: self.parts.nfs.state.totals().waiters as u64,
            status: self.status(),
        }
    }

    fn metrics(&self, format: Format) -> String {
        let sources = metrics::Sources {
            parts: &self.parts,
            refusals: &self.refusals,
            snapshot: &self.telemetry.snapshot(),
            udp_clients: self.telemetry.datagram_clients().len(),
            blocked: &self.blocked_exports(),
            uptime: self.started.elapsed(),
            certificate_end: self.tls.as_ref().map(TlsService::end),
            web: self.web_counts.as_deref(),
        };
        metrics::text(&sources, format)
    }

    fn token(&self) -> Result<String, Refused> {
        let none = "this server has no web page: start it with --metrics ADDR:PORT";
        let token = self.token.as_ref().ok_or_else(|| Refused(none.to_owned()))?.text();
        let lost = "the server could not read /dev/urandom for a token: start it again";
        if token.is_empty() { Err(Refused(lost.to_owned())) } else { Ok(token) }
    }

    fn set(&self, key: &str, value: &str) -> Result<Changed, Refused> {
        let new = settings::parse(key, value).map_err(Refused)?;
        let mut values = lock(&self.values);
        let (before, value) = (new.previous(&values), new.value());
        let notes = match before == value {
            true => Vec::new(),
            false => self.change(&new, &mut values).map_err(Refused)?,
        };
        Ok(Changed { key: key.to_owned(), before, value, notes })
    }

    fn settings(&self, key: Option<&str>) -> Result<Vec<SettingRow>, Refused> {
        let values = lock(&self.values).clone();
        let shown = |row: &settings::Row, (key, value)| SettingRow {
            key,
            value,
            live: row.is_live(),
            changes: row.changes().to_owned(),
            about: row.summary(),
        };
        if let Some(key) = key {
            let row = settings::row(key).map_err(Refused)?;
            let found = settings::value_of(&values, key).map_err(Refused)?;
            return Ok(vec![shown(row, found)]);
        }
        let all = ROWS.iter().flat_map(|row| row.list(&values).into_iter().map(move |v| (row, v)));
        Ok(all.map(|(row, value)| shown(row, value)).collect())
    }

    fn grace(&self, end: bool) -> Result<GraceStatus, Refused> {
        grace_status::answer(&self.parts, end)
    }

    fn reload(&self, dry_run: bool) -> Result<Reloaded, Refused> {
        let _one_at_a_time = lock(&self.reloading);
        systemd::reloading();
        let done = self.reload_now(dry_run);
        systemd::ready("serving");
        done.map_err(|error| Refused(error_text(&error)))
    }

    fn change_exports(&self, change: &ExportChange) -> Result<Reloaded, Refused> {
        let _one_at_a_time = lock(&self.reloading);
        let changed = |specs: &mut Vec<ExportSpec>| self.changed(change, specs);
        let done = self.export_loader.modify(changed, &|table| self.size_exports(table));
        let done = done.map(|done| self.after_change(done));
        for line in done.iter().flat_map(|done| &done.changes) {
            tracing::info!("exportfs: {line}");
        }
        done.map_err(|error| Refused(error_text(&error)))
    }

    fn locks(&self) -> Vec<LockRow> {
        lock_rows::rows(&self.parts.nlm.held())
    }

    fn sessions(&self) -> Vec<SessionRow> {
        v4_rows::sessions(&self.parts.nfs)
    }

    fn opens(&self) -> Vec<OpenRow> {
        v4_rows::opens(&self.parts.nfs)
    }

    fn delegations(&self) -> Vec<DelegationRow> {
        v4_rows::delegations(&self.parts.nfs)
    }

    fn explain(&self, question: &ExplainQuestion) -> Result<Explanation, Refused> {
        let server = explain::Served {
            parts: &self.parts,
            options: &self.options,
            squash_to: self.squash_to,
        };
        explain::explain(&server, question)
    }

    fn refusals(&self) -> Vec<RefusalRow> {
        self.refusals.recent(Instant::now(), |index| self.parts.export_path(index))
    }

    fn release(&self, what: &str) -> Result<Released, Refused> {
        let nlm = &self.parts.nlm;
        let taken = nlm.release_hosts(what).or_else(|| nlm.release_path(what));
        let Some(taken) = taken else {
            let hint = "`bowline locks` lists them";
            return Err(Refused(format!(
                "{what} is neither a client with locks nor a locked file: {hint}"
            )));
        };
        tracing::info!("released {what}: {} locks are gone", taken.locks);
        let number = |n: usize| n as u64;
        let Taken { hosts, files, locks } = taken;
        Ok(Released { clients: number(hosts), files: number(files), locks: number(locks) })
    }

    fn reports(&self) -> Vec<ReportRow> {
        self.config.reports.as_deref().map(bench_reports::list).unwrap_or_default()
    }

    fn report(&self, name: &str) -> Result<String, Refused> {
        let none =
            || Refused("this server shows no reports: start it with --reports DIR".to_owned());
        bench_reports::page(self.config.reports.as_deref().ok_or_else(none)?, name)
    }

    fn report_style(&self) -> String {
        bench::report::stylesheet()
    }
}

impl hung_calls::Source for ServerControl {
    fn parts(&self) -> &ServerParts {
        &self.parts
    }

    fn ops(&self) -> &[OpName] {
        self.telemetry.ops()
    }
}

impl ServerControl {
    /// Watches the connections with these numbers, or all, for a while: what limits each, and calls that slept in a file
    /// system meanwhile.
    fn watch(&self, chosen: Option<&HashSet<u64>>) -> (Vec<ConnRow>, Vec<SleepingCallRow>) {
        let samples = self.server(|server| server.link_samples(chosen.cloned()));
        let mut sleeps = hung_calls::Sleeps::default();
        for _ in 0..connection_rows::LOOKS {
            std::thread::sleep(connection_rows::WATCH / connection_rows::LOOKS);
            sleeps.look(self);
        }
        let infos = self.server(|server| server.conns_since(&samples));
        let path = |index| self.parts.export_path(index);
        let rows = connection_rows::rows(&infos, self.telemetry.ops(), path, &sleeps);
        (rows, sleeps.rows())
    }

    /// What was refused last, and why.
    fn refusal_text(&self, refused: &RefusalCount) -> String {
        let what = match &refused.what {
            RefusedTarget::Export(index) => self.parts.export_path(*index),
            RefusedTarget::Path(path) => path.clone(),
        };
        format!("{what}: {}", refused.why)
    }

    /// Those of the start, and what is wrong now.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = self.warnings.clone();
        warnings.extend(grace_status::warnings(&self.parts));
        warnings.extend(self.parts.portmap.lock_manager_warning());
        warnings.extend(self.parts.kerberos.problem());
        warnings.extend(self.parts.audit.warnings());
        let faults = self.export_loader.faults();
        warnings.extend(faults.into_iter().map(|fault| format!("not served: {fault}")));
        warnings.extend(
            self.io_errors.warnings(self.started.elapsed(), |index| self.parts.export_path(index)),
        );
        warnings.extend(self.tls.iter().flat_map(TlsService::warnings));
        warnings.extend(limit_warnings::about_connections(&self.server(Server::conn_usage)));
        warnings.extend(self.export_loader.has_lost_state_dir().then(|| self.lost_state_dir()));
        warnings
    }

    /// Names in the log the exports whose disks fail.
    pub fn log_io_errors(&self) {
        let exports = self.telemetry.snapshot().exports;
        let path = |index| self.parts.export_path(index);
        for line in self.io_errors.update(self.started.elapsed(), &exports, path) {
            tracing::error!("{line}");
        }
    }

    /// Exports with blocked calls, the one with the oldest call first.
    pub fn blocked_exports(&self) -> Vec<admin::api::BlockedExport> {
        let infos = self.server(Server::blocked_calls);
        statistics::blocked_exports(&infos, self.telemetry.ops(), |index| {
            self.parts.export_path(index)
        })
    }

    /// The exports in which calls block now.
    pub fn blocked_paths(&self) -> Vec<String> {
        let blocked = self.blocked_exports().into_iter().filter(|export| export.calls > 0);
        blocked.map(|export| export.path).collect()
    }

    /// Asks the server; a default once it has been stopped.
    pub fn server<T: Default>(&self, ask: impl FnOnce(&Server) -> T) -> T {
        self.parts.with_server(ask).unwrap_or_default()
    }

    /// Applies a new value and stores it; returns notes about it.
    fn change(&self, new: &Assignment, values: &mut Values) -> Applied {
        let mut after = values.clone();
        new.store(&mut after);
        let notes = new.apply(&self.parts, &after)?;
        tracing::info!("{new:?} (was {})", new.previous(values));
        for note in &notes {
            tracing::info!("{new:?}: {note}");
        }
        *values = after;
        Ok(notes)
    }

    /// Applies the exports that the files name now. Other changes of the configuration are only noted.
    fn reload_now(&self, dry_run: bool) -> anyhow::Result<Reloaded> {
        let config = config::resolve(self.options.clone())?;
        let mut specs = export_specs::load(&config, self.squash_to)?;
        specs.notes.extend(self.config.restart_notes(&config));
        specs.notes.extend(self.parts.portmap.check());
        let mut done =
            self.export_loader.reload(&specs, &|table| self.size_exports(table), dry_run)?;
        if dry_run {
            return Ok(done);
        }
        self.parts.audit.reopen();
        if let Some(tls) = &self.tls {
            let noted = tls
                .reload(self)
                .map_err(|error| format!("the previous certificates stay in use: {error}"));
            done.notes.extend(noted.unwrap_or_else(|why| vec![why]));
        }
        Ok(self.after_change(done))
    }

    /// Changes a list of exports.
    fn changed(
        &self,
        change: &ExportChange,
        specs: &mut Vec<ExportSpec>,
    ) -> anyhow::Result<Modified> {
        match change {
            ExportChange::Add { client, path, options } => {
                let (new, notes) = export_changes::parsed(client, path, options)?;
                let new = export_changes::as_served(new, self.config.read_only, self.squash_to);
                let path = Some(new.path.clone());
                export_changes::add(specs, new)?;
                return Ok(Modified { path, notes });
            }
            ExportChange::Remove { client, path } => export_changes::remove(specs, client, path)?,
            ExportChange::RemoveAll => specs.clear(),
            ExportChange::AddConfigured => {
                let config = config::resolve(self.options.clone())?;
                let found = export_specs::load(&config, self.squash_to)?;
                for new in found.specs {
                    export_changes::add(specs, new)?;
                }
                return Ok(Modified { path: None, notes: found.notes });
            }
        }
        Ok(Modified::default())
    }

    /// What follows a change of the exports: Kerberos is switched on or off, and locks in exports that are gone are given
    /// back.
    fn after_change(&self, mut done: Reloaded) -> Reloaded {
        self.parts.kerberos.refresh();
        done.notes.extend(self.parts.kerberos.problem());
        self.parts.nfs.recall_unwanted_delegations();
        let dropped = self.parts.nlm.release_removed_exports();
        if dropped.files > 0 {
            let Taken { files, locks, .. } = dropped;
            done.notes.push(format!("{locks} locks in {files} files of removed exports are gone"));
        }
        done
    }

    /// Serves the exports that had to wait and can be opened now.
    pub fn retry_exports(&self) {
        self.export_loader.retry(&|table| self.size_exports(table));
        self.parts.kerberos.refresh();
    }

    fn size_exports(&self, table: &Table) {
        settings::size_exports(table, &lock(&self.values).buffers());
    }

    /// Whether something that is configured is not served.
    fn is_degraded(&self) -> bool {
        !self.export_loader.waiting().is_empty()
            || !self.export_loader.faults().is_empty()
            || self.parts.kerberos.problem().is_some()
    }

    /// What is said of a state directory that was removed.
    pub fn lost_state_dir(&self) -> String {
        format!(
            "the state directory {} was removed or replaced while the server runs: at its next start clients will have \
             to mount again; move it back to its place, or stop the server before it is moved",
            self.config.state_dir.display()
        )
    }
}

/// Whether clients may have delegations of directories.
fn directory_delegations() -> &'static str {
    if sys::lease::kernel_holds_directories() {
        "the kernel can hold programs back"
    } else {
        "none: the kernel cannot hold programs back (F_SETDELEG, Linux 6.19)"
    }
}

/// An export that is not served now.
fn waiting_row(export: &WaitingExport) -> ExportRow {
    let rules = export_specs::rules_text(&export.spec.rules, &export.spec.shared_options());
    ExportRow {
        path: export_specs::path_text(&export.spec.path),
        directory: export.spec.source.to_string(),
        id: ExportId::of(&export.uuid).0,
        uuid: export::uuid_text(&export.uuid),
        state: "waiting".to_owned(),
        rules: rules.into_iter().map(|(clients, options)| RuleRow { clients, options }).collect(),
        calls: 0,
        errors: 0,
        io_errors: 0,
        bytes_read: 0,
        bytes_written: 0,
        refused: 0,
        last_refusal: None,
    }
}
