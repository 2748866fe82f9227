//! Who may still be reading what was replaced.
//!
//! A reader, before it takes the pointer, writes the epoch that it sees into its own slot; after
//! its last look it writes 0. A writer first swaps the pointer, then raises the epoch to E, then
//! makes sure that either it sees a reader's slot or that reader sees the new pointer (`light` on
//! the reader's side, a fence of everybody on the writer's). From then on, the old value is out of
//! sight as soon as each slot has been 0 or E or more:
//!
//! - a slot with E or more: the reader saw the raised epoch, which was raised after the swap, so
//!   it took the new pointer;
//! - a slot with 0: the reader has left, or it has not been seen to enter, and then takes the new
//!   pointer.
//!
//! A slot is written by its own thread only, so nesting is counted without locked instructions.
//! The same text is compiled by the model in `tests/snapshot_model.rs`, with the model checker's
//! atomics.

use super::atomics::{AtomicU32, AtomicU64, Ordering, compiler_fence, fence};

/// What one thread says about one kind of reads.
#[derive(Default)]
pub(super) struct Slot {
    /// The epoch under which the outermost read began; 0 outside.
    epoch: AtomicU64,
    /// How many reads are nested.
    nested: AtomicU32,
    /// 1 if the reader has to fence because no writer can do it for him.
    fenced: AtomicU32,
}

impl Slot {
    /// Says whether this slot's reader has to fence.
    pub(super) fn set_fenced(&self, fenced: bool) {
        self.fenced.store(u32::from(fenced), Ordering::Relaxed);
    }

    /// The thread begins to read.
    #[inline]
    pub(super) fn enter(&self, now: &AtomicU64) {
        let nested = self.nested.load(Ordering::Relaxed);
        self.nested.store(nested.wrapping_add(1), Ordering::Relaxed);
        if nested == 0 {
            self.epoch.store(now.load(Ordering::Acquire), Ordering::Relaxed);
            if self.fenced.load(Ordering::Relaxed) == 0 {
                compiler_fence(Ordering::SeqCst);
            } else {
                fence(Ordering::SeqCst);
            }
        }
    }

    /// The thread ends one of its reads.
    #[inline]
    pub(super) fn leave(&self) {
        let nested = self.nested.load(Ordering::Relaxed);
        self.nested.store(nested.wrapping_sub(1), Ordering::Relaxed);
        if nested == 1 {
            self.epoch.store(0, Ordering::Release);
        }
    }
}

/// Whether no slot's reader can still see what was replaced before the epoch became `epoch`.
pub(super) fn is_past<'s>(slots: impl IntoIterator<Item = &'s Slot>, epoch: u64) -> bool {
    slots.into_iter().all(|slot| {
        let began = slot.epoch.load(Ordering::Acquire);
        began == 0 || began >= epoch
    })
}
