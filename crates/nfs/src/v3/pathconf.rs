//! PATHCONF (RFC 1813 §3.3.20).

use super::{arguments, attr, finish, post_op};
use crate::{Nfs, verbs};
use proto::nfs3::{Fh, PathconfOk, Res};
use rpc::{Call, Fault};
use xdr::{Reader, Writer};

pub(super) fn pathconf(
    nfs: &Nfs,
    call: &mut Call<'_>,
    args: &mut Reader<'_>,
    reply: &mut Writer,
) -> Result<(), Fault> {
    let object: Fh<'_> = arguments(args)?;
    let result = match verbs::pathconf(nfs, call, object.0) {
        Ok(facts) => Res::Ok(PathconfOk {
            attr: Some(attr::fattr3(&facts.attr)),
            linkmax: facts.limits.link_max,
            name_max: facts.limits.name_max,
            no_trunc: true,
            chown_restricted: facts.limits.chown_restricted,
            case_insensitive: facts.limits.case_insensitive,
            case_preserving: true,
        }),
        Err(failed) => post_op(&failed),
    };
    finish(call, reply, &result)
}
