//! Which attributes there are: by the minor version, and by what the file system can do.

use super::acl::has_acls;
use super::attr::{BIRTH, SUPPORTED};
use super::frame::Frame;
use super::quota_attrs::QUOTAS;
use super::status::Failed;
use crate::object::Object;
use crate::verbs;
use proto::nfs4::{ATTRS, Bitmap4, attr as a};
use vfs::Want;

/// The attributes that this server has in each minor version.
static BY_MINOR: [Bitmap4; 3] = [until(0), until(1), until(2)];

/// The attributes that not every file system has.
static BY_FILE_SYSTEM: Bitmap4 = Bitmap4::of(&[a::CLONE_BLKSIZE, a::ACL]);

/// Those of [`SUPPORTED`] that this minor version or an earlier one defines.
const fn until(minor: u32) -> Bitmap4 {
    let mut defined = Bitmap4::NONE;
    let mut rows = ATTRS.as_slice();
    while let [row, rest @ ..] = rows {
        if row.since <= minor {
            defined = defined.or(&Bitmap4::of(&[row.number]));
        }
        rows = rest;
    }
    defined.and(&SUPPORTED)
}

/// The attributes of a minor version, of some file system or other.
pub(super) fn of_minor(minor: u32) -> Bitmap4 {
    let at = usize::try_from(minor).ok();
    at.and_then(|minor| BY_MINOR.get(minor)).copied().unwrap_or(SUPPORTED)
}

/// Those that an object has, of the attributes that are asked for.
pub(super) fn given(frame: &Frame<'_>, object: &Object<'_>, asked: &Bitmap4) -> Bitmap4 {
    let given = of_minor(frame.minor).and(asked);
    if !given.intersects(&BY_FILE_SYSTEM) {
        return given;
    }
    let mut lacks = Bitmap4::NONE;
    if object.backend().limits().clone_block.is_none() {
        lacks = lacks.or(&Bitmap4::of(&[a::CLONE_BLKSIZE]));
    }
    if !has_acls(object) {
        lacks = lacks.or(&Bitmap4::of(&[a::ACL]));
    }
    given.without(&lacks)
}

/// Those that an object has.
///
/// # Errors
/// Those of asking for the object's attributes.
pub(super) fn supported(frame: &Frame<'_>, object: &Object<'_>) -> Result<Bitmap4, Failed> {
    let mut supported = given(frame, object, &SUPPORTED);
    if verbs::getattr_with(object, Want::BIRTH)?.birth.known().is_none() {
        supported = supported.without(&BIRTH);
    }
    if object.backend().quotas().is_none() {
        supported = supported.without(&QUOTAS);
    }
    Ok(supported)
}

/// Whether a minor version defines an attribute.
pub(super) fn is_defined(number: u32, minor: u32) -> bool {
    let row = usize::try_from(number).ok().and_then(|number| ATTRS.get(number));
    row.is_some_and(|row| row.since <= minor)
}

#[cfg(test)]
mod tests {
    use super::{a, is_defined, of_minor};

    #[test]
    fn attributes_appear_in_the_minor_version_that_defines_them() {
        for minor in 0..3 {
            assert!(of_minor(minor).iter().all(|number| is_defined(number, minor)));
        }
        let has = |number| [0, 1, 2].map(|minor| of_minor(minor).has(number));
        assert_eq!(has(a::SIZE), [true; 3]);
        assert_eq!(has(a::SUPPATTR_EXCLCREAT), [false, true, true]);
        assert_eq!(has(a::CHANGE_ATTR_TYPE), [false, false, true]);
        assert!(!is_defined(95, 2));
    }
}
