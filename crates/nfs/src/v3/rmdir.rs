//! RMDIR (RFC 1813 §3.3.13).

use super::{arguments, attr, finish};
use crate::audited_call::AuditedCall;
use crate::{Nfs, verbs};
use proto::nfs3::{DirOpArgs3, Res};
use rpc::{Call, Fault};
use xdr::{Reader, Writer};

pub(super) fn rmdir(
    nfs: &Nfs,
    call: &mut Call<'_>,
    args: &mut Reader<'_>,
    reply: &mut Writer,
) -> Result<(), Fault> {
    let a: DirOpArgs3<'_> = arguments(args)?;
    let audit = AuditedCall::of(nfs, call);
    let done = nfs.on_object_v3(call, a.dir.0, |dir| {
        nfs.before_change_of_name(dir, a.name.0, None)?;
        nfs.before_entry_change(dir)?;
        verbs::rmdir(dir, a.name.0, &audit)
    });
    let result = match done {
        Ok(change) => Res::Ok(attr::wcc(&change)),
        Err(failed) => failed.wcc(),
    };
    finish(call, reply, &result)
}
