//! What a stateid gives the right to (RFC 8881 §8.2), and TEST_STATEID and FREE_STATEID (§18.48, §18.38).

use super::delegation;
use super::frame::{CurrentObject, Frame, file_key, stateid_of};
use super::minor0;
use super::status::Failed;
use crate::object::Object;
use crate::share_denial::AccessDenied;
use proto::nfs4::{FreeStateidArgs, Nfsstat4, Stateid4, TestStateidArgs};
use state::v4::StateidError;
use state::{FileKey, ShareBits};
use vfs::{OpenAccess, Right};
use xdr::{Reader, Writer};

/// What is to be done with a file's data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DataAccess {
    Read,
    Write,
}

/// What gives the right to read or write the current file: its permissions for a special stateid, the open for any other.
///
/// # Errors
/// NFS4ERR_LOCKED if somebody denies what a special stateid is used for; those of a stateid that is not good.
pub(super) fn data_right(
    frame: &Frame<'_>,
    argument: Stateid4,
    access: DataAccess,
) -> Result<Right, Failed> {
    let place = frame.current.as_ref().ok_or(Nfsstat4::NoFilehandle)?;
    right_at(frame, place, argument, access)
}

/// The same of the file of any filehandle; the current stateid is the one that goes with it.
pub(super) fn right_at(
    frame: &Frame<'_>,
    place: &CurrentObject<'_>,
    argument: Stateid4,
    access: DataAccess,
) -> Result<Right, Failed> {
    let object = &place.object;
    let file = file_key(object.export().id.0, &object.fid).ok_or(Nfsstat4::ServerFault)?;
    let stateid = match argument {
        // there is none in version 4.0
        Stateid4::CURRENT if frame.minor > 0 => place.stateid.ok_or(Nfsstat4::BadStateid)?,
        named => named,
    };
    let bits = match access {
        DataAccess::Read => ShareBits::READ,
        DataAccess::Write => ShareBits::WRITE,
    };
    match stateid {
        Stateid4::ANONYMOUS | Stateid4::BYPASS => {
            // reads what is locked or denied as well
            if stateid != Stateid4::BYPASS || access != DataAccess::Read {
                check_denied(frame, &file, bits)?;
            }
            before_delegated(frame, object, access)?;
            return Ok(Right::Check);
        }
        _ if frame.minor == 0 => return minor0::data_right(frame, stateid, (&file, bits)),
        _ => {}
    }
    let client = frame.session()?.client_id();
    match frame.reading.check_access(client, stateid_of(stateid), &file, bits) {
        // who has opened the file may do what it was open for, whatever its mode is now; others are checked
        Ok(granted) if granted.user == Some(frame.principal) => Ok(opened_for(granted.access)),
        Ok(_) => Ok(Right::Check),
        Err(StateidError::Bad) => delegation::right(frame, stateid, &file, bits),
        Err(error) => Err(error.into()),
    }
}

/// Has delegations of other clients recalled before data is read or written without an open.
fn before_delegated(
    frame: &Frame<'_>,
    object: &Object<'_>,
    access: DataAccess,
) -> Result<(), Failed> {
    let client = frame.client_id();
    match access {
        DataAccess::Read => frame.nfs.before_read(object, &object.fid, client)?,
        DataAccess::Write => frame.nfs.before_change(object, &object.fid, client)?,
    }
    Ok(())
}

/// The right of an open.
pub(super) const fn opened_for(granted: ShareBits) -> Right {
    Right::Opened(match granted {
        ShareBits::READ => OpenAccess::READ,
        ShareBits::WRITE => OpenAccess::WRITE,
        _ => OpenAccess::BOTH,
    })
}

/// Refuses what gives no right of its own and somebody denies, by an open or by NLM's SHARE.
pub(super) fn check_denied(
    frame: &Frame<'_>,
    file: &FileKey,
    access: ShareBits,
) -> Result<(), Failed> {
    if !frame.nfs.state.has_denials() {
        return Ok(());
    }
    let checked = frame.nfs.check_denied(frame.caller.blocking(), (file, access), None);
    checked.map_err(|denied| match denied {
        AccessDenied::Reserved => Nfsstat4::Locked.into(),
        AccessDenied::Later => Nfsstat4::Delay.into(),
    })
}

pub(super) fn test_stateid<'f>(
    frame: &mut Frame<'f>,
    args: &mut Reader<'f>,
    reply: &mut Writer,
) -> Result<(), Failed> {
    let stateids: TestStateidArgs<'_> = args.get()?;
    let session = frame.session()?;
    let client = session.client_id();
    let (room, too_big) = frame.room(reply);
    if room / 4 <= stateids.count() {
        return Err(too_big.into());
    }
    session.note_search(frame.now, frame.v4().state.lease_ms());
    reply.u32(u32::try_from(stateids.count()).unwrap_or(u32::MAX));
    for stateid in stateids.iter() {
        let status = match frame.reading.test(client, stateid_of(stateid)) {
            Ok(()) => Nfsstat4::Ok,
            Err(StateidError::Old) => Nfsstat4::OldStateid,
            Err(StateidError::DelegationRevoked) => Nfsstat4::DelegRevoked,
            Err(StateidError::Revoked) => Nfsstat4::AdminRevoked,
            Err(_) => Nfsstat4::BadStateid,
        };
        reply.u32(status.number());
    }
    Ok(())
}

/// Frees a stateid without locks; an open is closed, not freed.
pub(super) fn free_stateid<'f>(
    frame: &mut Frame<'f>,
    args: &mut Reader<'f>,
    _: &mut Writer,
) -> Result<(), Failed> {
    let FreeStateidArgs { stateid } = args.get()?;
    let stateid = frame.named_stateid(stateid)?;
    let client = frame.session()?.client_id();
    let stateid = stateid_of(stateid);
    if frame.v4().state.free_revoked(frame.session()?, &stateid.other) {
        frame.changed = true;
        return Ok(());
    }
    if let Ok(lock) = frame.reading.find_lock(client, stateid) {
        if frame.nfs.state.holds(lock.file(), &lock.who()) {
            return Err(Nfsstat4::LocksHeld.into());
        }
        frame.v4().state.free_lock(frame.reading, lock);
        frame.changed = true;
        return Ok(());
    }
    frame.reading.test(client, stateid)?;
    Err(Nfsstat4::LocksHeld.into())
}
