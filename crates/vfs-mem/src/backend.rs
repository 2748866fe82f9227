//! The trait's calls that read, write and list; those that change names are in
//! [`crate::namespace`].

use crate::data::PAGE;
use crate::inode::{FSID, Kind};
use crate::mem::{MemFs, ROOT, check, fid, without_set_id};
use crate::namespace;
use std::ops::{Bound, ControlFlow};
use vfs::access::{Permission, data_access, granted, is_open_for};
use vfs::{
    AccessMask, Attr, Backend, Change, ChangeKind, Component, Create, Created, Cx, DirEntry, Fid,
    Found, Kept, Leases, Limits, ListArgs, Listing, Name, NodeKind, ReadDone, Result, SetAttr,
    Space, Stability, StatFs, Status, Time, Verifier, Want, WriteDone, Xattrs, need_regular,
};

/// Entries that are copied under the lock at a time.
const BATCH: usize = 256;

impl Backend for MemFs {
    fn root(&self) -> Fid {
        fid(ROOT)
    }

    fn root_fsid(&self) -> u64 {
        FSID
    }

    fn limits(&self) -> Limits {
        Limits {
            name_max: 255,
            link_max: u32::MAX,
            file_size_max: i64::MAX.cast_unsigned(),
            time_delta_ns: 1,
            hard_links: true,
            symlinks: true,
            case_insensitive: false,
            chown_restricted: true,
            change_kind: ChangeKind::MonotonicIncrement,
            clone_block: Some(u32::try_from(PAGE).unwrap_or(0)),
        }
    }

    fn write_verifier(&self) -> Verifier {
        self.verifier
    }

    fn statfs(&self, _cx: &Cx<'_>, fid: &Fid) -> Result<StatFs> {
        let state = self.lock();
        let free_bytes = state.options.bytes_max.saturating_sub(state.used);
        let free_files = state.options.inodes_max.saturating_sub(state.inodes.len() as u64);
        Ok(StatFs {
            total_bytes: state.options.bytes_max,
            free_bytes,
            avail_bytes: free_bytes,
            total_files: state.options.inodes_max,
            free_files,
            avail_files: free_files,
            attr: state.get(fid)?.attr(),
        })
    }

    fn getattr(&self, _cx: &Cx<'_>, fid: &Fid, _want: Want) -> Result<Attr> {
        self.lock().get(fid).map(crate::inode::Inode::attr)
    }

    fn setattr(
        &self,
        cx: &Cx<'_>,
        fid: &Fid,
        set: &SetAttr,
        guard: Option<Time>,
    ) -> Result<Change> {
        let mut state = self.lock();
        let before = state.get(fid)?.attr().wcc();
        if guard.is_some_and(|ctime| ctime != before.ctime) {
            return Err(Status::NotSync);
        }
        state.held.check(crate::mem::ino(fid)?)?;
        state.set(fid, cx, set)?;
        Ok(state.change(fid, before))
    }

    fn access(&self, cx: &Cx<'_>, fid: &Fid, mask: AccessMask) -> Result<(AccessMask, Attr)> {
        let attr = self.lock().get(fid)?.attr();
        Ok((granted(&attr, None, &cx.cred, mask), attr))
    }

    fn leases(&self) -> Option<&dyn Leases> {
        Some(self)
    }

    fn space(&self) -> Option<&dyn Space> {
        Some(self)
    }

    fn xattrs(&self) -> Option<&dyn Xattrs> {
        Some(self)
    }

    fn keep(&self, _cx: &Cx<'_>, fid: &Fid) -> Result<Kept> {
        self.keep_inode(fid)
    }

    fn lookup(&self, cx: &Cx<'_>, dir: &Fid, name: Component<'_>) -> Result<Found> {
        let state = self.lock();
        let (inode, entries) = state.dir(dir, &cx.cred, Permission::EXEC)?;
        let ino = match name {
            Component::Dot => inode.ino,
            Component::DotDot => entries.parent,
            Component::Name(name) => *entries.by_name.get(name.bytes()).ok_or(Status::NoEnt)?,
        };
        Ok(Found { node: state.node(ino)?, dir: inode.attr() })
    }

    fn readlink(&self, _cx: &Cx<'_>, fid: &Fid, target: &mut Vec<u8>) -> Result<Attr> {
        let state = self.lock();
        let inode = state.get(fid)?;
        let Kind::Symlink(text) = &inode.kind else { return Err(Status::Inval) };
        target.clear();
        target.extend_from_slice(text);
        Ok(inode.attr())
    }

    fn read(&self, cx: &Cx<'_>, fid: &Fid, offset: u64, data: &mut [u8]) -> Result<ReadDone> {
        let mut state = self.lock();
        let now = state.now();
        let inode = state.get_mut(fid)?;
        need_regular(inode.ftype())?;
        let attr = inode.attr();
        let Kind::Regular(bytes) = &inode.kind else { return Err(Status::WrongType) };
        if !is_open_for(cx.right, false) && !data_access(&attr, None, &cx.cred, false) {
            return Err(Status::Acces);
        }
        let count = bytes.read(offset, data);
        let eof = offset.saturating_add(count as u64) >= bytes.size();
        inode.atime = now;
        Ok(ReadDone { count, eof, attr: inode.attr() })
    }

    fn write(
        &self,
        cx: &Cx<'_>,
        fid: &Fid,
        offset: u64,
        data: &[u8],
        _stable: Stability,
    ) -> Result<WriteDone> {
        let mut state = self.lock();
        let now = state.now();
        let room = state.options.bytes_max.saturating_sub(state.used);
        let inode = state.get_mut(fid)?;
        need_regular(inode.ftype())?;
        let attr = inode.attr();
        if !is_open_for(cx.right, true) && !data_access(&attr, None, &cx.cred, true) {
            return Err(Status::Acces);
        }
        let end = offset.checked_add(data.len() as u64);
        if end.is_none_or(|end| i64::try_from(end).is_err()) {
            return Err(Status::FBig);
        }
        let Kind::Regular(bytes) = &mut inode.kind else { return Err(Status::WrongType) };
        let growth = bytes.growth(offset, data.len() as u64);
        if growth > room {
            return Err(Status::NoSpc);
        }
        bytes.write(offset, data);
        if !data.is_empty() {
            inode.mtime = now;
            inode.touch(now);
            if cx.cred.uid != 0 {
                inode.mode = without_set_id(inode.mode);
            }
        }
        state.used = state.used.saturating_add(growth);
        let file = state.change(fid, attr.wcc());
        Ok(WriteDone {
            count: data.len(),
            committed: Stability::FileSync,
            file,
            change_number: None,
        })
    }

    fn commit(&self, _cx: &Cx<'_>, fid: &Fid, _offset: u64, _count: u64) -> Result<Change> {
        let state = self.lock();
        let attr = state.get(fid)?.attr();
        need_regular(attr.ftype)?;
        Ok(state.change(fid, attr.wcc()))
    }

    fn create(&self, cx: &Cx<'_>, dir: &Fid, name: Name<'_>, how: Create) -> Result<Created> {
        namespace::create(&mut self.lock(), cx, dir, name, how)
    }

    fn mkdir(&self, cx: &Cx<'_>, dir: &Fid, name: Name<'_>, set: &SetAttr) -> Result<Created> {
        namespace::mkdir(&mut self.lock(), cx, dir, name, set)
    }

    fn symlink(
        &self,
        cx: &Cx<'_>,
        dir: &Fid,
        name: Name<'_>,
        target: &[u8],
        set: &SetAttr,
    ) -> Result<Created> {
        if target.is_empty() || target.contains(&0) {
            return Err(Status::Inval);
        }
        let kind = Kind::Symlink(target.to_vec());
        namespace::make(&mut self.lock(), cx, dir, name, kind, set)
    }

    fn mknod(
        &self,
        cx: &Cx<'_>,
        dir: &Fid,
        name: Name<'_>,
        kind: NodeKind,
        set: &SetAttr,
    ) -> Result<Created> {
        namespace::mknod(&mut self.lock(), cx, dir, name, kind, set)
    }

    fn remove(&self, cx: &Cx<'_>, dir: &Fid, name: Name<'_>) -> Result<Change> {
        namespace::remove(&mut self.lock(), cx, dir, name)
    }

    fn rmdir(&self, cx: &Cx<'_>, dir: &Fid, name: Name<'_>) -> Result<Change> {
        namespace::rmdir(&mut self.lock(), cx, dir, name)
    }

    fn rename(
        &self,
        cx: &Cx<'_>,
        from: (&Fid, Name<'_>),
        to: (&Fid, Name<'_>),
    ) -> Result<(Change, Change)> {
        namespace::rename(&mut self.lock(), cx, from, to)
    }

    fn link(&self, cx: &Cx<'_>, fid: &Fid, dir: &Fid, name: Name<'_>) -> Result<(Attr, Change)> {
        namespace::link(&mut self.lock(), cx, fid, dir, name)
    }

    fn readdir(
        &self,
        cx: &Cx<'_>,
        dir: &Fid,
        args: ListArgs,
        sink: &mut dyn FnMut(&DirEntry<'_>) -> ControlFlow<()>,
    ) -> Result<Listing> {
        let ListArgs { mut cookie, nodes, .. } = args;
        if i64::try_from(cookie).is_err() {
            return Err(Status::BadCookie);
        }
        loop {
            let (batch, attr) = self.batch(cx, dir, cookie)?;
            if batch.is_empty() {
                return Ok(Listing { eof: true, dir: attr });
            }
            // nodes of entries require search permission
            let nodes = nodes && check(&attr, &cx.cred, Permission::EXEC).is_ok();
            for (at, name, ino) in batch {
                let above = name == b".." && ino != ROOT;
                let node = if nodes && !above { self.lock().node(ino).ok() } else { None };
                let node = node.as_ref();
                let entry = DirEntry { name: &name, fileid: ino, cookie: at, node };
                if sink(&entry).is_break() {
                    return Ok(Listing { eof: false, dir: attr });
                }
                cookie = at;
            }
        }
    }
}

type Batch = Vec<(u64, Vec<u8>, u64)>;

impl MemFs {
    /// The next entries after a cookie, copied, so that the sink runs without the lock.
    fn batch(&self, cx: &Cx<'_>, dir: &Fid, cookie: u64) -> Result<(Batch, Attr)> {
        let state = self.lock();
        let (inode, entries) = state.dir(dir, &cx.cred, Permission::READ)?;
        check(&inode.attr(), &cx.cred, Permission::READ)?;
        let mut batch = Vec::new();
        if cookie < 1 {
            batch.push((1, b".".to_vec(), inode.ino));
        }
        if cookie < 2 {
            batch.push((2, b"..".to_vec(), entries.parent));
        }
        let after = (Bound::Excluded(cookie.max(2)), Bound::Unbounded);
        let rest = entries.by_cookie.range(after).take(BATCH);
        batch.extend(rest.map(|(at, (name, ino))| (*at, name.clone(), *ino)));
        Ok((batch, inode.attr()))
    }
}
