//! LOOKUP (RFC 1813 §3.3.3).

use super::{arguments, attr, finish};
use crate::{Nfs, verbs};
use proto::nfs3::{Bytes, DirOpArgs3, LookupOk, Res};
use rpc::{Call, Fault};
use xdr::{Reader, Writer};

pub(super) fn lookup(
    nfs: &Nfs,
    call: &mut Call<'_>,
    args: &mut Reader<'_>,
    reply: &mut Writer,
) -> Result<(), Fault> {
    let a: DirOpArgs3<'_> = arguments(args)?;
    let found =
        nfs.on_walk_v3(call, a.dir.0, |caller, dir| verbs::lookup_crossing(caller, dir, a.name.0));
    let result = match &found {
        Ok((handle, found)) => Res::Ok(LookupOk {
            object: Bytes(handle.bytes()),
            attr: Some(attr::fattr3(&found.node.attr)),
            dir: Some(attr::fattr3(&found.dir)),
        }),
        Err(failed) => failed.post_op(),
    };
    finish(call, reply, &result)
}
