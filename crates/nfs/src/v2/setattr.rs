//! SETATTR (RFC 1094 §2.2.3).

use super::{after, attr, serve};
use crate::audited_call::AuditedCall;
use crate::share_denial::ShareDenial;
use crate::{Nfs, verbs};
use proto::nfs2::SetattrArgs2;
use rpc::{Call, Fault};
use xdr::{Reader, Writer};

pub(super) fn setattr(
    nfs: &Nfs,
    call: &mut Call<'_>,
    args: &mut Reader<'_>,
    reply: &mut Writer,
) -> Result<(), Fault> {
    serve(nfs, call, args, reply, |nfs, call, a: SetattrArgs2| {
        let denial = ShareDenial::of(nfs, call);
        let audit = AuditedCall::of(nfs, call);
        nfs.on_object_v2(call, &a.file, |file| {
            let set = attr::set(&a.set);
            nfs.before_change(file, &file.fid, None)?;
            denial.check_set(nfs, file, &set)?;
            let change = verbs::setattr(file, set, None, &audit)?;
            let _recalled = nfs.after_change(file, &file.fid, None);
            after(file, &change)
        })
    })
}
