//! Owners on the wire (RFC 8881 §5.9): users and groups are their numbers in decimal digits. There are no names yet.

use super::status::Failed;
use proto::nfs4::Nfsstat4;
use vfs::NO_ID;
use xdr::Writer;

/// An owner or group: its number in decimal digits (RFC 8881 §5.9).
pub(super) fn put_id(id: u32, w: &mut Writer) {
    /// The digits of the largest number.
    const DIGITS: usize = 10;
    // zeros behind the digits, so that a constant number of bytes can be copied, wherever they begin
    let mut text = [0; DIGITS + 12];
    let (mut begin, mut rest) = (DIGITS, id);
    loop {
        begin = begin.saturating_sub(1);
        if let Some(place) = text.get_mut(begin) {
            *place = b'0' + (rest % 10) as u8;
        }
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    let digits = text.get(begin..).and_then(|digits| digits.first_chunk::<12>());
    w.opaque_within(digits.unwrap_or(&[0; 12]), DIGITS.saturating_sub(begin));
}

/// A number in decimal digits.
pub(super) fn decimal(id: u32, digits: &mut [u8; 10]) -> &[u8] {
    let mut rest = id;
    let mut len = 0;
    for place in digits.iter_mut().rev() {
        *place = b'0' + (rest % 10) as u8;
        rest /= 10;
        len += 1;
        if rest == 0 {
            break;
        }
    }
    let begin = digits.len() - len;
    digits.get(begin..).unwrap_or_default()
}

/// A user or group.
///
/// # Errors
/// NFS4ERR_BADOWNER, NFS4ERR_INVAL if it is empty.
pub(super) fn id(text: &[u8]) -> Result<u32, Failed> {
    let is_number = !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    let number =
        std::str::from_utf8(text).ok().filter(|_| is_number).and_then(|text| text.parse().ok());
    match number {
        Some(id) if id != NO_ID => Ok(id),
        _ if text.is_empty() => Err(Nfsstat4::Inval.into()),
        _ => Err(Nfsstat4::BadOwner.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::{id, put_id};
    use xdr::Writer;

    #[test]
    fn ids_are_digits() {
        for number in [0, 7, 10, 65_534, u32::MAX - 1] {
            let mut w = Writer::new();
            put_id(number, &mut w);
            let mut expected = Writer::new();
            expected.opaque(number.to_string().as_bytes());
            assert_eq!(w.bytes(), expected.bytes());
            assert_eq!(id(number.to_string().as_bytes()), Ok(number));
        }
    }
}
