//! Changes of names: create, remove, rename, link, by POSIX's rules.

use crate::data::Data;
use crate::inode::{Directory, Kind};
use crate::mem::{State, check, fid};
use vfs::access::Permission;
use vfs::{
    Attr, Change, Create, Created, Cx, Fid, FileType, Name, NodeKind, Result, SetAttr, Status,
};

/// The requirements of changing a directory.
const CHANGE: Permission = Permission::WRITE.and(Permission::EXEC);

/// The directory's attributes, if the caller may change it, and it is not held.
fn changeable(state: &State, cx: &Cx<'_>, dir: &Fid) -> Result<Attr> {
    let attr = state.dir(dir, &cx.cred, CHANGE).map(|(inode, _)| inode.attr())?;
    state.held.check(attr.fileid)?;
    Ok(attr)
}

/// A new object under a free name.
///
/// # Errors
/// [`Status::Exist`], [`Status::NoSpc`] and those of the directory.
pub fn make(
    state: &mut State,
    cx: &Cx<'_>,
    dir: &Fid,
    name: Name<'_>,
    kind: Kind,
    set: &SetAttr,
) -> Result<Created> {
    state.dir(dir, &cx.cred, Permission::EXEC)?;
    if state.child(dir, name).is_some() {
        return Err(Status::Exist);
    }
    let parent = changeable(state, cx, dir)?;
    if state.inodes.len() as u64 >= state.options.inodes_max {
        return Err(Status::NoSpc);
    }
    let is_dir = matches!(kind, Kind::Directory(_));
    let inherits = parent.mode & 0o2000 != 0;
    let gid = if inherits { parent.gid } else { cx.cred.gid };
    let default = match &kind {
        Kind::Directory(_) => 0o700,
        Kind::Symlink(_) => 0o777,
        Kind::Regular(_) | Kind::Special(..) => 0o600,
    };
    let mut mode =
        if matches!(kind, Kind::Symlink(_)) { default } else { set.mode.unwrap_or(default) };
    if is_dir && inherits {
        mode |= 0o2000;
    }
    let links = if is_dir { 2 } else { 1 };
    let ino = state.add(cx.cred.uid, gid, mode, links, kind);
    // a new owner or group clears set-id bits
    let falls = mode & 0o6000 != 0 && (set.uid.is_some() || set.gid.is_some());
    let rest = SetAttr { mode: falls.then_some(mode), ..*set };
    if !rest.is_empty()
        && let Err(status) = state.set(&fid(ino), cx, &rest)
    {
        state.inodes.remove(&ino);
        return Err(status);
    }
    state.enter(dir, name, ino)?;
    if is_dir {
        state.count_subdir(parent.fileid, true);
    }
    Ok(Created { node: Some(state.node(ino)?), dir: state.change(dir, parent.wcc()) })
}

/// CREATE.
///
/// # Errors
/// [`Status`].
pub fn create(
    state: &mut State,
    cx: &Cx<'_>,
    dir: &Fid,
    name: Name<'_>,
    how: Create,
) -> Result<Created> {
    let before = state.dir(dir, &cx.cred, Permission::EXEC)?.0.attr();
    let Some(existing) = state.child(dir, name) else {
        let set = match how {
            Create::Unchecked(set) | Create::Guarded(set) => set,
            Create::Exclusive(_) => SetAttr::default(),
        };
        let made = make(state, cx, dir, name, Kind::Regular(Data::default()), &set)?;
        if let Create::Exclusive(verifier) = how {
            let node = made.node.ok_or(Status::ServerFault)?;
            state.get_mut(&node.fid)?.verifier = Some(verifier);
        }
        return Ok(made);
    };
    let node = state.node(existing)?;
    match how {
        Create::Unchecked(set) if node.attr.ftype == FileType::Regular => {
            let cut = SetAttr { size: set.size, ..SetAttr::default() };
            state.set(&node.fid, cx, &cut)?;
        }
        Create::Exclusive(verifier) if state.get(&node.fid)?.verifier == Some(verifier) => {}
        Create::Unchecked(_) | Create::Guarded(_) | Create::Exclusive(_) => {
            return Err(Status::Exist);
        }
    }
    Ok(Created { node: Some(state.node(existing)?), dir: state.change(dir, before.wcc()) })
}

/// MKDIR.
///
/// # Errors
/// [`Status`].
pub fn mkdir(
    state: &mut State,
    cx: &Cx<'_>,
    dir: &Fid,
    name: Name<'_>,
    set: &SetAttr,
) -> Result<Created> {
    let parent = state.get(dir)?.ino;
    make(state, cx, dir, name, Kind::Directory(Directory::new(parent)), set)
}

/// MKNOD.
///
/// # Errors
/// [`Status`]; [`Status::Perm`] for devices unless root.
pub fn mknod(
    state: &mut State,
    cx: &Cx<'_>,
    dir: &Fid,
    name: Name<'_>,
    kind: NodeKind,
    set: &SetAttr,
) -> Result<Created> {
    let (ftype, rdev) = match kind {
        NodeKind::Block(major, minor) => (FileType::Block, (major, minor)),
        NodeKind::Char(major, minor) => (FileType::Char, (major, minor)),
        NodeKind::Fifo => (FileType::Fifo, (0, 0)),
        NodeKind::Socket => (FileType::Socket, (0, 0)),
    };
    let device = matches!(ftype, FileType::Block | FileType::Char);
    if device && cx.cred.uid != 0 && state.child(dir, name).is_none() {
        changeable(state, cx, dir)?;
        return Err(Status::Perm);
    }
    make(state, cx, dir, name, Kind::Special(ftype, rdev), set)
}

/// The entry to be removed: its number and the directory's attributes.
fn victim(state: &State, cx: &Cx<'_>, dir: &Fid, name: Name<'_>) -> Result<(u64, Attr)> {
    state.dir(dir, &cx.cred, Permission::EXEC)?;
    let ino = state.child(dir, name).ok_or(Status::NoEnt)?;
    let parent = changeable(state, cx, dir)?;
    state.check_sticky(&parent, ino, &cx.cred)?;
    Ok((ino, parent))
}

/// REMOVE.
///
/// # Errors
/// [`Status::IsDir`] and others.
pub fn remove(state: &mut State, cx: &Cx<'_>, dir: &Fid, name: Name<'_>) -> Result<Change> {
    let (ino, parent) = victim(state, cx, dir, name)?;
    if state.attr(ino)?.ftype == FileType::Directory {
        return Err(Status::IsDir);
    }
    state.leave(dir, name)?;
    state.unlink(ino);
    Ok(state.change(dir, parent.wcc()))
}

/// RMDIR.
///
/// # Errors
/// [`Status::NotEmpty`], [`Status::NotDir`] and others.
pub fn rmdir(state: &mut State, cx: &Cx<'_>, dir: &Fid, name: Name<'_>) -> Result<Change> {
    let (ino, parent) = victim(state, cx, dir, name)?;
    must_be_empty_dir(state, ino)?;
    state.leave(dir, name)?;
    state.unlink(ino);
    state.count_subdir(parent.fileid, false);
    Ok(state.change(dir, parent.wcc()))
}

fn must_be_empty_dir(state: &State, ino: u64) -> Result<()> {
    match &state.inodes.get(&ino).ok_or(Status::Stale)?.kind {
        Kind::Directory(entries) if entries.by_name.is_empty() => Ok(()),
        Kind::Directory(_) => Err(Status::NotEmpty),
        Kind::Regular(_) | Kind::Symlink(_) | Kind::Special(..) => Err(Status::NotDir),
    }
}

/// RENAME.
///
/// # Errors
/// [`Status`].
pub fn rename(
    state: &mut State,
    cx: &Cx<'_>,
    (from_dir, from): (&Fid, Name<'_>),
    (to_dir, to): (&Fid, Name<'_>),
) -> Result<(Change, Change)> {
    let from_dir_ino = state.dir(from_dir, &cx.cred, Permission::EXEC)?.0.ino;
    let target_dir = state.dir(to_dir, &cx.cred, Permission::EXEC)?.0.attr();
    let ino = state.child(from_dir, from).ok_or(Status::NoEnt)?;
    let moved = state.attr(ino)?;
    if moved.ftype == FileType::Directory && is_below(state, target_dir.fileid, ino) {
        return Err(Status::Inval);
    }
    let replaced = state.child(to_dir, to);
    // the kernel checks this before all else of the target, its type included
    if replaced.is_some_and(|replaced| is_below(state, from_dir_ino, replaced)) {
        return Err(Status::NotEmpty);
    }
    if replaced == Some(ino) {
        let same = |dir: &Fid| state.get(dir).map(|i| state.change(dir, i.attr().wcc()));
        return Ok((same(from_dir)?, same(to_dir)?));
    }
    let source = changeable(state, cx, from_dir)?;
    state.check_sticky(&source, ino, &cx.cred)?;
    let target = changeable(state, cx, to_dir)?;
    if let Some(replaced) = replaced {
        may_replace(state, cx, &target, &moved, replaced)?;
    }
    if moved.ftype == FileType::Directory && source.fileid != target.fileid {
        // its `..` changes
        check(&moved, &cx.cred, Permission::WRITE)?;
    }
    if let Some(replaced) = replaced {
        state.leave(to_dir, to)?;
        state.unlink(replaced);
        if moved.ftype == FileType::Directory {
            state.count_subdir(target.fileid, false);
        }
    }
    state.leave(from_dir, from)?;
    state.enter(to_dir, to, ino)?;
    moved_to(state, ino, &moved, (source.fileid, target.fileid));
    Ok((state.change(from_dir, source.wcc()), state.change(to_dir, target.wcc())))
}

/// Updates parent, link counts and ctime of the renamed object.
fn moved_to(state: &mut State, ino: u64, moved: &Attr, (source, target): (u64, u64)) {
    let now = state.now();
    if let Some(inode) = state.inodes.get_mut(&ino) {
        inode.touch(now);
        if let Kind::Directory(entries) = &mut inode.kind {
            entries.parent = target;
        }
    }
    if moved.ftype == FileType::Directory {
        state.count_subdir(source, false);
        state.count_subdir(target, true);
    }
}

fn may_replace(state: &State, cx: &Cx<'_>, dir: &Attr, moved: &Attr, replaced: u64) -> Result<()> {
    state.check_sticky(dir, replaced, &cx.cred)?;
    let is_dir = state.attr(replaced)?.ftype == FileType::Directory;
    match (moved.ftype == FileType::Directory, is_dir) {
        (true, true) => must_be_empty_dir(state, replaced),
        (true, false) => Err(Status::NotDir),
        (false, true) => Err(Status::IsDir),
        (false, false) => Ok(()),
    }
}

/// Whether `dir` is `ancestor` or below it.
fn is_below(state: &State, mut dir: u64, ancestor: u64) -> bool {
    loop {
        if dir == ancestor {
            return true;
        }
        match state.inodes.get(&dir).map(|inode| &inode.kind) {
            Some(Kind::Directory(entries)) if entries.parent != dir => dir = entries.parent,
            _ => return false,
        }
    }
}

/// LINK.
///
/// # Errors
/// [`Status::Perm`] for a directory, and others.
pub fn link(
    state: &mut State,
    cx: &Cx<'_>,
    file: &Fid,
    dir: &Fid,
    name: Name<'_>,
) -> Result<(Attr, Change)> {
    let (ino, ftype, nlink) = state.get(file).map(|i| (i.ino, i.ftype(), i.nlink))?;
    if nlink == 0 {
        return Err(Status::NoEnt);
    }
    state.dir(dir, &cx.cred, Permission::EXEC)?;
    if ftype == FileType::Directory {
        return Err(Status::Perm);
    }
    if state.child(dir, name).is_some() {
        return Err(Status::Exist);
    }
    let parent = changeable(state, cx, dir)?;
    state.enter(dir, name, ino)?;
    let now = state.now();
    let inode = state.get_mut(file)?;
    inode.nlink = inode.nlink.checked_add(1).ok_or(Status::MLink)?;
    inode.touch(now);
    let attr = inode.attr();
    Ok((attr, state.change(dir, parent.wcc())))
}
