//! Random histories of machines, of their leases, and of a server that is killed between any two writes of its records or
//! within one: nobody gets what another holds, and whoever comes back in time gets back what it had. A client of version 3
//! reserves the same files by SHARE.
//!
//! The model knows what each machine believes to hold, and whether it may still believe so: a machine that was silent for
//! longer than its lease may lose all of it, and one that was not back when a grace period ended has lost it. A history is
//! given by its seed, which a failure names. `SEEDS=100000` for more of them.

use crate::v4_world::{
    ALICE, Answer, Client, EXCLUSIVE, GRACE, HERE, LEASE, NlmClient, READ, Server, WRITE, conflict,
};
use bowline_state::v4::Stateid;
use bowline_state::{FileKey, Now, Record, ShareMode};

const MACHINES: usize = 3;
const FILES: usize = 2;
const STEPS: usize = 60;
/// The client of version 3. It calls often enough: nobody takes what it holds.
const SHARER: NlmClient = NlmClient { addr: HERE, name: b"pc" };

/// Numbers that follow from a seed (xorshift).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}

/// What a machine believes to hold of a file.
#[derive(Debug, Clone, Copy)]
struct Held {
    mode: ShareMode,
    stateid: Stateid,
    /// Which start of the server it is from, or was reclaimed in.
    start: u32,
    /// Somebody may have it now.
    lost: bool,
    /// Its lease was over when the server was killed: whether it lost everything just then is not known.
    uncertain: bool,
}

#[derive(Default)]
struct Machine {
    client: Option<Client>,
    /// Which start of the server it knows.
    start: u32,
    /// When it last called, in the server's time since that start.
    called_ms: u64,
    held: [Option<Held>; FILES],
    /// The number of its last request.
    number: u32,
}

/// What the client of version 3 believes to hold of a file.
#[derive(Debug, Clone, Copy)]
struct Reserved {
    mode: ShareMode,
    /// As [`Held::start`].
    start: u32,
    lost: bool,
}

struct World {
    server: Server,
    numbers: Numbers,
    machines: [Machine; MACHINES],
    reserved: [Option<Reserved>; FILES],
    /// How often the server was started.
    start: u32,
    now: u64,
    /// Records that were looked at for the end of a grace period.
    looked: usize,
    /// Opens that were reclaimed.
    reclaimed: u64,
}

impl World {
    fn new(seed: u64) -> Self {
        let numbers = Numbers(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        let (server, machines) = (Server::first(), Default::default());
        let reserved = [None; FILES];
        Self { server, numbers, machines, reserved, start: 1, now: 0, looked: 0, reclaimed: 0 }
    }

    fn step(&mut self) {
        let at = self.numbers.below(MACHINES as u64) as usize;
        match self.numbers.below(18) {
            0..=6 => self.open(at),
            7..=9 => self.close(at),
            10 => self.now += self.numbers.below(LEASE / 4),
            11 => self.now += self.numbers.below(LEASE * 3 / 2),
            12 => self.server.v4.sweep_idle(),
            13 => self.server.forget(),
            14 => self.server.v4.sweep(Now(self.now)),
            15 | 16 => self.reserve_or_give_back(),
            // from some write on it is dead
            _ => {
                let (after, stored) = (self.numbers.below(4) as usize, self.numbers.below(2) == 1);
                self.server.killed_after = Some((after, stored));
                if self.numbers.below(4) == 0 {
                    self.server.killed = true;
                }
            }
        }
        self.note_end_of_grace();
        if self.server.killed {
            self.restart();
        }
        self.check_grace();
    }

    fn restart(&mut self) {
        for machine in &mut self.machines {
            let silent = self.now - machine.called_ms.min(self.now) > LEASE;
            let here = machine.held.iter_mut().flatten().filter(|held| held.start == self.start);
            here.for_each(|held| held.uncertain |= silent);
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
            let reserved = self.reserved.iter_mut().flatten();
            reserved.filter(|own| own.start != self.start).for_each(|own| own.lost = true);
        }
    }

    /// A grace period does not end before its time while somebody who holds something is not back.
    fn check_grace(&self) {
        if self.now < GRACE && !self.server.locks.in_grace(Now(self.now)) {
            for machine in &self.machines {
                let waits =
                    |held: &&Held| held.start != self.start && !held.lost && !held.uncertain;
                let waiting = machine.held.iter().flatten().find(waits);
                assert!(waiting.is_none(), "the grace period has ended without {waiting:?}");
            }
            let mut reserved = self.reserved.iter().flatten();
            let waiting = reserved.find(|own| own.start != self.start && !own.lost);
            assert!(waiting.is_none(), "the grace period has ended without {waiting:?}");
        }
    }

    /// Makes sure that a machine has a session of this server, in which it has reclaimed what it held.
    fn connect(&mut self, at: usize) -> Option<Client> {
        let machine = &mut self.machines[at];
        if machine.start == self.start
            && let Some(client) = machine.client
        {
            let reading = self.server.v4.read();
            if let Some(session) = reading.session(&client.session) {
                machine.number += 1;
                session.sequence(Now(self.now), (0, machine.number), 0, 1).unwrap();
                machine.called_ms = self.now;
                return Some(client);
            }
            // its client has ended, and with it all that it had of this server
            machine.held = Default::default();
        }
        let client = self.server.client(self.now, &[at as u8], 1, ALICE);
        let machine = &mut self.machines[at];
        (machine.client, machine.start, machine.called_ms) = (Some(client), self.start, self.now);
        machine.number = 0;
        for file in 0..FILES {
            self.reclaim(at, file, &client);
            if self.server.killed {
                return None;
            }
        }
        self.server.complete(self.now, &client);
        (!self.server.killed).then_some(client)
    }

    fn reclaim(&mut self, at: usize, file: usize, client: &Client) {
        let Some(held) = self.machines[at].held[file] else { return };
        let client = Client { file: key(file), ..*client };
        let in_grace = self.server.locks.in_grace(Now(self.now));
        let answer = self.server.open(self.now, &client, true, held.mode);
        match answer {
            Answer::Open => {
                assert!(!held.lost, "{at} reclaims what it has lost");
                self.reclaimed += 1;
                self.granted(at, file, held.mode);
            }
            Answer::Killed => {}
            answer => {
                assert!(
                    held.lost || held.uncertain || !in_grace,
                    "{at} does not get back what it held: {answer:?}"
                );
                self.machines[at].held[file] = None;
            }
        }
    }

    fn open(&mut self, at: usize) {
        let Some(client) = self.connect(at) else { return };
        let file = self.numbers.below(FILES as u64) as usize;
        let mode = [READ, WRITE, EXCLUSIVE][self.numbers.below(3) as usize];
        let client = Client { file: key(file), ..client };
        // an owner's own open denies as well: it is closed before another one
        if self.machines[at].held[file].is_some() {
            return;
        }
        let answer = self.server.open(self.now, &client, false, mode);
        if answer == Answer::Open {
            self.granted(at, file, mode);
        }
    }

    /// A machine gets a file: nobody else holds it so that this conflicts.
    fn granted(&mut self, at: usize, file: usize, mode: ShareMode) {
        self.note_end_of_grace();
        let reserved = self.reserved[file].filter(|own| !own.lost && conflict(own.mode, mode));
        assert!(reserved.is_none(), "{at} gets {mode:?} although {reserved:?}");
        self.take_from_others(at, file, mode);
        let stateid = self.server.opened.unwrap();
        let start = self.start;
        self.machines[at].held[file] =
            Some(Held { mode, stateid, start, lost: false, uncertain: false });
    }

    /// Somebody gets a file: whoever held it so that this conflicts was silent.
    fn take_from_others(&mut self, at: usize, file: usize, mode: ShareMode) {
        for other in (0..MACHINES).filter(|other| *other != at) {
            let machine = &mut self.machines[other];
            let Some(held) = machine.held[file].filter(|held| !held.lost) else { continue };
            if !conflict(held.mode, mode) {
                continue;
            }
            let is_silent = held.start == self.start && self.now - machine.called_ms > LEASE;
            let is_silent = is_silent || held.uncertain;
            assert!(is_silent, "{at} gets {mode:?} although {other} has {held:?} at {}", self.now);
            // it has lost everything
            machine.held.iter_mut().flatten().for_each(|held| held.lost = true);
        }
    }

    /// The client of version 3 takes back what it held before a restart, then reserves another file, or gives one back.
    fn reserve_or_give_back(&mut self) {
        for file in 0..FILES {
            let Some(own) = self.reserved[file].filter(|own| own.start != self.start) else {
                continue;
            };
            let in_grace = self.server.locks.in_grace(Now(self.now));
            match self.server.reserve(self.now, (&SHARER, key(file)), true, own.mode) {
                Answer::Open => {
                    assert!(!own.lost, "it reclaims what it has lost");
                    self.reclaimed += 1;
                    self.note_reservation(file, own.mode);
                }
                Answer::Killed => return,
                answer => {
                    assert!(own.lost || !in_grace, "it does not get back {own:?}: {answer:?}");
                    self.reserved[file] = None;
                }
            }
        }
        let file = self.numbers.below(FILES as u64) as usize;
        if let Some(own) = self.reserved[file].take() {
            self.server.unreserve(self.now, (&SHARER, key(file)), own.mode);
            return;
        }
        let mode = [READ, WRITE, EXCLUSIVE][self.numbers.below(3) as usize];
        let answer = self.server.reserve(self.now, (&SHARER, key(file)), false, mode);
        if answer == Answer::Open {
            self.note_reservation(file, mode);
        }
    }

    /// The client of version 3 gets a file: nobody else holds it so that this conflicts.
    fn note_reservation(&mut self, file: usize, mode: ShareMode) {
        self.note_end_of_grace();
        self.take_from_others(MACHINES, file, mode);
        self.reserved[file] = Some(Reserved { mode, start: self.start, lost: false });
    }

    fn close(&mut self, at: usize) {
        let Some(client) = self.connect(at) else { return };
        let file = self.numbers.below(FILES as u64) as usize;
        let Some(held) = self.machines[at].held[file].take() else { return };
        let reading = self.server.v4.read();
        self.server.v4.close(&reading, client.id, held.stateid, &key(file)).unwrap();
    }
}

fn key(file: usize) -> FileKey {
    FileKey::new(&[file as u8]).unwrap()
}

#[test]
fn nobody_gets_what_another_holds_and_who_comes_back_in_time_gets_what_it_had() {
    let seeds: u64 = std::env::var("SEEDS").map_or(3000, |seeds| seeds.parse().unwrap());
    let first: u64 = std::env::var("SEED").map_or(1, |seed| seed.parse().unwrap());
    let (mut starts, mut reclaimed) = (0, 0);
    for seed in first..first + seeds {
        let run = std::panic::catch_unwind(|| {
            let mut world = World::new(seed);
            (0..STEPS).for_each(|_| world.step());
            (world.start, world.reclaimed)
        });
        let (start, back) = run.unwrap_or_else(|_| panic!("in the history of SEED={seed} SEEDS=1"));
        (starts, reclaimed) = (starts + u64::from(start), reclaimed + back);
    }
    println!("{seeds} histories, {starts} starts, {reclaimed} opens reclaimed");
    assert!(seeds < 100 || starts > 2 * seeds && reclaimed > seeds / 10, "{starts} {reclaimed}");
}
