//! SETATTR (RFC 1094 §2.2.3).

use super::{after, attr, serve};
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
        nfs.on_object_v2(call, &a.file, |file| {
            let change = verbs::setattr(file, attr::set(&a.set), None)?;
            after(file, &change)
        })
    })
}
