//! COPY and CLONE (RFC 7862 §15.2, §15.13), from the saved filehandle to the current one, within this server.
//!
//! A copy is complete when it is answered, and no callback follows; a copy that takes longer than a second is answered
//! partially, and the client continues with another COPY.

use super::frame::Frame;
use super::stateids::{self, DataAccess};
use super::status::Failed;
use crate::object::Object;
use crate::verbs::{self, CopyRange};
use proto::nfs4::{CloneArgs, CopyArgs, Nfsstat4, StableHow4};
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
    let CopyArgs { range, sources, .. } = args.get()?;
    if sources != 0 {
        // from another server
        return Err(Nfsstat4::NotSupp.into());
    }
    let (source, target, range) = files(frame, &range)?;
    let copied = verbs::copy(&source, &target, range)?;
    frame.changed = true;
    // wr_callback_id: none, as it is done
    reply.u32(0);
    reply.u64(copied.count);
    reply.put(&StableHow4::Unstable);
    reply.put(&copied.verifier);
    // cr_consecutive, cr_synchronous
    reply.words([1, 1]);
    Ok(())
}

pub(super) fn clone<'f>(
    frame: &mut Frame<'f>,
    args: &mut Reader<'f>,
    _: &mut Writer,
) -> Result<(), Failed> {
    let args: CloneArgs = args.get()?;
    let (source, target, range) = files(frame, &args)?;
    verbs::clone(&source, &target, range)?;
    frame.changed = true;
    Ok(())
}
