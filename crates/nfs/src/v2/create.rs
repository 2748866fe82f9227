//! CREATE (RFC 1094 §2.2.10).

use super::{attr, created, serve};
use crate::share_denial::ShareDenial;
use crate::{Nfs, verbs};
use proto::nfs2::CreateArgs2;
use rpc::{Call, Fault};
use vfs::{Create, SetAttr};
use xdr::{Reader, Writer};

pub(super) fn create(
    nfs: &Nfs,
    call: &mut Call<'_>,
    args: &mut Reader<'_>,
    reply: &mut Writer,
) -> Result<(), Fault> {
    serve(nfs, call, args, reply, |nfs, call, a: CreateArgs2<'_>| {
        let (name, set) = (a.place.name.0, attr::set(&a.set));
        let denial = ShareDenial::of(nfs, call);
        nfs.on_object_v2(call, &a.place.dir, |dir| {
            nfs.before_new_entry(dir, name)?;
            let new = match attr::special(&a.set)? {
                None => {
                    let how = set.map(Create::Unchecked);
                    nfs.before_create(dir, name, &how)?;
                    denial.check_create(nfs, dir, name, &how)?;
                    let cuts = Nfs::create_cuts(&how);
                    let made = verbs::create(dir, name, how)?;
                    nfs.after_create(dir, cuts, made.node.as_ref().map(|node| &node.fid));
                    made
                }
                Some(kind) => {
                    // The size was the device number.
                    let what = set.map(|set| (kind, SetAttr { size: None, ..set }));
                    verbs::mknod(dir, name, what)?
                }
            };
            created(nfs, (dir, name), &new)
        })
    })
}
