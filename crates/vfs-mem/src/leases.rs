//! Holding changes of directories back: nobody but the server changes what is in memory, so it is its own calls that fail.
//! Files have no leases here.
//!
//! The lock of the file system guards what is held; callbacks are called under it, and must not block.

use crate::mem::{MemFs, State};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use vfs::{Attr, Cx, Fid, FileType, Kept, LeaseBreakCallback, Leases, Result, Status};

/// A directory whose changes are held back.
struct HeldDirectory {
    on_break: LeaseBreakCallback,
    /// Changes pass for a moment.
    lets_pass: bool,
}

/// The directories whose changes are held back, by their inodes.
#[derive(Default)]
pub struct HeldDirectories(BTreeMap<u64, HeldDirectory>);

impl HeldDirectories {
    /// Refuses a change of a directory that is held.
    ///
    /// # Errors
    /// [`Status::Jukebox`].
    pub fn check(&self, ino: u64) -> Result<()> {
        match self.0.get(&ino) {
            Some(held) if !held.lets_pass => {
                (held.on_break)();
                Err(Status::Jukebox)
            }
            Some(_) | None => Ok(()),
        }
    }
}

/// Does something about a held directory when it is dropped.
struct DirectoryGuard {
    state: Arc<Mutex<State>>,
    ino: u64,
    end: fn(&mut HeldDirectories, u64),
}

impl Drop for DirectoryGuard {
    fn drop(&mut self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        (self.end)(&mut state.held, self.ino);
    }
}

impl Leases for MemFs {
    fn hold_back_writers(
        &self,
        _cx: &Cx<'_>,
        _fid: &Fid,
        _on_break: LeaseBreakCallback,
    ) -> Result<Option<Kept>> {
        Err(Status::NotSupp)
    }

    fn hold_back_everybody(
        &self,
        _cx: &Cx<'_>,
        _fid: &Fid,
        _on_break: LeaseBreakCallback,
    ) -> Result<Option<Kept>> {
        Err(Status::NotSupp)
    }

    fn change_by_holder(&self, _fid: &Fid, change: &mut dyn FnMut() -> Option<Attr>) {
        change();
    }

    fn holds_directories(&self) -> bool {
        true
    }

    fn hold_back_changes(
        &self,
        _cx: &Cx<'_>,
        fid: &Fid,
        on_break: LeaseBreakCallback,
    ) -> Result<Option<Kept>> {
        let mut state = self.lock();
        let inode = state.get(fid)?;
        if inode.ftype() != FileType::Directory {
            return Err(Status::NotDir);
        }
        let ino = inode.ino;
        if state.held.0.contains_key(&ino) {
            return Ok(None);
        }
        state.held.0.insert(ino, HeldDirectory { on_break, lets_pass: false });
        drop(state);
        let end = |held: &mut HeldDirectories, ino| drop(held.0.remove(&ino));
        Ok(Some(Kept::new(DirectoryGuard { state: self.shared(), ino, end })))
    }

    fn let_change_pass(&self, _cx: &Cx<'_>, fid: &Fid) -> Option<Kept> {
        let ino = crate::mem::ino(fid).ok()?;
        let mut state = self.lock();
        let held = state.held.0.get_mut(&ino).filter(|held| !held.lets_pass)?;
        held.lets_pass = true;
        drop(state);
        let end = |held: &mut HeldDirectories, ino| {
            if let Some(held) = held.0.get_mut(&ino) {
                held.lets_pass = false;
            }
        };
        Some(Kept::new(DirectoryGuard { state: self.shared(), ino, end }))
    }
}
