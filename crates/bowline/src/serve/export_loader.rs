//! Loads the exports that are in force: opens them at the start, changes them at a reload, and serves those that
//! had to wait as soon as they can be opened.
//!
//! At the start each export is served that can be; the others are errors in the log and wait. A reload applies all
//! or nothing; only an export that does not answer holds nothing up: it waits, or is served as before.
//!
//! `configured` is locked by whoever changes the exports, for as long as opening them may take, which is bounded
//! ([`super::export_opener`]). `shown` holds what the operator is told and is locked for a copy. Calls take neither.

use super::crossed_exports::{find_junctions, open_crossed};
use super::crossed_mounts;
use super::export_opener::{ExportOpener, OpenBackend, OpenJob};
use crate::export_specs::{self, ExportSpecs};
use crate::output::UsageError;
use admin::api::{Reloaded, WaitingExport};
use anyhow::anyhow;
use export::{BuildError, ExportSpec, Exports, Identity, Opened, Table, WaitReason};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// Sets what exports take from the settings.
pub type SizeExports<'s> = &'s dyn Fn(&Table);

/// The exports in force, and those that wait.
pub struct ExportLoader {
    /// The exports in force.
    pub exports: Arc<Exports>,
    identity: Arc<Identity>,
    opener: ExportOpener,
    configured: Mutex<Vec<ExportSpec>>,
    shown: Mutex<Shown>,
    /// The hash of the list of mounts that the exports in force were made with.
    mounts_hash: AtomicU64,
    lost_state_dir: AtomicBool,
}

/// What the operator is told.
#[derive(Default)]
struct Shown {
    /// Lines of exports files that were left out.
    faults: Vec<String>,
    /// Since when an export, by its path, has been waiting.
    since: BTreeMap<Vec<u8>, Instant>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ExportLoader {
    /// Opens the exports. Each that cannot be served is an error in the log.
    ///
    /// # Errors
    /// None can be served, and none will be without a change of the configuration.
    pub fn start(
        found: &ExportSpecs,
        identity: Arc<Identity>,
        open: OpenBackend,
    ) -> anyhow::Result<Self> {
        reserve(&identity, &found.specs)?;
        let opener = ExportOpener::new(open);
        let opened = opener.open_all(&jobs(&found.specs, &identity, None, false)?);
        let mut opened: Vec<_> = found.specs.iter().cloned().zip(opened).collect();
        let crossed = open_crossed(&opener, &found.specs, &identity, None);
        opened.extend(crossed.opened);
        let (table, conflicts) = Table::assemble::<anyhow::Error>(opened, &identity, None);
        if let Some(conflict) = conflicts.iter().find(|error| is_of_command_line(found, error)) {
            return Err(UsageError(conflict.to_string()).into());
        }
        if table.exports().is_empty() {
            none_is_served(found, &table, &conflicts)?;
        }
        let mut faults = found.faults.clone();
        faults.extend(conflicts.iter().map(ToString::to_string));
        for fault in &faults {
            tracing::error!("{fault}");
        }
        for export in table.waiting() {
            let path = export_specs::path_text(&export.spec.path);
            let origin = found.origin(&export.spec.path);
            let retry = "; it will be served when it can be opened";
            tracing::error!("{origin}{path} is not served: {}{retry}", export.reason);
        }
        find_junctions(&table);
        let loader = Self {
            mounts_hash: AtomicU64::new(crossed.mounts_hash),
            exports: Arc::new(Exports::new(table)),
            identity,
            opener,
            configured: Mutex::new(found.specs.clone()),
            shown: Mutex::new(Shown { faults, since: BTreeMap::new() }),
            lost_state_dir: AtomicBool::new(false),
        };
        loader.note_waiting();
        Ok(loader)
    }

    /// Whether all configured exports are served; if not, what was left out.
    pub fn faults(&self) -> Vec<String> {
        lock(&self.shown).faults.clone()
    }

    /// The exports that wait.
    pub fn waiting(&self) -> Vec<WaitingExport> {
        let shown = lock(&self.shown);
        let table = self.exports.load();
        let row = |export: &export::WaitingExport| WaitingExport {
            path: export_specs::path_text(&export.spec.path),
            directory: export.spec.source.to_string(),
            reason: export.reason.to_string(),
            waiting_s: shown.since.get(&export.spec.path).map_or(0, |at| at.elapsed().as_secs()),
        };
        table.waiting().iter().map(row).collect()
    }

    /// Looks for the state directory; whether it is still there. Waits for its file system.
    pub fn check_state_dir(&self) -> bool {
        let is_there = self.identity.is_in_place();
        self.lost_state_dir.store(!is_there, Relaxed);
        is_there
    }

    /// Whether the state directory was missing when it was looked for last.
    pub fn has_lost_state_dir(&self) -> bool {
        self.lost_state_dir.load(Relaxed)
    }

    /// Lets another server use the state directory.
    pub fn release_state_dir(&self) {
        self.identity.release();
    }

    /// Applies exports: all, or none. With `dry_run` nothing is changed, and the answer says what would be.
    ///
    /// # Errors
    /// What is wrong with the new exports.
    pub fn reload(
        &self,
        found: &ExportSpecs,
        size: SizeExports<'_>,
        dry_run: bool,
    ) -> anyhow::Result<Reloaded> {
        let mut configured = lock(&self.configured);
        let done = self.apply(&mut configured, found, size, dry_run, None)?;
        if !dry_run {
            lock(&self.shown).faults.clear();
        }
        Ok(done)
    }

    /// Changes the exports in force: `change` gets their list, and the path that it returns, if any, has to be served
    /// afterwards. What could not be served before may wait on.
    ///
    /// # Errors
    /// Why nothing was changed: `change` failed, or the export of the path cannot be opened.
    pub fn modify(
        &self,
        change: impl FnOnce(&mut Vec<ExportSpec>) -> anyhow::Result<Modified>,
        size: SizeExports<'_>,
    ) -> anyhow::Result<Reloaded> {
        let mut configured = lock(&self.configured);
        let mut specs = configured.clone();
        let Modified { path, notes } = change(&mut specs)?;
        let found = ExportSpecs::of(specs, notes);
        self.apply(&mut configured, &found, size, false, Some(path.as_deref()))
    }

    /// Replaces the exports in force. `changed`: only the export of this path has to be served, or none.
    fn apply(
        &self,
        configured: &mut Vec<ExportSpec>,
        found: &ExportSpecs,
        size: SizeExports<'_>,
        dry_run: bool,
        changed: Option<Option<&[u8]>>,
    ) -> anyhow::Result<Reloaded> {
        let provisional = self.identity.provisional();
        let identity = if dry_run { &provisional } else { &*self.identity };
        reserve(identity, &found.specs)?;
        let old = self.exports.load();
        let jobs = jobs(&found.specs, identity, Some(&old), dry_run)?;
        let results = self.opener.open_all(&jobs);
        refuse_failed(found, &results, changed)?;
        let mut notes = found.notes.clone();
        let mut opened = Vec::new();
        for (job, result) in jobs.iter().zip(results) {
            opened.push((job.spec.clone(), kept(job, result, &mut notes)));
        }
        let crossed = open_crossed(&self.opener, &found.specs, identity, Some(&old));
        opened.extend(crossed.opened);
        let (table, conflicts) = Table::assemble::<anyhow::Error>(opened, identity, Some(&old));
        if !conflicts.is_empty() {
            return Err(export_specs::first_error(&conflicts));
        }
        let changes = export::table_changes(&old, &table);
        let exports = table.exports().len() as u64;
        drop(old);
        if !dry_run {
            size(&table);
            find_junctions(&table);
            self.exports.replace(table);
            self.mounts_hash.store(crossed.mounts_hash, Relaxed);
            self.opener.retain(&jobs);
            configured.clone_from(&found.specs);
            self.note_waiting();
        }
        Ok(Reloaded { changes, exports, notes })
    }

    /// Serves what can be opened now and could not before, and what was mounted below an export that crosses. To be called
    /// every few seconds.
    pub fn retry(&self, size: SizeExports<'_>) {
        let configured = lock(&self.configured);
        let old = self.exports.load();
        let has_mounts = crossed_mounts::is_wanted(&configured)
            && crossed_mounts::hash_of(&crossed_mounts::read()) != self.mounts_hash.load(Relaxed);
        if old.waiting().is_empty() && !has_mounts {
            return;
        }
        let waiting: Vec<ExportSpec> = old.waiting().iter().map(|w| w.spec.clone()).collect();
        let Ok(jobs) = jobs(&waiting, &self.identity, None, false) else { return };
        let mut results: BTreeMap<Vec<u8>, Opened> =
            waiting.iter().map(|spec| spec.path.clone()).zip(self.opener.open_all(&jobs)).collect();
        let is_new = |opened: &Opened| matches!(opened, Opened::Backend(_));
        if !results.values().any(is_new) && !has_mounts {
            return;
        }
        let current = |spec: &ExportSpec| {
            let served = old.exports().iter().find(|export| export.path == spec.path);
            let served = served.map(|export| Opened::Backend(Arc::clone(&export.backend)));
            Some((spec.clone(), served.or_else(|| results.remove(&spec.path))?))
        };
        let mut opened: Vec<_> = configured.iter().filter_map(current).collect();
        let crossed = open_crossed(&self.opener, &configured, &self.identity, Some(&old));
        self.mounts_hash.store(crossed.mounts_hash, Relaxed);
        opened.extend(crossed.opened);
        let (table, _conflicts) =
            Table::assemble::<anyhow::Error>(opened, &self.identity, Some(&old));
        for line in export::table_changes(&old, &table) {
            tracing::info!("{line}");
        }
        drop(old);
        size(&table);
        find_junctions(&table);
        self.exports.replace(table);
        self.note_waiting();
    }

    fn note_waiting(&self) {
        let table = self.exports.load();
        let mut shown = lock(&self.shown);
        let mut since = BTreeMap::new();
        for export in table.waiting() {
            let path = &export.spec.path;
            let at = shown.since.get(path).copied().unwrap_or_else(Instant::now);
            since.insert(path.clone(), at);
        }
        shown.since = since;
    }
}

/// What [`ExportLoader::modify`] is told of a change.
#[derive(Debug, Default)]
pub struct Modified {
    /// The path of the export that has to be served afterwards.
    pub path: Option<Vec<u8>>,
    /// Notes for the operator.
    pub notes: Vec<String>,
}

/// What was opened, or what is served already if its file system does not answer now.
fn kept(job: &OpenJob, result: Opened, notes: &mut Vec<String>) -> Opened {
    let path = export_specs::path_text(&job.spec.path);
    match (result, &job.known) {
        (Opened::Waiting(reason), Some(known)) => {
            notes.push(format!("{path}: {reason}; the previous export stays in use"));
            Opened::Backend(Arc::clone(known))
        }
        (Opened::Waiting(reason), None) => {
            notes.push(format!("{path}: {reason}; it will be served when it answers"));
            Opened::Waiting(reason)
        }
        (opened @ Opened::Backend(_), _) => opened,
    }
}

/// Gives all exports without `fsid` an identity, which are stored together.
fn reserve(identity: &Identity, specs: &[ExportSpec]) -> anyhow::Result<()> {
    let without = specs.iter().filter(|spec| spec.fsid.is_none());
    Ok(identity.reserve(without.map(|spec| spec.path.as_slice()))?)
}

/// What has to be opened; what `old` serves keeps its back end.
fn jobs(
    specs: &[ExportSpec],
    identity: &Identity,
    old: Option<&Table>,
    check_only: bool,
) -> anyhow::Result<Vec<OpenJob>> {
    let job = |spec: &ExportSpec| {
        let known = match old {
            Some(old) => old.backend_of(spec, identity)?,
            None => None,
        };
        Ok(OpenJob { spec: spec.clone(), uuid: spec.uuid(identity)?, known, check_only })
    };
    specs.iter().map(job).collect()
}

/// The error of a start if nothing is served and nothing will be: the directories of the command line are missing,
/// or every line of the exports files is wrong. A directory of an exports file may appear later.
fn none_is_served(
    found: &ExportSpecs,
    table: &Table,
    conflicts: &[BuildError<anyhow::Error>],
) -> anyhow::Result<()> {
    let from_file = |path: &[u8]| !found.origin(path).is_empty();
    let may_come = |export: &&export::WaitingExport| {
        export.reason == WaitReason::NoAnswer || from_file(&export.spec.path)
    };
    if table.waiting().iter().any(|export| may_come(&export)) {
        return Ok(());
    }
    if let Some(fault) = found.faults.first() {
        return Err(UsageError(fault.clone()).into());
    }
    if !conflicts.is_empty() {
        return Err(export_specs::first_error(conflicts));
    }
    match table.waiting() {
        [] => Ok(()),
        [one] => Err(UsageError(one.reason.to_string()).into()),
        [one, more @ ..] => {
            Err(UsageError(format!("{} (and {} more)", one.reason, more.len())).into())
        }
    }
}

/// Whether an export of the command line conflicts with another: somebody is there to be told.
fn is_of_command_line(found: &ExportSpecs, error: &BuildError<anyhow::Error>) -> bool {
    match error {
        BuildError::SamePath { path } | BuildError::SameIdentity { path, .. } => {
            found.origin(path.as_bytes()).is_empty()
        }
        BuildError::Identity(_) | BuildError::TooMany { .. } => true,
        BuildError::Open { .. } => false,
    }
}

/// Fails if one of the exports could not be opened; after a change of one export, only if it is that one.
fn refuse_failed(
    found: &ExportSpecs,
    results: &[Opened],
    changed: Option<Option<&[u8]>>,
) -> anyhow::Result<()> {
    let failed = |(spec, result): (&ExportSpec, &Opened)| match result {
        _ if changed.is_some_and(|path| path != Some(spec.path.as_slice())) => None,
        Opened::Waiting(WaitReason::Failed(text)) => {
            Some(format!("{}{text}", found.origin(&spec.path)))
        }
        Opened::Waiting(WaitReason::NoAnswer) | Opened::Backend(_) => None,
    };
    let mut all = found.specs.iter().zip(results).filter_map(failed);
    let Some(first) = all.next() else { return Ok(()) };
    Err(match all.count() {
        0 => anyhow!(first),
        more => anyhow!("{first} (and {more} more)"),
    })
}
