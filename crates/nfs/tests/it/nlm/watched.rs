//! Hosts that rpc.statd of the machine watches: it is asked when a host's record is stored, and what it then says drops
//! that host's locks and nobody else's.

use super::rig::{A, B, Owner, Rig, file_in_memory};
use crate::support::exports;
use proto::nlm::{SmNotifyArgs, Status, procedure as p};
use proto::nsm::{Mon, Outcome, Stat, StatResult, procedure as nsm};
use xdr::{Reader, Writer};

/// A machine of its own.
const C: Owner = Owner { addr: "127.0.0.3:900", svid: 30, uid: 0, version: 4 };
/// rpc.statd.
const STATD: Owner = Owner { addr: "127.0.0.1:712", svid: 0, uid: 0, version: 4 };

/// The rig, with clients at several addresses, and the handle of an empty file.
fn rig() -> (Rig, Vec<u8>) {
    let rig = Rig::over(file_in_memory());
    let table = exports::table_for(&[("/e", rig.backend(), exports::RW)], &["127.0.0.0/8"]);
    rig.nfs.exports.replace(table);
    let file = rig.handle("file");
    (rig, file)
}

/// Answers what was asked; the private bytes and the address of each SM_MON.
fn answered(rig: &Rig) -> Vec<([u8; 16], String)> {
    let mut watched = Vec::new();
    for _ in 0..3 {
        rig.nlm().tick();
        for call in rig.calls.take() {
            assert_eq!(call.program, proto::nsm::PROGRAM);
            let mut reply = Writer::new();
            let stat = Stat { state: 1 };
            if call.procedure == nsm::MON {
                let mon: Mon<'_> = Reader::new(&call.args).get().unwrap();
                let address = String::from_utf8(mon.mon_id.name.0.to_vec()).unwrap();
                watched.push((mon.private, address));
                reply.put(&StatResult { outcome: Outcome::Success, stat });
            } else {
                assert_eq!(call.procedure, nsm::UNMON_ALL);
                reply.put(&stat);
            }
            (call.done)(Ok(reply.bytes()));
        }
    }
    watched
}

/// Says that an address has rebooted.
fn says(rig: &Rig, who: Owner, address: &str, private: [u8; 16]) {
    let args = SmNotifyArgs { name: address.as_bytes(), state: 9, private };
    assert!(rig.try_call(who, p::SM_NOTIFY, &args).unwrap().is_empty());
}

#[test]
fn a_host_is_watched_from_its_first_lock_and_loses_its_locks_when_it_reboots() {
    let (rig, file) = rig();
    assert_eq!(rig.lock(A, true, A.lock(&file, 0, 1)), Status::Granted);
    rig.nlm().watch_by_machine(true);
    let watched = answered(&rig);
    assert_eq!(watched.len(), 1, "who was recorded before");
    assert_eq!(rig.lock(C, true, C.lock(&file, 10, 1)), Status::Granted);
    assert_eq!(rig.lock(C, true, C.lock(&file, 12, 1)), Status::Granted);
    let more = answered(&rig);
    assert_eq!(more.iter().map(|(_, address)| address).collect::<Vec<_>>(), ["127.0.0.3"]);
    let private = more[0].0;
    let free = |at| rig.test(B, true, B.lock(&file, at, 1)).is_ok();
    says(&rig, Owner { addr: "10.0.0.3:700", ..STATD }, "127.0.0.3", private);
    says(&rig, Owner { addr: "127.0.0.1:40000", ..STATD }, "127.0.0.3", private);
    says(&rig, STATD, "127.0.0.3", [7; 16]);
    says(&rig, STATD, "127.0.0.4", private);
    assert!(!free(10) && !free(12), "nobody of these is believed");
    let progress = rig.nlm().machine_monitor.progress();
    assert_eq!((progress.reboots, progress.ignored), (0, 4));
    says(&rig, STATD, "127.0.0.3", private);
    assert!(free(10) && free(12) && !free(0), "its locks alone");
    says(&rig, STATD, "127.0.0.3", private);
    let progress = rig.nlm().machine_monitor.progress();
    assert_eq!((progress.reboots, progress.locks_dropped, progress.ignored), (1, 2, 5));
}

#[test]
fn of_several_holders_at_one_address_none_loses_its_locks() {
    let (rig, file) = rig();
    rig.nlm().watch_by_machine(true);
    assert_eq!(rig.lock(A, true, A.lock(&file, 0, 1)), Status::Granted);
    assert_eq!(rig.lock(B, true, B.lock(&file, 1, 1)), Status::Granted);
    let watched = answered(&rig);
    assert_eq!(watched.len(), 1, "an address is watched once");
    let free = |at| rig.test(C, true, C.lock(&file, at, 1)).is_ok();
    says(&rig, STATD, "127.0.0.1", watched[0].0);
    assert!(!free(0) && !free(1), "it may be the one or the other");
    assert_eq!(rig.unlock(B, B.lock(&file, 0, 0)), Status::Granted);
    says(&rig, STATD, "127.0.0.1", watched[0].0);
    assert!(free(0), "the other holds nothing");
}
