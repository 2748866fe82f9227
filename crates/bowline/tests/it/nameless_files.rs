//! Files of version 4 that have lost their last name: they stay with whoever has them open, and nobody opens them again.

use crate::delegations::{Machine, READ, rig};
use client::nfs4::Operations;
use proto::layout::Bytes;
use proto::nfs4::{CloseArgs, Nfsstat4, OpenClaim4, ReadArgs, Stateid4, op};
use xdr::Reader;

fn status(machine: &mut Machine, operations: &Operations) -> Nfsstat4 {
    let reply = machine.client.compound(&mut machine.session, operations).unwrap();
    Reader::new(reply.body()).get().unwrap()
}

fn close(machine: &mut Machine, handle: &[u8], stateid: Stateid4) {
    let args = CloseArgs { seqid: 0, stateid };
    assert_eq!(status(machine, &Operations::new().at(handle).with(op::CLOSE, &args)), Nfsstat4::Ok);
}

/// Linux opens the file of a name that it knows by its handle (CLAIM_FH), and looks the name up again if the handle is stale.
/// An open that is not closed yet, by whatever client, must not keep it from the file that has the name now.
#[test]
fn a_replaced_file_is_not_opened_again_by_its_handle() {
    let rig = rig("delegations=off");
    let (mut one, mut two) = (Machine::new(&rig.server, b"one"), Machine::new(&rig.server, b"two"));
    let by_name = || OpenClaim4::Null(Bytes(b"file"));
    let by_handle = |machine: &mut Machine, handle: &[u8], access: u32| {
        machine.open_at(Operations::new().at(handle), &[op::PUTFH], access, OpenClaim4::Fh)
    };
    let known = two.open(READ, by_name()).unwrap();
    close(&mut two, &known.handle, known.open);
    let held = one.open(READ, by_name()).unwrap();
    assert_eq!(held.handle, known.handle);
    // another name is enough
    let (link, new) = (rig.path.with_file_name("link"), rig.path.with_file_name("new"));
    std::fs::hard_link(&rig.path, &link).unwrap();
    std::fs::write(&new, b"second").unwrap();
    std::fs::rename(&new, &rig.path).unwrap();
    let again = by_handle(&mut two, &known.handle, READ).unwrap();
    close(&mut two, &known.handle, again.open);
    std::fs::remove_file(&link).unwrap();
    assert_eq!(by_handle(&mut two, &known.handle, READ).err(), Some(Nfsstat4::Stale));
    assert_ne!(two.open(READ, by_name()).unwrap().handle, known.handle);
    // who has it open goes on
    assert_eq!(by_handle(&mut one, &known.handle, READ).err(), Some(Nfsstat4::Stale));
    let read = ReadArgs { stateid: held.open, offset: 0, count: 5 };
    let read = Operations::new().at(&known.handle).with(op::READ, &read);
    assert_eq!(status(&mut one, &read), Nfsstat4::Ok);
    close(&mut one, &known.handle, held.open);
}
