//! ACCESS and the checks of all other verbs, in user space, against fresh attributes and the ACL.

use crate::errno;
use crate::local::Local;
use crate::open_files::OpenFile;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use vfs::access::{Acl, Permission, data_access, granted, permits};
use vfs::{AccessMask, Attr, Cred, Cx, Fid, FileType, Result, Status};

/// The group bits of a mode, which are the mask of an ACL.
const GROUP_BITS: u32 = 0o070;

/// See [`vfs::Backend::access`].
pub fn access(
    local: &Local,
    cx: &Cx<'_>,
    fid: &Fid,
    mask: AccessMask,
) -> Result<(AccessMask, Attr)> {
    let cred = local.actor.cred(&cx.cred);
    let (allowed, attr) = local.with(cx, fid, |file, attr| {
        let judge = |acl: Option<&Acl>| granted(&attr, acl, &cred, mask);
        Ok((judged(file, &attr, &cred, judge)?, attr))
    })?;
    Ok((allowed & local.mount_allows(attr.ftype), attr))
}

/// Gives `judge` the ACL of an object, if there is one that matters for this caller: the owner and
/// root are not subject to it, and without group bits (its mask) it grants nothing.
fn judged<R>(
    file: &OpenFile,
    attr: &Attr,
    cred: &Cred<'_>,
    judge: impl FnOnce(Option<&Acl>) -> R,
) -> Result<R> {
    let by_mode_alone = cred.uid == attr.uid
        || cred.uid == 0
        || attr.mode & GROUP_BITS == 0
        || attr.ftype == FileType::Symlink;
    if by_mode_alone {
        return Ok(judge(None));
    }
    file.acl().with(file.path(), attr, judge).map_err(errno::from)
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
    allowed(judged(file, attr, &cred, |acl| permits(attr, acl, &cred, want))?)
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
    allowed(judged(file, attr, &cred, |acl| data_access(attr, acl, &cred, write))?)
}

const fn allowed(may: bool) -> Result<()> {
    if may { Ok(()) } else { Err(Status::Acces) }
}

/// What the mount allows, asked at most once a second: (second + 1) << 2, read-only, no-exec.
#[derive(Debug, Default)]
pub struct MountState(AtomicU64);

impl Local {
    /// The rights that the mount does not take from everybody: none to change anything on one that
    /// is read-only, none to execute files on one that is `noexec`.
    fn mount_allows(&self, ftype: FileType) -> AccessMask {
        let second = u64::from(self.files.now_s()) + 1;
        let mut state = self.mount.0.load(Relaxed);
        if state >> 2 != second
            && let Ok(figures) = sys::stat::figures(self.root.as_fd())
        {
            state = second << 2 | u64::from(figures.read_only) << 1 | u64::from(figures.no_exec);
            self.mount.0.store(state, Relaxed);
        }
        let mut allows = AccessMask::READ | AccessMask::LOOKUP;
        if state & 2 == 0 {
            allows = allows | AccessMask::MODIFY | AccessMask::EXTEND | AccessMask::DELETE;
        }
        if state & 1 == 0 || ftype != FileType::Regular {
            allows = allows | AccessMask::EXECUTE;
        }
        allows
    }
}
