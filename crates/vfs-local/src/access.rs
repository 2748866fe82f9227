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

/// What is known of the mount, asked at most once a second: (second + 1) << 3, read-only, no-exec,
/// nearly full.
#[derive(Debug, Default)]
pub struct MountState(AtomicU64);

const READ_ONLY: u64 = 4;
const NO_EXEC: u64 = 2;
const NEARLY_FULL: u64 = 1;

/// Bytes left from which on it matters who writes, where some are kept for root: more than all clients
/// write in the second until that is asked again.
const NEARLY_FULL_BYTES: u64 = 4 << 30;

impl Local {
    /// The rights that the mount does not take from everybody: none to change anything on one that
    /// is read-only, none to execute files on one that is `noexec`.
    fn mount_allows(&self, ftype: FileType) -> AccessMask {
        let state = self.mount_state();
        let mut allows = AccessMask::READ | AccessMask::LOOKUP;
        if state & READ_ONLY == 0 {
            allows = allows | AccessMask::MODIFY | AccessMask::EXTEND | AccessMask::DELETE;
        }
        if state & NO_EXEC == 0 || ftype != FileType::Regular {
            allows = allows | AccessMask::EXECUTE;
        }
        allows
    }

    /// Whether so little is left that somebody who writes as root would soon write to what is kept for
    /// root.
    pub(crate) fn is_nearly_full(&self) -> bool {
        self.mount_state() & NEARLY_FULL != 0
    }

    fn mount_state(&self) -> u64 {
        let second = u64::from(self.files.now_s()) + 1;
        let state = self.mount.0.load(Relaxed);
        if state >> 3 == second {
            return state;
        }
        let Ok(figures) = sys::stat::figures(self.root.as_fd()) else { return state };
        let [_, free, available] = figures.bytes;
        let nearly_full = free > available && available < NEARLY_FULL_BYTES;
        let flag = |is: bool, flag: u64| if is { flag } else { 0 };
        let flags = flag(figures.read_only, READ_ONLY)
            | flag(figures.no_exec, NO_EXEC)
            | flag(nearly_full, NEARLY_FULL);
        self.mount.0.store(second << 3 | flags, Relaxed);
        second << 3 | flags
    }
}
