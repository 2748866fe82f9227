//! RENAME (RFC 1094 §2.2.12).

use super::serve;
use crate::audited_call::AuditedCall;
use crate::{Nfs, verbs};
use proto::nfs2::RenameArgs2;
use proto::nfs3::NoBody;
use rpc::{Call, Fault};
use xdr::{Reader, Writer};

pub(super) fn rename(
    nfs: &Nfs,
    call: &mut Call<'_>,
    args: &mut Reader<'_>,
    reply: &mut Writer,
) -> Result<(), Fault> {
    serve(nfs, call, args, reply, |nfs, call, a: RenameArgs2<'_>| {
        let audit = AuditedCall::of(nfs, call);
        nfs.on_two_objects_v2(call, (&a.from.dir, &a.to.dir), |from, to| {
            nfs.before_change_of_name(from, a.from.name.0, None)?;
            nfs.before_change_of_name(to, a.to.name.0, None)?;
            nfs.before_entry_change(from)?;
            nfs.before_entry_change(to)?;
            verbs::rename((from, a.from.name.0), (to, a.to.name.0), &audit)?;
            Ok(NoBody)
        })
    })
}
