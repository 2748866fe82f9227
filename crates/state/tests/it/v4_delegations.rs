//! Delegations: who gets one, what recalls it, and what becomes of one that is not returned.

use crate::v4_world::{ALICE, CHANNEL, HERE, LEASE, core, exchange_id_of, random};
use bowline_state::v4::{
    Begun, Callback, CallbackCredential, CallbackPath, CreateSession, DelegationConflict,
    DelegationKind, DelegationRequest, DestroyError, GrantedAttrs, KeptReply, NotDelegated,
    OpenError, OpenRequest, OwnerTicket, Request, SessionId, SetClientId, Started, Stateid,
    StateidAccess, StateidError, V4Limits, V4State, status_flags,
};
use bowline_state::{FileKey, Now, ShareBits, ShareMode};
use proptest::prelude::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

pub const RECALL: u64 = 40_000;

pub struct World {
    pub state: V4State,
    pub sessions: Vec<SessionId>,
    guard: Arc<()>,
    /// The numbers of the next requests of the sessions.
    requests: Vec<AtomicU32>,
}

pub fn file(n: u8) -> FileKey {
    FileKey::new(&[n; 8]).unwrap()
}

fn request(kind: DelegationKind, file: &FileKey) -> DelegationRequest<'_> {
    let opened = StateidAccess { access: ShareBits::READ, user: Some(ALICE) };
    let attrs = GrantedAttrs { change: 7, times: None };
    DelegationRequest { kind, file, handle: b"handle", opened, attrs, pending: None }
}

impl World {
    pub fn new(clients: u8) -> Self {
        Self::with_limits(clients, V4Limits::default())
    }

    fn with_limits(clients: u8, limits: V4Limits) -> Self {
        let state = V4State::new(core(), 7, random, limits);
        let sessions = (0..clients).map(|name| session(&state, &[name])).collect();
        let requests = (0..clients).map(|_| AtomicU32::new(1)).collect();
        Self { state, sessions, guard: Arc::new(()), requests }
    }

    fn client_id(&self, client: usize) -> u64 {
        self.state.read().session(&self.sessions[client]).unwrap().client_id()
    }

    pub fn renew(&self, client: usize, now: u64) {
        let reading = self.state.read();
        let session = reading.session(&self.sessions[client]).unwrap();
        let number = self.requests[client].fetch_add(1, Relaxed);
        let Started::Run(ticket) = session.sequence(Now(now), (0, number), 0, 1).unwrap() else {
            panic!("replayed");
        };
        ticket.finish(None);
    }

    fn open(
        &self,
        client: usize,
        n: u8,
        access: ShareBits,
        now: u64,
    ) -> Result<Stateid, OpenError> {
        let reading = self.state.read();
        let session = reading.session(&self.sessions[client]).unwrap();
        let mode = ShareMode { access, deny: ShareBits::NONE };
        let request =
            OpenRequest { file: file(n), owner: b"owner", user: ALICE, mode, reclaim: None };
        self.state
            .open(Now(now), session, &request, &mut Some(Box::new(())))
            .map(|opened| opened.stateid)
    }

    pub fn delegate(&self, client: usize, n: u8, now: u64) -> Result<Stateid, NotDelegated> {
        self.delegate_for(DelegationKind::Read, client, n, now)
    }

    fn delegate_for(
        &self,
        kind: DelegationKind,
        client: usize,
        n: u8,
        now: u64,
    ) -> Result<Stateid, NotDelegated> {
        let reading = self.state.read();
        let session = reading.session(&self.sessions[client]).unwrap();
        let guard = match self.state.may_delegate(Now(now), session.requester(), kind, &file(n))? {
            true => Some(Box::new(Arc::clone(&self.guard)) as _),
            false => None,
        };
        self.state.delegate(Now(now), session.requester(), &request(kind, &file(n)), guard)
    }

    fn give_back(
        &self,
        client: usize,
        n: u8,
        stateid: Stateid,
    ) -> Result<Option<u64>, StateidError> {
        let client = self.client_id(client);
        self.state.return_delegation(&self.state.read(), Now(0), client, (stateid, &file(n)))
    }

    fn check(&self, client: usize, n: u8, stateid: Stateid) -> Result<(), StateidError> {
        let client = self.client_id(client);
        self.state.read().check_delegation(client, stateid, Some(&file(n))).map(drop)
    }

    /// How many files local programs are held back from.
    fn guards(&self) -> usize {
        Arc::strong_count(&self.guard) - 1
    }
}

fn session(state: &V4State, name: &[u8]) -> SessionId {
    let known = state.exchange_id(Now(0), &exchange_id_of(name, 1, ALICE)).unwrap();
    let want = CreateSession {
        back_channel: true,
        client_id: known.client_id,
        sequence: known.sequence,
        principal: ALICE,
        limits: CHANNEL,
    };
    state.create_session(Now(0), &want).unwrap().session
}

/// Clients 0 and 1 have delegations of directory 1.
fn two_of_a_directory(world: &World) -> [Stateid; 2] {
    [0, 1].map(|client| world.delegate_for(DelegationKind::Directory, client, 1, 0).unwrap())
}

#[test]
fn a_directory_is_delegated_to_many_under_one_guard_and_once_to_each() {
    let world = World::new(3);
    let held = two_of_a_directory(&world);
    assert_eq!((world.guards(), world.state.directory_delegation_count()), (1, 2));
    assert!(world.state.any_directory_delegations() && !world.state.any_write_delegations());
    let again = world.delegate_for(DelegationKind::Directory, 0, 1, 0);
    assert_eq!(again, Err(NotDelegated::Resource));
    for (client, stateid) in held.into_iter().enumerate() {
        world.check(client, 1, stateid).unwrap();
        assert_eq!(world.give_back(client, 1, stateid), Ok(None));
    }
    assert_eq!((world.guards(), world.state.any_directory_delegations()), (0, false));
}

#[test]
fn a_change_of_entries_leaves_its_own_client_the_delegation_and_any_other_change_does_not() {
    let world = World::new(2);
    let held = two_of_a_directory(&world);
    let own = Some(world.client_id(0));
    let directory = file(1);
    let DelegationConflict::Recalled(recalls) =
        world.state.recall_for_entry_change(Now(10), &directory, own)
    else {
        panic!("the other client has it")
    };
    assert_eq!(recalls.iter().map(|recall| recall.stateid()).collect::<Vec<_>>(), [held[1]]);
    // none is given meanwhile
    let other = world.delegate_for(DelegationKind::Directory, 1, 1, 10);
    assert_eq!(other, Err(NotDelegated::Contention));
    world.give_back(1, 1, held[1]).unwrap();
    let again = world.state.recall_for_entry_change(Now(20), &directory, own);
    assert_eq!(again, DelegationConflict::Nothing);
    assert!(world.state.is_delegated(&directory));
    // attributes, or a local program
    for client in [own, None] {
        let conflict = world.state.recall_for_change(Now(30), &directory, client);
        assert!(matches!(conflict, DelegationConflict::Recalled(_)), "{conflict:?}");
    }
    // and one that is recalled is in the way of its own client as well
    let conflict = world.state.recall_for_entry_change(Now(40), &directory, own);
    assert!(matches!(conflict, DelegationConflict::Recalled(_)), "{conflict:?}");
    assert_eq!(
        world.state.recall_for_entry_change(Now(50), &file(2), None),
        DelegationConflict::Nothing
    );
}

#[test]
fn a_directory_that_is_not_returned_in_time_is_taken() {
    let world = World::new(2);
    let held = two_of_a_directory(&world);
    world.state.recall_file(Now(0), &file(1));
    (0..2).for_each(|client| world.renew(client, RECALL));
    world.state.sweep_delegations(Now(RECALL));
    assert_eq!((world.guards(), world.state.delegations_revoked()), (0, 2));
    assert_eq!(world.check(0, 1, held[0]), Err(StateidError::DelegationRevoked));
    world.delegate_for(DelegationKind::Directory, 1, 1, RECALL).unwrap();
}

#[test]
fn readers_share_and_a_writer_recalls_all_of_them_once() {
    let world = World::new(3);
    let (a, b) = (world.delegate(0, 1, 0).unwrap(), world.delegate(1, 1, 0).unwrap());
    assert_eq!((world.guards(), world.state.delegation_count()), (1, 2));
    assert_eq!(world.delegate(0, 1, 0), Err(NotDelegated::Resource), "it has one");
    world.open(2, 1, ShareBits::READ, 1).unwrap();
    let Err(OpenError::Delegated(recalls)) = world.open(2, 1, ShareBits::BOTH, 2) else {
        panic!("opened for writing");
    };
    let mut told: Vec<_> = recalls.iter().map(|recall| recall.stateid().other).collect();
    told.sort_unstable();
    let mut held = [a.other, b.other];
    held.sort_unstable();
    assert_eq!((told.as_slice(), recalls[0].handle()), (held.as_slice(), &b"handle"[..]));
    let again = world.open(2, 1, ShareBits::BOTH, 3);
    assert_eq!(again, Err(OpenError::Delegated(Vec::new())), "told once");
    assert_eq!(world.give_back(1, 1, a), Err(StateidError::Bad), "another client's");
    assert_eq!(world.give_back(0, 2, a), Err(StateidError::Bad), "another file");
    world.give_back(0, 1, a).unwrap();
    assert_eq!((world.guards(), world.give_back(0, 1, a)), (1, Err(StateidError::Bad)));
    assert!(world.open(2, 1, ShareBits::BOTH, 4).is_err());
    world.give_back(1, 1, b).unwrap();
    assert_eq!((world.guards(), world.state.recalled_count()), (0, 0));
    world.open(2, 1, ShareBits::BOTH, 5).unwrap();
    assert_eq!(world.delegate(0, 1, 100_000), Err(NotDelegated::Contention), "it is being written");
}

#[test]
fn a_file_is_not_delegated_while_it_is_written_nor_soon_after_a_recall() {
    let world = World::new(2);
    let open = world.open(0, 1, ShareBits::WRITE, 0).unwrap();
    assert_eq!(world.delegate(1, 1, 0), Err(NotDelegated::Contention));
    assert_eq!(world.delegate(0, 1, 0), Err(NotDelegated::Contention), "nor to the writer");
    let client = world.client_id(0);
    world.state.close(&world.state.read(), client, open, &file(1)).unwrap();
    let held = world.delegate(1, 1, 0).unwrap();
    assert!(matches!(
        world.state.recall_for_change(Now(10), &file(1), None),
        DelegationConflict::Recalled(_)
    ));
    world.give_back(1, 1, held).unwrap();
    assert_eq!(world.delegate(1, 1, 20_000), Err(NotDelegated::Contention));
    world.delegate(1, 1, 30_010).unwrap();
}

#[test]
fn a_file_is_not_delegated_while_somebody_changes_it() {
    let world = World::new(2);
    world.delegate(0, 2, 0).unwrap();
    // whoever was told that there is none now makes the change
    assert_eq!(world.state.recall_for_change(Now(10), &file(1), None), DelegationConflict::Nothing);
    assert_eq!(world.delegate(1, 1, 1009), Err(NotDelegated::Contention));
    world.delegate(1, 1, 1010).unwrap();
}

#[test]
fn the_holder_changes_the_file_without_a_recall() {
    let world = World::new(1);
    world.delegate(0, 1, 0).unwrap();
    let own = Some(world.client_id(0));
    assert_eq!(world.state.recall_for_change(Now(1), &file(1), own), DelegationConflict::Nothing);
    world.open(0, 1, ShareBits::WRITE, 1).unwrap();
    assert_eq!(world.state.recalled_count(), 0);
}

#[test]
fn the_change_attribute_rises_with_each_look_at_what_the_holder_has_changed_and_after_the_last() {
    let world = World::new(2);
    world.delegate(0, 2, 0).unwrap();
    let held = world.delegate_for(DelegationKind::Write, 0, 1, 0).unwrap();
    let (state, own, other) = (&world.state, world.client_id(0), world.client_id(1));
    assert!(state.write_holder(&file(1), Some(own)).is_none(), "it is the client itself");
    assert!(state.write_holder(&file(2), Some(other)).is_none(), "it only reads");
    let holder = state.write_holder(&file(1), Some(other)).unwrap();
    assert_eq!((holder.client_id(), holder.granted().change), (own, 7));
    // as granted, changed twice, and sent within the same tick of the clock
    let looks = [(7, false), (7, true), (7, true), (9, false), (9, false), (9, true)];
    let shown = looks.map(|(found, is_modified)| holder.shown_change(found, is_modified));
    assert_eq!(shown, [7, 8, 9, 10, 11, 12]);
    assert_eq!(holder.shown_change(100, false), 100, "sent, a tick later");
    assert!(!holder.is_leaving(Now(1), LEASE) && holder.is_leaving(Now(LEASE + 2000), LEASE));
    assert_eq!(state.recall_file(Now(2), &file(1)).len(), 1);
    assert!(holder.is_leaving(Now(2), LEASE) && !holder.is_ended());
    world.give_back(0, 1, held).unwrap();
    assert!(holder.is_ended() && state.write_holder(&file(1), None).is_none());
}

#[test]
fn a_writer_has_the_file_to_itself_and_readers_recall() {
    let world = World::new(2);
    world.open(0, 1, ShareBits::BOTH, 0).unwrap();
    let held = world.delegate_for(DelegationKind::Write, 0, 1, 0).unwrap();
    let state = &world.state;
    assert_eq!((world.guards(), state.write_delegation_count()), (1, 1));
    assert_eq!(world.delegate(1, 1, 0), Err(NotDelegated::Contention));
    let again = world.delegate_for(DelegationKind::Write, 0, 1, 0);
    assert_eq!(again, Err(NotDelegated::Resource), "it has one");
    let (own, other) = (Some(world.client_id(0)), Some(world.client_id(1)));
    for asked in [
        state.recall_for_read(Now(1), &file(1), own),
        state.recall_for_change(Now(1), &file(1), own),
        state.recall_for_own_change(Now(1), &file(1), own),
        state.recall_for_read(Now(1), &file(2), other),
    ] {
        assert_eq!(asked, DelegationConflict::Nothing);
    }
    assert!(
        state.is_written_by_other(&file(1), other) && state.is_written_by_other(&file(1), None)
    );
    assert!(
        !state.is_written_by_other(&file(1), own) && !state.is_written_by_other(&file(2), None)
    );
    let Err(OpenError::Delegated(recalls)) = world.open(1, 1, ShareBits::READ, 2) else {
        panic!("opened for reading");
    };
    assert_eq!(recalls.iter().map(|recall| recall.stateid()).collect::<Vec<_>>(), [held]);
    assert_eq!(
        state.recall_for_read(Now(3), &file(1), other),
        DelegationConflict::Recalled(Vec::new())
    );
    assert_eq!(
        state.recall_for_own_change(Now(3), &file(1), other),
        DelegationConflict::Recalled(Vec::new())
    );
    world.give_back(0, 1, held).unwrap();
    assert_eq!((world.guards(), state.write_delegation_count()), (0, 0));
    assert_eq!(state.recall_for_read(Now(4), &file(1), other), DelegationConflict::Nothing);
    world.open(1, 1, ShareBits::READ, 4).unwrap();
    let again = world.delegate_for(DelegationKind::Write, 0, 1, 100_000);
    assert_eq!(again, Err(NotDelegated::Contention), "another has it open");
}

#[test]
fn a_file_is_delegated_to_a_writer_only_if_nobody_else_has_anything_of_it() {
    let world = World::new(2);
    world.delegate(1, 1, 0).unwrap();
    assert_eq!(
        world.delegate_for(DelegationKind::Write, 0, 1, 0),
        Err(NotDelegated::Contention),
        "another reads it"
    );
    // its own for reading is recalled first
    let own = Some(world.client_id(1));
    assert!(matches!(
        world.state.recall_for_own_change(Now(1), &file(1), own),
        DelegationConflict::Recalled(recalls) if recalls.len() == 1
    ));
    // a change that was allowed is none of its opener's business
    assert_eq!(world.state.recall_for_change(Now(2), &file(2), None), DelegationConflict::Nothing);
    assert_eq!(world.delegate(0, 2, 3), Err(NotDelegated::Contention));
    world.delegate_for(DelegationKind::Write, 0, 2, 3).unwrap();
    let kinds: Vec<_> = world.state.delegation_rows(Now(3)).iter().map(|row| row.kind).collect();
    assert_eq!(kinds, [DelegationKind::Write, DelegationKind::Read]);
}

#[test]
fn a_write_delegation_that_is_not_returned_to_a_reader_is_revoked() {
    let world = World::new(2);
    let held = world.delegate_for(DelegationKind::Write, 0, 1, 0).unwrap();
    assert!(world.open(1, 1, ShareBits::READ, 1).is_err());
    world.open(1, 1, ShareBits::READ, RECALL + 1).unwrap();
    assert_eq!((world.guards(), world.state.write_delegation_count()), (0, 0));
    assert_eq!(world.check(0, 1, held), Err(StateidError::DelegationRevoked));
}

#[test]
fn one_that_is_not_returned_is_revoked_and_its_client_finds_out() {
    let world = World::new(2);
    let held = world.delegate(0, 1, 0).unwrap();
    assert!(world.open(1, 1, ShareBits::WRITE, 1).is_err());
    assert!(world.open(1, 1, ShareBits::WRITE, RECALL).is_err());
    assert_eq!(world.check(0, 1, held), Ok(()));
    world.open(1, 1, ShareBits::WRITE, RECALL + 1).unwrap();
    assert_eq!((world.guards(), world.state.delegations_revoked()), (0, 1));
    assert_eq!(world.check(0, 1, held), Err(StateidError::DelegationRevoked));
    assert_eq!(world.check(1, 1, held), Err(StateidError::Bad), "another client learns nothing");
    assert_eq!(world.give_back(0, 1, held), Err(StateidError::DelegationRevoked));
    let reading = world.state.read();
    let session = reading.session(&world.sessions[0]).unwrap();
    assert_eq!(session.status(Now(RECALL + 1)), status_flags::RECALLABLE_STATE_REVOKED);
    assert!(world.state.free_revoked(session, &held.other));
    assert_eq!(
        (session.status(Now(RECALL + 1)), world.check(0, 1, held)),
        (0, Err(StateidError::Bad))
    );
}

#[test]
fn a_recall_that_did_not_arrive_is_sent_again() {
    let world = World::new(1);
    world.delegate(0, 1, 0).unwrap();
    let recalls = world.state.recall_file(Now(10), &file(1));
    assert_eq!(world.state.recall_file(Now(11), &file(1)), []);
    recalls[0].again_at(Now(1000));
    assert_eq!(world.state.sweep_delegations(Now(12)).again_ms, Some(1000));
    assert_eq!(world.state.sweep_delegations(Now(999)).recalls, []);
    assert_eq!(world.state.sweep_delegations(Now(1000)).recalls, recalls);
    assert_eq!(world.state.sweep_delegations(Now(1001)).recalls, []);
    // and it is revoked in time without anybody's asking
    world.state.sweep_delegations(Now(10 + RECALL));
    assert_eq!((world.state.delegation_count(), world.state.delegations_revoked()), (0, 1));
}

#[test]
fn a_file_is_not_delegated_while_one_is_recalled_however_long_that_takes() {
    let world = World::new(2);
    world.delegate(0, 1, 0).unwrap();
    assert_eq!(world.state.recall_file(Now(10), &file(1)).len(), 1);
    assert_eq!(world.delegate(1, 1, RECALL), Err(NotDelegated::Contention));
}

#[test]
fn one_that_is_reclaimed_is_recalled_already_and_holds_nobody_back() {
    let world = World::new(2);
    let reclaim = |client: usize, n: u8, now: u64| {
        let reading = world.state.read();
        let session = reading.session(&world.sessions[client]).unwrap();
        let file = file(n);
        let request = request(DelegationKind::Read, &file);
        world.state.reclaim_delegation(Now(now), session.requester(), &request)
    };
    let held = reclaim(0, 1, 0).unwrap();
    assert_eq!(reclaim(0, 1, 0), Err(NotDelegated::Resource), "it has one");
    assert_eq!((world.guards(), world.state.recalled_count()), (0, 1));
    assert_eq!(world.check(0, 1, held), Ok(()));
    // nobody has to be told
    assert_eq!(world.state.recall_file(Now(1), &file(1)), []);
    assert_eq!(world.delegate(1, 1, RECALL - 1), Err(NotDelegated::Contention));
    world.give_back(0, 1, held).unwrap();
    assert_eq!((world.state.delegation_count(), world.state.recalled_count()), (0, 0));
    world.renew(0, 100_000);
    let kept = reclaim(0, 2, 100_000).unwrap();
    world.state.sweep_delegations(Now(100_000 + RECALL));
    assert_eq!(world.check(0, 2, kept), Err(StateidError::DelegationRevoked));
    // not beside what somebody has open for writing
    world.open(1, 3, ShareBits::WRITE, 0).unwrap();
    assert_eq!(reclaim(0, 3, 0), Err(NotDelegated::Contention));
}

#[test]
fn a_silent_client_is_ended_for_what_it_holds_back() {
    let world = World::new(2);
    world.delegate(0, 1, 0).unwrap();
    let now = LEASE + 1000;
    world.renew(1, now);
    world.state.sweep(Now(now));
    assert_eq!(world.state.delegation_count(), 1, "it keeps what nobody wants");
    let silent = world.client_id(0);
    assert_eq!(
        world.state.recall_for_change(Now(now), &file(1), None),
        DelegationConflict::Expired(vec![silent])
    );
    let _ended = world.state.begin_expiry(Now(now), silent);
    assert_eq!((world.state.delegation_count(), world.guards()), (0, 0));
    assert_eq!(
        world.state.recall_for_change(Now(now), &file(1), None),
        DelegationConflict::Nothing
    );
}

/// The recall of the others is sent after the end of the silent one, by whoever asks again.
#[test]
fn readers_beside_one_whose_lease_is_over_are_told() {
    let world = World::new(2);
    world.delegate(0, 1, 0).unwrap();
    world.delegate(1, 1, 0).unwrap();
    let now = LEASE + 1000;
    world.renew(1, now);
    let silent = world.client_id(0);
    let ask = || world.state.recall_for_change(Now(now), &file(1), None);
    assert_eq!(ask(), DelegationConflict::Expired(vec![silent]));
    let _ended = world.state.begin_expiry(Now(now), silent);
    let DelegationConflict::Recalled(recalls) = ask() else { panic!("it is in the way") };
    assert_eq!(recalls.len(), 1, "its client is told");
    assert_eq!(recalls[0].client_id(), world.client_id(1));
}

/// What the client is told of the file is from before the change.
#[test]
fn a_file_that_is_changed_without_an_open_while_it_is_being_delegated_is_not() {
    let world = World::new(2);
    let (state, reading) = (&world.state, world.state.read());
    let session = reading.session(&world.sessions[0]).unwrap();
    let (kind, key) = (DelegationKind::Write, file(1));
    let give = |changed: &dyn Fn()| {
        assert!(state.may_delegate(Now(0), session.requester(), kind, &key).unwrap());
        let pending = state.await_write_delegation(&key);
        assert!(state.any_write_delegations() && state.write_delegation_count() == 0);
        changed();
        let request = DelegationRequest { pending: Some(&pending), ..request(kind, &key) };
        state.delegate(Now(0), session.requester(), &request, Some(Box::new(())))
    };
    let change = |n| state.recall_after_change(Now(0), &file(n), None);
    let by_another = || assert_eq!(change(1), DelegationConflict::Nothing);
    assert_eq!(give(&by_another), Err(NotDelegated::Contention));
    assert!(!state.any_write_delegations());
    give(&|| ()).unwrap();
    assert_eq!((state.write_delegation_count(), state.delegation_count()), (1, 1));
    // who comes later finds it
    assert!(matches!(change(1), DelegationConflict::Recalled(recalls) if recalls.len() == 1));
}

#[test]
fn delegations_are_bounded_and_keep_a_client_from_being_destroyed() {
    let limits = V4Limits { delegations: 2, delegations_per_client: 1, ..V4Limits::default() };
    let world = World::with_limits(3, limits);
    world.delegate(0, 1, 0).unwrap();
    assert_eq!(world.delegate(0, 2, 0), Err(NotDelegated::Resource));
    world.delegate(1, 2, 0).unwrap();
    assert_eq!(world.delegate(2, 3, 0), Err(NotDelegated::Resource));
    assert_eq!(world.guards(), 2, "a guard that is not used is dropped");
    let client = world.client_id(0);
    world.state.destroy_session(&world.sessions[0]).unwrap();
    assert_eq!(world.state.destroy_client(client), Err(DestroyError::Busy));
}

#[test]
fn the_largest_holders_are_known_when_there_are_many() {
    let world = World::with_limits(3, V4Limits { delegations: 8, ..V4Limits::default() });
    for (client, n) in [(0, 1), (0, 2), (0, 3), (0, 4), (1, 5), (1, 6)] {
        world.delegate(client, n, 0).unwrap();
    }
    assert!(!world.state.delegations_are_scarce());
    world.delegate(2, 7, 0).unwrap();
    assert!(world.state.delegations_are_scarce());
    assert_eq!(world.state.largest_holders(), [(world.client_id(0), 4), (world.client_id(1), 2)]);
}

/// What a client of the property test does with one of two files.
#[derive(Debug, Clone, Copy)]
enum Step {
    Delegate,
    DelegateWrite,
    OpenRead,
    OpenWrite,
    Close,
    Change,
    Read,
    Return,
    Wait,
}

fn steps() -> impl Strategy<Value = Vec<(Step, usize, u8)>> {
    use Step::{Change, Close, Delegate, DelegateWrite, OpenRead, OpenWrite, Read, Return, Wait};
    let step = prop::sample::select(vec![
        Delegate,
        Delegate,
        DelegateWrite,
        OpenRead,
        OpenWrite,
        Close,
        Change,
        Read,
        Return,
        Wait,
    ]);
    prop::collection::vec((step, 0..3_usize, 0..2_u8), 1..120)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    /// Nobody has a file open for writing that another client has a good delegation of, a delegated file has a guard
    /// and no other has, and what waits is recalled.
    #[test]
    fn a_delegation_keeps_writers_out_whatever_happens(steps in steps()) {
        let world = World::new(3);
        let mut now = 0;
        let mut held: Vec<(usize, u8, Stateid)> = Vec::new();
        let mut kept: Vec<(usize, u8, Stateid)> = Vec::new();
        let mut written: Vec<(usize, u8, Stateid)> = Vec::new();
        for (step, client, n) in steps {
            now += 1;
            match step {
                Step::Delegate => {
                    if let Ok(stateid) = world.delegate(client, n, now) {
                        prop_assert!(!written.iter().any(|(_, file, _)| *file == n));
                        held.push((client, n, stateid));
                    }
                }
                Step::DelegateWrite => {
                    if let Ok(stateid) = world.delegate_for(DelegationKind::Write, client, n, now) {
                        prop_assert!(!written.iter().any(|(owner, file, _)| *file == n && *owner != client));
                        held.push((client, n, stateid));
                        kept.push((client, n, stateid));
                    }
                }
                Step::OpenRead => {
                    let opened = world.open(client, n, ShareBits::READ, now).is_ok();
                    let others = kept.iter().any(|(holder, file, stateid)| {
                        *file == n && *holder != client && world.check(*holder, n, *stateid).is_ok()
                    });
                    prop_assert_eq!(opened, !others);
                }
                Step::Read => {
                    let own = Some(world.client_id(client));
                    let free = world.state.recall_for_read(Now(now), &file(n), own) == DelegationConflict::Nothing;
                    let others = kept.iter().any(|(holder, file, stateid)| {
                        *file == n && *holder != client && world.check(*holder, n, *stateid).is_ok()
                    });
                    prop_assert_eq!(free, !others);
                }
                Step::OpenWrite => if let Ok(stateid) = world.open(client, n, ShareBits::WRITE, now) {
                    written.retain(|(owner, file, _)| (*owner, *file) != (client, n));
                    written.push((client, n, stateid));
                },
                Step::Close => {
                    let all = std::mem::take(&mut written);
                    for (owner, file_n, stateid) in all {
                        if (owner, file_n) == (client, n) {
                            let stateid = Stateid { seqid: 0, ..stateid };
                            let id = world.client_id(owner);
                            world.state.close(&world.state.read(), id, stateid, &file(n)).unwrap();
                        } else {
                            written.push((owner, file_n, stateid));
                        }
                    }
                }
                Step::Change => {
                    let own = Some(world.client_id(client));
                    let free = world.state.recall_for_change(Now(now), &file(n), own) == DelegationConflict::Nothing;
                    let others = held.iter().any(|(holder, file, stateid)| {
                        *file == n && *holder != client && world.check(*holder, n, *stateid).is_ok()
                    });
                    prop_assert_eq!(free, !others);
                }
                Step::Return => {
                    for (holder, n, stateid) in &held {
                        if *holder == client {
                            let _revoked = world.give_back(client, *n, *stateid);
                        }
                    }
                    held.retain(|(holder, ..)| *holder != client);
                }
                Step::Wait => now += RECALL / 2,
            }
            (0..3).for_each(|client| world.renew(client, now));
            let good: Vec<_> = held
                .iter()
                .filter(|(client, n, stateid)| world.check(*client, *n, *stateid).is_ok())
                .collect();
            for (client, n, _) in &good {
                let others = written.iter().filter(|(writer, file, _)| file == n && writer != client);
                prop_assert_eq!(others.count(), 0);
            }
            for (client, n, _) in kept.iter().filter(|kept| good.contains(kept)) {
                prop_assert_eq!(good.iter().filter(|(_, file, _)| file == n).count(), 1);
                prop_assert!(world.state.is_written_by_other(&file(*n), None), "of {}", client);
            }
            let mut files: Vec<u8> = good.iter().map(|(_, n, _)| *n).collect();
            files.sort_unstable();
            files.dedup();
            prop_assert_eq!(world.guards(), files.len());
            prop_assert_eq!(world.state.delegation_count(), good.len());
        }
    }
}

/// A client of version 4.0 with a confirmed owner, whose callback address is not tried yet.
fn minor0_client(world: &World, name: &[u8], credential: CallbackCredential) -> Arc<Callback> {
    let callback = Arc::new(Callback::new((1, 1), (HERE, HERE), Some(1), credential));
    let who = SetClientId { name, verifier: [1; 8], principal: ALICE, callback };
    let names = world.state.set_client_id(Now(0), &who).unwrap();
    let confirm = (names.client_id, names.confirm);
    world.state.confirm_client_id(Now(0), confirm, ALICE).unwrap().unwrap();
    let ticket = owner_ticket(world, names.client_id, 1);
    let mode = ShareMode { access: ShareBits::READ, deny: ShareBits::NONE };
    let opened = world.state.open_by_owner(Now(0), &ticket, (file(200), mode), None, &mut None);
    assert!(!ticket.is_confirmed());
    ticket.confirm();
    assert!(opened.is_ok());
    world.state.finish_request(ticket, REPLY);
    world.state.callback_of(names.client_id).unwrap()
}

const REPLY: KeptReply = KeptReply { status: 0, result: Vec::new(), handle: Vec::new() };

fn owner_ticket(world: &World, client: u64, seqid: u32) -> OwnerTicket {
    let request = Request { seqid, op: 18, hash: u64::from(seqid), user: ALICE };
    match world.state.begin_open(Now(0), (client, b"owner"), request) {
        Ok(Begun::Run(ticket)) => ticket,
        other => panic!("{other:?}"),
    }
}

fn minor0_id(world: &World, name: &[u8]) -> u64 {
    let rows = world.state.client_rows(Now(0));
    rows.iter().find(|row| row.minor0 && *row.owner == *name).unwrap().id
}

/// A delegation of a client of version 4.0, whatever its callback address is like.
fn delegate_to(world: &World, ticket: &OwnerTicket, n: u8) -> Stateid {
    let requester = ticket.requester();
    let kind = DelegationKind::Read;
    assert_eq!(world.state.may_delegate(Now(0), requester, kind, &file(n)), Ok(true));
    let guard = Box::new(Arc::clone(&world.guard)) as _;
    world.state.delegate(Now(0), requester, &request(kind, &file(n)), Some(guard)).unwrap()
}

#[test]
fn a_client_of_version_4_0_takes_recalls_when_its_address_answers() {
    let world = World::new(0);
    let callback = minor0_client(&world, b"a", CallbackCredential::None);
    assert!(!callback.takes_recalls(), "CB_NULL was not answered");
    assert!(callback.begin_probe() && !callback.begin_probe(), "one at a time");
    callback.end_probe(None);
    assert_eq!(callback.path(), CallbackPath::Unknown, "it was not sent");
    assert!(callback.begin_probe());
    callback.end_probe(Some(true));
    assert!(callback.takes_recalls());
    callback.tried(false);
    assert!(!callback.takes_recalls());
    callback.misunderstood();
    callback.tried(true);
    assert!(!callback.takes_recalls() && !callback.begin_probe(), "it has answered something else");
    // nobody can be called as Kerberos demands
    let callback = minor0_client(&world, b"b", CallbackCredential::Unavailable);
    callback.tried(true);
    assert!(!callback.takes_recalls());
}

#[test]
fn whoever_has_one_is_told_that_its_address_does_not_answer() {
    let world = World::new(0);
    let callback = minor0_client(&world, b"a", CallbackCredential::None);
    let client = minor0_id(&world, b"a");
    callback.tried(false);
    assert!(world.state.path_down(client).is_some_and(|(_, is_told)| !is_told), "it has none");
    let ticket = owner_ticket(&world, client, 2);
    let held = delegate_to(&world, &ticket, 1);
    let (down, is_told) = world.state.path_down(client).unwrap();
    assert!(is_told && Arc::ptr_eq(&down, &callback));
    callback.tried(true);
    assert!(world.state.path_down(client).is_none());
    assert!(world.state.path_down(client + 1000).is_none());
    assert_eq!(world.state.read().client_of(held), Some(client));
}

#[test]
fn a_stateid_of_version_4_0_comes_without_a_client() {
    let world = World::new(1);
    minor0_client(&world, b"a", CallbackCredential::None);
    let client = minor0_id(&world, b"a");
    let ticket = owner_ticket(&world, client, 2);
    let held = delegate_to(&world, &ticket, 1);
    let find = |stateid, n: u8| {
        let found = world.state.delegation_of(Now(0), &world.state.read(), (stateid, &file(n)));
        found.map(|(client, held)| (client, held.kind))
    };
    assert_eq!(find(held, 1), Ok((client, DelegationKind::Read)));
    assert_eq!(find(held, 2), Err(StateidError::Bad), "another file");
    assert_eq!(find(Stateid { other: [7; 12], ..held }, 1), Err(StateidError::Stale));
    let of_session = world.delegate(0, 3, 0).unwrap();
    assert_eq!(find(of_session, 3), Err(StateidError::Bad), "a later version's");
    assert_eq!(world.state.read().client_of(of_session), None);
    // revoked: there is no FREE_STATEID to wait for
    recalls(&world, 1, 0);
    world.renew(0, RECALL);
    world.state.renew_client(Now(RECALL), client).unwrap();
    world.state.sweep_delegations(Now(RECALL));
    assert_eq!(find(held, 1), Err(StateidError::Bad));
    assert_eq!(world.state.delegations_revoked(), 1);
    // lost with its client
    let held = delegate_to(&world, &ticket, 4);
    drop(ticket);
    let _record = world.state.begin_release(client);
    world.state.finish_release(client);
    assert_eq!(find(held, 4), Err(StateidError::Expired));
}

/// Has the delegations of a file recalled.
fn recalls(world: &World, n: u8, now: u64) {
    let recalled = world.state.recall_for_change(Now(now), &file(n), None);
    assert!(matches!(recalled, DelegationConflict::Recalled(_)), "{recalled:?}");
}
