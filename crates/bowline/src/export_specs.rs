//! Makes export specs from the configuration's directories and the exports(5) files.
//!
//! `serve`, `reload` and `check` use the same code, so that a checked file is served as checked.

use crate::config::{Dir, ServeConfig};
use crate::exports_files::{self, ExportsFile};
use crate::local_addresses::local_addresses;
use crate::output::UsageError;
use anyhow::{Context, anyhow, bail};
use export::exports_file::parse_onto;
use export::{BuildError, Client, ExportSpec, Network, Options, Rule, Source, Squash};
use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr};
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};

/// Bits of the loopback network's mask (RFC 6890).
const LOOPBACK_BITS: u8 = 8;

/// The user of an unprivileged server, to whom all clients are mapped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServerUser {
    /// User id.
    pub uid: u32,
    /// Group id.
    pub gid: u32,
}

/// The exports of a configuration.
#[derive(Debug, Default)]
pub struct ExportSpecs {
    /// The exports, in order.
    pub specs: Vec<ExportSpec>,
    /// Notes, for example about options without effect, as `file:line:column: text`.
    pub notes: Vec<String>,
    /// What is wrong in exports files, as `file:line:column: text`. The exports concerned are not among `specs`.
    pub faults: Vec<String>,
    /// Where an export is in an exports file, by its path: `file:line`.
    origins: BTreeMap<Vec<u8>, String>,
}

impl ExportSpecs {
    /// Exports that no file names.
    pub fn of(specs: Vec<ExportSpec>, notes: Vec<String>) -> Self {
        Self { specs, notes, ..Self::default() }
    }

    /// Where an export is written, for the front of a message: `file:line: `, or nothing if it is of the command line.
    pub fn origin(&self, path: &[u8]) -> String {
        self.origins.get(path).map_or_else(String::new, |origin| format!("{origin}: "))
    }
}

/// Loads all exports of a configuration. `squash_to` is the user of an unprivileged server. Does not look at the
/// directories.
///
/// # Errors
/// The first error, with its position if it is in a file.
pub fn load(settings: &ServeConfig, squash_to: Option<ServerUser>) -> anyhow::Result<ExportSpecs> {
    let found = load_valid(settings, squash_to)?;
    match found.faults.as_slice() {
        [] => Ok(found),
        [one] => bail!("{one}"),
        [one, more @ ..] => bail!("{one} (and {} more: bowline check)", more.len()),
    }
}

/// The same without the exports whose lines in exports files are wrong.
///
/// # Errors
/// The command line is wrong, or a file cannot be read.
pub fn load_valid(
    settings: &ServeConfig,
    squash_to: Option<ServerUser>,
) -> anyhow::Result<ExportSpecs> {
    let specs = from_directories(settings, squash_to)?;
    let mut wanted = ExportSpecs { specs, ..ExportSpecs::default() };
    from_files(&settings.exports, &mut wanted)?;
    apply_server_wide_options(&mut wanted.specs, settings.read_only, squash_to);
    Ok(wanted)
}

/// The exports of the configuration's directories, before [`apply_server_wide_options`].
///
/// # Errors
/// A wrong client rule.
pub fn from_directories(
    settings: &ServeConfig,
    squash_to: Option<ServerUser>,
) -> anyhow::Result<Vec<ExportSpec>> {
    let rules = rules(settings, squash_to)?;
    settings.dirs.iter().map(|dir| spec(dir, &rules)).collect()
}

/// The rules for directories of the command line.
fn rules(settings: &ServeConfig, squash_to: Option<ServerUser>) -> anyhow::Result<Vec<Rule>> {
    let options = Options {
        read_only: false,
        // clients of an ordinary user cannot use reserved ports either
        secure: squash_to.is_none(),
        ..Options::default()
    };
    if settings.clients.is_empty() {
        return Ok(this_machine().map(|client| Rule::new(client, options)).collect());
    }
    let rule = |client: &String| {
        let client = Client::parse(client)
            .map_err(|e| anyhow!(UsageError(format!("--client {client}: {e}"))))?;
        Ok(Rule::new(client, options))
    };
    settings.clients.iter().map(rule).collect()
}

/// Applies `--read-only` to every rule, and maps all clients to the user of an unprivileged server, which
/// cannot act as anybody else.
pub fn apply_server_wide_options(
    specs: &mut [ExportSpec],
    read_only: bool,
    squash_to: Option<ServerUser>,
) {
    let rules = specs.iter_mut().flat_map(|spec| &mut spec.rules);
    for options in rules.flat_map(Rule::all_options_mut) {
        options.read_only |= read_only;
        if let Some(ServerUser { uid, gid }) = squash_to {
            *options = Options { squash: Squash::All, anonuid: uid, anongid: gid, ..*options };
        }
    }
}

/// Rules for this machine: the loopback networks, and every current address.
fn this_machine() -> impl Iterator<Item = Client> {
    let loopback =
        Network::new(Ipv4Addr::new(127, 0, 0, 0).into(), LOOPBACK_BITS).map(Client::Network);
    let loopback_v6 = Client::Address(std::net::Ipv6Addr::LOCALHOST.into());
    let others = local_addresses().into_iter().filter(|address| !address.is_loopback());
    loopback.into_iter().chain([loopback_v6]).chain(others.map(Client::Address))
}

fn spec(dir: &Dir, rules: &[Rule]) -> anyhow::Result<ExportSpec> {
    let source = match &dir.source {
        Source::Directory(path) => Source::Directory(full_path(path)?),
        scheme @ Source::Scheme { .. } => scheme.clone(),
    };
    let path = match (&dir.name, &source) {
        (Some(name), _) => format!("/{name}").into_bytes(),
        (None, Source::Directory(path)) => path.clone().into_os_string().into_vec(),
        (None, source @ Source::Scheme { .. }) => {
            bail!("{source} needs a name: write NAME={source}")
        }
    };
    Ok(ExportSpec {
        path,
        source,
        rules: rules.to_vec(),
        fsid: None,
        mount_point: None,
        locations: None,
        crossed: false,
    })
}

/// The full path without `.`, `..`, double and trailing slashes. Symbolic links are kept, except in a path
/// with `..`, whose meaning depends on them.
fn full_path(path: &Path) -> anyhow::Result<PathBuf> {
    if path.components().any(|part| part == Component::ParentDir) {
        return path.canonicalize().map_err(|e| directory_error(path, &e));
    }
    let full = std::path::absolute(path).with_context(|| format!("{}", path.display()))?;
    Ok(full.components().collect())
}

/// Adds the exports of exports(5) files, which are read as one.
fn from_files(named: &[PathBuf], wanted: &mut ExportSpecs) -> anyhow::Result<()> {
    let found = exports_files::read_all(named).context("the exports")?;
    wanted.notes.extend(found.notes);
    let mut entries = Vec::new();
    let mut faulty = BTreeSet::new();
    for ExportsFile { path, bytes } in found.files {
        let before = rule_count(&entries);
        let parsed = parse_onto(entries, &bytes);
        let name = path.display();
        wanted.faults.extend(parsed.errors.iter().map(|error| format!("{name}:{error}")));
        faulty.extend(parsed.faulty);
        wanted.notes.extend(parsed.notes.iter().map(|note| format!("{name}:{note}")));
        for (path, line) in parsed.lines {
            wanted.origins.entry(path).or_insert_with(|| format!("{name}:{line}"));
        }
        entries = parsed.entries;
        if rule_count(&entries) == before && parsed.errors.is_empty() {
            wanted.notes.push(no_exports_note(&path));
        }
    }
    entries.retain(|spec| !faulty.contains(&spec.path));
    wanted.specs.extend(entries);
    Ok(())
}

/// The number of rules. Each entry of an exports file has at least one.
pub fn rule_count(specs: &[ExportSpec]) -> usize {
    specs.iter().map(|spec| spec.rules.len()).sum()
}

/// The note about an exports file without an export.
pub fn no_exports_note(path: &Path) -> String {
    format!("{} names no export", path.display())
}

/// Checks that the directory of an export exists and that this user can list it.
///
/// # Errors
/// What is wrong with it, and what to do.
pub fn check_directory(spec: &ExportSpec) -> anyhow::Result<()> {
    let Source::Directory(path) = &spec.source else { return Ok(()) };
    spec.check_mount_point()?;
    let meta = std::fs::metadata(path).map_err(|e| directory_error(path, &e))?;
    if !meta.is_dir() {
        bail!("{} is not a directory: name the directory that contains it", path.display());
    }
    std::fs::read_dir(path).map(|_| ()).map_err(|e| directory_error(path, &e))
}

fn directory_error(path: &Path, error: &std::io::Error) -> anyhow::Error {
    let shown = path.display();
    match error.kind() {
        ErrorKind::NotFound => match name_before_colon(path) {
            Some(named) => anyhow!(
                "{shown} does not exist: to serve a directory under another name, write NAME=DIR, here {named}"
            ),
            None => anyhow!("{shown} does not exist: make the directory, or name another"),
        },
        ErrorKind::PermissionDenied => {
            anyhow!("no permission for {shown}: run this as root or as the directory's owner")
        }
        ErrorKind::NotADirectory => anyhow!("{shown}: a part of the path is not a directory"),
        _ => anyhow!("cannot serve {shown}: {error}"),
    }
}

/// `NAME=DIR` for what was written as `/srv:/data` or `host:/data`.
fn name_before_colon(path: &Path) -> Option<String> {
    let (before, dir) = path.to_str()?.split_once(":/")?;
    let name = before.rsplit('/').next().filter(|name| !name.is_empty())?;
    Some(format!("{name}=/{dir}"))
}

/// The first of several errors, and the number of the others. Conflicting exports are a [`UsageError`].
pub fn first_error<E: std::fmt::Display>(errors: &[BuildError<E>]) -> anyhow::Error {
    let Some(one) = errors.first() else { return anyhow!("the exports cannot be applied") };
    let more = match errors.len() - 1 {
        0 => String::new(),
        more => format!(" (and {more} more)"),
    };
    let error = format!("{one}{more}");
    match one {
        BuildError::SamePath { .. }
        | BuildError::SameIdentity { .. }
        | BuildError::TooMany { .. } => UsageError(error).into(),
        BuildError::Identity(_) | BuildError::Open { .. } => anyhow!(error),
    }
}

/// The path as text.
pub fn path_text(path: &[u8]) -> String {
    String::from_utf8_lossy(path).into_owned()
}

/// Rules as text: clients and options, clients with the same options together. Options that apply to the export
/// (`shared`, [`ExportSpec::shared_options`]), which may be written with one client, are printed with all.
pub fn rules_text(rules: &[Rule], shared: &str) -> Vec<(String, String)> {
    let mut groups: Vec<(String, Vec<&Client>)> = Vec::new();
    for rule in rules {
        let options = rule.options_text();
        match groups.iter_mut().find(|(known, _)| *known == options) {
            Some((_, clients)) => clients.push(&rule.client),
            None => groups.push((options, vec![&rule.client])),
        }
    }
    let own = local_addresses();
    let text = |(options, clients): (String, Vec<&Client>)| {
        (clients_text(&clients, &own), options + shared)
    };
    groups.into_iter().map(text).collect()
}

fn clients_text(clients: &[&Client], own: &[IpAddr]) -> String {
    let is_loopback_network = |client: &&Client| client.to_string() == "127.0.0.0/8";
    let is_own = |client: &&Client| match client {
        Client::Address(address) => address.is_loopback() || own.contains(address),
        _ => is_loopback_network(client),
    };
    // some of its addresses are not the machine
    let has_both = clients.iter().any(is_loopback_network)
        && clients.iter().any(|client| client.to_string() == "::1");
    if has_both && clients.iter().all(is_own) {
        return "this machine".to_owned();
    }
    clients.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::{ServerUser, load, rules_text};
    use crate::cli::{Cli, Command};
    use crate::config::{ServeConfig, resolve};
    use clap::Parser;
    use export::Squash;
    use export::exports_file::{EXPORT_OPTIONS, parse_onto};

    fn settings(line: &[&str]) -> ServeConfig {
        match Cli::try_parse_from(line).unwrap().command {
            Command::Serve(options) => resolve(*options).unwrap(),
            other => unreachable!("{other:?}"),
        }
    }

    #[test]
    fn a_directory_is_mounted_by_its_path_or_its_name() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().to_str().unwrap();
        let named = format!("x={path}/");
        let slashes = format!("{path}//./");
        let found = load(&settings(&["bowline", "serve", &slashes, &named, "m=mem:"]), None);
        let specs = found.unwrap().specs;
        assert_eq!(specs[0].path, path.as_bytes());
        assert_eq!(specs[1].path, b"/x");
        assert_eq!(specs[0].source, specs[1].source);
        assert_eq!(specs[2].path, b"/m");
        let rule = &specs[0].rules[0];
        assert_eq!(rule.client.to_string(), "127.0.0.0/8");
        assert_eq!(rules_text(&specs[0].rules, "")[0].0, "this machine");
        assert!(rule.options.secure && !rule.options.read_only);
        assert_eq!(rule.options.squash, Squash::Root);
    }

    #[test]
    fn single_loopback_addresses_are_printed_unchanged() {
        for client in ["127.0.0.5", "::1", "127.0.0.0/8"] {
            let line = format!("/x {client}(ro)\n");
            let parsed = parse_onto(Vec::new(), line.as_bytes());
            assert_eq!(rules_text(&parsed.entries[0].rules, "")[0].0, client);
        }
    }

    #[test]
    fn an_unprivileged_server_maps_all_clients_to_its_user() {
        let user = Some(ServerUser { uid: 7, gid: 8 });
        let specs = load(&settings(&["bowline", "serve", "m=mem:"]), user).unwrap().specs;
        let options = specs[0].rules[0].options;
        assert_eq!((options.squash, options.anonuid, options.anongid), (Squash::All, 7, 8));
    }

    #[test]
    fn read_only_applies_to_all_exports() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("exports");
        std::fs::write(&file, "/tmp *(rw,no_root_squash) 10.0.0.1(rw)\n").unwrap();
        let line = ["bowline", "serve", "m=mem:", "--exports", file.to_str().unwrap()];
        let rules = |line: &[&str], user| -> Vec<_> {
            let specs = load(&settings(line), user).unwrap().specs;
            specs.into_iter().flat_map(|spec| spec.rules).map(|rule| rule.options).collect()
        };
        assert!(rules(&line, None).iter().all(|options| !options.read_only));
        let line = [&line[..], &["--read-only"]].concat();
        assert!(rules(&line, None).iter().all(|options| options.read_only));
        assert!(rules(&line, None).iter().any(|options| options.squash == Squash::None));
        let user = Some(ServerUser { uid: 7, gid: 8 });
        let mapped = |options: &export::Options| {
            options.read_only && (options.squash, options.anonuid) == (Squash::All, 7)
        };
        assert!(rules(&line, user).iter().all(mapped));
    }

    #[test]
    fn every_option_with_an_effect_is_printed() {
        let spec = |options: &str| {
            let parsed = parse_onto(Vec::new(), format!("/x *({options})\n").as_bytes());
            assert_eq!(parsed.errors, [], "{options}");
            parsed.entries.into_iter().next().unwrap()
        };
        let plain = spec("ro");
        let mut seen = Vec::new();
        for option in EXPORT_OPTIONS.iter().filter(|option| option.has_effect()) {
            let written = match option.value {
                None => option.name.to_owned(),
                Some("auto|0|SIZE") => format!("{}=64K", option.name),
                Some("PATH") => format!("{}=/mnt", option.name),
                Some("FLAVOUR[:FLAVOUR]...") => format!("{}=sys", option.name),
                Some("off|read|write") => format!("{}=read", option.name),
                Some("strict|any") => format!("{}=strict", option.name),
                Some("on|off") => format!("{}=on", option.name),
                Some("none:tls:mtls") => format!("{}=tls:mtls", option.name),
                Some("sha256:DIGITS") => format!("{}=sha256:{}", option.name, "5a".repeat(32)),
                Some(value) if value.contains("PATH@HOST") => format!("{}=/a@b", option.name),
                Some(_) => format!("{}=7", option.name),
            };
            let spec = spec(&written);
            let shown = rules_text(&spec.rules, &spec.shared_options());
            let words: Vec<&str> = shown[0].1.split(',').collect();
            if (&spec.rules, spec.shared_options()) != (&plain.rules, plain.shared_options()) {
                // an option that is another name of one is printed as that
                let name = option.about.strip_prefix("Same as ").unwrap_or(&written);
                assert!(words.contains(&name), "{written}: {shown:?}");
                seen.push(option.name);
            }
        }
        assert_eq!(seen.len(), 27, "{seen:?}");
    }

    #[test]
    fn errors_name_the_client_or_the_file() {
        let line = ["bowline", "serve", "m=mem:", "--client", "10.0.0.0/99"];
        let error = load(&settings(&line), None).unwrap_err().to_string();
        assert!(error.contains("--client 10.0.0.0/99"), "{error}");
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("exports");
        std::fs::write(&file, "/tmp *(rw)\n/tmp/x *(rw,fast,slow)\n").unwrap();
        let line = ["bowline", "serve", "--exports", file.to_str().unwrap()];
        let error = load(&settings(&line), None).unwrap_err().to_string();
        assert!(error.contains("exports:2:") && error.contains("1 more"), "{error}");
        let line = ["bowline", "serve", "--exports", "/no/such/file"];
        let error = format!("{:#}", load(&settings(&line), None).unwrap_err());
        assert!(error.contains("/no/such/file"), "{error}");
    }
}
