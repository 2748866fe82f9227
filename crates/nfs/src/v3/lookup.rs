//! LOOKUP (RFC 1813 §3.3.3).

use super::{arguments, attr, finish};
use crate::junction::Crossing;
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
    let found = nfs.on_walk_v3(call, a.dir.0, |caller, dir| {
        if let Some(inner) = caller.junction(dir, a.name.0, Crossing::Marked)? {
            return verbs::lookup_root(caller, dir, inner);
        }
        let found = verbs::lookup(dir, a.name.0)?;
        Ok((dir.seal(&found.node.fid), found))
    });
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
