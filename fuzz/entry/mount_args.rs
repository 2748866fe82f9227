//! The arguments of MOUNT, and the lists that it answers with. The first byte is the version, the
//! second the procedure's number.

use proto::mount::{LIST_MAX, decode_all_args, decode_dump, decode_exports};
use xdr::Reader;

/// Checks one input.
pub fn run(data: &[u8]) {
    let [version, number, rest @ ..] = data else { return };
    let decoded = decode_all_args(u32::from(*version), u32::from(*number), rest);
    assert!(decoded.is_err() || (1..=3).contains(version));
    if let Ok(rows) = decode_exports(&mut Reader::new(rest)) {
        assert!(rows.len() <= LIST_MAX);
    }
    if let Ok(rows) = decode_dump(&mut Reader::new(rest)) {
        assert!(rows.len() <= LIST_MAX);
    }
}
