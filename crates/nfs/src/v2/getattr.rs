//! GETATTR (RFC 1094 §2.2.2).

use super::{attr, serve};
use crate::{Nfs, verbs};
use proto::nfs2::Fh2;
use rpc::{Call, Fault};
use xdr::{Reader, Writer};

pub(super) fn getattr(
    nfs: &Nfs,
    call: &mut Call<'_>,
    args: &mut Reader<'_>,
    reply: &mut Writer,
) -> Result<(), Fault> {
    serve(nfs, call, args, reply, |nfs, call, file: Fh2| {
        let found = nfs.on_object_v2(call, &file, |object| {
            nfs.before_read(object, &object.fid, None)?;
            verbs::getattr(object)
        })?;
        Ok(attr::fattr2(&found))
    })
}
