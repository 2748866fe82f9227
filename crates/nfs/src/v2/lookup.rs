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
        nfs.on_object_v2(call, &a.dir, |dir| {
            let node = verbs::lookup(dir, a.name.0)?.node;
            Ok(DirOpOk2 { file: nfs.short(&dir.seal(&node.fid)), attr: attr::fattr2(&node.attr) })
        })
    })
}
