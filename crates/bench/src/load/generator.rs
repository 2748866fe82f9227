//! Workloads: the next call of a simulated client, and how it handles a reply.
//!
//! A client has one **slot** for each call that may be outstanding; a slot is free or has one call. A
//! [`CallGenerator`] belongs to one client and one thread. It allocates nothing per call.

mod access;
mod create;
mod list;
mod lookup;
mod mixed;
mod read;
mod replay;
mod walk;
mod write;

use super::call::Call;
use super::counters::DataCounters;
use super::file_set::FileSet;
use super::op::Version;
use super::plan::{Plan, Workload};
use super::reply::Body;
use client::Fh;
use std::sync::Arc;

/// What one client does.
pub(crate) trait CallGenerator: Send {
    /// The next call of a free lane; `None`: not before another lane's answer.
    fn next(&mut self, slot: usize) -> Option<Call<'_>>;

    /// Whether all is done that the plan asks for, so that there is nothing to wait for.
    fn is_done(&self) -> bool {
        false
    }

    /// Takes the answer to a lane's call; `status` 0 is success.
    fn on_reply(
        &mut self,
        slot: usize,
        status: u32,
        body: &Body<'_>,
        data_counters: &mut DataCounters,
    );
}

/// The work of client number `client`.
pub(crate) fn of(plan: &Plan, file_set: &Arc<FileSet>, client: usize) -> Box<dyn CallGenerator> {
    let file_set = Arc::clone(file_set);
    let rng = Rng::new(plan.seed, client);
    match &plan.workload {
        Workload::Null => Box::new(Null),
        Workload::Getattr => Box::new(access::Touch::new(file_set, rng, false)),
        Workload::Access => Box::new(access::Touch::new(file_set, rng, true)),
        Workload::Lookup => Box::new(lookup::Names::new(file_set, rng)),
        Workload::Readdir => Box::new(list::Lists::new(file_set, rng, plan, false)),
        Workload::Readdirplus => Box::new(list::Lists::new(file_set, rng, plan, true)),
        Workload::Walk => Box::new(walk::Walk::new(file_set, plan, client)),
        Workload::Read => Box::new(read::Reads::new(file_set, rng, plan)),
        Workload::Write => Box::new(write::Writes::new(&file_set, plan, client)),
        Workload::Create => Box::new(create::Creates::new(&file_set, plan, client)),
        Workload::Mixed => Box::new(mixed::Mixed::new(file_set, rng, plan, client)),
        Workload::Replay(_) => Box::new(replay::Replay::new(file_set, plan, client)),
    }
}

/// NULL, again and again.
struct Null;

impl CallGenerator for Null {
    fn next(&mut self, _: usize) -> Option<Call<'_>> {
        Some(Call::Null)
    }

    fn on_reply(&mut self, _: usize, _: u32, _: &Body<'_>, _: &mut DataCounters) {}
}

/// A cheap generator of random numbers (xorshift64*); good enough to choose a file.
pub(crate) struct Rng(u64);

impl Rng {
    pub(crate) fn new(seed: u64, client: usize) -> Self {
        let mixed = (seed ^ (client as u64).rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        Self(mixed | 1)
    }

    pub(crate) const fn next_u64(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// A number below `end`; 0 where there is none.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        let wide = u128::from(self.next_u64()) * end as u128;
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
fn own(handles: &[Fh], index: usize, file_set: &FileSet) -> Fh {
    handles.get(index).copied().unwrap_or(file_set.root)
}

#[cfg(test)]
mod tests {
    use super::Rng;

    #[test]
    fn dice_are_fair_and_different_for_each_client() {
        let mut rng = Rng::new(1, 7);
        let mut seen = [0_u32; 10];
        for _ in 0..100_000 {
            seen[rng.below(10)] += 1;
        }
        assert!(seen.iter().all(|n| (9_500..10_500).contains(n)), "{seen:?}");
        assert_ne!(Rng::new(1, 0).next_u64(), Rng::new(1, 1).next_u64());
        assert_eq!(rng.below(0), 0);
        assert_eq!(rng.pick::<u8>(&[]), None);
    }
}
