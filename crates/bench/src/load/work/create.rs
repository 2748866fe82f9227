//! `create`: each lane makes a file in its client's directory and removes it again.

use super::{Work, own};
use crate::load::answer::Body;
use crate::load::ask::Ask;
use crate::load::plan::Plan;
use crate::load::scene::Scene;
use crate::load::tally::Checks;
use client::Fh;

struct Lane {
    name: Vec<u8>,
    /// The file is there, or its CREATE is under way.
    made: bool,
}

pub(super) struct Creates {
    dir: Fh,
    lanes: Vec<Lane>,
}

impl Creates {
    pub(super) fn new(scene: &Scene, plan: &Plan, client: usize) -> Self {
        let lane = |n: usize| Lane { name: format!("new{n}").into_bytes(), made: false };
        let lanes = (0..plan.depth).map(lane).collect();
        Self { dir: own(&scene.own_dirs, client, scene), lanes }
    }
}

impl Work for Creates {
    fn next(&mut self, lane: usize) -> Option<Ask<'_>> {
        let lane = self.lanes.get_mut(lane)?;
        lane.made = !lane.made;
        Some(if lane.made {
            Ask::Create(&self.dir, &lane.name)
        } else {
            Ask::Remove(&self.dir, &lane.name)
        })
    }

    fn answered(&mut self, lane: usize, status: u32, _: &Body<'_>, _: &mut Checks) {
        // a CREATE that failed made nothing that could be removed
        if let (1.., Some(lane)) = (status, self.lanes.get_mut(lane)) {
            lane.made = false;
        }
    }
}
