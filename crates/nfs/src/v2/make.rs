//! CREATE, LINK, SYMLINK and MKDIR (RFC 1094 §2.2.10, §2.2.13 to §2.2.15).

use super::{attr, serve};
use crate::object::Object;
use crate::{Nfs, verbs};
use proto::nfs2::{CreateArgs2, DirOpOk2, LinkArgs2, MAXPATHLEN, SymlinkArgs2};
use proto::nfs3::NoBody;
use rpc::{Call, Fault};
use vfs::{Create, Created, SetAttr, Status};
use xdr::{Reader, Writer};

/// The answer needs a handle: if what was made has been moved or removed, it is that of what has the name
/// now, as a client would look it up next.
fn made(nfs: &Nfs, (dir, name): (&Object<'_>, &[u8]), made: &Created) -> vfs::Result<DirOpOk2> {
    let node = match made.node {
        Some(node) => node,
        None => verbs::lookup(dir, name)?.node,
    };
    Ok(DirOpOk2 { file: nfs.short(&dir.seal(&node.fid)), attr: attr::fattr2(&node.attr) })
}

pub(super) fn create(
    nfs: &Nfs,
    call: &mut Call<'_>,
    args: &mut Reader<'_>,
    reply: &mut Writer,
) -> Result<(), Fault> {
    serve(nfs, call, args, reply, |nfs, call, a: CreateArgs2<'_>| {
        let (name, set) = (a.place.name.0, attr::set(&a.set));
        nfs.on_object_v2(call, &a.place.dir, |dir| {
            let new = match attr::special(&a.set)? {
                None => verbs::create(dir, name, set.map(Create::Unchecked))?,
                Some(kind) => {
                    // The size was the device number.
                    let what = set.map(|set| (kind, SetAttr { size: None, ..set }));
                    verbs::mknod(dir, name, what)?
                }
            };
            made(nfs, (dir, name), &new)
        })
    })
}

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
            made(nfs, (dir, name), &verbs::mkdir(dir, name, set)?)
        })
    })
}

pub(super) fn symlink(
    nfs: &Nfs,
    call: &mut Call<'_>,
    args: &mut Reader<'_>,
    reply: &mut Writer,
) -> Result<(), Fault> {
    serve(nfs, call, args, reply, |nfs, call, a: SymlinkArgs2<'_>| {
        if a.target.0.len() > MAXPATHLEN {
            return Err(Status::NameTooLong);
        }
        // The attributes are not used (RFC 1094 §2.2.14).
        let set = Ok(SetAttr::default());
        nfs.on_object_v2(call, &a.place.dir, |dir| {
            verbs::symlink(dir, a.place.name.0, a.target.0, set)?;
            Ok(NoBody)
        })
    })
}

pub(super) fn link(
    nfs: &Nfs,
    call: &mut Call<'_>,
    args: &mut Reader<'_>,
    reply: &mut Writer,
) -> Result<(), Fault> {
    serve(nfs, call, args, reply, |nfs, call, a: LinkArgs2<'_>| {
        nfs.on_two_objects_v2(call, (&a.file, &a.to.dir), |file, dir| {
            verbs::link(file, (dir, a.to.name.0))?;
            Ok(NoBody)
        })
    })
}
