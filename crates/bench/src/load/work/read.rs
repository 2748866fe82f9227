//! `read`: files at random, at random multiples of the size; what comes back is checked on a sample.

use super::{Dice, Work};
use crate::load::answer::Body;
use crate::load::ask::Ask;
use crate::load::pattern;
use crate::load::plan::Plan;
use crate::load::scene::Scene;
use crate::load::tally::Checks;
use std::sync::Arc;

/// One READ of so many is compared with what the file must have.
const READS_PER_CHECK: u32 = 32;

#[derive(Clone, Copy)]
struct Asked {
    file: usize,
    offset: u64,
    expected: u64,
}

pub(super) struct Reads {
    scene: Arc<Scene>,
    dice: Dice,
    size: u32,
    shift: u64,
    lanes: Vec<Asked>,
    until_check: u32,
}

impl Reads {
    pub(super) fn new(scene: Arc<Scene>, dice: Dice, plan: &Plan) -> Self {
        let lanes = vec![Asked { file: 0, offset: 0, expected: 0 }; plan.depth];
        Self { scene, dice, size: plan.size, shift: plan.shift, lanes, until_check: 1 }
    }
}

impl Work for Reads {
    fn next(&mut self, lane: usize) -> Option<Ask<'_>> {
        let file = self.dice.below(self.scene.files.len());
        let (fh, len) = self.scene.files.get(file)?;
        let pieces = len.saturating_sub(self.shift).div_ceil(u64::from(self.size)).max(1);
        let piece = self.dice.below(usize::try_from(pieces).unwrap_or(usize::MAX)) as u64;
        let offset = self.shift + piece * u64::from(self.size);
        let expected = u64::from(self.size).min(len.saturating_sub(offset));
        *self.lanes.get_mut(lane)? = Asked { file, offset, expected };
        Some(Ask::Read(fh, offset, self.size))
    }

    fn answered(&mut self, lane: usize, status: u32, body: &Body<'_>, checks: &mut Checks) {
        let (Body::Data { bytes, .. }, 0, Some(asked)) = (body, status, self.lanes.get(lane))
        else {
            return;
        };
        checks.bytes_read += bytes.len() as u64;
        if (bytes.len() as u64) < asked.expected {
            // RFC 1813 §3.3.6 allows a short READ; a load would count work that was not done.
            checks.short_reads += 1;
        }
        self.until_check -= 1;
        if self.until_check == 0 {
            self.until_check = READS_PER_CHECK;
            if self.scene.known_content && asked.offset.is_multiple_of(8) {
                checks.checked += 1;
                let file = u32::try_from(asked.file).unwrap_or(u32::MAX);
                checks.wrong += u64::from(!pattern::matches(file, asked.offset, bytes));
            }
        }
    }
}
