//! The requirements of OPEN: whether the caller may open a file, and keeping it while it is open.

use crate::cache::name_cache::NameHint;
use crate::cache::open_file::OpenFile;
use crate::errno;
use crate::fs::LocalFs;
use crate::ops::create::create;
use crate::ops::permission::{self, with_acl};
use std::os::fd::AsFd;
use vfs::access::{Permission, granted};
use vfs::{
    AccessMask, Attr, Create, Created, Cx, Fid, FileType, Found, Kept, Name, Node, OpenAccess,
    Result, Status, need_regular,
};

/// See [`vfs::Backend::may_open`].
pub fn may_open(local: &LocalFs, cx: &Cx<'_>, fid: &Fid, access: OpenAccess) -> Result<Attr> {
    let attr = local.with(cx, fid, |file, attr| {
        check(local, cx, (file, &attr), access)?;
        Ok(attr)
    })?;
    check_mount(local, access)?;
    Ok(attr)
}

/// See [`vfs::Backend::keep`].
pub fn keep(local: &LocalFs, cx: &Cx<'_>, fid: &Fid) -> Result<Kept> {
    local.files.keep(local.key(fid), || pin_regular(local, cx, fid)).map(|(kept, ())| kept)
}

/// See [`vfs::Backend::open`]. One look at the file, whose attributes are those by which it was checked.
pub fn open(
    local: &LocalFs,
    cx: &Cx<'_>,
    fid: &Fid,
    access: OpenAccess,
) -> Result<(Option<Kept>, Attr)> {
    let pin = || {
        local.with(cx, fid, |file, attr| {
            check(local, cx, (file, &attr), access)?;
            Ok((file.try_pin(), attr))
        })
    };
    let (kept, attr) = local.files.keep(local.key(fid), pin)?;
    check_mount(local, access)?;
    Ok((Some(kept), attr))
}

/// See [`vfs::Backend::open_remembered`]. The file that the name may lead to is kept before the name is looked at: the attributes
/// that prove the name to lead to it are from after that, so that the file cannot have been lost in between.
pub fn open_remembered(
    local: &LocalFs,
    cx: &Cx<'_>,
    dir: &Fid,
    name: Name<'_>,
    access: OpenAccess,
) -> Option<(Found, Kept)> {
    // a look-up takes no system call then, and keeps copies of what it finds
    if cx.attr_cache_ms > 0 {
        return None;
    }
    // search permission is checked below, so that the caller's own identity is not needed
    local.identity.act_as_caller_or_server(&cx.cred).ok()?;
    let names = local.files.names();
    let tag = names.tag(&local.key(dir), name.bytes());
    let Some(NameHint::Object(fid, _)) = names.find(tag, local.files.now_s()) else { return None };
    let pin = || {
        let looked = local.files.with(&local.warm_key(dir), |around| {
            let attr = local.stat(around)?;
            if attr.ftype != FileType::Directory {
                return Err(Status::NotDir);
            }
            permission::check(local, cx, around, &attr, Permission::EXEC)?;
            let pinned = local.files.with(&local.warm_key(&fid), |file| {
                let node = attr_if_named(local, (around, name), file)?;
                check(local, cx, (file, &node), access)?;
                Ok((file.try_pin(), Found { node: Node { fid, attr: node }, dir: attr }))
            });
            pinned.unwrap_or(Err(Status::Stale))
        });
        looked.unwrap_or(Err(Status::Stale))
    };
    let (kept, found) = local.files.keep(local.key(&fid), pin).ok()?;
    check_mount(local, access).ok()?;
    // it may have been moved in between
    local.resolver.remember(dir, name.bytes(), &fid).ok()?;
    Some((found, kept))
}

/// The attributes of an open object, if a name of a directory leads to it now.
fn attr_if_named(
    local: &LocalFs,
    (dir, name): (&OpenFile, Name<'_>),
    file: &OpenFile,
) -> Result<Attr> {
    let stat = sys::stat::of_name(dir.path(), name.bytes()).map_err(errno::from)?;
    if let Some(copies) = local.files.attrs.in_use() {
        copies.invalidate_if_changed(&file.visible_stat(&stat));
    }
    if !file.is(&stat) || stat.mount_root || stat.nlink == 0 {
        return Err(Status::Stale);
    }
    Ok(local.attr_of(&stat, file))
}

/// See [`vfs::Backend::create_open`]. The new file is in the cache, and not looked at again.
pub fn create_open(
    local: &LocalFs,
    cx: &Cx<'_>,
    dir: &Fid,
    name: Name<'_>,
    how: Create,
) -> Result<(Created, Option<Kept>)> {
    let created = create(local, cx, dir, name, how)?;
    let Some(node) = &created.node else { return Ok((created, None)) };
    let key = local.key(&node.fid);
    let pin = || match local.files.with(&key, |file| file.try_pin()) {
        Some(is_pinned) => Ok((is_pinned, ())),
        None => pin_regular(local, cx, &node.fid),
    };
    let (kept, ()) = local.files.keep(key, pin)?;
    Ok((created, Some(kept)))
}

/// Pins a file's entry in the cache, after it was checked that it is a file and there; whether it could be.
fn pin_regular(local: &LocalFs, cx: &Cx<'_>, fid: &Fid) -> Result<(bool, ())> {
    local.with(cx, fid, |file, attr| {
        need_regular(attr.ftype)?;
        Ok((file.try_pin(), ()))
    })
}

/// Checks type, mode and ACL.
fn check(
    local: &LocalFs,
    cx: &Cx<'_>,
    (file, attr): (&OpenFile, &Attr),
    access: OpenAccess,
) -> Result<()> {
    need_regular(attr.ftype)?;
    let (asked, cred) = (access.deciding(), local.identity.cred(&cx.cred));
    let granted = with_acl(file, attr, &cred, |acl| granted(attr, acl, &cred, asked))?;
    if access.is_permitted_by(granted) { Ok(()) } else { Err(Status::Acces) }
}

/// Refuses writing on a mount that is read-only. May ask the kernel.
fn check_mount(local: &LocalFs, access: OpenAccess) -> Result<()> {
    if !access.has(OpenAccess::WRITE) {
        return Ok(());
    }
    let mount = local.mount.allows(local.root.as_fd(), local.files.now_s(), FileType::Regular);
    if mount.has(AccessMask::MODIFY) { Ok(()) } else { Err(Status::RoFs) }
}
