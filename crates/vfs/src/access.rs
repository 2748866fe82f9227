//! The permission check in user space, exactly as the kernel would decide.
//!
//! Owns: mode bits, POSIX ACLs, and the exceptions that an NFS server needs, as pure functions. A
//! check costs nanoseconds where switching a thread's identity costs as much as a whole call.
//!
//! The kernel's order (its generic permission check): the owner by the owner bits alone; else the
//! ACL if there is one; else the group bits for a member of the group; else the others' bits. What
//! that refuses, root may do all the same, but for executing a file that nobody may execute.

use crate::{AccessMask, Attr, Cred, FileType, OpenAccess, Right};

/// Entries of an ACL; the kernel's file systems hold far fewer in one attribute.
pub const ACL_ENTRIES_MAX: usize = 1024;

/// The version of the extended attribute's binary form.
const ACL_VERSION: u32 = 2;

/// What is asked for: the bits of `rwx`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Permission(u32);

impl Permission {
    /// Read.
    pub const READ: Self = Self(4);
    /// Write.
    pub const WRITE: Self = Self(2);
    /// Execute, or search a directory.
    pub const EXEC: Self = Self(1);

    /// Both.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    const fn within(self, bits: u32) -> bool {
        self.0 & !bits == 0
    }
}

/// Whom an ACL entry is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tag {
    UserObj,
    User(u32),
    GroupObj,
    Group(u32),
    Mask,
    Other,
}

/// A POSIX access ACL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Acl {
    entries: Vec<(Tag, u32)>,
}

impl Acl {
    /// Parses the value of `system.posix_acl_access`: a 32-bit version, then entries of 16-bit tag,
    /// 16-bit permissions and 32-bit id, all little endian. `None` if it is anything else.
    pub fn parse(value: &[u8]) -> Option<Self> {
        let (version, mut rest) = value.split_first_chunk::<4>()?;
        if u32::from_le_bytes(*version) != ACL_VERSION || rest.len() / 8 > ACL_ENTRIES_MAX {
            return None;
        }
        let mut entries = Vec::with_capacity(rest.len() / 8);
        while let Some(([a, b, c, d, id @ ..], tail)) = rest.split_first_chunk::<8>() {
            let id = u32::from_le_bytes(*id);
            let tag = match u16::from_le_bytes([*a, *b]) {
                0x01 => Tag::UserObj,
                0x02 => Tag::User(id),
                0x04 => Tag::GroupObj,
                0x08 => Tag::Group(id),
                0x10 => Tag::Mask,
                0x20 => Tag::Other,
                _ => return None,
            };
            entries.push((tag, u32::from(u16::from_le_bytes([*c, *d])) & 7));
            rest = tail;
        }
        rest.is_empty().then_some(Self { entries })
    }

    fn mask(&self) -> u32 {
        self.entries.iter().find(|(tag, _)| *tag == Tag::Mask).map_or(7, |(_, bits)| *bits)
    }

    /// Decides for somebody who is not the owner.
    fn permits(&self, attr: &Attr, cred: &Cred<'_>, want: Permission) -> bool {
        let mask = self.mask();
        let named =
            self.entries.iter().find(|(tag, _)| *tag == Tag::User(cred.uid)).map(|(_, b)| *b);
        if let Some(bits) = named {
            return want.within(bits & mask);
        }
        let mut member = false;
        for (tag, bits) in &self.entries {
            let in_it = match tag {
                Tag::GroupObj => cred.in_group(attr.gid),
                Tag::Group(gid) => cred.in_group(*gid),
                Tag::UserObj | Tag::User(_) | Tag::Mask | Tag::Other => false,
            };
            if in_it && want.within(bits & mask) {
                return true;
            }
            member |= in_it;
        }
        let other = self.entries.iter().find(|(tag, _)| *tag == Tag::Other).map_or(0, |(_, b)| *b);
        !member && want.within(other)
    }
}

/// Whether the kernel would let `cred` do `want`.
pub fn permits(attr: &Attr, acl: Option<&Acl>, cred: &Cred<'_>, want: Permission) -> bool {
    by_mode(attr, acl, cred, want) || cred.uid == 0 && root_may(attr, want)
}

fn by_mode(attr: &Attr, acl: Option<&Acl>, cred: &Cred<'_>, want: Permission) -> bool {
    if cred.uid == attr.uid {
        return want.within(attr.mode >> 6);
    }
    match acl {
        // the kernel looks at an ACL only where the group bits (its mask) leave something
        Some(acl) if attr.mode & 0o070 != 0 => acl.permits(attr, cred, want),
        _ if cred.in_group(attr.gid) => want.within(attr.mode >> 3),
        _ => want.within(attr.mode),
    }
}

/// What root may do whatever the bits say (`CAP_DAC_OVERRIDE`).
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
/// each call, so the owner may always go on (RFC 1813 §4.4), and what may be executed may be read.
pub fn data_access(attr: &Attr, acl: Option<&Acl>, cred: &Cred<'_>, write: bool) -> bool {
    let want = if write { Permission::WRITE } else { Permission::READ };
    cred.uid == attr.uid
        || permits(attr, acl, cred, want)
        || !write && permits(attr, acl, cred, Permission::EXEC)
}

/// The part of an ACCESS request that is granted (RFC 1813 §3.3.4): LOOKUP and DELETE mean
/// something for directories only, EXECUTE for everything else.
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
