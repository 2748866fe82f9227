//! READ_PLUS (RFC 7862 §15.10): as READ, but holes are named instead of being sent.
//!
//! A reply is at most a hole and data, or data and a hole; the client asks again for the rest. Holes are looked for once per
//! position: if the file changes meanwhile the answer is data, which is correct whatever the file contains.

use super::frame::Frame;
use super::read;
use super::stateids::{self, DataAccess};
use super::status::Failed;
use crate::object::Object;
use crate::verbs::{self, ReadRequest};
use proto::nfs4::{ReadArgs, content};
use vfs::{Content, Status};
use xdr::{Reader, Writer};

/// Bytes before the contents: eof and how many there are.
const HEAD: usize = 8;
/// Bytes of data without the data: type, offset, length.
const DATA_HEAD: usize = 16;
/// Bytes of a hole.
const HOLE: usize = 20;

/// What a reply has so far.
struct Contents {
    count: u32,
    eof: bool,
}

pub(super) fn read_plus<'f>(
    frame: &mut Frame<'f>,
    args: &mut Reader<'f>,
    reply: &mut Writer,
) -> Result<(), Failed> {
    let ReadArgs { stateid, offset, count } = args.get()?;
    let right = stateids::data_right(frame, stateid, DataAccess::Read)?;
    let mut file = frame.object()?.clone();
    file.right = right;
    let most = frame.nfs.settings.read_max(frame.caller.peer().transport);
    let head = HEAD + DATA_HEAD + HOLE;
    let count = read::fit(frame, reply, head, count.min(most))? as u64;
    let start = reply.mark();
    reply.u32(0);
    let number = reply.mark();
    reply.u32(0);
    let contents = put_contents(frame, &file, offset, count, reply)?;
    reply.patch_u32(start, contents.eof.into());
    reply.patch_u32(number, contents.count);
    Ok(())
}

fn put_contents(
    frame: &mut Frame<'_>,
    file: &Object<'_>,
    offset: u64,
    count: u64,
    reply: &mut Writer,
) -> Result<Contents, Failed> {
    let stop = offset.saturating_add(count);
    let mut contents = Contents { count: 0, eof: false };
    let mut at = offset;
    if let Some(end) = hole_at(file, offset)? {
        put_hole(offset, end, &mut contents, reply);
        at = end;
    }
    let hole = next_hole(file, at)?.min(stop);
    if at < hole || contents.count == 0 {
        let eof = put_data(frame, file, (at, hole.saturating_sub(at)), &mut contents, reply)?;
        let asks = contents.count == 1 && !eof && hole < stop;
        let Some(end) = (if asks { hole_at(file, hole)? } else { None }) else {
            contents.eof = eof;
            return Ok(contents);
        };
        put_hole(hole, end, &mut contents, reply);
        at = end;
    }
    // the hole is the last, and the file may end with it
    contents.eof = stop.min(at) >= verbs::getattr(file)?.size;
    Ok(contents)
}

/// The end of the hole at an offset, if there is one; a file system that knows none has none.
fn hole_at(file: &Object<'_>, offset: u64) -> Result<Option<u64>, Status> {
    match file.backend().space() {
        Some(space) => space.hole_at(&file.cx(), &file.fid, offset),
        None => Ok(None),
    }
}

/// Where the next hole begins, or more than any file has.
fn next_hole(file: &Object<'_>, offset: u64) -> Result<u64, Status> {
    match verbs::seek(file, offset, Content::Hole) {
        Ok(hole) => Ok(hole.unwrap_or(u64::MAX)),
        Err(Status::NxIo | Status::NotSupp) => Ok(u64::MAX),
        Err(status) => Err(status),
    }
}

fn put_hole(from: u64, to: u64, contents: &mut Contents, reply: &mut Writer) {
    reply.u32(content::HOLE);
    reply.u64(from);
    reply.u64(to.saturating_sub(from));
    contents.count += 1;
}

/// Appends data, unless there is none; whether it ends with the file.
fn put_data(
    frame: &mut Frame<'_>,
    file: &Object<'_>,
    (offset, count): (u64, u64),
    contents: &mut Contents,
    reply: &mut Writer,
) -> Result<bool, Failed> {
    let range_min = if frame.is_cached() { None } else { reply.range_min() };
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    let request = ReadRequest { offset, count, range_min };
    let start = reply.mark();
    let head = |len: u32, _: bool, reply: &mut Writer| {
        reply.u32(content::DATA);
        reply.u64(offset);
        reply.u32(len);
    };
    let read = read::put_data(file, &request, DATA_HEAD, head, reply)?;
    read.account(frame);
    if read.done.count == 0 {
        reply.rewind(start);
    } else {
        contents.count += 1;
    }
    Ok(read.done.eof)
}
