//! `readdir` and `readdirplus`: each slot takes a directory at random and reads it to its end.

use super::{CallGenerator, Rng, piece};
use crate::load::call::Call;
use crate::load::counters::DataCounters;
use crate::load::file_set::FileSet;
use crate::load::plan::Plan;
use crate::load::reply::Body;
use client::Fh;
use proto::nfs3::Verf;
use std::sync::Arc;

/// The position of a slot in its directory.
#[derive(Clone, Copy)]
pub(super) struct DirCursor {
    pub dir: Option<Fh>,
    pub cookie: u64,
    pub verf: Verf,
}

impl DirCursor {
    pub(super) const NONE: Self = Self { dir: None, cookie: 0, verf: [0; 8] };

    pub(super) const fn start(dir: Fh) -> Self {
        Self { dir: Some(dir), cookie: 0, verf: [0; 8] }
    }

    /// Continues after the received entries, or ends the directory.
    pub(super) fn advance(&mut self, status: u32, body: &Body<'_>) {
        match body {
            Body::DirItem { entries: 1.., cookie, verf, eof: false } if status == 0 => {
                (self.cookie, self.verf) = (*cookie, *verf);
            }
            _ => *self = Self::NONE,
        }
    }
}

pub(super) struct Lists {
    file_set: Arc<FileSet>,
    rng: Rng,
    plus: bool,
    piece: u32,
    slots: Vec<DirCursor>,
}

impl Lists {
    pub(super) fn new(file_set: Arc<FileSet>, rng: Rng, plan: &Plan, plus: bool) -> Self {
        let slots = vec![DirCursor::NONE; plan.depth];
        Self { file_set, rng, plus, piece: piece(plan), slots }
    }
}

impl CallGenerator for Lists {
    fn next(&mut self, slot: usize) -> Option<Call<'_>> {
        let cursor = self.slots.get_mut(slot)?;
        if cursor.dir.is_none() {
            *cursor = DirCursor::start(self.rng.pick(&self.file_set.dirs)?.fh);
        }
        let DirCursor { dir, cookie, verf } = cursor;
        let dir = dir.as_ref()?;
        Some(if self.plus {
            Call::Readdirplus(dir, *cookie, *verf, self.piece)
        } else {
            Call::Readdir(dir, *cookie, *verf, self.piece)
        })
    }

    fn on_reply(&mut self, slot: usize, status: u32, body: &Body<'_>, _: &mut DataCounters) {
        if let Some(cursor) = self.slots.get_mut(slot) {
            cursor.advance(status, body);
        }
    }
}
