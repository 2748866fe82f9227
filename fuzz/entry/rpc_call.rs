//! Call headers: one that decodes encodes to what decodes to the same.

use proto::rpc::{AUTH_BODY_MAX, CallHeader};
use xdr::{Reader, Writer};

/// Checks one input.
pub fn run(data: &[u8]) {
    let mut r = Reader::new(data);
    let Ok(header) = r.get::<CallHeader<'_>>() else { return };
    assert!(header.credential.body.len() <= AUTH_BODY_MAX);
    assert!(header.verifier.body.len() <= AUTH_BODY_MAX);
    let mut w = Writer::new();
    w.put(&header);
    assert_eq!(w.len(), data.len() - r.remaining(), "no byte is skipped");
    assert_eq!(Reader::new(w.bytes()).get(), Ok(header));
}
