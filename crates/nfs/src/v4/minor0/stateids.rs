//! The rights of a stateid, which in version 4.0 comes without a session (RFC 7530 §9.1.4.3, §9.1.4.4), and the client that it
//! names.
//!
//! A stateid may be used by a user who has not opened the file (§16.16.6). The user who has may do what the file was
//! opened for, whatever its mode is now; any other is checked as without an open.

use super::super::delegation;
use super::super::frame::{Frame, stateid_of};
use super::super::stateids::{check_denied, opened_for};
use super::super::status::Failed;
use proto::nfs4::Stateid4;
use state::v4::{CallbackPath, NamedDelegation, OwnerTicket, Stateid, StateidError};
use state::{FileKey, ShareBits};
use vfs::Right;

/// The right to read or write a file by a stateid that is not special.
pub(in super::super) fn data_right(
    frame: &Frame<'_>,
    stateid: Stateid4,
    (file, access): (&FileKey, ShareBits),
) -> Result<Right, Failed> {
    note_client(frame, stateid);
    let state = &frame.v4().state;
    match state.check_access(frame.now, frame.reading, stateid_of(stateid), file, access) {
        Ok(granted) if granted.user == Some(frame.principal) => Ok(opened_for(granted.access)),
        Ok(_) => Ok(Right::Check),
        // clients read the pages of which they write a part (RFC 7530 §9.1.6)
        Err(StateidError::OpenMode) if access == ShareBits::READ => {
            check_denied(frame, file, access)?;
            Ok(Right::Check)
        }
        Err(StateidError::Bad) => delegation::right(frame, stateid, file, access),
        Err(error) => Err(error.into()),
    }
}

/// The client and the delegation that a stateid names.
pub(in super::super) fn delegation_of(
    frame: &Frame<'_>,
    stateid: Stateid,
    file: &FileKey,
) -> Result<(u64, NamedDelegation), StateidError> {
    let (state, now) = (&frame.v4().state, frame.nfs.clock.now());
    let named = state.delegation_of(now, frame.reading, (stateid, file))?;
    frame.named_client.set(Some(named.0));
    Ok(named)
}

/// Notes the client that a stateid belongs to: its own delegations are not in its way. Costs one load while there are none.
pub(in super::super) fn note_client(frame: &Frame<'_>, stateid: Stateid4) {
    if frame.v4().state.any_delegations()
        && let Some(client) = frame.reading.client_of(stateid_of(stateid))
    {
        frame.named_client.set(Some(client));
    }
}

/// Whether the client whose OPEN runs can be told to return a delegation: its owner is confirmed (RFC 7530 §9.1.11), and its
/// callback address answers. One that does not is tried again.
pub(in super::super) fn has_callbacks(frame: &Frame<'_>, ticket: &OwnerTicket) -> bool {
    let v4 = frame.v4();
    let Some(callback) = v4.state.callback_of(ticket.client_id()) else { return false };
    if callback.takes_recalls() {
        return ticket.is_confirmed();
    }
    if callback.path() == CallbackPath::Down {
        v4.callbacks.by_address.probe(callback);
    }
    false
}
