//! CREATE (RFC 1813 §3.3.8).

use super::{arguments, attr, create_object};
use crate::share_denial::ShareDenial;
use crate::{Nfs, verbs};
use proto::nfs3::{CreateArgs, CreateHow3};
use rpc::{Call, Fault};
use vfs::Create;
use xdr::{Reader, Writer};

pub(super) fn create(
    nfs: &Nfs,
    call: &mut Call<'_>,
    args: &mut Reader<'_>,
    reply: &mut Writer,
) -> Result<(), Fault> {
    let a: CreateArgs<'_> = arguments(args)?;
    let how = match &a.how {
        CreateHow3::Unchecked(set) => attr::set(set).map(Create::Unchecked),
        CreateHow3::Guarded(set) => attr::set(set).map(Create::Guarded),
        CreateHow3::Exclusive(verifier) => Ok(Create::Exclusive(*verifier)),
    };
    let (denial, name) = (ShareDenial::of(nfs, call), a.place.name.0);
    create_object(nfs, call, reply, a.place.dir.0, |dir| {
        nfs.before_create(dir, name, &how)?;
        nfs.before_new_entry(dir, name)?;
        denial.check_create(nfs, dir, name, &how)?;
        let cuts = Nfs::create_cuts(&how);
        let made = verbs::create(dir, name, how)?;
        nfs.after_create(dir, cuts, made.node.as_ref().map(|node| &node.fid));
        Ok(made)
    })
}
