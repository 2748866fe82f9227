//! What a stateid gives the right to where no session says who uses it (RFC 7530 §9.1.4.3, §9.1.4.4), and DELEGRETURN.
//!
//! Nothing says that whoever uses a stateid has opened the file (§16.16.6): who has may do what the file was open for,
//! whatever its mode is now; anybody else is checked as if he had no open.

use super::super::frame::{Frame, stateid_of};
use super::super::stateids::{check_denied, opened_for};
use super::super::status::Failed;
use proto::nfs4::{Nfsstat4, Stateid4};
use state::v4::StateidError;
use state::{FileKey, ShareBits};
use vfs::Right;
use xdr::{Reader, Writer};

/// What gives the right to read or write a file, for a stateid that is not special.
pub(in super::super) fn data_right(
    frame: &Frame<'_>,
    stateid: Stateid4,
    (file, access): (&FileKey, ShareBits),
) -> Result<Right, Failed> {
    let (state, stateid) = (&frame.v4().state, stateid_of(stateid));
    match state.check_bearer(frame.now, frame.reading, stateid, file, access) {
        Ok(bearer) if bearer.user == Some(frame.principal) => Ok(opened_for(bearer.access)),
        Ok(_) => Ok(Right::Check),
        // clients read pages that they write in part (RFC 7530 §9.1.6)
        Err(StateidError::OpenMode) if access == ShareBits::READ => {
            check_denied(frame, file, access)?;
            Ok(Right::Check)
        }
        Err(error) => Err(error.into()),
    }
}

/// There are no delegations in version 4.0, so there is none of this stateid.
pub(super) fn delegreturn<'f>(
    frame: &mut Frame<'f>,
    args: &mut Reader<'f>,
    _: &mut Writer,
) -> Result<(), Failed> {
    let stateid: Stateid4 = args.get()?;
    let file = frame.file_key()?;
    data_right(frame, stateid, (&file, ShareBits::NONE))?;
    Err(Nfsstat4::BadStateid.into())
}
