//! Attributes between the neutral form and that of RFC 1813 §2.6.

use proto::nfs3::{
    Fattr3, FileType3, Nfstime3, Sattr3, SetTime3, Specdata3, WccAttr as WireWcc, WccData,
};
use vfs::{Attr, Change, FileType, NO_ID, SetAttr, SetTime, Status, Time, WccAttr};

/// The permission bits that SETATTR takes; what else is in `mode` is ignored.
const MODE_BITS: u32 = 0o7777;

/// A moment on the wire. Version 3 counts seconds from 1970 in 32 unsigned bits; what lies
/// outside is shown as the nearest moment that can be.
pub(super) fn time(time: Time) -> Nfstime3 {
    match u32::try_from(time.sec) {
        Ok(seconds) => Nfstime3 { seconds, nseconds: time.nsec },
        Err(_) => nearest(time),
    }
}

/// Of a moment that cannot be shown.
#[cold]
#[inline(never)]
fn nearest(time: Time) -> Nfstime3 {
    if time.sec < 0 {
        return Nfstime3::default();
    }
    Nfstime3 { seconds: u32::MAX, nseconds: 999_999_999 }
}

/// A moment off the wire.
///
/// # Errors
/// [`Status::Inval`] for a second or more of nanoseconds.
pub(super) fn time_from(time: Nfstime3) -> vfs::Result<Time> {
    if time.nseconds >= 1_000_000_000 {
        return Err(Status::Inval);
    }
    Ok(Time { sec: i64::from(time.seconds), nsec: time.nseconds })
}

const fn ftype(ftype: FileType) -> FileType3 {
    match ftype {
        FileType::Regular => FileType3::Reg,
        FileType::Directory => FileType3::Dir,
        FileType::Symlink => FileType3::Lnk,
        FileType::Block => FileType3::Blk,
        FileType::Char => FileType3::Chr,
        FileType::Fifo => FileType3::Fifo,
        FileType::Socket => FileType3::Sock,
    }
}

/// `fattr3`.
#[inline]
pub(crate) fn fattr3(attr: &Attr) -> Fattr3 {
    Fattr3 {
        ftype: ftype(attr.ftype),
        mode: u32::from(attr.mode),
        nlink: attr.nlink,
        uid: attr.uid,
        gid: attr.gid,
        size: attr.size,
        used: attr.used,
        rdev: Specdata3 { major: attr.rdev.0, minor: attr.rdev.1 },
        fsid: attr.fsid,
        fileid: attr.fileid,
        atime: time(attr.atime),
        mtime: time(attr.mtime),
        ctime: time(attr.ctime),
    }
}

fn wcc_attr(wcc: &WccAttr) -> WireWcc {
    WireWcc { size: wcc.size, mtime: time(wcc.mtime), ctime: time(wcc.ctime) }
}

/// `wcc_data` of a change.
pub(super) fn wcc(change: &Change) -> WccData {
    WccData {
        before: change.before.as_ref().map(wcc_attr),
        after: change.after.as_ref().map(fattr3),
    }
}

/// `wcc_data` of a failure: nothing is known of before.
pub(super) fn after(attr: Option<&Attr>) -> WccData {
    WccData { before: None, after: attr.map(fattr3) }
}

fn set_time(time: SetTime3) -> vfs::Result<SetTime> {
    Ok(match time {
        SetTime3::Keep => SetTime::Keep,
        SetTime3::Server => SetTime::Now,
        SetTime3::Client(time) => SetTime::To(time_from(time)?),
    })
}

/// What `sattr3` asks for.
///
/// # Errors
/// [`Status::Inval`] for an id or a time that cannot be, [`Status::FBig`] for a size.
pub(super) fn set(set: &Sattr3) -> vfs::Result<SetAttr> {
    if set.uid == Some(NO_ID) || set.gid == Some(NO_ID) {
        return Err(Status::Inval);
    }
    if set.size.is_some_and(|size| i64::try_from(size).is_err()) {
        return Err(Status::FBig);
    }
    Ok(SetAttr {
        mode: set.mode.map(|mode| mode & MODE_BITS),
        uid: set.uid,
        gid: set.gid,
        size: set.size,
        atime: set_time(set.atime)?,
        mtime: set_time(set.mtime)?,
    })
}

#[cfg(test)]
mod tests {
    use super::{Nfstime3, Sattr3, SetTime3, Status, Time, set, time};

    #[test]
    fn invalid_values_are_refused() {
        let ok = Sattr3 { mode: Some(0o170_644), ..Sattr3::default() };
        assert_eq!(set(&ok).unwrap().mode, Some(0o644));
        let late = SetTime3::Client(Nfstime3 { seconds: 0, nseconds: 1_000_000_000 });
        assert_eq!(set(&Sattr3 { mtime: late, ..ok }), Err(Status::Inval));
        assert_eq!(set(&Sattr3 { uid: Some(u32::MAX), ..ok }), Err(Status::Inval));
        assert_eq!(set(&Sattr3 { size: Some(1 << 63), ..ok }), Err(Status::FBig));
    }

    #[test]
    fn times_outside_the_range_are_clamped() {
        assert_eq!(time(Time { sec: -1, nsec: 5 }), Nfstime3 { seconds: 0, nseconds: 0 });
        assert_eq!(time(Time { sec: 1 << 32, nsec: 5 }).seconds, u32::MAX);
        assert_eq!(time(Time { sec: 7, nsec: 5 }), Nfstime3 { seconds: 7, nseconds: 5 });
    }
}
