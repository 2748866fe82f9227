//! Deadlock detection among lock owners that wait for each other.
//!
//! An edge goes from a waiting owner to each owner that holds what it waits for, or whose earlier request it may not pass.
//! A request is queued first and checked afterwards, with one file locked at a time: of two requests that close a cycle
//! at the same time, at least the later check sees both. The edges may be of different moments, so a cycle counts only if
//! a second search finds it too: a real one cannot disappear by itself.

use crate::acquire::acquire;
use crate::file::{How, LockRequest};
use crate::holder::Holder;
use crate::key::{FileKey, Now};
use crate::limits::DEADLOCK_EDGES_MAX;
use crate::plan::{Effects, Plan};
use crate::server::State;
use crate::sync::Arc;
use std::collections::HashSet;

impl State {
    /// What a request that has just been put in the queue comes to.
    pub(crate) fn blocked_or_deadlock(
        &self,
        now: Now,
        file: &FileKey,
        request: &LockRequest<'_>,
        effects: &mut Effects,
    ) -> Plan {
        let How::Wait(tag) = request.how else { return Plan::Again };
        let owner = Arc::new(request.who.to_holder());
        if !(self.waits_for_itself(&owner) && self.waits_for_itself(&owner)) {
            return Plan::Blocked(tag);
        }
        match self.with(now, file, effects, |state, cx| state.dequeue_if_waiting(cx, tag)) {
            Some(true) => Plan::Deadlock,
            // it was granted meanwhile, and its client is told
            _ => Plan::Blocked(tag),
        }
    }

    /// Whether the owner waits, over however many others, for himself.
    fn waits_for_itself(&self, owner: &Arc<Holder>) -> bool {
        let mut seen: HashSet<Arc<Holder>> = HashSet::new();
        let mut open = vec![Arc::clone(owner)];
        let mut edges = 0;
        while let Some(waiting) = open.pop() {
            let requests = acquire(&self.waits).of(&waiting);
            for (file, tag) in requests {
                let left = DEADLOCK_EDGES_MAX.saturating_sub(edges);
                let found = self.files.with(&file, |state| state.blockers(tag, left));
                for blocker in found.unwrap_or_default() {
                    edges += 1;
                    if blocker == *owner {
                        return true;
                    }
                    if seen.insert(Arc::clone(&blocker)) {
                        open.push(blocker);
                    }
                }
                if edges >= DEADLOCK_EDGES_MAX {
                    return false;
                }
            }
        }
        false
    }
}
