//! GETATTR (RFC 1813 §3.3.1).

use super::{arguments, attr, finish, nfsstat3};
use crate::{Nfs, verbs};
use proto::nfs3::{Fh, NoBody, Res};
use rpc::{Call, Fault};
use xdr::{Reader, Writer};

pub(super) fn getattr(
    nfs: &Nfs,
    call: &mut Call<'_>,
    args: &mut Reader<'_>,
    reply: &mut Writer,
) -> Result<(), Fault> {
    let object: Fh<'_> = arguments(args)?;
    let result = match nfs.on_object(call, object.0, verbs::getattr) {
        Ok(found) => Res::Ok(attr::fattr3(&found)),
        Err(status) => Res::Fail(nfsstat3(status), NoBody),
    };
    finish(call, reply, &result)
}
