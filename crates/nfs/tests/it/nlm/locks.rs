//! What excludes what, over a backend that knows no local programs.

use super::rig::{A, A2, B, Owner, Rig, file_in_memory, try_args};
use crate::support::exports;
use proto::nlm::{LockArgs, ShareAccess, ShareDeny, Status, procedure as p};
use rpc::Fault;
use state::{Limits, MonitoredHost, Record, Recovery, Transport};
use std::sync::atomic::Ordering;

/// The rig, and the handle of an empty file.
fn rig() -> (Rig, Vec<u8>) {
    let rig = Rig::over(file_in_memory());
    let handle = rig.handle("file");
    (rig, handle)
}

fn is_idle(rig: &Rig) {
    let totals = rig.nfs.state.totals();
    assert_eq!((totals.files, totals.ranges, totals.waiters), (0, 0, 0));
}

#[test]
fn two_owners_exclude_each_other_but_not_themselves() {
    let (rig, file) = rig();
    assert_eq!(rig.lock(A, true, A.lock(&file, 0, 10)), Status::Granted);
    assert_eq!(rig.lock(A, true, A.lock(&file, 5, 10)), Status::Granted);
    assert_eq!(rig.lock(B, true, B.lock(&file, 14, 0)), Status::Denied);
    assert_eq!(rig.lock(B, false, B.lock(&file, 14, 1)), Status::Denied);
    assert_eq!(rig.lock(A2, false, A2.lock(&file, 0, 1)), Status::Denied, "another process");
    assert_eq!(rig.lock(B, true, B.lock(&file, 15, 0)), Status::Granted);
    let in_the_way = Err((Status::Denied, Some((true, 10, b"ten".to_vec(), 0, 15))));
    assert_eq!(rig.test(B, false, B.lock(&file, 3, 1)), in_the_way);
    let to_the_end = Err((Status::Denied, Some((true, 20, b"other".to_vec(), 15, 0))));
    assert_eq!(rig.test(A, false, A.lock(&file, 1 << 40, 1)), to_the_end);
    assert_eq!(rig.unlock(A, A.lock(&file, 0, 0)), Status::Granted);
    assert_eq!(rig.test(B, true, B.lock(&file, 0, 0)), Ok(()));
    assert_eq!(rig.unlock(B, B.lock(&file, 0, 0)), Status::Granted);
    is_idle(&rig);
}

#[test]
fn a_mode_is_converted_both_ways() {
    let (rig, file) = rig();
    assert_eq!(rig.lock(A, false, A.lock(&file, 0, 0)), Status::Granted);
    assert_eq!(rig.lock(B, false, B.lock(&file, 0, 0)), Status::Granted);
    assert_eq!(rig.lock(A, true, A.lock(&file, 0, 0)), Status::Denied);
    assert_eq!(rig.unlock(B, B.lock(&file, 0, 0)), Status::Granted);
    assert_eq!(rig.lock(A, true, A.lock(&file, 0, 0)), Status::Granted);
    assert_eq!(rig.lock(B, false, B.lock(&file, 9, 1)), Status::Denied, "converted, not kept");
    assert_eq!(rig.lock(A, false, A.lock(&file, 0, 0)), Status::Granted);
    assert_eq!(rig.lock(B, false, B.lock(&file, 9, 1)), Status::Granted);
}

#[test]
fn nlm_versions_share_one_table_with_different_offset_ranges() {
    let (rig, file) = rig();
    let v1 = Owner { version: 1, ..B };
    let v3 = Owner { version: 3, ..B };
    let end = u64::from(i32::MAX.cast_unsigned());
    assert_eq!(rig.lock(v1, true, v1.lock(&file, end, 1)), Status::Granted);
    assert_eq!(rig.lock(A, true, A.lock(&file, end, 1)), Status::Denied);
    assert_eq!(rig.lock(v3, true, v3.lock(&file, end, 1)), Status::Granted, "the same owner");
    // FBIG is not in the language of versions 1 and 3
    for v in [v1, v3] {
        assert_eq!(rig.lock(v, true, v.lock(&file, end, 2)), Status::DeniedNoLocks);
        assert_eq!(rig.lock(v, true, v.lock(&file, end + 1, 0)), Status::DeniedNoLocks);
    }
    assert_eq!(rig.lock(A, true, A.lock(&file, u64::MAX, 2)), Status::TooBig);
    assert_eq!(rig.lock(A, true, A.lock(&file, 2, u64::MAX)), Status::TooBig);
    assert_eq!(rig.lock(A, true, A.lock(&file, end + 1, 0)), Status::Granted);
}

#[test]
fn an_invalid_handle_is_stale() {
    let (rig, file) = rig();
    let mut forged = file.clone();
    *forged.last_mut().unwrap() ^= 1;
    for handle in [&forged[..], b"", b"short"] {
        assert_eq!(rig.lock(A, true, A.lock(handle, 0, 0)), Status::StaleHandle);
        assert_eq!(rig.unlock(A, A.lock(handle, 0, 0)), Status::StaleHandle);
        let v1 = Owner { version: 1, ..A };
        assert_eq!(rig.lock(v1, true, A.lock(handle, 0, 0)), Status::DeniedNoLocks);
    }
}

#[test]
fn a_host_is_recorded_before_its_first_lock_is_granted() {
    let (rig, file) = rig();
    rig.store.broken.store(true, Ordering::Relaxed);
    assert_eq!(rig.lock(A, true, A.lock(&file, 0, 0)), Status::DeniedNoLocks);
    is_idle(&rig);
    rig.store.broken.store(false, Ordering::Relaxed);
    assert_eq!(rig.lock(A, true, A.lock(&file, 0, 1)), Status::Granted);
    assert_eq!(rig.lock(A2, true, A2.lock(&file, 1, 1)), Status::Granted);
    let stored = rig.store.stored.lock().unwrap().clone();
    let [Record::NsmHost(host)] = stored.as_slice() else { panic!("{stored:?}") };
    assert_eq!((&*host.name, host.nlm_version, host.nsm_state), (A.addr.as_bytes(), 4, 1));
    // a client without a status monitor leaves no record
    assert_eq!(rig.nm_lock(B, B.lock(&file, 2, 1)), Status::Granted);
    assert_eq!(rig.store.stored.lock().unwrap().len(), 1);
}

#[test]
fn only_reclaims_are_granted_in_the_grace_period() {
    let host = MonitoredHost {
        addr: "127.0.0.1".parse().unwrap(),
        name: A.addr.as_bytes().into(),
        local: "127.0.0.1".parse().unwrap(),
        nlm_version: 4,
        transport: Transport::Tcp,
        nsm_state: 1,
    };
    let recovery = Recovery::of([Record::Instance(1), Record::NsmHost(host)]);
    let rig = Rig::with(file_in_memory(), exports::RW, &recovery, Limits::default());
    let file = rig.handle("file");
    let reclaim = |who: Owner| LockArgs { reclaim: true, ..try_args(who.lock(&file, 0, 9)) };
    assert_eq!(rig.lock(A, true, A.lock(&file, 0, 9)), Status::DeniedGracePeriod);
    assert_eq!(rig.test(B, true, B.lock(&file, 0, 9)), Err((Status::DeniedGracePeriod, None)));
    assert_eq!(rig.lock_with(B, reclaim(B)), Status::Denied, "a host that held nothing");
    assert_eq!(rig.lock_with(A, reclaim(A)), Status::Granted);
    let read = (ShareAccess::Read, ShareDeny::None);
    assert_eq!(rig.share(B, p::SHARE, &file, read), Status::DeniedGracePeriod);
    assert_eq!(rig.unlock(A, A.lock(&file, 0, 5)), Status::Granted, "giving back is allowed");
    let _record = rig.nfs.state.end_grace();
    assert_eq!(rig.lock(B, true, B.lock(&file, 0, 5)), Status::Granted);
    assert_eq!(rig.lock(B, true, B.lock(&file, 0, 9)), Status::Denied);
    assert_eq!(rig.lock_with(A, reclaim(A)), Status::Denied, "too late");
    let ended = |record: &Record| matches!(record, Record::GraceEnded(_));
    assert!(rig.store.stored.lock().unwrap().iter().any(ended), "stored before the first lock");
}

#[test]
fn share_reservations_exclude_by_what_they_deny() {
    use {ShareAccess as Access, ShareDeny as Deny};
    let (rig, file) = rig();
    let share = |who, mode| rig.share(who, p::SHARE, &file, mode);
    assert_eq!(share(A, (Access::Both, Deny::Write)), Status::Granted);
    assert_eq!(share(B, (Access::Read, Deny::None)), Status::Granted);
    assert_eq!(share(B, (Access::Write, Deny::None)), Status::Denied);
    assert_eq!(share(B, (Access::Read, Deny::Read)), Status::Denied);
    let unshare = |who, mode| rig.share(who, p::UNSHARE, &file, mode);
    assert_eq!(unshare(A, (Access::Both, Deny::Write)), Status::Granted);
    assert_eq!(unshare(A, (Access::Both, Deny::Write)), Status::Granted, "nothing to give back");
    assert_eq!(share(B, (Access::Write, Deny::None)), Status::Granted);
    assert_eq!(unshare(B, (Access::Read, Deny::None)), Status::Granted);
    assert_eq!(unshare(B, (Access::Write, Deny::None)), Status::Granted);
    is_idle(&rig);
}

#[test]
fn free_all_releases_all_locks_of_a_host() {
    let (rig, file) = rig();
    assert_eq!(rig.lock(A, true, A.lock(&file, 0, 10)), Status::Granted);
    assert_eq!(rig.lock(B, true, B.lock(&file, 10, 10)), Status::Granted);
    rig.free_all(B, b"somebody else");
    assert_eq!(rig.lock(B, true, B.lock(&file, 0, 1)), Status::Denied);
    rig.free_all(A, A.addr.as_bytes());
    assert_eq!(rig.lock(B, true, B.lock(&file, 0, 1)), Status::Granted);
    assert_eq!(rig.lock(A, true, A.lock(&file, 10, 1)), Status::Denied);
}

#[test]
fn a_cancel_without_a_request_is_denied() {
    let (rig, file) = rig();
    assert_eq!(rig.cancel(A, true, A.lock(&file, 0, 10)), Status::Denied);
    assert_eq!(rig.lock(A, true, A.lock(&file, 0, 10)), Status::Granted);
    assert_eq!(rig.cancel(A, true, A.lock(&file, 0, 10)), Status::Denied);
    assert_eq!(rig.lock(B, true, B.lock(&file, 0, 10)), Status::Denied, "the lock stays");
}

#[test]
fn unknown_procedures_are_unavailable() {
    let (rig, file) = rig();
    let args = try_args(A.lock(&file, 0, 0));
    assert_eq!(rig.try_call(A, 17, &args), Err(Fault::ProcUnavail));
    assert!(rpc::Program::row(&rig.program, 1, p::SHARE).is_none());
    assert!(rpc::Program::row(&rig.program, 2, p::LOCK).is_none());
    assert_eq!(rpc::Program::versions(&rig.program), [1, 3, 4]);
    let too_much = rig.try_call(A, p::TEST, &args);
    assert!(matches!(too_much, Err(Fault::GarbageArgs(_))), "{too_much:?}");
}

#[test]
fn a_host_at_its_limit_does_not_affect_others() {
    let limits = Limits { ranges_per_host: 64, hosts: 8, ..Limits::default() };
    let rig = Rig::with(file_in_memory(), exports::RW, &Recovery::default(), limits);
    let file = rig.handle("file");
    let granted = |n: u64| rig.lock(A, true, A.lock(&file, 2 * n, 1)) == Status::Granted;
    assert_eq!((0..100).filter(|n| granted(*n)).count(), 63);
    assert_eq!(rig.lock(B, true, B.lock(&file, 1, 1)), Status::Granted);
    let held = (0..20).filter(|n: &u64| {
        let addr = format!("127.0.0.1:{}", 900 + n).leak();
        let who = Owner { addr, svid: 1, ..A };
        rig.lock(who, true, who.lock(&file, 500 + n, 1)) == Status::Granted
    });
    assert_eq!(held.count(), 6, "with the two others there are eight hosts");
    assert_eq!(rig.unlock(A, A.lock(&file, 0, 0)), Status::Granted);
}
