//! Two calls of one xid are one call only if they ask for the same thing, to the last byte.

use crate::support::dispatched::Dispatched;
use crate::support::{at, exports, wire};
use proto::nfs3::{Bytes, MkdirArgs, Nfsstat3, RenameArgs, Sattr3, SymlinkArgs, procedure as p};
use rpc::Reply;

const OK: u32 = Nfsstat3::Ok.number();

/// The status that a call gets. All of them have one xid.
fn status(server: &Dispatched, procedure: u32, args: &[u8]) -> u32 {
    let reply = server.call(procedure, args);
    Reply::parse(&reply).unwrap().results.unwrap().u32().unwrap()
}

#[test]
fn calls_with_equal_xid_and_different_arguments_are_different() {
    let server = Dispatched::keeping(1 << 20, exports::mem());
    let dir = server.root.clone();
    let (long, [one, other]) = ([b'n'; 255], [b"one", b"two"]);

    let place = at(&dir, &long);
    assert_eq!(status(&server, p::MKDIR, &wire(&MkdirArgs { place, set: Sattr3::default() })), OK);
    let rename = |to| wire(&RenameArgs { from: at(&dir, &long), to: at(&dir, to) });
    assert_eq!(status(&server, p::RENAME, &rename(one)), OK);
    assert_eq!(status(&server, p::RENAME, &rename(one)), OK, "a retransmission");
    assert_eq!(status(&server, p::RENAME, &rename(other)), Nfsstat3::NoEnt.number());

    let symlink = |end| {
        let target = [&[b't'; 4000][..], end].concat();
        let (place, set) = (at(&dir, b"link"), Sattr3::default());
        wire(&SymlinkArgs { place, set, target: Bytes(&target) })
    };
    assert_eq!(status(&server, p::SYMLINK, &symlink(one)), OK);
    assert_eq!(status(&server, p::SYMLINK, &symlink(one)), OK, "a retransmission");
    assert_eq!(status(&server, p::SYMLINK, &symlink(other)), Nfsstat3::Exist.number());
}
