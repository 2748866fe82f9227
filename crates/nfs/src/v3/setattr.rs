//! SETATTR (RFC 1813 §3.3.2).

use super::{arguments, attr, finish, wcc};
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
    let changed = match a.guard.map(attr::time_from).transpose() {
        Ok(guard) => verbs::setattr(nfs, call, a.object.0, attr::set(&a.set), guard),
        Err(status) => verbs::setattr(nfs, call, a.object.0, Err(status), None),
    };
    let result = match changed {
        Ok(change) => Res::Ok(attr::wcc(&change)),
        Err(failed) => wcc(&failed),
    };
    finish(call, reply, &result)
}
