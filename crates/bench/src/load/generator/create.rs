//! `create`: each slot creates a file in its client's directory and removes it again; in version 4 creating opens the file,
//! which is closed in between.

use super::{CallGenerator, own};
use crate::load::call::Call;
use crate::load::counters::DataCounters;
use crate::load::file_set::FileSet;
use crate::load::plan::Plan;
use crate::load::reply::Body;
use client::Fh;

/// What a slot does next, or has under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    Create,
    Close,
    Remove,
}

struct Slot {
    name: Vec<u8>,
    next: Next,
    file: Fh,
}

pub(super) struct Creates {
    dir: Fh,
    /// Whether what was created is open.
    opens: bool,
    slots: Vec<Slot>,
}

impl Creates {
    pub(super) fn new(file_set: &FileSet, plan: &Plan, client: usize) -> Self {
        let (next, file) = (Next::Create, file_set.root);
        let slot = |n: usize| Slot { name: format!("new{n}").into_bytes(), next, file };
        let slots = (0..plan.depth).map(slot).collect();
        let opens = plan.version.opens();
        Self { dir: own(&file_set.client_dirs, client, file_set), opens, slots }
    }
}

impl CallGenerator for Creates {
    fn next(&mut self, slot: usize) -> Option<Call<'_>> {
        let slot = self.slots.get_mut(slot)?;
        Some(match slot.next {
            Next::Create => Call::Create(&self.dir, &slot.name),
            Next::Close => Call::Close(&slot.file),
            Next::Remove => Call::Remove(&self.dir, &slot.name),
        })
    }

    fn on_reply(&mut self, slot: usize, status: u32, body: &Body<'_>, _: &mut DataCounters) {
        let Some(slot) = self.slots.get_mut(slot) else { return };
        slot.next = match (slot.next, body) {
            (Next::Create, Body::Object(Some(file))) if status == 0 && self.opens => {
                slot.file = *file;
                Next::Close
            }
            (Next::Create, _) if status == 0 => Next::Remove,
            (Next::Close, _) => Next::Remove,
            // a CREATE that failed created nothing that could be removed
            (Next::Create | Next::Remove, _) => Next::Create,
        };
    }
}
