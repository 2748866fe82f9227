//! The persistent table of names: for each object its parent and its name there, for one with hard
//! links several of both.
//!
//! A server that may not open objects by handle finds them again through it, also after a restart.
//!
//! **The file** is a sequence of records in slots of 64 bytes; a record (see `record.rs`) takes as
//! many slots as it needs: a key and the dentries where the object is, the newest first. A later
//! record of a key replaces the earlier one; one without a dentry says that the object is gone. A
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
//! use, one that has become four times as large ([`InodeTable::compact`], each few seconds).
//! `SLOTS_MAX` bounds the file, `ENTRIES_MAX` the index and `DENTRIES_MAX` a record.

pub mod dentry;
mod record;
mod records;

use dentry::{Dentry, FileKey};
use records::Records;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

/// Slots from which on a file is written anew while it is in use: 16 MiB.
const COMPACT_MIN: u64 = 256 << 10;

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
            table.rewrite()?;
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
    pub fn compact(&self) -> io::Result<bool> {
        self.compact_beyond(COMPACT_MIN)
    }

    fn compact_beyond(&self, slots_min: u64) -> io::Result<bool> {
        {
            let records = self.read();
            // another may have been put at the path, by an export that takes this one's place
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

    /// Writes what is in force to a new file, which takes the old one's place: nearly all of it beside those who use
    /// the table, and what they have changed meanwhile when for a moment nobody does.
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

    /// Notes that an object may soon have another name as well, after those that it has; says whether that is new.
    ///
    /// # Errors
    /// Those of [`remember`](Self::remember).
    pub fn expect(&self, key: &FileKey, dentry: &Dentry) -> io::Result<bool> {
        self.read().expect(key, dentry)
    }

    /// Notes that an object was found under a name and not under those before it.
    ///
    /// # Errors
    /// Those of [`remember`](Self::remember).
    pub fn prefer(&self, dentry: &Dentry, key: &FileKey) -> io::Result<()> {
        self.read().prefer(dentry, key)
    }

    /// Notes that an object has lost a name, and has another one if that is given. The last
    /// dentry stays: its directory is where another name is looked for.
    ///
    /// # Errors
    /// Those of [`remember`](Self::remember).
    pub fn moved(&self, key: &FileKey, from: &Dentry, to: Option<&Dentry>) -> io::Result<()> {
        self.read().moved(key, from, to)
    }

    /// Forgets an object. A record without a dentry says so after a restart.
    ///
    /// # Errors
    /// What the kernel says; `StorageFull` at a limit. It is forgotten until a restart all the same.
    pub fn forget(&self, key: &FileKey) -> io::Result<()> {
        self.read().forget(key)
    }

    /// An object's names: the newest first; none if it is not known.
    pub fn dentries(&self, key: &FileKey) -> Vec<Dentry> {
        self.read().dentries(key)
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
