//! WRITE (RFC 8881 §18.32). The data is borrowed from the record.

use super::arrived_write::ArrivedWrite;
use super::frame::Frame;
use super::stateids::{self, DataAccess};
use super::status::Failed;
use crate::verbs::{self, Written};
use proto::nfs4::{Nfsstat4, StableHow4, WriteArgs, WriteHead};
use vfs::{Stability, Status};
use xdr::{Reader, Writer};

pub(super) fn write<'f>(
    frame: &mut Frame<'f>,
    args: &mut Reader<'f>,
    reply: &mut Writer,
) -> Result<(), Failed> {
    if let Some(ahead) = frame.ahead.take() {
        return write_arrived(frame, ahead, args, reply);
    }
    let WriteArgs { stateid, offset, stable, data } = args.get()?;
    let right = stateids::data_right(frame, stateid, DataAccess::Write)?;
    let most = frame.nfs.settings.write_max(frame.caller.peer().transport) as usize;
    let data = data.0.get(..most).unwrap_or(data.0);
    let stable = stability(stable);
    let client = frame.client_id();
    let place = frame.current.as_mut().ok_or(Nfsstat4::NoFilehandle)?;
    place.object.right = right;
    let mut written = verbs::write(&place.object, offset, data, stable);
    // the client's own read delegation, of which it was told when it opened the file for writing, may be on its way back
    if matches!(written, Err(Status::Jukebox)) && frame.nfs.v4.state.any_delegations() {
        written = frame
            .nfs
            .before_own_change(&place.object, &place.object.fid, client)
            .and_then(|()| verbs::write(&place.object, offset, data, stable));
    }
    place.object.right = vfs::Right::Check;
    // the result is not moved for it
    if written.is_ok() {
        frame.nfs.after_change(&place.object, &place.object.fid, client)?;
    }
    put(frame, &written?, reply);
    Ok(())
}

/// Runs a WRITE of which data is in the file already. `args` stands at its arguments, and then at the next operation.
#[cold]
fn write_arrived<'f>(
    frame: &mut Frame<'f>,
    arrived: &ArrivedWrite<'f>,
    args: &mut Reader<'f>,
    reply: &mut Writer,
) -> Result<(), Failed> {
    let WriteHead { stateid, offset, stable, .. } = args.get()?;
    *args = Reader::new(arrived.behind);
    let right = stateids::data_right(frame, stateid, DataAccess::Write)?;
    let client = frame.client_id();
    let place = frame.current.as_mut().ok_or(Nfsstat4::NoFilehandle)?;
    place.object.right = right;
    let written = arrived.write_rest(&place.object, offset, stability(stable));
    place.object.right = vfs::Right::Check;
    let written = written?;
    frame.nfs.after_change(&place.object, &place.object.fid, client)?;
    put(frame, &written, reply);
    Ok(())
}

/// Appends the result.
#[inline]
fn put(frame: &mut Frame<'_>, written: &Written, reply: &mut Writer) {
    frame.fetched = written.done.file.after;
    let count = u32::try_from(written.done.count).unwrap_or(u32::MAX);
    let committed = match written.done.committed {
        Stability::Unstable => StableHow4::Unstable,
        Stability::DataSync => StableHow4::DataSync,
        Stability::FileSync => StableHow4::FileSync,
    };
    reply.words([count, committed.number()]);
    reply.put(&written.verifier);
    frame.bytes_written = frame.bytes_written.saturating_add(count);
}

const fn stability(how: StableHow4) -> Stability {
    match how {
        StableHow4::Unstable => Stability::Unstable,
        StableHow4::DataSync => Stability::DataSync,
        StableHow4::FileSync => Stability::FileSync,
    }
}
