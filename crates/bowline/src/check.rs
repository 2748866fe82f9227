//! `bowline check FILE…`: prints exports and their clients, notes, and errors with their position.
//!
//! It rejects everything that `serve` would reject: both use [`export_specs`].

mod for_host;

use crate::config::{self, FileError, ServeConfig};
use crate::exports_files::{self, ExportsFile, ExportsFiles};
use crate::output::{USAGE_STATUS, UsageError};
use crate::serve_options::ServeOptions;
use crate::{export_specs, output};
use anyhow::Context;
use export::exports_file::parse_onto;
use export::{Client, ExportSpec, Identity, Table};
use std::collections::BTreeSet;
use std::fmt::{Display, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};
use vfs::Backend;
use vfs_mem::{MemFs, MemOptions};

/// How long client names are looked up in all. A name service that does not answer takes seconds for each.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(10);

/// Checks files; with a host, prints also what it gets. The exit status is 0 if they are valid, else
/// [`USAGE_STATUS`], as for `serve`.
pub fn check(paths: &[PathBuf], for_host: Option<&str>) -> anyhow::Result<ExitCode> {
    let host = for_host.map(for_host::find).transpose()?;
    let found = exports_files::read_all(paths).map_err(|error| UsageError::of(&error))?;
    let mut report = Report { host, ..Report::default() };
    let named = |file: &&ExportsFile| paths.contains(&file.path);
    let mut files = found.files.iter().filter(named);
    match files.find(|file| is_configuration(&file.path, &file.bytes)) {
        Some(file) if paths.len() == 1 => configuration(&file.path, &mut report)?,
        Some(file) => {
            let what = "is a configuration file: check it alone; it names its own exports files";
            return Err(UsageError(format!("{} {what}", file.path.display())).into());
        }
        None => {
            let mut specs = exports(found, &mut report);
            export_specs::apply_server_wide_options(&mut specs, false, None);
            report.exports(&specs)?;
        }
    }
    report.verdict(paths)
}

/// Whether a file is a configuration: by its name, else by its first line. An export begins with a path, a
/// configuration with a key or a table.
fn is_configuration(path: &Path, bytes: &[u8]) -> bool {
    if path.extension().is_some_and(|ending| ending == "toml") {
        return true;
    }
    let text = String::from_utf8_lossy(bytes);
    let mut lines = text.lines().map(str::trim);
    let first = lines.find(|line| !line.is_empty() && !line.starts_with('#'));
    first.is_some_and(|line| {
        let key = line.split('=').next().unwrap_or_default().trim_end();
        let bare = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        line.starts_with('[') || (line.contains('=') && !key.is_empty() && key.chars().all(bare))
    })
}

/// The exports of all files; notes and errors go to the report.
fn exports(found: ExportsFiles, report: &mut Report) -> Vec<ExportSpec> {
    for note in found.notes {
        report.note(note);
    }
    let mut entries = Vec::new();
    for ExportsFile { path, bytes } in found.files {
        let before = export_specs::rule_count(&entries);
        let parsed = parse_onto(entries, &bytes);
        let name = path.display().to_string();
        for note in &parsed.notes {
            report.note(note.shown(&name, &bytes));
        }
        for error in &parsed.errors {
            report.error(error.shown(&name, &bytes));
        }
        entries = parsed.entries;
        if export_specs::rule_count(&entries) == before && parsed.errors.is_empty() {
            report.note(export_specs::no_exports_note(&path));
        }
    }
    entries
}

fn configuration(path: &Path, report: &mut Report) -> anyhow::Result<()> {
    let options = ServeOptions { config: Some(path.to_path_buf()), ..ServeOptions::default() };
    let name = path.display();
    let settings = match config::resolve(options) {
        Ok(settings) => settings,
        Err(error) => {
            match error.downcast_ref::<FileError>() {
                Some(place) => report.error(format!("{place}\n{}", place.caret())),
                None => report.error(format!("{name}: {error:#}")),
            }
            return Ok(());
        }
    };
    report.settings(&settings);
    let mut specs = match export_specs::from_directories(&settings, None) {
        Ok(specs) => specs,
        Err(error) => {
            report.error(format!("{name}: {error:#}"));
            Vec::new()
        }
    };
    let found = exports_files::read_all(&settings.exports).context("the key exports");
    specs.extend(exports(found.map_err(|error| UsageError::of(&error))?, report));
    export_specs::apply_server_wide_options(&mut specs, settings.read_only, None);
    report.exports(&specs)
}

/// The result: exports and notes are printed at the end, errors at once.
#[derive(Default)]
struct Report {
    /// The host of `--for-host`.
    host: Option<for_host::Host>,
    exports: String,
    /// What the host gets.
    rights: String,
    notes: String,
    errors: usize,
    /// How many exports there are.
    count: usize,
}

impl Report {
    fn note(&mut self, text: impl Display) {
        let _ = writeln!(self.notes, "note: {text}");
    }

    fn error(&mut self, text: impl Display) {
        output::print_error(text);
        self.errors += 1;
    }

    fn settings(&mut self, settings: &ServeConfig) {
        let at: Vec<String> = settings.listen.iter().map(ToString::to_string).collect();
        let (state, control) = (settings.state_dir.display(), settings.control.display());
        let _ = writeln!(self.exports, "listens on {} port {}", at.join(", "), settings.port);
        let _ = writeln!(self.exports, "state in {state}, control socket {control}");
    }

    /// Adds the exports, and checks that their directories exist and that no two exports conflict.
    fn exports(&mut self, specs: &[ExportSpec]) -> anyhow::Result<()> {
        self.count = specs.len();
        self.rights = self.host.as_ref().map(|host| host.rights(specs)).unwrap_or_default();
        for spec in specs {
            self.spec(spec);
            if let Err(error) = export_specs::check_directory(spec) {
                self.error(error);
            }
        }
        self.unknown_clients(specs);
        let identity = Identity::ephemeral()?;
        let open = |_: &ExportSpec| -> anyhow::Result<Arc<dyn Backend>> {
            Ok(Arc::new(MemFs::new(MemOptions::default())))
        };
        if let Err(errors) = Table::build(specs, &identity, &open, None) {
            for error in errors {
                self.error(error);
            }
        }
        Ok(())
    }

    /// Notes host names without an address: misspelled, or the name service does not answer.
    fn unknown_clients(&mut self, specs: &[ExportSpec]) {
        let rules = specs.iter().flat_map(|spec| &spec.rules);
        let hosts: BTreeSet<&str> = rules
            .filter_map(|rule| match &rule.client {
                Client::Host(name) => Some(name.as_str()),
                _ => None,
            })
            .collect();
        let begun = Instant::now();
        for (done, host) in hosts.iter().enumerate() {
            if begun.elapsed() > LOOKUP_TIMEOUT {
                let left = hosts.len() - done;
                return self.note(format!(
                    "{left} client names were not looked up: the name service is slow"
                ));
            }
            match sys::name_service::addresses_of(host) {
                Ok(addresses) if addresses.is_empty() => {
                    self.note(format!(
                        "the client {host} has no address: no client can match that name"
                    ));
                }
                Ok(_) => {}
                Err(error) => self.note(format!("the client {host} cannot be looked up: {error}")),
            }
        }
    }

    fn spec(&mut self, spec: &ExportSpec) {
        let (path, directory) = (export_specs::path_text(&spec.path), spec.source.to_string());
        let out = &mut self.exports;
        let _ = match path == directory {
            true => writeln!(out, "{path}"),
            false => writeln!(out, "{path} ({directory})"),
        };
        for (clients, options) in export_specs::rules_text(&spec.rules, &spec.shared_options()) {
            let _ = writeln!(out, "  to {clients} ({options})");
        }
    }

    fn verdict(self, paths: &[PathBuf]) -> anyhow::Result<ExitCode> {
        let Self { exports, rights, notes, errors, count, host: _ } = self;
        let verdict = match (errors, count) {
            (0, 1) => "OK, 1 export".to_owned(),
            (0, count) => format!("OK, {count} exports"),
            (1, _) => "1 error".to_owned(),
            (errors, _) => format!("{errors} errors"),
        };
        let names: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
        output::print(format!("{exports}{rights}{notes}{}: {verdict}\n", names.join(" ")))?;
        Ok(if errors == 0 { ExitCode::SUCCESS } else { ExitCode::from(USAGE_STATUS) })
    }
}

#[cfg(test)]
mod tests {
    use super::is_configuration;
    use std::path::Path;

    #[test]
    fn configurations_and_exports_files_are_distinguished() {
        let seen = |name: &str, text: &str| is_configuration(Path::new(name), text.as_bytes());
        assert!(seen("a.toml", "/tmp *(rw)"));
        assert!(seen("config", "# hello\n\nport = 3\n"));
        assert!(seen("config", "[set]\nthreads = 3\n"));
        assert!(!seen("exports", "# hello\n/tmp *(rw,fsid=3)\n"));
        assert!(!seen("exports", "\"/a b\" *(rw,fsid=3)\n"));
        assert!(!seen("exports", ""));
    }
}
