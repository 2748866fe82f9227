//! STATFS (RFC 1094 §2.2.18).

use super::{attr, serve};
use crate::{Nfs, verbs};
use proto::nfs2::{Fh2, MAXDATA, StatfsOk2};
use rpc::{Call, Fault};
use vfs::StatFs;
use xdr::{Reader, Writer};

pub(super) fn statfs(
    nfs: &Nfs,
    call: &mut Call<'_>,
    args: &mut Reader<'_>,
    reply: &mut Writer,
) -> Result<(), Fault> {
    serve(nfs, call, args, reply, |nfs, call, root: Fh2| {
        Ok(blocks(&nfs.on_object_v2(call, &root, verbs::fsstat)?))
    })
}

/// Space in blocks. The block size grows until the number of blocks fits a signed 32-bit integer,
/// which old clients use.
fn blocks(space: &StatFs) -> StatfsOk2 {
    let mut shift = 12u32;
    while space.total_bytes >> shift > 0x7fff_ffff && shift < 30 {
        shift = shift.saturating_add(1);
    }
    let count = |bytes: u64| attr::clamp(bytes >> shift);
    StatfsOk2 {
        tsize: attr::clamp(MAXDATA as u64),
        bsize: 1 << shift,
        blocks: count(space.total_bytes),
        bfree: count(space.free_bytes),
        bavail: count(space.avail_bytes),
    }
}
