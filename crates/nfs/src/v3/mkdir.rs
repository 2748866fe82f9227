//! MKDIR (RFC 1813 §3.3.9).

use super::{arguments, attr, create_object};
use crate::{Nfs, verbs};
use proto::nfs3::MkdirArgs;
use rpc::{Call, Fault};
use xdr::{Reader, Writer};

pub(super) fn mkdir(
    nfs: &Nfs,
    call: &mut Call<'_>,
    args: &mut Reader<'_>,
    reply: &mut Writer,
) -> Result<(), Fault> {
    let a: MkdirArgs<'_> = arguments(args)?;
    let set = attr::set(&a.set);
    create_object(nfs, call, reply, a.place.dir.0, |dir| {
        nfs.before_new_entry(dir, a.place.name.0)?;
        verbs::mkdir(dir, a.place.name.0, set)
    })
}
