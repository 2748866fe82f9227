//! SYMLINK (RFC 1813 §3.3.10).

use super::{arguments, attr, finish, made};
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
    let (dir, name, set) = (a.place.dir.0, a.place.name.0, attr::set(&a.set));
    let new = verbs::symlink(nfs, call, dir, name, a.target.0, set);
    finish(call, reply, &made(&new))
}
