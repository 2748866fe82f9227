//! The trait that a file system implements.
//!
//! Who checks what: the caller (a verb of `nfs`) has checked the export, squashed the identity and
//! refused changes to a read-only export. The backend checks permissions for `cx.cred`, keeps
//! inside its own tree, and answers only when what it says is true on disk (see [`Durability`](crate::Durability)).
//!
//! A backend is shared by all workers; no call may hold a lock while it blocks, and each call
//! says `cx.blocking.will_block()` before a system call that may wait for a disk.

use crate::acl::Acls;
use crate::call::{
    AccessMask, Change, CopyReason, Create, Created, Cx, DirEntry, Found, Kept, Limits, ListArgs,
    Listing, NodeKind, OpenAccess, ReadDone, ReadRange, Stability, StatFs, Verifier, Want,
    WriteDone, need_regular,
};
use crate::{Attr, Component, Fid, Locks, Name, Quotas, Result, SetAttr, Status, Time};
use std::fs::File;
use std::io::Read;
use std::ops::ControlFlow;
use std::os::fd::BorrowedFd;
use std::path::PathBuf;

/// A file system that can be exported. Each call names objects by [`Fid`]; an id of an object
/// that is gone gives [`Status::Stale`], one that was never this backend's [`Status::BadHandle`].
pub trait Backend: Send + Sync {
    /// The id of the exported directory.
    fn root(&self) -> Fid;

    /// Whether opening it again would give the same file system: something else may have been
    /// mounted there, or moved there, since. Asked at a reload only; may wait.
    fn is_still_there(&self) -> bool {
        true
    }

    /// What the file system can do; fixed while it is exported.
    fn limits(&self) -> Limits;

    /// The current write verifier.
    fn write_verifier(&self) -> Verifier;

    /// Space and inodes.
    ///
    /// # Errors
    /// [`Status`].
    fn statfs(&self, cx: &Cx<'_>, fid: &Fid) -> Result<StatFs>;

    /// Attributes; needs no permission on the object.
    ///
    /// # Errors
    /// [`Status`].
    fn getattr(&self, cx: &Cx<'_>, fid: &Fid, want: Want) -> Result<Attr>;

    /// Sets attributes, all or none as far as the file system allows. With `guard`, only if the
    /// object's ctime is exactly that ([`Status::NotSync`] otherwise).
    ///
    /// # Errors
    /// [`Status`].
    fn setattr(&self, cx: &Cx<'_>, fid: &Fid, set: &SetAttr, guard: Option<Time>)
    -> Result<Change>;

    /// The part of `mask` that the caller may do, and the attributes.
    ///
    /// # Errors
    /// [`Status`].
    fn access(&self, cx: &Cx<'_>, fid: &Fid, mask: AccessMask) -> Result<(AccessMask, Attr)>;

    /// Whether the caller may open a regular file so, by mode and ACL as open(2) checks them: without the
    /// exceptions that version 3 needs because it has no open ([`crate::access::data_access`]), so an
    /// owner is bound by the mode, and the right to execute does not imply the right to read.
    ///
    /// # Errors
    /// [`Status::Acces`], [`Status::RoFs`]; [`need_regular`]'s for other types.
    fn may_open(&self, cx: &Cx<'_>, fid: &Fid, access: OpenAccess) -> Result<Attr> {
        let wanted = access.as_mask();
        let (granted, attr) = self.access(cx, fid, wanted)?;
        need_regular(attr.ftype)?;
        if granted.has(wanted) { Ok(attr) } else { Err(Status::Acces) }
    }

    /// Keeps a regular file reachable by its id until the guard is dropped, also after its last name was
    /// removed through this backend; by another program it may be removed for good where there are
    /// too many kept files to hold them all open. For whoever has state about an open file: locks
    /// and the opens of version 4.
    ///
    /// # Errors
    /// [`need_regular`]'s for other types; [`Status::Jukebox`] if too many files are kept;
    /// [`Status::NotSupp`] if the backend cannot.
    fn keep(&self, cx: &Cx<'_>, fid: &Fid) -> Result<Kept> {
        let _ = (cx, fid);
        Err(Status::NotSupp)
    }

    /// The locks of others than NFS clients; `None` if there are none, so that the lock table of the server is
    /// all there is.
    fn locks(&self) -> Option<&dyn Locks> {
        None
    }

    /// Where programs of this machine find the object now, to show it to the operator; `None` if nobody knows. May
    /// wait.
    fn local_path(&self, cx: &Cx<'_>, fid: &Fid) -> Option<PathBuf> {
        let _ = (cx, fid);
        None
    }

    /// The access control lists; `None` if there are none but modes.
    fn acls(&self) -> Option<&dyn Acls> {
        None
    }

    /// The disk quotas; `None` if the back end knows of none.
    fn quotas(&self) -> Option<&dyn Quotas> {
        None
    }

    /// Finds an entry. A symbolic link is found, not followed; `..` of the root is the root; a
    /// mount point below the root is [`Status::Acces`].
    ///
    /// # Errors
    /// [`Status`].
    fn lookup(&self, cx: &Cx<'_>, dir: &Fid, name: Component<'_>) -> Result<Found>;

    /// Reads a symbolic link's target into `target` (cleared first); [`Status::Inval`] for
    /// another type.
    ///
    /// # Errors
    /// [`Status`].
    fn readlink(&self, cx: &Cx<'_>, fid: &Fid, target: &mut Vec<u8>) -> Result<Attr>;

    /// Reads at `offset` into the front of `data`; short only at the end of the file.
    /// [`Status::IsDir`] or [`Status::WrongType`] for anything but a regular file.
    ///
    /// # Errors
    /// [`Status`].
    fn read(&self, cx: &Cx<'_>, fid: &Fid, offset: u64, data: &mut [u8]) -> Result<ReadDone>;

    /// As [`Backend::read`] of `count` bytes, but gives the file instead of the data, if there are
    /// `shortest` bytes at least and they are in memory. Never waits for the data.
    ///
    /// # Errors
    /// [`Status`].
    fn read_range(
        &self,
        cx: &Cx<'_>,
        fid: &Fid,
        offset: u64,
        count: usize,
        shortest: usize,
    ) -> Result<ReadRange> {
        let _ = (cx, fid, offset, count, shortest);
        Ok(ReadRange::Copy(CopyReason::NoFile))
    }

    /// Writes `data` at `offset`, as safe as `stable` says or safer. Counts as a change of the
    /// file even if `data` is empty only where POSIX says so (it does not).
    ///
    /// # Errors
    /// [`Status`].
    fn write(
        &self,
        cx: &Cx<'_>,
        fid: &Fid,
        offset: u64,
        data: &[u8],
        stable: Stability,
    ) -> Result<WriteDone>;

    /// As an unstable [`Backend::write`] of the next `len` bytes of what a pipe holds, which it does hold. After it
    /// as many are left there as were not written, or fewer.
    ///
    /// # Errors
    /// [`Status`].
    fn write_piped(
        &self,
        cx: &Cx<'_>,
        fid: &Fid,
        offset: u64,
        pipe: BorrowedFd<'_>,
        len: usize,
    ) -> Result<WriteDone> {
        let mut data = Vec::new();
        let pipe = pipe.try_clone_to_owned().map(File::from);
        let read = pipe.and_then(|pipe| pipe.take(len as u64).read_to_end(&mut data));
        match read {
            Ok(_) if data.len() == len => self.write(cx, fid, offset, &data, Stability::Unstable),
            Ok(_) | Err(_) => Err(Status::ServerFault),
        }
    }

    /// Puts unstable data of a range (`count` 0: to the end) on disk.
    ///
    /// # Errors
    /// [`Status`]; after one the verifier has changed if data may have been lost.
    fn commit(&self, cx: &Cx<'_>, fid: &Fid, offset: u64, count: u64) -> Result<Change>;

    /// Makes a regular file (or takes an existing one, see [`Create`]).
    ///
    /// # Errors
    /// [`Status`].
    fn create(&self, cx: &Cx<'_>, dir: &Fid, name: Name<'_>, how: Create) -> Result<Created>;

    /// Makes a directory.
    ///
    /// # Errors
    /// [`Status`].
    fn mkdir(&self, cx: &Cx<'_>, dir: &Fid, name: Name<'_>, set: &SetAttr) -> Result<Created>;

    /// Makes a symbolic link to `target`, which is stored as it is.
    ///
    /// # Errors
    /// [`Status`].
    fn symlink(
        &self,
        cx: &Cx<'_>,
        dir: &Fid,
        name: Name<'_>,
        target: &[u8],
        set: &SetAttr,
    ) -> Result<Created>;

    /// Makes a device node, a named pipe or a socket.
    ///
    /// # Errors
    /// [`Status`].
    fn mknod(
        &self,
        cx: &Cx<'_>,
        dir: &Fid,
        name: Name<'_>,
        kind: NodeKind,
        set: &SetAttr,
    ) -> Result<Created>;

    /// Removes an entry that is not a directory ([`Status::IsDir`] if it is).
    ///
    /// # Errors
    /// [`Status`].
    fn remove(&self, cx: &Cx<'_>, dir: &Fid, name: Name<'_>) -> Result<Change>;

    /// Removes an empty directory.
    ///
    /// # Errors
    /// [`Status`].
    fn rmdir(&self, cx: &Cx<'_>, dir: &Fid, name: Name<'_>) -> Result<Change>;

    /// Renames, replacing what is there as POSIX `rename` does. Gives the change of the old
    /// directory and of the new one.
    ///
    /// # Errors
    /// [`Status`].
    fn rename(
        &self,
        cx: &Cx<'_>,
        from: (&Fid, Name<'_>),
        to: (&Fid, Name<'_>),
    ) -> Result<(Change, Change)>;

    /// Makes a hard link. Gives the file's attributes after it and the change of the directory.
    ///
    /// # Errors
    /// [`Status`].
    fn link(&self, cx: &Cx<'_>, fid: &Fid, dir: &Fid, name: Name<'_>) -> Result<(Attr, Change)>;

    /// Lists a directory, in an order that is the same for every caller, until the sink breaks or
    /// the end is reached. An entry at which the sink broke counts as not taken.
    /// An entry that is there during the whole of several calls is given exactly once, whatever
    /// else changes in between.
    ///
    /// # Errors
    /// [`Status`]; [`Status::BadCookie`] only for a cookie that cannot be one.
    fn readdir(
        &self,
        cx: &Cx<'_>,
        dir: &Fid,
        args: ListArgs,
        sink: &mut dyn FnMut(&DirEntry<'_>) -> ControlFlow<()>,
    ) -> Result<Listing>;
}
