//! The attributes that clients ask for all the time, appended in a few pieces instead of one by one: what a Linux client's
//! GETATTR asks for, and with a filehandle its READDIR; and the few by which it sees whether an object has changed.
//!
//! Invariant: the bytes are those that [`super::attr::put_facts`] appends one by one.

use super::attr::{Facts, file_type, put_fsid};
use super::owner::put_id;
use export::Export;
use proto::nfs4::{Bitmap4, LINUX_CACHE_CONSISTENCY, LINUX_GETATTR, attr as a};
use vfs::{Attr, Fid, Time};
use xdr::{Writer, hyper};

const USUAL: Bitmap4 = LINUX_GETATTR;

/// By what changes are seen: Linux asks for it behind ACCESS and WRITE. Every object has these in every minor version.
pub(super) static CONSISTENCY: Bitmap4 = LINUX_CACHE_CONSISTENCY;

/// What may be asked for besides.
static OPTIONAL: Bitmap4 = Bitmap4::of(&[a::RDATTR_ERROR, a::FILEHANDLE, a::TIME_CREATE]);

/// Whether [`put`] has the values of these attributes.
#[inline]
pub(super) fn are_usual(given: &Bitmap4) -> bool {
    given.without(&OPTIONAL) == USUAL
}

/// Whether exactly these are asked for, which every object has in every minor version: then [`put_asked`] has all that is
/// needed.
#[inline]
pub(super) fn are_asked(asked: &Bitmap4) -> bool {
    *asked == USUAL
}

/// What of [`OPTIONAL`] is given.
struct Optional<'a> {
    rdattr_error: bool,
    handle: Option<&'a Fid>,
    birth: bool,
}

/// Where an object is.
struct InExport<'a> {
    export: &'a Export,
    is_pseudo: bool,
    mounted_on: u64,
}

/// Appends `fattr4` with the attributes of [`are_asked`] of an object whose owners are numbers.
pub(super) fn put_asked(
    attr: &Attr,
    (export, is_pseudo): (&Export, bool),
    mounted_on: u64,
    w: &mut Writer,
) {
    const MASK: [u32; 3] = USUAL.words();
    const { assert!(MASK[1] != 0 && MASK[2] == 0) };
    let [first, second, _] = MASK;
    w.words([2, first, second, 0]);
    let values = w.mark();
    let optional = Optional { rdattr_error: false, handle: None, birth: false };
    put_values(attr, &InExport { export, is_pseudo, mounted_on }, &optional, w);
    let bytes = u32::try_from(w.written_since(values)).unwrap_or(u32::MAX);
    w.patch_before(values, bytes);
}

/// Appends the values of [`USUAL`] attributes, and of those of [`OPTIONAL`] ones that are given, by rising numbers.
pub(super) fn put(facts: &Facts<'_>, given: &Bitmap4, w: &mut Writer) {
    let optional = Optional {
        rdattr_error: given.has(a::RDATTR_ERROR),
        handle: given.has(a::FILEHANDLE).then_some(facts.fid),
        birth: given.has(a::TIME_CREATE),
    };
    let (export, is_pseudo) = (facts.export, facts.shared.is_pseudo);
    let place = InExport { export, is_pseudo, mounted_on: facts.mounted_on };
    put_values(facts.attr, &place, &optional, w);
}

#[inline(always)]
fn put_values(attr: &Attr, place: &InExport<'_>, optional: &Optional<'_>, w: &mut Writer) {
    let ([change, below_change], [size, below_size]) = (hyper(attr.change), hyper(attr.size));
    w.words([file_type(attr.ftype).number(), change, below_change, size, below_size]);
    put_fsid(place.export, attr.fsid, place.is_pseudo, w);
    if optional.rdattr_error {
        w.u32(0);
    }
    if let Some(fid) = optional.handle {
        let handle = place.export.seal(fid);
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
    let [mounted_on, below_mounted_on] = hyper(place.mounted_on);
    if optional.birth {
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
