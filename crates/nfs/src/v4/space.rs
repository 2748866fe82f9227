//! ALLOCATE, DEALLOCATE, SEEK and IO_ADVISE (RFC 7862 §15.1, §15.4, §15.11, §15.5).

use super::frame::Frame;
use super::stateids::{self, DataAccess};
use super::status::Failed;
use crate::object::Object;
use crate::verbs;
use proto::nfs4::{Bitmap4, IoAdviseArgs, Nfsstat4, RangeArgs, SeekArgs, Stateid4, content};
use vfs::{Advice, Content};
use xdr::{Reader, Writer};

/// The current file, with the right that a stateid gives.
fn file<'f>(
    frame: &Frame<'f>,
    stateid: Stateid4,
    access: DataAccess,
) -> Result<Object<'f>, Failed> {
    let right = stateids::data_right(frame, stateid, access)?;
    let mut file = frame.object()?.clone();
    file.right = right;
    Ok(file)
}

pub(super) fn allocate<'f>(
    frame: &mut Frame<'f>,
    args: &mut Reader<'f>,
    _: &mut Writer,
) -> Result<(), Failed> {
    let RangeArgs { stateid, offset, length } = args.get()?;
    let file = file(frame, stateid, DataAccess::Write)?;
    verbs::allocate(&file, offset, length)?;
    frame.nfs.after_change(&file, &file.fid, frame.client_id())?;
    frame.changed = true;
    Ok(())
}

pub(super) fn deallocate<'f>(
    frame: &mut Frame<'f>,
    args: &mut Reader<'f>,
    _: &mut Writer,
) -> Result<(), Failed> {
    let RangeArgs { stateid, offset, length } = args.get()?;
    let file = file(frame, stateid, DataAccess::Write)?;
    verbs::deallocate(&file, offset, length)?;
    frame.nfs.after_change(&file, &file.fid, frame.client_id())?;
    frame.changed = true;
    Ok(())
}

/// An end that is found at the end of the file is a hole that no file lacks, and is marked as the end.
pub(super) fn seek<'f>(
    frame: &mut Frame<'f>,
    args: &mut Reader<'f>,
    reply: &mut Writer,
) -> Result<(), Failed> {
    let SeekArgs { stateid, offset, what } = args.get()?;
    let file = file(frame, stateid, DataAccess::Read)?;
    let what = match what {
        content::DATA => Content::Data,
        content::HOLE => Content::Hole,
        _ => return Err(Nfsstat4::UnionNotSupp.into()),
    };
    let found = verbs::seek(&file, offset, what)?;
    let size = verbs::getattr(&file)?.size;
    let at = found.unwrap_or(size);
    reply.bool(at >= size);
    reply.u64(at);
    Ok(())
}

/// A hint is never an error: what is not followed is left out of the reply.
pub(super) fn io_advise<'f>(
    frame: &mut Frame<'f>,
    args: &mut Reader<'f>,
    reply: &mut Writer,
) -> Result<(), Failed> {
    let IoAdviseArgs { stateid, offset, count, hints } = args.get()?;
    let advised = hints.iter().filter(|hint| *hint < 32).fold(0, |bits, hint| bits | 1_u32 << hint);
    let advice = Advice::from_bits(advised);
    let followed = match file(frame, stateid, DataAccess::Read) {
        Ok(file) => verbs::advise(&file, offset, count, advice)?,
        // who may not read has no use for data in memory
        Err(Failed::As(Nfsstat4::OpenMode | Nfsstat4::Locked)) => Advice::default(),
        Err(failed) => return Err(failed),
    };
    let numbers = (0..32).filter(|hint| followed.bits() & 1 << hint != 0);
    reply.put(&numbers.fold(Bitmap4::NONE, |set, hint| set.or(&Bitmap4::of(&[hint]))));
    Ok(())
}
