//! Disk quotas, as the kernel keeps them: quotactl_fd(2), Linux 5.14.

use crate::identity::{Capability, with};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Whose quota.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A user's.
    User,
    /// A group's.
    Group,
    /// A project's: of a tree of directories.
    Project,
}

/// A limit and what is used; a limit of 0 is none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// What is never exceeded.
    pub hard: u64,
    /// What may be exceeded for a while.
    pub soft: u64,
    /// What is used.
    pub used: u64,
    /// When the while ends, in seconds since 1970; 0 if the soft limit is not exceeded.
    pub grace_ends_s: u64,
}

/// The quota of somebody.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Quota {
    /// Bytes.
    pub bytes: Usage,
    /// Inodes.
    pub files: Usage,
}

/// `Q_GETQUOTA` (linux/quota.h).
pub(crate) const GET: u32 = 0x80_0007;
/// Bytes of a block, in which the limits are counted (`QIF_DQBLKSIZE`).
const BLOCK: u64 = 1024;

/// The kernel's `struct if_dqblk`.
#[repr(C)]
#[derive(Default)]
struct Raw {
    block_hard: u64,
    block_soft: u64,
    bytes: u64,
    file_hard: u64,
    file_soft: u64,
    files: u64,
    block_time: u64,
    file_time: u64,
    valid: u32,
}

/// The quota of `id` on the file system that an object is on; `None` if quotas of this kind are off there, or the kernel
/// or the file system has none. The object must be open for more than its path.
///
/// # Errors
/// `EPERM` for anybody's but the process's own without `CAP_SYS_ADMIN`.
pub fn get(fd: BorrowedFd<'_>, kind: Kind, id: u32) -> io::Result<Option<Quota>> {
    let number = match kind {
        Kind::User => 0,
        Kind::Group => 1,
        Kind::Project => 2,
    };
    let command = GET << 8 | number;
    let mut raw = Raw::default();
    let (fd, written) = (fd.as_raw_fd(), &raw mut raw);
    // SAFETY: `raw` has the layout of the kernel's structure, which this command writes, and outlives the call.
    let ask = || unsafe { libc::syscall(libc::SYS_quotactl_fd, fd, command, id, written) };
    let status = with(Capability::SysAdmin, ask);
    if status == 0 {
        return Ok(Some(convert(&raw)));
    }
    let error = io::Error::last_os_error();
    match error.raw_os_error() {
        Some(libc::ESRCH | libc::ENOSYS | libc::EINVAL | libc::EOPNOTSUPP | libc::ENOTTY) => {
            Ok(None)
        }
        _ => Err(error),
    }
}

const fn convert(raw: &Raw) -> Quota {
    Quota {
        bytes: Usage {
            hard: raw.block_hard.saturating_mul(BLOCK),
            soft: raw.block_soft.saturating_mul(BLOCK),
            used: raw.bytes,
            grace_ends_s: raw.block_time,
        },
        files: Usage {
            hard: raw.file_hard,
            soft: raw.file_soft,
            used: raw.files,
            grace_ends_s: raw.file_time,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::{Kind, Raw, Usage, convert, get};
    use std::os::fd::AsFd;

    #[test]
    fn limits_are_blocks_and_usage_is_bytes() {
        let raw = Raw { block_hard: 3, block_soft: 2, bytes: 1, file_hard: 5, ..Raw::default() };
        let quota = convert(&raw);
        assert_eq!(quota.bytes, Usage { hard: 3072, soft: 2048, used: 1, grace_ends_s: 0 });
        assert_eq!(quota.files, Usage { hard: 5, ..Usage::default() });
    }

    #[test]
    fn a_file_system_without_quotas_has_none() {
        let file = std::fs::File::open("/proc/self").unwrap();
        for kind in [Kind::User, Kind::Group, Kind::Project] {
            assert_eq!(get(file.as_fd(), kind, 0).unwrap(), None);
        }
    }
}
