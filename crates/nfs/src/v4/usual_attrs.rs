//! The attributes that clients ask for all the time, appended in a few pieces instead of one by one: what a Linux client's
//! GETATTR asks for, and with a filehandle its READDIR; and the few by which it sees whether an object has changed.
//!
//! Invariant: the bytes are those that [`super::attr::put_facts`] appends one by one.

use super::attr::{Facts, file_type, put_fsid};
use super::owner::put_id;
use proto::nfs4::{Bitmap4, LINUX_CACHE_CONSISTENCY, LINUX_GETATTR, attr as a};
use vfs::{Attr, Time};
use xdr::{Writer, hyper};

static USUAL: Bitmap4 = LINUX_GETATTR;

/// By what changes are seen: Linux asks for it behind ACCESS and WRITE. Every object has these in every minor version.
pub(super) static CONSISTENCY: Bitmap4 = LINUX_CACHE_CONSISTENCY;

/// What may be asked for besides.
static OPTIONAL: Bitmap4 = Bitmap4::of(&[a::RDATTR_ERROR, a::FILEHANDLE, a::TIME_CREATE]);

/// Whether [`put`] has the values of these attributes.
#[inline]
pub(super) fn are_usual(given: &Bitmap4) -> bool {
    given.without(&OPTIONAL) == USUAL
}

/// Appends the values of [`USUAL`] attributes, and of those of [`OPTIONAL`] ones that are given, by rising numbers.
pub(super) fn put(facts: &Facts<'_>, given: &Bitmap4, w: &mut Writer) {
    let attr = facts.attr;
    let ([change, below_change], [size, below_size]) = (hyper(attr.change), hyper(attr.size));
    w.words([file_type(attr.ftype).number(), change, below_change, size, below_size]);
    put_fsid(facts.export, attr.fsid, facts.shared.is_pseudo, w);
    if given.has(a::RDATTR_ERROR) {
        w.u32(0);
    }
    if given.has(a::FILEHANDLE) {
        let handle = facts.export.seal(facts.fid);
        let (bytes, len) = handle.padded();
        w.opaque_within(bytes, len);
    }
    let [fileid, below_fileid] = hyper(attr.fileid);
    w.words([fileid, below_fileid, u32::from(attr.mode) & 0o7777, attr.nlink]);
    put_id(attr.uid, w);
    put_id(attr.gid, w);
    let ([used, below_used], (major, minor)) = (hyper(attr.used), attr.rdev);
    let ([atime, below_atime, atime_ns], [ctime, below_ctime, ctime_ns]) =
        (time(attr.atime), time(attr.ctime));
    let [mtime, below_mtime, mtime_ns] = time(attr.mtime);
    let [mounted_on, below_mounted_on] = hyper(facts.mounted_on);
    if given.has(a::TIME_CREATE) {
        let [birth, below_birth, birth_ns] = time(attr.birth.known().unwrap_or_default());
        w.words([major, minor, used, below_used, atime, below_atime, atime_ns]);
        w.words([birth, below_birth, birth_ns, ctime, below_ctime, ctime_ns]);
        w.words([mtime, below_mtime, mtime_ns, mounted_on, below_mounted_on]);
        return;
    }
    w.words([
        major,
        minor,
        used,
        below_used,
        atime,
        below_atime,
        atime_ns,
        ctime,
        below_ctime,
        ctime_ns,
        mtime,
        below_mtime,
        mtime_ns,
        mounted_on,
        below_mounted_on,
    ]);
}

/// Appends `fattr4` with [`CONSISTENCY`].
pub(super) fn put_consistency(attr: &Attr, w: &mut Writer) {
    let ([change, below_change], [size, below_size]) = (hyper(attr.change), hyper(attr.size));
    let ([ctime, below_ctime, ctime_ns], [mtime, below_mtime, mtime_ns]) =
        (time(attr.ctime), time(attr.mtime));
    w.put(&CONSISTENCY);
    // bytes of the values
    w.words([
        40,
        change,
        below_change,
        size,
        below_size,
        ctime,
        below_ctime,
        ctime_ns,
        mtime,
        below_mtime,
        mtime_ns,
    ]);
}

const fn time(time: Time) -> [u32; 3] {
    let [high, low] = hyper(time.sec.cast_unsigned());
    [high, low, time.nsec]
}
