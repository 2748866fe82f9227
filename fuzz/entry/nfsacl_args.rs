//! The arguments of NFSACL, and the lists of its results. The first byte is the version, the second the procedure's
//! number.

use proto::nfsacl::{ENTRIES_MAX, SecAttr, decode_all_args};
use xdr::{Reader, Writer};

/// Checks one input.
pub fn run(data: &[u8]) {
    let [version, number, rest @ ..] = data else { return };
    let decoded = decode_all_args(u32::from(*version), u32::from(*number), rest);
    assert!(decoded.is_err() || (2..=3).contains(version));
    let r = &mut Reader::new(rest);
    let Ok(lists) = r.get::<SecAttr<'_>>() else { return };
    assert!(lists.acl.len() <= ENTRIES_MAX && lists.default.len() <= ENTRIES_MAX);
    assert_eq!(lists.acl.iter().count(), lists.acl.len());
    // what was decoded is encoded to the same bytes
    let mut w = Writer::new();
    w.put(&lists);
    assert_eq!(w.bytes(), &rest[..rest.len() - r.remaining()]);
}
