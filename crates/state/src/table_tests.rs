//! The table of ranges against a list without order, and its tree's balance.

use crate::holder::Holder;
use crate::key::HostId;
use crate::range::{ByteRange, Mode};
use crate::sync::Arc;
use crate::table::RangeTable;
use std::ops::ControlFlow;

/// A small generator with a fixed sequence (xorshift).
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % n
    }
}

fn holder(svid: i32) -> Arc<Holder> {
    Arc::new(Holder::Nlm { host: HostId(1), svid, oh: Box::default() })
}

fn all(table: &RangeTable, range: ByteRange) -> Vec<(ByteRange, Mode, i32)> {
    let mut found = Vec::new();
    let _all: ControlFlow<()> = table.visit(range, |entry| {
        let Holder::Nlm { svid, .. } = *entry.holder else { panic!("not of NLM") };
        found.push((entry.range, entry.mode, svid));
        ControlFlow::Continue(())
    });
    found
}

/// Thousands of ranges of readers that overlap in every way, in a list and in a tree and back.
#[test]
fn the_table_finds_the_same_ranges_as_a_list() {
    let mut random = Random(42);
    let holders: Vec<_> = (0..40).map(holder).collect();
    let mut table = RangeTable::default();
    let mut list: Vec<Vec<bool>> = vec![vec![false; 400]; 40];
    let mut largest = 0;
    for step in 0..30_000_u64 {
        let svid = random.below(40) as usize;
        let start = random.below(400);
        let end = (start + random.below(4)).min(399);
        let range = ByteRange::new(start, end).unwrap();
        let bytes = &mut list[svid][start as usize..=end as usize];
        // the table grows for a while, and shrinks for a while
        if random.below(10) < if step % 6000 < 3000 { 8 } else { 2 } {
            table.set(&holders[svid], range, Mode::Read);
            bytes.fill(true);
        } else {
            let had = table.unset(&holders[svid].who(), range).is_some();
            assert_eq!(had, bytes.contains(&true));
            bytes.fill(false);
        }
        table.check();
        largest = largest.max(table.len());
        let asked = ByteRange::new(random.below(400), 400).unwrap();
        if step % 16 == 0 {
            let mut expected: Vec<_> = (0..40).flat_map(|svid| ranges(&list[svid], svid)).collect();
            expected.retain(|(range, ..)| range.overlaps(asked));
            let mut found = all(&table, asked);
            assert!(found.is_sorted_by_key(|(range, ..)| range.start()));
            expected.sort_unstable();
            found.sort_unstable();
            assert_eq!(found, expected, "step {step}");
        }
    }
    assert!(largest > 500, "the tree was used: {largest}");
}

fn ranges(bytes: &[bool], svid: usize) -> Vec<(ByteRange, Mode, i32)> {
    let mut found = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let len = bytes[at..].iter().take_while(|held| **held).count();
        if len > 0 {
            let range = ByteRange::new(at as u64, (at + len - 1) as u64).unwrap();
            found.push((range, Mode::Read, svid as i32));
        }
        at += len + 1;
    }
    found
}

#[test]
fn ascending_inserts_keep_the_tree_balanced() {
    let owner = holder(1);
    let mut table = RangeTable::default();
    for start in 0..20_000_u64 {
        table.set(&owner, ByteRange::new(start * 2, start * 2).unwrap(), Mode::Write);
    }
    table.check();
    for start in 0..20_000_u64 {
        let range = ByteRange::new(start * 2, start * 2).unwrap();
        assert_eq!(table.unset(&owner.who(), range), Some(-1));
    }
    assert_eq!(table.len(), 0);
}
