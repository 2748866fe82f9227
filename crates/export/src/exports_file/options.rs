//! The options of exports(5): one table names, documents and applies each, or says why it has no
//! effect. Options that are not in the table are errors.

use super::Parsed;
use super::lexer::Word;
use super::sec::{Access, SecGroups};
use super::suggestion::nearest_name;
use crate::buffer_options::BufferSize;
use crate::export::Fsid;
use crate::identity::parse_uuid;
use crate::options::{Options, Squash};
use crate::xprtsec::{CertificatePattern, ChannelSet};
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
    /// The access options of a client.
    pub const fn options(&self) -> Options {
        let Access { read_only, root_squash, all_squash } = self.sec.access;
        let squash = match (all_squash, root_squash) {
            (true, _) => Squash::All,
            (false, true) => Squash::Root,
            (false, false) => Squash::None,
        };
        Options { read_only, squash, flavors: self.sec.flavors(), ..self.options }
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
    let mut set = OptionSet { sec: defaults.sec.as_defaults(), ..defaults };
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
    if let Err(why) = set.sec.end() {
        parsed.error(word, sec_at, why);
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

const TREE: &str = "handles are sealed and not looked for in the tree: a file that is moved out of the \
                    export stays reachable by its handle";
const GATHERED: &str = "writes are gathered by the page cache";
const ONLY: &str = "there is nothing else in this version";

/// All options.
pub const EXPORT_OPTIONS: [ExportOption; 41] = [
    access("ro", "Nobody may change anything; the default", |access| access.read_only = true),
    access("rw", "Clients may read and write", |access| access.read_only = false),
    switch("sync", "What is answered as done is on disk; the default", |set| {
        set.options.durability = Durability::Sync;
    }),
    switch(
        "async",
        "Answers before it is on disk: a power cut may take what was answered",
        |set| {
            set.options.durability = Durability::Async;
        },
    ),
    switch("secure", "Clients come from ports below 1024; the default", |set| {
        set.options.secure = true;
    }),
    switch("insecure", "Clients may come from any port", |set| set.options.secure = false),
    access("root_squash", "User and group 0 act as the anonymous ones; the default", |access| {
        access.root_squash = true;
    }),
    access("no_root_squash", "Root of a client is root here", |access| access.root_squash = false),
    access("all_squash", "Everybody acts as the anonymous user and group", |access| {
        access.all_squash = true;
    }),
    access("no_all_squash", "Not so; the default", |access| access.all_squash = false),
    ExportOption {
        name: "sec",
        value: Some("FLAVOUR[:FLAVOUR]..."),
        about: "The security flavours that calls may have, the preferred first: sys (or unix), none (or null), \
                and krb5, krb5i, krb5p, for which the server needs a keytab (setting keytab); sys and none without \
                this option. Calls of other flavours are refused. Flavours that this server does not have (lkey, \
                spkm3) are left out, with the ro, rw and squash options that follow them",
        apply: Apply::Value(|set, value| {
            let not_served = set.sec.begin(value)?;
            Ok((!not_served.is_empty())
                .then(|| format!("this version has no {not_served}; left out")))
        }),
    },
    valued(
        ("xprtsec", "none:tls:mtls"),
        "What protects the calls: none, RPC with TLS, or TLS with a certificate of the client; one or more of them, \
         all without this option. Calls in other ways are refused. MNT of version 3 is not concerned, as clients send it \
         in the clear",
        |set, value| {
            set.options.channels = ChannelSet::parse(value)?;
            Ok(None)
        },
    ),
    valued(
        ("tls-name", "NAME"),
        "Only for clients whose certificate has this name, with * and ? for what may differ; may be repeated. Of \
         several rules for a client, those for its certificate come first",
        |set, value| {
            set.certificate.add_name(value)?;
            Ok(None)
        },
    ),
    valued(
        ("tls-fingerprint", "sha256:DIGITS"),
        "Only for the client with the certificate of this SHA-256; may be repeated",
        |set, value| {
            set.certificate.add_fingerprint(value)?;
            Ok(None)
        },
    ),
    valued(("anonuid", "UID"), "The anonymous user, by number [65534]", |set, value| {
        set.options.anonuid = id(value).ok_or("the value is no user id; write a number")?;
        Ok(None)
    }),
    valued(("anongid", "GID"), "The anonymous group, by number [65534]", |set, value| {
        set.options.anongid = id(value).ok_or("the value is no group id; write a number")?;
        Ok(None)
    }),
    valued(
        ("fsid", "NUMBER|UUID|root"),
        "What the export is known by in handles, on every server that has it; else its path. 0, or root, makes \
         it the root of version 4",
        |set, value| {
            set.fsid = Some(parse_fsid(value).ok_or("write a number, a UUID or root")?);
            Ok(None)
        },
    ),
    ExportOption {
        name: "mountpoint",
        value: Some("PATH"),
        about: "Only while PATH, or without it the export's directory, is a mount point: else it is an \
                error, so that the directory under a file system that is not mounted is never served",
        apply: Apply::OptionalValue(mount_point),
    },
    ExportOption {
        name: "mp",
        value: Some("PATH"),
        about: "As mountpoint",
        apply: Apply::OptionalValue(mount_point),
    },
    switch(
        "manage-gids",
        "A user's groups are those that this machine knows, instead of the client's sixteen",
        |set| set.options.manage_gids = true,
    ),
    switch("no-manage-gids", "Not so; the default", |set| set.options.manage_gids = false),
    switch("manage_gids", "As manage-gids", |set| set.options.manage_gids = true),
    switch("no_manage_gids", "As no-manage-gids", |set| set.options.manage_gids = false),
    valued(
        ("tcp-rcvbuf", "auto|0|SIZE"),
        "Least receive buffer of the connections that use the export",
        |set, value| {
            set.options.buffers.receive = buffer(value)?;
            Ok(None)
        },
    ),
    valued(
        ("tcp-sndbuf", "auto|0|SIZE"),
        "Least send buffer of the connections that use the export",
        |set, value| {
            set.options.buffers.send = buffer(value)?;
            Ok(None)
        },
    ),
    nothing("no_pnfs", ONLY),
    nothing("no_security_label", ONLY),
    ignored("subtree_check", TREE),
    nothing("no_subtree_check", TREE),
    ignored("wdelay", GATHERED),
    ignored("no_wdelay", GATHERED),
    switch("acl", "Clients see and set POSIX ACLs; the default", |set| set.options.acl = true),
    switch(
        "no_acl",
        "ACLs are not shown to clients, which see the mode alone and cannot set any; they still decide \
         who may do what",
        |set| set.options.acl = false,
    ),
    switch(
        "auth_nlm",
        "Who locks a file must be allowed to read it, or own it; the default",
        |set| {
            set.options.auth_nlm = true;
        },
    ),
    switch("no_auth_nlm", "Every user of the export's clients may lock its files", |set| {
        set.options.auth_nlm = false;
    }),
    switch("secure_locks", "As auth_nlm", |set| set.options.auth_nlm = true),
    switch("insecure_locks", "As no_auth_nlm", |set| set.options.auth_nlm = false),
    switch(
        "crossmnt",
        "File systems that are mounted below the export are part of it; without it, clients see the empty \
         directories that they are mounted on",
        |set| set.options.crossmnt = true,
    ),
    switch(
        "nohide",
        "Clients of versions 2 and 3 cross from the export around this one into it; those of version 4 always do",
        |set| set.options.nohide = true,
    ),
    switch("hide", "Not so; the default", |set| set.options.nohide = false),
    valued(
        ("utf8", "strict|any"),
        "strict: version 4 refuses names that are not UTF-8; any, the default: a name is any bytes",
        |set, value| {
            set.options.utf8_names = match value {
                b"strict" => true,
                b"any" => false,
                _ => return Err("write strict or any".to_owned()),
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
            (Apply::Access(apply), _) => match self.sec.served_access() {
                Some(access) => apply(access),
                None => {
                    return Applied::Noted(format!("{shown} is left out with the sec= before it"));
                }
            },
            (Apply::Nothing, _) => {}
            (Apply::Ignored, _) => {
                let why = row.about;
                return Applied::Noted(format!("{shown} is accepted and has no effect: {why}"));
            }
            (Apply::Value(_), None) => {
                let what = row.value.unwrap_or_default();
                return Applied::Wrong(format!("{shown} wants a value: {shown}={what}"));
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
        b"refer" | b"replicas" | b"pnfs" | b"security_label" | b"nordirplus" => {
            format!("{shown} is not in this version: remove it")
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
