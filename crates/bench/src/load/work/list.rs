//! `readdir` and `readdirplus`: each lane takes a directory at random and reads it to its end.

use super::{Dice, Work, piece};
use crate::load::answer::Body;
use crate::load::ask::Ask;
use crate::load::plan::Plan;
use crate::load::scene::Scene;
use crate::load::tally::Checks;
use client::Fh;
use proto::nfs3::Verf;
use std::sync::Arc;

/// Where a lane stands in its directory.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub dir: Option<Fh>,
    pub cookie: u64,
    pub verf: Verf,
}

impl Place {
    pub(super) const NOWHERE: Self = Self { dir: None, cookie: 0, verf: [0; 8] };

    pub(super) const fn start(dir: Fh) -> Self {
        Self { dir: Some(dir), cookie: 0, verf: [0; 8] }
    }

    /// Goes on behind what came, or is done with the directory.
    pub(super) fn go_on(&mut self, status: u32, body: &Body<'_>) {
        match body {
            Body::Listed { entries: 1.., cookie, verf, eof: false } if status == 0 => {
                (self.cookie, self.verf) = (*cookie, *verf);
            }
            _ => *self = Self::NOWHERE,
        }
    }
}

pub(super) struct Lists {
    scene: Arc<Scene>,
    dice: Dice,
    plus: bool,
    piece: u32,
    lanes: Vec<Place>,
}

impl Lists {
    pub(super) fn new(scene: Arc<Scene>, dice: Dice, plan: &Plan, plus: bool) -> Self {
        let lanes = vec![Place::NOWHERE; plan.depth];
        Self { scene, dice, plus, piece: piece(plan), lanes }
    }
}

impl Work for Lists {
    fn next(&mut self, lane: usize) -> Option<Ask<'_>> {
        let place = self.lanes.get_mut(lane)?;
        if place.dir.is_none() {
            *place = Place::start(self.dice.pick(&self.scene.dirs)?.fh);
        }
        let Place { dir, cookie, verf } = place;
        let dir = dir.as_ref()?;
        Some(if self.plus {
            Ask::Readdirplus(dir, *cookie, *verf, self.piece)
        } else {
            Ask::Readdir(dir, *cookie, *verf, self.piece)
        })
    }

    fn answered(&mut self, lane: usize, status: u32, body: &Body<'_>, _: &mut Checks) {
        if let Some(place) = self.lanes.get_mut(lane) {
            place.go_on(status, body);
        }
    }
}
