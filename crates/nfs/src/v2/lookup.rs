//! LOOKUP (RFC 1094 §2.2.5).

use super::{attr, serve};
use crate::{Nfs, verbs};
use proto::nfs2::{DirOpArgs2, DirOpOk2};
use rpc::{Call, Fault};
use xdr::{Reader, Writer};

pub(super) fn lookup(
    nfs: &Nfs,
    call: &mut Call<'_>,
    args: &mut Reader<'_>,
    reply: &mut Writer,
) -> Result<(), Fault> {
    serve(nfs, call, args, reply, |nfs, call, a: DirOpArgs2<'_>| {
        let seen = verbs::lookup(nfs, call, nfs.long(&a.dir)?.bytes(), a.name.0)?;
        Ok(DirOpOk2 { file: nfs.short(&seen.handle), attr: attr::fattr2(&seen.attr) })
    })
}
