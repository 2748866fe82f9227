//! SETATTR (RFC 1813 §3.3.2).

use super::{arguments, attr, finish};
use crate::audited_call::AuditedCall;
use crate::share_denial::ShareDenial;
use crate::{Nfs, verbs};
use proto::nfs3::{Res, SetattrArgs};
use rpc::{Call, Fault};
use xdr::{Reader, Writer};

pub(super) fn setattr(
    nfs: &Nfs,
    call: &mut Call<'_>,
    args: &mut Reader<'_>,
    reply: &mut Writer,
) -> Result<(), Fault> {
    let a: SetattrArgs<'_> = arguments(args)?;
    let (set, guard) = match a.guard.map(attr::time_from).transpose() {
        Ok(guard) => (attr::set(&a.set), guard),
        Err(status) => (Err(status), None),
    };
    let denial = ShareDenial::of(nfs, call);
    let audit = AuditedCall::of(nfs, call);
    let changed = nfs.on_object_v3(call, a.object.0, |object| {
        nfs.before_change(object, &object.fid, None)?;
        denial.check_set(nfs, object, &set)?;
        let change = verbs::setattr(object, set, guard, &audit)?;
        // it is not made again: with a guard it would fail
        let _recalled = nfs.after_change(object, &object.fid, None);
        Ok(change)
    });
    let result = match changed {
        Ok(change) => Res::Ok(attr::wcc(&change)),
        Err(failed) => failed.wcc(),
    };
    finish(call, reply, &result)
}
