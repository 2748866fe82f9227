//! What clients of version 4.1 may have around a restart: claims and the grace period as a table, the edge conditions of
//! RFC 8881 §8.4.3, and what is stored before what.

use bowline_state::v4::{
    ChannelLimits, CreateSession, ExchangeId, Expiry, OpenError, OpenRequest, Principal, SessionId,
    V4Limits, V4State,
};
use bowline_state::{
    Admission, FileKey, Limits, Now, Phase, Record, Recovery, ShareBits, ShareMode, State,
};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

const LEASE: u64 = 60_000;
const GRACE: u64 = 60_000;
const ALICE: Principal = Principal { flavor: 1, user: 0 };
const BOB: Principal = Principal { flavor: 1, user: 1000 };
const READ: ShareMode = ShareMode { access: ShareBits::READ, deny: ShareBits::NONE };
const EXCLUSIVE: ShareMode = ShareMode { access: ShareBits::BOTH, deny: ShareBits::BOTH };

fn random() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Relaxed).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// A server with its store, which can be killed at any time.
struct Server {
    locks: State,
    v4: V4State,
    stored: Vec<Record>,
}

impl Server {
    fn first() -> Self {
        Self::start(Vec::new())
    }

    fn start(mut stored: Vec<Record>) -> Self {
        let recovery = Recovery::of(stored.iter().cloned());
        stored.extend(recovery.start_records());
        let limits = Limits { grace_ms: GRACE, ..Limits::default() };
        let locks = State::new(&recovery, Now(0), limits, 1);
        let v4 = V4State::new(random() as u32, random, V4Limits::default());
        Self { locks, v4: v4.with_epoch(recovery.instance() + 1), stored }
    }

    /// Killed, and started again.
    fn restart(&mut self) {
        *self = Self::start(std::mem::take(&mut self.stored));
    }

    fn store(&mut self, record: Record) {
        let _nothing = self.locks.persisted(Now(0), &record);
        self.stored.push(record);
    }

    fn phase(&self, now: u64) -> Phase {
        self.locks.grace_period(Now(now)).0
    }

    /// A client with a session that has said nothing yet.
    fn client(&self, now: u64, name: &[u8], verifier: u8, principal: Principal) -> Client {
        let address = "127.0.0.1".parse().unwrap();
        let verifier = [verifier; 8];
        let who = ExchangeId { owner: name, verifier, principal, address, update: false };
        let known = self.v4.exchange_id(Now(now), &who).unwrap();
        let limits = ChannelLimits {
            request_bytes: 4096,
            response_bytes: 4096,
            cached_bytes: 1024,
            operations: 16,
            slots: 4,
        };
        let (client_id, sequence) = (known.client_id, known.sequence);
        let back_channel = false;
        let want = CreateSession { client_id, sequence, principal, limits, back_channel };
        let session = self.v4.create_session(Now(now), &want).unwrap().session;
        Client { id: client_id, session }
    }

    /// RECLAIM_COMPLETE: false if it had been sent before.
    fn complete(&mut self, now: u64, client: &Client) -> bool {
        let (record, before) = {
            let reading = self.v4.read();
            let session = reading.session(&client.session).unwrap();
            (session.requester().completion_record(), session.requester().has_reclaimed())
        };
        if let Some(record) = record.filter(|_| !before) {
            self.store(record);
            let reading = self.v4.read();
            self.v4.client_recorded(reading.session(&client.session).unwrap().requester());
        }
        let reading = self.v4.read();
        let session = reading.session(&client.session).unwrap();
        session.requester().complete_reclaim(Now(now), &self.locks)
    }

    /// OPEN as the server does it: records first.
    fn open(&mut self, now: u64, client: &Client, reclaim: bool, mode: ShareMode) -> Answer {
        for _ in 0..8 {
            let admitted = {
                let reading = self.v4.read();
                let Some(session) = reading.session(&client.session) else {
                    return Answer::BadSession;
                };
                session.requester().admit(Now(now), &self.locks, reclaim)
            };
            match admitted {
                Admission::Grace => return Answer::Grace,
                Admission::NoGrace => return Answer::NoGrace,
                Admission::Store(record) => {
                    let of_client = matches!(record, Record::Client(_));
                    self.store(record);
                    if of_client {
                        let reading = self.v4.read();
                        self.v4
                            .client_recorded(reading.session(&client.session).unwrap().requester());
                    }
                }
                Admission::Go => match self.share(now, client, reclaim, mode) {
                    Ok(()) => return Answer::Open,
                    Err(OpenError::Expired(clients)) => {
                        clients.into_iter().for_each(|other| self.expire(now, other));
                    }
                    Err(OpenError::ShareDenied) => return Answer::Denied,
                    Err(other) => panic!("{other:?}"),
                },
            }
        }
        panic!("no answer")
    }

    fn share(
        &self,
        now: u64,
        client: &Client,
        reclaim: bool,
        mode: ShareMode,
    ) -> Result<(), OpenError> {
        let may_reclaim = || self.locks.may_reclaim();
        let reading = self.v4.read();
        let session = reading.session(&client.session).unwrap();
        let reclaimed: Option<&dyn Fn() -> bool> = if reclaim { Some(&may_reclaim) } else { None };
        let file = FileKey::new(b"file").unwrap();
        let request = OpenRequest { file, owner: b"owner", mode, reclaim: reclaimed };
        self.v4.open(Now(now), session, &request, Box::new(()))?;
        if reclaim {
            session.requester().reclaimed(Now(now), &self.locks);
        }
        Ok(())
    }

    fn expire(&mut self, now: u64, client: u64) {
        match self.v4.begin_expiry(Now(now), client) {
            Expiry::Store(record) => {
                self.store(record);
                self.v4.finish_expiry(client);
            }
            Expiry::Ended | Expiry::Lives => {}
        }
    }

    fn forget(&mut self) {
        self.v4.take_forgotten().into_iter().for_each(|record| self.store(record));
    }
}

#[derive(Clone, Copy)]
struct Client {
    id: u64,
    session: SessionId,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    Open,
    Grace,
    NoGrace,
    Denied,
    BadSession,
}
use Answer::{Denied, Grace, NoGrace, Open};

/// A client that has the file open, and another that is known and has nothing; the server is killed and started again.
fn restarted() -> Server {
    let mut server = Server::first();
    assert_eq!(server.phase(0), Phase::Over, "a first start has no grace period");
    for (name, opens) in [(b"one", true), (b"two", false)] {
        let client = server.client(0, name, 1, ALICE);
        assert!(server.complete(0, &client));
        if opens {
            assert_eq!(server.open(0, &client, false, EXCLUSIVE), Open);
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
        // it had nothing, but the server cannot know
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
    let Expiry::Store(_) = server.v4.begin_expiry(Now(LEASE + 1), one.id) else { panic!() };
    let calls = |number| {
        let reading = server.v4.read();
        let session = reading.session(&one.session).unwrap();
        session.sequence(Now(LEASE + 2), (0, number), 0, 7).is_ok()
    };
    assert!(!calls(1), "its requests wait");
    server.v4.cancel_expiry(one.id);
    assert!(calls(1));
    assert_eq!(server.v4.begin_expiry(Now(LEASE + 3), one.id), Expiry::Lives, "it has called");
    assert_eq!(server.v4.open_count(), 1);
}
