//! The persistent table of names: for each object its parent and its name there, for one with hard
//! links several of both.
//!
//! A server that may not open objects by handle finds them again through it, also after a restart.
//!
//! **The file** is a sequence of records in slots of 64 bytes; a record (see `record.rs`) takes as
//! many slots as it needs: a key and the places where the object is, the newest first. A later
//! record of a key replaces the earlier one; one without a place says that the object is gone. A
//! writer takes its slots by one atomic addition and writes them by one `pwrite`, so writers never
//! wait for one another and no lock is held over I/O, but when a new file takes the place of this one. Of two that write of one key at a time, the
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
//! **Growth**: at open, a file of which less than half is still in force is written anew; while it is in
//! use, one that has become four times as large ([`InodeTable::tidy`], each few seconds).
//! [`SLOTS_MAX`] bounds the file, [`ENTRIES_MAX`] the index and [`PLACES_MAX`] a record.

mod record;
mod records;

use records::Records;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

/// Objects that are remembered at the most: 160 MB of memory.
pub const ENTRIES_MAX: usize = 8 << 20;
/// Slots of the file at the most: 8 GiB.
pub const SLOTS_MAX: u64 = 128 << 20;

/// Places of one object that are remembered at the most; the newest are kept.
pub const PLACES_MAX: usize = 8;

/// Slots from which on a file is written anew while it is in use: 16 MiB.
const TIDY_MIN: u64 = 256 << 10;

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
    path: PathBuf,
    /// Locked for writing only to put a new file in the place of this one; each other use of it holds
    /// it for reading, which nobody waits for but that.
    records: RwLock<Records>,
}

impl InodeTable {
    /// Opens the table, or makes it; what a crash left half is left out.
    ///
    /// # Errors
    /// What the kernel says of the file.
    pub fn open(path: &Path) -> io::Result<Self> {
        let records = RwLock::new(Records::read(path)?);
        let table = Self { path: path.to_owned(), records };
        if table.read().is_half_empty() {
            table.write_anew()?;
        }
        Ok(table)
    }

    /// What a panic leaves is whole: a record is in force or not.
    fn read(&self) -> RwLockReadGuard<'_, Records> {
        self.records.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes the file anew if most of it is what came and has gone; says whether it did. One thread may
    /// call this at a time; others use the table meanwhile.
    ///
    /// # Errors
    /// What the kernel says; the table is as it was.
    pub fn tidy(&self) -> io::Result<bool> {
        self.tidy_beyond(TIDY_MIN)
    }

    fn tidy_beyond(&self, slots_min: u64) -> io::Result<bool> {
        {
            let records = self.read();
            // another may have been put at the path, by an export that takes this one's place
            if !records.has_grown(slots_min) || !records.is_at(&self.path)? {
                return Ok(false);
            }
        }
        let written = self.write_anew();
        if written.is_err() {
            // not again at once: the disk may be full
            self.read().rebase();
        }
        written.map(|()| true)
    }

    /// Writes what is in force to a new file, which takes the old one's place: nearly all of it beside those who use
    /// the table, and what they have changed meanwhile when for a moment nobody does.
    fn write_anew(&self) -> io::Result<()> {
        let part = PathBuf::from(format!("{}.part", self.path.display()));
        let fresh = Records::create(&part)?;
        let copied = self.read().copy_to(&fresh)?;
        fresh.sync()?;
        let mut records = self.records.write().unwrap_or_else(PoisonError::into_inner);
        records.copy_changes_to(&fresh, copied)?;
        std::fs::rename(&part, &self.path)?;
        fresh.rebase();
        let old = std::mem::replace(&mut *records, fresh);
        drop(records);
        // a large file takes time to go
        drop(old);
        Ok(())
    }

    /// Notes where an object is. What is known already writes nothing.
    ///
    /// # Errors
    /// What the kernel says; `StorageFull` at a limit.
    pub fn remember(&self, parent: &FileKey, name: &[u8], key: &FileKey) -> io::Result<()> {
        self.read().remember(parent, name, key)
    }

    /// Notes that an object may soon be at a place, behind that where it is; says whether that is new.
    ///
    /// # Errors
    /// Those of [`remember`](Self::remember).
    pub fn expect(&self, key: &FileKey, place: &Place) -> io::Result<bool> {
        self.read().expect(key, place)
    }

    /// Notes that an object was found at a place and not at those before it.
    ///
    /// # Errors
    /// Those of [`remember`](Self::remember).
    pub fn prefer(&self, place: &Place, key: &FileKey) -> io::Result<()> {
        self.read().prefer(place, key)
    }

    /// Notes that an object is no longer at a place, and is at another if one is named. The last
    /// place stays: its directory is where another name is looked for.
    ///
    /// # Errors
    /// Those of [`remember`](Self::remember).
    pub fn moved(&self, key: &FileKey, from: &Place, to: Option<&Place>) -> io::Result<()> {
        self.read().moved(key, from, to)
    }

    /// Forgets an object. A record without a place says so after a restart.
    ///
    /// # Errors
    /// What the kernel says; `StorageFull` at a limit. It is forgotten until a restart all the same.
    pub fn forget(&self, key: &FileKey) -> io::Result<()> {
        self.read().forget(key)
    }

    /// Where an object is: the newest place first; none if it is not known.
    pub fn places(&self, key: &FileKey) -> Vec<Place> {
        self.read().places(key)
    }

    /// Puts everything noted so far on disk.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn sync(&self) -> io::Result<()> {
        self.read().sync()
    }
}

#[cfg(test)]
mod tests;
