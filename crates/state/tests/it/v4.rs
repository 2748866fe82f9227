//! Clients, sessions and opens of version 4.1: the cases of the RFC as tables, and a model of the share reservations.

use crate::v4_world::{ALICE, BOB, CHANNEL, HERE, LEASE, conflict, core, exchange_id_of, random};
use bowline_state::v4::{
    CreateSession, CreateSessionError, Created, DestroyError, DowngradeError, ExchangeId,
    ExchangeIdError, Exchanged, Expiry, NameConflict, NameConflictKind, OpenError, OpenRequest,
    Opened, Principal, SequenceError, Session, Started, Stateid, StateidError, V4Limits, V4State,
};
use bowline_state::{FileKey, Now, ShareBits, ShareMode};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

fn state() -> V4State {
    V4State::new(core(), 7, random, V4Limits::default())
}

fn exchange(
    state: &V4State,
    now: u64,
    verifier: u8,
    principal: Principal,
    update: bool,
) -> Result<Exchanged, ExchangeIdError> {
    let who = ExchangeId { update, ..exchange_id_of(b"client", verifier, principal) };
    state.exchange_id(Now(now), &who)
}

fn session_of(
    state: &V4State,
    now: u64,
    known: Exchanged,
    principal: Principal,
) -> Result<Created, CreateSessionError> {
    let want = CreateSession {
        back_channel: false,
        client_id: known.client_id,
        sequence: known.sequence,
        principal,
        limits: CHANNEL,
    };
    state.create_session(Now(now), &want)
}

/// A confirmed client of another name, and its session.
fn client(state: &V4State, name: &[u8]) -> Created {
    let known = state.exchange_id(Now(0), &exchange_id_of(name, 1, ALICE)).unwrap();
    session_of(state, 0, known, ALICE).unwrap()
}

#[test]
fn exchange_id_has_nine_cases() {
    use ExchangeIdError::{InUse, NoEnt, NotSame, Perm};
    let state = state();
    // 7: nothing to update
    assert_eq!(exchange(&state, 0, 1, ALICE, true), Err(NoEnt));
    // 1: a new owner
    let first = exchange(&state, 0, 1, ALICE, false).unwrap();
    assert!(!first.confirmed);
    assert_eq!(
        exchange(&state, 0, 1, ALICE, true),
        Err(NoEnt),
        "an unconfirmed record is not updated"
    );
    // 4: the unconfirmed record is replaced, whoever made it
    let second = exchange(&state, 0, 2, BOB, false).unwrap();
    assert_ne!(second.client_id, first.client_id);
    assert_eq!(session_of(&state, 0, first, ALICE), Err(CreateSessionError::StaleClientId));
    assert_eq!(session_of(&state, 0, second, ALICE), Err(CreateSessionError::InUse));
    session_of(&state, 0, second, BOB).unwrap();
    // 2: the same client again
    let again = exchange(&state, 0, 2, BOB, false).unwrap();
    assert_eq!(
        again,
        Exchanged { client_id: second.client_id, sequence: 2, confirmed: true, machine: None }
    );
    // 6, 8, 9: updates
    assert_eq!(exchange(&state, 0, 2, BOB, true), Ok(again));
    assert_eq!(exchange(&state, 0, 3, BOB, true), Err(NotSame));
    assert_eq!(exchange(&state, 0, 2, ALICE, true), Err(Perm));
    // 3: another principal, as long as the client lives
    assert_eq!(exchange(&state, 0, 2, ALICE, false), Err(InUse));
    // 5: the client has restarted; what it had stays until the new record is confirmed
    let restarted = exchange(&state, 0, 4, BOB, false).unwrap();
    assert!(!restarted.confirmed && restarted.client_id != second.client_id);
    assert_eq!(exchange(&state, 0, 2, BOB, false), Ok(again), "2 again");
    let restarted = exchange(&state, 0, 4, BOB, false).unwrap();
    session_of(&state, 0, restarted, BOB).unwrap();
    assert_eq!(session_of(&state, 0, again, BOB), Err(CreateSessionError::StaleClientId));
    // 3 once more: after the lease nothing stands in the way
    assert!(!exchange(&state, LEASE + 1000, 5, ALICE, false).unwrap().confirmed);
}

/// Makes a machine known that calls itself "client", with a session, from an address.
fn machine(state: &V4State, now: u64, verifier: u8, address: IpAddr) {
    let who = ExchangeId { address, ..exchange_id_of(b"client", verifier, ALICE) };
    let known = state.exchange_id(Now(now), &who).unwrap();
    session_of(state, now, known, ALICE).unwrap();
}

#[test]
fn two_machines_of_one_name_are_told_once() {
    let (one, two) = (IpAddr::from([10, 0, 0, 1]), IpAddr::from([10, 0, 0, 2]));
    let state = state();
    for verifier in 0..20 {
        machine(&state, 0, verifier, one);
    }
    assert_eq!(state.take_name_conflicts(), [], "a machine restarts again and again");
    // one that asks for a moment with another verifier, to be rid of what it holds
    machine(&state, 0, 50, one);
    machine(&state, 0, 19, one);
    assert_eq!(state.take_name_conflicts(), []);
    let state = self::state();
    for _ in 0..2 {
        machine(&state, 0, 1, one);
        machine(&state, 0, 2, two);
    }
    let conflict = NameConflict {
        owner: b"client"[..].into(),
        kind: NameConflictKind::TakeTurns,
        holder: one,
        comer: two,
    };
    assert_eq!(state.take_name_conflicts(), std::slice::from_ref(&conflict));
    machine(&state, 0, 1, one);
    machine(&state, 0, 2, two);
    assert_eq!(state.take_name_conflicts(), [], "once");
    const HOUR: u64 = 3_600_000;
    assert_eq!(state.name_conflicts(Now(HOUR)), std::slice::from_ref(&conflict));
    assert_eq!(state.name_conflicts(Now(HOUR + 1)), []);
    machine(&state, 2 * HOUR, 1, one);
    machine(&state, 2 * HOUR, 2, two);
    assert_eq!(state.take_name_conflicts().len(), 1, "again after a while");
}

#[test]
fn a_machine_whose_name_another_user_has_is_told() {
    let state = state();
    machine(&state, 0, 1, IpAddr::from([10, 0, 0, 1]));
    for _ in 0..3 {
        assert_eq!(exchange(&state, 0, 2, BOB, false), Err(ExchangeIdError::InUse));
    }
    let told = state.take_name_conflicts();
    assert_eq!(told.len(), 1);
    assert_eq!(told[0].kind, NameConflictKind::OtherUser);
    assert_eq!((told[0].holder, told[0].comer), (IpAddr::from([10, 0, 0, 1]), HERE));
}

/// However many names there are, no more than so many are remembered.
#[test]
fn names_of_conflicts_are_bounded() {
    let state = state();
    for name in 0..1500_u32 {
        let owner = &name.to_be_bytes();
        for verifier in [1, 2, 1, 2] {
            let who = exchange_id_of(owner, verifier, ALICE);
            let known = state.exchange_id(Now(0), &who).unwrap();
            session_of(&state, 0, known, ALICE).unwrap();
        }
    }
    assert_eq!(state.name_conflicts(Now(0)).len(), 1024);
    assert_eq!(state.take_name_conflicts().len(), 1024);
}

#[test]
fn create_session_replays_its_reply() {
    let state = state();
    let known = exchange(&state, 0, 1, ALICE, false).unwrap();
    let early = Exchanged { sequence: 0, ..known };
    assert_eq!(
        session_of(&state, 0, early, ALICE),
        Err(CreateSessionError::Misordered),
        "none has run"
    );
    let late = Exchanged { sequence: 2, ..known };
    assert_eq!(session_of(&state, 0, late, ALICE), Err(CreateSessionError::Misordered));
    let made = session_of(&state, 0, known, ALICE).unwrap();
    assert_eq!(session_of(&state, 0, known, ALICE), Ok(made));
    assert_ne!(session_of(&state, 0, late, ALICE).unwrap().session, made.session);
    assert_eq!(session_of(&state, 0, known, ALICE), Err(CreateSessionError::Misordered));
}

#[test]
fn an_unconfirmed_client_id_expires_after_a_lease() {
    let state = state();
    let known = exchange(&state, 0, 1, ALICE, false).unwrap();
    assert_eq!(
        session_of(&state, LEASE + 1000, known, ALICE),
        Err(CreateSessionError::StaleClientId)
    );
}

/// A client with very many opens does not take the last ones from others.
#[test]
fn the_last_opens_are_for_clients_with_few() {
    let limits = V4Limits { opens: 80, opens_when_scarce: 5, ..V4Limits::default() };
    let state = V4State::new(core(), 7, random, limits);
    let opens = |of: &Created, most: u8| {
        let granted = (0..most).filter(|at| open(&state, 0, of, b"o", *at, mode(1, 0)).is_ok());
        granted.count()
    };
    let (one, two, three) =
        (client(&state, b"one"), client(&state, b"two"), client(&state, b"three"));
    assert_eq!(opens(&one, 100), 70);
    assert_eq!(open(&state, 0, &one, b"o", 90, mode(1, 0)), Err(OpenError::Full));
    assert_eq!(opens(&two, 3), 3);
    assert_eq!(opens(&three, 100), 2, "the rest is for clients of other hosts");
    assert_eq!(state.open_count(), 75);
}

#[test]
fn destroy_clientid_needs_a_client_without_state() {
    let state = state();
    let made = client(&state, b"a");
    let id = state.read().session(&made.session).unwrap().client_id();
    assert_eq!(state.destroy_client(id), Err(DestroyError::Busy));
    assert_eq!(state.destroy_session(&made.session), Ok(()));
    assert_eq!(state.destroy_session(&made.session), Err(DestroyError::Unknown));
    assert!(state.read().session(&made.session).is_none());
    assert_eq!(state.destroy_client(id), Ok(()));
    assert_eq!(state.destroy_client(id), Err(DestroyError::Unknown));
}

fn run(
    session: &Session,
    slot: u32,
    number: u32,
    request: u64,
) -> Result<Option<Vec<u8>>, SequenceError> {
    match session.sequence(Now(1), (slot, number), 0, request)? {
        Started::Run(ticket) => {
            ticket.finish(Some(&request.to_be_bytes()));
            Ok(None)
        }
        Started::Replay(reply) => Ok(Some(reply)),
    }
}

#[test]
fn errors_of_sequence_do_not_change_the_slot() {
    use SequenceError::{BadHighSlot, BadSlot, Dead, FalseRetry, Misordered, Running, Uncached};
    let state = state();
    let made = client(&state, b"a");
    let reading = state.read();
    let session = reading.session(&made.session).unwrap();
    assert_eq!(run(session, 4, 1, 5), Err(BadSlot));
    assert_eq!(session.sequence(Now(1), (0, 1), 4, 5).err(), Some(BadHighSlot));
    assert_eq!(run(session, 0, 2, 5), Err(Misordered));
    assert_eq!(run(session, 0, 1, 5), Ok(None), "none of them has changed the slot");
    assert_eq!(run(session, 0, 1, 5), Ok(Some(5_u64.to_be_bytes().to_vec())));
    assert_eq!(run(session, 0, 1, 6), Err(FalseRetry));
    assert_eq!(run(session, 0, 0, 5), Err(Misordered));
    let Ok(Started::Run(ticket)) = session.sequence(Now(1), (0, 2), 0, 7) else { panic!() };
    assert_eq!(run(session, 0, 2, 7), Err(Running));
    assert_eq!(run(session, 1, 1, 8), Ok(None), "another slot");
    // as after a panic
    drop(ticket);
    assert_eq!(run(session, 0, 2, 7), Err(Uncached));
    assert_eq!(run(session, 0, 3, 9), Ok(None));
    state.destroy_session(&made.session).unwrap();
    assert_eq!(run(session, 0, 4, 10), Err(Dead));
}

#[test]
fn a_slot_runs_each_request_once_under_concurrency() {
    let state = Arc::new(state());
    let made = client(&state, b"a");
    let ran = Arc::new(AtomicU64::new(0));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            let (state, ran) = (Arc::clone(&state), Arc::clone(&ran));
            scope.spawn(move || {
                let reading = state.read();
                let session = reading.session(&made.session).unwrap();
                for number in 1..=2000 {
                    // until somebody has run it
                    loop {
                        match session.sequence(Now(1), (0, number), 0, number.into()) {
                            Ok(Started::Run(ticket)) => {
                                ran.fetch_add(1, Relaxed);
                                ticket.finish(Some(&number.to_be_bytes()));
                                break;
                            }
                            Ok(Started::Replay(reply)) => {
                                assert_eq!(reply, number.to_be_bytes());
                                break;
                            }
                            Err(SequenceError::Running) => std::hint::spin_loop(),
                            // another thread is ahead
                            Err(SequenceError::Misordered) => break,
                            Err(other) => panic!("{other:?}"),
                        }
                    }
                }
            });
        }
    });
    assert_eq!(ran.load(Relaxed), 2000);
}

fn bits(number: u32) -> ShareBits {
    ShareBits::from_number(number).unwrap()
}

fn mode(access: u32, deny: u32) -> ShareMode {
    ShareMode { access: bits(access), deny: bits(deny) }
}

fn file(number: u8) -> FileKey {
    FileKey::new(&[number]).unwrap()
}

fn open(
    state: &V4State,
    now: u64,
    of: &Created,
    owner: &[u8],
    at: u8,
    mode: ShareMode,
) -> Result<Opened, OpenError> {
    let reading = state.read();
    let session = reading.session(&of.session).unwrap();
    session.sequence(Now(now), (3, u32::MAX), 0, 0).err();
    state.open(
        Now(now),
        session,
        &OpenRequest { file: file(at), owner, user: ALICE, mode, reclaim: None },
        &mut Some(Box::new(())),
    )
}

/// A file that has lost its name must not seem to be open when its last open is closed.
#[test]
fn the_guard_of_a_file_is_dropped_at_close() {
    let state = state();
    let a = client(&state, b"a");
    let reading = state.read();
    let session = reading.session(&a.session).unwrap();
    let kept = Arc::new(());
    let (mode, user) = (mode(1, 0), ALICE);
    let request = OpenRequest { file: file(1), owner: b"o", user, mode, reclaim: None };
    let guard = Box::new(Arc::clone(&kept));
    let opened = state.open(Now(0), session, &request, &mut Some(guard)).unwrap();
    assert_eq!(Arc::strong_count(&kept), 2);
    state.close(&reading, session.client_id(), opened.stateid, &file(1)).unwrap();
    assert_eq!(Arc::strong_count(&kept), 1, "though the map is still being read");
}

/// Whoever knows an owner's name may open files as that owner; the open then stands for nobody.
#[test]
fn an_open_of_several_users_stands_for_none_of_them() {
    let state = state();
    let a = client(&state, b"a");
    let reading = state.read();
    let session = reading.session(&a.session).unwrap();
    let opened = |user, bits| {
        let (file, mode) = (file(1), mode(bits, 0));
        let request = OpenRequest { file, owner: b"o", user, mode, reclaim: None };
        state.open(Now(0), session, &request, &mut Some(Box::new(()))).unwrap().stateid
    };
    let user_of = |stateid| {
        let granted = reading.check_access(session.client_id(), stateid, &file(1), ShareBits::READ);
        granted.unwrap().user
    };
    assert_eq!(user_of(opened(ALICE, 1)), Some(ALICE));
    assert_eq!(user_of(opened(ALICE, 3)), Some(ALICE));
    assert_eq!(user_of(opened(BOB, 1)), None);
    assert_eq!(user_of(opened(ALICE, 1)), None, "it was widened by somebody else");
}

#[test]
fn the_answer_of_create_session_is_repeated_for_its_sender_only() {
    let state = state();
    let known = exchange(&state, 0, 1, ALICE, false).unwrap();
    let made = session_of(&state, 0, known, ALICE).unwrap();
    assert_eq!(session_of(&state, 0, known, ALICE), Ok(made));
    // another principal of the confirmed client gets a session of its own, once (pynfs CSESS10)
    let other = session_of(&state, 0, known, BOB).unwrap();
    assert_ne!(other.session, made.session);
    assert_eq!(session_of(&state, 0, known, BOB), Ok(other));
    assert_eq!(session_of(&state, 0, known, ALICE), Ok(made));
    let carol = Principal { flavor: 1, user: 1001 };
    assert_eq!(session_of(&state, 0, known, carol), Err(CreateSessionError::Misordered));
    // and the numbers go on as if it had not been
    let next = Exchanged { sequence: known.sequence + 1, ..known };
    let later = session_of(&state, 0, next, ALICE).unwrap();
    assert_eq!(session_of(&state, 0, next, ALICE), Ok(later));
    assert_eq!(session_of(&state, 0, known, BOB), Err(CreateSessionError::Misordered));
}

#[test]
fn a_stateid_is_valid_for_its_client_file_and_access() {
    let state = state();
    let (a, b) = (client(&state, b"a"), client(&state, b"b"));
    let opened = open(&state, 0, &a, b"owner", 1, mode(1, 0)).unwrap();
    let reading = state.read();
    let id = |of: &Created| reading.session(&of.session).unwrap().client_id();
    let check = |who, stateid, at, access| {
        let granted = reading.check_access(who, stateid, &file(at), bits(access))?;
        assert_eq!(granted.user, Some(ALICE));
        Ok(granted.access)
    };
    let Stateid { seqid, other } = opened.stateid;
    assert_eq!(check(id(&a), opened.stateid, 1, 1), Ok(ShareBits::READ));
    assert_eq!(check(id(&a), Stateid { seqid: 0, other }, 1, 1), Ok(ShareBits::READ));
    assert_eq!(check(id(&a), opened.stateid, 1, 2), Err(StateidError::OpenMode));
    assert_eq!(check(id(&a), opened.stateid, 2, 1), Err(StateidError::Bad));
    assert_eq!(check(id(&b), opened.stateid, 1, 1), Err(StateidError::Bad));
    assert_eq!(check(id(&a), Stateid { seqid: seqid + 1, other }, 1, 1), Err(StateidError::Bad));
    // the same owner again: wider, and another version
    let wider = open(&state, 0, &a, b"owner", 1, mode(2, 0)).unwrap();
    assert_eq!((wider.stateid.other, wider.again), (other, true));
    assert_eq!(check(id(&a), opened.stateid, 1, 1), Err(StateidError::Old));
    assert_eq!(check(id(&a), wider.stateid, 1, 3), Ok(ShareBits::BOTH));
    // narrower: only to what it was opened with
    let narrow = |stateid, to| state.downgrade(&reading, id(&a), (stateid, &file(1)), to);
    assert_eq!(narrow(wider.stateid, mode(1, 1)), Err(DowngradeError::Inval));
    let narrowed = narrow(wider.stateid, mode(2, 0)).unwrap();
    assert_eq!(check(id(&a), narrowed, 1, 1), Err(StateidError::OpenMode));
    assert_eq!(state.close(&reading, id(&b), narrowed, &file(1)), Err(StateidError::Bad));
    assert_eq!(state.close(&reading, id(&a), narrowed, &file(1)), Ok(()));
    assert_eq!(check(id(&a), narrowed, 1, 2), Err(StateidError::Bad));
    assert_eq!(state.open_count(), 0);
}

#[test]
fn an_expired_client_keeps_its_opens_until_a_conflict() {
    let state = state();
    let (a, b) = (client(&state, b"a"), client(&state, b"b"));
    open(&state, 0, &a, b"o", 1, mode(3, 3)).unwrap();
    assert_eq!(open(&state, LEASE, &b, b"o", 1, mode(1, 0)), Err(OpenError::ShareDenied));
    let denied = |now| state.check_denied(Now(now), &file(1), ShareBits::READ, None);
    assert_eq!(denied(LEASE), Err(OpenError::ShareDenied));
    assert!(state.read().session(&a.session).is_some());
    let id = state.read().session(&a.session).unwrap().client_id();
    let over = Err(OpenError::Expired(vec![id]));
    assert_eq!(denied(LEASE + 2000), over);
    let opened = open(&state, LEASE + 2000, &b, b"o", 1, mode(1, 0)).map(drop);
    assert_eq!(opened, over.clone());
    assert_eq!(state.begin_expiry(Now(LEASE + 2000), id), Expiry::Ended, "it is not recorded");
    assert!(open(&state, LEASE + 2000, &b, b"o", 1, mode(1, 0)).is_ok());
    assert!(state.read().session(&a.session).is_none(), "the silent client has ended");
    assert_eq!(state.open_count(), 1);
}

#[test]
fn a_client_that_restarts_loses_its_opens() {
    let state = state();
    let known = exchange(&state, 0, 1, ALICE, false).unwrap();
    let made = session_of(&state, 0, known, ALICE).unwrap();
    open(&state, 0, &made, b"o", 1, mode(3, 3)).unwrap();
    let restarted = exchange(&state, 0, 2, ALICE, false).unwrap();
    assert_eq!(state.open_count(), 1);
    session_of(&state, 0, restarted, ALICE).unwrap();
    assert_eq!(state.open_count(), 0);
}

/// What each owner has of each file: the combinations it was opened with.
type Model = BTreeMap<(usize, u8), (Stateid, Vec<ShareMode>)>;

fn whole(modes: &[ShareMode]) -> ShareMode {
    let both = |of: fn(&ShareMode) -> ShareBits| {
        bits(modes.iter().fold(0, |all, mode| all | of(mode).number()))
    };
    ShareMode { access: both(|mode| mode.access), deny: both(|mode| mode.deny) }
}

proptest! {
    #[test]
    fn opens_equal_the_model(
        steps in proptest::collection::vec((0..3_usize, 0..2_u8, 1..4_u32, 0..4_u32, 0..4_u8), 1..80),
    ) {
        let state = state();
        // two owners of one client, and another client's
        let (a, b) = (client(&state, b"a"), client(&state, b"b"));
        let owners: [(&Created, &[u8]); 3] = [(&a, b"x"), (&a, b"y"), (&b, b"x")];
        let mut model = Model::new();
        for (who, at, access, deny, what) in steps {
            let (of, owner) = owners[who];
            let wanted = mode(access, deny);
            let reading = state.read();
            let id = reading.session(&of.session).unwrap().client_id();
            let key = (who, at);
            if what < 2 {
                // the owner's own open is no exception
                let mut opens = model.iter().filter(|((_, file), _)| *file == at);
                let denied = opens.any(|(_, (_, modes))| conflict(whole(modes), wanted));
                let opened = open(&state, 0, of, owner, at, wanted);
                prop_assert_eq!(opened.is_err(), denied);
                if let Ok(opened) = opened {
                    let entry = model.entry(key).or_insert((opened.stateid, Vec::new()));
                    prop_assert_eq!(opened.again, !entry.1.is_empty());
                    entry.0 = opened.stateid;
                    entry.1.push(wanted);
                }
            } else if let Some((stateid, modes)) = model.get_mut(&key) {
                if what == 2 {
                    let inside = |mode: &ShareMode| {
                        mode.access.number() & !access == 0 && mode.deny.number() & !deny == 0
                    };
                    let left: Vec<ShareMode> = modes.iter().copied().filter(inside).collect();
                    let narrowed = state.downgrade(&reading, id, (*stateid, &file(at)), wanted);
                    prop_assert_eq!(narrowed.is_ok(), whole(&left) == wanted);
                    if let Ok(narrowed) = narrowed {
                        *stateid = narrowed;
                        *modes = left;
                    }
                } else {
                    prop_assert_eq!(state.close(&reading, id, *stateid, &file(at)), Ok(()));
                    model.remove(&key);
                }
            }
            prop_assert_eq!(state.open_count(), model.len());
            for ((who, at), (stateid, modes)) in &model {
                let id = reading.session(&owners[*who].0.session).unwrap().client_id();
                let found = reading.find_open(id, *stateid).unwrap();
                prop_assert_eq!((found.access(), found.deny()), (whole(modes).access, whole(modes).deny));
                prop_assert_eq!(found.file(), &file(*at));
            }
            for at in 0..2 {
                let denies = |access: u32| {
                    let mut of_file = model.iter().filter(|((_, file), _)| *file == at);
                    of_file.any(|(_, (_, modes))| whole(modes).deny.number() & access != 0)
                };
                for (access, number) in [(ShareBits::READ, 1), (ShareBits::WRITE, 2)] {
                    let denied = state.check_denied(Now(0), &file(at), access, None);
                    prop_assert_eq!(denied.is_err(), denies(number));
                }
            }
        }
    }
}
