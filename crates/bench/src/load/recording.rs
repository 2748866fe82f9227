//! Recorded call lists: one call a line, `OPERATION PATH [OFFSET COUNT]`, replayed by `replay`.
//!
//! Paths are relative to the export's root and may have `%20` for a byte that would end the word.
//! Empty lines and lines that begin with `#` are skipped. READ and WRITE have an offset and a count
//! in bytes; READDIR and READDIRPLUS list the directory's first entries.

use super::error::LoadError;
use super::op::Op;
use super::setup::SetupClient;
use client::Fh;
use std::collections::HashMap;
use std::path::Path;

/// The longest list that is accepted, in lines.
const STEPS_MAX: usize = 10_000_000;

/// One call of the list.
#[derive(Debug, Clone)]
pub(crate) struct Step {
    pub op: Op,
    /// The object; for LOOKUP, CREATE and REMOVE the directory.
    pub fh: Fh,
    pub name: Box<[u8]>,
    pub offset: u64,
    pub count: u32,
}

/// A line before its path is looked up.
#[derive(Debug, PartialEq)]
struct Line {
    op: Op,
    path: Vec<u8>,
    offset: u64,
    count: u32,
}

/// Reads a list and looks up all of its paths.
pub(crate) fn read(
    path: &Path,
    client: &mut SetupClient,
    root: &Fh,
) -> Result<Vec<Step>, LoadError> {
    let text = std::fs::read_to_string(path).map_err(|source| LoadError::Recording {
        path: path.to_owned(),
        line: 0,
        what: source.to_string(),
    })?;
    let mut known = HashMap::new();
    let mut steps = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let wrong =
            |what: String| LoadError::Recording { path: path.to_owned(), line: number + 1, what };
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if steps.len() >= STEPS_MAX {
            return Err(wrong(format!("more than {STEPS_MAX} calls")));
        }
        let line = parse(line).map_err(wrong)?;
        steps.push(resolve(&line, client, root, &mut known)?.ok_or_else(|| {
            wrong(format!("{} is not on the server", String::from_utf8_lossy(&line.path)))
        })?);
    }
    if steps.is_empty() {
        return Err(LoadError::Nothing(format!("{}: no calls in it", path.display())));
    }
    Ok(steps)
}

fn parse(line: &str) -> Result<Line, String> {
    let mut words = line.split_whitespace();
    let name = words.next().unwrap_or_default();
    // locks and opens are left out: a list says nothing of their owners
    let left_out = |op: &Op| matches!(op, Op::Lock | Op::Unlock | Op::Open | Op::Close);
    let known = || Op::ALL.iter().copied().filter(|op| !left_out(op));
    let op = known().find(|op| op.name() == name).ok_or_else(|| {
        let all: Vec<_> = known().map(Op::name).collect();
        format!("{name}: not an operation; one of {}", all.join(", "))
    })?;
    let path = unescape(words.next().unwrap_or_default())?;
    let mut number = |what: &str| match words.next() {
        Some(word) => word.parse::<u64>().map_err(|_| format!("{word}: not {what}")),
        None => Ok(0),
    };
    let offset = number("an offset")?;
    let count = u32::try_from(number("a count")?).map_err(|_| "the count is too large")?;
    if matches!(op, Op::Read | Op::Write) && count == 0 {
        return Err(format!("{name} wants OFFSET and COUNT"));
    }
    if let Some(word) = words.next() {
        return Err(format!("{word}: one word too many"));
    }
    Ok(Line { op, path, offset, count })
}

fn unescape(word: &str) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::with_capacity(word.len());
    let mut rest = word.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let digits = [rest.next(), rest.next()];
        let value = digits.iter().try_fold(0_u8, |value, digit| {
            let digit = char::from((*digit)?).to_digit(16)?;
            Some(value << 4 | u8::try_from(digit).ok()?)
        });
        bytes.push(value.ok_or_else(|| format!("{word}: % wants two hexadecimal digits"))?);
    }
    Ok(bytes)
}

/// Looks a line's path up; `None` if it does not exist.
fn resolve(
    line: &Line,
    client: &mut SetupClient,
    root: &Fh,
    known: &mut HashMap<Vec<u8>, Fh>,
) -> Result<Option<Step>, LoadError> {
    let path = line.path.as_slice();
    let by_name = matches!(line.op, Op::Lookup | Op::Create | Op::Remove);
    let with_fragments = path.iter().rposition(|byte| *byte == b'/');
    let (object, name) = match (by_name, with_fragments) {
        (false, _) => (path, &[][..]),
        (true, None) => (&[][..], path),
        (true, Some(at)) => {
            (path.get(..at).unwrap_or_default(), path.get(at + 1..).unwrap_or_default())
        }
    };
    let mut fh = *root;
    let mut walked = Vec::new();
    for part in object.split(|byte| *byte == b'/').filter(|part| !part.is_empty()) {
        walked.push(b'/');
        walked.extend_from_slice(part);
        fh = match known.get(&walked) {
            Some(fh) => *fh,
            None => match client.find(&fh, part)? {
                Some(found) => *known.entry(walked.clone()).or_insert(found),
                None => return Ok(None),
            },
        };
    }
    let (op, offset, count) = (line.op, line.offset, line.count);
    Ok(Some(Step { op, fh, name: name.into(), offset, count }))
}

#[cfg(test)]
mod tests {
    use super::{Line, parse};
    use crate::load::op::Op;

    #[test]
    fn lines_are_read() {
        let line = Line { op: Op::Read, path: b"a b/c".to_vec(), offset: 8, count: 512 };
        assert_eq!(parse("read a%20b/c 8 512"), Ok(line));
        let null = Line { op: Op::Null, path: Vec::new(), offset: 0, count: 0 };
        assert_eq!(parse("null"), Ok(null));
    }

    #[test]
    fn errors_of_invalid_lines_name_the_cause() {
        for (line, what) in [
            ("stat a", "not an operation"),
            ("lock a", "not an operation"),
            ("read a", "wants OFFSET and COUNT"),
            ("read a x 1", "not an offset"),
            ("getattr a%2", "two hexadecimal"),
            ("getattr a 1 2 3", "one word too many"),
        ] {
            assert!(parse(line).unwrap_err().contains(what), "{line}");
        }
    }
}
