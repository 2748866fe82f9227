//! Decodes `fattr4` for SETATTR, CREATE and OPEN.

use super::frame::Frame;
use super::owner::Owners;
use super::status::Failed;
use super::{acl, attr, attr_sets};
use crate::object::Object;
use crate::verbs;
use export::OwnerKind;
use proto::nfs4::{Bitmap4, Fattr4, Nfsstat4, Nfstime4, attr as a};
use vfs::acl4::Ace;
use vfs::{SetAttr, SetTime, Time};
use xdr::Reader;

/// The longest owner that is looked at.
const OWNER_MAX: usize = 1024;

/// The times that the holder of a delegation has kept (RFC 9754 §5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct HeldTimes {
    pub accessed: Option<Time>,
    pub modified: Option<Time>,
}

impl HeldTimes {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// What is to be set.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Settable {
    /// What every file system sets.
    pub set: SetAttr,
    /// The bits that new objects do not get, unless their directory has a default ACL (RFC 8275): `set` has the mode.
    umask: Option<u32>,
    /// The ACL.
    pub acl: Option<Vec<Ace>>,
    /// What the holder of a delegation may set.
    held: HeldTimes,
}

impl Settable {
    /// The attributes that this sets.
    pub fn mask(&self) -> Bitmap4 {
        let mut mask = mask_of(&self.set);
        if self.acl.is_some() {
            mask = mask.or(&Bitmap4::of(&[a::ACL]));
        }
        for (time, number) in
            [(self.held.accessed, a::TIME_DELEG_ACCESS), (self.held.modified, a::TIME_DELEG_MODIFY)]
        {
            if time.is_some() {
                mask = mask.or(&Bitmap4::of(&[number]));
            }
        }
        if self.umask.is_some() {
            mask = mask.without(&Bitmap4::of(&[a::MODE])).or(&Bitmap4::of(&[a::MODE_UMASK]));
        }
        mask
    }

    /// The entries of the ACL, and the owner that the object gets, if any.
    pub fn acl(&self) -> (Option<&[Ace]>, Option<u32>) {
        (self.acl.as_deref(), self.set.uid)
    }

    /// The times of a delegation's holder, if any are to be set.
    pub fn held(&self) -> Option<&HeldTimes> {
        (!self.held.is_empty()).then_some(&self.held)
    }

    /// What is set on an object that exists.
    ///
    /// # Errors
    /// NFS4ERR_INVAL: `mode_umask` is for new objects (RFC 8275 §4).
    pub fn of_existing(self) -> Result<Self, Failed> {
        if self.umask.is_some() { Err(Nfsstat4::Inval.into()) } else { Ok(self) }
    }

    /// What is set on an object that is made in a directory: the umask counts only where nothing is inherited.
    ///
    /// # Errors
    /// NFS4ERR_INVAL for times of a delegation; those of asking for the directory's ACL.
    pub fn of_new(mut self, dir: &Object<'_>) -> Result<Self, Failed> {
        if !self.held.is_empty() {
            return Err(Nfsstat4::Inval.into());
        }
        if let (Some(umask), Some(mode)) = (self.umask, self.set.mode) {
            let inherits = umask & mode != 0 && verbs::acls(dir, false, true)?.default.is_some();
            self.set.mode = Some(if inherits { mode } else { mode & !umask });
        }
        Ok(self)
    }
}

/// What is to be set. The values must be those of the bitmap and nothing else.
///
/// # Errors
/// NFS4ERR_ATTRNOTSUPP for an attribute that is not supported, NFS4ERR_INVAL for one that cannot be set or a value that
/// makes no sense, NFS4ERR_FBIG for a size, NFS4ERR_BADOWNER, NFS4ERR_BADXDR.
pub(super) fn parse(frame: &Frame<'_>, wire: &Fattr4<'_>) -> Result<Settable, Failed> {
    parse_with(frame.minor, Owners::of(frame.caller), wire)
}

fn parse_with(minor: u32, owners: Owners<'_>, wire: &Fattr4<'_>) -> Result<Settable, Failed> {
    let mask = wire.mask;
    let is_unknown = |number| attr::is_known(number) && !attr_sets::is_defined(number, minor);
    if mask.iter().any(is_unknown) {
        // of a later minor version (RFC 8178 §8.2)
        return Err(Nfsstat4::Inval.into());
    }
    if !attr_sets::of_minor(minor).covers(&mask) {
        return Err(Nfsstat4::AttrNotSupp.into());
    }
    if mask.iter().any(|number| !attr::is_settable(number)) {
        return Err(Nfsstat4::Inval.into());
    }
    let mut values = Reader::new(wire.values.0);
    if mask.has(a::MODE) && mask.has(a::MODE_UMASK) {
        return Err(Nfsstat4::Inval.into());
    }
    let mut set = SetAttr::default();
    let (mut umask, mut acl, mut held) = (None, None, HeldTimes::default());
    for number in mask.iter() {
        match number {
            a::SIZE => set.size = Some(size(values.u64()?)?),
            a::MODE => set.mode = Some(mode(values.u32()?)?),
            a::OWNER => {
                set.uid = Some(owners.find(OwnerKind::User, values.opaque(OWNER_MAX)?)?);
            }
            a::OWNER_GROUP => {
                set.gid = Some(owners.find(OwnerKind::Group, values.opaque(OWNER_MAX)?)?);
            }
            a::ACL => acl = Some(acl::parse(&values.get()?, owners)?),
            a::MODE_UMASK => {
                set.mode = Some(mode(values.u32()?)?);
                umask = Some(permissions(values.u32()?)?);
            }
            a::TIME_ACCESS_SET => set.atime = time(&mut values)?,
            a::TIME_MODIFY_SET => set.mtime = time(&mut values)?,
            a::TIME_DELEG_ACCESS => held.accessed = Some(point(&mut values)?),
            a::TIME_DELEG_MODIFY => held.modified = Some(point(&mut values)?),
            // no file system sets it: it is not among the attributes that the answer says are set
            a::TIME_CREATE => {
                let _not_set = point(&mut values)?;
            }
            _ => return Err(Nfsstat4::AttrNotSupp.into()),
        }
    }
    values.end()?;
    // one's own and the server's
    let sets_times = set.atime != SetTime::Keep || set.mtime != SetTime::Keep;
    if sets_times && !held.is_empty() {
        return Err(Nfsstat4::Inval.into());
    }
    Ok(Settable { set, umask, acl, held })
}

/// The attributes that this sets.
fn mask_of(set: &SetAttr) -> Bitmap4 {
    let parts = [
        (set.size.is_some(), a::SIZE),
        (set.mode.is_some(), a::MODE),
        (set.uid.is_some(), a::OWNER),
        (set.gid.is_some(), a::OWNER_GROUP),
        (set.atime != SetTime::Keep, a::TIME_ACCESS_SET),
        (set.mtime != SetTime::Keep, a::TIME_MODIFY_SET),
    ];
    let parts = parts.into_iter().filter(|(is_set, _)| *is_set);
    parts.fold(Bitmap4::NONE, |mask, (_, number)| mask.or(&Bitmap4::of(&[number])))
}

fn size(size: u64) -> Result<u64, Failed> {
    if i64::try_from(size).is_ok() { Ok(size) } else { Err(Nfsstat4::FBig.into()) }
}

fn mode(mode: u32) -> Result<u32, Failed> {
    if mode <= 0o7777 { Ok(mode) } else { Err(Nfsstat4::Inval.into()) }
}

/// `mu_umask`: the bits for reading, writing and executing only.
fn permissions(umask: u32) -> Result<u32, Failed> {
    if umask <= 0o777 { Ok(umask) } else { Err(Nfsstat4::Inval.into()) }
}

/// `settime4`.
fn time(values: &mut Reader<'_>) -> Result<SetTime, Failed> {
    match values.u32()? {
        0 => Ok(SetTime::Now),
        1 => Ok(SetTime::To(point(values)?)),
        _ => Err(Nfsstat4::BadXdr.into()),
    }
}

/// `nfstime4`.
fn point(values: &mut Reader<'_>) -> Result<Time, Failed> {
    let Nfstime4 { seconds, nseconds } = values.get()?;
    if nseconds >= 1_000_000_000 {
        return Err(Nfsstat4::Inval.into());
    }
    Ok(Time { sec: seconds.cast_signed(), nsec: nseconds })
}

#[cfg(test)]
mod tests {
    use super::{Bitmap4, Failed, Fattr4, Nfsstat4, Owners, SetTime, Settable, a, parse_with};
    use xdr::Writer;

    fn parsed(numbers: &[u32], values: impl FnOnce(&mut Writer)) -> Result<Settable, Failed> {
        let mut w = Writer::new();
        values(&mut w);
        let mask = Bitmap4::of(numbers);
        let set = parse_with(
            1,
            Owners::NUMBERS,
            &Fattr4 { mask, values: proto::layout::Bytes(w.bytes()) },
        )?;
        assert_eq!(set.mask(), mask);
        Ok(set)
    }

    #[test]
    fn attribute_values_are_decoded_in_order_of_their_numbers() {
        let set = parsed(&[a::TIME_MODIFY_SET, a::SIZE, a::MODE, a::OWNER], |w| {
            w.u64(9);
            w.u32(0o640);
            w.opaque(b"1000");
            w.u32(0);
        });
        let set = set.unwrap().set;
        assert_eq!(
            (set.size, set.mode, set.uid, set.mtime),
            (Some(9), Some(0o640), Some(1000), SetTime::Now)
        );
    }

    #[test]
    fn the_time_of_creation_is_taken_and_not_set() {
        let mut w = Writer::new();
        w.words([0, 5, 6]);
        let mask = Bitmap4::of(&[a::TIME_CREATE]);
        let set = parse_with(
            1,
            Owners::NUMBERS,
            &Fattr4 { mask, values: proto::layout::Bytes(w.bytes()) },
        )
        .unwrap();
        assert_eq!(set, Settable::default());
    }

    #[test]
    fn attributes_that_cannot_be_set_fail_as_the_rfc_requires() {
        let fails = |numbers: &[u32], values: fn(&mut Writer), status: Nfsstat4| {
            assert_eq!(parsed(numbers, values), Err(status.into()), "{numbers:?}");
        };
        fails(&[a::CHANGE], |w| w.u64(1), Nfsstat4::Inval);
        fails(&[a::ACL], |w| w.words([1, 2, 0, 0, 0]), Nfsstat4::AttrNotSupp);
        fails(&[a::ACL], |w| w.words([1, 0, 0, 0, 0]), Nfsstat4::Inval);
        fails(&[a::ACL], |w| w.words([2, 0, 0, 0, 0]), Nfsstat4::BadXdr);
        fails(&[a::ARCHIVE], |w| w.u32(0), Nfsstat4::AttrNotSupp);
        fails(&[a::MODE_UMASK], |w| w.words([0o777, 0o22]), Nfsstat4::Inval);
        fails(&[a::SIZE], |w| w.u64(u64::MAX), Nfsstat4::FBig);
        fails(&[a::SIZE], |w| w.u32(1), Nfsstat4::BadXdr);
        fails(&[a::MODE], |w| w.words([1, 2]), Nfsstat4::BadXdr);
        fails(&[a::MODE], |w| w.u32(0o17777), Nfsstat4::Inval);
        fails(&[a::OWNER], |w| w.opaque(b"root@example.org"), Nfsstat4::BadOwner);
        fails(&[a::OWNER], |w| w.opaque(b"4294967295"), Nfsstat4::BadOwner);
        fails(&[a::TIME_ACCESS_SET], |w| w.words([1, 0, 5, 1_000_000_000]), Nfsstat4::Inval);
        fails(&[a::TIME_ACCESS_SET], |w| w.u32(2), Nfsstat4::BadXdr);
    }
}
