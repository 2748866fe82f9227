//! LOCK of a client that has a write delegation of the file, and so keeps locks to itself (RFC 8881 §10.4).
//!
//! Before it returns the delegation, such a client locks at the server what its programs hold, without waiting. But a request
//! for a lock may also have been on its way when the delegation was granted. Were it granted, two programs of the client could
//! hold the same bytes: one by the server, the other by the delegation. Linux finds that out when the answer comes, and the
//! holder by the delegation then cannot have his lock at the server: it is lost. Older versions (6.1.176 is one) send LOCK again
//! without a pause, and the delegation is never returned. So the client is told to come back: by then it knows of the
//! delegation, and decides for itself.

use super::frame::Frame;
use super::status::Failed;
use proto::nfs4::Nfsstat4;
use state::FileKey;

/// How long after the grant a request may come that was sent before its answer arrived.
const ON_ITS_WAY_MS: u64 = 1000;

/// Whether a lock that was just granted was asked for without knowing of the delegation. It is to be given back then, if its
/// owner held none of it before.
///
/// # Errors
/// NFS4ERR_DELAY.
pub(super) fn check_known(
    frame: &Frame<'_>,
    file: &FileKey,
    client: u64,
    waits: bool,
) -> Result<(), Failed> {
    let state = &frame.v4().state;
    if !state.any_write_delegations() {
        return Ok(());
    }
    // who grants one from now on finds the lock in the table, and takes it back
    match state.write_delegation_of(frame.nfs.clock.now(), file, client) {
        Some(own) if own.age_ms < ON_ITS_WAY_MS && (waits || !own.is_recalled) => {
            Err(Nfsstat4::Delay.into())
        }
        _ => Ok(()),
    }
}

/// Whether the client has a write delegation of a file of which an owner asks, by the stateid of his open, for bytes that he
/// holds: it did not take the answer that granted them for a lock, as another of its programs holds them by the delegation.
/// Given back, they can be locked for that program, and the delegation can be returned. Nobody else gets them before.
///
/// # Errors
/// NFS4ERR_DELAY.
pub(super) fn check_taken(frame: &Frame<'_>, file: &FileKey, client: u64) -> Result<(), Failed> {
    let state = &frame.v4().state;
    let is_writing = state.any_write_delegations() && state.is_writing(file, client);
    if is_writing { Err(Nfsstat4::Delay.into()) } else { Ok(()) }
}
