//! REMOVE (RFC 1813 §3.3.12).

use super::{arguments, attr, finish_encoded};
use crate::audited_call::AuditedCall;
use crate::{Nfs, verbs};
use proto::nfs3::{DirOpArgs3, Res, WccData};
use rpc::{Call, Fault};
use xdr::{Reader, Writer};

pub(super) fn remove(
    nfs: &Nfs,
    call: &mut Call<'_>,
    args: &mut Reader<'_>,
    reply: &mut Writer,
) -> Result<(), Fault> {
    let a: DirOpArgs3<'_> = arguments(args)?;
    let audit = AuditedCall::of(nfs, call);
    let removed = nfs.on_object_v3(call, a.dir.0, |dir| {
        nfs.before_change_of_name(dir, a.name.0, None)?;
        nfs.before_entry_change(dir)?;
        reply.put(&Res::<_, WccData>::Ok(attr::wcc(&verbs::remove(dir, a.name.0, &audit)?)));
        Ok(())
    });
    finish_encoded(call, reply, removed.map_err(|failed| failed.wcc::<WccData>()))
}
