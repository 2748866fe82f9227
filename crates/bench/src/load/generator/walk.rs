//! `walk`: a tree as rsync walks it from a client of 2009 with empty caches: ACCESS and a listing for
//! each directory, ACCESS for each entry, attributes for some. Almost only ACCESS, as in the recorded
//! experiment.
//!
//! The clients start at positions spread over the tree, so that they are not all in one directory.

use super::access::ALL;
use super::list::DirCursor;
use super::{CallGenerator, piece};
use crate::load::call::Call;
use crate::load::counters::DataCounters;
use crate::load::file_set::FileSet;
use crate::load::plan::Plan;
use crate::load::reply::Body;
use std::sync::Arc;

/// For one entry of this many the attributes are fetched as well.
const ENTRIES_PER_GETATTR: u32 = 16;

/// The next call in the directory.
#[derive(Clone, Copy)]
enum At {
    /// ACCESS of the directory.
    Enter,
    /// Its list.
    List,
    /// ACCESS of an entry.
    Access(u32),
    /// GETATTR of an entry.
    Getattr(u32),
}

pub(super) struct Walk {
    file_set: Arc<FileSet>,
    dir: usize,
    at: At,
    piece: u32,
    /// Slots in the middle of a listing.
    slots: Vec<DirCursor>,
}

impl Walk {
    pub(super) fn new(file_set: Arc<FileSet>, plan: &Plan, client: usize) -> Self {
        let dir = file_set.dirs.len().saturating_mul(client).checked_div(plan.clients).unwrap_or(0);
        let slots = vec![DirCursor::NONE; plan.depth];
        Self { file_set, dir, at: At::Enter, piece: piece(plan), slots }
    }

    /// The step after entry `entry`.
    const fn after(&self, entry: u32, count: u32) -> At {
        if entry + 1 < count { At::Access(entry + 1) } else { At::Enter }
    }
}

impl CallGenerator for Walk {
    fn next(&mut self, slot: usize) -> Option<Call<'_>> {
        if let Some(DirCursor { dir: Some(_), .. }) = self.slots.get(slot) {
            let DirCursor { dir, cookie, verf } = self.slots.get(slot)?;
            return Some(Call::Readdir(dir.as_ref()?, *cookie, *verf, self.piece));
        }
        let dir = self.file_set.dirs.get(self.dir).or_else(|| self.file_set.dirs.first())?;
        let entry = |n: u32| self.file_set.objects.get((dir.first + n) as usize).map(|o| &o.fh);
        let (call, next) = match self.at {
            At::Enter => (Call::Access(&dir.fh, ALL), At::List),
            At::List => {
                *self.slots.get_mut(slot)? = DirCursor::start(dir.fh);
                let next = if dir.count > 0 { At::Access(0) } else { At::Enter };
                (Call::Readdir(&dir.fh, 0, [0; 8], self.piece), next)
            }
            At::Access(n) if (n + 1).is_multiple_of(ENTRIES_PER_GETATTR) => {
                (Call::Access(entry(n)?, ALL), At::Getattr(n))
            }
            At::Access(n) => (Call::Access(entry(n)?, ALL), self.after(n, dir.count)),
            At::Getattr(n) => (Call::Getattr(entry(n)?), self.after(n, dir.count)),
        };
        self.at = next;
        if matches!(next, At::Enter) {
            self.dir = if self.dir + 1 < self.file_set.dirs.len() { self.dir + 1 } else { 0 };
        }
        Some(call)
    }

    fn on_reply(&mut self, slot: usize, status: u32, body: &Body<'_>, _: &mut DataCounters) {
        if let Some(cursor) = self.slots.get_mut(slot)
            && cursor.dir.is_some()
        {
            cursor.advance(status, body);
        }
    }
}
