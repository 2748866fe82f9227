//! The persistent table of names: for each object its parent and its name there, for one with hard
//! links several of both.
//!
//! A server that may not open objects by handle finds them again through it, also after a restart.
//!
//! **The file** is a sequence of records in slots of 64 bytes; a record (see `record.rs`) takes as
//! many slots as it needs: a key and the places where the object is, the newest first. A later
//! record of a key replaces the earlier one; one without a place says that the object is gone. A
//! writer takes its slots by one atomic addition and writes them by one `pwrite`, so writers never
//! wait for one another and no lock is held over I/O. Of two that write of one key at a time, the
//! later finds that the slot it began from is no longer the key's and begins anew.
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
//! [`SLOTS_MAX`] bounds the file, [`ENTRIES_MAX`] the index and [`PLACES_MAX`] a record.

mod record;

use record::{RECORD_MAX, SLOT, decode, encode, hash};
use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// Objects that are remembered at the most: 160 MB of memory.
pub const ENTRIES_MAX: usize = 8 << 20;
/// Slots of the file at the most: 8 GiB.
pub const SLOTS_MAX: u64 = 128 << 20;

/// Places of one object that are remembered at the most; the newest are kept.
pub const PLACES_MAX: usize = 8;

const SHARDS: usize = 64;

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

/// One of an object's names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The directory's key.
    pub parent: FileKey,
    /// The name there.
    pub name: Vec<u8>,
}

impl Place {
    fn is(&self, parent: &FileKey, name: &[u8]) -> bool {
        self.parent == *parent && self.name == name
    }
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
                    if record.is_gone() {
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
                let Some((key, places)) = self.load(slot)? else { continue };
                fresh.replace(&key, None, &places)?;
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
        self.index_if(hash, |_| true, slot).map(drop)
    }

    /// Notes a key's slot if the one that is known may be replaced; says whether it was.
    fn index_if(
        &self,
        hash: u64,
        may: impl FnOnce(Option<u64>) -> bool,
        slot: u64,
    ) -> io::Result<bool> {
        let mut shard = self.shard(hash)?.lock().unwrap_or_else(PoisonError::into_inner);
        let known = shard.get(&hash).copied();
        if !may(known) {
            return Ok(false);
        }
        shard.insert(hash, slot);
        if known.is_none() {
            self.entries.fetch_add(1, Ordering::Relaxed);
        }
        Ok(true)
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

    /// The record in a slot: its key and the places.
    fn load(&self, slot: u64) -> io::Result<Option<(FileKey, Vec<Place>)>> {
        let mut bytes = vec![0; 8 * SLOT];
        let mut read = read_at(&self.file, &mut bytes, slot)?;
        let len = record::length(&bytes).unwrap_or(0);
        if len > bytes.len() {
            bytes.resize(len, 0);
            read = read_at(&self.file, &mut bytes, slot)?;
        }
        let Some(record) = bytes.get(..read).and_then(decode) else { return Ok(None) };
        Ok(FileKey::new(record.key).zip(record.places()))
    }

    /// A key's slot, and the places in it.
    fn known(&self, key: &FileKey) -> io::Result<(Option<u64>, Vec<Place>)> {
        let Some(slot) = self.slot_of(key) else { return Ok((None, Vec::new())) };
        let found = self.load(slot)?.filter(|(found, _)| found == key);
        Ok((Some(slot), found.map(|(_, places)| places).unwrap_or_default()))
    }

    /// Changes an object's places by `change`, which says whether there is anything to write; it is
    /// called again if somebody else was faster.
    fn update(
        &self,
        key: &FileKey,
        mut change: impl FnMut(&mut Vec<Place>) -> bool,
    ) -> io::Result<()> {
        loop {
            let (slot, mut places) = self.known(key)?;
            if !change(&mut places) {
                return Ok(());
            }
            places.truncate(PLACES_MAX);
            if self.replace(key, slot, &places)? {
                return Ok(());
            }
        }
    }

    /// Writes a record of a key whose slot was `known`; not in force if it no longer is.
    fn replace(&self, key: &FileKey, known: Option<u64>, places: &[Place]) -> io::Result<bool> {
        if known.is_none() && self.entries.load(Ordering::Relaxed) >= ENTRIES_MAX {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let slot = self.append(&encode(key, places)?)?;
        self.index_if(hash(key.bytes()), |now| now == known, slot)
    }

    /// Notes where an object is. What is known already writes nothing.
    ///
    /// # Errors
    /// What the kernel says; `StorageFull` at a limit.
    pub fn remember(&self, parent: &FileKey, name: &[u8], key: &FileKey) -> io::Result<()> {
        self.update(key, |places| {
            let new = !places.iter().any(|place| place.is(parent, name));
            if new {
                places.insert(0, Place { parent: *parent, name: name.to_vec() });
            }
            new
        })
    }

    /// Notes that an object was found at a place and not at those before it.
    ///
    /// # Errors
    /// Those of [`remember`](Self::remember).
    pub fn prefer(&self, place: &Place, key: &FileKey) -> io::Result<()> {
        self.update(key, |places| {
            let first = places.first() == Some(place);
            places.retain(|known| known != place);
            places.insert(0, place.clone());
            !first
        })
    }

    /// Notes that an object is no longer at a place, and is at another if one is named. The last
    /// place stays: its directory is where another name is looked for.
    ///
    /// # Errors
    /// Those of [`remember`](Self::remember).
    pub fn moved(&self, key: &FileKey, from: &Place, to: Option<&Place>) -> io::Result<()> {
        self.update(key, |places| {
            let before = places.clone();
            places.retain(|place| place != from && Some(place) != to);
            if let Some(to) = to {
                places.insert(0, to.clone());
            }
            !places.is_empty() && *places != before
        })
    }

    /// Forgets an object. A record without a place says so after a restart.
    ///
    /// # Errors
    /// What the kernel says; `StorageFull` at a limit. It is forgotten until a restart all the same.
    pub fn forget(&self, key: &FileKey) -> io::Result<()> {
        if self.places(key).is_empty() {
            return Ok(());
        }
        self.unindex(hash(key.bytes()))?;
        self.append(&encode(key, &[])?)?;
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

    /// Where an object is: the newest place first; none if it is not known.
    pub fn places(&self, key: &FileKey) -> Vec<Place> {
        self.known(key).map(|(_, places)| places).unwrap_or_default()
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
