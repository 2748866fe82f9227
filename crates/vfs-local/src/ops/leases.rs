//! Holding local programs back: see [`vfs::Leases`] and [`crate::cache::leases`].
//!
//! A read lease cannot be had while anybody has the file open for writing, the server included: its own descriptors for
//! writing are closed first, unless data written through them is not known to be on disk. A write lease cannot be had while
//! the file is open at all but by the descriptor that it is taken of: the server's others are closed, and until the lease
//! ends all calls get copies of that one ([`Leases::sole_open_file`](crate::cache::leases::Leases::sole_open_file)).
//!
//! A delegation of a directory is taken of a descriptor of its own. It holds back the server as well, which asks before it
//! changes a directory ([`Leases::check_directory`](crate::cache::leases::Leases::check_directory)).
//!
//! With `attr-cache` attributes, names and listings from before everybody was held back do not count from then on: their holder
//! would keep them for as long as it has the delegation.

use crate::cache::attr_cache::ObjectId;
use crate::cache::change_attr::ChangeSource;
use crate::cache::leases::{HeldLease, PassingChange};
use crate::cache::open_file::OpenFile;
use crate::cache::open_files::OpenFiles;
use crate::errno;
use crate::fs::LocalFs;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use sys::errno::Errno;
use sys::lease::Kind;
use sys::open::How;
use vfs::{
    Attr, Cx, Fid, FileType, Kept, LeaseBreakCallback, Leases, Result, Status, need_regular,
};

/// The part of the open files that may have a lease besides: one of this many.
const LEASED_SHARE: usize = 4;

impl Leases for LocalFs {
    fn hold_back_writers(
        &self,
        cx: &Cx<'_>,
        fid: &Fid,
        on_break: LeaseBreakCallback,
    ) -> Result<Option<Kept>> {
        // a reader that is a copy of what had a write lease writes as well
        let is_in_the_way = |file: &OpenFile| {
            file.writer().is_some() || file.reader().is_some_and(sys::open::writes)
        };
        let Some(file) = self.held_without_data(cx, fid, is_in_the_way)? else { return Ok(None) };
        let fd = self.open_data(fid, &file, How::Read).map_err(errno::from)?;
        self.take_lease(cx, fid, (Kind::Writers, fd), on_break)
    }

    fn hold_back_everybody(
        &self,
        cx: &Cx<'_>,
        fid: &Fid,
        on_break: LeaseBreakCallback,
    ) -> Result<Option<Kept>> {
        let has_data = |file: &OpenFile| file.writer().is_some() || file.reader().is_some();
        let Some(file) = self.held_without_data(cx, fid, has_data)? else { return Ok(None) };
        match self.open_data(fid, &file, How::Write).map_err(errno::from) {
            // somebody else has a lease of it, it is a program that runs, or it cannot be written
            Err(Status::Jukebox | Status::Acces | Status::RoFs) => Ok(None),
            Err(status) => Err(status),
            Ok(fd) => self.take_lease(cx, fid, (Kind::Everybody, fd), on_break),
        }
    }

    fn change_by_holder(&self, fid: &Fid, change: &mut dyn FnMut() -> Option<Attr>) {
        // else another change may leave the same ctime
        let is_told_apart = self.change_source == ChangeSource::Ctime;
        self.files.leases.change_by_holder(&self.key(fid), &mut || {
            let ctime = change()?.ctime;
            is_told_apart.then_some((ctime.sec, ctime.nsec))
        });
    }

    fn holds_directories(&self) -> bool {
        sys::lease::kernel_holds_directories() && self.sees_all_changes()
    }

    fn hold_back_changes(
        &self,
        cx: &Cx<'_>,
        fid: &Fid,
        on_break: LeaseBreakCallback,
    ) -> Result<Option<Kept>> {
        if !self.holds_directories() {
            return Err(Status::NotSupp);
        }
        let (file, attr) = self.hold(cx, fid)?;
        if attr.ftype != FileType::Directory {
            return Err(Status::NotDir);
        }
        self.check_room()?;
        self.will_block(cx)?;
        self.identity.act_as_server().map_err(errno::from)?;
        let open = || sys::open::reopen(file.path(), How::List);
        let fd = self.files.open_with_retry(open).map_err(errno::from)?;
        self.take_lease(cx, fid, (Kind::Changes, fd), on_break)
    }

    fn let_change_pass(&self, cx: &Cx<'_>, fid: &Fid) -> Option<Kept> {
        self.will_block(cx).ok()?;
        let id = self.hold(cx, fid).ok()?.0.id();
        self.identity.act_as_server().ok()?;
        let passing = self.files.leases.let_pass(&self.key(fid))?;
        Some(Kept::new(PassedDirectory {
            passing: Some(passing),
            files: Arc::clone(&self.files),
            id,
        }))
    }
}

/// A directory that changes of others may have passed with the one that was let pass.
struct PassedDirectory {
    passing: Option<PassingChange>,
    files: Arc<OpenFiles>,
    id: ObjectId,
}

impl Drop for PassedDirectory {
    fn drop(&mut self) {
        // everybody is held back again before it is asked for anew
        drop(self.passing.take());
        if let Some(copies) = self.files.attrs.in_use() {
            copies.changed(self.id);
        }
    }
}

impl LocalFs {
    /// A file of which a lease may be taken, as far as is known before.
    fn leasable(&self, cx: &Cx<'_>, fid: &Fid) -> Result<Arc<OpenFile>> {
        if !self.sees_all_changes() {
            return Err(Status::NotSupp);
        }
        let (file, attr) = self.hold(cx, fid)?;
        need_regular(attr.ftype)?;
        self.check_room()?;
        self.will_block(cx)?;
        Ok(file)
    }

    /// Whether the kernel sees what is done with the files here: not where other machines and processes do it.
    fn sees_all_changes(&self) -> bool {
        self.warm_backend == self.backend
    }

    fn check_room(&self) -> Result<()> {
        let is_full = self.files.leases.len() >= self.files.limit() / LEASED_SHARE;
        if is_full { Err(Status::Jukebox) } else { Ok(()) }
    }

    /// The file, once the descriptors for its data are closed that would be in the way of a lease; `None` if they stay.
    fn held_without_data(
        &self,
        cx: &Cx<'_>,
        fid: &Fid,
        is_in_the_way: impl Fn(&OpenFile) -> bool,
    ) -> Result<Option<Arc<OpenFile>>> {
        let file = self.leasable(cx, fid)?;
        if is_in_the_way(&file) {
            drop(file);
            if !self.files.close_data(&self.key(fid)) {
                return Ok(None);
            }
        }
        Ok(Some(self.hold(cx, fid)?.0))
    }

    fn take_lease(
        &self,
        cx: &Cx<'_>,
        fid: &Fid,
        (kind, fd): (Kind, OwnedFd),
        on_break: LeaseBreakCallback,
    ) -> Result<Option<Kept>> {
        let taken = self.files.leases.take((self.key(fid), fd), kind, &self.closing, on_break);
        let lease: Option<HeldLease> = taken.map_err(|error| lease_status(&error))?;
        let (file, attr) = self.hold(cx, fid)?;
        // attributes from before the lease would stay with the client for as long as it has the delegation
        if let Some(copies) = self.files.attrs.in_use() {
            copies.changed(file.id());
        }
        // names that went before the watch began are told by nobody
        Ok(lease.filter(|_| attr.nlink > 0).map(Kept::new))
    }
}

fn lease_status(error: &io::Error) -> Status {
    match sys::errno::of(error) {
        Some(Errno::INVAL | Errno::ACCESS | Errno::OPNOTSUPP | Errno::NOENT) => Status::NotSupp,
        Some(Errno::NOSPC) => Status::Jukebox,
        _ if error.kind() == io::ErrorKind::Unsupported => Status::NotSupp,
        _ => errno::status(error),
    }
}

#[cfg(test)]
mod tests {
    use super::PassedDirectory;
    use crate::{LocalFs, LocalOptions, OpenFiles};
    use std::ops::ControlFlow;
    use std::sync::Arc;
    use vfs::{Backend, Cred, Cx, Durability, IgnoreBlocking, ListArgs, Right};

    /// On every kernel: that it holds nobody back is all that may be missing.
    #[test]
    fn what_was_kept_while_a_change_passed_is_asked_for_anew() {
        let dir = tempfile::tempdir().unwrap();
        let files = Arc::new(OpenFiles::new(4096));
        let options = LocalOptions { table: Some(dir.path().join("t")), ..LocalOptions::default() };
        let tree = dir.path().join("tree");
        std::fs::create_dir(&tree).unwrap();
        let local = LocalFs::open(&tree, &options, Arc::clone(&files)).unwrap();
        let own = sys::identity::own().unwrap();
        let cx = Cx {
            cred: Cred { uid: own.uid, gid: own.gid, groups: &[] },
            blocking: &IgnoreBlocking,
            durability: Durability::Sync,
            right: Right::Check,
            attr_cache_ms: 60_000,
        };
        let has = |wanted: &[u8]| {
            let mut found = false;
            let args = ListArgs::all(0, false);
            let listing = local.readdir(&cx, &local.root(), args, &mut |entry| {
                found |= entry.name == wanted;
                ControlFlow::Continue(())
            });
            assert!(listing.unwrap().eof);
            found
        };
        let id = local.hold(&cx, &local.root()).unwrap().0.id();
        (0..2).for_each(|_| assert!(!has(b"other")));
        std::fs::write(tree.join("other"), b"").unwrap();
        assert!(!has(b"other"), "kept");
        drop(PassedDirectory { passing: None, files, id });
        assert!(has(b"other"));
    }
}
