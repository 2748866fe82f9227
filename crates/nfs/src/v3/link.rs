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
    let linked = nfs.on_two_objects_v3(call, (a.file.0, a.link.dir.0), |file, dir| {
        nfs.before_change(file, &file.fid, None)?;
        nfs.before_new_entry(dir, a.link.name.0)?;
        verbs::link(file, (dir, a.link.name.0))
    });
    let result = match linked {
        Ok(done) => {
            Res::Ok(LinkRes { attr: Some(attr::fattr3(&done.attr)), dir: attr::wcc(&done.dir) })
        }
        Err(failed) => Res::Fail(
            nfsstat3(failed.first.status),
            LinkRes { attr: failed.first.fattr3(), dir: attr::after(failed.second.as_ref()) },
        ),
    };
    finish(call, reply, &result)
}
