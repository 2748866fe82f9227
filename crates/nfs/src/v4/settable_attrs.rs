//! What SETATTR, CREATE and OPEN set: `fattr4` to the neutral form.

use super::status::Failed;
use super::{attr, attr_sets};
use proto::nfs4::{Bitmap4, Fattr4, Nfsstat4, Nfstime4, attr as a};
use vfs::{NO_ID, SetAttr, SetTime, Time};
use xdr::Reader;

/// The longest owner that is looked at.
const OWNER_MAX: usize = 1024;

/// What is to be set. The values must be those of the bitmap and nothing else.
///
/// # Errors
/// NFS4ERR_ATTRNOTSUPP for an attribute that is not supported, NFS4ERR_INVAL for one that cannot be set or a value that
/// makes no sense, NFS4ERR_FBIG for a size, NFS4ERR_BADOWNER, NFS4ERR_BADXDR.
pub(super) fn parse(minor: u32, wire: &Fattr4<'_>) -> Result<SetAttr, Failed> {
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
    let mut set = SetAttr::default();
    for number in mask.iter() {
        match number {
            a::SIZE => set.size = Some(size(values.u64()?)?),
            a::MODE => set.mode = Some(mode(values.u32()?)?),
            a::OWNER => set.uid = Some(id(values.opaque(OWNER_MAX)?)?),
            a::OWNER_GROUP => set.gid = Some(id(values.opaque(OWNER_MAX)?)?),
            a::TIME_ACCESS_SET => set.atime = time(&mut values)?,
            a::TIME_MODIFY_SET => set.mtime = time(&mut values)?,
            _ => return Err(Nfsstat4::AttrNotSupp.into()),
        }
    }
    values.end()?;
    Ok(set)
}

/// The attributes that this sets.
pub(super) fn mask_of(set: &SetAttr) -> Bitmap4 {
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

/// A user or group: decimal digits. There are no names yet.
fn id(text: &[u8]) -> Result<u32, Failed> {
    let is_number = !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    let number =
        std::str::from_utf8(text).ok().filter(|_| is_number).and_then(|text| text.parse().ok());
    match number {
        Some(id) if id != NO_ID => Ok(id),
        _ if text.is_empty() => Err(Nfsstat4::Inval.into()),
        _ => Err(Nfsstat4::BadOwner.into()),
    }
}

/// `settime4`.
fn time(values: &mut Reader<'_>) -> Result<SetTime, Failed> {
    match values.u32()? {
        0 => Ok(SetTime::Now),
        1 => {
            let Nfstime4 { seconds, nseconds } = values.get()?;
            if nseconds >= 1_000_000_000 {
                return Err(Nfsstat4::Inval.into());
            }
            Ok(SetTime::To(Time { sec: seconds.cast_signed(), nsec: nseconds }))
        }
        _ => Err(Nfsstat4::BadXdr.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::{Bitmap4, Failed, Fattr4, Nfsstat4, SetTime, a, mask_of, parse};
    use xdr::Writer;

    fn parsed(numbers: &[u32], values: impl FnOnce(&mut Writer)) -> Result<vfs::SetAttr, Failed> {
        let mut w = Writer::new();
        values(&mut w);
        let mask = Bitmap4::of(numbers);
        let set = parse(1, &Fattr4 { mask, values: proto::layout::Bytes(w.bytes()) })?;
        assert_eq!(mask_of(&set), mask);
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
        let set = set.unwrap();
        assert_eq!(
            (set.size, set.mode, set.uid, set.mtime),
            (Some(9), Some(0o640), Some(1000), SetTime::Now)
        );
    }

    #[test]
    fn attributes_that_cannot_be_set_fail_as_the_rfc_requires() {
        let fails = |numbers: &[u32], values: fn(&mut Writer), status: Nfsstat4| {
            assert_eq!(parsed(numbers, values), Err(status.into()), "{numbers:?}");
        };
        fails(&[a::CHANGE], |w| w.u64(1), Nfsstat4::Inval);
        fails(&[a::ACL], |w| w.u32(0), Nfsstat4::AttrNotSupp);
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
