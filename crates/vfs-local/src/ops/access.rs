//! ACCESS.

use crate::fs::LocalFs;
use crate::ops::permission::{is_by_mode_alone, with_acl};
use std::os::fd::AsFd;
use vfs::access::granted;
use vfs::acl::Acl;
use vfs::{AccessMask, Attr, Cx, Fid, Result};

/// See [`vfs::Backend::access`].
pub fn access(
    local: &LocalFs,
    cx: &Cx<'_>,
    fid: &Fid,
    mask: AccessMask,
) -> Result<(AccessMask, Attr)> {
    if cx.attr_cache_ms > 0 {
        return access_by_copies(local, cx, fid, mask);
    }
    let cred = local.identity.cred(&cx.cred);
    let (allowed, attr) = local.with(cx, fid, |file, attr| {
        let check = |acl: Option<&Acl>| granted(&attr, acl, &cred, mask);
        Ok((with_acl(file, &attr, &cred, check)?, attr))
    })?;
    Ok((allowed & local.mount.allows(local.root.as_fd(), local.files.now_s(), attr.ftype), attr))
}

/// Apart from the way without copies, which it would make longer.
#[inline(never)]
fn access_by_copies(
    local: &LocalFs,
    cx: &Cx<'_>,
    fid: &Fid,
    mask: AccessMask,
) -> Result<(AccessMask, Attr)> {
    let cred = local.identity.cred(&cx.cred);
    let (allowed, attr) = local.with_recent(cx, fid, |file, attr| {
        Ok((with_acl(file, &attr, &cred, |acl| granted(&attr, acl, &cred, mask))?, attr))
    })?;
    Ok((allowed & local.mount.allows(local.root.as_fd(), local.files.now_s(), attr.ftype), attr))
}

/// See [`vfs::Backend::access_by`]. Without the ACL, which has to be looked at where one counts.
pub fn access_by(
    local: &LocalFs,
    cx: &Cx<'_>,
    attr: &Attr,
    mask: AccessMask,
) -> Option<AccessMask> {
    let cred = local.identity.cred(&cx.cred);
    if !is_by_mode_alone(attr, &cred) {
        return None;
    }
    let mount = local.mount.allows(local.root.as_fd(), local.files.now_s(), attr.ftype);
    Some(granted(attr, None, &cred, mask) & mount)
}
