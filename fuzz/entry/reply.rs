//! Replies, as a client reads them: one that decodes encodes to what decodes to the same.

use bowline_rpc::Reply;
use proto::rpc::ReplyHeader;
use xdr::{Reader, Writer};

/// Checks one input.
pub fn run(data: &[u8]) {
    let mut r = Reader::new(data);
    let header = r.get::<ReplyHeader<'_>>();
    let reply = Reply::parse(data);
    match (header, reply) {
        (Err(a), Err(b)) => assert_eq!(a, b),
        (Ok(header), Ok(reply)) => {
            assert_eq!(reply.xid, header.xid);
            if let Ok(results) = reply.results {
                assert_eq!(results.rest(), r.rest());
            }
            let mut w = Writer::new();
            w.put(&header);
            assert_eq!(w.len(), data.len() - r.remaining(), "no byte is skipped");
            assert_eq!(Reader::new(w.bytes()).get(), Ok(header));
        }
        (header, reply) => panic!("{header:?} and {reply:?} do not agree"),
    }
}
