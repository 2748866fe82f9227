//! `bowline explain`: which export, rule, squashing and permission bits decide what a client and a user may do.
//!
//! Follows the steps of MNT and of the first calls after it, in their order, and stops at the first that is refused. The
//! rule is found by asking the name services anew, not from the cache that calls use. The look-ups in the file
//! system run on a thread of their own and are given up after [`FILE_SYSTEM_TIMEOUT`], so that a file system that hangs
//! costs a thread and no answer; at most [`WALKS_MAX`] such threads.

mod path;
mod proof;
mod steps;

use super::parts::ServerParts;
use crate::config;
use crate::export_specs::{self, ServerUser};
use crate::serve_options::ServeOptions;
use admin::Refused;
use admin::api::{ExplainQuestion, Explanation};
use export::{
    ClientRules, Export, GroupList, NameService, NotServed, Options, ResolvedRule, Rule, Source,
    Squash, SystemNameService, Table,
};
use nfs::mount::normalise;
use path::{User, walk};
use rpc::{AuthSys, Certificate, Credential};
use std::net::IpAddr;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::Duration;
use steps::{Steps, Stop};

/// How long the file system has for the look-ups.
const FILE_SYSTEM_TIMEOUT: Duration = Duration::from_secs(5);
/// The most threads that look up paths at once, those of hung file systems included.
const WALKS_MAX: usize = 4;
/// The most groups of a user that are looked up, as for `manage-gids`.
const GROUPS_MAX: usize = 1024;
/// Ports below this one take a privilege to use.
const RESERVED_END: u16 = 1024;

/// Threads that look up paths now.
static WALKS: AtomicUsize = AtomicUsize::new(0);

/// The server that is asked about.
pub struct Served<'s> {
    /// Its exports.
    pub parts: &'s ServerParts,
    /// What it was started with, to find the lines of exports files.
    pub options: &'s ServeOptions,
    /// Without privileges: the user that everybody is mapped to.
    pub squash_to: Option<ServerUser>,
}

/// Explains what a client, and a user of it, may do with a path.
///
/// # Errors
/// [`Refused`]: the question names no client or no path.
pub fn explain(server: &Served<'_>, question: &ExplainQuestion) -> Result<Explanation, Refused> {
    let client = client_address(&question.client)?;
    let path = normalise(question.path.as_bytes())
        .ok_or_else(|| Refused(format!("{}: a path begins with /", question.path)))?;
    let mut steps = Steps::default();
    let allowed = follow(server, question, client, &path, &mut steps).is_ok();
    Ok(Explanation { allowed, steps: steps.into_list() })
}

/// An address, or the first of a name.
fn client_address(client: &str) -> Result<IpAddr, Refused> {
    let bare = client.strip_prefix('[').and_then(|c| c.strip_suffix(']')).unwrap_or(client);
    if let Ok(address) = bare.parse::<IpAddr>() {
        return Ok(address.to_canonical());
    }
    let found = SystemNameService.addresses_of(client);
    let found = found.map_err(|e| Refused(format!("{client}: name service error: {e}")))?;
    let first = found.first().map(IpAddr::to_canonical);
    first.ok_or_else(|| Refused(format!("{client}: this name has no address")))
}

fn follow(
    server: &Served<'_>,
    question: &ExplainQuestion,
    client: IpAddr,
    path: &[u8],
    steps: &mut Steps,
) -> Result<(), Stop> {
    // a copy: the table is not held while name services and file systems are asked
    let (export, below) = {
        let table = server.parts.exports.load();
        find_export(&table, path, steps)?
    };
    describe_export(server, &export, steps);
    let certificate = proof::certificate(question);
    let rule = find_rule(&export, client, certificate.as_ref(), steps)?;
    if !proof::is_certified(question) {
        check_port(&rule.options, question.port, steps)?;
    }
    proof::check_transport(&rule.options, question, steps)?;
    let kerberos = &server.parts.kerberos;
    let (flavor, options) = proof::check_flavour(&rule, question, kerberos, steps)?;
    let user = match &question.principal {
        Some(name) => Some(proof::user_of_principal(options, (name, flavor), kerberos, steps)?),
        None => question.uid.map(|uid| squashed(options, uid, &question.gids, steps)),
    };
    look_up(export, below, user, options.read_only, steps)
}

/// The export of a path of a client, or of a directory of this machine, and the path below it.
fn find_export(
    table: &Table,
    path: &[u8],
    steps: &mut Steps,
) -> Result<(Arc<Export>, Vec<u8>), Stop> {
    let shown = String::from_utf8_lossy(path).into_owned();
    match table.by_path(path) {
        Ok((export, below)) => return Ok((Arc::clone(export), below.to_vec())),
        Err(NotServed::Waiting) => {
            let text = format!(
                "{shown}: its export is not served now; `bowline status` says why, and clients are told to try again"
            );
            return Err(steps.no("export", text));
        }
        Err(NotServed::NoExport) => {}
    }
    let local = PathBuf::from(std::ffi::OsString::from_vec(path.to_vec()));
    let inside = |export: &&Arc<Export>| match &export.source {
        Source::Directory(dir) => local.starts_with(dir),
        Source::Scheme { .. } => false,
    };
    let depth = |export: &&Arc<Export>| match &export.source {
        Source::Directory(dir) => dir.as_os_str().len(),
        Source::Scheme { .. } => 0,
    };
    let Some(export) = table.exports().iter().filter(inside).max_by_key(depth) else {
        let text = format!(
            "{shown} is not in any export: add it to an exports file, then `bowline reload`; `bowline exports` lists what is served"
        );
        return Err(steps.no("export", text));
    };
    let Source::Directory(dir) = &export.source else { return Err(Stop) };
    let below = local.strip_prefix(dir).map(|rest| rest.as_os_str().as_bytes().to_vec());
    let name = export.path_text();
    steps.note("export", format!("{shown} is a path of this machine; clients mount {name}"));
    Ok((Arc::clone(export), below.unwrap_or_default()))
}

/// The export, and where it is written.
fn describe_export(server: &Served<'_>, export: &Export, steps: &mut Steps) {
    let config = config::resolve(server.options.clone());
    let specs = config.and_then(|config| export_specs::load_valid(&config, server.squash_to));
    let origin = specs.map(|specs| specs.origin(&export.path)).unwrap_or_default();
    let directory = export.source.to_string();
    let name = export.path_text();
    let of = if directory == name { String::new() } else { format!(" ({directory})") };
    steps.ok("export", format!("{origin}{name}{of}"));
}

/// The rule that applies to the client, by the name services as they answer now.
fn find_rule(
    export: &Export,
    client: IpAddr,
    certificate: Option<&Certificate>,
    steps: &mut Steps,
) -> Result<Rule, Stop> {
    let names = match SystemNameService.names_of(client) {
        Ok(names) if !names.is_empty() => format!("{client} ({})", names.join(", ")),
        Ok(_) => format!("{client} (no name resolves back to this address)"),
        Err(error) => format!("{client} (its name cannot be looked up: {error})"),
    };
    let rules = ClientRules::new(export.rules().to_vec());
    let ResolvedRule { rule, failed } = rules.resolve(&SystemNameService, client);
    if failed {
        steps.note(
            "client",
            "a name service did not answer: rules by name and netgroup count as no match",
        );
    }
    let certified =
        certificate.and_then(|certificate| rules.resolve_certified(client, certificate));
    match certified.or(rule).and_then(|index| export.rules().get(index)) {
        Some(rule) => {
            let text = format!("{names}: the rule for {} ({})", rule.client, rule.options_text());
            steps.ok("client", text);
            Ok(rule.clone())
        }
        None => {
            let rules = export.client_names().join(" ");
            let text = format!(
                "{names}: no rule of the export is for it (they are for {rules}); add one, then `bowline reload`"
            );
            Err(steps.no("client", text))
        }
    }
}

fn check_port(options: &Options, port: Option<u16>, steps: &mut Steps) -> Result<(), Stop> {
    match port {
        _ if !options.secure => steps.ok("port", "any (insecure)"),
        Some(port) if port < RESERVED_END => steps.ok("port", format!("{port} is below 1024")),
        Some(port) => {
            let text = format!(
                "{port} is not below 1024: mount as root, or give the export the option insecure"
            );
            return Err(steps.no("port", text));
        }
        None => steps.note(
            "port",
            "has to be below 1024 (secure), as with mount(8) of root; address translation and user-space clients need insecure",
        ),
    }
    Ok(())
}

/// The user and groups that calls act as.
fn squashed(options: &Options, uid: u32, gids: &[u32], steps: &mut Steps) -> User {
    let known = sys::name_service::groups_of(uid, GROUPS_MAX).ok().flatten();
    let from_here = gids.is_empty() || options.manage_gids;
    let groups = if from_here { known.clone().unwrap_or_default() } else { gids.to_vec() };
    let (gid, others) = match groups.split_first() {
        Some((gid, others)) => (*gid, others),
        None => (options.anongid, &[][..]),
    };
    let shown: Vec<String> = groups.iter().map(u32::to_string).collect();
    let whose = match (from_here, known.is_some()) {
        (false, _) => "as given",
        (true, true) if options.manage_gids => "as this machine knows them (manage-gids)",
        (true, true) => "as this machine knows them; calls have those that the client sends",
        (true, false) => "none: this machine does not know the user",
    };
    let text = format!("user {uid} with groups {} ({whose})", shown.join(", "));
    let listed = GroupList::mapped(others, |gid| options.squash_group(gid));
    let user = AuthSys::new(b"", uid, gid, &[]).map(|sys| {
        let credential = Credential::Sys(sys);
        let squashed = options.squash(&credential, Some(listed));
        let cred = squashed.cred();
        User { uid: cred.uid, gid: cred.gid, groups: cred.groups.to_vec() }
    });
    let user =
        user.unwrap_or(User { uid: options.anonuid, gid: options.anongid, groups: Vec::new() });
    if (user.uid, user.gid) == (uid, gid) {
        steps.ok("user", text);
    } else {
        let why = match options.squash {
            Squash::All => "all_squash",
            Squash::Root | Squash::None => "root_squash; no_root_squash lets root be root",
        };
        steps.note("user", format!("{text} acts as {}:{} ({why})", user.uid, user.gid));
    }
    user
}

/// Follows the path in bounded time.
fn look_up(
    export: Arc<Export>,
    below: Vec<u8>,
    user: Option<User>,
    read_only: bool,
    steps: &mut Steps,
) -> Result<(), Stop> {
    if WALKS.fetch_add(1, Ordering::Relaxed) >= WALKS_MAX {
        WALKS.fetch_sub(1, Ordering::Relaxed);
        return Err(steps.no("path", "too many other explanations are waiting for file systems"));
    }
    let (done, found) = sync_channel(1);
    let started = std::thread::Builder::new().name("explain".into()).spawn(move || {
        let mut walked = Steps::default();
        let ended = walk(export.backend.as_ref(), &below, user.as_ref(), read_only, &mut walked);
        WALKS.fetch_sub(1, Ordering::Relaxed);
        let _ = done.send((walked, ended));
    });
    if let Err(error) = started {
        WALKS.fetch_sub(1, Ordering::Relaxed);
        return Err(steps.no("path", format!("no thread can be started: {error}")));
    }
    match found.recv_timeout(FILE_SYSTEM_TIMEOUT) {
        Ok((walked, ended)) => {
            steps.append(walked);
            ended
        }
        Err(RecvTimeoutError::Timeout) => Err(steps.no(
            "path",
            "the file system has not answered for 5 seconds; `bowline status` shows what hangs",
        )),
        Err(RecvTimeoutError::Disconnected) => Err(steps.no("path", "the look-up failed")),
    }
}
