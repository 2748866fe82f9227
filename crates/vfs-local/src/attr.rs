//! Converts the kernel's attributes to the backend trait's types.

use sys::stat::Stat;
use vfs::{Attr, FileType, Time, permission_bits};

/// The type bits of `st_mode`.
const TYPE_MASK: u32 = 0o170_000;

/// The type of an object; an unknown one counts as a socket, which supports no operation.
pub fn file_type(mode: u32) -> FileType {
    match mode & TYPE_MASK {
        0o100_000 => FileType::Regular,
        0o040_000 => FileType::Directory,
        0o120_000 => FileType::Symlink,
        0o060_000 => FileType::Block,
        0o020_000 => FileType::Char,
        0o010_000 => FileType::Fifo,
        _ => FileType::Socket,
    }
}

/// Attributes with this change attribute.
#[inline(always)]
pub fn convert(s: &Stat, change: u64) -> Attr {
    let time = |(sec, nsec): (i64, u32)| Time { sec, nsec };
    Attr {
        ftype: file_type(s.mode),
        mode: permission_bits(s.mode),
        nlink: s.nlink,
        uid: s.uid,
        gid: s.gid,
        size: s.size,
        used: s.blocks.saturating_mul(512),
        rdev: s.rdev,
        fsid: s.dev,
        fileid: s.ino,
        atime: time(s.atime),
        mtime: time(s.mtime),
        ctime: time(s.ctime),
        change,
        birth: s.btime.map(time).into(),
    }
}
