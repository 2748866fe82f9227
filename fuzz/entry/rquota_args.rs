//! The arguments of rquota, and its result. The first byte is the version, the second the procedure's number.

use proto::rquota::{GetQuotaArgs, QuotaResult, decode_all_args, procedure};
use xdr::{Reader, Writer};

/// Checks one input.
pub fn run(data: &[u8]) {
    let [version, number, rest @ ..] = data else { return };
    let (version, number) = (u32::from(*version), u32::from(*number));
    let decoded = decode_all_args(version, number, rest);
    assert!(decoded.is_err() || (1..=2).contains(&version));
    if decoded.is_ok() && number == procedure::GETQUOTA {
        let args = GetQuotaArgs::decode(&mut Reader::new(rest), version).unwrap();
        let mut w = Writer::new();
        args.encode(&mut w, version);
        assert_eq!(w.bytes().len(), rest.len());
    }
    let _any = Reader::new(rest).get::<QuotaResult>();
}
