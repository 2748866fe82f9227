//! The calls of the backend trait: each is one function of [`crate::ops`].

use crate::fs::LocalFs;
use crate::ops;
use std::ops::ControlFlow;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::path::PathBuf;
use vfs::acl::Acls;
use vfs::{
    AccessMask, Attr, Backend, Change, Component, Create, Created, Cx, DirEntry, Fid, Found, Kept,
    Leases, Limits, ListArgs, Listing, Locks, Name, NodeKind, OpenAccess, Quotas, ReadDone,
    ReadRange, Result, SetAttr, Space, Stability, StatFs, Status, Time, Unlinked, Verifier, Want,
    WriteDone, Xattrs,
};

impl Backend for LocalFs {
    fn root(&self) -> Fid {
        self.root_fid
    }

    fn root_fsid(&self) -> u64 {
        self.root_id.0
    }

    fn is_still_there(&self) -> bool {
        let now = || {
            self.identity.act_as_server()?;
            let path = sys::open::open_path(&self.path)?;
            sys::stat::of_fd(path.as_fd()).map(|stat| (stat.dev, stat.ino))
        };
        // the number of a removed object may be reused, but not while it is open here
        now().is_ok_and(|id| id == self.root_id)
    }

    fn limits(&self) -> Limits {
        self.limits
    }

    fn write_verifier(&self) -> Verifier {
        self.verifier.now()
    }

    fn statfs(&self, cx: &Cx<'_>, fid: &Fid) -> Result<StatFs> {
        ops::statfs::statfs(self, cx, fid)
    }

    fn getattr(&self, cx: &Cx<'_>, fid: &Fid, want: Want) -> Result<Attr> {
        ops::getattr::getattr(self, cx, fid, want)
    }

    fn setattr(
        &self,
        cx: &Cx<'_>,
        fid: &Fid,
        set: &SetAttr,
        guard: Option<Time>,
    ) -> Result<Change> {
        ops::setattr::setattr(self, cx, fid, set, guard)
    }

    fn access(&self, cx: &Cx<'_>, fid: &Fid, mask: AccessMask) -> Result<(AccessMask, Attr)> {
        ops::access::access(self, cx, fid, mask)
    }

    fn access_by(&self, cx: &Cx<'_>, attr: &Attr, mask: AccessMask) -> Option<AccessMask> {
        ops::access::access_by(self, cx, attr, mask)
    }

    fn may_open(&self, cx: &Cx<'_>, fid: &Fid, access: OpenAccess) -> Result<Attr> {
        ops::open::may_open(self, cx, fid, access)
    }

    fn keep(&self, cx: &Cx<'_>, fid: &Fid) -> Result<Kept> {
        ops::open::keep(self, cx, fid)
    }

    fn open(&self, cx: &Cx<'_>, fid: &Fid, access: OpenAccess) -> Result<(Option<Kept>, Attr)> {
        ops::open::open(self, cx, fid, access)
    }

    fn open_remembered(
        &self,
        cx: &Cx<'_>,
        dir: &Fid,
        name: Name<'_>,
        access: OpenAccess,
    ) -> Option<(Found, Kept)> {
        ops::open::open_remembered(self, cx, dir, name, access)
    }

    fn locks(&self) -> Option<&dyn Locks> {
        Some(self)
    }

    fn leases(&self) -> Option<&dyn Leases> {
        Some(self)
    }

    fn local_path(&self, cx: &Cx<'_>, fid: &Fid) -> Option<PathBuf> {
        let (file, _) = self.hold(cx, fid).ok()?;
        std::fs::read_link(format!("/proc/self/fd/{}", file.path().as_raw_fd())).ok()
    }

    fn acls(&self) -> Option<&dyn Acls> {
        Some(self)
    }

    fn quotas(&self) -> Option<&dyn Quotas> {
        Some(self)
    }

    fn space(&self) -> Option<&dyn Space> {
        Some(self)
    }

    fn xattrs(&self) -> Option<&dyn Xattrs> {
        Some(self)
    }

    fn unlinked(&self) -> Option<&dyn Unlinked> {
        Some(self)
    }

    fn lookup(&self, cx: &Cx<'_>, dir: &Fid, name: Component<'_>) -> Result<Found> {
        if let Component::Name(name) = name {
            self.check_old_name(cx, dir, name.bytes())?;
        }
        ops::lookup::lookup(self, cx, dir, name)
    }

    fn remembers(&self, dir: &Fid, name: Name<'_>) -> bool {
        ops::lookup::remembers(self, dir, name)
    }

    fn readlink(&self, cx: &Cx<'_>, fid: &Fid, target: &mut Vec<u8>) -> Result<Attr> {
        ops::readlink::readlink(self, cx, fid, target)
    }

    fn read(&self, cx: &Cx<'_>, fid: &Fid, offset: u64, data: &mut [u8]) -> Result<ReadDone> {
        ops::read::read(self, cx, fid, offset, data)
    }

    fn read_range(
        &self,
        cx: &Cx<'_>,
        fid: &Fid,
        offset: u64,
        count: usize,
        shortest: usize,
    ) -> Result<ReadRange> {
        ops::read_range::read_range(self, cx, fid, (offset, count), shortest)
    }

    fn write(
        &self,
        cx: &Cx<'_>,
        fid: &Fid,
        offset: u64,
        data: &[u8],
        stable: Stability,
    ) -> Result<WriteDone> {
        ops::write::write(self, cx, fid, offset, data, stable)
    }

    fn write_piped(
        &self,
        cx: &Cx<'_>,
        fid: &Fid,
        offset: u64,
        pipe: BorrowedFd<'_>,
        len: usize,
    ) -> Result<WriteDone> {
        ops::write::write_piped(self, cx, fid, offset, pipe, len)
    }

    fn commit(&self, cx: &Cx<'_>, fid: &Fid, offset: u64, count: u64) -> Result<Change> {
        ops::commit::commit(self, cx, fid, offset, count)
    }

    fn create(&self, cx: &Cx<'_>, dir: &Fid, name: Name<'_>, how: Create) -> Result<Created> {
        self.check_new_name(cx, dir, name.bytes())?;
        ops::create::create(self, cx, dir, name, how)
    }

    fn create_open(
        &self,
        cx: &Cx<'_>,
        dir: &Fid,
        name: Name<'_>,
        how: Create,
    ) -> Result<(Created, Option<Kept>)> {
        self.check_new_name(cx, dir, name.bytes())?;
        ops::open::create_open(self, cx, dir, name, how)
    }

    fn mkdir(&self, cx: &Cx<'_>, dir: &Fid, name: Name<'_>, set: &SetAttr) -> Result<Created> {
        self.check_new_name(cx, dir, name.bytes())?;
        ops::mkdir::mkdir(self, cx, dir, name, set)
    }

    fn symlink(
        &self,
        cx: &Cx<'_>,
        dir: &Fid,
        name: Name<'_>,
        target: &[u8],
        set: &SetAttr,
    ) -> Result<Created> {
        self.check_new_name(cx, dir, name.bytes())?;
        ops::symlink::symlink(self, cx, dir, name, target, set)
    }

    fn mknod(
        &self,
        cx: &Cx<'_>,
        dir: &Fid,
        name: Name<'_>,
        kind: NodeKind,
        set: &SetAttr,
    ) -> Result<Created> {
        self.check_new_name(cx, dir, name.bytes())?;
        ops::mknod::mknod(self, cx, dir, name, kind, set)
    }

    fn remove(&self, cx: &Cx<'_>, dir: &Fid, name: Name<'_>) -> Result<Change> {
        self.check_old_name(cx, dir, name.bytes())?;
        ops::remove::remove(self, cx, dir, name)
    }

    fn rmdir(&self, cx: &Cx<'_>, dir: &Fid, name: Name<'_>) -> Result<Change> {
        self.check_old_name(cx, dir, name.bytes())?;
        ops::remove::rmdir(self, cx, dir, name)
    }

    fn rename(
        &self,
        cx: &Cx<'_>,
        from: (&Fid, Name<'_>),
        to: (&Fid, Name<'_>),
    ) -> Result<(Change, Change)> {
        self.check_old_name(cx, from.0, from.1.bytes())?;
        self.check_new_name(cx, to.0, to.1.bytes())?;
        ops::rename::rename(self, cx, from, to)
    }

    fn link(&self, cx: &Cx<'_>, fid: &Fid, dir: &Fid, name: Name<'_>) -> Result<(Attr, Change)> {
        self.check_new_name(cx, dir, name.bytes())?;
        ops::link::link(self, cx, fid, dir, name)
    }

    fn readdir(
        &self,
        cx: &Cx<'_>,
        dir: &Fid,
        args: ListArgs,
        sink: &mut dyn FnMut(&DirEntry<'_>) -> ControlFlow<()>,
    ) -> Result<Listing> {
        if self.files.unlinked.has_dirs() {
            return self.readdir_hiding(cx, dir, args, sink);
        }
        let listing = ops::readdir::readdir(self, cx, dir, args, sink);
        // the directory of the server's own was made meanwhile, and may have been listed
        if self.files.unlinked.has_dirs() {
            return Err(Status::Jukebox);
        }
        listing
    }
}
