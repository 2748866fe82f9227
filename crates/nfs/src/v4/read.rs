//! READ (RFC 8881 §18.22). As in version 3 the data is a range of the file where the transport takes one, or is copied
//! into the reply in place. A reply that is kept holds no range.

use super::frame::Frame;
use super::stateids::{self, DataAccess};
use super::status::Failed;
use crate::verbs::{self, ReadData, ReadRequest};
use proto::nfs4::ReadArgs;
use xdr::{FileRange, Reader, Writer};

/// What comes before the data: eof and the data's length.
const HEAD: usize = 4 + 4;

pub(super) fn read<'f>(
    frame: &mut Frame<'f>,
    args: &mut Reader<'f>,
    reply: &mut Writer,
) -> Result<(), Failed> {
    let ReadArgs { stateid, offset, count } = args.get()?;
    let right = stateids::data_right(frame, stateid, DataAccess::Read)?;
    let most = frame.nfs.settings.read_max(frame.caller.peer().transport);
    let count = fit(frame, reply, count.min(most))?;
    let range_min = if frame.is_cached() { None } else { reply.range_min() };
    let request = ReadRequest { offset, count, range_min };
    let start = reply.mark();
    reply.space(HEAD);
    reply.advance(HEAD);
    let place = frame.current.as_mut().ok_or(proto::nfs4::Nfsstat4::NoFilehandle)?;
    place.object.right = right;
    let read = verbs::read(&place.object, &request, |count| reply.try_space(count));
    place.object.right = vfs::Right::Check;
    let read = read?;
    reply.rewind(start);
    let count = u32::try_from(read.done.count).unwrap_or(u32::MAX);
    reply.words([u32::from(read.done.eof), count]);
    match read.data {
        ReadData::File(file) => {
            reply.range(FileRange { file, offset, len: read.done.count });
            frame.range_bytes = frame.range_bytes.saturating_add(read.done.count);
        }
        ReadData::Copied(why) => {
            reply.advance(read.done.count);
            frame.copied = Some(why);
        }
    }
    reply.pad(read.done.count);
    frame.bytes_read = frame.bytes_read.saturating_add(count);
    Ok(())
}

/// How many bytes of data the reply has room for; a reply that is to be kept has all or none.
fn fit(frame: &Frame<'_>, reply: &Writer, count: u32) -> Result<usize, Failed> {
    let (room, too_big) = frame.room(reply);
    let room = room.saturating_sub(HEAD) & !3;
    let count = count as usize;
    if count <= room {
        return Ok(count);
    }
    if frame.is_cached() || room == 0 { Err(too_big.into()) } else { Ok(room) }
}
