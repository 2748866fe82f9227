//! `open-close`: each slot opens a regular file at random, for reading, and closes it.

use super::{CallGenerator, Rng};
use crate::load::call::Call;
use crate::load::counters::DataCounters;
use crate::load::file_set::FileSet;
use crate::load::plan::Plan;
use crate::load::reply::Body;
use client::Fh;
use std::sync::Arc;

pub(super) struct Opens {
    file_set: Arc<FileSet>,
    rng: Rng,
    /// What each slot has open.
    slots: Vec<Option<Fh>>,
}

impl Opens {
    pub(super) fn new(file_set: Arc<FileSet>, rng: Rng, plan: &Plan) -> Self {
        Self { file_set, rng, slots: vec![None; plan.depth] }
    }
}

impl CallGenerator for Opens {
    fn next(&mut self, slot: usize) -> Option<Call<'_>> {
        if let Some(file) = self.slots.get(slot)? {
            return Some(Call::Close(file));
        }
        let number = self.rng.below(self.file_set.regular.len());
        let (dir, name) = self.file_set.place(self.file_set.regular(number)?)?;
        Some(Call::Open(dir, name))
    }

    fn on_reply(&mut self, slot: usize, _: u32, body: &Body<'_>, _: &mut DataCounters) {
        if let Some(open) = self.slots.get_mut(slot) {
            *open = match body {
                Body::Object(file) => *file,
                // closed, or not opened
                _ => None,
            };
        }
    }
}
