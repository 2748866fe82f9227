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
    // one directory is changed once
    let same = from.fid == to.fid && from.export_id() == to.export_id();
    let mut source = if same { None } else { Some(frame.nfs.begin_entry_change(from, client)?) };
    let mut target = frame.nfs.begin_entry_change(to, client)?;
    let audit = AuditedCall::of_caller(frame.nfs, frame.caller);
    let renamed = verbs::rename((from, old.0), (to, new.0), &audit)?;
    let left =
        source.as_mut().unwrap_or(&mut target).made(&renamed.from, change_info(&renamed.from));
    reply.put(&left);
    reply.put(&target.made(&renamed.to, change_info(&renamed.to)));
    drop((source, target));
    frame.changed = true;
    Ok(())
}
