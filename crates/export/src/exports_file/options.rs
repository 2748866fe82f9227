//! The options of exports(5), one by one: taken, accepted without effect, or wrong.

use super::Parsed;
use super::lexer::Word;
use crate::buffers::BufferSize;
use crate::export::Fsid;
use crate::identity::parse_uuid;
use crate::options::{Options, Squash};
use std::ops::Range;
use vfs::Durability;

/// Options as far as they are known.
#[derive(Debug, Clone, Copy)]
pub struct OptionSet {
    options: Options,
    /// `root_squash` and `all_squash` are switches of their own in exports(5).
    root_squash: bool,
    all_squash: bool,
    /// `fsid=`.
    pub fsid: Option<Fsid>,
}

impl Default for OptionSet {
    fn default() -> Self {
        let options = Options::default();
        Self { options, root_squash: true, all_squash: false, fsid: None }
    }
}

impl OptionSet {
    /// What a client may do.
    pub const fn options(&self) -> Options {
        let squash = match (self.all_squash, self.root_squash) {
            (true, _) => Squash::All,
            (false, true) => Squash::Root,
            (false, false) => Squash::None,
        };
        Options { squash, ..self.options }
    }
}

/// What became of one option.
enum Fate {
    Taken,
    /// Accepted without effect, because.
    Ignored(&'static str),
    Wrong(String),
}

/// Reads the options in a range of a word, on top of `defaults`.
pub fn parse(
    word: &Word,
    range: Range<usize>,
    defaults: OptionSet,
    parsed: &mut Parsed,
) -> OptionSet {
    let mut set = defaults;
    let mut at = range.start;
    for option in word.bytes().get(range).unwrap_or_default().split(|b| *b == b',') {
        if !option.is_empty() {
            let shown = option.escape_ascii().to_string();
            match set.apply(option, &shown) {
                Fate::Taken => {}
                Fate::Ignored(why) => {
                    parsed.note(word, at, format!("{shown} is accepted and has no effect: {why}"));
                }
                Fate::Wrong(why) => parsed.error(word, at, why),
            }
        }
        at = at.saturating_add(option.len()).saturating_add(1);
    }
    set
}

impl OptionSet {
    fn apply(&mut self, option: &[u8], shown: &str) -> Fate {
        match option {
            b"ro" => self.options.read_only = true,
            b"rw" => self.options.read_only = false,
            b"root_squash" => self.root_squash = true,
            b"no_root_squash" => self.root_squash = false,
            b"all_squash" => self.all_squash = true,
            b"no_all_squash" => self.all_squash = false,
            b"sync" => self.options.durability = Durability::Sync,
            b"async" => self.options.durability = Durability::Async,
            b"secure" => self.options.secure = true,
            b"insecure" => self.options.secure = false,
            b"manage-gids" | b"manage_gids" => self.options.manage_gids = true,
            b"no-manage-gids" | b"no_manage_gids" => self.options.manage_gids = false,
            b"hide" | b"sec=sys" | b"no_pnfs" | b"no_security_label" | b"xprtsec=none" => {}
            other => {
                return if let Some(why) = without_effect(other) {
                    Fate::Ignored(why)
                } else if let Some(equals) = other.iter().position(|b| *b == b'=') {
                    let (name, value) = other.split_at(equals);
                    self.with_value(name, value.get(1..).unwrap_or_default(), shown)
                } else {
                    Fate::Wrong(not_here(other, shown))
                };
            }
        }
        Fate::Taken
    }

    fn with_value(&mut self, name: &[u8], value: &[u8], shown: &str) -> Fate {
        let number = || std::str::from_utf8(value).ok().and_then(parse_id);
        let buffer = || {
            let text = String::from_utf8_lossy(value);
            text.parse::<BufferSize>().map_err(|error| error.to_string())
        };
        let wrong = |what: &str| Fate::Wrong(format!("{shown}: {what}"));
        match name {
            b"anonuid" => match number() {
                Some(uid) => self.options.anonuid = uid,
                None => return wrong("the value is no user id; write a number"),
            },
            b"anongid" => match number() {
                Some(gid) => self.options.anongid = gid,
                None => return wrong("the value is no group id; write a number"),
            },
            b"fsid" => match parse_fsid(value) {
                Some(fsid) => self.fsid = Some(fsid),
                None => return wrong("write a number, a UUID or root"),
            },
            b"tcp-rcvbuf" => match buffer() {
                Ok(size) => self.options.buffers.receive = size,
                Err(why) => return wrong(&why),
            },
            b"tcp-sndbuf" => match buffer() {
                Ok(size) => self.options.buffers.send = size,
                Err(why) => return wrong(&why),
            },
            other => return Fate::Wrong(not_here(other, shown)),
        }
        Fate::Taken
    }
}

/// Why an option that is accepted does nothing.
const fn without_effect(option: &[u8]) -> Option<&'static str> {
    Some(match option {
        b"subtree_check" | b"no_subtree_check" => {
            "handles are sealed and not looked for in the tree: a file that is moved out of the \
             export stays reachable by its handle"
        }
        b"wdelay" | b"no_wdelay" => "writes are gathered by the page cache",
        b"acl" | b"no_acl" => "ACLs count in every check, and the ACL protocol is not served",
        b"auth_nlm" | b"no_auth_nlm" | b"secure_locks" | b"insecure_locks" => {
            "the lock protocol is not served in this version"
        }
        b"crossmnt" | b"nohide" => {
            "mount points inside an export are not crossed in this version; export each by a line \
             of its own"
        }
        _ => return None,
    })
}

/// What to say about an option that cannot be obeyed.
fn not_here(name: &[u8], shown: &str) -> String {
    match name {
        b"sec" => format!("{shown}: only sec=sys is in this version"),
        b"xprtsec" => format!("{shown}: only xprtsec=none is in this version"),
        b"mp" | b"mountpoint" | b"refer" | b"replicas" | b"pnfs" | b"security_label"
        | b"nordirplus" => format!("{shown} is not in this version: remove it"),
        b"tcp-rcvbuf" | b"tcp-sndbuf" => format!("{shown} wants a value: {shown}=16M"),
        b"anonuid" | b"anongid" | b"fsid" => format!("{shown} wants a value: {shown}=NUMBER"),
        _ => format!("unknown option {shown}"),
    }
}

/// A user or group id. Negative numbers count from the end, as everywhere (-2 was once nobody);
/// -1 is no id.
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
