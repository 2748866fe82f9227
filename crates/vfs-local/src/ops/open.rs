//! The requirements of OPEN: whether the caller may open a file, and keeping it while it is open.

use crate::cache::open_file::OpenFile;
use crate::fs::LocalFs;
use crate::ops::permission::with_acl;
use std::os::fd::AsFd;
use std::sync::Arc;
use vfs::access::granted;
use vfs::{AccessMask, Attr, Cx, Fid, Kept, OpenAccess, Result, Status, need_regular};

/// See [`vfs::Backend::may_open`].
pub fn may_open(local: &LocalFs, cx: &Cx<'_>, fid: &Fid, access: OpenAccess) -> Result<Attr> {
    let wanted = access.as_mask();
    let cred = local.identity.cred(&cx.cred);
    let attr = local.with(cx, fid, |file, attr| {
        need_regular(attr.ftype)?;
        let granted = with_acl(file, &attr, &cred, |acl| granted(&attr, acl, &cred, wanted))?;
        if granted.has(wanted) { Ok(attr) } else { Err(Status::Acces) }
    })?;
    let mount = local.mount.allows(local.root.as_fd(), local.files.now_s(), attr.ftype);
    if access.has(OpenAccess::WRITE) && !mount.has(AccessMask::MODIFY) {
        return Err(Status::RoFs);
    }
    Ok(attr)
}

/// See [`vfs::Backend::keep`].
pub fn keep(local: &LocalFs, cx: &Cx<'_>, fid: &Fid) -> Result<Kept> {
    let open = || -> Result<Arc<OpenFile>> {
        let (file, attr) = local.hold(cx, fid)?;
        need_regular(attr.ftype)?;
        Ok(file)
    };
    local.files.keep(local.key(fid), open)
}
