//! RMDIR (RFC 1094 §2.2.16).

use super::serve;
use crate::audited_call::AuditedCall;
use crate::{Nfs, verbs};
use proto::nfs2::DirOpArgs2;
use proto::nfs3::NoBody;
use rpc::{Call, Fault};
use xdr::{Reader, Writer};

pub(super) fn rmdir(
    nfs: &Nfs,
    call: &mut Call<'_>,
    args: &mut Reader<'_>,
    reply: &mut Writer,
) -> Result<(), Fault> {
    serve(nfs, call, args, reply, |nfs, call, a: DirOpArgs2<'_>| {
        let audit = AuditedCall::of(nfs, call);
        nfs.on_object_v2(call, &a.dir, |dir| {
            nfs.before_change_of_name(dir, a.name.0, None)?;
            nfs.before_entry_change(dir)?;
            verbs::rmdir(dir, a.name.0, &audit)
        })?;
        Ok(NoBody)
    })
}
