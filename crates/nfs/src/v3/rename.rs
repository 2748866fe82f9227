//! RENAME (RFC 1813 §3.3.14).

use super::{arguments, attr, finish, nfsstat3};
use crate::audited_call::AuditedCall;
use crate::{Nfs, verbs};
use proto::nfs3::{RenameArgs, RenameRes, Res};
use rpc::{Call, Fault};
use xdr::{Reader, Writer};

pub(super) fn rename(
    nfs: &Nfs,
    call: &mut Call<'_>,
    args: &mut Reader<'_>,
    reply: &mut Writer,
) -> Result<(), Fault> {
    let a: RenameArgs<'_> = arguments(args)?;
    let audit = AuditedCall::of(nfs, call);
    let renamed = nfs.on_two_objects_v3(call, (a.from.dir.0, a.to.dir.0), |from, to| {
        nfs.before_change_of_name(from, a.from.name.0, None)?;
        nfs.before_change_of_name(to, a.to.name.0, None)?;
        nfs.before_entry_change(from)?;
        nfs.before_entry_change(to)?;
        verbs::rename((from, a.from.name.0), (to, a.to.name.0), &audit)
    });
    let result = match renamed {
        Ok(done) => Res::Ok(RenameRes { from: attr::wcc(&done.from), to: attr::wcc(&done.to) }),
        Err(failed) => Res::Fail(
            nfsstat3(failed.first.status),
            RenameRes {
                from: attr::after(failed.first.attr.as_ref()),
                to: attr::after(failed.second.as_ref()),
            },
        ),
    };
    finish(call, reply, &result)
}
