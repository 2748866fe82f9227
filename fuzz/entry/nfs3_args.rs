//! The arguments of NFS version 3; the first byte is the procedure's number.

use proto::nfs3::{decode_args, procedure};

/// Checks one input.
pub fn run(data: &[u8]) {
    let Some((number, args)) = data.split_first() else { return };
    let number = u32::from(*number);
    let decoded = decode_args(number, args);
    assert!(decoded.is_err() || number <= procedure::COMMIT);
}
