//! ACCESS (RFC 1813 §3.3.4). The bits on the wire are those of [`AccessMask`]; unknown ones are
//! never granted.

use super::{arguments, attr, finish_encoded};
use crate::{Nfs, verbs};
use proto::nfs3::{AccessArgs, AccessOk, Fattr3, Res};
use rpc::{Call, Fault};
use vfs::AccessMask;
use xdr::{Reader, Writer};

pub(super) fn access(
    nfs: &Nfs,
    call: &mut Call<'_>,
    args: &mut Reader<'_>,
    reply: &mut Writer,
) -> Result<(), Fault> {
    let a: AccessArgs<'_> = arguments(args)?;
    let mask = AccessMask(a.access);
    let checked = nfs.on_object_v3(call, a.object.0, |object| {
        let (granted, found) = verbs::access(object, mask)?;
        let is_old = nfs.is_written_by_other(object, &object.fid, None);
        let attr = (!is_old).then(|| attr::fattr3(&found));
        let done = AccessOk { attr, access: granted.0 };
        reply.put(&Res::<_, Option<Fattr3>>::Ok(done));
        Ok(())
    });
    finish_encoded(call, reply, checked.map_err(|failed| failed.post_op::<AccessOk>()))
}
