//! The requirements of OPEN: whether the caller may open a file, and keeping it while it is open.

use crate::cache::open_file::OpenFile;
use crate::fs::LocalFs;
use crate::ops::permission::with_acl;
use std::os::fd::AsFd;
use vfs::access::granted;
use vfs::{AccessMask, Attr, Cx, Fid, FileType, Kept, OpenAccess, Result, Status, need_regular};

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
    let pin = || {
        local.with(cx, fid, |file, attr| {
            need_regular(attr.ftype)?;
            Ok((file.try_pin(), ()))
        })
    };
    local.files.keep(local.key(fid), pin).map(|(kept, ())| kept)
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

/// Checks type, mode and ACL.
fn check(
    local: &LocalFs,
    cx: &Cx<'_>,
    (file, attr): (&OpenFile, &Attr),
    access: OpenAccess,
) -> Result<()> {
    need_regular(attr.ftype)?;
    let (wanted, cred) = (access.as_mask(), local.identity.cred(&cx.cred));
    let granted = with_acl(file, attr, &cred, |acl| granted(attr, acl, &cred, wanted))?;
    if granted.has(wanted) { Ok(()) } else { Err(Status::Acces) }
}

/// Refuses writing on a mount that is read-only. May ask the kernel.
fn check_mount(local: &LocalFs, access: OpenAccess) -> Result<()> {
    if !access.has(OpenAccess::WRITE) {
        return Ok(());
    }
    let mount = local.mount.allows(local.root.as_fd(), local.files.now_s(), FileType::Regular);
    if mount.has(AccessMask::MODIFY) { Ok(()) } else { Err(Status::RoFs) }
}
