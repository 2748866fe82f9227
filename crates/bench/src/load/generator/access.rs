//! `getattr` and `access`: objects at random.

use super::{CallGenerator, Rng};
use crate::load::call::Call;
use crate::load::counters::DataCounters;
use crate::load::file_set::FileSet;
use crate::load::reply::Body;
use std::sync::Arc;

/// All bits of RFC 1813 §3.3.4.
pub(super) const ALL: u32 = 0x3f;

pub(super) struct Touch {
    file_set: Arc<FileSet>,
    rng: Rng,
    access: bool,
}

impl Touch {
    pub(super) const fn new(file_set: Arc<FileSet>, rng: Rng, access: bool) -> Self {
        Self { file_set, rng, access }
    }
}

impl CallGenerator for Touch {
    fn next(&mut self, _: usize) -> Option<Call<'_>> {
        let fh =
            self.rng.pick(&self.file_set.objects).map_or(&self.file_set.root, |object| &object.fh);
        Some(if self.access { Call::Access(fh, ALL) } else { Call::Getattr(fh) })
    }

    fn on_reply(&mut self, _: usize, _: u32, _: &Body<'_>, _: &mut DataCounters) {}
}
