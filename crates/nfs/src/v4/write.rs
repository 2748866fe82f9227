//! WRITE (RFC 8881 §18.32). The data is borrowed from the record.

use super::frame::Frame;
use super::stateids::{self, DataAccess};
use super::status::Failed;
use crate::verbs;
use proto::nfs4::{Nfsstat4, StableHow4, WriteArgs};
use vfs::{Stability, Status};
use xdr::{Reader, Writer};

pub(super) fn write<'f>(
    frame: &mut Frame<'f>,
    args: &mut Reader<'f>,
    reply: &mut Writer,
) -> Result<(), Failed> {
    let WriteArgs { stateid, offset, stable, data } = args.get()?;
    let right = stateids::data_right(frame, stateid, DataAccess::Write)?;
    let most = frame.nfs.settings.write_max(frame.caller.peer().transport) as usize;
    let data = data.0.get(..most).unwrap_or(data.0);
    let stable = match stable {
        StableHow4::Unstable => Stability::Unstable,
        StableHow4::DataSync => Stability::DataSync,
        StableHow4::FileSync => Stability::FileSync,
    };
    let place = frame.current.as_mut().ok_or(Nfsstat4::NoFilehandle)?;
    place.object.right = right;
    let mut written = verbs::write(&place.object, offset, data, stable);
    // the client's own delegation, of which it was told when it opened the file for writing, may be on its way back
    if matches!(written, Err(Status::Jukebox)) && frame.nfs.v4.state.any_delegations() {
        written = frame
            .nfs
            .before_change(&place.object, &place.object.fid, None)
            .and_then(|()| verbs::write(&place.object, offset, data, stable));
    }
    place.object.right = vfs::Right::Check;
    let written = written?;
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
    Ok(())
}
