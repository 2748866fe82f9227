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
        verbs::remove(nfs, call, nfs.long(&a.dir)?.bytes(), a.name.0)?;
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
        verbs::rmdir(nfs, call, nfs.long(&a.dir)?.bytes(), a.name.0)?;
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
        let (from, to) = (nfs.long(&a.from.dir)?, nfs.long(&a.to.dir)?);
        let (old, new) = ((from.bytes(), a.from.name.0), (to.bytes(), a.to.name.0));
        verbs::rename(nfs, call, old, new)?;
        Ok(NoBody)
    })
}
