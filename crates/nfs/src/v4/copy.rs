//! COPY and CLONE (RFC 7862 §15.2, §15.13), from the saved filehandle to the current one, within this server.
//!
//! A copy is complete when it is answered, and no callback follows; a copy that takes longer than a second is answered
//! partially, and the client continues with another COPY. With `copy=async`, and if the client permits it, a longer copy is
//! answered after its first step, whose errors are the answer, and goes on by itself ([`super::copies`]).

use super::async_copy::{self, CopyStateid};
use super::frame::{CurrentObject, Frame, wire_stateid};
use super::stateids::{self, DataAccess};
use super::status::Failed;
use crate::object::Object;
use crate::settings::CopyMode;
use crate::verbs::{self, COPY_STEP, CopyRange, CopySteps};
use proto::nfs4::{CloneArgs, CopyArgs, Nfsstat4, StableHow4, Stateid4};
use state::ShareBits;
use state::v4::Stateid;
use vfs::Verifier;
use xdr::{Reader, Writer};

/// The source and the target, each with the right that its stateid gives.
fn files<'f>(
    frame: &Frame<'f>,
    args: &CloneArgs,
) -> Result<(Object<'f>, Object<'f>, CopyRange), Failed> {
    let saved = frame.saved.as_ref().ok_or(Nfsstat4::NoFilehandle)?;
    let current = frame.current.as_ref().ok_or(Nfsstat4::NoFilehandle)?;
    let may_read = stateids::right_at(frame, saved, args.src_stateid, DataAccess::Read)?;
    let may_write = stateids::right_at(frame, current, args.dst_stateid, DataAccess::Write)?;
    let (mut source, mut target) = (saved.object.clone(), current.object.clone());
    (source.right, target.right) = (may_read, may_write);
    let range = CopyRange { from: args.src_offset, to: args.dst_offset, count: args.count };
    Ok((source, target, range))
}

pub(super) fn copy<'f>(
    frame: &mut Frame<'f>,
    args: &mut Reader<'f>,
    reply: &mut Writer,
) -> Result<(), Failed> {
    let args: CopyArgs = args.get()?;
    if args.sources != 0 {
        // from another server
        return Err(Nfsstat4::NotSupp.into());
    }
    let (source, target, range) = files(frame, &args.range)?;
    let mut steps = CopySteps::begin(&source, &target, range)?;
    if may_go_on(frame, &args, (&source, &target), &steps) {
        // whatever is wrong with the files is seen now
        steps.step(&source, &target, &mut Vec::new())?;
        frame.nfs.after_change(&target, &target.fid, frame.client_id())?;
        frame.changed = true;
        if let Some(stateid) = go_on(frame, &args.range, (&source, &target), steps) {
            put(Some(stateid), 0, steps.copied().verifier, reply);
            return Ok(());
        }
    }
    let copied = verbs::copy_rest(&source, &target, &mut steps)?;
    frame.nfs.after_change(&target, &target.fid, frame.client_id())?;
    frame.changed = true;
    put(None, copied.count, copied.verifier, reply);
    Ok(())
}

/// Appends `COPY4resok`; of a copy that goes on its stateid.
fn put(stateid: Option<Stateid>, count: u64, verifier: Verifier, reply: &mut Writer) {
    match stateid {
        None => reply.u32(0),
        Some(stateid) => {
            reply.u32(1);
            reply.put(&wire_stateid(stateid));
        }
    }
    reply.u64(count);
    reply.put(&StableHow4::Unstable);
    reply.put(&verifier);
    // cr_consecutive, cr_synchronous
    reply.words([1, u32::from(stateid.is_none())]);
}

/// Whether a copy may go on after it was answered: if it takes more than a step, and the client can be told of its end. A
/// copy from one export to another depends on two file systems, of which one that hangs would hold up copies of the other.
fn may_go_on(
    frame: &Frame<'_>,
    args: &CopyArgs,
    (source, target): (&Object<'_>, &Object<'_>),
    steps: &CopySteps,
) -> bool {
    frame.nfs.settings.copy() == CopyMode::Async
        && !args.synchronous
        && steps.total() > COPY_STEP
        && source.check_same_export(target).is_ok()
        && frame.session().is_ok_and(state::v4::Session::has_callbacks)
}

/// Has the rest of a copy made after it was answered; its stateid, or `None` if there is no room, or special stateids.
fn go_on(
    frame: &Frame<'_>,
    args: &CloneArgs,
    (source, target): (&Object<'_>, &Object<'_>),
    steps: CopySteps,
) -> Option<Stateid> {
    if steps.is_done() {
        return None;
    }
    let named = |place: &Option<CurrentObject<'_>>, argument: Stateid4| match argument {
        Stateid4::CURRENT => place.as_ref()?.stateid,
        named => Some(named),
    };
    let from = named(&frame.saved, args.src_stateid)?;
    let to = named(&frame.current, args.dst_stateid)?;
    let source = (source, CopyStateid::new(source, from, ShareBits::READ)?);
    let target = (target, CopyStateid::new(target, to, ShareBits::WRITE)?);
    async_copy::begin(frame, source, target, steps)
}

pub(super) fn clone<'f>(
    frame: &mut Frame<'f>,
    args: &mut Reader<'f>,
    _: &mut Writer,
) -> Result<(), Failed> {
    let args: CloneArgs = args.get()?;
    let (source, target, range) = files(frame, &args)?;
    verbs::clone(&source, &target, range)?;
    frame.nfs.after_change(&target, &target.fid, frame.client_id())?;
    frame.changed = true;
    Ok(())
}
