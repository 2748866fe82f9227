//! GETATTR, LOOKUP, ACCESS, READ and WRITE allocate nothing once the reply buffer has grown.

use crate::support::fixed::Fixed;
use crate::support::{TestServer, at, exports, wire};
use proto::nfs3::{
    AccessArgs, Bytes, LookupOk, PostOpAttr, ReadArgs, Res, StableHow, WriteArgs, procedure as p,
};
use std::sync::Arc;
use xdr::Writer;

#[test]
fn the_hot_procedures_allocate_nothing() {
    let server =
        TestServer::new(exports::of(&[("/f", Arc::new(Fixed { long: false }), exports::RW)]));
    let root = server.root();
    let seen: Res<LookupOk<'_>, PostOpAttr> = server.v3(p::LOOKUP, &at(&root, b"file"));
    let file = Bytes(seen.into_result().unwrap().object.0);
    let stable = StableHow::Unstable;
    let calls = [
        (p::GETATTR, wire(&file)),
        (p::LOOKUP, wire(&at(&root, b"file"))),
        (p::LOOKUP, wire(&at(&root, b"missing"))),
        (p::ACCESS, wire(&AccessArgs { object: file, access: 0x3f })),
        (p::READ, wire(&ReadArgs { file, offset: 0, count: 65_536 })),
        (p::WRITE, wire(&WriteArgs { file, offset: 0, stable, data: Bytes(&[1; 4096]) })),
    ];
    let control = allocation_counter::measure(|| drop(std::hint::black_box(vec![1; 9])));
    assert_eq!(control.count_total, 1, "the counter counts");
    let mut reply = Writer::new();
    for (procedure, args) in &calls {
        server.run(3, *procedure, args, &mut reply).unwrap();
        reply.clear();
        let counted = allocation_counter::measure(|| {
            for _ in 0..100 {
                server.run(3, *procedure, args, &mut reply).unwrap();
                reply.clear();
            }
        });
        assert_eq!(counted.count_total, 0, "procedure {procedure}");
    }
}
