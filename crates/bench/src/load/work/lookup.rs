//! `lookup`: names at random, each in its directory.

use super::{Dice, Work};
use crate::load::answer::Body;
use crate::load::ask::Ask;
use crate::load::scene::Scene;
use crate::load::tally::Checks;
use std::sync::Arc;

pub(super) struct Names {
    scene: Arc<Scene>,
    dice: Dice,
}

impl Names {
    pub(super) const fn new(scene: Arc<Scene>, dice: Dice) -> Self {
        Self { scene, dice }
    }
}

impl Work for Names {
    fn next(&mut self, _: usize) -> Option<Ask<'_>> {
        let object = self.dice.pick(&self.scene.objects)?;
        let dir = self.scene.dirs.get(object.dir as usize)?;
        Some(Ask::Lookup(&dir.fh, self.scene.name(object)))
    }

    fn answered(&mut self, _: usize, _: u32, _: &Body<'_>, _: &mut Checks) {}
}
