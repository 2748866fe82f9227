//! MKDIR (RFC 1813 §3.3.9).

use super::{arguments, attr, finish, made};
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
    let new = verbs::mkdir(nfs, call, a.place.dir.0, a.place.name.0, attr::set(&a.set));
    finish(call, reply, &made(&new))
}
