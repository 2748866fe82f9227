//! LOOKUP (RFC 1813 §3.3.3).

use super::{arguments, attr, finish, post_op};
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
    let seen = verbs::lookup(nfs, call, a.dir.0, a.name.0);
    let result = match &seen {
        Ok(seen) => Res::Ok(LookupOk {
            object: Bytes(seen.handle.bytes()),
            attr: Some(attr::fattr3(&seen.attr)),
            dir: Some(attr::fattr3(&seen.dir)),
        }),
        Err(failed) => post_op(failed),
    };
    finish(call, reply, &result)
}
