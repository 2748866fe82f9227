//! The trait that a file system implements.
//!
//! Checks: the caller (a verb of `nfs`) has checked the export, squashed the identity and refused changes to a
//! read-only export. The backend checks permissions for `cx.cred`, stays inside its own tree, and returns only when
//! the result is on disk (see [`Durability`](crate::Durability)).
//!
//! A backend is shared by all workers; no call may hold a lock while it blocks, and each call
//! says `cx.blocking.will_block()` before a system call that may wait for a disk.

use crate::acl::Acls;
use crate::call::{
    AccessMask, Change, CopyReason, Create, Created, Cx, DirEntry, Found, Kept, Limits, ListArgs,
    Listing, NodeKind, OpenAccess, ReadDone, ReadRange, Stability, StatFs, Verifier, Want,
    WriteDone, need_regular,
};
use crate::{
    Attr, Component, Fid, Leases, Locks, Name, Quotas, Result, SetAttr, Space, Status, Time,
    Unlinked, Xattrs,
};
use std::fs::File;
use std::io::Read;
use std::ops::ControlFlow;
use std::os::fd::BorrowedFd;
use std::path::PathBuf;

/// A file system that can be exported. Each call names objects by [`Fid`]; an id of a removed
/// object gives [`Status::Stale`], an id that is not of this backend [`Status::BadHandle`].
///
/// The calls that change something have a default, for file systems that cannot be changed: [`Status::RoFs`].
pub trait Backend: Send + Sync {
    /// The id of the exported directory.
    fn root(&self) -> Fid;

    /// The [`Attr::fsid`] of the exported directory: an object with another one is in a part of the file system that counts
    /// its files by itself, such as a subvolume.
    fn root_fsid(&self) -> u64;

    /// Whether opening it again would give the same file system: another one may have been mounted
    /// or moved there since. Called at a reload only; may block.
    fn is_still_there(&self) -> bool {
        true
    }

    /// The capabilities of the file system; fixed while it is exported.
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
    fn setattr(
        &self,
        cx: &Cx<'_>,
        fid: &Fid,
        set: &SetAttr,
        guard: Option<Time>,
    ) -> Result<Change> {
        let _ = (cx, fid, set, guard);
        Err(Status::RoFs)
    }

    /// The part of `mask` that is granted to the caller, and the attributes.
    ///
    /// # Errors
    /// [`Status`].
    fn access(&self, cx: &Cx<'_>, fid: &Fid, mask: AccessMask) -> Result<(AccessMask, Attr)>;

    /// The part of `mask` that is granted to the caller on an object with these attributes, which were fetched for the
    /// same call; `None` if they do not tell, and the object is to be asked.
    fn access_by(&self, cx: &Cx<'_>, attr: &Attr, mask: AccessMask) -> Option<AccessMask> {
        let _ = (cx, attr, mask);
        None
    }

    /// Whether the caller may open a regular file in this mode, by mode and ACL as open(2) and execve(2) check them
    /// ([`OpenAccess::is_permitted_by`]): without the exception for owners that version 3 needs because it has no open
    /// ([`crate::access::data_access`]).
    ///
    /// # Errors
    /// [`Status::Acces`], [`Status::RoFs`]; [`need_regular`]'s for other types.
    fn may_open(&self, cx: &Cx<'_>, fid: &Fid, access: OpenAccess) -> Result<Attr> {
        let (granted, attr) = self.access(cx, fid, access.deciding())?;
        need_regular(attr.ftype)?;
        if access.is_permitted_by(granted) { Ok(attr) } else { Err(Status::Acces) }
    }

    /// Keeps a regular file reachable by its id until the guard is dropped, also after its last name was
    /// removed through this backend; a file removed by another program may be lost if there are too many
    /// kept files to hold all of them open. For owners of state about an open file: locks and the opens
    /// of version 4.
    ///
    /// # Errors
    /// [`need_regular`]'s for other types; [`Status::Jukebox`] if too many files are kept;
    /// [`Status::NotSupp`] if the backend cannot.
    fn keep(&self, cx: &Cx<'_>, fid: &Fid) -> Result<Kept> {
        let _ = (cx, fid);
        Err(Status::NotSupp)
    }

    /// Opens a regular file: what [`may_open`](Self::may_open) checks, and then what [`keep`](Self::keep) does, with the
    /// attributes of that moment. `None`: the backend keeps nothing.
    ///
    /// # Errors
    /// Those of both, but [`Status::NotSupp`].
    fn open(&self, cx: &Cx<'_>, fid: &Fid, access: OpenAccess) -> Result<(Option<Kept>, Attr)> {
        let attr = self.may_open(cx, fid, access)?;
        match self.keep(cx, fid) {
            Ok(kept) => Ok((Some(kept), attr)),
            Err(Status::NotSupp) => Ok((None, attr)),
            Err(status) => Err(status),
        }
    }

    /// Opens the regular file of a name that the backend remembers, as a look-up and then [`open`](Self::open) do, but with one
    /// look at the file. `None` if it takes both, which then also tell what is wrong.
    fn open_remembered(
        &self,
        cx: &Cx<'_>,
        dir: &Fid,
        name: Name<'_>,
        access: OpenAccess,
    ) -> Option<(Found, Kept)> {
        let _ = (cx, dir, name, access);
        None
    }

    /// The locks of programs other than NFS clients; `None` if the backend has none, so that only the server's
    /// lock table counts.
    fn locks(&self) -> Option<&dyn Locks> {
        None
    }

    /// How local programs are held back; `None` if they cannot be.
    fn leases(&self) -> Option<&dyn Leases> {
        None
    }

    /// How kept files outlive their last name and a restart of the server; `None` if they do not.
    fn unlinked(&self) -> Option<&dyn Unlinked> {
        None
    }

    /// The current path of the object on this machine, for display to the operator; `None` if it is unknown. May
    /// block.
    fn local_path(&self, cx: &Cx<'_>, fid: &Fid) -> Option<PathBuf> {
        let _ = (cx, fid);
        None
    }

    /// The access control lists; `None` if only modes are supported.
    fn acls(&self) -> Option<&dyn Acls> {
        None
    }

    /// The disk quotas; `None` if they are not supported.
    fn quotas(&self) -> Option<&dyn Quotas> {
        None
    }

    /// The space of files; `None` if it is not known.
    fn space(&self) -> Option<&dyn Space> {
        None
    }

    /// The extended attributes; `None` if they are not supported.
    fn xattrs(&self) -> Option<&dyn Xattrs> {
        None
    }

    /// Finds an entry. A symbolic link is found, not followed; `..` of the root is the root; a
    /// mount point below the root is [`Status::Acces`].
    ///
    /// # Errors
    /// [`Status`].
    fn lookup(&self, cx: &Cx<'_>, dir: &Fid, name: Component<'_>) -> Result<Found>;

    /// Whether an entry was there when it was last seen, as far as that is remembered. A hint, for which the file system is not
    /// asked: an OPEN that creates looks for such a file first, and creates any other first.
    fn remembers(&self, dir: &Fid, name: Name<'_>) -> bool {
        let _ = (dir, name);
        true
    }

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

    /// As [`Backend::read`] of `count` bytes, but returns the file instead of the data, if at least
    /// `shortest` bytes are available and in memory. Never waits for the data.
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

    /// Writes `data` at `offset`, at least as stable as `stable`. An empty write is not a change of
    /// the file, as in POSIX.
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
    ) -> Result<WriteDone> {
        let _ = (cx, fid, offset, data, stable);
        Err(Status::RoFs)
    }

    /// As an unstable [`Backend::write`] of the next `len` bytes of a pipe, which holds at least as many. At most
    /// the unwritten ones are left in it afterwards.
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

    /// Writes unstable data of a range (`count` 0: to the end) to disk.
    ///
    /// # Errors
    /// [`Status`]; after one the verifier has changed if data may have been lost.
    fn commit(&self, cx: &Cx<'_>, fid: &Fid, offset: u64, count: u64) -> Result<Change> {
        let _ = (cx, fid, offset, count);
        Err(Status::RoFs)
    }

    /// Creates a regular file (or uses an existing one, see [`Create`]).
    ///
    /// # Errors
    /// [`Status`].
    fn create(&self, cx: &Cx<'_>, dir: &Fid, name: Name<'_>, how: Create) -> Result<Created> {
        let _ = (cx, dir, name, how);
        Err(Status::RoFs)
    }

    /// Creates a regular file, and keeps it as [`open`](Self::open) does: whoever makes a file may open it whatever its mode
    /// is. `None` for the guard: the backend keeps nothing, or the file is gone.
    ///
    /// # Errors
    /// Those of [`create`](Self::create), and of [`keep`](Self::keep) but [`Status::NotSupp`]; after these the file is there.
    fn create_open(
        &self,
        cx: &Cx<'_>,
        dir: &Fid,
        name: Name<'_>,
        how: Create,
    ) -> Result<(Created, Option<Kept>)> {
        let created = self.create(cx, dir, name, how)?;
        let Some(node) = &created.node else { return Ok((created, None)) };
        match self.keep(cx, &node.fid) {
            Ok(kept) => Ok((created, Some(kept))),
            Err(Status::NotSupp) => Ok((created, None)),
            Err(status) => Err(status),
        }
    }

    /// Creates a directory.
    ///
    /// # Errors
    /// [`Status`].
    fn mkdir(&self, cx: &Cx<'_>, dir: &Fid, name: Name<'_>, set: &SetAttr) -> Result<Created> {
        let _ = (cx, dir, name, set);
        Err(Status::RoFs)
    }

    /// Creates a symbolic link to `target`, which is stored unchanged.
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
    ) -> Result<Created> {
        let _ = (cx, dir, name, target, set);
        Err(Status::RoFs)
    }

    /// Creates a device node, a named pipe or a socket.
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
    ) -> Result<Created> {
        let _ = (cx, dir, name, kind, set);
        Err(Status::RoFs)
    }

    /// Removes an entry that is not a directory ([`Status::IsDir`] if it is).
    ///
    /// # Errors
    /// [`Status`].
    fn remove(&self, cx: &Cx<'_>, dir: &Fid, name: Name<'_>) -> Result<Change> {
        let _ = (cx, dir, name);
        Err(Status::RoFs)
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    /// [`Status`].
    fn rmdir(&self, cx: &Cx<'_>, dir: &Fid, name: Name<'_>) -> Result<Change> {
        let _ = (cx, dir, name);
        Err(Status::RoFs)
    }

    /// Renames, replacing an existing target as POSIX `rename` does. Returns the change of the old
    /// directory and of the new one.
    ///
    /// # Errors
    /// [`Status`].
    fn rename(
        &self,
        cx: &Cx<'_>,
        from: (&Fid, Name<'_>),
        to: (&Fid, Name<'_>),
    ) -> Result<(Change, Change)> {
        let _ = (cx, from, to);
        Err(Status::RoFs)
    }

    /// Creates a hard link. Returns the file's attributes after it and the change of the directory.
    ///
    /// # Errors
    /// [`Status`].
    fn link(&self, cx: &Cx<'_>, fid: &Fid, dir: &Fid, name: Name<'_>) -> Result<(Attr, Change)> {
        let _ = (cx, fid, dir, name);
        Err(Status::RoFs)
    }

    /// Lists a directory, in an order that is the same for every caller, until the sink breaks or
    /// the end is reached. An entry at which the sink broke counts as not listed. An entry that
    /// exists during the whole of several calls is listed exactly once, whatever else changes in
    /// between.
    ///
    /// # Errors
    /// [`Status`]; [`Status::BadCookie`] only for an invalid cookie.
    fn readdir(
        &self,
        cx: &Cx<'_>,
        dir: &Fid,
        args: ListArgs,
        sink: &mut dyn FnMut(&DirEntry<'_>) -> ControlFlow<()>,
    ) -> Result<Listing>;
}
