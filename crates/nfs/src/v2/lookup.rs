//! LOOKUP (RFC 1094 §2.2.5).

use super::{attr, serve};
use crate::object::Caller;
use crate::{Nfs, verbs};
use proto::nfs2::{DirOpArgs2, DirOpOk2};
use rpc::{Call, Fault};
use vfs::Found;
use xdr::{Reader, Writer};

pub(super) fn lookup(
    nfs: &Nfs,
    call: &mut Call<'_>,
    args: &mut Reader<'_>,
    reply: &mut Writer,
) -> Result<(), Fault> {
    serve(nfs, call, args, reply, |nfs, call, a: DirOpArgs2<'_>| {
        let handle = nfs.long(&a.dir)?;
        let caller = Caller::new(&nfs.exports, call);
        let dir = caller.open(handle.bytes())?;
        nfs.before_read_of_name(&dir, a.name.0)?;
        let (found, Found { node, .. }) = verbs::lookup_crossing(&caller, &dir, a.name.0)?;
        Ok(DirOpOk2 { file: nfs.short(&found), attr: attr::fattr2(&node.attr) })
    })
}
