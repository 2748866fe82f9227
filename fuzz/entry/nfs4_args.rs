//! A COMPOUND of version 4: its head, then operations for as long as they decode.

use proto::nfs4::{CompoundHead, OPS, OPS_MAX, decode_op_args};
use xdr::Reader;

/// Checks one input.
pub fn run(data: &[u8]) {
    let mut r = Reader::new(data);
    let Ok(head) = r.get::<CompoundHead<'_>>() else { return };
    for _ in 0..head.count.min(OPS_MAX) {
        let Ok(number) = r.u32() else { return };
        let before = r.remaining();
        match decode_op_args(number, &mut r) {
            Some(Ok(())) => assert!(r.remaining() <= before),
            Some(Err(_)) => return,
            None => {
                assert!(!OPS.iter().any(|row| row.number == number && row.name == "SEQUENCE"));
                return;
            }
        }
    }
}
