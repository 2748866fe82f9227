//! `lock`: each lane locks bytes of its own in its client's file, and gives them back; in version 3 by NLM.

use super::{CallGenerator, own};
use crate::load::call::{Call, LockOwner};
use crate::load::counters::DataCounters;
use crate::load::file_set::FileSet;
use crate::load::plan::Plan;
use crate::load::reply::Body;
use client::Fh;

pub(super) struct Locks {
    file: Fh,
    /// Whether each lane holds its lock, or its LOCK is under way.
    held: Vec<bool>,
}

impl Locks {
    pub(super) fn new(file_set: &FileSet, plan: &Plan, client: usize) -> Self {
        let file = own(&file_set.client_files, client, file_set);
        Self { file, held: vec![false; plan.depth] }
    }
}

impl CallGenerator for Locks {
    fn next(&mut self, slot: usize) -> Option<Call<'_>> {
        let owner = LockOwner(u32::try_from(slot).unwrap_or(u32::MAX));
        let held = self.held.get_mut(slot)?;
        *held = !*held;
        Some(if *held { Call::Lock(&self.file, owner) } else { Call::Unlock(&self.file, owner) })
    }

    fn on_reply(&mut self, slot: usize, status: u32, _: &Body<'_>, _: &mut DataCounters) {
        // a LOCK that failed took nothing, and what an UNLOCK did that failed nobody knows: the next LOCK finds out
        if let (1.., Some(held)) = (status, self.held.get_mut(slot)) {
            *held = false;
        }
    }
}
