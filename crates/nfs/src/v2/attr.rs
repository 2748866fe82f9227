//! Attributes between the neutral form and that of RFC 1094 §2.3.5 and §2.3.6.

use proto::nfs2::{Fattr2, FileType2, KEEP, SERVER_TIME, Sattr2, Timeval};
use vfs::{Attr, FileType, NodeKind, SetAttr, SetTime, Status, Time};

/// The block size that attributes name; the count beside it is in units of 512 bytes, as every
/// client reads it (`st_blocks`).
const BLOCK: u32 = 4096;
const MODE_BITS: u32 = 0o7777;
const TYPE_BITS: u32 = 0o170_000;
const FIFO: u32 = 0o010_000;
const CHAR: u32 = 0o020_000;
const DIR: u32 = 0o040_000;
const BLOCK_DEVICE: u32 = 0o060_000;
const REGULAR: u32 = 0o100_000;
const LINK: u32 = 0o120_000;
const SOCKET: u32 = 0o140_000;

/// A number clamped to 32 bits.
pub(super) fn clamp(value: u64) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}

/// An identifier folded to 32 bits: unchanged if it fits.
pub(super) fn fold(value: u64) -> u32 {
    u32::try_from((value ^ (value >> 32)) & 0xffff_ffff).unwrap_or_default()
}

/// Type and type bits. Version 2 has no type for named pipes: all servers show them as character
/// devices with the mode of a pipe.
const fn ftype(ftype: FileType) -> (FileType2, u32) {
    match ftype {
        FileType::Regular => (FileType2::Reg, REGULAR),
        FileType::Directory => (FileType2::Dir, DIR),
        FileType::Symlink => (FileType2::Lnk, LINK),
        FileType::Block => (FileType2::Blk, BLOCK_DEVICE),
        FileType::Char => (FileType2::Chr, CHAR),
        FileType::Fifo => (FileType2::Chr, FIFO),
        FileType::Socket => (FileType2::Non, SOCKET),
    }
}

/// A device number in 32 bits: major and minor of eight bits each where they are small, and the
/// rest of the minor above, as Linux does it.
const fn device((major, minor): (u32, u32)) -> u32 {
    (minor & 0xff) | (major << 8) | ((minor & !0xff) << 12)
}

const fn device_from(number: u32) -> (u32, u32) {
    ((number >> 8) & 0xfff, (number & 0xff) | ((number >> 12) & 0xf_ff00))
}

fn rdev(attr: &Attr) -> u32 {
    match attr.ftype {
        FileType::Block | FileType::Char => device(attr.rdev),
        FileType::Fifo => KEEP,
        FileType::Regular | FileType::Directory | FileType::Symlink | FileType::Socket => 0,
    }
}

fn time(time: Time) -> Timeval {
    if time.sec < 0 {
        return Timeval::default();
    }
    Timeval { seconds: clamp(time.sec.unsigned_abs()), useconds: time.nsec / 1000 }
}

/// `fattr`. A file of 4 GiB or more shows the largest size there is.
pub(crate) fn fattr2(attr: &Attr) -> Fattr2 {
    let (ftype, bits) = ftype(attr.ftype);
    Fattr2 {
        ftype,
        mode: bits | u32::from(attr.mode),
        nlink: attr.nlink,
        uid: attr.uid,
        gid: attr.gid,
        size: clamp(attr.size),
        blocksize: BLOCK,
        rdev: rdev(attr),
        blocks: clamp(attr.used.div_ceil(512)),
        fsid: fold(attr.fsid),
        fileid: fold(attr.fileid),
        atime: time(attr.atime),
        mtime: time(attr.mtime),
        ctime: time(attr.ctime),
    }
}

fn field(value: u32) -> Option<u32> {
    if value == KEEP { None } else { Some(value) }
}

fn set_time(time: Timeval) -> vfs::Result<SetTime> {
    match (time.seconds, time.useconds) {
        (KEEP, _) | (_, KEEP) => Ok(SetTime::Keep),
        (_, SERVER_TIME) => Ok(SetTime::Now),
        (seconds, useconds) if useconds < SERVER_TIME => {
            Ok(SetTime::To(Time { sec: i64::from(seconds), nsec: useconds.saturating_mul(1000) }))
        }
        _ => Err(Status::Inval),
    }
}

/// The attributes that `sattr` sets. [`SERVER_TIME`] in `mtime` holds for both times, as far as they are set.
///
/// # Errors
/// [`Status::Inval`] for a time that cannot be.
pub(super) fn set(set: &Sattr2) -> vfs::Result<SetAttr> {
    let mtime = set_time(set.mtime)?;
    let keeps_atime = set.atime.seconds == KEEP || set.atime.useconds == KEEP;
    let both = mtime == SetTime::Now && !keeps_atime;
    Ok(SetAttr {
        // Old clients send "keep" in 16 bits, the size of a mode on their machines.
        mode: field(set.mode).filter(|mode| *mode != 0xffff).map(|mode| mode & MODE_BITS),
        uid: field(set.uid),
        gid: field(set.gid),
        size: field(set.size).map(u64::from),
        atime: if both { SetTime::Now } else { set_time(set.atime)? },
        mtime,
    })
}

/// The special file that CREATE makes; `None`: a regular file. Version 2 has no MKNOD: clients send the type bits in the mode and the
/// device number in the size; a character device without number is a named pipe.
///
/// # Errors
/// [`Status::Inval`] for a type that CREATE cannot make.
pub(super) fn special(set: &Sattr2) -> vfs::Result<Option<NodeKind>> {
    if set.mode == KEEP {
        return Ok(None);
    }
    let (major, minor) = device_from(set.size);
    match set.mode & TYPE_BITS {
        0 | REGULAR => Ok(None),
        FIFO => Ok(Some(NodeKind::Fifo)),
        CHAR if set.size == KEEP => Ok(Some(NodeKind::Fifo)),
        CHAR => Ok(Some(NodeKind::Char(major, minor))),
        BLOCK_DEVICE => Ok(Some(NodeKind::Block(major, minor))),
        SOCKET => Ok(Some(NodeKind::Socket)),
        _ => Err(Status::Inval),
    }
}

#[cfg(test)]
mod tests {
    use super::{
        NodeKind, SERVER_TIME, Sattr2, SetAttr, SetTime, Status, Time, Timeval, clamp, device,
        device_from, fold, set, special,
    };

    #[test]
    fn minus_one_leaves_an_attribute_unchanged() {
        assert_eq!(set(&Sattr2::default()), Ok(SetAttr::default()));
        let old = Sattr2 { mode: 0xffff, ..Sattr2::default() };
        assert_eq!(set(&old), Ok(SetAttr::default()));
    }

    #[test]
    fn a_million_microseconds_means_server_time() {
        let mtime = Timeval { seconds: 5, useconds: SERVER_TIME };
        let atime = Timeval { seconds: 5, useconds: 6 };
        let now = set(&Sattr2 { atime, mtime, ..Sattr2::default() }).unwrap();
        assert_eq!((now.atime, now.mtime), (SetTime::Now, SetTime::Now));
        // as the Linux client sends it with a change of size
        let one = set(&Sattr2 { mtime, ..Sattr2::default() }).unwrap();
        assert_eq!((one.atime, one.mtime), (SetTime::Keep, SetTime::Now));
        let to = set(&Sattr2 { mtime: atime, ..Sattr2::default() }).unwrap();
        assert_eq!(to.mtime, SetTime::To(Time { sec: 5, nsec: 6000 }));
        let bad = Timeval { seconds: 5, useconds: SERVER_TIME + 1 };
        assert_eq!(set(&Sattr2 { atime: bad, ..Sattr2::default() }), Err(Status::Inval));
    }

    #[test]
    fn device_numbers_round_trip() {
        for numbers in [(0, 0), (8, 1), (0xfff, 0xf_ffff), (259, 300)] {
            assert_eq!(device_from(device(numbers)), numbers);
        }
        assert_eq!(device((8, 1)), 0x0801);
    }

    #[test]
    fn create_makes_special_files_by_mode() {
        let with = |mode, size| special(&Sattr2 { mode, size, ..Sattr2::default() });
        assert_eq!(with(0o644, u32::MAX), Ok(None));
        assert_eq!(with(0o100_644, 0), Ok(None));
        assert_eq!(with(0o020_644, 0x0103), Ok(Some(NodeKind::Char(1, 3))));
        assert_eq!(with(0o020_644, u32::MAX), Ok(Some(NodeKind::Fifo)));
        assert_eq!(with(0o040_755, 0), Err(Status::Inval));
    }

    #[test]
    fn numbers_beyond_32_bits_are_clamped_or_folded() {
        assert_eq!(clamp(1 << 32), u32::MAX);
        assert_eq!(fold(77), 77);
        assert_eq!(fold((1 << 32) | 4), 5);
    }
}
