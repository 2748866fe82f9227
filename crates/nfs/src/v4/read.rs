//! READ (RFC 8881 §18.22). As in version 3 the data is a range of the file where the transport takes one, or is copied
//! into the reply in place. A reply that is kept holds no range.

use super::frame::Frame;
use super::stateids::{self, DataAccess};
use super::status::Failed;
use crate::object::Object;
use crate::verbs::{self, ReadData, ReadRequest};
use proto::nfs4::ReadArgs;
use rpc::Copied;
use vfs::ReadDone;
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
    let count = fit(frame, reply, HEAD, count.min(most))?;
    let range_min = if frame.is_cached() { None } else { reply.range_min() };
    let request = ReadRequest { offset, count, range_min };
    let place = frame.current.as_mut().ok_or(proto::nfs4::Nfsstat4::NoFilehandle)?;
    place.object.right = right;
    let head = |len, eof, reply: &mut Writer| reply.words([u32::from(eof), len]);
    let read = put_data(&place.object, &request, HEAD, head, reply);
    place.object.right = vfs::Right::Check;
    read?.account(frame);
    Ok(())
}

/// Data that was appended to a reply.
pub(super) struct PutData {
    pub done: ReadDone,
    /// Why it was copied; `None` if the file itself is in the reply.
    copied: Option<Copied>,
}

impl PutData {
    /// Counts it.
    pub fn account(&self, frame: &mut Frame<'_>) {
        match self.copied {
            None => frame.range_bytes = frame.range_bytes.saturating_add(self.done.count),
            copied => frame.copied = copied,
        }
        let count = u32::try_from(self.done.count).unwrap_or(u32::MAX);
        frame.bytes_read = frame.bytes_read.saturating_add(count);
    }
}

/// Appends what `head` makes of the length and of whether the file ends there, which has `head_bytes`, and then the data.
#[inline]
pub(super) fn put_data(
    file: &Object<'_>,
    request: &ReadRequest,
    head_bytes: usize,
    head: impl FnOnce(u32, bool, &mut Writer),
    reply: &mut Writer,
) -> vfs::Result<PutData> {
    let start = reply.mark();
    reply.space(head_bytes);
    reply.advance(head_bytes);
    let read = verbs::read(file, request, |count| reply.try_space(count))?;
    reply.rewind(start);
    let done = read.done;
    head(u32::try_from(done.count).unwrap_or(u32::MAX), done.eof, reply);
    let copied = match read.data {
        ReadData::File(file) => {
            reply.range(FileRange { file, offset: request.offset, len: done.count });
            None
        }
        ReadData::Copied(why) => {
            reply.advance(done.count);
            Some(why)
        }
    };
    reply.pad(done.count);
    Ok(PutData { done, copied })
}

/// How many bytes of data the reply has room for behind `head` bytes; a reply that is to be kept has all or none.
pub(super) fn fit(
    frame: &Frame<'_>,
    reply: &Writer,
    head: usize,
    count: u32,
) -> Result<usize, Failed> {
    let (room, too_big) = frame.room(reply);
    let room = room.saturating_sub(head) & !3;
    let count = count as usize;
    if count <= room {
        return Ok(count);
    }
    if frame.is_cached() || room == 0 { Err(too_big.into()) } else { Ok(room) }
}
