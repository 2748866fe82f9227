//! The file format of exports(5), with line and column of every error.
//!
//! [`parse`] never fails as a whole: it returns the valid entries, notes about text that is accepted
//! without effect, and all errors. An export with an invalid line must not be served.

mod ganesha;
mod lexer;
mod options;
mod print;
mod sec;
mod suggestion;

use crate::clients::Client;
use crate::export::{ExportSpec, Fsid, Source};
use crate::table::EXPORTS_MAX;
use lexer::{Lexer, Word};
use options::{MountPoint, OptionSet};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fmt;
use std::net::Ipv4Addr;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::sync::Arc;

pub use options::{EXPORT_OPTIONS, ExportOption};
pub use print::{line, print};
pub use suggestion::nearest_name;

/// Most clients of one export; more would make each first call of a client slow.
pub const RULES_MAX: usize = 4096;
/// Most exports of one file: as many as a server can have.
pub const ENTRIES_MAX: usize = EXPORTS_MAX;
/// The most errors and the most notes of one file.
pub const DIAGNOSTICS_MAX: usize = 200;
/// The most bytes of a line that are shown with a diagnostic.
const SHOWN_MAX: usize = 160;

/// An error or a note about a position in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    /// Line, from 1.
    pub line: usize,
    /// Column in bytes, from 1.
    pub column: usize,
    /// The message.
    pub text: String,
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.line, self.column, self.text)
    }
}

impl Diagnostic {
    /// `file:line:column: text`, the line, and a caret below it; of a very long line only the part
    /// around the position.
    pub fn shown(&self, file: &str, source: &[u8]) -> String {
        let line = source.split(|b| *b == b'\n').nth(self.line.saturating_sub(1));
        let line = line.unwrap_or_default();
        let at = self.column.saturating_sub(1).min(line.len());
        let start = if line.len() > SHOWN_MAX { at.saturating_sub(SHOWN_MAX / 2) } else { 0 };
        let end = line.len().min(start.saturating_add(SHOWN_MAX));
        let part = |from: usize, to: usize| {
            String::from_utf8_lossy(line.get(from..to).unwrap_or_default()).into_owned()
        };
        let gap: String =
            part(start, at).chars().map(|c| if c == '\t' { '\t' } else { ' ' }).collect();
        let text: String = part(start, end)
            .chars()
            .map(|c| if c.is_control() && c != '\t' { '?' } else { c })
            .collect();
        format!("{file}:{self}\n  {text}\n  {gap}^")
    }
}

/// The contents of a file.
#[derive(Debug, Default)]
pub struct Parsed {
    /// The exports, in order; those of one path are merged.
    pub entries: Vec<ExportSpec>,
    /// Text that is accepted without effect; each kind once.
    pub notes: Vec<Diagnostic>,
    /// The errors, in the order of the file.
    pub errors: Vec<Diagnostic>,
    /// The first line of each export of this file, by its path.
    pub lines: BTreeMap<Vec<u8>, usize>,
    /// The exports with an invalid line, whose clients are therefore not fully known.
    pub faulty: BTreeSet<Vec<u8>>,
}

impl Parsed {
    fn error(&mut self, word: &Word, offset: usize, text: impl Into<String>) {
        let (line, column) = word.place(offset);
        self.errors.push(Diagnostic { line, column, text: text.into() });
    }

    fn note(&mut self, word: &Word, offset: usize, text: String) {
        let known = self.notes.iter().any(|note| note.text == text);
        if !known && self.notes.len() < DIAGNOSTICS_MAX {
            let (line, column) = word.place(offset);
            self.notes.push(Diagnostic { line, column, text });
        }
    }
}

/// Reads an exports file.
pub fn parse(bytes: &[u8]) -> Parsed {
    parse_onto(Vec::new(), bytes)
}

/// Reads an exports file after others, which gave `entries`: as if all were one file, except for
/// the positions of diagnostics.
pub fn parse_onto(entries: Vec<ExportSpec>, bytes: &[u8]) -> Parsed {
    let mut parsed = Parsed { entries, ..Parsed::default() };
    if let Some((line, column)) = ganesha::first_block(bytes) {
        let text = "this is a configuration file of NFS-Ganesha: write a line for each EXPORT block, as in \
                    /srv/data 10.0.0.0/8(rw)";
        parsed.errors.push(Diagnostic { line, column, text: text.to_owned() });
        return parsed;
    }
    let mut lexer = Lexer::new(bytes);
    loop {
        let errors = parsed.errors.len();
        let Some(words) = lexer.next_line(&mut parsed.errors) else { break };
        let Some((first, rest)) = words.split_first() else { continue };
        read_line(first, rest, &mut parsed);
        if let Ok(path) = path_of(first.bytes()) {
            parsed.lines.entry(path.clone()).or_insert(first.place(0).0);
            if parsed.errors.len() > errors {
                parsed.faulty.insert(path);
            }
        }
        if parsed.entries.len() > ENTRIES_MAX {
            parsed.entries.truncate(ENTRIES_MAX);
            parsed.error(first, 0, format!("more than {ENTRIES_MAX} exports"));
            break;
        }
        if parsed.errors.len() >= DIAGNOSTICS_MAX {
            break;
        }
    }
    parsed.errors.truncate(DIAGNOSTICS_MAX);
    parsed.errors.sort_by_key(|error| (error.line, error.column));
    parsed
}

/// One line: a path, then clients with their options; `-options` are defaults for what follows.
/// Lines of the same path add to one another.
fn read_line(first: &Word, rest: &[Word], parsed: &mut Parsed) {
    let path = match path_of(first.bytes()) {
        Ok(path) => path,
        Err(why) => return parsed.error(first, 0, why),
    };
    let place = parsed.entries.iter().position(|known| known.path == path);
    let mut spec = match place {
        Some(place) => parsed.entries.swap_remove(place),
        None => ExportSpec {
            path: path.clone(),
            source: Source::Directory(PathBuf::from(OsString::from_vec(path))),
            rules: Vec::new(),
            fsid: None,
            mount_point: None,
            locations: None,
            crossed: false,
        },
    };
    clients(first, rest, &mut spec, parsed);
    parsed.entries.push(spec);
    if let Some(place) = place {
        // restores the order that swap_remove changed
        let last = parsed.entries.len().saturating_sub(1);
        parsed.entries.swap(place, last);
    }
}

/// The path in normal form.
fn path_of(written: &[u8]) -> Result<Vec<u8>, &'static str> {
    if written.first() != Some(&b'/') {
        return Err("an export is an absolute path: write the full path of a directory");
    }
    if written.contains(&0) {
        return Err("a path cannot contain a NUL byte");
    }
    let mut path = Vec::with_capacity(written.len());
    for part in written.split(|b| *b == b'/').filter(|part| !part.is_empty()) {
        if part == b"." || part == b".." {
            return Err("write the path without . and .. components");
        }
        path.push(b'/');
        path.extend_from_slice(part);
    }
    Ok(if path.is_empty() { b"/".to_vec() } else { path })
}

fn clients(path: &Word, words: &[Word], spec: &mut ExportSpec, parsed: &mut Parsed) {
    let mut defaults = OptionSet::default();
    let mut named = false;
    let mut words = words.iter();
    while let Some(word) = words.next() {
        if word.is_plain() && word.bytes().first() == Some(&b'-') {
            defaults = options::parse(word, 1..word.bytes().len(), OptionSet::default(), parsed);
            continue;
        }
        if word.bytes().contains(&b'(') && !word.bytes().contains(&b')') {
            let at = word.bytes().iter().position(|b| *b == b'(').unwrap_or(0);
            let text = "this ( is not closed in the same word: write the options without blanks";
            parsed.error(word, at, text);
            // the text up to the parenthesis was meant as options
            words.by_ref().find(|word| word.bytes().contains(&b')'));
        } else {
            client(word, named, &defaults, spec, parsed);
        }
        named = true;
    }
    if !named {
        parsed.note(path, 0, "no client is specified: every host may mount it".to_owned());
        add(path, (Client::Anyone, defaults), spec, parsed);
    }
}

/// `host(options)`, `host`, or `(options)` for all clients.
fn client(
    word: &Word,
    named: bool,
    defaults: &OptionSet,
    spec: &mut ExportSpec,
    parsed: &mut Parsed,
) {
    let bytes = word.bytes();
    let open = bytes.iter().position(|b| *b == b'(');
    let host = bytes.get(..open.unwrap_or(bytes.len())).unwrap_or_default();
    let set = match open.map(|open| (open, closing(bytes))) {
        None => defaults.clone(),
        Some((open, Ok(close))) => options::parse(word, open + 1..close, defaults.clone(), parsed),
        Some((_, Err(at))) => return parsed.error(word, at, "a blank is missing after this )"),
    };
    if host.is_empty() && open.is_some() {
        if named {
            let text = "a blank before ( makes these options apply to every host: write \
                        HOST(OPTIONS), or *(OPTIONS) if that is meant";
            return parsed.error(word, 0, text);
        }
        parsed.note(word, 0, "options without a client apply to every host".to_owned());
        return add(word, (Client::Anyone, set), spec, parsed);
    }
    match Client::parse(&String::from_utf8_lossy(host)) {
        Ok(client) => add(word, (client, set), spec, parsed),
        Err(why) => parsed.error(word, 0, why.to_string()),
    }
}

/// The position of the only `)` if it is at the end; else of the first one.
fn closing(bytes: &[u8]) -> Result<usize, usize> {
    let first = bytes.iter().position(|b| *b == b')').unwrap_or(bytes.len());
    if first.saturating_add(1) == bytes.len() { Ok(first) } else { Err(first) }
}

fn add(
    word: &Word,
    (client, set): (Client, OptionSet),
    spec: &mut ExportSpec,
    parsed: &mut Parsed,
) {
    if spec.rules.len() >= RULES_MAX {
        return parsed.error(word, 0, format!("more than {RULES_MAX} clients for one export"));
    }
    let certificate = &set.certificate;
    if !certificate.is_empty() && client.matches_address(Ipv4Addr::UNSPECIFIED.into()).is_none() {
        let text = "tls-name and tls-fingerprint cannot be combined with a host name: \
                    write an address, a network or * before them";
        return parsed.error(word, 0, text.to_owned());
    }
    if spec.rules.iter().any(|rule| rule.client == client && rule.certificate == *certificate) {
        return parsed.error(word, 0, format!("{client} is listed twice for this export"));
    }
    match (spec.fsid, set.fsid) {
        (Some(known), Some(other)) if known != other => {
            let text = format!("fsid={other}: this export has fsid={known} for another client");
            parsed.error(word, 0, text);
        }
        (None, fsid @ Some(Fsid::Number(_) | Fsid::Uuid(_))) => spec.fsid = fsid,
        (Some(_), _) | (None, None) => {}
    }
    let mount_point =
        set.mount_point.as_ref().map(|mount_point| match (mount_point, &spec.source) {
            (MountPoint::Other(path), _) | (MountPoint::Export, Source::Directory(path)) => {
                path.clone()
            }
            (MountPoint::Export, _) => PathBuf::from(OsString::from_vec(spec.path.clone())),
        });
    match (&spec.mount_point, mount_point) {
        (Some(known), Some(other)) if *known != other => {
            let text = "mountpoint: this export has another one for another client";
            parsed.error(word, 0, text);
        }
        (None, mount_point) => spec.mount_point = mount_point,
        (Some(_), _) => {}
    }
    if spec.rules.is_empty() {
        spec.locations = set.locations.clone().map(Arc::new);
    } else if spec.locations.as_deref() != set.locations.as_ref() {
        let text =
            "refer and replicas hold for the whole export: write the same for each of its clients";
        return parsed.error(word, 0, text);
    }
    spec.rules.push(set.rule(client));
}

#[cfg(test)]
mod tests;
