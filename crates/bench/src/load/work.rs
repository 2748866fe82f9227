//! Workloads: what a simulated client asks next, and what it makes of an answer.
//!
//! A client has as many **lanes** as calls may be under way; a lane is free, or has one call. One
//! [`Work`] belongs to one client and one thread. It allocates nothing per call.

mod access;
mod create;
mod list;
mod lookup;
mod mixed;
mod read;
mod replay;
mod walk;
mod write;

use super::answer::Body;
use super::ask::Ask;
use super::op::Version;
use super::plan::{Plan, Workload};
use super::scene::Scene;
use super::tally::Checks;
use client::Fh;
use std::sync::Arc;

/// What one client does.
pub(crate) trait Work: Send {
    /// The next call of a free lane; `None`: not before another lane's answer.
    fn next(&mut self, lane: usize) -> Option<Ask<'_>>;

    /// Whether all is done that the plan asks for, so that there is nothing to wait for.
    fn is_done(&self) -> bool {
        false
    }

    /// Takes the answer to a lane's call; `status` 0 is success.
    fn answered(&mut self, lane: usize, status: u32, body: &Body<'_>, checks: &mut Checks);
}

/// The work of client number `client`.
pub(crate) fn of(plan: &Plan, scene: &Arc<Scene>, client: usize) -> Box<dyn Work> {
    let scene = Arc::clone(scene);
    let dice = Dice::new(plan.seed, client);
    match &plan.workload {
        Workload::Null => Box::new(Null),
        Workload::Getattr => Box::new(access::Touch::new(scene, dice, false)),
        Workload::Access => Box::new(access::Touch::new(scene, dice, true)),
        Workload::Lookup => Box::new(lookup::Names::new(scene, dice)),
        Workload::Readdir => Box::new(list::Lists::new(scene, dice, plan, false)),
        Workload::Readdirplus => Box::new(list::Lists::new(scene, dice, plan, true)),
        Workload::Walk => Box::new(walk::Walk::new(scene, plan, client)),
        Workload::Read => Box::new(read::Reads::new(scene, dice, plan)),
        Workload::Write => Box::new(write::Writes::new(&scene, plan, client)),
        Workload::Create => Box::new(create::Creates::new(&scene, plan, client)),
        Workload::Mixed => Box::new(mixed::Mixed::new(scene, dice, plan, client)),
        Workload::Replay(_) => Box::new(replay::Replay::new(scene, plan, client)),
    }
}

/// NULL, again and again.
struct Null;

impl Work for Null {
    fn next(&mut self, _: usize) -> Option<Ask<'_>> {
        Some(Ask::Null)
    }

    fn answered(&mut self, _: usize, _: u32, _: &Body<'_>, _: &mut Checks) {}
}

/// A cheap generator of random numbers (xorshift64*); good enough to choose a file.
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64, client: usize) -> Self {
        let mixed = (seed ^ (client as u64).rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        Self(mixed | 1)
    }

    pub(crate) const fn roll(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// A number below `end`; 0 where there is none.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        let wide = u128::from(self.roll()) * end as u128;
        usize::try_from(wide >> 64).unwrap_or(0)
    }

    /// One of `all`.
    pub(crate) fn pick<'a, T>(&mut self, all: &'a [T]) -> Option<&'a T> {
        all.get(self.below(all.len()))
    }
}

/// The most bytes that version and transport take in a piece of a directory.
const fn piece(plan: &Plan) -> u32 {
    match plan.version {
        Version::V2 if plan.size > 4096 => 4096,
        Version::V2 | Version::V3 => plan.size,
    }
}

/// The handle at `index`, or the root's.
fn own(handles: &[Fh], index: usize, scene: &Scene) -> Fh {
    handles.get(index).copied().unwrap_or(scene.root)
}

#[cfg(test)]
mod tests {
    use super::Dice;

    #[test]
    fn dice_are_fair_and_different_for_each_client() {
        let mut dice = Dice::new(1, 7);
        let mut seen = [0_u32; 10];
        for _ in 0..100_000 {
            seen[dice.below(10)] += 1;
        }
        assert!(seen.iter().all(|n| (9_500..10_500).contains(n)), "{seen:?}");
        assert_ne!(Dice::new(1, 0).roll(), Dice::new(1, 1).roll());
        assert_eq!(dice.below(0), 0);
        assert_eq!(dice.pick::<u8>(&[]), None);
    }
}
