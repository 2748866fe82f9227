//! The permission check in user space, exactly as the kernel would decide.
//!
//! Owns: the decision by mode bits and POSIX ACLs, and the exceptions that an NFS server needs, as pure functions. A
//! check costs nanoseconds where switching a thread's identity costs as much as a whole call.
//!
//! The kernel's order (its generic permission check): the owner by the owner bits alone; else the
//! ACL if there is one; else the group bits for a member of the group; else the others' bits. What
//! that denies, root may do all the same, except executing a file without any execute bit.

use crate::acl::{Acl, AclTag};
use crate::{AccessMask, Attr, Cred, FileType, OpenAccess, Right};

/// The bits of `rwx`: what is asked for, or what is permitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Permission(u32);

impl Permission {
    /// Read.
    pub const READ: Self = Self(4);
    /// Write.
    pub const WRITE: Self = Self(2);
    /// Execute, or search a directory.
    pub const EXEC: Self = Self(1);

    /// These bits of a mode or an ACL entry.
    pub const fn from_bits(bits: u32) -> Self {
        Self(bits & 7)
    }

    /// The bits.
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// Both.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    const fn within(self, bits: u32) -> bool {
        self.0 & !bits == 0
    }
}

/// Decides by an ACL for a user other than the owner.
fn acl_permits(acl: &Acl, attr: &Attr, cred: &Cred<'_>, want: Permission) -> bool {
    let mask = acl.find(AclTag::Mask).map_or(7, Permission::bits);
    if let Some(named) = acl.find(AclTag::User(cred.uid)) {
        return want.within(named.bits() & mask);
    }
    let mut member = false;
    for entry in acl.entries() {
        let in_group = match entry.tag {
            AclTag::GroupObj => cred.in_group(attr.gid),
            AclTag::Group(gid) => cred.in_group(gid),
            AclTag::UserObj | AclTag::User(_) | AclTag::Mask | AclTag::Other => false,
        };
        if in_group && want.within(entry.permissions.bits() & mask) {
            return true;
        }
        member |= in_group;
    }
    !member && want.within(acl.find(AclTag::Other).map_or(0, Permission::bits))
}

/// Whether the kernel would grant `want` to `cred`.
pub fn permits(attr: &Attr, acl: Option<&Acl>, cred: &Cred<'_>, want: Permission) -> bool {
    by_mode(attr, acl, cred, want) || cred.uid == 0 && root_may(attr, want)
}

fn by_mode(attr: &Attr, acl: Option<&Acl>, cred: &Cred<'_>, want: Permission) -> bool {
    let mode = u32::from(attr.mode);
    if cred.uid == attr.uid {
        return want.within(mode >> 6);
    }
    match acl {
        // the kernel checks an ACL only if the group bits (its mask) permit something
        Some(acl) if mode & 0o070 != 0 => acl_permits(acl, attr, cred, want),
        _ if cred.in_group(attr.gid) => want.within(mode >> 3),
        _ => want.within(mode),
    }
}

/// What root may do regardless of the mode (`CAP_DAC_OVERRIDE`).
fn root_may(attr: &Attr, want: Permission) -> bool {
    let executes = want.0 & Permission::EXEC.0 != 0;
    !executes || attr.ftype == FileType::Directory || attr.mode & 0o111 != 0
}

/// Whether the right to read or write data was checked when the file was opened.
pub const fn is_open_for(right: Right, write: bool) -> bool {
    match right {
        Right::Check => false,
        Right::Opened(access) => {
            access.has(if write { OpenAccess::WRITE } else { OpenAccess::READ })
        }
    }
}

/// Whether data of a regular file may be read or written. A client checks at open, the server at
/// each call, so the owner always has access (RFC 1813 §4.4), and executable files can be read.
pub fn data_access(attr: &Attr, acl: Option<&Acl>, cred: &Cred<'_>, write: bool) -> bool {
    let want = if write { Permission::WRITE } else { Permission::READ };
    cred.uid == attr.uid
        || permits(attr, acl, cred, want)
        || !write && permits(attr, acl, cred, Permission::EXEC)
}

/// The part of an ACCESS request that is granted (RFC 1813 §3.3.4): LOOKUP and DELETE apply to
/// directories only, EXECUTE to everything else.
pub fn granted(attr: &Attr, acl: Option<&Acl>, cred: &Cred<'_>, asked: AccessMask) -> AccessMask {
    let may = |want| permits(attr, acl, cred, want);
    let mut granted = AccessMask::default();
    if may(Permission::READ) {
        granted = granted | AccessMask::READ;
    }
    if attr.ftype == FileType::Directory {
        if may(Permission::EXEC) {
            granted = granted | AccessMask::LOOKUP;
        }
        if may(Permission::WRITE.and(Permission::EXEC)) {
            granted = granted | AccessMask::MODIFY | AccessMask::EXTEND | AccessMask::DELETE;
        }
    } else {
        if may(Permission::WRITE) {
            granted = granted | AccessMask::MODIFY | AccessMask::EXTEND;
        }
        if may(Permission::EXEC) {
            granted = granted | AccessMask::EXECUTE;
        }
    }
    granted & asked
}

/// Whether the sticky bit of `dir` lets `cred` remove or rename `entry`.
pub fn sticky_permits(dir: &Attr, entry: &Attr, cred: &Cred<'_>) -> bool {
    dir.mode & 0o1000 == 0 || [0, dir.uid, entry.uid].contains(&cred.uid)
}

#[cfg(test)]
mod tests;
