//! The rest of the matrix: what holds over the end of the server, of a connection, and of an export.

use super::locker::{LOCK_APIS, LockApi, Locker, Shared, server};
use crate::rig::text;
use proto::nlm::Status;

const NAMES: [&[u8]; 6] = [b"holder0", b"holder1", b"holder2", b"holder3", b"holder4", b"holder5"];
const ASKERS: [LockApi; 6] = LOCK_APIS;

/// The first byte of what the holder of each way has.
const fn start_of(number: usize) -> u64 {
    100 * (1 + number as u64)
}

fn holders(shared: &Shared) -> Vec<Locker> {
    let new = |(number, api): (usize, &LockApi)| {
        Locker::new(*api, NAMES[number], shared, start_of(number))
    };
    LOCK_APIS.iter().enumerate().map(new).collect()
}

/// Each way asks for what each holder has.
fn nobody_gets_it(shared: &Shared) {
    for asked in ASKERS {
        for (number, holds) in LOCK_APIS.iter().enumerate() {
            if asked.is_client() || holds.is_client() {
                let mut b = Locker::new(asked, b"asker", shared, start_of(number));
                assert!(!b.test(true), "{holds:?} holds, {asked:?} asks");
                assert!(!b.lock(false), "{holds:?} holds, {asked:?} asks");
            }
        }
    }
}

/// The server ends by `end` while each way holds a lock, and starts again.
fn locks_outlive(end: impl Fn(&mut Shared)) {
    let Some(mut shared) = server() else { return };
    let mut all = holders(&shared);
    for a in &mut all {
        assert!(a.gets(true));
    }
    nobody_gets_it(&shared);
    end(&mut shared);
    shared.server.start_again();
    let mut b = Locker::new(LockApi::Nlm4Udp, b"stranger", &shared, start_of(0));
    assert_eq!(b.ask(true, false), Status::DeniedGracePeriod);
    assert_eq!(b.ask(true, true), Status::DeniedGracePeriod, "nobody may wait either");
    assert_eq!(b.reclaim(true), Status::Denied, "it held nothing");
    for a in all.iter_mut().filter(|a| a.is_client()) {
        a.end_and_begin();
        assert_eq!(a.reclaim(true), Status::Granted);
    }
    assert!(shared.server.ask(&["grace", "end"]).status.success());
    nobody_gets_it(&shared);
    for (number, a) in all.iter_mut().enumerate() {
        a.unlock();
        let mut b = Locker::new(LockApi::Nlm3Messages, b"asker", &shared, start_of(number));
        assert!(b.gets(true));
        b.unlock();
    }
    assert_eq!(shared.rows().as_array().unwrap().len(), 0, "nothing stays behind");
}

#[test]
fn locks_of_all_protocols_survive_sigkill() {
    locks_outlive(|shared| shared.server.kill());
}

#[test]
fn locks_of_all_protocols_survive_a_restart() {
    locks_outlive(|shared| {
        shared.server.signal("-TERM");
        assert_eq!(shared.server.ended(), Some(0));
    });
}

#[test]
fn locks_survive_a_connection_loss() {
    let Some(shared) = server() else { return };
    for asked in ASKERS {
        for holds in LOCK_APIS.into_iter().filter(|api| api.is_client()) {
            let mut a = Locker::new(holds, b"holder", &shared, 10);
            let mut b = Locker::new(asked, b"asker", &shared, 10);
            assert!(a.gets(true));
            b.begin_waiting(true);
            a.end_and_begin();
            assert!(b.still_waits(true), "{holds:?} holds, {asked:?} asks");
            assert!(a.gets(true), "it is his");
            a.unlock();
            b.await_grant(true, "after the cut");
            b.unlock();
        }
    }
}

#[test]
fn removing_an_export_releases_its_locks() {
    let Some(shared) = server() else { return };
    for holds in LOCK_APIS.into_iter().filter(|api| api.is_client()) {
        let mut a = Locker::new(holds, b"holder", &shared, 10);
        let mut waits = Locker::new(LockApi::Nlm4Udp, b"asker", &shared, 10);
        let mut local = Locker::new(LockApi::Ofd, b"", &shared, 10);
        assert!(a.gets(true));
        waits.begin_waiting(true);
        assert!(!local.lock(false));
        let said = shared.export(false);
        assert!(said.contains("1 locks in 1 files of removed exports are gone"), "{said}");
        assert!(local.gets(true), "{holds:?}: nobody has it any more");
        local.unlock();
        assert_eq!(shared.rows().as_array().unwrap().len(), 0);
        let refused = a.ask(true, false);
        let version = if matches!(holds, LockApi::Nlm4Tcp | LockApi::Nlm4Udp) { 4 } else { 3 };
        // versions below 4 have no word for a handle of nothing
        let expected = if version == 4 { Status::StaleHandle } else { Status::DeniedNoLocks };
        assert_eq!(refused, expected, "{holds:?}");
        let said = shared.export(true);
        assert!(waits.gets(true), "{holds:?}: {said}");
        waits.unlock();
    }
    let said = text(&shared.server.ask(&["reload"]).stdout);
    assert!(!said.contains("locks"), "{said}");
}
