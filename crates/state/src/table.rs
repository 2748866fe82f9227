//! The byte ranges that the owners of one file hold.
//!
//! Invariants: the ranges of one owner do not overlap, and two of the same mode do not touch; ranges of two owners
//! overlap only if both are read locks. The table does not check the last: who sets a range has asked
//! [`RangeTable::conflict`] first.
//!
//! Up to [`FEW_MAX`] ranges lie in a sorted list, which is what nearly every file has and needs one allocation; more
//! lie in a balanced tree, where a search costs the logarithm of their number and what it finds.

use crate::holder::{Holder, Who};
use crate::range::{ByteRange, Mode};
use crate::sync::Arc;
use crate::tree::Tree;
use std::ops::ControlFlow;

/// The most ranges in a list.
const FEW_MAX: usize = 64;
/// At this many a tree becomes a list again.
const FEW_AGAIN: usize = 32;

/// One range that is held.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub range: ByteRange,
    pub mode: Mode,
    pub holder: Arc<Holder>,
    /// Tells ranges with the same start apart.
    seq: u64,
}

impl Entry {
    /// What the ranges are sorted by.
    pub fn key(&self) -> (u64, u64) {
        (self.range.start(), self.seq)
    }

    /// Whether this owner holds it.
    pub fn is_of(&self, who: &Who<'_>) -> bool {
        self.holder.who() == *who
    }
}

#[derive(Debug, Clone)]
enum Set {
    Few(Vec<Entry>),
    Many(Tree),
}

/// The table.
#[derive(Debug, Clone)]
pub(crate) struct RangeTable {
    set: Set,
    next_seq: u64,
}

impl Default for RangeTable {
    fn default() -> Self {
        Self { set: Set::Few(Vec::new()), next_seq: 0 }
    }
}

impl RangeTable {
    /// How many ranges there are.
    pub fn len(&self) -> usize {
        match &self.set {
            Set::Few(list) => list.len(),
            Set::Many(tree) => tree.len(),
        }
    }

    /// Shows every range with a byte in `range`, in the order of their starts, until `visit` breaks.
    pub fn visit<B>(
        &self,
        range: ByteRange,
        mut visit: impl FnMut(&Entry) -> ControlFlow<B>,
    ) -> ControlFlow<B> {
        match &self.set {
            Set::Few(list) => list
                .iter()
                .take_while(|entry| entry.range.start() <= range.end())
                .filter(|entry| entry.range.end() >= range.start())
                .try_for_each(visit),
            Set::Many(tree) => tree.visit((range.start(), range.end()), &mut visit),
        }
    }

    /// The first range of another owner that excludes this request.
    pub fn conflict(&self, who: &Who<'_>, range: ByteRange, mode: Mode) -> Option<Entry> {
        let found = self.visit(range, |entry| {
            if entry.mode.conflicts(mode) && !entry.is_of(who) {
                return ControlFlow::Break(entry.clone());
            }
            ControlFlow::Continue(())
        });
        found.break_value()
    }

    /// The mode in which this owner holds all of `range`, if that is part of one range of this owner.
    pub fn held(&self, who: &Who<'_>, range: ByteRange) -> Option<Mode> {
        let found = self.visit(range, |entry| match entry.is_of(who) {
            true => ControlFlow::Break(entry.range.covers(range).then_some(entry.mode)),
            false => ControlFlow::Continue(()),
        });
        found.break_value().flatten()
    }

    /// The owner as the table has him, if he holds a byte of `range`.
    pub fn owner_in(&self, who: &Who<'_>, range: ByteRange) -> Option<Arc<Holder>> {
        let found = self.visit(range, |entry| match entry.is_of(who) {
            true => ControlFlow::Break(Arc::clone(&entry.holder)),
            false => ControlFlow::Continue(()),
        });
        found.break_value()
    }

    /// The owner as the table has him and the smallest range with all bytes that he holds of `range`, if he holds any.
    pub fn owned(&self, who: &Who<'_>, range: ByteRange) -> Option<(Arc<Holder>, ByteRange)> {
        let mut found: Option<(Arc<Holder>, ByteRange)> = None;
        let _all: ControlFlow<()> = self.visit(range, |entry| {
            if entry.is_of(who)
                && let Some(held) = entry.range.intersection(range)
            {
                found = Some(match found.take() {
                    None => (Arc::clone(&entry.holder), held),
                    Some((holder, before)) => (holder, before.hull(held)),
                });
            }
            ControlFlow::Continue(())
        });
        found
    }

    /// What this owner holds of `range`.
    pub fn held_in(&self, who: &Who<'_>, range: ByteRange) -> Vec<(ByteRange, Mode)> {
        let mut held = Vec::new();
        let _all: ControlFlow<()> = self.visit(range, |entry| {
            if entry.is_of(who)
                && let Some(part) = entry.range.intersection(range)
            {
                held.push((part, entry.mode));
            }
            ControlFlow::Continue(())
        });
        held
    }

    /// Whether this owner holds a byte of `range` exclusively.
    pub fn writes_in(&self, who: &Who<'_>, range: ByteRange) -> bool {
        let found =
            self.visit(range, |entry| match entry.mode == Mode::Write && entry.is_of(who) {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            });
        found.is_break()
    }

    /// Gives the owner `range` in this mode; what he held there goes, what touches it in the same mode is merged.
    /// Answers by how many the number of ranges grew.
    pub fn set(&mut self, holder: &Arc<Holder>, range: ByteRange, mode: Mode) -> isize {
        let before = self.len();
        let mut whole = range;
        for entry in self.own(&holder.who(), range.widened()) {
            if entry.mode == mode {
                self.remove(&entry);
                whole = whole.hull(entry.range);
            } else if entry.range.overlaps(range) {
                self.remove(&entry);
                for rest in entry.range.without(range).into_iter().flatten() {
                    self.insert(rest, entry.mode, &entry.holder);
                }
            }
        }
        self.insert(whole, mode, holder);
        grown(before, self.len())
    }

    /// Takes `range` from the owner. Answers by how many the number of ranges grew, or `None` if he held none of it.
    pub fn unset(&mut self, who: &Who<'_>, range: ByteRange) -> Option<isize> {
        let before = self.len();
        let own = self.own(who, range);
        for entry in &own {
            self.remove(entry);
            for rest in entry.range.without(range).into_iter().flatten() {
                self.insert(rest, entry.mode, &entry.holder);
            }
        }
        (!own.is_empty()).then(|| grown(before, self.len()))
    }

    /// Whether [`unset`](Self::unset) would cut one range into two.
    pub fn splits(&self, who: &Who<'_>, range: ByteRange) -> bool {
        let inside = |held: ByteRange| held.start() < range.start() && range.end() < held.end();
        let found = self.visit(range, |entry| match entry.is_of(who) && inside(entry.range) {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        });
        found.is_break()
    }

    /// Takes out every range whose owner is of `ours`.
    pub fn take_all(&mut self, ours: impl Fn(&Holder) -> bool) -> Vec<Entry> {
        let mut taken = Vec::new();
        let _all: ControlFlow<()> = self.visit(ByteRange::ALL, |entry| {
            if ours(&entry.holder) {
                taken.push(entry.clone());
            }
            ControlFlow::Continue(())
        });
        for entry in &taken {
            self.remove(entry);
        }
        taken
    }

    /// The owner's ranges that have a byte in `range`.
    fn own(&self, who: &Who<'_>, range: ByteRange) -> Vec<Entry> {
        let mut own = Vec::new();
        let _all: ControlFlow<()> = self.visit(range, |entry| {
            if entry.is_of(who) {
                own.push(entry.clone());
            }
            ControlFlow::Continue(())
        });
        own
    }

    fn insert(&mut self, range: ByteRange, mode: Mode, holder: &Arc<Holder>) {
        let entry = Entry { range, mode, holder: Arc::clone(holder), seq: self.next_seq };
        self.next_seq += 1;
        match &mut self.set {
            Set::Few(list) if list.len() < FEW_MAX => {
                let at = list.partition_point(|other| other.key() < entry.key());
                list.insert(at, entry);
            }
            Set::Few(list) => {
                let mut tree = Tree::default();
                list.drain(..).for_each(|entry| tree.insert(entry));
                tree.insert(entry);
                self.set = Set::Many(tree);
            }
            Set::Many(tree) => tree.insert(entry),
        }
    }

    fn remove(&mut self, entry: &Entry) {
        match &mut self.set {
            Set::Few(list) => {
                if let Ok(at) = list.binary_search_by_key(&entry.key(), Entry::key) {
                    list.remove(at);
                }
            }
            Set::Many(tree) => {
                let _removed = tree.remove(entry.key());
                if tree.len() <= FEW_AGAIN {
                    self.become_list();
                }
            }
        }
    }

    fn become_list(&mut self) {
        let mut list = Vec::with_capacity(FEW_MAX);
        let _all: ControlFlow<()> = self.visit(ByteRange::ALL, |entry| {
            list.push(entry.clone());
            ControlFlow::Continue(())
        });
        self.set = Set::Few(list);
    }
}

fn grown(before: usize, after: usize) -> isize {
    after.cast_signed() - before.cast_signed()
}

#[cfg(test)]
impl RangeTable {
    /// Checks the tree, if there is one.
    pub fn check(&self) {
        match &self.set {
            Set::Few(list) => assert!(list.is_sorted_by_key(Entry::key)),
            Set::Many(tree) => tree.check(),
        }
    }
}
