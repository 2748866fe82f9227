//! Requests that wait for a file, first come first served, and grants that their clients have not confirmed yet.
//!
//! A waiting request is granted when no lock excludes it and no earlier request waits that it conflicts with: readers
//! in a row are granted together, and a reader does not pass a writer who came before. A request that only a local
//! program's lock or a limit blocks is tried again after a delay that doubles.

use crate::holder::{Holder, Who};
use crate::key::{Now, Tag};
use crate::limits::{Limits, UNCONFIRMED_MAX};
use crate::range::{ByteRange, Mode};
use crate::sync::Arc;
use std::collections::VecDeque;

/// When a request that a local program blocks is tried again.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Retry {
    pub at_ms: u64,
    delay_ms: u64,
}

impl Retry {
    /// After the first conflict, or after one more.
    pub fn after(previous: Option<Self>, now: Now, limits: &Limits) -> Self {
        let delay_ms = previous.map_or(limits.retry_min_ms, |retry| retry.delay_ms * 2);
        let delay_ms = delay_ms.min(limits.retry_max_ms).max(1);
        Self { at_ms: now.0.saturating_add(delay_ms), delay_ms }
    }
}

/// A request that waits.
#[derive(Debug, Clone)]
pub(crate) struct Waiter {
    pub tag: Tag,
    pub holder: Arc<Holder>,
    pub range: ByteRange,
    pub mode: Mode,
    /// A local program's lock or a limit blocks it.
    pub retry: Option<Retry>,
    /// The kernel is being asked on its behalf; it keeps its place until that is settled.
    pub trying: bool,
}

impl Waiter {
    /// Whether it is this request.
    pub fn is(&self, who: &Who<'_>, range: ByteRange, mode: Mode) -> bool {
        self.range == range && self.mode == mode && self.holder.who() == *who
    }

    /// Whether the two requests exclude each other.
    pub fn conflicts(&self, other: &Self) -> bool {
        self.mode.conflicts(other.mode)
            && self.range.overlaps(other.range)
            && self.holder != other.holder
    }
}

/// A grant that the client was told of, and has not confirmed.
#[derive(Debug, Clone)]
pub(crate) struct Unconfirmed {
    pub tag: Tag,
    pub holder: Arc<Holder>,
    pub range: ByteRange,
    /// What the owner held of these bytes before, and holds again if the grant is withdrawn.
    pub before: Vec<(ByteRange, Mode)>,
}

/// The unconfirmed grants of a file; the oldest are taken for confirmed when there are too many.
#[derive(Debug, Clone, Default)]
pub(crate) struct UnconfirmedGrants(VecDeque<Unconfirmed>);

impl UnconfirmedGrants {
    pub fn add(&mut self, grant: Unconfirmed) {
        if self.0.len() >= UNCONFIRMED_MAX {
            self.0.pop_front();
        }
        self.0.push_back(grant);
    }

    /// Whether another one would have the oldest taken for confirmed.
    pub fn is_full(&self) -> bool {
        self.0.len() >= UNCONFIRMED_MAX
    }

    /// The grant of this name, which is then no longer open.
    pub fn take(&mut self, tag: Tag) -> Option<Unconfirmed> {
        let at = self.0.iter().position(|grant| grant.tag == tag)?;
        self.0.remove(at)
    }

    /// The grant of this name.
    pub fn find(&self, tag: Tag) -> Option<&Unconfirmed> {
        self.0.iter().find(|grant| grant.tag == tag)
    }

    /// The owner knows what he has of this range, or has given it back.
    pub fn confirm_overlapping(&mut self, who: &Who<'_>, range: ByteRange) {
        if !self.0.is_empty() {
            self.0.retain(|grant| !(grant.range.overlaps(range) && grant.holder.who() == *who));
        }
    }

    /// Forgets those of which `gone` is true.
    pub fn forget(&mut self, gone: impl Fn(&Holder) -> bool) {
        self.0.retain(|grant| !gone(&grant.holder));
    }
}
