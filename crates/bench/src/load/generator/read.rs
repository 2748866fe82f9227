//! `read`: files at random, at random multiples of the size; the data is verified on a sample.

use super::{CallGenerator, Rng};
use crate::load::call::{Call, Opened};
use crate::load::counters::DataCounters;
use crate::load::file_set::{DataFile, FileSet};
use crate::load::pattern;
use crate::load::plan::Plan;
use crate::load::reply::Body;
use std::sync::Arc;

/// One READ of this many is verified.
const READS_PER_CHECK: u32 = 32;

#[derive(Clone, Copy)]
struct Asked {
    file: usize,
    offset: u64,
    expected: u64,
}

pub(super) struct Reads {
    file_set: Arc<FileSet>,
    rng: Rng,
    size: u32,
    shift: u64,
    slots: Vec<Asked>,
    until_check: u32,
}

impl Reads {
    pub(super) fn new(file_set: Arc<FileSet>, rng: Rng, plan: &Plan) -> Self {
        let slots = vec![Asked { file: 0, offset: 0, expected: 0 }; plan.depth];
        Self { file_set, rng, size: plan.size, shift: plan.shift, slots, until_check: 1 }
    }
}

impl CallGenerator for Reads {
    fn next(&mut self, slot: usize) -> Option<Call<'_>> {
        let file = self.rng.below(self.file_set.files.len());
        let DataFile { fh, size: len, .. } = self.file_set.files.get(file)?;
        let pieces = len.saturating_sub(self.shift).div_ceil(u64::from(self.size)).max(1);
        let piece = self.rng.below(usize::try_from(pieces).unwrap_or(usize::MAX)) as u64;
        let offset = self.shift + piece * u64::from(self.size);
        let expected = u64::from(self.size).min(len.saturating_sub(offset));
        *self.slots.get_mut(slot)? = Asked { file, offset, expected };
        Some(Call::Read(fh, offset, self.size, Opened::File(file)))
    }

    fn on_reply(
        &mut self,
        slot: usize,
        status: u32,
        body: &Body<'_>,
        data_counters: &mut DataCounters,
    ) {
        let (Body::Data { bytes, .. }, 0, Some(asked)) = (body, status, self.slots.get(slot))
        else {
            return;
        };
        data_counters.bytes_read += bytes.len() as u64;
        if (bytes.len() as u64) < asked.expected {
            // RFC 1813 §3.3.6 allows a short READ; a load would count work that was not done.
            data_counters.short_reads += 1;
        }
        self.until_check -= 1;
        if self.until_check == 0 {
            self.until_check = READS_PER_CHECK;
            if self.file_set.known_content && asked.offset.is_multiple_of(8) {
                data_counters.checked += 1;
                let file = u32::try_from(asked.file).unwrap_or(u32::MAX);
                data_counters.wrong += u64::from(!pattern::matches(file, asked.offset, bytes));
            }
        }
    }
}
