//! GET_DIR_DELEGATION (RFC 8881 §18.39).
//!
//! A delegation of a directory is granted if its back end can hold everybody back from changing it, local programs included. It
//! comes without notifications (CB_NOTIFY): any change has it recalled. Attributes of entries are not covered. Who gets none is
//! told so by GDD4_UNAVAIL, and that the server will not signal when there is one.
//!
//! A directory that was changed a moment ago is likely to be changed again, as while a tree is unpacked: none is granted
//! until it has been at rest for [`REST_S`].

use super::delegation::hold_back;
use super::frame::{Frame, wire_stateid};
use super::status::Failed;
use crate::delegated_attrs::wall_clock;
use crate::verbs;
use export::Delegate;
use proto::nfs4::{Bitmap4, GetDirDelegationArgs, Nfsstat4};
use state::ShareBits;
use state::v4::{
    DelegationKind, DelegationRequest, GrantedAttrs, NotDelegated, Stateid, StateidAccess,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use vfs::{Attr, FileType, Time};
use xdr::{Reader, Writer};

/// Seconds since a directory's last change before it is delegated.
const REST_S: u64 = 2;

/// `gddrnf4_status`.
const GDD4_OK: u32 = 0;
const GDD4_UNAVAIL: u32 = 1;

/// Bytes of the longest result.
pub(super) const RESULT_BYTES: u32 = 4 + 8 + 16 + 3 * 4;

pub(super) fn get_dir_delegation<'f>(
    frame: &mut Frame<'f>,
    args: &mut Reader<'f>,
    reply: &mut Writer,
) -> Result<(), Failed> {
    let _asked: GetDirDelegationArgs = args.get()?;
    let attr = verbs::getattr(frame.object()?)?;
    if attr.ftype != FileType::Directory {
        return Err(Nfsstat4::NotDir.into());
    }
    match grant(frame, &attr) {
        Ok(stateid) => {
            frame.changed = true;
            frame.set_stateid(wire_stateid(stateid));
            reply.u32(GDD4_OK);
            // the verifier of cookies, as in READDIR
            reply.u64(0);
            reply.put(&wire_stateid(stateid));
            (0..3).for_each(|_| reply.put(&Bitmap4::NONE));
        }
        Err(_) => {
            frame.fetched = Some(attr);
            reply.u32(GDD4_UNAVAIL);
            reply.bool(false);
        }
    }
    Ok(())
}

/// Gives the session's client a delegation of the current directory.
fn grant(frame: &Frame<'_>, attr: &Attr) -> Result<Stateid, NotDelegated> {
    let resource = |_| NotDelegated::Resource;
    let (nfs, session) = (frame.nfs, frame.session().map_err(resource)?);
    let client = frame.client().map_err(resource)?;
    let dir = frame.object().map_err(resource)?;
    let given = dir.delegations().unwrap_or_else(|| nfs.settings.delegations());
    let can = dir.backend().leases().is_some_and(vfs::Leases::holds_directories);
    if given == Delegate::Off || !can || !session.has_callbacks() {
        return Err(NotDelegated::Resource);
    }
    if !is_at_rest(attr.mtime, wall_clock()) {
        return Err(NotDelegated::Contention);
    }
    let key = frame.file_key().map_err(resource)?;
    let (state, kind) = (&frame.v4().state, DelegationKind::Directory);
    let disturbed = Arc::new(AtomicBool::new(false));
    let guard = match state.may_delegate(frame.now, client, kind, &key)? {
        true => Some(hold_back(frame, dir, (kind, key), &disturbed)?),
        false => None,
    };
    let handle = dir.seal(&dir.fid);
    let request = DelegationRequest {
        kind,
        file: &key,
        handle: handle.bytes(),
        opened: StateidAccess { access: ShareBits::NONE, user: Some(frame.principal) },
        attrs: GrantedAttrs::default(),
        pending: None,
    };
    let stateid = state.delegate(frame.now, client, &request, guard)?;
    nfs.delegations.note_granted();
    if state.delegations_are_scarce() {
        nfs.delegations.note_scarce();
    }
    // whoever came before it was in the table has not found it
    if disturbed.load(SeqCst) {
        nfs.disturb(key);
    }
    Ok(stateid)
}

/// Whether something that was last changed then is at rest now; a time in the future is as good as one in the past.
const fn is_at_rest(changed: Time, now: Time) -> bool {
    changed.sec.abs_diff(now.sec) > REST_S
}

#[cfg(test)]
mod tests {
    use super::is_at_rest;
    use vfs::Time;

    #[test]
    fn what_was_changed_a_moment_ago_is_not_at_rest() {
        let at = |sec| Time { sec, nsec: 0 };
        let rests = |changed| is_at_rest(at(changed), at(100));
        assert_eq!([90, 97, 98, 100, 102, 103].map(rests), [true, true, false, false, false, true]);
    }
}
