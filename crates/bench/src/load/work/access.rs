//! `getattr` and `access`: objects at random.

use super::{Dice, Work};
use crate::load::answer::Body;
use crate::load::ask::Ask;
use crate::load::scene::Scene;
use crate::load::tally::Checks;
use std::sync::Arc;

/// All bits of RFC 1813 §3.3.4.
pub(super) const ALL: u32 = 0x3f;

pub(super) struct Touch {
    scene: Arc<Scene>,
    dice: Dice,
    access: bool,
}

impl Touch {
    pub(super) const fn new(scene: Arc<Scene>, dice: Dice, access: bool) -> Self {
        Self { scene, dice, access }
    }
}

impl Work for Touch {
    fn next(&mut self, _: usize) -> Option<Ask<'_>> {
        let fh = self.dice.pick(&self.scene.objects).map_or(&self.scene.root, |object| &object.fh);
        Some(if self.access { Ask::Access(fh, ALL) } else { Ask::Getattr(fh) })
    }

    fn answered(&mut self, _: usize, _: u32, _: &Body<'_>, _: &mut Checks) {}
}
