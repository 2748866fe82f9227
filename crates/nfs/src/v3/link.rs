//! LINK (RFC 1813 §3.3.15).

use super::{arguments, attr, finish, nfsstat3};
use crate::{Nfs, verbs};
use proto::nfs3::{LinkArgs, LinkRes, Res};
use rpc::{Call, Fault};
use xdr::{Reader, Writer};

pub(super) fn link(
    nfs: &Nfs,
    call: &mut Call<'_>,
    args: &mut Reader<'_>,
    reply: &mut Writer,
) -> Result<(), Fault> {
    let a: LinkArgs<'_> = arguments(args)?;
    let result = match verbs::link(nfs, call, a.file.0, (a.link.dir.0, a.link.name.0)) {
        Ok(done) => {
            Res::Ok(LinkRes { attr: Some(attr::fattr3(&done.attr)), dir: attr::wcc(&done.dir) })
        }
        Err(failed) => Res::Fail(
            nfsstat3(failed.status),
            LinkRes {
                attr: failed.attr.as_ref().map(attr::fattr3),
                dir: attr::after(failed.other.as_ref()),
            },
        ),
    };
    finish(call, reply, &result)
}
