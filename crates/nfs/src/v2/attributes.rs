//! GETATTR, SETATTR and STATFS (RFC 1094 §2.2.2, §2.2.3, §2.2.18).

use super::{attr, serve};
use crate::object::Object;
use crate::{Nfs, verbs};
use proto::nfs2::{Fattr2, Fh2, MAXDATA, SetattrArgs2, StatfsOk2};
use rpc::{Call, Fault};
use vfs::{Change, StatFs};
use xdr::{Reader, Writer};

pub(super) fn getattr(
    nfs: &Nfs,
    call: &mut Call<'_>,
    args: &mut Reader<'_>,
    reply: &mut Writer,
) -> Result<(), Fault> {
    serve(nfs, call, args, reply, |nfs, call, file: Fh2| {
        let found = nfs.on_object_v2(call, &file, verbs::getattr)?;
        Ok(attr::fattr2(&found))
    })
}

pub(super) fn setattr(
    nfs: &Nfs,
    call: &mut Call<'_>,
    args: &mut Reader<'_>,
    reply: &mut Writer,
) -> Result<(), Fault> {
    serve(nfs, call, args, reply, |nfs, call, a: SetattrArgs2| {
        nfs.on_object_v2(call, &a.file, |file| {
            let change = verbs::setattr(file, attr::set(&a.set), None)?;
            after(file, &change)
        })
    })
}

/// The attributes after a change. Version 2 has no way to leave them out: where the change did
/// not bring them, they are fetched.
pub(super) fn after(file: &Object<'_>, change: &Change) -> vfs::Result<Fattr2> {
    match &change.after {
        Some(after) => Ok(attr::fattr2(after)),
        None => Ok(attr::fattr2(&verbs::getattr(file)?)),
    }
}

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

/// Space in blocks, which are made as large as it takes for their number to fit a signed 32-bit
/// integer: that is what old clients count in.
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
