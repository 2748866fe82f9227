//! Locks of a live server: who holds one keeps others from it, whichever way each of them comes, until it is given
//! back or its holder is gone.

mod locker;
mod matrix;
mod restarts;

use crate::rig::text;
use locker::{LockApi, Locker, server};
use proto::nlm::Status;

#[test]
fn the_operator_can_list_and_release_locks() {
    let Some(server) = server() else { return };
    let mut a = Locker::new(LockApi::Nlm4Tcp, b"holder", &server, 10);
    let mut b = Locker::new(LockApi::Nlm4Udp, b"asker", &server, 10);
    assert!(a.lock(true));
    assert_eq!(b.ask(false, true), Status::Blocked);
    let rows = server.rows();
    let path = server.path();
    assert_eq!(rows[0]["client"], "holder");
    assert_eq!(rows[0]["address"], "127.0.0.1");
    assert_eq!(rows[0]["file"], path.to_str().unwrap());
    assert_eq!((&rows[0]["kind"], &rows[0]["mode"]), (&"lock".into(), &"write".into()));
    assert_eq!((&rows[0]["start"], &rows[0]["end"]), (&10.into(), &19.into()));
    assert_eq!((&rows[1]["client"], &rows[1]["kind"]), (&"asker".into(), &"waiting".into()));
    assert!(rows[1]["waiting_ms"].is_number());
    let table = text(&server.server.ask(&["locks"]).stdout);
    assert!(table.contains("hello.txt") && table.contains("10..19"), "{table}");

    let nobody = server.server.ask(&["release", "nobody"]);
    assert!(text(&nobody.stderr).contains("bowline locks"), "{}", text(&nobody.stderr));
    let released = text(&server.server.ask(&["release", "holder"]).stdout);
    assert_eq!(released, "released 1 locks of 1 clients\n");
    assert_eq!(b.ask(false, true), Status::Granted);
    assert!(!a.lock(true), "it can lock again like anybody");
    let released = text(&server.server.ask(&["release", path.to_str().unwrap()]).stdout);
    assert_eq!(released, "released 1 locks of 1 files\n");
    assert!(a.lock(true));
    a.unlock();
}

#[test]
fn locks_survive_a_reload() {
    let Some(server) = server() else { return };
    let mut a = Locker::new(LockApi::Nlm4Tcp, b"holder", &server, 10);
    let mut b = Locker::new(LockApi::Ofd, b"asker", &server, 10);
    assert!(a.lock(true));
    assert!(server.server.ask(&["reload"]).status.success());
    assert!(!b.lock(false));
    a.unlock();
    assert!(b.lock(true));
}
