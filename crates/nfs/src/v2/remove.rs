//! REMOVE, RENAME and RMDIR (RFC 1094 §2.2.11, §2.2.12, §2.2.16).

use super::serve;
use crate::{Nfs, verbs};
use proto::nfs2::{DirOpArgs2, RenameArgs2};
use proto::nfs3::NoBody;
use rpc::{Call, Fault};
use xdr::{Reader, Writer};

pub(super) fn remove(
    nfs: &Nfs,
    call: &mut Call<'_>,
    args: &mut Reader<'_>,
    reply: &mut Writer,
) -> Result<(), Fault> {
    serve(nfs, call, args, reply, |nfs, call, a: DirOpArgs2<'_>| {
        nfs.on_object_v2(call, &a.dir, |dir| verbs::remove(dir, a.name.0))?;
        Ok(NoBody)
    })
}

pub(super) fn rmdir(
    nfs: &Nfs,
    call: &mut Call<'_>,
    args: &mut Reader<'_>,
    reply: &mut Writer,
) -> Result<(), Fault> {
    serve(nfs, call, args, reply, |nfs, call, a: DirOpArgs2<'_>| {
        nfs.on_object_v2(call, &a.dir, |dir| verbs::rmdir(dir, a.name.0))?;
        Ok(NoBody)
    })
}

pub(super) fn rename(
    nfs: &Nfs,
    call: &mut Call<'_>,
    args: &mut Reader<'_>,
    reply: &mut Writer,
) -> Result<(), Fault> {
    serve(nfs, call, args, reply, |nfs, call, a: RenameArgs2<'_>| {
        nfs.on_two_objects_v2(call, (&a.from.dir, &a.to.dir), |from, to| {
            verbs::rename((from, a.from.name.0), (to, a.to.name.0))?;
            Ok(NoBody)
        })
    })
}
