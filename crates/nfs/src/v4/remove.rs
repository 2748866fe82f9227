//! REMOVE (RFC 8881 §18.25): of a file or of an empty directory.

use super::attr::change_info;
use super::frame::Frame;
use super::name;
use super::status::Failed;
use crate::audited_call::AuditedCall;
use crate::verbs;
use proto::nfs4::RemoveArgs;
use vfs::Status;
use xdr::{Reader, Writer};

pub(super) fn remove<'f>(
    frame: &mut Frame<'f>,
    args: &mut Reader<'f>,
    reply: &mut Writer,
) -> Result<(), Failed> {
    let RemoveArgs { name } = args.get()?;
    let dir = frame.object()?;
    name::check(name.0, frame.object()?)?;
    frame.nfs.before_change_of_name(dir, name.0, frame.client_id())?;
    let mut entry = frame.nfs.begin_entry_change(dir, frame.client_id())?;
    let audit = AuditedCall::of_caller(frame.nfs, frame.caller);
    let removed = match verbs::remove(dir, name.0, &audit) {
        Err(Status::IsDir) => verbs::rmdir(dir, name.0, &audit),
        removed => removed,
    };
    let removed = removed?;
    reply.put(&entry.made(&removed, change_info(&removed)));
    drop(entry);
    frame.changed = true;
    Ok(())
}
