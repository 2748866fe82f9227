//! GETATTR (RFC 1094 §2.2.2).

use super::{attr, serve};
use crate::{Nfs, verbs};
use proto::nfs2::Fh2;
use rpc::{Call, Fault};
use vfs::Want;
use xdr::{Reader, Writer};

pub(super) fn getattr(
    nfs: &Nfs,
    call: &mut Call<'_>,
    args: &mut Reader<'_>,
    reply: &mut Writer,
) -> Result<(), Fault> {
    serve(nfs, call, args, reply, |nfs, call, file: Fh2| {
        let found = nfs.on_object_v2(call, &file, |object| {
            match nfs.attrs_by_holder(object, &object.fid, None, Want::STAT)? {
                Some(held) => Ok(held),
                None => verbs::getattr(object),
            }
        })?;
        Ok(attr::fattr2(&found))
    })
}
