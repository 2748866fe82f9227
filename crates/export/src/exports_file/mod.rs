//! The file format of exports(5): what a line means, and where exactly it is wrong.
//!
//! Reading never fails as a whole: [`parse`] gives the entries that are in order, notes about
//! options that are accepted and ignored, and every error with line and column.

mod lexer;
mod options;

use crate::clients::Pattern;
use crate::table::{ExportSpec, Rule, SpecBackend};
use lexer::{Word, logical_lines};
use options::OptionSet;
use std::fmt;

/// Rules of one export; more would make each first look-up of a client slow.
pub const RULES_MAX: usize = 4096;
/// Entries of one file.
pub const ENTRIES_MAX: usize = 65_536;

/// A remark about a place in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remark {
    /// Line, from 1.
    pub line: usize,
    /// Column in bytes, from 1.
    pub column: usize,
    /// What is to be said.
    pub text: String,
}

impl fmt::Display for Remark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.line, self.column, self.text)
    }
}

impl Remark {
    /// The remark as a person wants to see it: `file:line:column: text`, the line, a caret below.
    pub fn shown(&self, file: &str, source: &[u8]) -> String {
        let line = source.split(|b| *b == b'\n').nth(self.line.saturating_sub(1));
        let line = String::from_utf8_lossy(line.unwrap_or_default());
        let before: String = line.chars().take(self.column.saturating_sub(1)).collect();
        let gap: String = before.chars().map(|c| if c == '\t' { '\t' } else { ' ' }).collect();
        format!("{file}:{self}\n  {line}\n  {gap}^")
    }
}

/// What a file says.
#[derive(Debug, Default)]
pub struct Parsed {
    /// The exports, in order.
    pub entries: Vec<ExportSpec>,
    /// What is accepted but has no effect.
    pub notes: Vec<Remark>,
    /// What is wrong; a file with errors must not be applied.
    pub errors: Vec<Remark>,
}

impl Parsed {
    fn error(&mut self, word: &Word, offset: usize, text: impl Into<String>) {
        let (line, column) = word.place(offset);
        self.errors.push(Remark { line, column, text: text.into() });
    }

    fn note(&mut self, word: &Word, offset: usize, text: impl Into<String>) {
        let (line, column) = word.place(offset);
        self.notes.push(Remark { line, column, text: text.into() });
    }
}

/// Reads an exports file.
pub fn parse(bytes: &[u8]) -> Parsed {
    let mut parsed = Parsed::default();
    for line in logical_lines(bytes, &mut parsed) {
        if parsed.entries.len() >= ENTRIES_MAX {
            if let Some(word) = line.first() {
                parsed.error(word, 0, format!("more than {ENTRIES_MAX} exports"));
            }
            break;
        }
        if let Some(entry) = entry(&line, &mut parsed) {
            merge(&mut parsed, entry);
        }
    }
    parsed
}

/// Lines of the same path add to one another.
fn merge(parsed: &mut Parsed, entry: ExportSpec) {
    match parsed.entries.iter_mut().find(|e| e.path == entry.path) {
        Some(known) => {
            known.rules.extend(entry.rules);
            known.fsid = known.fsid.or(entry.fsid);
        }
        None => parsed.entries.push(entry),
    }
}

/// One line: a path, then clients with their options; `-options` are defaults for what follows.
fn entry(words: &[Word], parsed: &mut Parsed) -> Option<ExportSpec> {
    let (path, clients) = words.split_first()?;
    if path.bytes().first() != Some(&b'/') {
        parsed.error(path, 0, "an export begins with /: write the full path of a directory");
        return None;
    }
    let path_bytes = tidy_path(path.bytes());
    let mut spec = ExportSpec {
        path: path_bytes.clone(),
        backend: SpecBackend::Directory(path_bytes),
        rules: Vec::new(),
        fsid: None,
    };
    let mut defaults = OptionSet::default();
    for word in clients {
        if spec.rules.len() >= RULES_MAX {
            parsed.error(word, 0, format!("more than {RULES_MAX} clients for one export"));
            break;
        }
        if word.is_plain() && word.bytes().first() == Some(&b'-') {
            defaults = options::parse(word, 1, word.bytes().len(), OptionSet::default(), parsed);
            continue;
        }
        if let Some((rule, fsid)) = client(word, defaults, parsed) {
            spec.fsid = spec.fsid.or(fsid);
            spec.rules.push(rule);
        }
    }
    if clients.iter().all(|w| w.bytes().first() == Some(&b'-')) {
        let everyone = Rule { pattern: Pattern::Anyone, options: defaults.options };
        spec.fsid = defaults.fsid;
        spec.rules.push(everyone);
        parsed.note(path, 0, "no client is named: every machine may mount it");
    }
    Some(spec)
}

/// `host(options)`, `host`, or `(options)` for everybody.
fn client(
    word: &Word,
    defaults: OptionSet,
    parsed: &mut Parsed,
) -> Option<(Rule, Option<crate::table::Fsid>)> {
    let bytes = word.bytes();
    let open = bytes.iter().position(|b| *b == b'(');
    let host = bytes.get(..open.unwrap_or(bytes.len())).unwrap_or_default();
    let mut set = defaults;
    if let Some(open) = open {
        if bytes.last() != Some(&b')') {
            parsed.error(
                word,
                open,
                "this ( has no ) at the end of the word: no spaces in options",
            );
            return None;
        }
        set = options::parse(word, open + 1, bytes.len().saturating_sub(1), defaults, parsed);
    }
    let pattern = if host.is_empty() {
        parsed.note(word, 0, "options with no host before them hold for every machine");
        Pattern::Anyone
    } else {
        match Pattern::parse(host) {
            Ok(pattern) => pattern,
            Err(what) => {
                parsed.error(word, 0, what);
                return None;
            }
        }
    };
    Some((Rule { pattern, options: set.options }, set.fsid))
}

/// Without double and trailing slashes.
fn tidy_path(path: &[u8]) -> Vec<u8> {
    let mut tidy = Vec::with_capacity(path.len());
    for part in path.split(|b| *b == b'/').filter(|part| !part.is_empty()) {
        tidy.push(b'/');
        tidy.extend_from_slice(part);
    }
    if tidy.is_empty() { b"/".to_vec() } else { tidy }
}

#[cfg(test)]
mod tests;
