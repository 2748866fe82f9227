//! LINK (RFC 1094 §2.2.13).

use super::serve;
use crate::{Nfs, verbs};
use proto::nfs2::LinkArgs2;
use proto::nfs3::NoBody;
use rpc::{Call, Fault};
use xdr::{Reader, Writer};

pub(super) fn link(
    nfs: &Nfs,
    call: &mut Call<'_>,
    args: &mut Reader<'_>,
    reply: &mut Writer,
) -> Result<(), Fault> {
    serve(nfs, call, args, reply, |nfs, call, a: LinkArgs2<'_>| {
        nfs.on_two_objects_v2(call, (&a.file, &a.to.dir), |file, dir| {
            nfs.before_change(file, &file.fid, None)?;
            nfs.before_new_entry(dir, a.to.name.0)?;
            verbs::link(file, (dir, a.to.name.0))?;
            Ok(NoBody)
        })
    })
}
