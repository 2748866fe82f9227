//! The rights of a stateid, which in version 4.0 comes without a session (RFC 7530 §9.1.4.3, §9.1.4.4), and DELEGRETURN.
//!
//! A stateid may be used by a user who has not opened the file (§16.16.6). The user who has may do what the file was
//! opened for, whatever its mode is now; any other is checked as without an open.

use super::super::frame::{Frame, stateid_of};
use super::super::stateids::{check_denied, opened_for};
use super::super::status::Failed;
use proto::nfs4::{Nfsstat4, Stateid4};
use state::v4::StateidError;
use state::{FileKey, ShareBits};
use vfs::Right;
use xdr::{Reader, Writer};

/// The right to read or write a file by a stateid that is not special.
pub(in super::super) fn data_right(
    frame: &Frame<'_>,
    stateid: Stateid4,
    (file, access): (&FileKey, ShareBits),
) -> Result<Right, Failed> {
    let (state, stateid) = (&frame.v4().state, stateid_of(stateid));
    match state.check_access(frame.now, frame.reading, stateid, file, access) {
        Ok(granted) if granted.user == Some(frame.principal) => Ok(opened_for(granted.access)),
        Ok(_) => Ok(Right::Check),
        // clients read the pages of which they write a part (RFC 7530 §9.1.6)
        Err(StateidError::OpenMode) if access == ShareBits::READ => {
            check_denied(frame, file, access)?;
            Ok(Right::Check)
        }
        Err(error) => Err(error.into()),
    }
}

/// No stateid is that of a delegation, because none is granted in version 4.0.
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
