//! COMMIT (RFC 8881 §18.3).

use super::frame::Frame;
use super::status::Failed;
use crate::verbs;
use proto::nfs4::CommitArgs;
use xdr::{Reader, Writer};

pub(super) fn commit<'f>(
    frame: &mut Frame<'f>,
    args: &mut Reader<'f>,
    reply: &mut Writer,
) -> Result<(), Failed> {
    let CommitArgs { offset, count } = args.get()?;
    let committed = verbs::commit(frame.object()?, offset, count.into())?;
    frame.fetched = committed.file.after;
    reply.put(&committed.verifier);
    Ok(())
}
