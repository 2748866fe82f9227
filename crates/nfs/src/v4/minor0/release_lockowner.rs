//! RELEASE_LOCKOWNER (RFC 7530 §16.37).

use super::super::frame::Frame;
use super::super::status::Failed;
use proto::nfs4::{Nfsstat4, ReleaseLockownerArgs};
use state::v4::ReleaseError;
use xdr::{Reader, Writer};

pub(super) fn release_lockowner<'f>(
    frame: &mut Frame<'f>,
    args: &mut Reader<'f>,
    _: &mut Writer,
) -> Result<(), Failed> {
    let ReleaseLockownerArgs { owner } = args.get()?;
    let owner = (owner.clientid, owner.owner.0);
    let (state, locks) = (&frame.v4().state, &frame.nfs.state);
    let holds = |file: &state::FileKey, who: &state::Who<'_>| locks.holds(file, who);
    state.release_lock_owner(frame.now, frame.reading, owner, holds).map_err(|error| match error {
        ReleaseError::Client(error) => error.into(),
        ReleaseError::LocksHeld => Nfsstat4::LocksHeld.into(),
    })
}
