//! Owners on the wire (RFC 8881 §5.9): users and groups are their numbers in decimal digits, or `name@domain` where a
//! domain is set (`idmap-domain`) and this machine knows a name. Digits are taken in any case.

use super::status::Failed;
use crate::object::Caller;
use export::{OwnerKind, OwnerLookup, OwnerNames};
use proto::nfs4::Nfsstat4;
use rpc::Blocking;
use vfs::{Attr, NO_ID};
use xdr::Writer;

/// Bytes of the longest number with its padding.
pub(super) const ID_MAX: usize = 12;

/// How owners are written and read in a call: by their names as well, if there are any.
#[derive(Clone, Copy)]
pub(super) struct Owners<'c>(Option<(&'c OwnerNames, &'c dyn Blocking)>);

impl<'c> Owners<'c> {
    /// By their numbers only.
    #[cfg(test)]
    pub const NUMBERS: Self = Self(None);

    /// Those of a call.
    #[inline]
    pub fn of(caller: &Caller<'c>) -> Self {
        Self(caller.owner_names().map(|names| (names, caller.blocking())))
    }

    /// Whether they are written as numbers.
    #[inline]
    pub const fn are_numbers(self) -> bool {
        self.0.is_none()
    }

    /// Asks for the names of an object's owners, which are written next.
    #[inline]
    pub fn prepare(self, attr: &Attr) {
        if !self.are_numbers() {
            self.ask(OwnerKind::User, attr.uid);
            self.ask(OwnerKind::Group, attr.gid);
        }
    }

    #[cold]
    fn ask(self, kind: OwnerKind, id: u32) {
        if let Some((names, blocking)) = self.0 {
            names.prepare(kind, id, || blocking.will_block());
        }
    }

    /// Appends an owner, whose name was asked for.
    pub fn put(self, kind: OwnerKind, id: u32, w: &mut Writer) {
        match self.0 {
            None => put_id(id, w),
            Some((names, _)) => names.with_name(kind, id, |name| match name {
                Some(name) => w.opaque(name),
                None => put_id(id, w),
            }),
        }
    }

    /// Passes the text of an owner on; asks for its name.
    pub fn with_text(self, kind: OwnerKind, id: u32, work: impl FnOnce(&[u8])) {
        let mut digits = [0; 10];
        let number = decimal(id, &mut digits);
        match self.0 {
            None => work(number),
            Some((names, _)) => {
                self.ask(kind, id);
                names.with_name(kind, id, |name| work(name.unwrap_or(number)));
            }
        }
    }

    /// The user or group of a text.
    ///
    /// # Errors
    /// NFS4ERR_BADOWNER, NFS4ERR_INVAL if it is empty, NFS4ERR_DELAY if the name services do not answer.
    pub fn find(self, kind: OwnerKind, text: &[u8]) -> Result<u32, Failed> {
        let Some((names, blocking)) = self.0.filter(|_| text.contains(&b'@')) else {
            return id(text);
        };
        match names.find(kind, text, || blocking.will_block()) {
            OwnerLookup::Id(id) if id != NO_ID => Ok(id),
            OwnerLookup::Id(_) | OwnerLookup::NoSuchOwner => Err(Nfsstat4::BadOwner.into()),
            OwnerLookup::NoAnswer => Err(Nfsstat4::Delay.into()),
        }
    }
}

/// An owner or group: its number in decimal digits (RFC 8881 §5.9).
#[inline]
pub(super) fn put_id(id: u32, w: &mut Writer) {
    match eight_digits(id) {
        Some((text, len)) => w.opaque_within(&text, len),
        None => put_long_id(id, w),
    }
}

/// The text of an owner or group and zeros behind it, and how long the text is.
pub(super) fn text_of_id(id: u32) -> ([u8; ID_MAX], usize) {
    let (mut text, mut digits) = ([0; ID_MAX], [0; 10]);
    let number = decimal(id, &mut digits);
    for (place, digit) in text.iter_mut().zip(number) {
        *place = *digit;
    }
    (text, number.len())
}

#[cold]
fn put_long_id(id: u32, w: &mut Writer) {
    w.opaque(decimal(id, &mut [0; 10]));
}

/// The digits of a number that has no more than eight, zeros behind them, and how many there are. All digits are divided at
/// once: as two fields of four digits, then four of two, then eight of one.
#[inline]
fn eight_digits(number: u32) -> Option<([u8; 8], usize)> {
    const FOUR: u64 = 10_000;
    /// The field of the upper digits comes first, in the lower bits: digits rise as bytes do.
    const fn split(fields: u64, upper: u64, by: u64, bits: u32) -> u64 {
        upper | ((fields - upper * by) << bits)
    }
    let number = u64::from(number);
    if number >= FOUR * FOUR {
        return None;
    }
    let fours = split(number, number / FOUR, FOUR, 32);
    // a hundredth by multiplication: exact below 10,000
    let hundreds = ((fours * 10_486) >> 20) & 0x0000_007f_0000_007f;
    let twos = split(fours, hundreds, 100, 16);
    // a tenth: exact below 100
    let tens = ((twos * 103) >> 10) & 0x000f_000f_000f_000f;
    let digits = split(twos, tens, 10, 8);
    let absent = (digits.trailing_zeros() / 8).min(7);
    let text = (digits | 0x3030_3030_3030_3030) >> (8 * absent);
    Some((text.to_le_bytes(), 8 - absent as usize))
}

/// A number in decimal digits.
fn decimal(id: u32, digits: &mut [u8; 10]) -> &[u8] {
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

/// The user or group of a number.
///
/// # Errors
/// NFS4ERR_BADOWNER, NFS4ERR_INVAL if it is empty.
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

#[cfg(test)]
mod tests {
    use super::{id, put_id, text_of_id};
    use xdr::Writer;

    #[test]
    fn ids_are_digits() {
        let powers = (0..10).map(|power| 10_u32.pow(power));
        let around =
            powers.flat_map(|power| [power - 1, power, power + 1, power.saturating_mul(4)]);
        let some = (0..100_000).chain((0..u32::MAX - 1).step_by(999_983));
        for number in around.chain(some).chain([u32::MAX - 1]) {
            let mut w = Writer::new();
            put_id(number, &mut w);
            let mut expected = Writer::new();
            expected.opaque(number.to_string().as_bytes());
            assert_eq!(w.bytes(), expected.bytes());
            let (text, len) = text_of_id(number);
            let mut of_text = Writer::new();
            of_text.opaque(&text[..len]);
            assert_eq!(of_text.bytes(), expected.bytes());
            assert!(text[len..].iter().all(|byte| *byte == 0));
            assert_eq!(id(number.to_string().as_bytes()), Ok(number));
        }
    }
}
