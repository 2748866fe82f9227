//! The persistent table of names: for each object its parent and its name there, for one with hard
//! links several of both.
//!
//! A server that may not open objects by handle finds them through it, also after a restart.
//!
//! **The file** is a sequence of records in slots of 64 bytes; a record (see `record.rs`) takes as many slots as it needs: a key and the dentries
//! of the object, the newest first. A later record of a key replaces the earlier one; one without a dentry means that the object was removed. A
//! writer allocates its slots by one atomic addition and writes them by one `pwrite`, so writers never wait for one another and no lock is held
//! over I/O, except when a new file replaces this one. Of two concurrent writers of one key, the later finds that the slot it started from is no
//! longer the key's and retries.
//!
//! **After a crash** any record may be missing or torn, and slots in between may be empty. Reading
//! goes from slot to slot: one that does not begin a whole record with the right hash is skipped, so
//! every complete record is found. A killed server loses nothing (the kernel has the data); a power
//! cut may lose the records since the last [`InodeTable::sync`].
//!
//! **Memory** is an index from the hash of a key to its slot, about 20 bytes each; names stay in the
//! file. The key in the record is compared, so of two keys with equal hashes only one is lost.
//!
//! **Growth**: at open, a file of which less than half is still valid is compacted; while it is in use,
//! one that has become four times as large ([`InodeTable::compact`], every few seconds). `SLOTS_MAX`
//! bounds the file, `ENTRIES_MAX` the index and `DENTRIES_MAX` a record.

pub mod dentry;
mod record;
mod records;

use dentry::{Dentry, FileKey};
use records::Records;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

/// Slots from which on a file is compacted while it is in use: 16 MiB.
const COMPACT_MIN: u64 = 256 << 10;

/// The table.
pub struct InodeTable {
    path: PathBuf,
    /// Locked for writing only to replace the file; every other use locks it for reading.
    records: RwLock<Records>,
}

impl InodeTable {
    /// Opens the table, or creates it; torn records of a crash are ignored.
    ///
    /// # Errors
    /// The kernel's error of the file.
    pub fn open(path: &Path) -> io::Result<Self> {
        let records = RwLock::new(Records::read(path)?);
        let table = Self { path: path.to_owned(), records };
        if table.read().is_half_empty() {
            table.rewrite()?;
        }
        Ok(table)
    }

    /// A panic leaves it consistent: a record is valid or not.
    fn read(&self) -> RwLockReadGuard<'_, Records> {
        self.records.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Compacts the file if most of its records are obsolete; whether it did. One thread may call this
    /// at a time; others use the table meanwhile.
    ///
    /// # Errors
    /// The kernel's error; the table is unchanged.
    pub fn compact(&self) -> io::Result<bool> {
        self.compact_beyond(COMPACT_MIN)
    }

    fn compact_beyond(&self, slots_min: u64) -> io::Result<bool> {
        {
            let records = self.read();
            // another file may be at the path, of an export that replaces this one
            if !records.has_grown(slots_min) || !records.is_at(&self.path)? {
                return Ok(false);
            }
        }
        let written = self.rewrite();
        if written.is_err() {
            // not again at once: the disk may be full
            self.read().rebase();
        }
        written.map(|()| true)
    }

    /// Writes the valid records to a new file, which replaces the old one: most of it while others use the table,
    /// and the changes of that time under the lock.
    fn rewrite(&self) -> io::Result<()> {
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
        // removing a large file takes time
        drop(old);
        Ok(())
    }

    /// Adds a name of an object. A known name writes nothing.
    ///
    /// # Errors
    /// The kernel's error; `StorageFull` at a limit.
    pub fn remember(&self, parent: &FileKey, name: &[u8], key: &FileKey) -> io::Result<()> {
        self.read().remember(parent, name, key)
    }

    /// Adds a name that an object is about to get, after its existing ones; whether it is new.
    ///
    /// # Errors
    /// Those of [`remember`](Self::remember).
    pub fn expect(&self, key: &FileKey, dentry: &Dentry) -> io::Result<bool> {
        self.read().expect(key, dentry)
    }

    /// Records that an object was found under a name and not under those before it.
    ///
    /// # Errors
    /// Those of [`remember`](Self::remember).
    pub fn prefer(&self, dentry: &Dentry, key: &FileKey) -> io::Result<()> {
        self.read().prefer(dentry, key)
    }

    /// Removes a name of an object, and adds another one if given. The last dentry stays: its
    /// directory is where another name is searched.
    ///
    /// # Errors
    /// Those of [`remember`](Self::remember).
    pub fn moved(&self, key: &FileKey, from: &Dentry, to: Option<&Dentry>) -> io::Result<()> {
        self.read().moved(key, from, to)
    }

    /// Removes an object: writes a record without a dentry, for a restart.
    ///
    /// # Errors
    /// The kernel's error; `StorageFull` at a limit. It is removed until a restart all the same.
    pub fn forget(&self, key: &FileKey) -> io::Result<()> {
        self.read().forget(key)
    }

    /// An object's names: the newest first; none if it is unknown.
    pub fn dentries(&self, key: &FileKey) -> Vec<Dentry> {
        self.read().dentries(key)
    }

    /// Syncs all records.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn sync(&self) -> io::Result<()> {
        self.read().sync()
    }
}

#[cfg(test)]
mod tests;
