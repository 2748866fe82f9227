//! OFFLOAD_STATUS and OFFLOAD_CANCEL (RFC 7862 §15.8, §15.9) of copies that go on after COPY was answered.

use super::copies::{Cancelled, Progress};
use super::frame::{Frame, stateid_of};
use super::status::Failed;
use proto::nfs4::{Nfsstat4, Stateid4};
use state::FileKey;
use state::v4::Stateid;
use xdr::{Reader, Writer};

/// The client's name of a copy, and its target: the current filehandle is a part of the name, so that without it, or with
/// another, there is no such copy.
fn copy_of(frame: &Frame<'_>, stateid: Stateid4) -> Result<((u64, Stateid), FileKey), Failed> {
    let client = frame.session()?.client_id();
    let file = frame.file_key().map_err(|_| Nfsstat4::BadStateid)?;
    Ok(((client, stateid_of(stateid)), file))
}

pub(super) fn status<'f>(
    frame: &mut Frame<'f>,
    args: &mut Reader<'f>,
    reply: &mut Writer,
) -> Result<(), Failed> {
    let (name, file) = copy_of(frame, args.get()?)?;
    let found = frame.v4().copies.progress(name, &file);
    let Progress { copied, status } = found.ok_or(Nfsstat4::BadStateid)?;
    reply.u64(copied);
    // osr_complete
    match status {
        None => reply.u32(0),
        Some(status) => reply.words([1, status.number()]),
    }
    Ok(())
}

pub(super) fn cancel<'f>(
    frame: &mut Frame<'f>,
    args: &mut Reader<'f>,
    _: &mut Writer,
) -> Result<(), Failed> {
    let (name, file) = copy_of(frame, args.get()?)?;
    let by = (&file, frame.principal);
    match frame.v4().copies.cancel(name, by, frame.caller.blocking()) {
        Cancelled::Yes => {
            frame.changed = true;
            Ok(())
        }
        Cancelled::Soon => Err(Nfsstat4::Delay.into()),
        Cancelled::NoSuchCopy => Err(Nfsstat4::BadStateid.into()),
    }
}
