//! The number of slots of a session: how it grows and shrinks, as clients see it.

use super::{Client, oper, send};
use crate::support::{TestServer, exports};
use proto::nfs4::{Nfsstat4, SequenceArgs, op};

/// A client that wants 64 slots.
fn client() -> Client {
    let server = TestServer::new(exports::of(&[("/srv/e", exports::mem(), exports::RW)]));
    Client::with(server, [0, 1 << 20, 1 << 20, 4096, 32, 64])
}

/// A SEQUENCE on a slot, by a client that uses none above `highest`: the highest slot that there is, and the highest that
/// the client is to use.
fn sequence(
    client: &Client,
    (slotid, sequenceid): (u32, u32),
    highest: u32,
) -> Result<[u32; 2], Nfsstat4> {
    let (sessionid, cachethis) = (client.session, false);
    let args = SequenceArgs { sessionid, sequenceid, slotid, highest_slotid: highest, cachethis };
    let done = send(&client.server, 1, &[oper(op::SEQUENCE, &args)]);
    let mut r = done.reader();
    let [_, status] = r.words().unwrap();
    if status != 0 {
        return Err(done.status);
    }
    r.opaque_fixed(24).unwrap();
    Ok(r.words().unwrap())
}

#[test]
fn a_session_gets_more_slots_when_it_uses_the_highest() {
    let client = client();
    let on_slot = |slot| sequence(&client, (slot, 1), slot);
    assert_eq!(on_slot(64), Err(Nfsstat4::BadSlot));
    assert_eq!(on_slot(62), Ok([63, 63]));
    for highest in [63, 127, 255, 511] {
        assert_eq!(on_slot(highest), Ok([2 * highest + 1; 2]));
    }
    assert_eq!(on_slot(1023), Ok([1023, 1023]), "no more");
    assert_eq!(on_slot(1024), Err(Nfsstat4::BadSlot));
    // a client that wants few is offered no more
    let few = Client::new();
    let sequence = few.call(&[]);
    let mut r = sequence.reader();
    r.opaque_fixed(32).unwrap();
    assert_eq!(r.words().unwrap(), [7, 7]);
}

#[test]
fn a_session_is_told_to_use_fewer_slots_and_loses_the_others_then() {
    let client = client();
    assert_eq!(sequence(&client, (63, 1), 63), Ok([127, 127]));
    assert_eq!(sequence(&client, (100, 1), 100), Ok([127, 127]));
    client.server.program.state.v4.set_session_slots(32);
    // those above are there until the client has heard of it
    assert_eq!(sequence(&client, (1, 1), 100), Ok([127, 31]));
    assert_eq!(sequence(&client, (2, 1), 2), Ok([127, 31]));
    assert_eq!(sequence(&client, (100, 2), 100), Ok([127, 31]), "it still uses one");
    assert_eq!(sequence(&client, (1, 2), 31), Ok([31, 31]));
    assert_eq!(sequence(&client, (32, 1), 32), Err(Nfsstat4::BadSlot));
    assert_eq!(sequence(&client, (1, 3), 32), Err(Nfsstat4::BadHighSlot));
    assert_eq!(sequence(&client, (31, 1), 31), Ok([31, 31]), "no more than the setting allows");
    client.server.program.state.v4.set_session_slots(1024);
    for highest in [31, 63] {
        assert_eq!(sequence(&client, (highest, 2), highest), Ok([2 * highest + 1; 2]), "{highest}");
    }
    // a slot that it had before begins anew, or goes on
    assert_eq!(sequence(&client, (100, 1), 100), Ok([127, 127]));
    assert_eq!(sequence(&client, (100, 3), 100), Err(Nfsstat4::SeqMisordered));
    assert_eq!(sequence(&client, (100, 2), 100), Ok([127, 127]));
}
