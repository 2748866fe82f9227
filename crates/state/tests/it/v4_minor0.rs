//! Version 4.0: the cases of SETCLIENTID and SETCLIENTID_CONFIRM as a table, and the numbers of owners' requests.

use crate::v4_world::{ALICE, BOB, EXCLUSIVE, HERE, LEASE, READ, core, exchange_id_of, random};
use bowline_state::v4::{
    Begun, Callback, CallbackCredential, CallbackPath, ClientIdError, ClientNames, Expiry,
    KeptReply, LockBegun, LockOwnerName, NameConflictKind, OpenError, Opened, OwnerError,
    OwnerTicket, Principal, Reading, ReleaseError, Request, SetClientId, Stateid, StateidAccess,
    StateidError, V4Limits, V4State,
};
use bowline_state::{
    Caller, FileKey, Limits, Now, Recovery, ShareBits, ShareMode, State, Transport, Who,
};
use std::sync::Arc;

/// Numbers of operations, as far as they matter here.
const OPEN: u32 = 18;
const CLOSE: u32 = 4;
const LOCK: u32 = 12;

fn state() -> V4State {
    V4State::new(core(), 7, random, V4Limits::default())
}

fn file(name: u8) -> FileKey {
    FileKey::new(&[name]).unwrap()
}

fn callback(ident: u32) -> Arc<Callback> {
    let credential = CallbackCredential::None;
    Arc::new(Callback::new((0x4000_0000, ident), (HERE, HERE), Some(1000), credential))
}

fn set(
    state: &V4State,
    now: u64,
    verifier: u8,
    principal: Principal,
    ident: u32,
) -> Result<ClientNames, ClientIdError> {
    let callback = callback(ident);
    let who = SetClientId { name: b"client", verifier: [verifier; 8], principal, callback };
    state.set_client_id(Now(now), &who)
}

fn confirm(
    state: &V4State,
    now: u64,
    names: ClientNames,
    principal: Principal,
) -> Result<Option<u32>, ClientIdError> {
    let confirmed = state.confirm_client_id(Now(now), (names.client_id, names.confirm), principal);
    confirmed.map(|callback| callback.map(|callback| callback.ident))
}

/// A confirmed client of another name.
fn client(state: &V4State, name: &[u8]) -> u64 {
    let who = SetClientId { name, verifier: [1; 8], principal: ALICE, callback: callback(1) };
    let names = state.set_client_id(Now(0), &who).unwrap();
    confirm(state, 0, names, ALICE).unwrap();
    names.client_id
}

fn request(seqid: u32, op: u32) -> Request {
    Request { seqid, op, hash: 1, user: ALICE }
}

fn reply(status: u32) -> KeptReply {
    KeptReply { status, result: vec![1, 2], handle: Vec::new() }
}

fn run(begun: Result<Begun, OwnerError>) -> OwnerTicket {
    match begun {
        Ok(Begun::Run(ticket)) => ticket,
        other => panic!("{other:?}"),
    }
}

/// An owner's OPEN of a file, which is answered.
fn opened(state: &V4State, client: u64, (owner, seqid): (&[u8], u32), mode: ShareMode) -> Opened {
    let ticket = run(state.begin_open(Now(0), (client, owner), request(seqid, OPEN)));
    let opened = state
        .open_by_owner(Now(0), &ticket, (file(1), mode), None, &mut Some(Box::new(())))
        .unwrap();
    state.finish_request(ticket, reply(0));
    opened
}

/// The same, confirmed: the next number is 3.
fn confirmed(state: &V4State, reading: &Reading<'_>, client: u64, owner: &[u8]) -> Stateid {
    let opened = opened(state, client, (owner, 1), READ);
    let ticket = run(state.begin_by_open(Now(0), reading, opened.stateid, request(2, 20)));
    let stateid = state.confirm_open(reading, &ticket, opened.stateid, &file(1)).unwrap();
    state.finish_request(ticket, reply(0));
    stateid
}

#[test]
fn two_machines_of_one_name_are_told() {
    let state = state();
    for verifier in [1, 2, 1, 2] {
        let names = set(&state, 0, verifier, ALICE, 1).unwrap();
        confirm(&state, 0, names, ALICE).unwrap();
    }
    let told: Vec<_> = state.take_name_conflicts().into_iter().map(|told| told.kind).collect();
    assert_eq!(told, [NameConflictKind::TakeTurns]);
    let names = set(&state, 0, 2, ALICE, 1).unwrap();
    confirm(&state, 0, names, ALICE).unwrap();
    opened(&state, names.client_id, (b"owner", 1), READ);
    assert_eq!(set(&state, 0, 3, BOB, 1), Err(ClientIdError::InUse));
    let told: Vec<_> = state.take_name_conflicts().into_iter().map(|told| told.kind).collect();
    assert_eq!(told, [NameConflictKind::OtherUser]);
}

#[test]
fn setclientid_and_its_confirmation_have_the_cases_of_the_rfc() {
    use ClientIdError::{InUse, Stale};
    let state = state();
    let (read, open_state) = (state.read(), |id| state.renew_client(Now(0), id));
    // nothing is known: an unconfirmed record; and SETCLIENTID_CONFIRM of what is not known
    let nobody = ClientNames { client_id: 1, confirm: [1; 8] };
    assert_eq!(confirm(&state, 0, nobody, ALICE), Err(Stale));
    let first = set(&state, 0, 1, ALICE, 10).unwrap();
    assert_ne!(first.confirm, [0; 8]);
    assert_eq!(open_state(first.client_id), Err(OwnerError::StaleClientId), "not confirmed");
    // an unconfirmed record is replaced, whoever made it, and with the same verifier as well
    let second = set(&state, 0, 1, ALICE, 11).unwrap();
    assert!(second.client_id != first.client_id && second.confirm != first.confirm);
    assert_eq!(confirm(&state, 0, first, ALICE), Err(Stale));
    // no confirmed record of the id: by another principal, with another word, right, and again after a lost answer
    assert_eq!(confirm(&state, 0, second, BOB), Err(InUse));
    let wrong = ClientNames { confirm: first.confirm, ..second };
    assert_eq!(confirm(&state, 0, wrong, ALICE), Err(Stale));
    assert_eq!(confirm(&state, 0, second, ALICE), Ok(Some(11)));
    assert_eq!(confirm(&state, 0, second, ALICE), Ok(None));
    assert_eq!(confirm(&state, 0, second, BOB), Err(InUse));
    // the same verifier: other callbacks, the same id, another word; what the client has stays
    let stateid = confirmed(&state, &read, second.client_id, b"owner");
    let update = set(&state, 0, 1, ALICE, 12).unwrap();
    assert!(update.client_id == second.client_id && update.confirm != second.confirm);
    assert_eq!(state.callback_of(second.client_id).unwrap().ident, 11, "not confirmed");
    assert_eq!(confirm(&state, 0, second, ALICE), Ok(None), "the word of the confirmed record");
    assert_eq!(confirm(&state, 0, update, BOB), Err(InUse));
    let newer = set(&state, 0, 1, ALICE, 13).unwrap();
    assert_eq!(confirm(&state, 0, update, ALICE), Err(Stale), "replaced by a newer update");
    assert_eq!(confirm(&state, 0, newer, ALICE), Ok(Some(13)));
    assert_eq!(confirm(&state, 0, second, ALICE), Err(Stale));
    assert_eq!(state.open_count(), 1);
    // another principal, as long as the client has state and a lease
    assert_eq!(set(&state, 0, 1, BOB, 14), Err(InUse));
    // another verifier: another id; what the client had stays until that is confirmed
    let restarted = set(&state, 0, 2, ALICE, 15).unwrap();
    assert_ne!(restarted.client_id, second.client_id);
    let again = set(&state, 0, 3, ALICE, 16).unwrap();
    assert!(again.client_id != restarted.client_id && again.confirm != restarted.confirm);
    assert_eq!(confirm(&state, 0, restarted, ALICE), Err(Stale));
    assert_eq!((state.open_count(), open_state(second.client_id)), (1, Ok(())));
    assert_eq!(confirm(&state, 0, again, ALICE), Ok(Some(16)));
    assert_eq!((state.open_count(), open_state(second.client_id)), (0, Err(OwnerError::Expired)));
    let lost = state.begin_by_open(Now(0), &read, stateid, request(3, CLOSE)).unwrap_err();
    assert_eq!(lost, OwnerError::Stateid(StateidError::Expired));
    // another principal once there is no state (RFC 7530 §9.1.2)
    let other = set(&state, 0, 3, BOB, 17).unwrap();
    assert_ne!(other.client_id, again.client_id);
    assert_eq!(confirm(&state, 0, other, BOB), Ok(Some(17)));
    assert_eq!(confirm(&state, 0, again, ALICE), Err(Stale));
}

#[test]
fn clients_of_4_0_and_4_1_of_one_name_are_two() {
    let state = state();
    let names = set(&state, 0, 1, ALICE, 1).unwrap();
    confirm(&state, 0, names, ALICE).unwrap();
    let known = state.exchange_id(Now(0), &exchange_id_of(b"client", 1, ALICE)).unwrap();
    assert!(!known.confirmed && known.client_id != names.client_id);
    assert_eq!(state.renew_client(Now(0), known.client_id), Err(OwnerError::StaleClientId));
    assert_eq!(state.renew_client(Now(0), names.client_id), Ok(()));
}

#[test]
fn a_way_of_callbacks_without_a_port_is_down() {
    let other = Callback::new((1, 2), (HERE, HERE), None, CallbackCredential::None);
    assert_eq!(other.path(), CallbackPath::Down);
    let known = callback(1);
    assert_eq!(known.path(), CallbackPath::Unknown);
    known.tried(true);
    assert_eq!(known.path(), CallbackPath::Up);
    known.tried(false);
    assert_eq!(known.path(), CallbackPath::Down);
}

#[test]
fn requests_of_an_owner_run_in_the_order_of_their_numbers() {
    let state = state();
    let reading = state.read();
    let id = client(&state, b"a");
    let stateid = confirmed(&state, &reading, id, b"owner");
    let begin = |seqid, op| state.begin_open(Now(0), (id, b"owner"), request(seqid, op));
    // the last one again, other operations and arguments with its number, numbers before and behind
    let by_open = |request| state.begin_by_open(Now(0), &reading, stateid, request);
    assert!(matches!(by_open(request(2, 20)), Ok(Begun::Replay(kept)) if kept == reply(0)));
    assert_eq!(begin(2, OPEN).unwrap_err(), OwnerError::BadSeqid);
    let other = Request { hash: 2, ..request(2, 20) };
    assert_eq!(by_open(other).unwrap_err(), OwnerError::BadSeqid);
    for seqid in [0, 1, 4, u32::MAX] {
        assert_eq!(begin(seqid, OPEN).unwrap_err(), OwnerError::BadSeqid);
    }
    // one at a time; a request whose ticket is dropped has not been
    let ticket = run(begin(3, OPEN));
    assert_eq!(begin(3, OPEN).unwrap_err(), OwnerError::Running);
    drop(ticket);
    let ticket = run(begin(3, OPEN));
    state.finish_request(ticket, reply(2));
    assert!(matches!(begin(3, OPEN), Ok(Begun::Replay(kept)) if kept.status == 2));
    // the highest number is followed by 1; some clients go on with 0
    for first in [0, 1] {
        let owner = [first as u8];
        let opened = opened(&state, id, (&owner, u32::MAX - 1), READ);
        let ticket =
            run(state.begin_by_open(Now(0), &reading, opened.stateid, request(u32::MAX, 20)));
        state.confirm_open(&reading, &ticket, opened.stateid, &file(1)).unwrap();
        state.finish_request(ticket, reply(0));
        run(state.begin_open(Now(0), (id, &owner), request(first, OPEN)));
    }
    let gone = state.begin_open(Now(0), (9, b"owner"), request(1, OPEN)).unwrap_err();
    assert_eq!(gone, OwnerError::StaleClientId);
}

#[test]
fn the_first_open_of_an_owner_is_confirmed_before_anything_else() {
    let state = state();
    let reading = state.read();
    let id = client(&state, b"a");
    let first = opened(&state, id, (b"owner", 5), READ);
    let usable = |stateid| {
        state.check_access(Now(0), &reading, stateid, &file(1), ShareBits::READ).map(drop)
    };
    assert_eq!(usable(first.stateid), Err(StateidError::Bad));
    // sent again it gets the same answer; with any other number it is another OPEN, which takes back the first one
    let again = state.begin_open(Now(0), (id, b"owner"), request(5, OPEN));
    assert!(matches!(again, Ok(Begun::Replay(_))));
    let second = opened(&state, id, (b"owner", 40), READ);
    assert_ne!(second.stateid.other, first.stateid.other);
    assert_eq!(state.open_count(), 1);
    let begun = state.begin_by_open(Now(0), &reading, first.stateid, request(6, 20));
    assert_eq!(begun.unwrap_err(), OwnerError::Stateid(StateidError::Bad));
    // nothing but OPEN_CONFIRM; and that of the right stateid only
    let mut ticket = run(state.begin_by_open(Now(0), &reading, second.stateid, request(41, CLOSE)));
    let closed = state.close_by_owner(&reading, &mut ticket, second.stateid, &file(1));
    assert_eq!(closed, Err(StateidError::Bad));
    drop(ticket);
    let ticket = run(state.begin_by_open(Now(0), &reading, second.stateid, request(41, 20)));
    let confirm = |stateid, name| state.confirm_open(&reading, &ticket, stateid, &file(name));
    assert_eq!(confirm(second.stateid, 2), Err(StateidError::Bad), "another file");
    let stateid = confirm(second.stateid, 1).unwrap();
    assert_eq!(stateid, Stateid { seqid: 2, ..second.stateid });
    assert_eq!(confirm(stateid, 1), Err(StateidError::Bad), "confirmed already");
    state.finish_request(ticket, reply(0));
    assert_eq!(usable(stateid), Ok(()));
    assert_eq!(usable(second.stateid), Err(StateidError::Old));
    // a wrong number takes an unconfirmed OPEN back, and leaves a confirmed one alone
    let third = opened(&state, id, (b"third", 1), READ);
    state.take_back_unconfirmed(&reading, third.stateid);
    state.take_back_unconfirmed(&reading, stateid);
    assert_eq!(state.open_count(), 1);
}

#[test]
fn a_close_is_answered_again_until_the_next_request_of_its_owner() {
    let state = state();
    let reading = state.read();
    let id = client(&state, b"a");
    let stateid = confirmed(&state, &reading, id, b"owner");
    let begin = |seqid| state.begin_by_open(Now(0), &reading, stateid, request(seqid, CLOSE));
    let mut ticket = run(begin(3));
    state.close_by_owner(&reading, &mut ticket, stateid, &file(1)).unwrap();
    state.finish_request(ticket, reply(0));
    assert_eq!(state.open_count(), 0);
    assert!(matches!(begin(3), Ok(Begun::Replay(_))));
    let right = state.check_access(Now(0), &reading, stateid, &file(1), ShareBits::READ);
    assert_eq!(right, Err(StateidError::Bad));
    let ticket = run(state.begin_open(Now(0), (id, b"owner"), request(4, OPEN)));
    state.finish_request(ticket, reply(2));
    assert_eq!(begin(3).unwrap_err(), OwnerError::Stateid(StateidError::Bad));
}

#[test]
fn stateids_that_are_not_known_tell_why() {
    let state = state();
    let reading = state.read();
    let id = client(&state, b"a");
    let stateid = confirmed(&state, &reading, id, b"owner");
    let check = |stateid, name, access| {
        state.check_access(Now(0), &reading, stateid, &file(name), access).map(drop)
    };
    let with = |seqid, other| Stateid { seqid, other };
    let mut earlier = stateid.other;
    earlier[0] ^= 1;
    let mut other = stateid.other;
    other[11] ^= 1;
    for (stateid, name, access, expected) in [
        (stateid, 1, ShareBits::READ, Ok(())),
        (with(0, stateid.other), 1, ShareBits::READ, Ok(())),
        (stateid, 2, ShareBits::READ, Err(StateidError::Bad)),
        (stateid, 1, ShareBits::WRITE, Err(StateidError::OpenMode)),
        (with(1, stateid.other), 1, ShareBits::READ, Err(StateidError::Old)),
        (with(3, stateid.other), 1, ShareBits::READ, Err(StateidError::Bad)),
        (with(1, earlier), 1, ShareBits::READ, Err(StateidError::Stale)),
        (with(1, other), 1, ShareBits::READ, Err(StateidError::Bad)),
        (with(1, [0; 12]), 1, ShareBits::READ, Err(StateidError::Bad)),
        (with(7, [0xff; 12]), 1, ShareBits::READ, Err(StateidError::Bad)),
    ] {
        assert_eq!(check(stateid, name, access), expected, "{stateid:?}");
    }
}

#[test]
fn a_client_with_an_expired_lease_is_notified_once_it_has_lost_state() {
    let state = state();
    let reading = state.read();
    let (a, b) = (client(&state, b"a"), client(&state, b"b"));
    let stateid = confirmed(&state, &reading, a, b"owner");
    let late = Now(LEASE + 1000);
    assert_eq!(state.renew_client(late, b), Ok(()));
    let ticket = run(state.begin_open(late, (b, b"other"), request(1, OPEN)));
    let open =
        || state.open_by_owner(late, &ticket, (file(1), EXCLUSIVE), None, &mut Some(Box::new(())));
    assert_eq!(open(), Err(OpenError::Expired(vec![a])));
    assert_eq!(state.begin_expiry(late, a), Expiry::Ended, "it is not recorded");
    open().unwrap();
    state.finish_request(ticket, reply(0));
    assert_eq!(state.renew_client(late, a), Err(OwnerError::Expired));
    let right = state.check_access(late, &reading, stateid, &file(1), ShareBits::READ);
    assert_eq!(right, Err(StateidError::Expired));
}

#[test]
fn requests_with_state_renew_the_lease() {
    let state = state();
    let reading = state.read();
    let id = client(&state, b"a");
    let stateid = confirmed(&state, &reading, id, b"owner");
    let silent = |now: u64| state.client_rows(Now(now))[0].silent_ms;
    assert_eq!(silent(50_000), 49_001);
    let file = file(1);
    let granted = state.check_access(Now(50_000), &reading, stateid, &file, ShareBits::READ);
    assert_eq!(granted, Ok(StateidAccess { access: ShareBits::READ, user: Some(ALICE) }));
    assert_eq!(silent(50_000), 0);
    drop(run(state.begin_by_open(Now(60_000), &reading, stateid, request(3, CLOSE))));
    assert_eq!(silent(60_000), 0);
    drop(run(state.begin_open(Now(70_000), (id, b"owner"), request(3, OPEN))));
    assert_eq!(silent(70_000), 0);
    state.renew_client(Now(80_000), id).unwrap();
    assert_eq!(silent(80_000), 0);
}

#[test]
fn owners_without_state_live_a_lease() {
    let state = state();
    let reading = state.read();
    let id = client(&state, b"a");
    let stateid = confirmed(&state, &reading, id, b"kept");
    opened(&state, id, (b"unconfirmed", 1), READ);
    drop(run(state.begin_open(Now(0), (id, b"nothing"), request(1, OPEN))));
    let names = |now: u64| {
        state.sweep_owners(Now(now));
        let rows = state.owner_rows(Now(now));
        rows.iter().map(|row| String::from_utf8_lossy(&row.name).into_owned()).collect::<Vec<_>>()
    };
    assert_eq!(names(LEASE), ["kept", "nothing", "unconfirmed"]);
    assert_eq!(names(LEASE + 1), ["kept"]);
    assert_eq!(state.open_count(), 1, "the unconfirmed open is closed");
    // a request that runs keeps its owner
    let running = run(state.begin_open(Now(LEASE), (id, b"running"), request(1, OPEN)));
    let mut ticket = run(state.begin_by_open(Now(LEASE), &reading, stateid, request(3, CLOSE)));
    state.close_by_owner(&reading, &mut ticket, stateid, &file(1)).unwrap();
    state.finish_request(ticket, reply(0));
    assert_eq!(names(2 * LEASE + 1), ["running"]);
    drop(running);
}

#[test]
fn a_client_has_only_so_many_owners() {
    let limits = V4Limits { owners_per_client: 2, ..V4Limits::default() };
    let state = V4State::new(core(), 7, random, limits);
    let (a, b) = (client(&state, b"a"), client(&state, b"b"));
    for owner in [b"1", b"2"] {
        drop(run(state.begin_open(Now(0), (a, owner), request(1, OPEN))));
    }
    let more = state.begin_open(Now(0), (a, b"3"), request(1, OPEN)).unwrap_err();
    assert_eq!(more, OwnerError::NoRoom);
    drop(run(state.begin_open(Now(0), (a, b"2"), request(1, OPEN))));
    drop(run(state.begin_open(Now(0), (b, b"1"), request(1, OPEN))));
}

/// The client as a host of the table of locks.
fn host(state: &V4State, locks: &State, client: u64) -> bowline_state::HostId {
    let client = state.renewed_client(Now(0), client).unwrap();
    let caller = Caller {
        addr: HERE,
        name: b"c",
        local: HERE,
        nlm_version: 0,
        transport: Transport::Tcp,
        nsm_state: 0,
    };
    client.lock_host(|id, _| locks.add_client(Now(0), id, &caller)).unwrap()
}

#[test]
fn a_lock_owner_has_numbers_of_its_own() {
    let state = state();
    let locks = State::new(&Recovery::default(), Now(0), Limits::default(), 1);
    let reading = state.read();
    let id = client(&state, b"a");
    let host = host(&state, &locks, id);
    let open = confirmed(&state, &reading, id, b"owner");
    let named = |seqid| LockOwnerName { client_id: id, name: b"locker", seqid };
    let begin = |open_seqid, owner| {
        state.begin_first_lock(Now(0), &reading, open, (owner, request(open_seqid, LOCK)))
    };
    // of another client
    let foreign = LockOwnerName { client_id: 99, ..named(1) };
    assert_eq!(begin(3, foreign).unwrap_err(), OwnerError::StaleClientId);
    // the first lock makes the owner, with any number
    let Ok(LockBegun::Run(ticket, None)) = begin(3, named(77)) else { panic!() };
    let mut tickets = (ticket, None);
    let made = state.first_lock(
        (Now(0), &reading),
        open,
        (&file(1), host),
        &mut tickets,
        (named(77), request(3, LOCK)),
    );
    let lock = made.unwrap().unwrap();
    state.finish_request(tickets.0, reply(0));
    state.finish_request(tickets.1.unwrap(), reply(0));
    assert!(matches!(begin(3, named(77)), Ok(LockBegun::Replay(_))));
    // it has a lock state by this open now, and may say that it has none, but not with another number
    assert_eq!(begin(4, named(79)).unwrap_err(), OwnerError::BadSeqid);
    assert!(matches!(begin(4, named(78)), Ok(LockBegun::Run(_, Some(_)))));
    // its own numbers from now on
    let again = |seqid| state.begin_by_lock(Now(0), &reading, lock, request(seqid, LOCK));
    assert_eq!(again(4).unwrap_err(), OwnerError::BadSeqid);
    let ticket = run(again(78));
    let held = state.lock_by_owner(&reading, &ticket, lock, &file(1)).unwrap();
    assert_eq!(held.changed(), Stateid { seqid: 2, ..lock });
    state.finish_request(ticket, reply(0));
    // released once it holds nothing
    let release = |holds| {
        state
            .release_lock_owner(Now(0), &reading, (id, b"locker"), |_: &FileKey, _: &Who<'_>| holds)
    };
    assert_eq!(release(true), Err(ReleaseError::LocksHeld));
    assert_eq!(release(false), Ok(()));
    assert_eq!(release(false), Ok(()), "not known is released");
    assert_eq!(again(79).unwrap_err(), OwnerError::Stateid(StateidError::Bad));
    let unknown = state.release_lock_owner(Now(0), &reading, (99, b"locker"), |_, _| false);
    assert_eq!(unknown, Err(ReleaseError::Client(OwnerError::StaleClientId)));
    assert!(matches!(begin(4, named(5)), Ok(LockBegun::Run(_, None))));
}
