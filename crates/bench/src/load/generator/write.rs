//! `write`: each client its own file, from start to end and again, a COMMIT at each end; for the
//! number of passes in the plan, or until the time is over.
//!
//! The COMMIT follows the last reply of the pass: slots that are ready earlier wait.

use super::{CallGenerator, own};
use crate::load::call::{Call, Opened};
use crate::load::counters::DataCounters;
use crate::load::file_set::FileSet;
use crate::load::op::Version;
use crate::load::pattern;
use crate::load::plan::{Plan, Stable};
use crate::load::reply::Body;
use client::Fh;
use proto::nfs3::StableHow;

pub(super) struct Writes {
    file: Fh,
    data: Vec<u8>,
    len: u64,
    offset: u64,
    stable: StableHow,
    version: Version,
    under_way: usize,
    committing: bool,
    /// Passes to run, and passes done.
    passes: Option<u32>,
    passed: u32,
}

impl Writes {
    pub(super) fn new(file_set: &FileSet, plan: &Plan, client: usize) -> Self {
        let mut data = vec![0; plan.size as usize];
        pattern::fill(u32::try_from(client).unwrap_or(0), 0, &mut data);
        let stable = match plan.stable {
            Stable::Unstable => StableHow::Unstable,
            Stable::FileSync => StableHow::FileSync,
        };
        Self {
            file: own(&file_set.client_files, client, file_set),
            data,
            len: plan.file_size.max(u64::from(plan.size)),
            offset: 0,
            stable,
            version: plan.version,
            under_way: 0,
            committing: false,
            passes: plan.passes,
            passed: 0,
        }
    }

    /// At the end of the file with all WRITEs answered: the COMMIT that ends the pass, if it needs one.
    fn turn(&mut self) -> Option<Call<'_>> {
        self.offset = 0;
        // stable writes, and version 2, where all are stable, need no COMMIT
        if self.stable == StableHow::Unstable && self.version != Version::V2 {
            self.committing = true;
            return Some(Call::Commit(&self.file));
        }
        self.passed = self.passed.saturating_add(1);
        self.write()
    }

    fn write(&mut self) -> Option<Call<'_>> {
        if self.is_done() {
            return None;
        }
        let offset = self.offset;
        self.offset += self.data.len() as u64;
        self.under_way += 1;
        Some(Call::Write(&self.file, offset, &self.data, self.stable, Opened::Own))
    }
}

impl CallGenerator for Writes {
    fn next(&mut self, _: usize) -> Option<Call<'_>> {
        if self.committing {
            return None;
        }
        if self.offset < self.len {
            return self.write();
        }
        if self.under_way > 0 { None } else { self.turn() }
    }

    fn is_done(&self) -> bool {
        self.passes.is_some_and(|passes| self.passed >= passes)
    }

    fn on_reply(
        &mut self,
        _: usize,
        status: u32,
        body: &Body<'_>,
        data_counters: &mut DataCounters,
    ) {
        if self.committing {
            self.committing = false;
            self.passed = self.passed.saturating_add(1);
            return;
        }
        self.under_way = self.under_way.saturating_sub(1);
        match body {
            Body::Written(count) => data_counters.bytes_written += u64::from(*count),
            // version 2 writes all or fails
            _ if status == 0 => data_counters.bytes_written += self.data.len() as u64,
            _ => {}
        }
    }
}
