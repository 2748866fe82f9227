//! The options of exports(5): one table names, documents and applies each, or says why it has no
//! effect. Options that are not in the table are errors.

use super::Parsed;
use super::lexer::Word;
use super::sec::{Access, SecGroups};
use super::suggestion::nearest_name;
use crate::buffer_options::BufferSize;
use crate::client_rules::Rule;
use crate::clients::Client;
use crate::export::Fsid;
use crate::fs_locations::{FsLocations, LocationKind};
use crate::identity::parse_uuid;
use crate::options::Options;
use crate::xprtsec::{CertificatePattern, XprtsecModes};
use std::ffi::OsString;
use std::ops::Range;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use vfs::Durability;

/// The options that were read so far.
#[derive(Debug, Clone, Default)]
pub struct OptionSet {
    options: Options,
    sec: SecGroups,
    /// `tls-name=` and `tls-fingerprint=`.
    pub certificate: CertificatePattern,
    /// `fsid=`.
    pub fsid: Option<Fsid>,
    /// `mountpoint`.
    pub mount_point: Option<MountPoint>,
    /// `refer=` or `replicas=`.
    pub locations: Option<FsLocations>,
}

/// The required mount point of an export.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MountPoint {
    /// The export's own directory.
    Export,
    /// This directory.
    Other(PathBuf),
}

impl OptionSet {
    /// The rule of a client.
    pub fn rule(&self, client: Client) -> Rule {
        let (options, other_flavors) = self.sec.options(self.options);
        Rule { client, options, other_flavors, certificate: self.certificate.clone() }
    }
}

/// The outcome of one option.
enum Applied {
    /// It is applied.
    Whole,
    /// It is accepted, but not or not fully applied, for this reason.
    Noted(String),
    Wrong(String),
}

/// Parses the options in a range of a word, on top of `defaults`.
pub fn parse(
    word: &Word,
    range: Range<usize>,
    defaults: OptionSet,
    parsed: &mut Parsed,
) -> OptionSet {
    let mut set = OptionSet { sec: defaults.sec.into_defaults(), ..defaults };
    let mut at = range.start;
    let mut sec_at = at;
    for option in word.bytes().get(range).unwrap_or_default().split(|b| *b == b',') {
        if !option.is_empty() {
            let shown = option.escape_ascii().to_string();
            if option.starts_with(b"sec=") {
                sec_at = at;
            }
            match set.apply(option, &shown) {
                Applied::Whole => {}
                Applied::Noted(why) => parsed.note(word, at, why),
                Applied::Wrong(why) => parsed.error(word, at, why),
            }
        }
        at = at.saturating_add(option.len()).saturating_add(1);
    }
    match set.sec.end() {
        Ok(None) => {}
        Ok(Some(note)) => parsed.note(word, sec_at, note),
        Err(why) => parsed.error(word, sec_at, why),
    }
    set
}

/// An option, for documentation and for the parser.
pub struct ExportOption {
    /// Its name, without its value.
    pub name: &'static str,
    /// The description of its value, if it has one.
    pub value: Option<&'static str>,
    /// Its effect, or why it has none.
    pub about: &'static str,
    apply: Apply,
}

impl ExportOption {
    /// Whether it has an effect.
    pub const fn has_effect(&self) -> bool {
        !matches!(self.apply, Apply::Nothing | Apply::Ignored)
    }

    /// Whether it can be written without its value.
    pub const fn value_is_optional(&self) -> bool {
        matches!(self.apply, Apply::OptionalValue(_))
    }
}

/// The effect of an option.
enum Apply {
    Switch(fn(&mut OptionSet)),
    /// An effect that may differ between the flavours of `sec=`.
    Access(fn(&mut Access)),
    /// An effect of its value; returns a note, or an error about the value.
    Value(fn(&mut OptionSet, &[u8]) -> Result<Option<String>, String>),
    /// The same for an option that can be written without a value, which is then empty.
    OptionalValue(fn(&mut OptionSet, &[u8]) -> Result<Option<String>, String>),
    /// None: it is the only supported behaviour.
    Nothing,
    /// None, with a note.
    Ignored,
}

const fn switch(
    name: &'static str,
    about: &'static str,
    apply: fn(&mut OptionSet),
) -> ExportOption {
    ExportOption { name, value: None, about, apply: Apply::Switch(apply) }
}

const fn access(name: &'static str, about: &'static str, apply: fn(&mut Access)) -> ExportOption {
    ExportOption { name, value: None, about, apply: Apply::Access(apply) }
}

const fn valued(
    (name, value): (&'static str, &'static str),
    about: &'static str,
    apply: fn(&mut OptionSet, &[u8]) -> Result<Option<String>, String>,
) -> ExportOption {
    ExportOption { name, value: Some(value), about, apply: Apply::Value(apply) }
}

const fn ignored(name: &'static str, about: &'static str) -> ExportOption {
    ExportOption { name, value: None, about, apply: Apply::Ignored }
}

const fn nothing(name: &'static str, about: &'static str) -> ExportOption {
    ExportOption { name, value: None, about, apply: Apply::Nothing }
}

const TREE: &str = "filehandles are authenticated, and not checked against the tree: a file that is moved out of the \
                    export remains accessible through its filehandle";
const GATHERED: &str = "writes are gathered by the page cache";
const LOCATIONS: &str = "PATH@HOST[+HOST]...[:PATH@HOST[+HOST]...]...";
/// The most of `attr-cache`: later, changes by programs of this machine would pass for lost.
const ATTR_CACHE_MAX_MS: u32 = 60_000;
const ONLY: &str = "the only behaviour of this version";

/// All options.
pub const EXPORT_OPTIONS: [ExportOption; 46] = [
    access("ro", "Read-only; the default", |access| access.read_only = true),
    access("rw", "Clients may read and write", |access| access.read_only = false),
    switch("sync", "Replies are sent after changes are on disk; the default", |set| {
        set.options.durability = Durability::Sync;
    }),
    switch(
        "async",
        "Replies are sent before changes are on disk: a power failure can lose them",
        |set| {
            set.options.durability = Durability::Async;
        },
    ),
    switch("secure", "Clients must use ports below 1024; the default", |set| {
        set.options.secure = true;
    }),
    switch("insecure", "Clients may use any port", |set| set.options.secure = false),
    access(
        "root_squash",
        "Map uid 0 and gid 0 to the anonymous user and group; the default",
        |access| {
            access.root_squash = true;
        },
    ),
    access("no_root_squash", "Root on a client is root on the server", |access| {
        access.root_squash = false
    }),
    access("all_squash", "Map all users and groups to the anonymous user and group", |access| {
        access.all_squash = true;
    }),
    access("no_all_squash", "Do not map all users; the default", |access| {
        access.all_squash = false
    }),
    ExportOption {
        name: "sec",
        value: Some("FLAVOUR[:FLAVOUR]..."),
        about: "The accepted security flavours, in order of preference: sys (or unix), none (or null), \
                krb5, krb5i and krb5p; Kerberos needs a keytab (setting keytab). The default is sys:none. \
                Calls with other flavours are refused. ro, rw, root_squash, no_root_squash, all_squash and \
                no_all_squash after a sec= apply to its flavours only, up to the next sec=; before the first they \
                apply to all: sec=sys,ro,sec=krb5i,rw,no_root_squash. Flavours that this server does not \
                implement (lkey, spkm3) are ignored, with the ro, rw and squash options that follow them",
        apply: Apply::Value(|set, value| {
            let not_served = set.sec.begin(value)?;
            Ok((!not_served.is_empty())
                .then(|| format!("{not_served} is not supported by this version; ignored")))
        }),
    },
    valued(
        ("xprtsec", "none:tls:mtls"),
        "The accepted transport security: none, TLS (RPC-with-TLS), or mTLS (with a client certificate); one or more, \
         by default all. Other calls are refused. MNT of version 3 is always accepted, because clients send it \
         without TLS",
        |set, value| {
            set.options.xprtsec = XprtsecModes::parse(value)?;
            Ok(None)
        },
    ),
    valued(
        ("tls-name", "NAME"),
        "The rule applies only to clients whose certificate has this name; * and ? are wildcards; may be repeated. Of \
         several rules for a client, those that match its certificate come first",
        |set, value| {
            set.certificate.add_name(value)?;
            Ok(None)
        },
    ),
    valued(
        ("tls-fingerprint", "sha256:DIGITS"),
        "The rule applies only to the client whose certificate has this SHA-256 fingerprint; may be repeated",
        |set, value| {
            set.certificate.add_fingerprint(value)?;
            Ok(None)
        },
    ),
    valued(("anonuid", "UID"), "The anonymous user, by number [65534]", |set, value| {
        set.options.anonuid = id(value).ok_or("the value is not a user id; write a number")?;
        Ok(None)
    }),
    valued(("anongid", "GID"), "The anonymous group, by number [65534]", |set, value| {
        set.options.anongid = id(value).ok_or("the value is not a group id; write a number")?;
        Ok(None)
    }),
    valued(
        ("fsid", "NUMBER|UUID|root"),
        "The identity of the export in filehandles, which makes them valid on every server with the same fsid; the \
         default is derived from its path. 0 or root also makes it the root of version 4",
        |set, value| {
            set.fsid = Some(parse_fsid(value).ok_or("write a number, a UUID or root")?);
            Ok(None)
        },
    ),
    ExportOption {
        name: "mountpoint",
        value: Some("PATH"),
        about: "Serve the export only while PATH (by default the export's directory) is a mount point; otherwise \
                it is an error, so that the directory below an unmounted file system is never served",
        apply: Apply::OptionalValue(mount_point),
    },
    ExportOption {
        name: "mp",
        value: Some("PATH"),
        about: "Same as mountpoint",
        apply: Apply::OptionalValue(mount_point),
    },
    switch(
        "manage-gids",
        "Look up a user's groups on the server instead of using the up to 16 groups sent by the client",
        |set| set.options.manage_gids = true,
    ),
    switch("no-manage-gids", "Use the groups sent by the client; the default", |set| {
        set.options.manage_gids = false
    }),
    switch("manage_gids", "Same as manage-gids", |set| set.options.manage_gids = true),
    switch("no_manage_gids", "Same as no-manage-gids", |set| set.options.manage_gids = false),
    valued(
        ("tcp-rcvbuf", "auto|0|SIZE"),
        "Minimum receive buffer of connections that use the export",
        |set, value| {
            set.options.buffers.receive = buffer(value)?;
            Ok(None)
        },
    ),
    valued(
        ("tcp-sndbuf", "auto|0|SIZE"),
        "Minimum send buffer of connections that use the export",
        |set, value| {
            set.options.buffers.send = buffer(value)?;
            Ok(None)
        },
    ),
    valued(
        ("attr-cache", "MILLISECONDS"),
        "The server may answer GETATTR, ACCESS, LOOKUP, READDIR and READDIRPLUS with attributes and names that it has read \
         up to so many milliseconds before, at most 60000, without asking the file system again. Changes by NFS clients, \
         of all versions, are seen at once. Changes by programs of this machine, or by another server of the same file \
         system, are seen so much later, also by clients that open a file after such a program has closed it, and \
         permissions that were taken away there still hold so long: only for directories that nobody else changes. \
         A file that such a program has made or renamed is missing in listings, or there by its old name, as long. \
         Do not use it where local programs, other file servers or containers write to the directory, or where the files are on a \
         shared or network file system. Directories of more than about 600 names are listed by the file system each time. \
         Times of access may be as old. READ, and the attributes that an OPEN of version 4 returns, are never old, and \
         delegations hold. 0, the default, asks each time",
        |set, value| {
            let age_ms = std::str::from_utf8(value).ok().and_then(|text| text.parse::<u32>().ok());
            set.options.attr_cache_ms = age_ms
                .filter(|age_ms| *age_ms <= ATTR_CACHE_MAX_MS)
                .ok_or_else(|| format!("write milliseconds, 0 to {ATTR_CACHE_MAX_MS}"))?;
            Ok(None)
        },
    ),
    nothing("no_pnfs", ONLY),
    nothing("no_security_label", ONLY),
    ignored("subtree_check", TREE),
    nothing("no_subtree_check", TREE),
    ignored("wdelay", GATHERED),
    ignored("no_wdelay", GATHERED),
    switch("acl", "Clients can read and set POSIX ACLs; the default", |set| set.options.acl = true),
    switch(
        "no_acl",
        "Clients see only the mode and cannot read or set ACLs; the ACLs are still \
         enforced",
        |set| set.options.acl = false,
    ),
    switch(
        "auth_nlm",
        "Locking a file with NLM requires read permission or ownership; the default",
        |set| {
            set.options.auth_nlm = true;
        },
    ),
    switch("no_auth_nlm", "Any user may lock files with NLM", |set| {
        set.options.auth_nlm = false;
    }),
    switch("secure_locks", "Same as auth_nlm", |set| set.options.auth_nlm = true),
    switch("insecure_locks", "Same as no_auth_nlm", |set| set.options.auth_nlm = false),
    switch(
        "crossmnt",
        "Include the file systems that are mounted below the export; without this option, clients see the \
         directories that they are mounted on",
        |set| set.options.crossmnt = true,
    ),
    switch(
        "nohide",
        "Clients of versions 2 and 3 can reach this export through the export that contains it; \
         version 4 clients always can",
        |set| set.options.nohide = true,
    ),
    switch("hide", "The opposite of nohide; the default", |set| set.options.nohide = false),
    valued(
        ("refer", LOCATIONS),
        "The export is elsewhere: clients of version 4 that come to it mount the path on one of these hosts instead, in \
         order of preference. An IPv6 address is written in brackets. The directory must exist; clients of versions 2 \
         and 3 use it itself. Holds for all clients of the export",
        |set, value| locations(set, LocationKind::Referral, value),
    ),
    valued(
        ("replicas", LOCATIONS),
        "Clients of version 4 that ask where else the export is get these locations, written as for refer. Nothing is \
         replicated by this server. Holds for all clients of the export",
        |set, value| locations(set, LocationKind::Replicas, value),
    ),
    valued(
        ("utf8", "strict|any"),
        "strict: version 4 refuses names that are not UTF-8; any (the default): names are arbitrary bytes",
        |set, value| {
            set.options.utf8_names = match value {
                b"strict" => true,
                b"any" => false,
                _ => return Err("write strict or any".to_owned()),
            };
            Ok(None)
        },
    ),
    valued(
        ("delegations", "off|read|write"),
        "Which delegations clients of version 4 get here, whatever the setting delegations says (bowline-settings(7))",
        |set, value| {
            let wanted = std::str::from_utf8(value).ok().and_then(|word| word.parse().ok());
            set.options.delegations = Some(wanted.ok_or("write off, read or write")?);
            Ok(None)
        },
    ),
    valued(
        ("preserve-unlinked", "on|off"),
        "Whether files that are open over version 4 outlive their last name and a restart of the server here, in the hidden \
         directory .bowline-open, whatever the setting preserve-unlinked says (bowline-settings(7))",
        |set, value| {
            set.options.preserve_unlinked = match value {
                b"on" => Some(true),
                b"off" => Some(false),
                _ => return Err("write on or off".to_owned()),
            };
            Ok(None)
        },
    ),
];

impl OptionSet {
    fn apply(&mut self, option: &[u8], shown: &str) -> Applied {
        let named = |name: &[u8]| EXPORT_OPTIONS.iter().find(|row| row.name.as_bytes() == name);
        let equals = option.iter().position(|byte| *byte == b'=');
        let (name, value) = option.split_at(equals.unwrap_or(option.len()));
        let row = named(option).or_else(|| named(name).filter(|row| row.value.is_some()));
        let Some(row) = row else { return Applied::Wrong(unknown_option(name, shown)) };
        match (&row.apply, value.split_first()) {
            (Apply::Switch(apply), _) => apply(self),
            (Apply::Access(apply), _) => {
                if !self.sec.apply(*apply) {
                    return Applied::Noted(format!(
                        "{shown} is ignored together with the sec= before it"
                    ));
                }
            }
            (Apply::Nothing, _) => {}
            (Apply::Ignored, _) => {
                let why = row.about;
                return Applied::Noted(format!("{shown} is accepted and has no effect: {why}"));
            }
            (Apply::Value(_), None) => {
                let what = row.value.unwrap_or_default();
                return Applied::Wrong(format!("{shown} requires a value: {shown}={what}"));
            }
            (Apply::Value(apply) | Apply::OptionalValue(apply), value) => {
                let value = value.map_or(&[][..], |(_, value)| value);
                return match apply(self, value) {
                    Ok(None) => Applied::Whole,
                    Ok(Some(note)) => Applied::Noted(format!("{shown}: {note}")),
                    Err(why) => Applied::Wrong(format!("{shown}: {why}")),
                };
            }
        }
        Applied::Whole
    }
}

/// The error about an option that is not in the table.
fn unknown_option(name: &[u8], shown: &str) -> String {
    match name {
        b"pnfs" | b"security_label" | b"nordirplus" => {
            format!("{shown} is not supported by this version: remove it")
        }
        _ => match nearest_name(name, EXPORT_OPTIONS.iter().map(|option| option.name)) {
            Some(meant) => format!("unknown option {shown}: did you mean {meant}?"),
            None => format!("unknown option {shown}"),
        },
    }
}

/// The directory of `mountpoint`.
fn mount_point(set: &mut OptionSet, value: &[u8]) -> Result<Option<String>, String> {
    set.mount_point = Some(match value.first() {
        None => MountPoint::Export,
        Some(b'/') => MountPoint::Other(PathBuf::from(OsString::from_vec(value.to_vec()))),
        Some(_) => return Err("write the full path of the mount point".to_owned()),
    });
    Ok(None)
}

/// The locations of `refer` or `replicas`.
fn locations(
    set: &mut OptionSet,
    kind: LocationKind,
    value: &[u8],
) -> Result<Option<String>, String> {
    if set.locations.as_ref().is_some_and(|known| known.kind != kind) {
        return Err("an export has either refer or replicas".to_owned());
    }
    set.locations = Some(FsLocations::parse(kind, value)?);
    Ok(None)
}

fn buffer(value: &[u8]) -> Result<BufferSize, String> {
    String::from_utf8_lossy(value).parse::<BufferSize>().map_err(|error| error.to_string())
}

fn id(value: &[u8]) -> Option<u32> {
    std::str::from_utf8(value).ok().and_then(parse_id)
}

/// A user or group id. Negative numbers are taken modulo 2^32, as nfs-utils does (-2 was nobody);
/// -1 is not an id.
fn parse_id(text: &str) -> Option<u32> {
    match text.parse::<i64>().ok()? {
        n @ 0..=0xffff_fffe => u32::try_from(n).ok(),
        n @ -0x8000_0000..=-2 => i32::try_from(n).ok().map(i32::cast_unsigned),
        _ => None,
    }
}

fn parse_fsid(value: &[u8]) -> Option<Fsid> {
    if value == b"root" {
        return Some(Fsid::Number(0));
    }
    let number = std::str::from_utf8(value).ok().and_then(|text| text.parse::<u32>().ok());
    number.map(Fsid::Number).or_else(|| parse_uuid(value).map(Fsid::Uuid))
}
