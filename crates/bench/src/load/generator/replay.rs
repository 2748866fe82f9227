//! `replay`: a recorded list, repeatedly; the clients start at positions spread over it.

use super::CallGenerator;
use super::access::ALL;
use crate::load::call::{Call, Opened};
use crate::load::counters::DataCounters;
use crate::load::file_set::FileSet;
use crate::load::op::Op;
use crate::load::plan::Plan;
use crate::load::reply::Body;
use client::Fh;
use proto::nfs3::StableHow;
use std::sync::Arc;

/// Bytes of a READDIR reply.
const PIECE: u32 = 8192;
/// The longest WRITE that is replayed; a longer one is shortened.
const WRITE_MAX: usize = 1 << 20;

pub(super) struct Replay {
    file_set: Arc<FileSet>,
    next: usize,
    data: Vec<u8>,
    /// What each slot does beside the list: in version 4 a CREATE opens the file, which is closed next.
    slots: Vec<OpenStep>,
    opens: bool,
}

#[derive(Clone, Copy)]
enum OpenStep {
    Nothing,
    Creates,
    Closes(Fh),
}

impl Replay {
    pub(super) fn new(file_set: Arc<FileSet>, plan: &Plan, client: usize) -> Self {
        let steps = &file_set.steps;
        let next = steps.len().saturating_mul(client).checked_div(plan.clients).unwrap_or(0);
        let longest = steps.iter().filter(|s| s.op == Op::Write).map(|s| s.count as usize).max();
        let data = vec![0x62; longest.unwrap_or(0).min(WRITE_MAX)];
        let (slots, opens) = (vec![OpenStep::Nothing; plan.depth], plan.version.opens());
        Self { file_set, next, data, slots, opens }
    }
}

impl CallGenerator for Replay {
    fn next(&mut self, slot: usize) -> Option<Call<'_>> {
        let beside = self.slots.get_mut(slot)?;
        if let OpenStep::Closes(file) = beside {
            return Some(Call::Close(file));
        }
        let steps = &self.file_set.steps;
        let step = steps.get(self.next)?;
        self.next = if self.next + 1 < steps.len() { self.next + 1 } else { 0 };
        let (fh, name) = (&step.fh, &*step.name);
        Some(match step.op {
            // a list has no locks and no opens
            Op::Null | Op::Lock | Op::Unlock | Op::Open | Op::Close => Call::Null,
            Op::Getattr => Call::Getattr(fh),
            Op::Setattr => Call::Touch(fh),
            Op::Lookup => Call::Lookup(fh, name),
            Op::Access => Call::Access(fh, ALL),
            Op::Readlink => Call::Readlink(fh),
            Op::Read => Call::Read(fh, step.offset, step.count, Opened::No),
            Op::Write => {
                let len = (step.count as usize).min(self.data.len());
                let data = self.data.get(..len).unwrap_or_default();
                Call::Write(fh, step.offset, data, StableHow::Unstable, Opened::No)
            }
            Op::Create => {
                *beside = OpenStep::Creates;
                Call::Create(fh, name)
            }
            Op::Remove => Call::Remove(fh, name),
            Op::Readdir => Call::Readdir(fh, 0, [0; 8], PIECE),
            Op::Readdirplus => Call::Readdirplus(fh, 0, [0; 8], PIECE),
            Op::Fsstat => Call::Fsstat(fh),
            Op::Commit => Call::Commit(fh),
        })
    }

    fn on_reply(&mut self, slot: usize, _: u32, body: &Body<'_>, data_counters: &mut DataCounters) {
        if let Some(beside) = self.slots.get_mut(slot) {
            *beside = match (&beside, body) {
                (OpenStep::Creates, Body::Object(Some(file))) if self.opens => {
                    OpenStep::Closes(*file)
                }
                _ => OpenStep::Nothing,
            };
        }
        match body {
            Body::Data { bytes, .. } => data_counters.bytes_read += bytes.len() as u64,
            Body::Written(count) => data_counters.bytes_written += u64::from(*count),
            _ => {}
        }
    }
}
