//! The protocol of snapshots under a model checker: every interleaving of readers and a writer, and
//! every order in which their stores may become visible.
//!
//! The text under test is the server's own, compiled here with the checker's atomics. The checker
//! knows no fence of everybody, so readers fence; that the kernel's fence does as much is the
//! kernel's promise (`membarrier(2)`).
#![cfg(test)]

/// What `src/snapshot.rs` gives the protocol, from the model checker.
mod atomics {
    pub(super) use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

    /// Not used here: all slots say that their readers fence.
    pub(super) fn compiler_fence(_: Ordering) {}
}

#[path = "../src/snapshot/protocol.rs"]
mod protocol;

use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence};
use loom::thread;
use protocol::{Slot, is_past};

/// Two values: which one is in force, and whether each has been taken back.
struct World {
    epoch: AtomicU64,
    current: AtomicUsize,
    gone: [AtomicBool; 2],
    slots: [Slot; 2],
}

impl World {
    fn new(readers_fence: bool) -> Arc<Self> {
        let slots: [Slot; 2] = Default::default();
        slots.iter().for_each(|slot| slot.set_fenced(readers_fence));
        Arc::new(Self {
            epoch: AtomicU64::new(1),
            current: AtomicUsize::new(0),
            gone: [AtomicBool::new(false), AtomicBool::new(false)],
            slots,
        })
    }

    /// One call: takes the value, uses it, leaves. It must not be gone while it is used.
    fn call(&self, reader: usize) {
        let slot = &self.slots[reader];
        slot.enter(&self.epoch);
        let value = self.current.load(Ordering::Acquire);
        assert!(!self.gone[value].load(Ordering::Relaxed), "used after removal returned");
        slot.leave();
    }

    /// Removal, as `Snapshot::begin_replacing` and `Replaced::wait` have it.
    fn remove(&self) {
        let old = self.current.swap(1, Ordering::AcqRel);
        let epoch = self.epoch.fetch_add(1, Ordering::AcqRel) + 1;
        fence(Ordering::SeqCst);
        while !is_past(&self.slots, epoch) {
            thread::yield_now();
        }
        self.gone[old].store(true, Ordering::Relaxed);
    }
}

fn model(readers: usize, calls: usize, readers_fence: bool) {
    let mut checker = loom::model::Builder::new();
    checker.preemption_bound = Some(3);
    checker.check(move || {
        let world = World::new(readers_fence);
        let threads: Vec<_> = (0..readers)
            .map(|reader| {
                let world = world.clone();
                thread::spawn(move || (0..calls).for_each(|_| world.call(reader)))
            })
            .collect();
        world.remove();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

#[test]
fn removal_returns_only_when_no_reader_is_left() {
    model(1, 2, true);
    model(2, 1, true);
}

/// The model would find it: without the order between slot and pointer, a reader is overlooked.
#[test]
#[should_panic(expected = "used after removal returned")]
fn without_the_fence_a_reader_is_missed() {
    model(1, 1, false);
}

/// A reader inside another's read holds the value until the outer one ends.
#[test]
fn nested_reads_count_as_one() {
    loom::model(|| {
        let world = World::new(true);
        let other = world.clone();
        let reader = thread::spawn(move || {
            let slot = &other.slots[0];
            slot.enter(&other.epoch);
            let value = other.current.load(Ordering::Acquire);
            other.call(0);
            assert!(!other.gone[value].load(Ordering::Relaxed), "used after removal returned");
            slot.leave();
        });
        world.remove();
        reader.join().unwrap();
    });
}
