//! GETATTR (RFC 1813 §3.3.1).

use super::{arguments, attr, finish_encoded, nfsstat3};
use crate::{Nfs, verbs};
use proto::nfs3::{Fattr3, Fh, NoBody, Res};
use rpc::{Call, Fault};
use vfs::Want;
use xdr::{Reader, Writer};

pub(super) fn getattr(
    nfs: &Nfs,
    call: &mut Call<'_>,
    args: &mut Reader<'_>,
    reply: &mut Writer,
) -> Result<(), Fault> {
    let object: Fh<'_> = arguments(args)?;
    let found = nfs.on_object(call, object.0, |object| {
        let found = match nfs.attrs_by_holder(object, &object.fid, None, Want::STAT)? {
            Some(held) => held,
            None => verbs::getattr(object)?,
        };
        reply.put(&Res::<_, NoBody>::Ok(attr::fattr3(&found)));
        Ok(())
    });
    let failed = |status| Res::<Fattr3, _>::Fail(nfsstat3(status), NoBody);
    finish_encoded(call, reply, found.map_err(failed))
}
