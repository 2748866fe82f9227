//! DUMP (RFC 1813 §5.2.2): the mount list, as `showmount -a` prints it.

use super::Mount;
use crate::portmap::may_list;
use proto::mount::MountRow;
use rpc::{Call, Fault, Transport};
use xdr::{Reader, Writer};

/// The most bytes of a list over UDP, which is sent to this machine itself only ([`may_list`]): a
/// longer list is cut off after a whole entry, since the reply would not fit a datagram.
pub(super) const DATAGRAM_BYTES_MAX: usize = 8 << 10;
/// The most bytes of a list over TCP.
pub(super) const STREAM_BYTES_MAX: usize = 1 << 20;

/// The most bytes that a list may have for this caller.
pub(super) const fn list_bytes_max(call: &Call<'_>) -> usize {
    match call.peer.transport {
        Transport::Tcp => STREAM_BYTES_MAX,
        Transport::Udp => DATAGRAM_BYTES_MAX,
    }
}

/// DUMP.
pub(super) fn dump(
    state: &Mount,
    call: &mut Call<'_>,
    _: &mut Reader<'_>,
    reply: &mut Writer,
) -> Result<(), Fault> {
    if !may_list(call) {
        return Err(Fault::Silence);
    }
    let rows = state.mounted();
    let mut left = list_bytes_max(call);
    // newest first: the oldest are cut off
    for row in rows.iter().rev() {
        let row = MountRow { host: row.name.as_bytes(), path: row.path.as_bytes() };
        let Some(after) = left.checked_sub(row.wire_len()) else { break };
        left = after;
        reply.bool(true);
        reply.put(&row);
    }
    reply.bool(false);
    Ok(())
}
