//! How an object is found by its file id:
//!
//! - *By handle*: the kernel opens the object by its handle (`CAP_DAC_READ_SEARCH`).
//! - *By table*: a persistent table remembers for each id its parent and its name. The path is put
//!   together up to the root and opened component by component, never through a link and never
//!   into another mount. What is found must have the very id. If it has not (its newest name was
//!   removed, a local program renamed it), its other names are tried, then the directories where it was
//!   are searched once ([`crate::naming::table_walk`]).
//!
//! The ids are the same in both modes, so handles also survive a change between them.

use crate::errno;
use crate::naming::fid::{dentry, file_key, kernel_handle};
use crate::naming::inode_table::InodeTable;
use crate::naming::table_error::{log_table_error, table_error};
use crate::naming::table_walk::TableWalk;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;
use sys::file_handle;
use sys::open::{How, reopen};
use vfs::{Fid, Result, Status};

/// How a backend finds its objects.
#[derive(Clone)]
pub enum FidResolver {
    /// The kernel opens handles for us.
    Handles,
    /// A table of names is kept.
    Table(Arc<InodeTable>),
}

impl FidResolver {
    /// Opens an object as a path. May block.
    ///
    /// # Errors
    /// [`Status::Stale`] if it was removed, [`Status::BadHandle`] if the id is invalid.
    pub fn open(&self, root: BorrowedFd<'_>, root_fid: &Fid, fid: &Fid) -> Result<OwnedFd> {
        if fid == root_fid {
            return root.try_clone_to_owned().map_err(errno::from);
        }
        match self {
            Self::Handles => open_handle(root, fid),
            Self::Table(table) => TableWalk { table, root, root_fid }.open(fid, None),
        }
    }

    /// Stores the name of an object.
    ///
    /// # Errors
    /// [`Status::Io`] and the like if the table cannot be written; the id would not survive.
    pub fn remember(&self, dir: &Fid, name: &[u8], fid: &Fid) -> Result<()> {
        match self {
            Self::Handles => Ok(()),
            Self::Table(table) => {
                table.remember(&file_key(dir)?, name, &file_key(fid)?).map_err(table_error)
            }
        }
    }

    /// Stores a name that an object is about to get: a server that is killed in between finds it by one of the two.
    /// Returns whether it is new, and must be removed again if the operation fails.
    ///
    /// # Errors
    /// Those of [`remember`](Self::remember).
    pub fn note_expected(&self, fid: &Fid, dir: &Fid, name: &[u8]) -> Result<bool> {
        let Self::Table(table) = self else { return Ok(false) };
        table.expect(&file_key(fid)?, &dentry(dir, name)?).map_err(table_error)
    }

    /// Replaces a name of an object by another.
    ///
    /// # Errors
    /// Those of [`remember`](Self::remember).
    pub fn renamed(
        &self,
        fid: &Fid,
        (from_dir, from): (&Fid, &[u8]),
        (to_dir, to): (&Fid, &[u8]),
    ) -> Result<()> {
        let Self::Table(table) = self else { return Ok(()) };
        let (from, to) = (dentry(from_dir, from)?, dentry(to_dir, to)?);
        table.moved(&file_key(fid)?, &from, Some(&to)).map_err(table_error)
    }

    /// Removes a name of an object that has other names.
    pub fn name_removed(&self, fid: &Fid, dir: &Fid, name: &[u8]) {
        if let Self::Table(table) = self
            && let (Ok(key), Ok(from)) = (file_key(fid), dentry(dir, name))
            && let Err(error) = table.moved(&key, &from, None)
        {
            // the dentry only costs a search
            log_table_error(&error);
        }
    }

    /// Whether names are stored, and must be removed.
    pub const fn uses_table(&self) -> bool {
        matches!(self, Self::Table(_))
    }

    /// Removes an object that no longer exists.
    pub fn forget(&self, fid: &Fid) {
        if let Self::Table(table) = self
            && let Ok(key) = file_key(fid)
            && let Err(error) = table.forget(&key)
        {
            // a stale row only costs a search
            log_table_error(&error);
        }
    }

    /// Opens an object, of which we have a path descriptor, for data.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn open_data(
        &self,
        root: BorrowedFd<'_>,
        fid: &Fid,
        path: BorrowedFd<'_>,
        how: How,
    ) -> io::Result<OwnedFd> {
        if matches!(self, Self::Handles)
            && let Some(handle) = kernel_handle(fid)
        {
            return file_handle::open(root, &handle, how);
        }
        reopen(path, how)
    }
}

fn open_handle(root: BorrowedFd<'_>, fid: &Fid) -> Result<OwnedFd> {
    let handle = kernel_handle(fid).ok_or(Status::BadHandle)?;
    file_handle::open(root, &handle, How::Path).map_err(|e| match errno::status(&e) {
        Status::Inval | Status::NotSupp => Status::BadHandle,
        Status::NoEnt => Status::Stale,
        other => other,
    })
}
