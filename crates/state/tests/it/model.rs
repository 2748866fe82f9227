//! The state against a naive model: a mode per owner, file and byte, and a queue per file.
//!
//! Every step is checked whole: the client's answer, who was told, what each owner holds on each byte, what the kernel
//! shows, and the counts of hosts and files. 260,000 steps in all, from fixed seeds; a failure names its seed. `SEEDS=50`
//! for a million.

use crate::world::{BYTES, Owner, World, address, file, name, range, span};
use bowline_state::{
    ByteRange, Cancelled, Conflict, FileKey, HostRemoval, How, Limits, Mode, NotIdentified, Now,
    Plan, Reboot, Tag,
};
use std::collections::HashMap;

/// A small generator with a fixed sequence (splitmix64).
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    pub fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }
}

const OWNERS: [Owner; 5] = [(1, 10), (1, 11), (2, 10), (3, 30), (4, 40)];

#[derive(Clone)]
struct Waits {
    tag: Tag,
    owner: Owner,
    range: ByteRange,
    mode: Mode,
}

#[derive(Clone, Default)]
struct FileModel {
    held: HashMap<Owner, Vec<Option<Mode>>>,
    queue: Vec<Waits>,
}

impl FileModel {
    fn bytes(&mut self, owner: Owner) -> &mut Vec<Option<Mode>> {
        self.held.entry(owner).or_insert_with(|| vec![None; BYTES as usize])
    }

    fn excluded(&self, owner: Owner, range: ByteRange, mode: Mode) -> bool {
        let others = self.held.iter().filter(|(other, _)| **other != owner);
        others
            .flat_map(|(_, bytes)| &bytes[span(range)])
            .any(|held| held.is_some_and(|held| held.conflicts(mode)))
    }

    fn strongest(&self, at: usize) -> Option<Mode> {
        self.held.values().map(|bytes| bytes[at]).max().flatten()
    }

    /// Grants what can be granted, first come first served.
    fn promote(&mut self, kernel: Option<&Vec<Option<Mode>>>) -> Vec<Tag> {
        let mut told = Vec::new();
        let mut at = 0;
        while at < self.queue.len() {
            let waits = self.queue[at].clone();
            let passes = self.queue[..at].iter().any(|earlier| {
                earlier.owner != waits.owner
                    && earlier.mode.conflicts(waits.mode)
                    && earlier.range.overlaps(waits.range)
            });
            let local = kernel.is_some_and(|local| {
                local[span(waits.range)].iter().flatten().any(|held| held.conflicts(waits.mode))
            });
            if passes || local || self.excluded(waits.owner, waits.range, waits.mode) {
                at += 1;
                continue;
            }
            let before = self.bytes(waits.owner)[span(waits.range)].to_vec();
            self.bytes(waits.owner)[span(waits.range)].fill(Some(waits.mode));
            self.queue.remove(at);
            told.push(waits.tag);
            if waits.mode == Mode::Read && before.contains(&Some(Mode::Write)) {
                at = 0;
            }
        }
        told
    }

    fn blockers(&self, at: usize) -> Vec<Owner> {
        let waits = &self.queue[at];
        let holders = self.held.iter().filter(|(owner, bytes)| {
            **owner != waits.owner
                && bytes[span(waits.range)].iter().flatten().any(|held| held.conflicts(waits.mode))
        });
        let earlier = self.queue[..at].iter().filter(|earlier| {
            earlier.owner != waits.owner
                && earlier.mode.conflicts(waits.mode)
                && earlier.range.overlaps(waits.range)
        });
        holders.map(|(owner, _)| *owner).chain(earlier.map(|earlier| earlier.owner)).collect()
    }
}

struct Model {
    files: Vec<FileModel>,
}

impl Model {
    fn deadlocked(&self, owner: Owner) -> bool {
        let mut open = vec![owner];
        let mut seen = Vec::new();
        while let Some(waiting) = open.pop() {
            for file in &self.files {
                let requests = (0..file.queue.len()).filter(|at| file.queue[*at].owner == waiting);
                for blocker in requests.flat_map(|at| file.blockers(at)) {
                    if blocker == owner {
                        return true;
                    }
                    if !seen.contains(&blocker) {
                        seen.push(blocker);
                        open.push(blocker);
                    }
                }
            }
        }
        false
    }
}

/// One run: a world, its model, and a sequence of random steps.
struct Run {
    world: World,
    model: Model,
    random: Random,
    next_tag: u64,
    step: u64,
}

impl Run {
    fn new(seed: u64, local: bool) -> Self {
        // retries of requests that a local program blocks are not the model's: they are made by hand
        let limits = Limits { silent_ms: 0, ..Limits::default() };
        Self {
            world: World::with_limits(local, limits),
            model: Model { files: vec![FileModel::default(); 2] },
            random: Random(seed),
            next_tag: 0,
            step: 0,
        }
    }

    /// The last byte of the arrays stands for all from there on.
    fn any_range(&mut self) -> ByteRange {
        // single bytes are as likely as long ranges, so that there come to be many
        let start = self.random.below(BYTES);
        let len = [1, 1, 2, 5, 20, BYTES][self.random.below(6) as usize];
        let end = (start + self.random.below(len)).min(BYTES - 1);
        range(start, if end == BYTES - 1 { u64::MAX } else { end })
    }

    fn steps(&mut self, count: u64) {
        for _ in 0..count {
            self.step += 1;
            let at = self.random.below(2) as usize;
            let key = file(at as u8);
            let owner = OWNERS[self.random.below(5) as usize];
            let range = self.any_range();
            let mode = if self.random.below(2) == 0 { Mode::Read } else { Mode::Write };
            self.world.told.clear();
            // what a local program blocked before is tried again with whatever happens now
            self.world.now = Now(self.world.now.0 + 2000);
            let mut expected = match self.random.below(100) {
                0..55 => self.lock(at, key, owner, range, mode),
                55..85 => self.unlock(at, key, owner, range),
                85..90 => self.cancel(at, key, owner),
                90..93 => self.drop_host(owner.0),
                93..96 if self.world.local => self.local_program(key, range, mode),
                _ => {
                    self.world.tick(2000);
                    Vec::new()
                }
            };
            if self.world.local {
                self.world.tick(2000);
                for (number, file_model) in self.model.files.iter_mut().enumerate() {
                    let local = self.world.kernel.local.get(&file(number as u8));
                    expected.extend(file_model.promote(local));
                }
            }
            let mut told: Vec<Tag> = self.world.told.clone();
            told.sort();
            expected.sort();
            assert_eq!(told, expected, "step {}: who was told", self.step);
            self.compare(key, at);
        }
        (0..2).for_each(|at| self.compare(file(at as u8), at));
    }

    fn lock(
        &mut self,
        at: usize,
        key: FileKey,
        owner: Owner,
        range: ByteRange,
        mode: Mode,
    ) -> Vec<Tag> {
        self.next_tag += 1;
        let tag = Tag(self.next_tag);
        // in which order two waiting requests of one owner are granted is left open, so that they must not overlap
        let crosses = |waits: &Waits| {
            waits.owner == owner && waits.mode != mode && waits.range.overlaps(range)
        };
        let crosses = self.model.files[at].queue.iter().any(crosses);
        let waits = !crosses && self.random.below(2) == 0;
        let how = if waits { How::Wait(tag) } else { How::Try };
        let plan = self.world.lock(owner, key, range, mode, how);
        let local = self.world.kernel.local.get(&key).filter(|_| self.world.local);
        let locally = |file: &FileModel| {
            local.is_some_and(|local| {
                span(range).any(|byte| {
                    let weaker = file.strongest(byte) < Some(mode);
                    weaker && local[byte].is_some_and(|held| held.conflicts(mode))
                })
            })
        };
        let file = &mut self.model.files[at];
        if file.bytes(owner)[span(range)].iter().all(|held| *held == Some(mode)) {
            assert!(matches!(plan, Plan::Granted), "step {}: {plan:?}", self.step);
            return Vec::new();
        }
        let same = |waits: &&Waits| (waits.owner, waits.range, waits.mode) == (owner, range, mode);
        let known = file.queue.iter().find(same).map(|waits| waits.tag).filter(|_| waits);
        if let Some(known) = known {
            assert!(
                matches!(plan, Plan::Blocked(tag) if tag == known),
                "step {}: {plan:?}",
                self.step
            );
            return Vec::new();
        }
        let excluded = file.excluded(owner, range, mode);
        if !excluded && !locally(file) {
            assert!(matches!(plan, Plan::Granted), "step {}: {plan:?}", self.step);
            let weakens =
                mode == Mode::Read && file.bytes(owner)[span(range)].contains(&Some(Mode::Write));
            file.bytes(owner)[span(range)].fill(Some(mode));
            let local = self.world.kernel.local.get(&key).filter(|_| self.world.local);
            return if weakens { file.promote(local) } else { Vec::new() };
        }
        if !waits {
            match (excluded, &plan) {
                (true, Plan::Denied(Conflict::Lock { .. }))
                | (false, Plan::Denied(Conflict::Local(_))) => {}
                _ => panic!("step {}: {plan:?}", self.step),
            }
            return Vec::new();
        }
        file.queue.push(Waits { tag, owner, range, mode });
        if excluded && self.model.deadlocked(owner) {
            assert!(matches!(plan, Plan::Deadlock), "step {}: {plan:?}", self.step);
            self.model.files[at].queue.pop();
        } else {
            assert!(matches!(plan, Plan::Blocked(own) if own == tag), "step {}", self.step);
        }
        Vec::new()
    }

    fn unlock(&mut self, at: usize, key: FileKey, owner: Owner, range: ByteRange) -> Vec<Tag> {
        assert!(matches!(self.world.unlock(owner, key, range), Plan::Granted));
        let local = self.world.kernel.local.get(&key).filter(|_| self.world.local);
        let file = &mut self.model.files[at];
        file.bytes(owner)[span(range)].fill(None);
        file.promote(local)
    }

    /// Cancels a request that waits, or one that never was.
    fn cancel(&mut self, at: usize, key: FileKey, owner: Owner) -> Vec<Tag> {
        let queue = &self.model.files[at].queue;
        let found = match queue.is_empty() {
            true => None,
            false => Some(self.random.below(queue.len() as u64) as usize),
        };
        let Some(place) = found else {
            let cancelled = self.world.cancel(owner, key, range(3, 4), Mode::Write);
            assert!(matches!(cancelled, Cancelled::Held | Cancelled::Unknown));
            return Vec::new();
        };
        let waits = self.model.files[at].queue.remove(place);
        let cancelled = self.world.cancel(waits.owner, key, waits.range, waits.mode);
        assert_eq!(cancelled, Cancelled::Removed(waits.tag), "step {}", self.step);
        let local = self.world.kernel.local.get(&key).filter(|_| self.world.local);
        self.model.files[at].promote(local)
    }

    /// A host reboots, gives everything up, or is released.
    fn drop_host(&mut self, host: u8) -> Vec<Tag> {
        let id = self.world.host(host);
        match self.random.below(3) {
            0 => {
                let state = self.random.next() as i32 | 1;
                let from = address(host);
                let now = self.world.now;
                match self.world.state.client_rebooted(now, from, &name(host), state) {
                    Reboot::Dropped { record, effects, .. } => {
                        self.world.stored.push(record);
                        self.world.run(effects);
                    }
                    Reboot::Ignored => {
                        let (_, effects) = leave(self.world.state.free_all(now, id));
                        self.world.run(effects);
                    }
                }
            }
            1 => {
                let (_, effects) = leave(self.world.state.free_all(self.world.now, id));
                self.world.run(effects);
            }
            _ => match self.world.state.release_host(self.world.now, id) {
                HostRemoval::Record(record) => {
                    assert!(matches!(self.world.try_host(host), Err(NotIdentified::BeingRemoved)));
                    self.world.store(&record);
                }
                HostRemoval::Gone(_, effects) => self.world.run(effects),
                HostRemoval::Unknown => panic!("the host was there"),
            },
        }
        let mut told = Vec::new();
        for (at, file_model) in self.model.files.iter_mut().enumerate() {
            file_model.held.retain(|owner, _| owner.0 != host);
            file_model.queue.retain(|waits| waits.owner.0 != host);
            let local = self.world.kernel.local.get(&file(at as u8)).filter(|_| self.world.local);
            told.extend(file_model.promote(local));
        }
        let rows = self.world.state.host_rows(Now(0));
        let left = rows.iter().find(|row| row.info.addr == address(host));
        assert!(left.is_none_or(|row| row.files == 0 && row.ranges == 0), "step {}", self.step);
        told
    }

    /// A local program locks or unlocks what nobody of us holds against it.
    fn local_program(&mut self, key: FileKey, range: ByteRange, mode: Mode) -> Vec<Tag> {
        let unlocks = self.random.below(2) == 0;
        let kernel = &mut self.world.kernel;
        let ours = kernel.ours.get(&key);
        let free = span(range).all(|at| {
            let held = ours.and_then(|bytes| bytes[at]);
            held.is_none_or(|held| !held.conflicts(mode))
        });
        let local = kernel.local.entry(key).or_insert_with(|| vec![None; BYTES as usize]);
        if unlocks {
            local.fill(None);
        } else if free {
            local[span(range)].fill(Some(mode));
        }
        Vec::new()
    }

    fn compare(&self, key: FileKey, at: usize) {
        let file = &self.model.files[at];
        let mut ranges = 0;
        for owner in OWNERS {
            let held = self.world.held(owner, key);
            let none = vec![None; BYTES as usize];
            let expected = file.held.get(&owner).unwrap_or(&none);
            assert_eq!(&held, expected, "step {}: what {owner:?} holds", self.step);
            ranges += runs(expected);
        }
        let row = self.world.state.file_row(self.world.now, &key);
        if let Some(row) = &row {
            assert_eq!(row.locks.len(), ranges, "step {}: merged", self.step);
            assert!(row.locks.iter().all(|lock| lock.tentative_ms.is_none()), "tentative");
            let queue: Vec<Tag> = row.waiters.iter().map(|waiter| waiter.tag).collect();
            let expected: Vec<Tag> = file.queue.iter().map(|waits| waits.tag).collect();
            assert_eq!(queue, expected, "step {}: the queue", self.step);
        } else {
            assert!(ranges == 0 && file.queue.is_empty(), "step {}", self.step);
        }
        if self.world.local {
            let shown = self.world.kernel.ours.get(&key);
            for byte in 0..BYTES as usize {
                let shown = shown.and_then(|bytes| bytes[byte]);
                assert_eq!(shown, file.strongest(byte), "step {}: byte {byte}", self.step);
            }
        }
    }
}

fn leave(leaving: HostRemoval) -> (usize, bowline_state::Effects) {
    match leaving {
        HostRemoval::Gone(ranges, effects) => (ranges, effects),
        other => panic!("{other:?}"),
    }
}

/// How many ranges these bytes are.
fn runs(bytes: &[Option<Mode>]) -> usize {
    let starts = bytes.iter().enumerate();
    starts.filter(|(at, held)| held.is_some() && (*at == 0 || bytes[at - 1] != **held)).count()
}

/// How many sequences each test takes, of 10,000 steps each.
fn seeds() -> u64 {
    std::env::var("SEEDS").map_or(13, |seeds| seeds.parse().unwrap())
}

#[test]
fn state_equals_the_model_among_nfs_owners() {
    for seed in 0..seeds() {
        Run::new(seed, false).steps(10_000);
    }
}

#[test]
fn state_equals_the_model_with_local_programs() {
    for seed in 1000..1000 + seeds() {
        Run::new(seed, true).steps(10_000);
    }
}
