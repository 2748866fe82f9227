//! `walk`: a tree as rsync walks it from a client of 2009 whose caches hold nothing: for each
//! directory its rights and its list, for each entry its rights, now and then attributes. Almost only
//! ACCESS, as in the recorded experiment.
//!
//! The clients start at places spread over the tree, so that they are not all in one directory.

use super::access::ALL;
use super::list::Place;
use super::{Work, piece};
use crate::load::answer::Body;
use crate::load::ask::Ask;
use crate::load::plan::Plan;
use crate::load::scene::Scene;
use crate::load::tally::Checks;
use std::sync::Arc;

/// Every so many entries, one has its attributes fetched as well.
const ENTRIES_PER_GETATTR: u32 = 16;

/// What comes next in the directory.
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
    scene: Arc<Scene>,
    dir: usize,
    at: At,
    piece: u32,
    /// Lanes that are in the middle of a list.
    lanes: Vec<Place>,
}

impl Walk {
    pub(super) fn new(scene: Arc<Scene>, plan: &Plan, client: usize) -> Self {
        let dir = scene.dirs.len().saturating_mul(client).checked_div(plan.clients).unwrap_or(0);
        let lanes = vec![Place::NOWHERE; plan.depth];
        Self { scene, dir, at: At::Enter, piece: piece(plan), lanes }
    }

    /// The step after entry `entry`.
    const fn after(&self, entry: u32, count: u32) -> At {
        if entry + 1 < count { At::Access(entry + 1) } else { At::Enter }
    }
}

impl Work for Walk {
    fn next(&mut self, lane: usize) -> Option<Ask<'_>> {
        if let Some(Place { dir: Some(_), .. }) = self.lanes.get(lane) {
            let Place { dir, cookie, verf } = self.lanes.get(lane)?;
            return Some(Ask::Readdir(dir.as_ref()?, *cookie, *verf, self.piece));
        }
        let dir = self.scene.dirs.get(self.dir).or_else(|| self.scene.dirs.first())?;
        let entry = |n: u32| self.scene.objects.get((dir.first + n) as usize).map(|o| &o.fh);
        let (ask, next) = match self.at {
            At::Enter => (Ask::Access(&dir.fh, ALL), At::List),
            At::List => {
                *self.lanes.get_mut(lane)? = Place::start(dir.fh);
                let next = if dir.count > 0 { At::Access(0) } else { At::Enter };
                (Ask::Readdir(&dir.fh, 0, [0; 8], self.piece), next)
            }
            At::Access(n) if (n + 1).is_multiple_of(ENTRIES_PER_GETATTR) => {
                (Ask::Access(entry(n)?, ALL), At::Getattr(n))
            }
            At::Access(n) => (Ask::Access(entry(n)?, ALL), self.after(n, dir.count)),
            At::Getattr(n) => (Ask::Getattr(entry(n)?), self.after(n, dir.count)),
        };
        self.at = next;
        if matches!(next, At::Enter) {
            self.dir = if self.dir + 1 < self.scene.dirs.len() { self.dir + 1 } else { 0 };
        }
        Some(ask)
    }

    fn answered(&mut self, lane: usize, status: u32, body: &Body<'_>, _: &mut Checks) {
        if let Some(place) = self.lanes.get_mut(lane)
            && place.dir.is_some()
        {
            place.go_on(status, body);
        }
    }
}
