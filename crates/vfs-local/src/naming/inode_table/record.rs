//! The layout of one record of the table of names: an object's key and its dentries.
//!
//! Layout, integers little-endian: magic (4 bytes), length of the key (1), number of dentries (1),
//! length of the rest (2), SipHash-1-3 of the three and the rest (8); then the key, and for each
//! dentry the parent's length (1), the name's (2), the parent's key, the name. Zeros up to whole slots
//! of [`SLOT`] bytes. Without dentries: the object was removed.

use super::dentry::{DENTRIES_MAX, Dentry, FileKey};
use siphasher::sip::SipHasher13;
use std::hash::Hasher;
use std::io;

/// Bytes of a slot: records begin at multiples of it.
pub const SLOT: usize = 64;
/// Bytes of the lengths and the hash.
pub const HEAD: usize = 4 + 4 + 8;
/// More than any record has.
pub const RECORD_MAX: usize = HEAD + u16::MAX as usize;

const MAGIC: [u8; 4] = *b"BwN2";

/// A record as it stands in the file.
pub struct Record<'r> {
    /// The object's key.
    pub key: &'r [u8],
    /// Slots that it takes.
    pub slots: usize,
    dentries: &'r [u8],
    count: u8,
}

impl Record<'_> {
    /// Whether it means that the object was removed.
    pub const fn is_gone(&self) -> bool {
        self.count == 0
    }

    /// The names of the object, the newest dentry first; `None` if the record is invalid.
    pub fn dentries(&self) -> Option<Vec<Dentry>> {
        let mut rest = self.dentries;
        let mut dentries = Vec::with_capacity(usize::from(self.count).min(DENTRIES_MAX));
        for _ in 0..self.count {
            let ([parent, n0, n1], data) = rest.split_first_chunk()?;
            let (parent, data) = data.split_at_checked(usize::from(*parent))?;
            let name_len = usize::from(u16::from_le_bytes([*n0, *n1]));
            let (name, data) = data.split_at_checked(name_len)?;
            dentries.push(Dentry { parent: FileKey::new(parent)?, name: name.to_vec() });
            rest = data;
        }
        Some(dentries)
    }
}

/// SipHash-1-3 of some bytes.
pub fn hash(bytes: &[u8]) -> u64 {
    hash_of(&[bytes])
}

fn hash_of(parts: &[&[u8]]) -> u64 {
    let mut hasher = SipHasher13::new();
    for part in parts {
        hasher.write(part);
    }
    hasher.finish()
}

/// The whole slots of a record.
///
/// # Errors
/// `InvalidInput` if the names are longer than in any file system.
pub fn encode(key: &FileKey, dentries: &[Dentry]) -> io::Result<Vec<u8>> {
    let too_long = |_| io::Error::from(io::ErrorKind::InvalidInput);
    let mut body = key.bytes().to_vec();
    for Dentry { parent, name } in dentries {
        body.push(parent.len);
        body.extend(u16::try_from(name.len()).map_err(too_long)?.to_le_bytes());
        body.extend(parent.bytes());
        body.extend(name);
    }
    let count = u8::try_from(dentries.len()).map_err(too_long)?;
    let [l0, l1] = u16::try_from(body.len()).map_err(too_long)?.to_le_bytes();
    let lengths = [key.len, count, l0, l1];
    let mut record = MAGIC.to_vec();
    record.extend(lengths);
    record.extend(hash_of(&[&lengths, &body]).to_le_bytes());
    record.extend(body);
    record.resize(record.len().next_multiple_of(SLOT), 0);
    Ok(record)
}

/// Bytes of the record that begins so, if one does.
pub fn length(bytes: &[u8]) -> Option<usize> {
    let ([m0, m1, m2, m3, _, _, l0, l1], _) = bytes.split_first_chunk()?;
    let rest = usize::from(u16::from_le_bytes([*l0, *l1]));
    ([*m0, *m1, *m2, *m3] == MAGIC).then_some(HEAD + rest)
}

/// The record at the start of `bytes`, if there is a whole one.
pub fn decode(bytes: &[u8]) -> Option<Record<'_>> {
    let len = length(bytes)?;
    let (head, rest) = bytes.split_first_chunk::<HEAD>()?;
    let body = rest.get(..len - HEAD)?;
    let [_, _, _, _, key_len, count, l0, l1, sum @ ..] = *head;
    if hash_of(&[&[key_len, count, l0, l1], body]) != u64::from_le_bytes(sum) {
        return None;
    }
    let (key, dentries) = body.split_at_checked(usize::from(key_len))?;
    Some(Record { key, slots: len.div_ceil(SLOT), dentries, count })
}
