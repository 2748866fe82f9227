//! Writing a file whose mode forbids it to its owner, for a server that runs as that owner.
//!
//! NFS version 3 has no open. A program may write through a descriptor that it opened before the mode
//! forbade it (`open` with mode 0444 creates such a file; git writes its packs like this), so a server
//! lets the owner write whatever the mode is ([`vfs::access::data_access`], RFC 1813 §4.4). A server
//! that runs as root can; one that runs as an ordinary user is refused by the kernel as soon as it has
//! to open the file again. So it sets the owner's bits of the mode while it opens the file, and then
//! restores the mode.
//!
//! Keeping the descriptor of CREATE instead is not enough: it ends with the server or when descriptors
//! are short, the mode may be changed later, and a program that is open for writing cannot be run. The
//! costs: ctime changes, as it does by the following write; for some microseconds others see the
//! temporary mode; and a server that is killed in that time leaves it, which gives rights only to the
//! owner, who may set the mode anyway. READ does not do this: it changes no attributes, and the export
//! may be read-only.
//!
//! One temporary mode of a file at a time, and no SETATTR of its mode meanwhile: else the temporary mode
//! would be taken for the file's own, or replace the new one. The lock guards the list; waiting for a
//! [`ModeLock`] blocks, and the caller has called `will_block` before.

use crate::cache::open_file::OpenFile;
use crate::errno;
use crate::fs::LocalFs;
use std::os::fd::BorrowedFd;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use sys::namespace::set_mode;
use sys::open::How;
use vfs::{Cx, Fid, Result, Status};

/// The owner's read and write bits: no range can be synced of a file that is open for one only.
const OWNERS: u32 = 0o600;
/// The bits of a mode that SETATTR can set, without those that the kernel clears by itself.
const MODE: u32 = 0o7777;
const PERMISSIONS: u32 = 0o777;

/// Device and inode number of the files whose mode is being changed, in all exports.
static CHANGED: Mutex<Vec<(u64, u64)>> = Mutex::new(Vec::new());
/// One has been removed.
static ENDED: Condvar = Condvar::new();

/// The exclusive right to change a file's mode, as long as this lives.
pub struct ModeLock((u64, u64));

impl ModeLock {
    /// Waits until no other thread has it.
    pub fn acquire(file: &OpenFile) -> Self {
        let is_taken = |ids: &mut Vec<_>| ids.contains(&file.id());
        let ids = ENDED.wait_while(changed(), is_taken);
        ids.unwrap_or_else(PoisonError::into_inner).push(file.id());
        Self(file.id())
    }
}

impl Drop for ModeLock {
    fn drop(&mut self) {
        changed().retain(|id| *id != self.0);
        ENDED.notify_all();
    }
}

fn changed() -> MutexGuard<'static, Vec<(u64, u64)>> {
    CHANGED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A mode that a file has until this is dropped.
struct TemporaryMode<'f> {
    path: BorrowedFd<'f>,
    own: u32,
    temporary: u32,
}

impl<'f> TemporaryMode<'f> {
    /// Sets the owner's bits of a file's mode, if this user is the owner and they are not set.
    fn set(path: BorrowedFd<'f>, user: u32) -> Result<Option<Self>> {
        let stat = sys::stat::basic_of_fd(path).map_err(errno::from)?;
        let own = stat.mode & MODE;
        let temporary = own | OWNERS;
        if stat.uid != user || temporary == own {
            return Ok(None);
        }
        set_mode(path, temporary).map_err(errno::from)?;
        Ok(Some(Self { path, own, temporary }))
    }
}

impl Drop for TemporaryMode<'_> {
    fn drop(&mut self) {
        let restored = sys::stat::basic_of_fd(self.path).and_then(|stat| {
            // or another process of this machine has set another since
            let is_lent = stat.mode & PERMISSIONS == self.temporary & PERMISSIONS;
            if is_lent { set_mode(self.path, self.own) } else { Ok(()) }
        });
        if let Err(error) = restored {
            let mode = self.own;
            tracing::warn!(%error, "a file that its owner may not write was written, and its mode {mode:04o} cannot be restored");
        }
    }
}

impl LocalFs {
    /// The descriptor for writing, opened if there is none yet, for a caller who has the right to write.
    pub(crate) fn writer_after_check<'f>(
        &self,
        cx: &Cx<'_>,
        file: &'f OpenFile,
        fid: &Fid,
    ) -> Result<BorrowedFd<'f>> {
        match self.writer(file, fid) {
            Err(Status::Acces) if !self.identity.can_switch() => {
                self.will_block(cx)?;
                let _lock = ModeLock::acquire(file);
                let _mode = TemporaryMode::set(file.path(), self.identity.cred(&cx.cred).uid)?;
                let open = || self.open_data(fid, file, How::Write);
                file.writer_or(open).map_err(errno::from)
            }
            opened => opened,
        }
    }
}
