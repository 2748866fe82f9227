//! The trait that every workload implements, and what several workloads need.

use super::super::call::Call;
use super::super::counters::DataCounters;
use super::super::file_set::FileSet;
use super::super::op::Version;
use super::super::plan::Plan;
use super::super::reply::Body;
use client::Fh;

/// The sequence of calls of one client.
pub(crate) trait CallGenerator: Send {
    /// The next call of a free slot; `None`: not before the reply of another slot.
    fn next(&mut self, slot: usize) -> Option<Call<'_>>;

    /// Whether all calls of the plan are done, so that there is nothing to wait for.
    fn is_done(&self) -> bool {
        false
    }

    /// Handles the reply to a slot's call; `status` 0 is success.
    fn on_reply(
        &mut self,
        slot: usize,
        status: u32,
        body: &Body<'_>,
        data_counters: &mut DataCounters,
    );
}

/// The largest READDIR reply of a version and transport, in bytes.
pub(super) const fn piece(plan: &Plan) -> u32 {
    match plan.version {
        Version::V2 if plan.size > 4096 => 4096,
        _ => plan.size,
    }
}

/// The handle at `index`, or the root's.
pub(super) fn own(handles: &[Fh], index: usize, file_set: &FileSet) -> Fh {
    handles.get(index).copied().unwrap_or(file_set.root)
}
