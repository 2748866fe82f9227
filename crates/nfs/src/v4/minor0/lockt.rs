//! LOCKT in version 4.0 (RFC 7530 §16.11).

use super::super::frame::Frame;
use super::super::lock::{current_file, done, manager, mode, range};
use super::super::status::Failed;
use super::lock_owner;
use crate::byte_range_locks::LockWanted;
use proto::nfs4::LocktArgs;
use state::Who;
use xdr::{Reader, Writer};

pub(super) fn lockt<'f>(
    frame: &mut Frame<'f>,
    args: &mut Reader<'f>,
    reply: &mut Writer,
) -> Result<(), Failed> {
    let a: LocktArgs<'f> = args.get()?;
    current_file(frame)?;
    let (range, mode) = (range(a.offset, a.length)?, mode(a.kind));
    let client = frame.v4().state.renewed_client(frame.now, a.owner.clientid)?;
    frame.named_client.set(Some(client.id()));
    // whoever writes may keep locks to itself
    let object = frame.object()?;
    frame.nfs.before_read(object, &object.fid, frame.client_id())?;
    let manager = manager(frame)?;
    let host = lock_owner::host(frame, &manager, &client)?;
    let who = Who::V4 { host, client: client.id(), owner: a.owner.owner.0 };
    let wanted = LockWanted { who, range, mode, reclaim: false, notify: None };
    let answer = manager.test(frame.caller.blocking(), frame.object()?.clone(), wanted);
    done(answer, reply)
}
