//! `lookup`: names at random, each in its directory.

use super::{CallGenerator, Rng};
use crate::load::call::Call;
use crate::load::counters::DataCounters;
use crate::load::file_set::FileSet;
use crate::load::reply::Body;
use std::sync::Arc;

pub(super) struct Names {
    file_set: Arc<FileSet>,
    rng: Rng,
}

impl Names {
    pub(super) const fn new(file_set: Arc<FileSet>, rng: Rng) -> Self {
        Self { file_set, rng }
    }
}

impl CallGenerator for Names {
    fn next(&mut self, _: usize) -> Option<Call<'_>> {
        let object = self.rng.pick(&self.file_set.objects)?;
        let dir = self.file_set.dirs.get(object.dir as usize)?;
        Some(Call::Lookup(&dir.fh, self.file_set.name(object)))
    }

    fn on_reply(&mut self, _: usize, _: u32, _: &Body<'_>, _: &mut DataCounters) {}
}
