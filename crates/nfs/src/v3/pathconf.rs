//! PATHCONF (RFC 1813 §3.3.20).

use super::failed::Failed;
use super::{arguments, attr, finish};
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
    let result = match nfs.on_object(call, object.0, verbs::fsinfo) {
        Ok(info) => Res::Ok(PathconfOk {
            attr: Some(attr::fattr3(&info.attr)),
            linkmax: info.limits.link_max,
            name_max: info.limits.name_max,
            no_trunc: true,
            chown_restricted: info.limits.chown_restricted,
            case_insensitive: info.limits.case_insensitive,
            case_preserving: true,
        }),
        Err(status) => Failed::from(status).post_op(),
    };
    finish(call, reply, &result)
}
