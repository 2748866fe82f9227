//! Reads the entries of a keytab for diagnosis: principals, key versions and encryption types. Keys are skipped.
//!
//! The format is MIT's, version 2: the bytes 5 and 2, then entries, each preceded by its length; a negative length marks
//! unused space. All numbers are big-endian.

use std::io;
use std::path::Path;

/// The largest keytab that is read.
const FILE_MAX: u64 = 1 << 20;
/// The most components of a principal.
const COMPONENTS_MAX: u16 = 16;

/// One entry of a keytab.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeytabEntry {
    /// The principal, such as `nfs/server.example@EXAMPLE`.
    pub principal: String,
    /// The key version (kvno).
    pub version: u32,
    /// The encryption type (RFC 3961 §8).
    pub encryption_type: u16,
}

impl KeytabEntry {
    /// The realm: the part of the principal after the last `@`.
    pub fn realm(&self) -> &str {
        self.principal.rsplit_once('@').map_or("", |(_, realm)| realm)
    }
}

/// Reads the entries of a keytab.
///
/// # Errors
/// It cannot be read, or is not a keytab.
pub fn read_keytab(path: &Path) -> io::Result<Vec<KeytabEntry>> {
    if std::fs::metadata(path)?.len() > FILE_MAX {
        return Err(io::Error::other("larger than 1 MiB: not a keytab"));
    }
    let bytes = std::fs::read(path)?;
    entries(&bytes).ok_or_else(|| io::Error::other("not a keytab of version 2, or truncated"))
}

/// The entries; `None` if the format is wrong.
fn entries(bytes: &[u8]) -> Option<Vec<KeytabEntry>> {
    let mut rest = bytes.strip_prefix(&[5, 2])?;
    let mut found = Vec::new();
    while let Some((length, behind)) = rest.split_first_chunk::<4>() {
        let length = i32::from_be_bytes(*length);
        if length == 0 {
            break;
        }
        let (entry, next) = behind.split_at_checked(length.unsigned_abs().try_into().ok()?)?;
        if length > 0 {
            found.push(entry_of(entry)?);
        }
        rest = next;
    }
    Some(found)
}

fn entry_of(bytes: &[u8]) -> Option<KeytabEntry> {
    let mut fields = Fields(bytes);
    let count = fields.number16()?;
    let realm = fields.text()?;
    if count > COMPONENTS_MAX {
        return None;
    }
    let parts = (0..count).map(|_| fields.text()).collect::<Option<Vec<String>>>()?;
    // skip the name type and the timestamp
    fields.take(8)?;
    let low_version = fields.take(1)?.first().copied()?;
    let encryption_type = fields.number16()?;
    let key_length = fields.number16()?;
    fields.take(key_length.into())?;
    // a key version of more than eight bits follows the key
    let version = fields.take(4).and_then(|four| four.try_into().ok()).map(u32::from_be_bytes);
    Some(KeytabEntry {
        principal: format!("{}@{realm}", parts.join("/")),
        version: version.filter(|version| *version != 0).unwrap_or_else(|| low_version.into()),
        encryption_type,
    })
}

/// A cursor over an entry.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn number16(&mut self) -> Option<u16> {
        Some(u16::from_be_bytes(self.take(2)?.try_into().ok()?))
    }

    fn text(&mut self) -> Option<String> {
        let length = self.number16()?;
        Some(String::from_utf8_lossy(self.take(length.into())?).into_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::{KeytabEntry, entries};

    fn text(text: &str) -> Vec<u8> {
        [&u16::try_from(text.len()).unwrap().to_be_bytes()[..], text.as_bytes()].concat()
    }

    fn entry(parts: &[&str], low_version: u8, encryption_type: u16, version: &[u8]) -> Vec<u8> {
        let mut bytes = u16::try_from(parts.len()).unwrap().to_be_bytes().to_vec();
        bytes.extend(text("LAB.TEST"));
        bytes.extend(parts.iter().flat_map(|part| text(part)));
        bytes.extend([0, 0, 0, 1, 0, 0, 0, 0, low_version]);
        bytes.extend(encryption_type.to_be_bytes());
        bytes.extend(text("0123456789abcdef"));
        bytes.extend(version);
        [&i32::try_from(bytes.len()).unwrap().to_be_bytes()[..], &bytes].concat()
    }

    #[test]
    fn entries_are_read_across_holes() {
        let hole = [&(-5_i32).to_be_bytes()[..], b"12345"].concat();
        let file = [
            &[5, 2][..],
            &entry(&["nfs", "server.lab.test"], 3, 18, &[]),
            &hole,
            &entry(&["alice"], 4, 17, &[0, 0, 1, 4]),
        ]
        .concat();
        let entry = |principal: &str, version, encryption_type| KeytabEntry {
            principal: principal.into(),
            version,
            encryption_type,
        };
        let expected =
            [entry("nfs/server.lab.test@LAB.TEST", 3, 18), entry("alice@LAB.TEST", 260, 17)];
        assert_eq!(entries(&file).unwrap(), expected);
        assert_eq!(expected[0].realm(), "LAB.TEST");
    }

    #[test]
    fn a_file_that_is_cut_off_anywhere_gives_no_wrong_entry() {
        let first = [&[5, 2][..], &entry(&["nfs", "server.lab.test"], 3, 18, &[])].concat();
        for end in 0..first.len() {
            let found = entries(&first[..end]);
            assert!(found.is_none_or(|found| found.is_empty()), "cut off at {end}");
        }
        assert_eq!(entries(b"\x05\x01"), None);
        assert_eq!(entries(b"\x05\x02\x80\0\0\0"), None);
    }
}
