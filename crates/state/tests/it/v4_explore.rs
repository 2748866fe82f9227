//! Every order of what two clients of version 4.1 do with the opens of a file, breadth first: OPEN, OPEN_DOWNGRADE, CLOSE, a
//! lock state, a lease that ends, a client that reboots, a server that crashes, also while it stores a record, sessions made
//! anew, reclaims, and grace periods that end.
//!
//! The explorer keeps, per state, the path that leads there, and a hash of what can be seen of it: a state is made again
//! by following its path. The model says what each step must answer, and what the server must have after it.
//! `STATES=1000000` for more of them.

use crate::v4_world::{ALICE, Answer, Client, GRACE, LEASE, READ, Server, WRITE, conflict};
use bowline_state::v4::{DowngradeError, Stateid};
use bowline_state::{Caller, Now, Record, ShareBits, ShareMode, Transport};
use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};

const OWNERS: [&[u8]; 2] = [b"one", b"two"];
/// Reads, and lets nobody write.
const GUARD: ShareMode = ShareMode { access: ShareBits::READ, deny: ShareBits::WRITE };
const MODES: [ShareMode; 3] = [READ, WRITE, GUARD];
/// How many states are looked at.
const STATES: usize = 20_000;

/// A step of a client, of one of its owners, with one of [`MODES`].
#[derive(Debug, Clone, Copy)]
enum Action {
    Open(usize, usize, usize),
    Downgrade(usize, usize, usize),
    Close(usize, usize),
    /// The owner of the open gets a lock state.
    Lock(usize, usize),
    /// A session is made where there is none.
    Connect(usize),
    Reclaim(usize, usize),
    Complete(usize),
    /// A client starts anew, and says so.
    Reboot(usize),
    /// More than a lease passes, in which this client says nothing.
    Silence(usize),
    /// A lease passes, in which both renew theirs.
    Wait,
    Sweep,
    /// A silent client has had its courtesy time.
    Overdue(usize),
    Crash,
    /// The server will crash with the next record that it stores: before or after that.
    CrashAtRecord(bool),
}

/// An open as its client knows it.
#[derive(Debug, Clone)]
struct Held {
    /// What it was opened with, of which it is the union.
    combinations: Vec<ShareMode>,
    stateid: Stateid,
    lock: Option<Stateid>,
    /// Which start of the server it is from, or was reclaimed in.
    start: u32,
    /// Somebody may have what it stood for.
    lost: bool,
    /// The server crashed while the client was silent: whether it has lost this is not known.
    uncertain: bool,
}

#[derive(Default)]
struct Machine {
    client: Option<Client>,
    verifier: u8,
    start: u32,
    number: u32,
    silent: bool,
    complete: bool,
    held: [Option<Held>; 2],
}

struct World {
    server: Server,
    machines: [Machine; 2],
    now: u64,
    start: u32,
    looked: usize,
}

/// What was met on the way.
#[derive(Debug, Default)]
struct Reached {
    denied: u32,
    taken: u32,
    refused_downgrades: u32,
    reclaimed: u32,
    too_late: u32,
    crashes_at_records: u32,
}

fn union(modes: &[ShareMode]) -> ShareMode {
    let bits = |of: fn(&ShareMode) -> ShareBits| {
        ShareBits::from_number(modes.iter().fold(0, |all, mode| all | of(mode).number())).unwrap()
    };
    ShareMode { access: bits(|mode| mode.access), deny: bits(|mode| mode.deny) }
}

fn is_within(inner: ShareMode, outer: ShareMode) -> bool {
    let inside = |a: ShareBits, b: ShareBits| a.number() & !b.number() == 0;
    inside(inner.access, outer.access) && inside(inner.deny, outer.deny)
}

impl World {
    fn new() -> Self {
        let (server, machines) = (Server::first(), Default::default());
        Self { server, machines, now: 0, start: 1, looked: 0 }
    }

    /// The steps that mean something now.
    fn actions(&self) -> Vec<Action> {
        let mut all = vec![Action::Wait, Action::Sweep, Action::Crash];
        if self.server.killed_after.is_none() {
            all.extend([Action::CrashAtRecord(false), Action::CrashAtRecord(true)]);
        }
        for (at, machine) in self.machines.iter().enumerate() {
            all.extend([Action::Silence(at), Action::Reboot(at)]);
            if machine.silent {
                all.push(Action::Overdue(at));
            }
            if machine.start != self.start || machine.client.is_none() {
                all.push(Action::Connect(at));
                continue;
            }
            all.push(Action::Complete(at));
            for owner in 0..OWNERS.len() {
                match &machine.held[owner] {
                    Some(held) if held.start != self.start => all.push(Action::Reclaim(at, owner)),
                    Some(_) => {
                        let of_mode = |mode| {
                            [Action::Open(at, owner, mode), Action::Downgrade(at, owner, mode)]
                        };
                        all.extend((0..MODES.len()).flat_map(of_mode));
                        all.extend([Action::Close(at, owner), Action::Lock(at, owner)]);
                    }
                    None => all.extend((0..MODES.len()).map(|mode| Action::Open(at, owner, mode))),
                }
            }
        }
        all
    }

    fn act(&mut self, action: Action, reached: &mut Reached) {
        match action {
            Action::Open(at, owner, mode) => self.open(at, owner, MODES[mode], reached),
            Action::Downgrade(at, owner, mode) => self.downgrade(at, owner, MODES[mode], reached),
            Action::Close(at, owner) => self.close(at, owner),
            Action::Lock(at, owner) => self.lock(at, owner),
            Action::Connect(at) => self.connect(at),
            Action::Reclaim(at, owner) => self.reclaim(at, owner, reached),
            Action::Complete(at) => self.complete(at),
            Action::Reboot(at) => {
                self.machines[at].verifier += 1;
                self.machines[at].held = Default::default();
                self.connect(at);
            }
            Action::Silence(at) => {
                self.pass(Some(at));
                self.pass(Some(at));
            }
            Action::Wait => self.pass(None),
            Action::Sweep => {
                self.server.v4.sweep(Now(self.now));
                self.server.forget();
            }
            Action::Overdue(at) => self.end_overdue(at),
            Action::Crash => self.server.killed = true,
            Action::CrashAtRecord(stored) => self.server.killed_after = Some((0, stored)),
        }
        self.note_end_of_grace();
        if self.server.killed {
            reached.crashes_at_records += u32::from(!matches!(action, Action::Crash));
            self.restart();
        }
        self.check();
    }

    /// Most of a lease passes, in which all renew theirs but one.
    fn pass(&mut self, silent: Option<usize>) {
        self.now += LEASE * 2 / 3;
        for at in 0..self.machines.len() {
            if silent == Some(at) {
                self.machines[at].silent = true;
            } else if !self.machines[at].silent {
                self.call(at);
            }
        }
    }

    fn restart(&mut self) {
        for machine in &mut self.machines {
            let here = machine.held.iter_mut().flatten().filter(|held| held.start == self.start);
            here.for_each(|held| held.uncertain |= machine.silent);
            machine.silent = false;
        }
        self.server.restart();
        (self.start, self.now) = (self.start + 1, 0);
        self.looked = self.server.stored.len();
    }

    /// Who was not back when a grace period ended, which was stored, has lost what it held.
    fn note_end_of_grace(&mut self) {
        let new = &self.server.stored[self.looked..];
        let ended = new.iter().any(|record| matches!(record, Record::GraceEnded(_)));
        self.looked = self.server.stored.len();
        if ended {
            let held = self.machines.iter_mut().flat_map(|machine| &mut machine.held).flatten();
            held.filter(|held| held.start != self.start).for_each(|held| held.lost = true);
        }
    }

    /// A request of a client in its session; `None` if there is no such session any more.
    fn call(&mut self, at: usize) -> Option<Client> {
        let machine = &mut self.machines[at];
        let client = machine.client.filter(|_| machine.start == self.start)?;
        let found = {
            let reading = self.server.v4.read();
            reading.session(&client.session).map(|session| {
                machine.number += 1;
                session.sequence(Now(self.now), (0, machine.number), 0, 1).unwrap();
            })
        };
        if found.is_none() {
            self.lose_session(at);
            return None;
        }
        self.machines[at].silent = false;
        Some(client)
    }

    /// The server has ended the client, which has been silent: what it had of this start is gone.
    fn lose_session(&mut self, at: usize) {
        let machine = &mut self.machines[at];
        assert!(machine.silent, "{at} has called in time, and its session has ended");
        machine.client = None;
        for held in &mut machine.held {
            if let Some(known) = held
                && known.start == self.start
            {
                assert!(known.lost, "{at} has lost {known:?}, which nobody wanted");
                *held = None;
            }
        }
    }

    fn connect(&mut self, at: usize) {
        let verifier = self.machines[at].verifier;
        let client = self.server.client(self.now, &[at as u8], verifier, ALICE);
        let machine = &mut self.machines[at];
        (machine.client, machine.start, machine.number) = (Some(client), self.start, 0);
        (machine.complete, machine.silent) = (false, false);
    }

    fn complete(&mut self, at: usize) {
        let Some(client) = self.call(at) else { return };
        let first = self.server.complete(self.now, &client);
        if !self.server.killed {
            assert_eq!(first, !self.machines[at].complete);
            let machine = &mut self.machines[at];
            machine.complete = true;
            // what it has not reclaimed it gives up
            let held = machine.held.iter_mut().flatten();
            held.filter(|held| held.start != self.start).for_each(|held| held.lost = true);
        }
    }

    fn open(&mut self, at: usize, owner: usize, mode: ShareMode, reached: &mut Reached) {
        let Some(client) = self.call(at) else { return };
        let client = Client { owner: OWNERS[owner], ..client };
        let waits = !self.machines[at].complete || self.server.locks.in_grace(Now(self.now));
        let answer = self.server.open(self.now, &client, false, mode);
        self.note_end_of_grace();
        let (in_the_way, unsure) = self.in_the_way(at, mode);
        match answer {
            Answer::Killed => {}
            Answer::Grace => assert!(waits),
            Answer::Denied => {
                reached.denied += 1;
                assert!(in_the_way || unsure, "{at} is denied what nobody has");
            }
            Answer::Open => {
                assert!(!waits && !in_the_way, "{at} gets {mode:?}");
                self.granted(at, owner, mode, reached);
            }
            other => panic!("{other:?}"),
        }
    }

    /// Whether somebody who has called in time is in the way, and whether that is not known.
    fn in_the_way(&self, at: usize, mode: ShareMode) -> (bool, bool) {
        let (mut certain, mut unsure) = (false, false);
        for (other, machine) in self.machines.iter().enumerate() {
            for held in machine.held.iter().flatten() {
                if held.lost || !conflict(union(&held.combinations), mode) {
                    continue;
                }
                let gone = other != at && (machine.silent || held.uncertain);
                certain |= !gone;
                unsure |= held.uncertain;
            }
        }
        (certain, unsure)
    }

    fn granted(&mut self, at: usize, owner: usize, mode: ShareMode, reached: &mut Reached) {
        let other = &mut self.machines[1 - at];
        let conflicts = |held: &Held| !held.lost && conflict(union(&held.combinations), mode);
        if other.held.iter().flatten().any(conflicts) {
            // it was silent: it has lost everything
            reached.taken += 1;
            other.held.iter_mut().flatten().for_each(|held| held.lost = true);
        }
        let (stateid, start) = (self.server.opened.unwrap(), self.start);
        let held = &mut self.machines[at].held[owner];
        match held {
            Some(held) if held.start == start => {
                assert_eq!(stateid.other, held.stateid.other);
                assert_eq!(stateid.seqid, held.stateid.seqid + 1);
                held.combinations.push(mode);
                held.stateid = stateid;
            }
            _ => {
                let (combinations, lock) = (vec![mode], None);
                let (lost, uncertain) = (false, false);
                *held = Some(Held { combinations, stateid, lock, start, lost, uncertain });
            }
        }
    }

    fn reclaim(&mut self, at: usize, owner: usize, reached: &mut Reached) {
        let Some(client) = self.call(at) else { return };
        let client = Client { owner: OWNERS[owner], ..client };
        let held = self.machines[at].held[owner].clone().unwrap();
        let mode = union(&held.combinations);
        let waits = self.server.locks.in_grace(Now(self.now)) && !self.machines[at].complete;
        let answer = self.server.open(self.now, &client, true, mode);
        match answer {
            Answer::Killed => {}
            Answer::Open => {
                assert!(waits && !held.lost, "{at} reclaims {held:?}");
                reached.reclaimed += 1;
                self.machines[at].held[owner] = None;
                self.granted(at, owner, mode, reached);
            }
            answer => {
                assert!(
                    held.lost || held.uncertain || !waits,
                    "{at} does not get back {held:?}: {answer:?}"
                );
                reached.too_late += 1;
                self.machines[at].held[owner] = None;
            }
        }
    }

    fn downgrade(&mut self, at: usize, owner: usize, mode: ShareMode, reached: &mut Reached) {
        let Some(client) = self.call(at) else { return };
        let held = self.machines[at].held[owner].as_mut().unwrap();
        let within: Vec<ShareMode> =
            held.combinations.iter().copied().filter(|one| is_within(*one, mode)).collect();
        let reading = self.server.v4.read();
        let done =
            self.server.v4.downgrade(&reading, client.id, (held.stateid, &client.file), mode);
        match done {
            Ok(stateid) => {
                assert!(!within.is_empty() && union(&within) == mode, "{held:?} to {mode:?}");
                (held.combinations, held.stateid) = (within, stateid);
            }
            Err(DowngradeError::Inval) => {
                reached.refused_downgrades += 1;
                assert!(within.is_empty() || union(&within) != mode, "{held:?} to {mode:?}");
            }
            Err(other) => panic!("{other:?}"),
        }
    }

    fn close(&mut self, at: usize, owner: usize) {
        let Some(client) = self.call(at) else { return };
        let held = self.machines[at].held[owner].take().unwrap();
        let v4 = &self.server.v4;
        v4.close(&v4.read(), client.id, held.stateid, &client.file).unwrap();
        let reading = v4.read();
        assert!(reading.find_open(client.id, held.stateid).is_err());
        let lock = held.lock.map(|lock| reading.find_lock(client.id, lock).is_err());
        assert_ne!(lock, Some(false), "its locks go with it");
    }

    fn lock(&mut self, at: usize, owner: usize) {
        let Some(client) = self.call(at) else { return };
        let held = self.machines[at].held[owner].as_mut().unwrap();
        let v4 = &self.server.v4;
        let host = {
            let reading = v4.read();
            let session = reading.session(&client.session).unwrap();
            let (addr, transport) = ("127.0.0.1".parse().unwrap(), Transport::Tcp);
            let caller =
                Caller { addr, name: b"c", local: addr, nlm_version: 0, transport, nsm_state: 0 };
            let add = |id, _: &[u8]| self.server.locks.add_client(Now(self.now), id, &caller);
            v4.lock_host(session, add).unwrap()
        };
        let wanted = (&client.file, host, OWNERS[owner]);
        let lock = v4.locked(&v4.read(), held.stateid, wanted, client.id).unwrap().unwrap();
        if let Some(before) = held.lock.replace(lock) {
            assert_eq!((before.other, before.seqid + 1), (lock.other, lock.seqid));
        }
    }

    /// Takes what a silent client has, as the lock timer of the server does in the end.
    fn end_overdue(&mut self, at: usize) {
        let Some(client) =
            self.machines[at].client.filter(|_| self.machines[at].start == self.start)
        else {
            return;
        };
        self.server.expire(self.now, client.id);
        if !self.server.killed {
            let here = self.machines[at].held.iter_mut().flatten();
            here.filter(|held| held.start == self.start).for_each(|held| held.lost = true);
        }
    }

    /// The server has what the clients have, and no more.
    fn check(&self) {
        let mut opens = 0;
        let reading = self.server.v4.read();
        for (at, machine) in self.machines.iter().enumerate() {
            for held in machine.held.iter().flatten().filter(|held| held.start == self.start) {
                let client = machine.client.unwrap();
                let found = reading.find_open(client.id, held.stateid);
                assert_eq!(found.is_ok(), !held.lost, "{at} and {held:?}");
                if let Some(lock) = held.lock {
                    assert_eq!(reading.find_lock(client.id, lock).is_ok(), !held.lost);
                }
                opens += usize::from(!held.lost);
            }
        }
        assert_eq!(self.server.v4.open_count(), opens);
        self.check_grace();
    }

    /// A grace period does not end before its time while somebody who holds something is not back.
    fn check_grace(&self) {
        if self.now < GRACE && !self.server.locks.in_grace(Now(self.now)) {
            let held = self.machines.iter().flat_map(|machine| &machine.held).flatten();
            let waits = |held: &&Held| held.start != self.start && !held.lost && !held.uncertain;
            assert_eq!(held.filter(waits).count(), 0, "the grace period has ended too early");
        }
    }

    /// A hash of all that can make a difference later.
    fn digest(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        (self.server.locks.in_grace(Now(self.now)), self.server.killed_after).hash(&mut hasher);
        (self.now.min(GRACE) / (LEASE / 3)).hash(&mut hasher);
        let reading = self.server.v4.read();
        for machine in &self.machines {
            let is_known = machine.client.filter(|_| machine.start == self.start);
            let is_known = is_known.is_some_and(|one| reading.session(&one.session).is_some());
            (is_known, machine.silent, machine.complete).hash(&mut hasher);
            for held in &machine.held {
                let Some(held) = held else {
                    0.hash(&mut hasher);
                    continue;
                };
                let number = |mode: &ShareMode| mode.access.number() | mode.deny.number() << 2;
                let modes: std::collections::BTreeSet<u32> =
                    held.combinations.iter().map(number).collect();
                (modes, held.lock.is_some(), held.start == self.start).hash(&mut hasher);
                (held.lost, held.uncertain).hash(&mut hasher);
            }
        }
        // who would be waited for after a crash
        let recovery = bowline_state::Recovery::of(self.server.stored.iter().cloned());
        format!("{:?}", recovery.boot_clients().keys()).hash(&mut hasher);
        hasher.finish()
    }
}

/// The way to a state: the state before it and the last action.
struct Seen {
    before: usize,
    action: Action,
}

fn path(seen: &[Seen], mut at: usize) -> Vec<Action> {
    let mut path = Vec::new();
    while at != 0 {
        path.push(seen[at].action);
        at = seen[at].before;
    }
    path.reverse();
    path
}

/// The world at the end of a path, of which a failure says what it was.
fn follow(path: &[Action], reached: &mut Reached) -> World {
    let taken = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let mut world = World::new();
        path.iter().for_each(|action| world.act(*action, reached));
        world
    }));
    taken.unwrap_or_else(|_| panic!("after {path:?}"))
}

#[test]
fn opens_are_what_their_clients_know_in_every_order_of_events() {
    let states: usize = std::env::var("STATES").map_or(STATES, |states| states.parse().unwrap());
    let mut reached = Reached::default();
    let mut known = HashSet::from([World::new().digest()]);
    let mut seen = vec![Seen { before: 0, action: Action::Wait }];
    let mut next = 0;
    let mut depth = 0;
    while next < seen.len() && seen.len() < states {
        let mut way = path(&seen, next);
        depth = way.len();
        for action in follow(&way, &mut Reached::default()).actions() {
            way.push(action);
            if known.insert(follow(&way, &mut reached).digest()) {
                seen.push(Seen { before: next, action });
            }
            way.pop();
        }
        next += 1;
    }
    println!("{} states, all of them to a depth of {depth}: {reached:?}", seen.len());
    let Reached { denied, taken, refused_downgrades, reclaimed, too_late, crashes_at_records } =
        reached;
    let each = [denied, taken, refused_downgrades, reclaimed, too_late, crashes_at_records];
    assert!(states < STATES || each.iter().all(|count| *count > 0), "{reached:?}");
}
