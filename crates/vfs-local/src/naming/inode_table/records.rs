//! The table of names in one file: the records, and the index of the valid ones.

use super::dentry::{DENTRIES_MAX, Dentry, FileKey};
use super::record::{RECORD_MAX, SLOT, decode, encode, hash, length};
use std::collections::HashMap;
use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// Most objects: 160 MB of memory.
pub const ENTRIES_MAX: usize = 8 << 20;
/// Most slots of the file: 8 GiB.
pub const SLOTS_MAX: u64 = 128 << 20;
/// Shards of the index, each with a lock of its own.
const SHARDS: usize = 64;

/// The table in one file.
pub(super) struct Records {
    file: File,
    /// The first free slot.
    next: AtomicU64,
    entries: AtomicUsize,
    /// Hash of a key → slot. Each shard is locked for a map operation only.
    shards: Vec<Mutex<HashMap<u64, u64>>>,
    /// Slots from which on growth is measured.
    base: AtomicU64,
}

impl Records {
    fn empty(file: File) -> Self {
        Self {
            file,
            next: AtomicU64::new(0),
            entries: AtomicUsize::new(0),
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            base: AtomicU64::new(0),
        }
    }

    /// Reads a file, which is created if necessary.
    pub fn read(path: &Path) -> io::Result<Self> {
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
        table.rebase();
        Ok(table)
    }

    /// The same, empty, in a new file.
    pub fn create(path: &Path) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(true).mode(0o600);
        Ok(Self::empty(options.open(path)?))
    }

    /// Whether less than half is still valid.
    pub fn is_half_empty(&self) -> bool {
        let used = self.next.load(Ordering::Relaxed);
        used > 1024 && (self.entries.load(Ordering::Relaxed) as u64) < used / 4
    }

    /// Whether it has become four times as large as it was, or nearly reaches its limit, and has at
    /// least this many slots.
    pub fn has_grown(&self, slots_min: u64) -> bool {
        let base = self.base.load(Ordering::Relaxed);
        let due = base.saturating_mul(4).clamp(slots_min, SLOTS_MAX / 4 * 3);
        // one that was large already has to have become larger
        self.next.load(Ordering::Relaxed) >= due.max(base.saturating_add(base / 4))
    }

    /// Growth is measured from here on.
    pub fn rebase(&self) {
        self.base.store(self.next.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    /// Whether this is the file that is found at a path.
    pub fn is_at(&self, path: &Path) -> io::Result<bool> {
        let id = |meta: Metadata| (meta.dev(), meta.ino());
        match std::fs::metadata(path) {
            Ok(there) => Ok(id(there) == id(self.file.metadata()?)),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(e) => Err(e),
        }
    }

    /// Copies the valid records, while others may change them; returns hash of a key → slot.
    pub fn copy_to(&self, fresh: &Self) -> io::Result<HashMap<u64, u64>> {
        let mut copied = HashMap::new();
        for shard in &self.shards {
            let slots = shard.lock().unwrap_or_else(PoisonError::into_inner).clone();
            for (hash, slot) in slots {
                if let Some((key, dentries)) = self.load(slot)? {
                    fresh.replace(&key, None, &dentries)?;
                    copied.insert(hash, slot);
                }
            }
        }
        Ok(copied)
    }

    /// Copies the changes since that copy. No other thread may change anything meanwhile.
    pub fn copy_changes_to(&self, fresh: &Self, mut copied: HashMap<u64, u64>) -> io::Result<()> {
        for shard in &self.shards {
            let shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
            for (hash, slot) in &*shard {
                if copied.remove(hash) != Some(*slot)
                    && let Some((key, dentries)) = self.load(*slot)?
                {
                    fresh.replace(&key, fresh.slot_of(&key), &dentries)?;
                }
            }
        }
        // what is left has been forgotten
        for slot in copied.into_values() {
            if let Some((key, _)) = self.load(slot)? {
                fresh.forget(&key)?;
            }
        }
        Ok(())
    }

    fn shard(&self, hash: u64) -> io::Result<&Mutex<HashMap<u64, u64>>> {
        let index = usize::try_from(hash % SHARDS as u64).unwrap_or(0);
        self.shards.get(index).ok_or_else(|| io::Error::other("no such shard"))
    }

    fn index(&self, hash: u64, slot: u64) -> io::Result<()> {
        self.index_if_replaceable(hash, |_| true, slot).map(drop)
    }

    /// Stores a key's slot if the known one may be replaced; whether it was.
    fn index_if_replaceable(
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

    /// The record in a slot: its key and the dentries.
    fn load(&self, slot: u64) -> io::Result<Option<(FileKey, Vec<Dentry>)>> {
        let mut bytes = vec![0; 8 * SLOT];
        let mut read = read_at(&self.file, &mut bytes, slot)?;
        let len = length(&bytes).unwrap_or(0);
        if len > bytes.len() {
            bytes.resize(len, 0);
            read = read_at(&self.file, &mut bytes, slot)?;
        }
        let Some(record) = bytes.get(..read).and_then(decode) else { return Ok(None) };
        Ok(FileKey::new(record.key).zip(record.dentries()))
    }

    /// A key's slot, and the dentries in it.
    fn known(&self, key: &FileKey) -> io::Result<(Option<u64>, Vec<Dentry>)> {
        let Some(slot) = self.slot_of(key) else { return Ok((None, Vec::new())) };
        let found = self.load(slot)?.filter(|(found, _)| found == key);
        Ok((Some(slot), found.map(|(_, dentries)| dentries).unwrap_or_default()))
    }

    /// Changes an object's dentries by `change`, which returns whether there is anything to write; it
    /// is called again after a conflict with another writer.
    fn update(
        &self,
        key: &FileKey,
        mut change: impl FnMut(&mut Vec<Dentry>) -> bool,
    ) -> io::Result<()> {
        loop {
            let (slot, mut dentries) = self.known(key)?;
            if !change(&mut dentries) {
                return Ok(());
            }
            dentries.truncate(DENTRIES_MAX);
            if self.replace(key, slot, &dentries)? {
                return Ok(());
            }
        }
    }

    /// Writes a record of a key whose slot was `known`; it is not valid if it no longer is.
    fn replace(&self, key: &FileKey, known: Option<u64>, dentries: &[Dentry]) -> io::Result<bool> {
        if known.is_none() && self.entries.load(Ordering::Relaxed) >= ENTRIES_MAX {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let slot = self.append(&encode(key, dentries)?)?;
        self.index_if_replaceable(hash(key.bytes()), |now| now == known, slot)
    }

    /// Adds a name of an object. A known name writes nothing.
    ///
    /// # Errors
    /// The kernel's error; `StorageFull` at a limit.
    pub fn remember(&self, parent: &FileKey, name: &[u8], key: &FileKey) -> io::Result<()> {
        self.update(key, |dentries| {
            let new = !dentries.iter().any(|dentry| dentry.is(parent, name));
            if new {
                dentries.insert(0, Dentry { parent: *parent, name: name.to_vec() });
            }
            new
        })
    }

    /// Adds a name that an object is about to get, after its existing ones; whether it is new.
    ///
    /// # Errors
    /// Those of [`remember`](Self::remember).
    pub fn expect(&self, key: &FileKey, dentry: &Dentry) -> io::Result<bool> {
        let mut new = false;
        self.update(key, |dentries| {
            new = !dentries.contains(dentry);
            if new {
                dentries.insert(dentries.len().min(1), dentry.clone());
            }
            new
        })?;
        Ok(new)
    }

    /// Records that an object was found under a name and not under those before it.
    ///
    /// # Errors
    /// Those of [`remember`](Self::remember).
    pub fn prefer(&self, dentry: &Dentry, key: &FileKey) -> io::Result<()> {
        self.update(key, |dentries| {
            let first = dentries.first() == Some(dentry);
            dentries.retain(|known| known != dentry);
            dentries.insert(0, dentry.clone());
            !first
        })
    }

    /// Removes a name of an object, and adds another one if given. The last dentry stays: its
    /// directory is where another name is searched.
    ///
    /// # Errors
    /// Those of [`remember`](Self::remember).
    pub fn moved(&self, key: &FileKey, from: &Dentry, to: Option<&Dentry>) -> io::Result<()> {
        self.update(key, |dentries| {
            let before = dentries.clone();
            dentries.retain(|dentry| dentry != from && Some(dentry) != to);
            if let Some(to) = to {
                dentries.insert(0, to.clone());
            }
            !dentries.is_empty() && *dentries != before
        })
    }

    /// Removes an object: writes a record without a dentry, for a restart.
    ///
    /// # Errors
    /// The kernel's error; `StorageFull` at a limit. It is removed until a restart all the same.
    pub fn forget(&self, key: &FileKey) -> io::Result<()> {
        if self.dentries(key).is_empty() {
            return Ok(());
        }
        self.unindex(hash(key.bytes()))?;
        self.append(&encode(key, &[])?)?;
        Ok(())
    }

    /// Writes a record into newly allocated slots; returns the first.
    fn append(&self, record: &[u8]) -> io::Result<u64> {
        let slots = (record.len() / SLOT) as u64;
        let slot = self.next.fetch_add(slots, Ordering::Relaxed);
        if slot.saturating_add(slots) > SLOTS_MAX {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.file.write_all_at(record, slot * SLOT as u64)?;
        Ok(slot)
    }

    /// An object's names: the newest first; none if it is unknown.
    pub fn dentries(&self, key: &FileKey) -> Vec<Dentry> {
        self.known(key).map(|(_, dentries)| dentries).unwrap_or_default()
    }

    /// Syncs all records.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }
}

/// Reads up to a buffer of data from a slot on.
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
