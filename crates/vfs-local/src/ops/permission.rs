//! Permission checks in user space, with current attributes and the ACL.

use crate::cache::open_file::OpenFile;
use crate::errno;
use crate::fs::LocalFs;
use vfs::access::{Permission, data_access, is_open_for, permits};
use vfs::acl::Acl;
use vfs::{Attr, Cred, Cx, FileType, Result, Status};

/// The group bits of a mode, which are the mask of an ACL.
const GROUP_BITS: u16 = 0o070;

/// Passes `check` the ACL of an object, if one applies to this caller: the owner and root are not
/// subject to it, and without group bits (its mask) it grants nothing.
pub fn with_acl<R>(
    file: &OpenFile,
    attr: &Attr,
    cred: &Cred<'_>,
    check: impl FnOnce(Option<&Acl>) -> R,
) -> Result<R> {
    if is_by_mode_alone(attr, cred) {
        return Ok(check(None));
    }
    file.acl().with(file.path(), attr, check).map_err(errno::from)
}

/// Whether no ACL that an object may have counts for this caller.
#[inline]
pub const fn is_by_mode_alone(attr: &Attr, cred: &Cred<'_>) -> bool {
    cred.uid == attr.uid
        || cred.uid == 0
        || attr.mode & GROUP_BITS == 0
        || matches!(attr.ftype, FileType::Symlink)
}

/// Whether the caller may search or list a directory.
///
/// # Errors
/// [`Status::Acces`].
pub fn check(
    local: &LocalFs,
    cx: &Cx<'_>,
    file: &OpenFile,
    attr: &Attr,
    want: Permission,
) -> Result<()> {
    let cred = local.identity.cred(&cx.cred);
    allowed(with_acl(file, attr, &cred, |acl| permits(attr, acl, &cred, want))?)
}

/// Whether the caller may read or write a file's data.
///
/// # Errors
/// [`Status::Acces`].
pub fn check_data(
    local: &LocalFs,
    cx: &Cx<'_>,
    file: &OpenFile,
    attr: &Attr,
    write: bool,
) -> Result<()> {
    if is_open_for(cx.right, write) {
        return Ok(());
    }
    let cred = local.identity.cred(&cx.cred);
    allowed(with_acl(file, attr, &cred, |acl| data_access(attr, acl, &cred, write))?)
}

const fn allowed(may: bool) -> Result<()> {
    if may { Ok(()) } else { Err(Status::Acces) }
}
