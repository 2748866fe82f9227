//! The arguments of NFS version 2; the first byte is the procedure's number.

use proto::nfs2::decode_args;

/// The highest procedure number (STATFS, RFC 1094 §2.2).
const LAST: u32 = 17;

/// Checks one input.
pub fn run(data: &[u8]) {
    let Some((number, args)) = data.split_first() else { return };
    let number = u32::from(*number);
    let decoded = decode_args(number, args);
    assert!(decoded.is_err() || number <= LAST);
}
