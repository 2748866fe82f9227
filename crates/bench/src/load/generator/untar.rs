//! `untar`: each slot unpacks small files into its client's directory, by the calls of the Linux client for tar(1): an
//! exclusive CREATE, the SETATTR that sets the file's mode, its data in one WRITE with FILE_SYNC, and the SETATTR that
//! sets the archive's time. Each of the four must survive a power cut once it is answered. In version 4 the CREATE is an
//! OPEN, with the mode in it since version 4.1, and a CLOSE comes last.
//!
//! Names are never reused, not even by another run, as an exclusive CREATE of an existing file fails.

use super::{CallGenerator, own};
use crate::load::call::{Call, Opened};
use crate::load::counters::DataCounters;
use crate::load::file_set::FileSet;
use crate::load::op::Version;
use crate::load::pattern;
use crate::load::plan::Plan;
use crate::load::reply::Body;
use client::Fh;
use proto::nfs3::StableHow;
use std::io::Write;
use std::time::{SystemTime, UNIX_EPOCH};

/// What a lane does next with its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    Create,
    SetMode,
    Write,
    SetTime,
    Close,
}

struct Slot {
    next: Next,
    /// Files started so far.
    begun: u64,
    name: Vec<u8>,
    file: Fh,
}

pub(super) struct Untar {
    dir: Fh,
    data: Vec<u8>,
    /// Distinguishes the names and verifiers of this run from those of others.
    run: u64,
    version: Version,
    slots: Vec<Slot>,
}

impl Untar {
    pub(super) fn new(file_set: &FileSet, plan: &Plan, client: usize) -> Self {
        let mut data = vec![0; plan.size as usize];
        pattern::fill(u32::try_from(client).unwrap_or(0), 0, &mut data);
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let slot = |_| Slot { next: Next::Create, begun: 0, name: Vec::new(), file: file_set.root };
        Self {
            dir: own(&file_set.client_dirs, client, file_set),
            data,
            version: plan.version,
            run: u64::try_from(since_epoch.as_nanos()).unwrap_or(0),
            slots: (0..plan.depth).map(slot).collect(),
        }
    }
}

impl CallGenerator for Untar {
    fn next(&mut self, number: usize) -> Option<Call<'_>> {
        let slot = self.slots.get_mut(number)?;
        Some(match slot.next {
            Next::Create => {
                slot.begun = slot.begun.wrapping_add(1);
                slot.name.clear();
                write!(slot.name, "{:x}-{number}-{}", self.run, slot.begun).ok()?;
                let verifier = self.run.rotate_left(20) ^ (number as u64) << 32 ^ slot.begun;
                Call::CreateNew(&self.dir, &slot.name, verifier.to_be_bytes())
            }
            Next::SetMode => Call::SetMode(&slot.file),
            Next::Write => {
                Call::Write(&slot.file, 0, &self.data, StableHow::FileSync, Opened::Slot)
            }
            Next::SetTime => Call::SetTime(&slot.file),
            Next::Close => Call::Close(&slot.file),
        })
    }

    fn on_reply(
        &mut self,
        slot: usize,
        status: u32,
        body: &Body<'_>,
        data_counters: &mut DataCounters,
    ) {
        let Some(slot) = self.slots.get_mut(slot) else { return };
        if let Body::Written(count) = body {
            data_counters.bytes_written += u64::from(*count);
        }
        let opens = self.version.opens();
        let with_mode = opens && self.version != Version::V40;
        slot.next = match (slot.next, body) {
            (Next::Create | Next::Close, _) if status != 0 => Next::Create,
            // what is open is closed
            _ if status != 0 => {
                if opens {
                    Next::Close
                } else {
                    Next::Create
                }
            }
            (Next::Create, Body::Object(Some(file))) => {
                slot.file = *file;
                if with_mode { Next::Write } else { Next::SetMode }
            }
            (Next::SetTime, _) if opens => Next::Close,
            (Next::Create | Next::SetTime | Next::Close, _) => Next::Create,
            (Next::SetMode, _) => Next::Write,
            (Next::Write, _) => Next::SetTime,
        };
    }
}
