//! SETATTR (RFC 8881 §18.30). A change of the size is a write, which the stateid must allow.

use super::acl::{self, PosixAcls};
use super::delegation;
use super::frame::Frame;
use super::minor0;
use super::settable_attrs;
use super::stateids::{self, DataAccess};
use super::status::Failed;
use crate::audited_call::AuditedCall;
use crate::object::Object;
use crate::verbs;
use proto::nfs4::{Nfsstat4, SetattrArgs};
use vfs::Status;
use vfs::acl4::Ace;
use xdr::{Reader, Writer};

pub(super) fn setattr<'f>(
    frame: &mut Frame<'f>,
    args: &mut Reader<'f>,
    reply: &mut Writer,
) -> Result<(), Failed> {
    let SetattrArgs { stateid, attrs } = args.get()?;
    if frame.minor == 0 {
        minor0::note_client(frame, stateid);
    }
    let object = frame.object()?;
    frame.nfs.before_change(object, &object.fid, frame.client_id())?;
    let wanted = settable_attrs::parse(frame, &attrs)?.of_existing()?;
    let mut set = wanted.set;
    if let Some(held) = wanted.held() {
        (set.atime, set.mtime) = delegation::times_to_set(frame, stateid, held)?;
    }
    let right = if set.size.is_some() {
        stateids::data_right(frame, stateid, DataAccess::Write)?
    } else {
        vfs::Right::Check
    };
    let (audit, client) = (AuditedCall::of_caller(frame.nfs, frame.caller), frame.client_id());
    let place = frame.current.as_mut().ok_or(Nfsstat4::NoFilehandle)?;
    // before anything is set
    let acls =
        wanted.acl.as_deref().map(|aces| prepare(&place.object, aces, set.uid)).transpose()?;
    // earlier times than the holder of a delegation may set are ignored (RFC 9754 §5)
    let only_held = wanted.held().is_some() && wanted.set.is_empty() && acls.is_none();
    let mut after = None;
    if acls.is_none() || !set.is_empty() {
        place.object.right = right;
        let object = &place.object;
        let changed = frame.nfs.change_by_holder(object, &object.fid, client, || {
            verbs::setattr(object, Ok(set), None, &audit)
        });
        // it is not made again, as in the other versions
        if set.size.is_some() && changed.is_ok() {
            let _recalled = frame.nfs.after_change(object, &object.fid, client);
        }
        place.object.right = vfs::Right::Check;
        after = match changed {
            Err(Status::Perm | Status::Acces) if only_held => None,
            changed => changed?.after,
        };
    }
    // after the mode, whose permission bits it replaces (RFC 8881 §6.4.1.3)
    if let Some(acls) = acls {
        acl::apply(&place.object, &acls)?;
        after = None;
    }
    frame.fetched = after;
    reply.put(&wanted.mask());
    frame.changed = true;
    Ok(())
}

/// An ACL that is to be set, of an object that may get another owner at the same time.
fn prepare(object: &Object<'_>, aces: &[Ace], owner: Option<u32>) -> Result<PosixAcls, Failed> {
    object.check_writable()?;
    let attr = verbs::getattr(object)?;
    acl::prepare(object, aces, owner.unwrap_or(attr.uid), attr.ftype)
}
