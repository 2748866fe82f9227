//! The file system's state behind its one lock, and the steps of operations.

use crate::inode::{Directory, Inode, Kind};
use crate::leases::HeldDirectories;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};
use vfs::access::{Permission, data_access, is_open_for, permits, sticky_permits};
use vfs::{
    Attr, Change, Cred, Cx, Fid, Kept, Name, Node, Result, SetAttr, SetTime, Status, Time, WccAttr,
    need_regular,
};

/// Limits of a file system in memory.
#[derive(Debug, Clone, Copy)]
pub struct MemOptions {
    /// Limit of file data in bytes.
    pub bytes_max: u64,
    /// Limit of objects.
    pub inodes_max: u64,
    /// Owner of the root directory.
    pub owner: (u32, u32),
    /// Mode of the root directory.
    pub mode: u32,
}

impl Default for MemOptions {
    fn default() -> Self {
        Self { bytes_max: 1 << 30, inodes_max: 1 << 20, owner: (0, 0), mode: 0o755 }
    }
}

/// The root's inode number.
pub const ROOT: u64 = 1;

/// The whole state.
pub struct State {
    pub inodes: BTreeMap<u64, Inode>,
    pub used: u64,
    pub options: MemOptions,
    /// How many guards each inode has; inodes without a name stay while they have one.
    kept: BTreeMap<u64, u32>,
    /// Directories whose changes are held back.
    pub held: HeldDirectories,
    next_ino: u64,
    last: Time,
}

/// A file system in memory.
pub struct MemFs {
    /// Held for one operation in memory; no call blocks under it.
    state: Arc<Mutex<State>>,
    pub(crate) verifier: [u8; 8],
}

impl MemFs {
    /// An empty file system.
    pub fn new(options: MemOptions) -> Self {
        let mut state = State {
            inodes: BTreeMap::new(),
            used: 0,
            options,
            kept: BTreeMap::new(),
            held: HeldDirectories::default(),
            next_ino: ROOT,
            last: Time::default(),
        };
        let verifier = state.now();
        let root = Kind::Directory(Directory::new(ROOT));
        let (uid, gid) = options.owner;
        state.add(uid, gid, options.mode, 2, root);
        let nanos = verifier.sec.wrapping_mul(1_000_000_000).wrapping_add(i64::from(verifier.nsec));
        Self { state: Arc::new(Mutex::new(state)), verifier: nanos.to_ne_bytes() }
    }

    /// Keeps an inode until the guard is dropped.
    ///
    /// # Errors
    /// Those of the id; [`need_regular`]'s.
    pub(crate) fn keep_inode(&self, fid: &Fid) -> Result<Kept> {
        let mut state = self.lock();
        let inode = state.get(fid)?;
        need_regular(inode.ftype())?;
        let ino = inode.ino;
        let count = state.kept.entry(ino).or_insert(0);
        *count = count.saturating_add(1);
        drop(state);
        Ok(Kept::new(KeptInode { state: Arc::clone(&self.state), ino }))
    }

    /// The state, for guards that outlive a call.
    pub(crate) fn shared(&self) -> Arc<Mutex<State>> {
        Arc::clone(&self.state)
    }

    /// The state, for one operation.
    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Releases an inode when it is dropped.
struct KeptInode {
    state: Arc<Mutex<State>>,
    ino: u64,
}

impl Drop for KeptInode {
    fn drop(&mut self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let left = match state.kept.get_mut(&self.ino) {
            Some(count) => {
                *count = count.saturating_sub(1);
                *count
            }
            None => 0,
        };
        if left == 0 {
            state.kept.remove(&self.ino);
            if state.inodes.get(&self.ino).is_some_and(|inode| inode.nlink == 0) {
                state.free(self.ino);
            }
        }
    }
}

/// The file id of an inode.
pub fn fid(ino: u64) -> Fid {
    Fid::from_u64(ino)
}

/// The inode of a file id.
///
/// # Errors
/// [`Status::BadHandle`].
pub fn ino(fid: &Fid) -> Result<u64> {
    let bytes = <[u8; 8]>::try_from(fid.bytes()).map_err(|_| Status::BadHandle)?;
    Ok(u64::from_be_bytes(bytes))
}

impl State {
    /// The clock, strictly increasing.
    pub fn now(&mut self) -> Time {
        let clock = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let clock = Time {
            sec: i64::try_from(clock.as_secs()).unwrap_or(i64::MAX),
            nsec: clock.subsec_nanos(),
        };
        let next = if self.last.nsec < 999_999_999 {
            Time { nsec: self.last.nsec + 1, ..self.last }
        } else {
            Time { sec: self.last.sec + 1, nsec: 0 }
        };
        self.last = clock.max(next);
        self.last
    }

    /// A new object.
    pub fn add(&mut self, uid: u32, gid: u32, mode: u32, nlink: u32, kind: Kind) -> u64 {
        let (now, ino) = (self.now(), self.next_ino);
        self.next_ino += 1;
        let mode = mode & 0o7777;
        let inode = Inode {
            ino,
            mode,
            nlink,
            uid,
            gid,
            atime: now,
            mtime: now,
            ctime: now,
            change: 1,
            birth: now,
            verifier: None,
            xattrs: BTreeMap::new(),
            kind,
        };
        self.inodes.insert(ino, inode);
        ino
    }

    /// An object.
    ///
    /// # Errors
    /// [`Status::BadHandle`]; [`Status::Stale`] for a removed one.
    pub fn get(&self, fid: &Fid) -> Result<&Inode> {
        self.inodes.get(&ino(fid)?).ok_or(Status::Stale)
    }

    /// An object, to change it.
    ///
    /// # Errors
    /// As [`State::get`].
    pub fn get_mut(&mut self, fid: &Fid) -> Result<&mut Inode> {
        self.inodes.get_mut(&ino(fid)?).ok_or(Status::Stale)
    }

    /// A directory, if the caller has the permissions `want`.
    ///
    /// # Errors
    /// [`Status::NotDir`], [`Status::Acces`] and those of the id.
    pub fn dir(
        &self,
        fid: &Fid,
        cred: &Cred<'_>,
        want: Permission,
    ) -> Result<(&Inode, &Directory)> {
        let inode = self.get(fid)?;
        let Kind::Directory(dir) = &inode.kind else { return Err(Status::NotDir) };
        check(&inode.attr(), cred, want)?;
        Ok((inode, dir))
    }

    /// The inode of a name.
    pub fn child(&self, fid: &Fid, name: Name<'_>) -> Option<u64> {
        match &self.get(fid).ok()?.kind {
            Kind::Directory(dir) => dir.by_name.get(name.bytes()).copied(),
            Kind::Regular(_) | Kind::Symlink(_) | Kind::Special(..) => None,
        }
    }

    /// Attributes by number; the inode exists.
    ///
    /// # Errors
    /// [`Status::Stale`].
    pub fn attr(&self, ino: u64) -> Result<Attr> {
        self.inodes.get(&ino).map(Inode::attr).ok_or(Status::Stale)
    }

    /// An object with its id.
    ///
    /// # Errors
    /// [`Status::Stale`].
    pub fn node(&self, ino: u64) -> Result<Node> {
        Ok(Node { fid: fid(ino), attr: self.attr(ino)? })
    }

    /// Adds a name of an object; updates the directory's times.
    ///
    /// # Errors
    /// [`Status::NotDir`] and those of the id.
    pub fn enter(&mut self, dir: &Fid, name: Name<'_>, ino: u64) -> Result<()> {
        self.touch_dir(dir, |entries| entries.insert(name.bytes(), ino))
    }

    /// Removes a name; updates the directory's times.
    ///
    /// # Errors
    /// As [`State::enter`].
    pub fn leave(&mut self, dir: &Fid, name: Name<'_>) -> Result<()> {
        self.touch_dir(dir, |entries| entries.remove(name.bytes()))
    }

    fn touch_dir(&mut self, dir: &Fid, work: impl FnOnce(&mut Directory)) -> Result<()> {
        let now = self.now();
        let inode = self.get_mut(dir)?;
        let Kind::Directory(entries) = &mut inode.kind else { return Err(Status::NotDir) };
        work(entries);
        inode.mtime = now;
        inode.touch(now);
        Ok(())
    }

    fn free(&mut self, ino: u64) {
        if let Some(inode) = self.inodes.remove(&ino) {
            let xattrs =
                inode.xattrs.iter().map(|(name, value)| name.len().saturating_add(value.len()));
            let used = inode.attr().used.saturating_add(xattrs.sum::<usize>() as u64);
            debug_assert!(self.used >= used, "each byte in use was counted");
            self.used = self.used.saturating_sub(used);
        }
    }

    /// Removes a link of an object; with the last one the object is removed.
    pub fn unlink(&mut self, ino: u64) {
        let now = self.now();
        let Some(inode) = self.inodes.get_mut(&ino) else { return };
        inode.touch(now);
        inode.nlink = inode.nlink.saturating_sub(1);
        let gone = inode.nlink == 0 || matches!(inode.kind, Kind::Directory(_));
        if gone && !self.kept.contains_key(&ino) {
            self.free(ino);
        }
    }

    /// Adds to the link count of a directory: its subdirectories' `..`.
    pub fn count_subdir(&mut self, dir: u64, add: bool) {
        if let Some(inode) = self.inodes.get_mut(&dir) {
            inode.nlink =
                if add { inode.nlink.saturating_add(1) } else { inode.nlink.saturating_sub(1) };
        }
    }

    /// The change of an object whose earlier attributes were `before`.
    pub fn change(&self, fid: &Fid, before: WccAttr) -> Change {
        Change { before: Some(before), after: self.get(fid).ok().map(Inode::attr) }
    }

    /// Whether the sticky bit lets the caller remove `ino` from `dir`.
    ///
    /// # Errors
    /// [`Status::Perm`].
    pub fn check_sticky(&self, dir: &Attr, ino: u64, cred: &Cred<'_>) -> Result<()> {
        if sticky_permits(dir, &self.attr(ino)?, cred) { Ok(()) } else { Err(Status::Perm) }
    }

    /// Sets attributes after checking the caller's permission for each.
    ///
    /// # Errors
    /// [`Status`].
    pub fn set(&mut self, fid: &Fid, cx: &Cx<'_>, set: &SetAttr) -> Result<()> {
        let cred = &cx.cred;
        let attr = self.get(fid)?.attr();
        may_set(&attr, cx, set)?;
        if let Some(size) = set.size {
            self.resize(fid, cred, &attr, size)?;
        }
        let now = self.now();
        let inode = self.get_mut(fid)?;
        let changes_owner = set.uid.is_some() || set.gid.is_some();
        inode.uid = set.uid.unwrap_or(inode.uid);
        inode.gid = set.gid.unwrap_or(inode.gid);
        if changes_owner && inode.ftype() != vfs::FileType::Directory {
            inode.mode = without_set_id(inode.mode);
        }
        if let Some(mode) = set.mode
            && inode.ftype() != vfs::FileType::Symlink
        {
            let outsider = cred.uid != 0 && !cred.in_group(inode.gid);
            inode.mode = mode & if outsider { 0o5777 } else { 0o7777 };
        }
        inode.atime = time(set.atime, inode.atime, now);
        inode.mtime = time(set.mtime, inode.mtime, now);
        if !set.is_empty() {
            inode.touch(now);
        }
        Ok(())
    }

    fn resize(&mut self, fid: &Fid, cred: &Cred<'_>, attr: &Attr, size: u64) -> Result<()> {
        let now = self.now();
        let inode = self.get_mut(fid)?;
        let Kind::Regular(data) = &mut inode.kind else {
            return Err(match attr.ftype {
                vfs::FileType::Directory => Status::IsDir,
                _ => Status::Inval,
            });
        };
        if i64::try_from(size).is_err() {
            return Err(Status::FBig);
        }
        let before = data.used();
        data.resize(size);
        let after = data.used();
        inode.mtime = now;
        if cred.uid != 0 {
            inode.mode = without_set_id(inode.mode);
        }
        self.used = self.used.saturating_sub(before).saturating_add(after);
        Ok(())
    }
}

/// Whether the caller has the permissions `want`.
///
/// # Errors
/// [`Status::Acces`].
pub fn check(attr: &Attr, cred: &Cred<'_>, want: Permission) -> Result<()> {
    if permits(attr, None, cred, want) { Ok(()) } else { Err(Status::Acces) }
}

/// The mode after a write by a user other than root or a change of owner.
pub const fn without_set_id(mode: u32) -> u32 {
    if mode & 0o010 != 0 { mode & !0o6000 } else { mode & !0o4000 }
}

fn time(set: SetTime, old: Time, now: Time) -> Time {
    match set {
        SetTime::Keep => old,
        SetTime::Now => now,
        SetTime::To(time) | SetTime::Delegated(time) => time,
    }
}

fn may_set(attr: &Attr, cx: &Cx<'_>, set: &SetAttr) -> Result<()> {
    let cred = &cx.cred;
    let owner = cred.uid == 0 || cred.uid == attr.uid;
    let gives_away = set.uid.is_some_and(|uid| uid != attr.uid) && cred.uid != 0;
    let strange_group = set.gid.is_some_and(|gid| gid != attr.gid)
        && cred.uid != 0
        && !(owner && set.gid.is_some_and(|gid| cred.in_group(gid)));
    let owners = set.uid.is_some() || set.gid.is_some() || set.mode.is_some();
    if gives_away || strange_group || owners && !owner {
        return Err(Status::Perm);
    }
    let writes = is_open_for(cx.right, true) || data_access(attr, None, cred, true);
    if set.size.is_some() && !writes {
        return Err(Status::Acces);
    }
    let times = [set.atime, set.mtime];
    if !owner && times.iter().any(|t| matches!(t, SetTime::To(_))) {
        return Err(Status::Perm);
    }
    if !owner && times.contains(&SetTime::Now) {
        check(attr, cred, Permission::WRITE)?;
    }
    Ok(())
}
