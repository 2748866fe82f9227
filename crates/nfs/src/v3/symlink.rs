//! SYMLINK (RFC 1813 §3.3.10).

use super::{arguments, attr, create_object};
use crate::{Nfs, verbs};
use proto::nfs3::SymlinkArgs;
use rpc::{Call, Fault};
use xdr::{Reader, Writer};

pub(super) fn symlink(
    nfs: &Nfs,
    call: &mut Call<'_>,
    args: &mut Reader<'_>,
    reply: &mut Writer,
) -> Result<(), Fault> {
    let a: SymlinkArgs<'_> = arguments(args)?;
    let (name, set) = (a.place.name.0, attr::set(&a.set));
    create_object(nfs, call, reply, a.place.dir.0, |dir| {
        nfs.before_new_entry(dir, name)?;
        verbs::symlink(dir, name, a.target.0, set)
    })
}
