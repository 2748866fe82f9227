//! The arguments of NLM's procedures. The first byte is the version, the second the procedure's number.
//!
//! What is decoded and encoded again has the same bytes, and a range that is taken has its end within the file.

use proto::nlm::{LockArgs, ShareArgs, TestAnswer, Versioned, Width, decode_all_args, procedure};
use xdr::{Reader, Writer};

/// Checks one input.
pub fn run(data: &[u8]) {
    let [version, number, rest @ ..] = data else { return };
    let (version, number) = (u32::from(*version), u32::from(*number));
    let decoded = decode_all_args(version, number, rest);
    let width = Width::of_version(version);
    assert!(decoded.is_err() || width.is_some());
    let (Ok(()), Some(width)) = (decoded, width) else { return };
    match number {
        procedure::LOCK | procedure::LOCK_MSG => same::<LockArgs<'_>>(rest, width),
        procedure::SHARE | procedure::UNSHARE => same::<ShareArgs<'_>>(rest, width),
        procedure::TEST_RES => same::<TestAnswer<'_>>(rest, width),
        _ => {}
    }
}

fn same<'a, T: Versioned<'a>>(bytes: &'a [u8], width: Width) {
    let args = T::decode(&mut Reader::new(bytes), width).unwrap();
    let mut w = Writer::new();
    args.encode(&mut w, width);
    assert_eq!(w.bytes().len(), bytes.len());
}
