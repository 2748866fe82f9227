//! MKDIR (RFC 1094 §2.2.15).

use super::{attr, created, serve};
use crate::{Nfs, verbs};
use proto::nfs2::CreateArgs2;
use rpc::{Call, Fault};
use vfs::SetAttr;
use xdr::{Reader, Writer};

pub(super) fn mkdir(
    nfs: &Nfs,
    call: &mut Call<'_>,
    args: &mut Reader<'_>,
    reply: &mut Writer,
) -> Result<(), Fault> {
    serve(nfs, call, args, reply, |nfs, call, a: CreateArgs2<'_>| {
        let name = a.place.name.0;
        // A directory has no size to be set, whatever the field says.
        let set = attr::set(&a.set).map(|set| SetAttr { size: None, ..set });
        nfs.on_object_v2(call, &a.place.dir, |dir| {
            nfs.before_new_entry(dir, name)?;
            created(nfs, (dir, name), &verbs::mkdir(dir, name, set)?)
        })
    })
}
