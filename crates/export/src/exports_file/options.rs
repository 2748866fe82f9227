//! The options of exports(5), one by one.

use super::Parsed;
use super::lexer::Word;
use crate::identity::parse_uuid;
use crate::options::{Options, Squash};
use crate::table::Fsid;
use vfs::Durability;

/// Options as far as they are known.
#[derive(Debug, Clone, Copy, Default)]
pub struct OptionSet {
    /// What a client may do.
    pub options: Options,
    /// `fsid=`.
    pub fsid: Option<Fsid>,
}

/// What became of one option.
enum Verdict {
    Taken,
    Ignored(&'static str),
    Wrong(String),
}

/// Reads the options between two offsets of a word, on top of `defaults`.
pub fn parse(
    word: &Word,
    start: usize,
    end: usize,
    defaults: OptionSet,
    parsed: &mut Parsed,
) -> OptionSet {
    let mut set = defaults;
    let mut at = start;
    let text = word.bytes().get(start..end).unwrap_or_default();
    for option in text.split(|b| *b == b',') {
        if !option.is_empty() {
            match apply(option, &mut set) {
                Verdict::Taken => {}
                Verdict::Ignored(why) => {
                    let option = String::from_utf8_lossy(option);
                    parsed.note(word, at, format!("{option} is accepted and ignored: {why}"));
                }
                Verdict::Wrong(why) => parsed.error(word, at, why),
            }
        }
        at += option.len() + 1;
    }
    set
}

fn apply(option: &[u8], set: &mut OptionSet) -> Verdict {
    let options = &mut set.options;
    match option {
        b"ro" => options.read_only = true,
        b"rw" => options.read_only = false,
        b"root_squash" => options.squash = Squash::Root,
        b"no_root_squash" => options.squash = Squash::None,
        b"all_squash" => options.squash = Squash::All,
        b"no_all_squash" => {
            if options.squash == Squash::All {
                options.squash = Squash::Root;
            }
        }
        b"sync" => options.durability = Durability::Sync,
        b"async" => options.durability = Durability::Async,
        b"secure" => options.secure = true,
        b"insecure" => options.secure = false,
        b"sec=sys" => {}
        b"subtree_check" | b"no_subtree_check" => {
            return Verdict::Ignored("handles are checked by their seal");
        }
        b"wdelay" | b"no_wdelay" => return Verdict::Ignored("the kernel gathers writes"),
        b"hide" => {}
        b"acl" | b"no_acl" => return Verdict::Ignored("ACLs are always honoured"),
        b"auth_nlm" | b"secure_locks" | b"no_auth_nlm" | b"insecure_locks" => {
            return Verdict::Ignored("there is no lock protocol in this version");
        }
        b"crossmnt" | b"nohide" => {
            return Verdict::Wrong(
                "mounts below an export are not crossed in this version: export each by itself"
                    .into(),
            );
        }
        other => return with_value(other, set),
    }
    Verdict::Taken
}

fn with_value(option: &[u8], set: &mut OptionSet) -> Verdict {
    let shown = String::from_utf8_lossy(option).into_owned();
    let Some(equals) = option.iter().position(|b| *b == b'=') else {
        return Verdict::Wrong(format!("unknown option {shown}"));
    };
    let (name, value) =
        (option.get(..equals).unwrap_or_default(), option.get(equals + 1..).unwrap_or_default());
    let id = || std::str::from_utf8(value).ok().and_then(parse_id);
    match name {
        b"anonuid" => match id() {
            Some(id) => set.options.anonuid = id,
            None => return Verdict::Wrong(format!("{shown}: the value is no user id")),
        },
        b"anongid" => match id() {
            Some(id) => set.options.anongid = id,
            None => return Verdict::Wrong(format!("{shown}: the value is no group id")),
        },
        b"fsid" => match parse_fsid(value) {
            Some(fsid) => set.fsid = Some(fsid),
            None => return Verdict::Wrong(format!("{shown}: give a number, a UUID, or root")),
        },
        b"sec" => {
            return Verdict::Wrong(format!("{shown}: only sec=sys works in this version"));
        }
        _ => return Verdict::Wrong(format!("unknown option {shown}")),
    }
    Verdict::Taken
}

/// A user or group id; negative numbers as the kernel takes them (-1 excepted: it means nobody).
fn parse_id(text: &str) -> Option<u32> {
    match text.parse::<i64>().ok()? {
        n @ 0..=0xffff_fffe => u32::try_from(n).ok(),
        n @ -0x8000_0000..=-2 => i32::try_from(n).ok().map(i32::cast_unsigned),
        _ => None,
    }
}

fn parse_fsid(value: &[u8]) -> Option<Fsid> {
    if value == b"root" {
        return Some(Fsid([0; 16]));
    }
    let number = std::str::from_utf8(value).ok().and_then(|text| text.parse::<u32>().ok());
    let mut uuid = [0; 16];
    if let (Some(number), Some(place)) = (number, uuid.last_chunk_mut::<4>()) {
        *place = number.to_be_bytes();
        return Some(Fsid(uuid));
    }
    parse_uuid(value).map(Fsid)
}
