//! `create`: each slot creates a file in its client's directory and removes it again.

use super::{CallGenerator, own};
use crate::load::call::Call;
use crate::load::counters::DataCounters;
use crate::load::file_set::FileSet;
use crate::load::plan::Plan;
use crate::load::reply::Body;
use client::Fh;

struct Slot {
    name: Vec<u8>,
    /// The file exists, or its CREATE is in flight.
    made: bool,
}

pub(super) struct Creates {
    dir: Fh,
    slots: Vec<Slot>,
}

impl Creates {
    pub(super) fn new(file_set: &FileSet, plan: &Plan, client: usize) -> Self {
        let slot = |n: usize| Slot { name: format!("new{n}").into_bytes(), made: false };
        let slots = (0..plan.depth).map(slot).collect();
        Self { dir: own(&file_set.client_dirs, client, file_set), slots }
    }
}

impl CallGenerator for Creates {
    fn next(&mut self, slot: usize) -> Option<Call<'_>> {
        let slot = self.slots.get_mut(slot)?;
        slot.made = !slot.made;
        Some(if slot.made {
            Call::Create(&self.dir, &slot.name)
        } else {
            Call::Remove(&self.dir, &slot.name)
        })
    }

    fn on_reply(&mut self, slot: usize, status: u32, _: &Body<'_>, _: &mut DataCounters) {
        // a CREATE that failed created nothing that could be removed
        if let (1.., Some(slot)) = (status, self.slots.get_mut(slot)) {
            slot.made = false;
        }
    }
}
