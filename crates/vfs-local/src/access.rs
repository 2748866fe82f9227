//! ACCESS and the checks of all other verbs, in user space, against fresh attributes and the ACL.

use crate::errno;
use crate::local::Local;
use crate::open_files::OpenFile;
use vfs::access::{Acl, Permission, data_access, granted, permits};
use vfs::{AccessMask, Attr, Cx, Fid, Result, Status};

/// See [`vfs::Backend::access`].
pub fn access(
    local: &Local,
    cx: &Cx<'_>,
    fid: &Fid,
    mask: AccessMask,
) -> Result<(AccessMask, Attr)> {
    let cred = local.actor.cred(&cx.cred);
    local.with(cx, fid, |file, attr| {
        let acl = file.acl(&attr).map_err(errno::from)?;
        Ok((granted(&attr, acl.as_deref(), &cred, mask), attr))
    })
}

/// Whether the caller may search or list a directory.
///
/// # Errors
/// [`Status::Acces`].
pub fn check(
    local: &Local,
    cx: &Cx<'_>,
    file: &OpenFile,
    attr: &Attr,
    want: Permission,
) -> Result<()> {
    let cred = local.actor.cred(&cx.cred);
    decide(file, attr, |acl| permits(attr, acl, &cred, want))
}

/// Whether the caller may read or write a file's data.
///
/// # Errors
/// [`Status::Acces`].
pub fn check_data(
    local: &Local,
    cx: &Cx<'_>,
    file: &OpenFile,
    attr: &Attr,
    write: bool,
) -> Result<()> {
    let cred = local.actor.cred(&cx.cred);
    decide(file, attr, |acl| data_access(attr, acl, &cred, write))
}

fn decide(file: &OpenFile, attr: &Attr, may: impl FnOnce(Option<&Acl>) -> bool) -> Result<()> {
    let acl = file.acl(attr).map_err(errno::from)?;
    if may(acl.as_deref()) { Ok(()) } else { Err(Status::Acces) }
}
