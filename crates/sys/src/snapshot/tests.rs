//! Readers and writers over each other.

use super::{LongReads, ReadGuard, ShortReads, Snapshot};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Counts those that are alive, and spoils itself when it goes.
struct Counted {
    number: usize,
    alive: Arc<AtomicUsize>,
}

impl Counted {
    fn new(number: usize, alive: &Arc<AtomicUsize>) -> Self {
        alive.fetch_add(1, Ordering::SeqCst);
        Self { number, alive: Arc::clone(alive) }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.number = usize::MAX;
        self.alive.fetch_sub(1, Ordering::SeqCst);
    }
}

#[test]
fn held_values_are_kept_and_others_are_freed() {
    let alive = Arc::new(AtomicUsize::new(0));
    let snapshot: Snapshot<Counted, LongReads> = Snapshot::new(Counted::new(1, &alive));
    let held = snapshot.load();
    snapshot.replace(Counted::new(2, &alive));
    snapshot.replace(Counted::new(3, &alive));
    assert_eq!((held.number, alive.load(Ordering::SeqCst), snapshot.collect()), (1, 3, 2));
    assert_eq!(snapshot.load().number, 3);
    drop(held);
    assert_eq!((snapshot.collect(), alive.load(Ordering::SeqCst)), (0, 1));
    drop(snapshot);
    assert_eq!(alive.load(Ordering::SeqCst), 0);
}

#[test]
fn a_nested_read_does_not_end_the_outer() {
    let alive = Arc::new(AtomicUsize::new(0));
    let snapshot: Snapshot<Counted, LongReads> = Snapshot::new(Counted::new(1, &alive));
    let outer = ReadGuard::begin();
    let value = snapshot.read(&outer);
    drop(snapshot.load());
    snapshot.replace(Counted::new(2, &alive));
    assert_eq!((value.number, snapshot.collect()), (1, 1));
    drop(outer);
    assert_eq!(snapshot.collect(), 0);
}

#[test]
fn short_reads_do_not_wait_for_long_reads() {
    let snapshot: Snapshot<u32, ShortReads> = Snapshot::new(1);
    let other: Snapshot<u32, LongReads> = Snapshot::new(1);
    let held = other.load();
    assert_eq!(snapshot.begin_replacing(2).wait().as_deref(), Some(&1));
    assert_eq!((*held, *snapshot.load()), (1, 2));
}

/// A writer that waits gets each value back only when no reader can see it: spoiled ones would be
/// seen as such. Threads that come and go use each other's all_slots.
#[test]
fn readers_see_whole_values_only() {
    let alive = Arc::new(AtomicUsize::new(0));
    let snapshot: Snapshot<Counted, ShortReads> = Snapshot::new(Counted::new(0, &alive));
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    std::thread::scope(|inner| {
                        inner.spawn(|| {
                            let mut last = 0;
                            for _ in 0..2000 {
                                let held = snapshot.load();
                                assert!(held.number >= last && held.number != usize::MAX);
                                last = held.number;
                            }
                        });
                    });
                }
            });
        }
        for number in 1..300 {
            let old = snapshot.begin_replacing(Counted::new(number, &alive)).wait().unwrap();
            assert_eq!(old.number, number - 1);
            drop(old);
            assert_eq!(alive.load(Ordering::SeqCst), 1);
        }
        stop.store(true, Ordering::Relaxed);
    });
}
