//! The arguments of the port mapper and of rpcbind, the lists that they answer with, and their
//! addresses. The first byte is the version, the second the procedure's number.

use proto::portmap::{
    decode_addresses, decode_all_args, decode_mappings, decode_rpcbs, decode_taddr, encode_taddr,
    from_universal, to_universal,
};
use xdr::Reader;

/// Checks one input.
pub fn run(data: &[u8]) {
    let [version, number, rest @ ..] = data else { return };
    let decoded = decode_all_args(u32::from(*version), u32::from(*number), rest);
    assert!(decoded.is_err() || (2..=4).contains(version));
    let _ = decode_mappings(&mut Reader::new(rest));
    let _ = decode_rpcbs(&mut Reader::new(rest));
    let _ = decode_addresses(&mut Reader::new(rest));
    if let Some(addr) = decode_taddr(rest) {
        assert_eq!(decode_taddr(&encode_taddr(addr)), Some(addr));
    }
    if let Some(addr) = from_universal(rest) {
        assert_eq!(from_universal(to_universal(addr).as_bytes()), Some(addr));
    }
}
