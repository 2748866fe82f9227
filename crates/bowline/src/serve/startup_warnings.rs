//! Warnings for the operator about how a server was started: shown at the start and by `bowline status`.

use super::export_opener::PATIENCE;
use super::listen_addresses::ListenAddresses;
use super::{limit_warnings, process_info};
use crate::config::ServeConfig;
use crate::export_specs::{self, ExportSpecs, ServerUser};
use export::{ExportSpec, Exports, Options, Rule, Source, Squash};
use std::os::fd::AsFd;
use std::path::Path;
use sys::identity::Namespace;

/// All warnings, with the notes about the exports files first.
pub fn all(
    config: &ServeConfig,
    listen: &ListenAddresses,
    squash_to: Option<ServerUser>,
    found: &ExportSpecs,
    exports: &Exports,
) -> Vec<String> {
    let mut warnings = found.notes.clone();
    let specs = &served(found, exports);
    warnings.extend(squash_to.map(unprivileged));
    warnings.extend(squash_to.and_then(|user| local_users(config, user)));
    warnings.extend(no_clients(config, listen));
    if listen.all().iter().all(|at| at.port() != config.port) {
        warnings.push("systemd's sockets are used; --listen and --port have no effect".to_owned());
    }
    warnings.extend(limit_warnings::all(config.values.memory.0));
    warnings.extend(about_directories(config, specs));
    warnings.extend(squash_to.is_none().then(|| unmapped_anonymous_user(specs)).flatten());
    warnings
}

/// The exports that are served. Of the others nothing is known, and looking at them may take for ever.
fn served(found: &ExportSpecs, exports: &Exports) -> Vec<ExportSpec> {
    let table = exports.load();
    let is_served = |spec: &&ExportSpec| table.exports().iter().any(|e| e.path == spec.path);
    found.specs.iter().filter(is_served).cloned().collect()
}

/// What has to be looked up in the file systems, in bounded time: one may have begun to hang.
fn about_directories(config: &ServeConfig, specs: &[ExportSpec]) -> Vec<String> {
    let (sender, receiver) = std::sync::mpsc::channel();
    let (config, specs) = (config.clone(), specs.to_vec());
    let look = move || {
        let all = [exported_state_dir(&config, &specs), no_journal(&specs), overlayfs(&specs)];
        // nobody is left if it took too long
        let _ = sender.send(all);
    };
    let started = std::thread::Builder::new().name("export-opener".into()).spawn(look);
    let found = started.ok().and_then(|_| receiver.recv_timeout(PATIENCE).ok());
    found.into_iter().flatten().flatten().collect()
}

fn unprivileged(server: ServerUser) -> String {
    let user = process_info::user_name(server.uid);
    let remedy = match server.uid {
        0 => "map more users into its user namespace (/etc/subuid and /etc/subgid)",
        _ => "run it as root",
    };
    format!(
        "not privileged: all clients act as {user}, owners cannot be changed and device nodes cannot be \
         made; {remedy} to act as each client's own user"
    )
}

fn local_users(config: &ServeConfig, server: ServerUser) -> Option<String> {
    let applies = config.clients.is_empty() && !config.dirs.is_empty();
    applies.then(|| {
        let user = process_info::user_name(server.uid);
        format!("any local user who can send NFS calls acts as {user} in the exports")
    })
}

fn no_clients(config: &ServeConfig, listen: &ListenAddresses) -> Option<String> {
    let applies = !listen.is_local() && config.clients.is_empty() && !config.dirs.is_empty();
    applies.then(|| {
        "other machines can reach the server, but only this one may mount the directories of the command \
         line: name other clients with --client"
            .to_owned()
    })
}

/// Whether a client could read the key of file handles through an export.
fn exported_state_dir(config: &ServeConfig, specs: &[ExportSpec]) -> Option<String> {
    let state = config.state_dir.canonicalize().ok()?;
    let contains = |dir: &Path| dir.canonicalize().is_ok_and(|dir| state.starts_with(dir));
    let inside = specs.iter().find(|spec| directory(spec).is_some_and(contains))?;
    Some(format!(
        "the state directory {} is inside the export {}: clients that act as its owner can read the key \
         of all file handles; move it with --state-dir",
        state.display(),
        export_specs::path_text(&inside.path)
    ))
}

/// Whether clients are squashed to a user that the user namespace does not have.
fn unmapped_anonymous_user(specs: &[ExportSpec]) -> Option<String> {
    let namespace = Namespace::look();
    let mut rules = specs.iter().flat_map(|spec| &spec.rules).flat_map(Rule::all_options);
    let lacks = |o: &Options| o.squash != Squash::None && !namespace.have(o.anonuid, o.anongid);
    let Options { anonuid, anongid, .. } = rules.find(|options| lacks(options))?;
    Some(format!(
        "squashed clients act as user {anonuid} and group {anongid}, which this user namespace does not \
         have, so their calls fail: map more ids (/etc/subuid and /etc/subgid), or choose others with \
         anonuid= and anongid= in an exports file"
    ))
}

/// Whether a power cut can lose files that were answered as created.
fn no_journal(specs: &[ExportSpec]) -> Option<String> {
    let lacks = |spec: &&ExportSpec| {
        directory(spec).is_some_and(|dir| {
            std::fs::File::open(dir).is_ok_and(|dir| vfs_local::lacks_journal(dir.as_fd()))
        })
    };
    let promises = |spec: &&ExportSpec| {
        spec.rules.iter().any(|rule| rule.options.durability == vfs::Durability::Sync)
    };
    let mut without = specs.iter().filter(promises).filter(lacks);
    let first = export_specs::path_text(&without.next()?.path);
    let more = match without.count() {
        0 => String::new(),
        more => format!(" (and {more} more)"),
    };
    Some(format!(
        "{first}{more} is on ext4 without a journal: a power cut can lose new files even after a sync; \
         `tune2fs -j` adds a journal while the file system is not mounted"
    ))
}

/// Whether an export is on overlayfs, where files do not keep their identity.
fn overlayfs(specs: &[ExportSpec]) -> Option<String> {
    let overlay = |spec: &&ExportSpec| {
        directory(spec).is_some_and(|dir| {
            std::fs::File::open(dir).is_ok_and(|dir| vfs_local::is_overlay(dir.as_fd()))
        })
    };
    Some(format!(
        "{} is on overlayfs, where a file of a lower layer becomes another file when it is first changed: \
         clients then get stale file handles; export a volume of the container instead",
        export_specs::path_text(&specs.iter().find(overlay)?.path)
    ))
}

fn directory(spec: &ExportSpec) -> Option<&Path> {
    match &spec.source {
        Source::Directory(dir) => Some(dir),
        Source::Scheme { .. } => None,
    }
}
