//! The persistent table of names: for each object its parent and its name there.
//!
//! A server that may not open objects by handle finds them again through it, also after a restart.
//!
//! **The file** is a sequence of records in slots of 64 bytes; a record takes as many slots as it
//! needs: magic, lengths, SipHash of the rest, key, parent's key, name. A later record of a key
//! replaces the earlier one; one without a name says that the object is gone. A writer takes its slots by one atomic addition and writes them by one
//! `pwrite`, so writers never wait for one another and no lock is held over I/O.
//!
//! **After a crash** any record may be missing or torn, and slots in between may be empty. Reading
//! goes from slot to slot: one that does not begin a whole record with the right hash is skipped, so
//! whatever was written whole is found. A killed server loses nothing (the kernel has the bytes); a
//! power cut may lose what was noted since the last [`InodeTable::sync`].
//!
//! **Memory** is an index from the hash of a key to its slot, about 20 bytes each; names stay in the
//! file. The key in the record is compared, so equal hashes do no harm but the loss of one.
//!
//! **Growth**: at open, a file of which less than half is still in force is written anew.
//! [`SLOTS_MAX`] bounds the file and [`ENTRIES_MAX`] the index.

use siphasher::sip::SipHasher13;
use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::hash::Hasher;
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// Objects that are remembered at the most: 160 MB of memory.
pub const ENTRIES_MAX: usize = 8 << 20;
/// Slots of the file at the most: 8 GiB.
pub const SLOTS_MAX: u64 = 128 << 20;

const SLOT: usize = 64;
const SHARDS: usize = 64;
const MAGIC: [u8; 4] = *b"BwN1";
/// Magic, three lengths (key, parent, name as two bytes), hash.
const HEAD: usize = 4 + 1 + 1 + 2 + 8;
const RECORD_MAX: usize = HEAD + 2 * FileKey::MAX + u16::MAX as usize;

/// The bytes that name an object for good.
#[derive(Clone, Copy)]
pub struct FileKey {
    len: u8,
    bytes: [u8; Self::MAX],
}

impl FileKey {
    /// The most bytes of a key.
    pub const MAX: usize = 48;

    /// A key of these bytes, or `None` if there are too many.
    pub fn new(data: &[u8]) -> Option<Self> {
        let mut bytes = [0; Self::MAX];
        bytes.get_mut(..data.len())?.copy_from_slice(data);
        Some(Self { len: u8::try_from(data.len()).ok()?, bytes })
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.len)).unwrap_or_default()
    }
}

impl PartialEq for FileKey {
    fn eq(&self, other: &Self) -> bool {
        self.bytes() == other.bytes()
    }
}

impl Eq for FileKey {}

impl std::fmt::Debug for FileKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:02x?}", self.bytes())
    }
}

/// A record as it stands in the file.
struct Record<'r> {
    key: &'r [u8],
    parent: &'r [u8],
    name: &'r [u8],
    slots: usize,
}

fn hash(bytes: &[u8]) -> u64 {
    let mut hasher = SipHasher13::new();
    hasher.write(bytes);
    hasher.finish()
}

fn encode(key: &FileKey, parent: &FileKey, name: &[u8]) -> io::Result<Vec<u8>> {
    let name_len = u16::try_from(name.len()).map_err(io::Error::other)?;
    let mut body = vec![key.len, parent.len];
    body.extend(name_len.to_le_bytes());
    body.extend(key.bytes());
    body.extend(parent.bytes());
    body.extend(name);
    let sum = hash(&body);
    let mut record = MAGIC.to_vec();
    record.extend(body.get(..4).unwrap_or_default());
    record.extend(sum.to_le_bytes());
    record.extend(body.get(4..).unwrap_or_default());
    record.resize(record.len().next_multiple_of(SLOT), 0);
    Ok(record)
}

/// The record at the start of `bytes`, if there is a whole one.
fn decode(bytes: &[u8]) -> Option<Record<'_>> {
    let (head, rest) = bytes.split_first_chunk::<HEAD>()?;
    let [m0, m1, m2, m3, k, p, n0, n1, sum @ ..] = *head;
    let (key_len, parent_len) = (usize::from(k), usize::from(p));
    let name_len = usize::from(u16::from_le_bytes([n0, n1]));
    let len = key_len + parent_len + name_len;
    let data = rest.get(..len)?;
    let mut hasher = SipHasher13::new();
    hasher.write(&[k, p, n0, n1]);
    hasher.write(data);
    if [m0, m1, m2, m3] != MAGIC || hasher.finish() != u64::from_le_bytes(sum) {
        return None;
    }
    let (key, data) = data.split_at_checked(key_len)?;
    let (parent, name) = data.split_at_checked(parent_len)?;
    Some(Record { key, parent, name, slots: (HEAD + len).div_ceil(SLOT) })
}

/// The table.
pub struct InodeTable {
    file: File,
    /// The first slot that nobody has taken.
    next: AtomicU64,
    entries: AtomicUsize,
    /// Hash of a key → slot. Each shard is locked for a map operation only.
    shards: Vec<Mutex<HashMap<u64, u64>>>,
}

impl InodeTable {
    /// Opens the table, or makes it; what a crash left half is left out.
    ///
    /// # Errors
    /// What the kernel says of the file.
    pub fn open(path: &Path) -> io::Result<Self> {
        let table = Self::read(path)?;
        let used = table.next.load(Ordering::Relaxed);
        if used > 1024 && (table.entries.load(Ordering::Relaxed) as u64) < used / 4 {
            return table.compact(path);
        }
        Ok(table)
    }

    fn empty(file: File) -> Self {
        Self {
            file,
            next: AtomicU64::new(0),
            entries: AtomicUsize::new(0),
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
        }
    }

    fn read(path: &Path) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let table = Self::empty(options.open(path)?);
        let slots = table.file.metadata()?.len().div_ceil(SLOT as u64);
        let mut window = Window::default();
        let mut slot = 0;
        while slot < slots {
            let bytes = window.at(&table.file, slot)?;
            match decode(bytes) {
                Some(record) => {
                    if record.name.is_empty() {
                        table.unindex(hash(record.key))?;
                    } else {
                        table.index(hash(record.key), slot)?;
                    }
                    slot += record.slots as u64;
                }
                None => slot += 1,
            }
        }
        table.next.store(slots, Ordering::Relaxed);
        Ok(table)
    }

    /// Writes what is in force to a new file, which takes the old one's place.
    fn compact(self, path: &Path) -> io::Result<Self> {
        let part = PathBuf::from(format!("{}.part", path.display()));
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(true).mode(0o600);
        let fresh = Self::empty(options.open(&part)?);
        for shard in &self.shards {
            let slots: Vec<u64> = {
                let shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
                shard.values().copied().collect()
            };
            for slot in slots {
                let Some((key, parent, name)) = self.load(slot)? else { continue };
                fresh.remember(&parent, &name, &key)?;
            }
        }
        fresh.file.sync_all()?;
        std::fs::rename(&part, path)?;
        Ok(fresh)
    }

    fn shard(&self, hash: u64) -> io::Result<&Mutex<HashMap<u64, u64>>> {
        let index = usize::try_from(hash % SHARDS as u64).unwrap_or(0);
        self.shards.get(index).ok_or_else(|| io::Error::other("no such shard"))
    }

    fn index(&self, hash: u64, slot: u64) -> io::Result<()> {
        let shard = self.shard(hash)?;
        let known = shard.lock().unwrap_or_else(PoisonError::into_inner).insert(hash, slot);
        if known.is_none() {
            self.entries.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }

    fn unindex(&self, hash: u64) -> io::Result<()> {
        let shard = self.shard(hash)?;
        let known = shard.lock().unwrap_or_else(PoisonError::into_inner).remove(&hash);
        if known.is_some() {
            self.entries.fetch_sub(1, Ordering::Relaxed);
        }
        Ok(())
    }

    fn slot_of(&self, key: &FileKey) -> Option<u64> {
        let hash = hash(key.bytes());
        let shard = self.shard(hash).ok()?;
        shard.lock().unwrap_or_else(PoisonError::into_inner).get(&hash).copied()
    }

    /// Key, parent and name of the record in a slot.
    fn load(&self, slot: u64) -> io::Result<Option<(FileKey, FileKey, Vec<u8>)>> {
        let mut bytes = vec![0; HEAD + 2 * FileKey::MAX + 256];
        let read = read_at(&self.file, &mut bytes, slot)?;
        let taken = bytes.get(..read).and_then(decode);
        let Some(record) = taken else { return Ok(None) };
        let keys = FileKey::new(record.key).zip(FileKey::new(record.parent));
        Ok(keys.map(|(key, parent)| (key, parent, record.name.to_vec())))
    }

    /// Notes where an object is. What is known already writes nothing.
    ///
    /// # Errors
    /// What the kernel says; `StorageFull` at a limit.
    pub fn remember(&self, parent: &FileKey, name: &[u8], key: &FileKey) -> io::Result<()> {
        let known = self.slot_of(key);
        if let Some(slot) = known
            && let Some((k, p, n)) = self.load(slot)?
            && k == *key
            && p == *parent
            && n == name
        {
            return Ok(());
        }
        if known.is_none() && self.entries.load(Ordering::Relaxed) >= ENTRIES_MAX {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let slot = self.append(&encode(key, parent, name)?)?;
        self.index(hash(key.bytes()), slot)
    }

    /// Forgets an object. A record without a name says so after a restart.
    ///
    /// # Errors
    /// What the kernel says; `StorageFull` at a limit. It is forgotten until a restart all the same.
    pub fn forget(&self, key: &FileKey) -> io::Result<()> {
        if self.locate(key).is_none() {
            return Ok(());
        }
        self.unindex(hash(key.bytes()))?;
        self.append(&encode(key, &FileKey { len: 0, bytes: [0; FileKey::MAX] }, b"")?)?;
        Ok(())
    }

    /// Writes a record into slots that nobody else has; gives the first.
    fn append(&self, record: &[u8]) -> io::Result<u64> {
        let slots = (record.len() / SLOT) as u64;
        let slot = self.next.fetch_add(slots, Ordering::Relaxed);
        if slot.saturating_add(slots) > SLOTS_MAX {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.file.write_all_at(record, slot * SLOT as u64)?;
        Ok(slot)
    }

    /// Where an object is: its parent and its name there.
    pub fn locate(&self, key: &FileKey) -> Option<(FileKey, Vec<u8>)> {
        let (found, parent, name) = self.load(self.slot_of(key)?).ok()??;
        (found == *key).then_some((parent, name))
    }

    /// Puts everything noted so far on disk.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }
}

/// Reads as much as there is from a slot on.
fn read_at(file: &File, bytes: &mut [u8], slot: u64) -> io::Result<usize> {
    let mut read = 0;
    while let Some(rest) = bytes.get_mut(read..).filter(|rest| !rest.is_empty()) {
        match file.read_at(rest, slot * SLOT as u64 + read as u64)? {
            0 => break,
            got => read += got,
        }
    }
    Ok(read)
}

/// A part of the file in memory, for reading it from the start to the end.
#[derive(Default)]
struct Window {
    bytes: Vec<u8>,
    first: u64,
}

impl Window {
    const SLOTS: usize = 16 * 1024;

    /// The bytes from a slot on: at least a whole record, if there is one.
    fn at(&mut self, file: &File, slot: u64) -> io::Result<&[u8]> {
        let offset = |first: u64| usize::try_from((slot - first) * SLOT as u64).unwrap_or(0);
        let have = self.bytes.len().saturating_sub(offset(self.first));
        let whole_file = self.bytes.len() < Self::SLOTS * SLOT && !self.bytes.is_empty();
        if slot < self.first || have < RECORD_MAX && !whole_file {
            self.bytes.resize(Self::SLOTS * SLOT, 0);
            let read = read_at(file, &mut self.bytes, slot)?;
            self.bytes.truncate(read);
            self.first = slot;
        }
        Ok(self.bytes.get(offset(self.first)..).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests;
