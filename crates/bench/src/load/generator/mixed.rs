//! `mixed`: many kinds of calls in the proportions of an office file server: most are about names and
//! attributes, a third moves data, a few change the tree.

use super::access::ALL;
use super::list::DirCursor;
use super::read::Reads;
use super::{CallGenerator, Rng, own};
use crate::load::call::{Call, Opened};
use crate::load::counters::DataCounters;
use crate::load::file_set::FileSet;
use crate::load::op::Op;
use crate::load::pattern;
use crate::load::plan::Plan;
use crate::load::reply::Body;
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
/// Bytes of a READDIR reply.
const PIECE: u32 = 8192;

struct Slot {
    asked: Op,
    name: Vec<u8>,
    made: bool,
    /// In version 4 what was created is open, and is closed next.
    to_close: Option<Fh>,
    cursor: DirCursor,
}

pub(super) struct Mixed {
    file_set: Arc<FileSet>,
    rng: Rng,
    reads: Reads,
    dir: Fh,
    file: Fh,
    file_len: u64,
    data: Vec<u8>,
    opens: bool,
    slots: Vec<Slot>,
}

impl Mixed {
    pub(super) fn new(file_set: Arc<FileSet>, rng: Rng, plan: &Plan, client: usize) -> Self {
        let slot = |n: usize| Slot {
            asked: Op::Null,
            name: format!("new{n}").into_bytes(),
            made: false,
            to_close: None,
            cursor: DirCursor::NONE,
        };
        let mut data = vec![0; plan.size as usize];
        pattern::fill(0, 0, &mut data);
        Self {
            reads: Reads::new(Arc::clone(&file_set), Rng::new(plan.seed ^ 0x5eed, client), plan),
            dir: own(&file_set.client_dirs, client, &file_set),
            file: own(&file_set.client_files, client, &file_set),
            file_len: plan.file_size.max(u64::from(plan.size)),
            opens: plan.version.opens(),
            slots: (0..plan.depth).map(slot).collect(),
            file_set,
            rng,
            data,
        }
    }

    fn choose(&mut self) -> Op {
        let mut left = u32::try_from(self.rng.below(100)).unwrap_or(0);
        for (op, share) in SHARES {
            match left.checked_sub(share) {
                Some(rest) => left = rest,
                None => return op,
            }
        }
        Op::Getattr
    }
}

impl CallGenerator for Mixed {
    fn next(&mut self, slot: usize) -> Option<Call<'_>> {
        let op = self.choose();
        let Self { file_set, rng, reads, slots, .. } = self;
        let state = slots.get_mut(slot)?;
        state.asked = match op {
            _ if state.to_close.is_some() => Op::Close,
            // only existing files are removed, and only missing ones created
            Op::Create | Op::Remove if state.made => Op::Remove,
            Op::Create | Op::Remove => Op::Create,
            other => other,
        };
        let object = rng.pick(&file_set.objects);
        let fh = object.map_or(&file_set.root, |object| &object.fh);
        Some(match state.asked {
            Op::Lookup => {
                let object = object?;
                Call::Lookup(&file_set.dirs.get(object.dir as usize)?.fh, file_set.name(object))
            }
            Op::Read => return reads.next(slot),
            Op::Access => Call::Access(fh, ALL),
            Op::Write => {
                let pieces = usize::try_from(self.file_len / self.data.len() as u64).unwrap_or(1);
                let offset = rng.below(pieces) as u64 * self.data.len() as u64;
                Call::Write(&self.file, offset, &self.data, StableHow::Unstable, Opened::Own)
            }
            Op::Setattr => Call::Touch(&self.file),
            Op::Readdir | Op::Readdirplus => {
                if state.cursor.dir.is_none() {
                    state.cursor = DirCursor::start(rng.pick(&file_set.dirs)?.fh);
                }
                let DirCursor { dir, cookie, verf } = &state.cursor;
                // a cookie is valid for both procedures, but not on every server: one procedure per
                // directory
                Call::Readdirplus(dir.as_ref()?, *cookie, *verf, PIECE)
            }
            Op::Fsstat => Call::Fsstat(&file_set.root),
            Op::Create => {
                state.made = true;
                Call::Create(&self.dir, &state.name)
            }
            Op::Remove => {
                state.made = false;
                Call::Remove(&self.dir, &state.name)
            }
            Op::Close => Call::Close(state.to_close.as_ref()?),
            Op::Null
            | Op::Getattr
            | Op::Readlink
            | Op::Commit
            | Op::Lock
            | Op::Unlock
            | Op::Open => Call::Getattr(fh),
        })
    }

    fn on_reply(
        &mut self,
        slot: usize,
        status: u32,
        body: &Body<'_>,
        data_counters: &mut DataCounters,
    ) {
        let Some(state) = self.slots.get_mut(slot) else { return };
        match state.asked {
            Op::Read => self.reads.on_reply(slot, status, body, data_counters),
            Op::Readdir | Op::Readdirplus => state.cursor.advance(status, body),
            Op::Create if status != 0 => state.made = false,
            Op::Create => {
                if let (true, Body::Object(file)) = (self.opens, body) {
                    state.to_close = *file;
                }
            }
            Op::Close => state.to_close = None,
            Op::Write => {
                if let Body::Written(count) = body {
                    data_counters.bytes_written += u64::from(*count);
                }
            }
            _ => {}
        }
    }
}
