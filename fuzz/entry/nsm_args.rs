//! The arguments of NSM's procedures. The first byte is the procedure's number.

use proto::nsm::{Notify, decode_all_args, procedure};
use xdr::{Reader, Writer};

/// Checks one input.
pub fn run(data: &[u8]) {
    let [number, rest @ ..] = data else { return };
    let number = u32::from(*number);
    let decoded = decode_all_args(number, rest);
    if decoded.is_ok() && number == procedure::NOTIFY {
        let notify: Notify<'_> = Reader::new(rest).get().unwrap();
        let mut w = Writer::new();
        w.put(&notify);
        assert_eq!(w.bytes().len(), rest.len());
    }
}
