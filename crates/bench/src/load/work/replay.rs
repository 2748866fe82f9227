//! `replay`: a recorded list, again and again; the clients start at places spread over it.

use super::Work;
use super::access::ALL;
use crate::load::answer::Body;
use crate::load::ask::Ask;
use crate::load::op::Op;
use crate::load::plan::Plan;
use crate::load::scene::Scene;
use crate::load::tally::Checks;
use proto::nfs3::StableHow;
use std::sync::Arc;

/// Bytes of a piece of a directory.
const PIECE: u32 = 8192;
/// The longest WRITE that is played; a longer one is cut.
const WRITE_MAX: usize = 1 << 20;

pub(super) struct Replay {
    scene: Arc<Scene>,
    next: usize,
    data: Vec<u8>,
}

impl Replay {
    pub(super) fn new(scene: Arc<Scene>, plan: &Plan, client: usize) -> Self {
        let steps = &scene.steps;
        let next = steps.len().saturating_mul(client).checked_div(plan.clients).unwrap_or(0);
        let longest = steps.iter().filter(|s| s.op == Op::Write).map(|s| s.count as usize).max();
        let data = vec![0x62; longest.unwrap_or(0).min(WRITE_MAX)];
        Self { scene, next, data }
    }
}

impl Work for Replay {
    fn next(&mut self, _: usize) -> Option<Ask<'_>> {
        let steps = &self.scene.steps;
        let step = steps.get(self.next)?;
        self.next = if self.next + 1 < steps.len() { self.next + 1 } else { 0 };
        let (fh, name) = (&step.fh, &*step.name);
        Some(match step.op {
            Op::Null => Ask::Null,
            Op::Getattr => Ask::Getattr(fh),
            Op::Setattr => Ask::Touch(fh),
            Op::Lookup => Ask::Lookup(fh, name),
            Op::Access => Ask::Access(fh, ALL),
            Op::Readlink => Ask::Readlink(fh),
            Op::Read => Ask::Read(fh, step.offset, step.count),
            Op::Write => {
                let len = (step.count as usize).min(self.data.len());
                let data = self.data.get(..len).unwrap_or_default();
                Ask::Write(fh, step.offset, data, StableHow::Unstable)
            }
            Op::Create => Ask::Create(fh, name),
            Op::Remove => Ask::Remove(fh, name),
            Op::Readdir => Ask::Readdir(fh, 0, [0; 8], PIECE),
            Op::Readdirplus => Ask::Readdirplus(fh, 0, [0; 8], PIECE),
            Op::Fsstat => Ask::Fsstat(fh),
            Op::Commit => Ask::Commit(fh),
        })
    }

    fn answered(&mut self, _: usize, _: u32, body: &Body<'_>, checks: &mut Checks) {
        match body {
            Body::Data { bytes, .. } => checks.bytes_read += bytes.len() as u64,
            Body::Written(count) => checks.bytes_written += u64::from(*count),
            _ => {}
        }
    }
}
