//! Attributes: `statx` of descriptors and entries, and the file system's figures.

use rustix::fs::{AtFlags, Mode, OFlags, StatVfsMountFlags, Statx, StatxAttributes, StatxFlags};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

/// Attributes as the kernel gives them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stat {
    /// Type and permission bits (`st_mode`).
    pub mode: u32,
    /// Hard links.
    pub nlink: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Size in bytes.
    pub size: u64,
    /// Storage in units of 512 bytes.
    pub blocks: u64,
    /// Major and minor number of a device node.
    pub rdev: (u32, u32),
    /// The device that the object is on.
    pub dev: u64,
    /// Inode number.
    pub ino: u64,
    /// Seconds and nanoseconds of the last access.
    pub atime: (i64, u32),
    /// Of the last change of the data.
    pub mtime: (i64, u32),
    /// Of the last change of the attributes.
    pub ctime: (i64, u32),
    /// Of the creation, where it is known and was asked for.
    pub btime: Option<(i64, u32)>,
    /// Whether another file system or a bind mount begins here.
    pub mount_root: bool,
}

/// Attributes of an open object, however it was opened.
///
/// # Errors
/// The kernel's error.
pub fn of_fd(fd: BorrowedFd<'_>) -> io::Result<Stat> {
    statx(fd, c"", AtFlags::EMPTY_PATH)
}

/// The same by `fstat`, which knows neither the time of creation nor whether a mount begins here, and
/// costs a sixth less than `statx` for it.
///
/// # Errors
/// The kernel's error.
pub fn basic_of_fd(fd: BorrowedFd<'_>) -> io::Result<Stat> {
    let s = rustix::fs::fstat(fd)?;
    // what the fields are as wide as differs from one processor to the next
    let nanoseconds = |n| u32::try_from(n).unwrap_or(0);
    Ok(Stat {
        mode: s.st_mode,
        nlink: u32::try_from(s.st_nlink).unwrap_or(u32::MAX),
        uid: s.st_uid,
        gid: s.st_gid,
        size: u64::try_from(s.st_size).unwrap_or(0),
        blocks: u64::try_from(s.st_blocks).unwrap_or(0),
        rdev: (rustix::fs::major(s.st_rdev), rustix::fs::minor(s.st_rdev)),
        dev: number(rustix::fs::major(s.st_dev), rustix::fs::minor(s.st_dev)),
        ino: s.st_ino,
        atime: (s.st_atime, nanoseconds(s.st_atime_nsec)),
        mtime: (s.st_mtime, nanoseconds(s.st_mtime_nsec)),
        ctime: (s.st_ctime, nanoseconds(s.st_ctime_nsec)),
        btime: None,
        mount_root: false,
    })
}

/// A device's number, as [`Stat::dev`] has it.
fn number(major: u32, minor: u32) -> u64 {
    u64::from(major) << 32 | u64::from(minor)
}

/// Attributes of an entry of a directory; a symbolic link's own.
///
/// # Errors
/// The kernel's error.
#[inline(always)]
pub fn of_entry(dir: BorrowedFd<'_>, name: &std::ffi::CStr) -> io::Result<Stat> {
    statx(dir, name, AtFlags::SYMLINK_NOFOLLOW)
}

/// The same by a name that has no NUL at its end; one of at most 255 bytes needs no memory.
///
/// # Errors
/// The kernel's error.
pub fn of_name(dir: BorrowedFd<'_>, name: &[u8]) -> io::Result<Stat> {
    statx(dir, name, AtFlags::SYMLINK_NOFOLLOW)
}

/// In each caller, as [`convert`]: the result is as long as three cache lines, and few read all of it.
#[inline(always)]
fn statx(fd: BorrowedFd<'_>, name: impl rustix::path::Arg, flags: AtFlags) -> io::Result<Stat> {
    let flags = flags | AtFlags::NO_AUTOMOUNT;
    let mask = StatxFlags::BASIC_STATS | StatxFlags::BTIME;
    Ok(convert(&rustix::fs::statx(fd, name, flags, mask)?))
}

#[inline(always)]
fn convert(s: &Statx) -> Stat {
    let time = |t: rustix::fs::StatxTimestamp| (t.tv_sec, t.tv_nsec);
    let known = StatxFlags::from_bits_retain(s.stx_mask);
    Stat {
        mode: u32::from(s.stx_mode),
        nlink: s.stx_nlink,
        uid: s.stx_uid,
        gid: s.stx_gid,
        size: s.stx_size,
        blocks: s.stx_blocks,
        rdev: (s.stx_rdev_major, s.stx_rdev_minor),
        dev: number(s.stx_dev_major, s.stx_dev_minor),
        ino: s.stx_ino,
        atime: time(s.stx_atime),
        mtime: time(s.stx_mtime),
        ctime: time(s.stx_ctime),
        btime: known.contains(StatxFlags::BTIME).then(|| time(s.stx_btime)),
        mount_root: s.stx_attributes.contains(StatxAttributes::MOUNT_ROOT),
    }
}

/// Whether each change of an object gives it another ctime, as long as somebody asks for it in between: tried with a
/// file without a name in `dir`. So it is with multigrain times (Linux 6.13 on ext4, xfs and btrfs); else ctime
/// moves in ticks of 1 to 10 ms.
///
/// # Errors
/// The kernel's error: the directory is read-only, or its file system makes no files without a name.
pub fn ctime_is_fine(dir: BorrowedFd<'_>) -> io::Result<bool> {
    /// As many that not all are by chance at a tick's end.
    const CHANGES: u32 = 8;
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    let file = rustix::fs::openat(dir, ".", flags, Mode::RUSR)?;
    let mut last = basic_of_fd(file.as_fd())?.ctime;
    for change in 0..CHANGES {
        let mode = if change % 2 == 0 { Mode::RUSR | Mode::WUSR } else { Mode::RUSR };
        rustix::fs::fchmod(&file, mode)?;
        let ctime = basic_of_fd(file.as_fd())?.ctime;
        if ctime == last {
            return Ok(false);
        }
        last = ctime;
    }
    Ok(true)
}

/// Figures of a file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FsFigures {
    /// Bytes in all, free, and free for ordinary users.
    pub bytes: [u64; 3],
    /// Inodes in all, free, and free for ordinary users.
    pub files: [u64; 3],
    /// Longest name in bytes.
    pub name_max: u64,
    /// The file system's type, as `statfs` numbers it.
    pub kind: u64,
    /// Bytes of a block.
    pub block_bytes: u32,
    /// Whether the mount is read-only.
    pub read_only: bool,
    /// Whether nothing on the mount may be executed.
    pub no_exec: bool,
}

/// Figures of the file system that an object is on.
///
/// # Errors
/// The kernel's error.
pub fn figures(fd: BorrowedFd<'_>) -> io::Result<FsFigures> {
    let v = rustix::fs::fstatvfs(fd)?;
    let kind = rustix::fs::fstatfs(fd)?.f_type;
    let bytes = |blocks: u64| blocks.saturating_mul(v.f_frsize);
    Ok(FsFigures {
        bytes: [bytes(v.f_blocks), bytes(v.f_bfree), bytes(v.f_bavail)],
        files: [v.f_files, v.f_ffree, v.f_favail],
        name_max: v.f_namemax,
        kind: u64::try_from(kind).unwrap_or(0),
        block_bytes: u32::try_from(v.f_frsize).unwrap_or(4096),
        read_only: v.f_flag.contains(StatVfsMountFlags::RDONLY),
        no_exec: v.f_flag.contains(StatVfsMountFlags::NOEXEC),
    })
}

/// Whether ext3 or ext4 on a device has a journal, as the kernel's table of such file systems has it: statfs(2)
/// tells neither that nor ext2 from the others.
///
/// # Errors
/// The kernel's error: `ENOENT` without `/sys`, or if the device holds no such file system.
pub fn has_journal(dev: u64) -> io::Result<bool> {
    let (major, minor) = (dev >> 32, dev & u64::from(u32::MAX));
    let device = std::fs::read_link(format!("/sys/dev/block/{major}:{minor}"))?;
    let name = device.file_name().unwrap_or_default();
    let writer = Path::new("/sys/fs/ext4").join(name).join("journal_task");
    Ok(std::fs::read_to_string(writer)?.trim() != "<none>")
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    #[test]
    fn a_file_system_other_than_ext_has_no_known_journal() {
        let own = super::of_fd(std::fs::File::open("/proc/self").unwrap().as_fd()).unwrap();
        super::has_journal(own.dev).unwrap_err();
        super::has_journal(u64::MAX).unwrap_err();
    }

    /// Both ways of asking agree but for what the cheaper one does not know, devices' numbers included.
    #[test]
    fn basic_attributes_are_those_of_statx() {
        for path in ["/dev/null", "/dev/full", "/proc/self", "/", "/tmp", file!()] {
            let path = path.rsplit_once("crates/sys/").map_or(path, |(_, own)| own);
            let file = std::fs::File::open(path).unwrap();
            let whole = super::of_fd(file.as_fd()).unwrap();
            let known = super::Stat { btime: None, mount_root: false, ..whole };
            assert_eq!(super::basic_of_fd(file.as_fd()).unwrap(), known, "{path}");
        }
    }
}
