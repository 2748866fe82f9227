//! RENAME (RFC 8881 §18.26): from the saved filehandle to the current one.

use super::attr::change_info;
use super::frame::Frame;
use super::name;
use super::status::Failed;
use crate::audited_call::AuditedCall;
use crate::verbs;
use proto::nfs4::RenameArgs;
use xdr::{Reader, Writer};

pub(super) fn rename<'f>(
    frame: &mut Frame<'f>,
    args: &mut Reader<'f>,
    reply: &mut Writer,
) -> Result<(), Failed> {
    let RenameArgs { old, new } = args.get()?;
    let (from, to) = (frame.saved_object()?, frame.object()?);
    name::check(old.0, from)?;
    name::check(new.0, to)?;
    let client = frame.client_id();
    frame.nfs.before_change_of_name(from, old.0, client)?;
    frame.nfs.before_change_of_name(to, new.0, client)?;
    let audit = AuditedCall::of_caller(frame.nfs, frame.caller);
    let renamed = verbs::rename((from, old.0), (to, new.0), &audit)?;
    reply.put(&change_info(&renamed.from));
    reply.put(&change_info(&renamed.to));
    frame.changed = true;
    Ok(())
}
