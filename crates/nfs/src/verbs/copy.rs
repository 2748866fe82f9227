//! Copies within the server (RFC 7862 §15.2, §15.13): COPY and CLONE.
//!
//! A copy is made in steps, by the kernel where it can and otherwise through a buffer. It ends early after a time limit, so
//! that other calls of the connection need not wait for long; the client asks again for the rest. Or the rest of its steps
//! are made without the call, one after the other. No data is sent over the network.

use super::space::{only_regular, space};
use crate::object::Object;
use std::time::{Duration, Instant};
use vfs::{Change, FileAt, Stability, Status, Verifier, Want, need_regular};

/// Bytes of a step by the kernel.
pub const STEP: u64 = 8 << 20;
/// Bytes of a step through a buffer.
const BUFFER: u64 = 1 << 20;
/// After how long no further step begins.
const PATIENCE: Duration = Duration::from_secs(1);

/// The ranges of a copy; `count` 0 goes to the end of the source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CopyRange {
    /// Where it begins in the source.
    pub from: u64,
    /// Where it begins in the target.
    pub to: u64,
    /// How many bytes.
    pub count: u64,
}

/// The result of COPY.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CopiedRange {
    /// How many bytes, which may be less than were asked for.
    pub count: u64,
    /// The write verifier.
    pub verifier: Verifier,
}

const fn side<'o>(object: &'o Object<'_>, cx: vfs::Cx<'o>, offset: u64) -> FileAt<'o> {
    FileAt { cx, fid: &object.fid, offset }
}

/// How many bytes there are to copy.
fn length(source: &Object<'_>, range: CopyRange) -> vfs::Result<u64> {
    let attr = source.backend().getattr(&source.cx(), &source.fid, Want::STAT)?;
    need_regular(attr.ftype).map_err(only_regular)?;
    let left = attr.size.checked_sub(range.from).ok_or(Status::Inval)?;
    match range.count {
        0 => Ok(left),
        count if count <= left => Ok(count),
        _ => Err(Status::Inval),
    }
}

/// A copy under way, of which one step is made at a time, from its beginning to its end.
#[derive(Debug, Clone, Copy)]
pub struct CopySteps {
    range: CopyRange,
    len: u64,
    copied: u64,
    verifier: Verifier,
    /// The kernel copies, as long as it has not said that it cannot.
    by_kernel: bool,
    /// The source has become shorter.
    has_ended: bool,
}

impl CopySteps {
    /// Checks what can be checked before anything is copied.
    ///
    /// # Errors
    /// [`Status::Inval`] for one file with itself, and for a range that is not in the source; [`Status::FBig`],
    /// [`Status::RoFs`].
    pub fn begin(source: &Object<'_>, target: &Object<'_>, range: CopyRange) -> vfs::Result<Self> {
        target.check_writable()?;
        let by_kernel = source.check_same_export(target).is_ok();
        if by_kernel && source.fid == target.fid {
            return Err(Status::Inval);
        }
        let len = length(source, range)?;
        let end = range.to.checked_add(len).filter(|end| i64::try_from(*end).is_ok());
        end.ok_or(Status::FBig)?;
        // read before the data is copied, as for a write
        let verifier = target.backend().write_verifier();
        Ok(Self { range, len, copied: 0, verifier, by_kernel, has_ended: false })
    }

    /// Copies the next part. `buffer` is used where the kernel cannot copy, and can be used again.
    ///
    /// # Errors
    /// Those of reading and writing; what was copied before stays copied.
    pub fn step(
        &mut self,
        source: &Object<'_>,
        target: &Object<'_>,
        buffer: &mut Vec<u8>,
    ) -> vfs::Result<()> {
        let from = self.range.from.saturating_add(self.copied);
        let to = self.range.to.saturating_add(self.copied);
        let left = self.len.saturating_sub(self.copied);
        let count = match target.backend().space().filter(|_| self.by_kernel) {
            Some(space) => space.copy_range(
                side(source, source.cx(), from),
                side(target, target.cx(), to),
                left.min(STEP),
            ),
            None => step_by_buffer(source, target, (from, to), left.min(BUFFER), buffer),
        };
        match count {
            Ok(0) => self.has_ended = true,
            Ok(count) => self.copied = self.copied.saturating_add(count),
            Err(Status::NotSupp) if self.by_kernel => self.by_kernel = false,
            Err(status) => return Err(only_regular(status)),
        }
        Ok(())
    }

    /// Whether nothing is left to copy.
    pub const fn is_done(&self) -> bool {
        self.has_ended || self.copied >= self.len
    }

    /// How many bytes are to be copied in all.
    pub const fn total(&self) -> u64 {
        self.len
    }

    /// What was copied until now.
    pub const fn copied(&self) -> CopiedRange {
        CopiedRange { count: self.copied, verifier: self.verifier }
    }
}

/// Copies what is left, or the first part of it.
///
/// # Errors
/// Those of [`CopySteps::step`], if nothing was copied.
pub fn copy_rest(
    source: &Object<'_>,
    target: &Object<'_>,
    steps: &mut CopySteps,
) -> vfs::Result<CopiedRange> {
    let mut buffer = Vec::new();
    let began = Instant::now();
    while !steps.is_done() {
        match steps.step(source, target, &mut buffer) {
            Ok(()) => {}
            Err(status) if steps.copied == 0 => return Err(status),
            // whoever asks for the rest is told
            Err(_) => break,
        }
        if began.elapsed() >= PATIENCE {
            break;
        }
    }
    Ok(steps.copied())
}

fn step_by_buffer(
    source: &Object<'_>,
    target: &Object<'_>,
    (from, to): (u64, u64),
    len: u64,
    buffer: &mut Vec<u8>,
) -> vfs::Result<u64> {
    let len = usize::try_from(len).unwrap_or(usize::MAX);
    if buffer.is_empty() {
        buffer.try_reserve_exact(len).map_err(|_| Status::Jukebox)?;
        buffer.resize(len, 0);
    }
    let place = buffer.get_mut(..len).unwrap_or_default();
    let read = source.backend().read(&source.cx(), &source.fid, from, place)?;
    let data = place.get(..read.count).unwrap_or_default();
    if data.is_empty() {
        return Ok(0);
    }
    let backend = target.backend();
    let done = backend.write(&target.cx(), &target.fid, to, data, Stability::Unstable)?;
    Ok(done.count as u64)
}

/// Makes a range of a file share the data of another.
///
/// # Errors
/// [`Status::XDev`] for files of two exports; [`Status::Inval`] for ranges that are not aligned, overlap, or are not in
/// the source; [`Status::NotSupp`].
pub fn clone(source: &Object<'_>, target: &Object<'_>, range: CopyRange) -> vfs::Result<Change> {
    target.check_writable()?;
    source.check_same_export(target)?;
    let space = space(target)?;
    if length(source, range)? == 0 {
        // there is nothing to share; the target's type and the right to write it count all the same
        let attr = target.backend().getattr(&target.cx(), &target.fid, Want::STAT)?;
        need_regular(attr.ftype).map_err(only_regular)?;
    }
    let (from, to) = (side(source, source.cx(), range.from), side(target, target.cx(), range.to));
    space.clone_range(from, to, range.count).map_err(only_regular)
}
