//! The requirements of OPEN: whether the caller may open a file, and keeping it while it is open.

use crate::cache::open_file::OpenFile;
use crate::fs::LocalFs;
use crate::ops::create::create;
use crate::ops::permission::with_acl;
use std::os::fd::AsFd;
use vfs::access::granted;
use vfs::{
    AccessMask, Attr, Create, Created, Cx, Fid, FileType, Kept, Name, OpenAccess, Result, Status,
    need_regular,
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
