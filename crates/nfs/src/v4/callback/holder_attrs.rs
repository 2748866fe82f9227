//! What CB_GETATTR asks the holder of a write delegation for, and its answer (RFC 8881 §20.1, RFC 9754 §5).

use super::operation::CallbackAnswer;
use proto::nfs4::{Bitmap4, Fattr4, Nfstime4, attr as a};
use vfs::Time;
use xdr::Reader;

const NANOSECONDS: u32 = 1_000_000_000;

/// The times that the holder keeps itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HolderTimes {
    /// Last access.
    pub accessed: Time,
    /// Last change of the data.
    pub modified: Time,
}

/// What the holder says of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HolderAttrs {
    /// The change attribute: another one than when the delegation was granted if it has changed the file.
    pub change: u64,
    /// Its size.
    pub size: u64,
    /// If it keeps them.
    pub times: Option<HolderTimes>,
}

/// The attributes that are asked for.
pub(super) const fn asked(keeps_times: bool) -> Bitmap4 {
    if keeps_times {
        Bitmap4::of(&[a::CHANGE, a::SIZE, a::TIME_DELEG_ACCESS, a::TIME_DELEG_MODIFY])
    } else {
        Bitmap4::of(&[a::CHANGE, a::SIZE])
    }
}

/// `nfstime4`.
fn time(r: &mut Reader<'_>) -> Option<Time> {
    let Nfstime4 { seconds, nseconds } = r.get().ok()?;
    (nseconds < NANOSECONDS).then(|| Time { sec: seconds.cast_signed(), nsec: nseconds })
}

impl HolderAttrs {
    /// What an answer says; `None` if it is not all that was asked for and nothing else.
    pub fn of(answer: &CallbackAnswer<'_>, keeps_times: bool) -> Option<Self> {
        if answer.status != 0 {
            return None;
        }
        let Fattr4 { mask, values } = Reader::new(answer.results).get().ok()?;
        if mask != asked(keeps_times) {
            return None;
        }
        let mut r = Reader::new(values.0);
        let (change, size) = (r.u64().ok()?, r.u64().ok()?);
        let times = if keeps_times {
            Some(HolderTimes { accessed: time(&mut r)?, modified: time(&mut r)? })
        } else {
            None
        };
        r.end().ok()?;
        Some(Self { change, size, times })
    }
}

#[cfg(test)]
mod tests {
    use super::{CallbackAnswer, HolderAttrs, HolderTimes, Time, a, asked};
    use proto::layout::Bytes;
    use proto::nfs4::{Bitmap4, Fattr4};
    use xdr::Writer;

    fn answered(mask: Bitmap4, words: &[u32]) -> Vec<u8> {
        let values: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
        let mut w = Writer::new();
        w.put(&Fattr4 { mask, values: Bytes(&values) });
        w.bytes().to_vec()
    }

    fn read(status: u32, results: &[u8], keeps_times: bool) -> Option<HolderAttrs> {
        HolderAttrs::of(&CallbackAnswer { status, results }, keeps_times)
    }

    #[test]
    fn an_answer_counts_only_if_it_is_what_was_asked_for() {
        let plain = answered(asked(false), &[0, 7, 1, 2]);
        let known = HolderAttrs { change: 7, size: 1 << 32 | 2, times: None };
        assert_eq!(read(0, &plain, false), Some(known));
        assert_eq!(read(10_008, &plain, false), None);
        assert_eq!(read(0, &plain, true), None, "no times");
        assert_eq!(read(0, &answered(asked(false), &[0, 7, 1]), false), None, "too short");
        assert_eq!(read(0, &answered(asked(false), &[0, 7, 1, 2, 3]), false), None, "too long");
        assert_eq!(read(0, &answered(Bitmap4::of(&[a::SIZE]), &[1, 2]), false), None);
        assert_eq!(read(0, &[], false), None);
        let times = answered(asked(true), &[0, 7, 0, 2, 0, 8, 9, 0, 10, 11]);
        let at = |sec, nsec| Time { sec, nsec };
        let times_of = HolderTimes { accessed: at(8, 9), modified: at(10, 11) };
        let known = HolderAttrs { change: 7, size: 2, times: Some(times_of) };
        assert_eq!(read(0, &times, true), Some(known));
        assert_eq!(read(0, &times, false), None);
        let bad = answered(asked(true), &[0, 7, 0, 2, 0, 8, 1_000_000_000, 0, 10, 11]);
        assert_eq!(read(0, &bad, true), None);
    }
}
