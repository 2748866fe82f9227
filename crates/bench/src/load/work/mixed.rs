//! `mixed`: many kinds of calls in the proportions of a file server in an office: most are about names
//! and attributes, a third moves data, a few change the tree.

use super::access::ALL;
use super::list::Place;
use super::read::Reads;
use super::{Dice, Work, own};
use crate::load::answer::Body;
use crate::load::ask::Ask;
use crate::load::op::Op;
use crate::load::pattern;
use crate::load::plan::Plan;
use crate::load::scene::Scene;
use crate::load::tally::Checks;
use client::Fh;
use proto::nfs3::StableHow;
use std::sync::Arc;

/// Shares of a hundred.
const SHARES: [(Op, u32); 11] = [
    (Op::Getattr, 26),
    (Op::Lookup, 24),
    (Op::Read, 18),
    (Op::Access, 12),
    (Op::Write, 9),
    (Op::Setattr, 3),
    (Op::Readdirplus, 2),
    (Op::Readdir, 1),
    (Op::Fsstat, 1),
    (Op::Create, 2),
    (Op::Remove, 2),
];
/// Bytes of a piece of a directory.
const PIECE: u32 = 8192;

struct Lane {
    asked: Op,
    name: Vec<u8>,
    made: bool,
    place: Place,
}

pub(super) struct Mixed {
    scene: Arc<Scene>,
    dice: Dice,
    reads: Reads,
    dir: Fh,
    file: Fh,
    file_len: u64,
    data: Vec<u8>,
    lanes: Vec<Lane>,
}

impl Mixed {
    pub(super) fn new(scene: Arc<Scene>, dice: Dice, plan: &Plan, client: usize) -> Self {
        let lane = |n: usize| Lane {
            asked: Op::Null,
            name: format!("new{n}").into_bytes(),
            made: false,
            place: Place::NOWHERE,
        };
        let mut data = vec![0; plan.size as usize];
        pattern::fill(0, 0, &mut data);
        Self {
            reads: Reads::new(Arc::clone(&scene), Dice::new(plan.seed ^ 0x5eed, client), plan),
            dir: own(&scene.own_dirs, client, &scene),
            file: own(&scene.own_files, client, &scene),
            file_len: plan.file_size.max(u64::from(plan.size)),
            lanes: (0..plan.depth).map(lane).collect(),
            scene,
            dice,
            data,
        }
    }

    fn choose(&mut self) -> Op {
        let mut left = u32::try_from(self.dice.below(100)).unwrap_or(0);
        for (op, share) in SHARES {
            match left.checked_sub(share) {
                Some(rest) => left = rest,
                None => return op,
            }
        }
        Op::Getattr
    }
}

impl Work for Mixed {
    fn next(&mut self, lane: usize) -> Option<Ask<'_>> {
        let op = self.choose();
        let Self { scene, dice, reads, lanes, .. } = self;
        let state = lanes.get_mut(lane)?;
        state.asked = match op {
            // only what is there is removed, and only what is not is made
            Op::Create | Op::Remove if state.made => Op::Remove,
            Op::Create | Op::Remove => Op::Create,
            other => other,
        };
        let object = dice.pick(&scene.objects);
        let fh = object.map_or(&scene.root, |object| &object.fh);
        Some(match state.asked {
            Op::Lookup => {
                let object = object?;
                Ask::Lookup(&scene.dirs.get(object.dir as usize)?.fh, scene.name(object))
            }
            Op::Read => return reads.next(lane),
            Op::Access => Ask::Access(fh, ALL),
            Op::Write => {
                let pieces = usize::try_from(self.file_len / self.data.len() as u64).unwrap_or(1);
                let offset = dice.below(pieces) as u64 * self.data.len() as u64;
                Ask::Write(&self.file, offset, &self.data, StableHow::Unstable)
            }
            Op::Setattr => Ask::Touch(&self.file),
            Op::Readdir | Op::Readdirplus => {
                if state.place.dir.is_none() {
                    state.place = Place::start(dice.pick(&scene.dirs)?.fh);
                }
                let Place { dir, cookie, verf } = &state.place;
                // a cookie belongs to both, but not every server thinks so: one kind a directory
                Ask::Readdirplus(dir.as_ref()?, *cookie, *verf, PIECE)
            }
            Op::Fsstat => Ask::Fsstat(&scene.root),
            Op::Create => {
                state.made = true;
                Ask::Create(&self.dir, &state.name)
            }
            Op::Remove => {
                state.made = false;
                Ask::Remove(&self.dir, &state.name)
            }
            Op::Null | Op::Getattr | Op::Readlink | Op::Commit => Ask::Getattr(fh),
        })
    }

    fn answered(&mut self, lane: usize, status: u32, body: &Body<'_>, checks: &mut Checks) {
        let Some(state) = self.lanes.get_mut(lane) else { return };
        match state.asked {
            Op::Read => self.reads.answered(lane, status, body, checks),
            Op::Readdir | Op::Readdirplus => state.place.go_on(status, body),
            Op::Create if status != 0 => state.made = false,
            Op::Write => {
                if let Body::Written(count) = body {
                    checks.bytes_written += u64::from(*count);
                }
            }
            _ => {}
        }
    }
}
