//! What clients of version 4.1 may have around a restart: claims and the grace period as a table, the edge conditions of
//! RFC 8881 §8.4.3, and what is stored before what.

use crate::v4_world::{ALICE, Answer, BOB, Client, EXCLUSIVE, GRACE, LEASE, READ, Server};
use Answer::{Denied, Grace, NoGrace, Open};
use bowline_state::v4::{Expiry, OpenError, Principal};
use bowline_state::{Admission, FileKey, GraceOutcome, Now, Phase, Record};

/// A client that has the file open, and another that has just closed it; the server is killed and started again.
fn restarted() -> Server {
    let mut server = Server::first();
    assert_eq!(server.phase(0), Phase::Over, "a first start has no grace period");
    for (name, keeps) in [(b"two", false), (b"one", true)] {
        let client = server.client(0, name, 1, ALICE);
        assert!(server.complete(0, &client));
        match keeps {
            true => assert_eq!(server.open(0, &client, false, EXCLUSIVE), Open),
            false => server.open_and_close(0, &client),
        }
    }
    server.restart();
    server
}

#[test]
fn claims_in_and_after_the_grace_period() {
    /// When, who, whether after RECLAIM_COMPLETE, whether a reclaim, and what it comes to.
    type Case = (&'static str, &'static [u8], Principal, bool, bool, Answer);
    const CASES: [Case; 20] = [
        ("grace", b"one", ALICE, false, true, Open),
        ("grace", b"one", ALICE, false, false, Grace),
        ("grace", b"one", ALICE, true, true, NoGrace),
        ("grace", b"one", ALICE, true, false, Grace),
        // another user who calls himself the same
        ("grace", b"one", BOB, false, true, NoGrace),
        ("grace", b"one", BOB, false, false, Grace),
        // it had nothing any more, which is not stored at once
        ("grace", b"two", ALICE, false, true, Open),
        ("grace", b"two", ALICE, true, true, NoGrace),
        // never seen before
        ("grace", b"new", ALICE, false, true, NoGrace),
        ("grace", b"new", ALICE, false, false, Grace),
        ("grace", b"new", ALICE, true, false, Grace),
        ("after", b"one", ALICE, false, true, NoGrace),
        ("after", b"one", ALICE, false, false, Grace),
        ("after", b"one", ALICE, true, true, NoGrace),
        ("after", b"one", ALICE, true, false, Open),
        ("after", b"two", ALICE, true, false, Open),
        ("after", b"new", ALICE, false, true, NoGrace),
        ("after", b"new", ALICE, false, false, Grace),
        ("after", b"new", ALICE, true, true, NoGrace),
        ("after", b"new", ALICE, true, false, Open),
    ];
    for (when, name, principal, complete, reclaim, expected) in CASES {
        let mut server = restarted();
        let now = if when == "grace" { 1000 } else { GRACE + 1000 };
        let client = server.client(now, name, 1, principal);
        if complete {
            assert!(server.complete(now, &client));
            assert!(!server.complete(now, &client), "COMPLETE_ALREADY");
        }
        let case = (when, String::from_utf8_lossy(name), complete, reclaim);
        assert_eq!(server.open(now, &client, reclaim, EXCLUSIVE), expected, "{case:?}");
    }
}

#[test]
fn grace_ends_when_every_client_of_before_is_done() {
    let mut server = restarted();
    let (one, new) = (server.client(10, b"one", 1, ALICE), server.client(10, b"new", 1, ALICE));
    assert!(server.complete(10, &new));
    assert_eq!(server.open(20, &one, true, EXCLUSIVE), Open);
    assert!(server.complete(30, &one));
    assert_eq!(server.open(40, &new, false, READ), Grace, "the other one is missing");
    let clients = server.locks.grace_clients();
    let told = |at: usize| (clients[at].reclaimed, clients[at].done);
    assert_eq!((told(0), told(1)), ((true, true), (false, false)));
    let two = server.client(50, b"two", 1, ALICE);
    assert!(server.complete(50, &two));
    assert_eq!(
        server.open(60, &new, false, READ),
        Denied,
        "at once, and what was reclaimed counts"
    );
    assert!(server.stored.iter().any(|record| matches!(record, Record::GraceEnded(_))));
    // those that came back last count as well, and who reclaimed nothing is done
    let outcome = GraceOutcome { clients: 2, reclaimed: 1, silent: 0 };
    assert_eq!(server.locks.grace_outcome(), outcome);
}

#[test]
fn grace_is_extended_while_clients_reclaim_to_twice_its_length() {
    let mut server = restarted();
    let one = server.client(GRACE - 500, b"one", 1, ALICE);
    for now in (GRACE - 500..2 * GRACE).step_by(1000) {
        assert_eq!(server.open(now, &one, true, READ), Open, "{now}");
    }
    assert_eq!(server.open(2 * GRACE, &one, true, READ), NoGrace);
    let mut server = restarted();
    let one = server.client(1000, b"one", 1, ALICE);
    assert_eq!(server.open(1000, &one, true, READ), Open);
    assert_eq!(server.phase(GRACE - 1), Phase::Reclaiming);
    assert_eq!(server.phase(GRACE), Phase::Ending, "nobody has for a while");
}

/// The first edge condition of RFC 8881 §8.4.3: the lease expires, another gets the file, the server restarts.
#[test]
fn a_client_whose_state_another_got_may_not_reclaim() {
    let mut server = Server::first();
    let one = server.client(0, b"one", 1, ALICE);
    server.complete(0, &one);
    assert_eq!(server.open(0, &one, false, EXCLUSIVE), Open);
    let two = server.client(LEASE + 1000, b"two", 1, ALICE);
    server.complete(LEASE + 1000, &two);
    assert_eq!(server.open(LEASE + 1000, &two, false, EXCLUSIVE), Open, "a courtesy client's");
    assert_eq!(server.open(LEASE + 1000, &one, false, READ), Answer::BadSession);
    let before = server.stored.iter().position(|r| matches!(r, Record::ClientGone(..))).unwrap();
    assert_eq!(before + 1, server.stored.len(), "nothing is stored between that and the grant");
    server.restart();
    let one = server.client(0, b"one", 1, ALICE);
    assert_eq!(server.open(0, &one, true, EXCLUSIVE), NoGrace);
    let two = server.client(0, b"two", 1, ALICE);
    assert_eq!(server.open(0, &two, true, EXCLUSIVE), Open);
}

/// The second one: the server restarts twice, and between that the client did not reclaim while others got what it had.
#[test]
fn a_client_that_missed_a_grace_period_may_not_reclaim_in_the_next() {
    let mut server = restarted();
    // it begins, and does not get to the end
    let one = server.client(10, b"one", 1, ALICE);
    assert_eq!(server.open(10, &one, true, READ), Open);
    let two = server.client(GRACE + 5000, b"two", 1, ALICE);
    server.complete(GRACE + 5000, &two);
    assert_eq!(server.open(GRACE + 5000, &two, false, READ), Open);
    server.restart();
    let one = server.client(0, b"one", 1, ALICE);
    assert_eq!(server.open(0, &one, true, READ), NoGrace);
    let two = server.client(0, b"two", 1, ALICE);
    assert_eq!(server.open(0, &two, true, READ), Open);
}

#[test]
fn a_crash_within_grace_keeps_the_list() {
    let mut server = restarted();
    let one = server.client(10, b"one", 1, ALICE);
    assert_eq!(server.open(10, &one, true, EXCLUSIVE), Open);
    server.complete(10, &one);
    server.restart();
    for name in [&b"one"[..], b"two"] {
        let client = server.client(0, name, 1, ALICE);
        assert_eq!(server.open(0, &client, true, READ), Open);
    }
}

#[test]
fn a_client_that_is_destroyed_or_restarts_is_not_waited_for() {
    let mut server = Server::first();
    let one = server.client(0, b"one", 1, ALICE);
    server.complete(0, &one);
    server.open_and_close(0, &one);
    server.v4.destroy_session(&one.session).unwrap();
    server.v4.destroy_client(one.id).unwrap();
    server.forget();
    let two = server.client(0, b"two", 1, ALICE);
    server.complete(0, &two);
    assert_eq!(server.open(0, &two, false, EXCLUSIVE), Open);
    // it has lost everything itself, and has got nothing since
    server.client(0, b"two", 2, ALICE);
    server.forget();
    server.restart();
    assert_eq!(server.phase(0), Phase::Over, "{:?}", server.stored);
}

#[test]
fn what_is_forgotten_late_does_not_harm_the_next_life() {
    let mut server = Server::first();
    let one = server.client(0, b"one", 1, ALICE);
    server.complete(0, &one);
    server.open_and_close(0, &one);
    // the end of the first life is noted, and stored after the beginning of the next
    let again = server.client(0, b"one", 2, ALICE);
    server.complete(0, &again);
    assert_eq!(server.open(0, &again, false, EXCLUSIVE), Open);
    server.forget();
    server.restart();
    let one = server.client(0, b"one", 2, ALICE);
    assert_eq!(server.open(0, &one, true, EXCLUSIVE), Open);
}

#[test]
fn a_client_that_leaves_waits_and_stays_if_the_store_fails() {
    let mut server = Server::first();
    let one = server.client(0, b"one", 1, ALICE);
    server.complete(0, &one);
    assert_eq!(server.open(0, &one, false, EXCLUSIVE), Open);
    assert_eq!(server.v4.begin_expiry(Now(LEASE), one.id), Expiry::Lives);
    let Expiry::Store(_) = server.v4.begin_expiry(Now(LEASE + 1000), one.id) else { panic!() };
    let calls = |number| {
        let reading = server.v4.read();
        let session = reading.session(&one.session).unwrap();
        session.sequence(Now(LEASE + 1002), (0, number), 0, 7).is_ok()
    };
    assert!(!calls(1), "its requests wait");
    server.v4.cancel_expiry(one.id);
    assert!(calls(1));
    assert_eq!(server.v4.begin_expiry(Now(LEASE + 1003), one.id), Expiry::Lives, "it has called");
    assert_eq!(server.v4.open_count(), 1);
}

/// How often [`Record::Client`] and [`Record::ClientGone`] are stored.
fn client_records(server: &Server) -> (usize, usize) {
    let count = |is: fn(&Record) -> bool| server.stored.iter().filter(|record| is(record)).count();
    (count(|r| matches!(r, Record::Client(_))), count(|r| matches!(r, Record::ClientGone(..))))
}

#[test]
fn a_client_that_has_nothing_is_not_recorded_and_not_waited_for() {
    let mut server = Server::first();
    let mounted = server.client(0, b"mounted", 1, ALICE);
    server.complete(0, &mounted);
    assert_eq!(client_records(&server), (0, 0), "a mount stores nothing");
    let idle = server.client(0, b"idle", 1, ALICE);
    server.complete(0, &idle);
    server.open_and_close(0, &idle);
    server.v4.sweep_idle();
    server.forget();
    server.open_and_close(0, &idle);
    server.v4.sweep_idle();
    server.forget();
    assert_eq!(client_records(&server), (1, 0), "it opens something now and then");
    server.v4.sweep_idle();
    server.forget();
    assert_eq!(client_records(&server), (1, 1), "it has had nothing for a while");
    server.v4.sweep_idle();
    server.forget();
    assert_eq!(client_records(&server), (1, 1));
    server.restart();
    assert_eq!(server.phase(0), Phase::Over, "{:?}", server.stored);
}

#[test]
fn a_client_with_something_keeps_its_record() {
    let mut server = Server::first();
    let one = server.client(0, b"one", 1, ALICE);
    server.complete(0, &one);
    assert_eq!(server.open(0, &one, false, READ), Open);
    (0..4).for_each(|_| server.v4.sweep_idle());
    server.forget();
    assert_eq!(client_records(&server), (1, 0));
    server.restart();
    let one = server.client(0, b"one", 1, ALICE);
    assert_eq!(server.open(0, &one, true, READ), Open);
    // what it has got back is as good
    server.complete(0, &one);
    (0..4).for_each(|_| server.v4.sweep_idle());
    server.forget();
    server.restart();
    let one = server.client(0, b"one", 1, ALICE);
    assert_eq!(server.open(0, &one, true, READ), Open);
}

/// Whichever of the two is stored first: that the client had nothing, or that it is about to have something.
#[test]
fn a_record_that_is_taken_back_late_does_not_harm_the_next_one() {
    for late in [false, true] {
        let mut server = Server::first();
        let one = server.client(0, b"one", 1, ALICE);
        server.complete(0, &one);
        server.open_and_close(0, &one);
        server.v4.sweep_idle();
        server.v4.sweep_idle();
        if !late {
            server.forget();
        }
        assert_eq!(server.open(0, &one, false, READ), Open);
        server.forget();
        assert_eq!(client_records(&server), (2, 1));
        server.restart();
        let one = server.client(0, b"one", 1, ALICE);
        assert_eq!(server.open(0, &one, true, READ), Open, "late: {late}");
    }
}

/// An OPEN was let through, and the record is taken back before it gets anything; and a record that was stored before it
/// was taken back is not taken for the new one.
#[test]
fn nothing_is_given_between_the_taking_back_of_a_record_and_the_next() {
    let mut server = Server::first();
    let one = server.client(0, b"one", 1, ALICE);
    server.complete(0, &one);
    server.open_and_close(0, &one);
    let old = server.stored.iter().find_map(|record| match record {
        Record::Client(client) => Some(client.clone()),
        _ => None,
    });
    server.v4.sweep_idle();
    server.v4.sweep_idle();
    assert_eq!(server.share(0, &one, false, READ), Err(OpenError::NotRecorded));
    {
        let reading = server.v4.read();
        let session = reading.session(&one.session).unwrap();
        server.v4.client_recorded(session.requester(), &old.unwrap());
        assert!(matches!(
            session.requester().admit(Now(0), &server.locks, false),
            Admission::Store(Record::Client(_))
        ));
    }
    assert_eq!(server.share(0, &one, false, READ), Err(OpenError::NotRecorded));
    assert_eq!(server.open(0, &one, false, READ), Open);
}

/// Clients that come back at once, each with a file of its own: each looks at no more than what is its own.
#[test]
fn ten_thousand_clients_come_back_at_once() {
    const CLIENTS: u32 = 10_000;
    let mut server = Server::first();
    let known = |server: &Server, number: u32| {
        let file = FileKey::new(&number.to_be_bytes()).unwrap();
        Client { file, ..server.client(1, &number.to_be_bytes(), 1, ALICE) }
    };
    for number in 0..CLIENTS {
        let client = known(&server, number);
        server.complete(1, &client);
        assert_eq!(server.open(1, &client, false, READ), Open);
    }
    server.restart();
    let begun = std::time::Instant::now();
    assert!(server.locks.in_grace(Now(1)));
    for number in (0..CLIENTS).rev() {
        let client = known(&server, number);
        assert_eq!(server.open(1, &client, true, READ), Open);
        assert!(server.locks.in_grace(Now(1)));
        server.complete(1, &client);
    }
    println!("{CLIENTS} clients reclaimed in {:?}", begun.elapsed());
    assert_eq!(server.phase(1), Phase::Ending, "at once");
    let new = Client { file: FileKey::new(&[0; 4]).unwrap(), ..server.client(1, b"new", 1, ALICE) };
    server.complete(1, &new);
    assert_eq!(server.open(1, &new, false, EXCLUSIVE), Denied);
    assert_eq!(server.v4.open_count(), CLIENTS as usize);
}
