//! A client of version 4.0 in the table of locks.

use super::super::frame::Frame;
use super::super::lock::add_client;
use super::super::status::Failed;
use crate::byte_range_locks::ByteRangeLocks;
use proto::nfs4::Nfsstat4;
use state::HostId;
use state::v4::Minor0Client;
use std::sync::Arc;

/// The client as a host of the table of locks.
///
/// # Errors
/// NFS4ERR_DELAY: it has just been removed.
pub(super) fn host(
    frame: &Frame<'_>,
    manager: &Arc<dyn ByteRangeLocks>,
    client: &Minor0Client,
) -> Result<HostId, Failed> {
    let host = client.lock_host(|client, name| add_client(frame, manager, client, name));
    host.ok_or_else(|| Nfsstat4::Delay.into())
}
