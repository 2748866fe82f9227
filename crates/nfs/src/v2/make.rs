//! CREATE, LINK, SYMLINK and MKDIR (RFC 1094 §2.2.10, §2.2.13 to §2.2.15).

use super::{attr, serve};
use crate::verbs::{Answer, Failed, New};
use crate::{Nfs, verbs};
use proto::nfs2::{CreateArgs2, DirOpOk2, LinkArgs2, MAXPATHLEN, SymlinkArgs2};
use proto::nfs3::NoBody;
use rpc::{Call, Fault};
use vfs::{Create, SetAttr, Status};
use xdr::{Reader, Writer};

/// The answer needs a handle: if what was made has been moved or removed, it is that of what has the name
/// now, as a client would look it up next.
fn made(
    nfs: &Nfs,
    call: &mut Call<'_>,
    (dir, name): (&[u8], &[u8]),
    new: &New,
) -> Answer<DirOpOk2> {
    let ok = |handle, attr| DirOpOk2 { file: nfs.short(handle), attr: attr::fattr2(attr) };
    if let Some((handle, attr)) = &new.object {
        return Ok(ok(handle, attr));
    }
    let seen = verbs::lookup(nfs, call, dir, name)?;
    Ok(ok(&seen.handle, &seen.attr))
}

pub(super) fn create(
    nfs: &Nfs,
    call: &mut Call<'_>,
    args: &mut Reader<'_>,
    reply: &mut Writer,
) -> Result<(), Fault> {
    serve(nfs, call, args, reply, |nfs, call, a: CreateArgs2<'_>| {
        let (dir, name, set) = (nfs.long(&a.place.dir)?, a.place.name.0, attr::set(&a.set));
        let special = attr::special(&a.set).map_err(Failed::bare)?;
        let new = match special {
            None => verbs::create(nfs, call, dir.bytes(), name, set.map(Create::Unchecked))?,
            Some(kind) => {
                // The size was the device number.
                let what = set.map(|set| (kind, SetAttr { size: None, ..set }));
                verbs::mknod(nfs, call, dir.bytes(), name, what)?
            }
        };
        made(nfs, call, (dir.bytes(), name), &new)
    })
}

pub(super) fn mkdir(
    nfs: &Nfs,
    call: &mut Call<'_>,
    args: &mut Reader<'_>,
    reply: &mut Writer,
) -> Result<(), Fault> {
    serve(nfs, call, args, reply, |nfs, call, a: CreateArgs2<'_>| {
        let (dir, name) = (nfs.long(&a.place.dir)?, a.place.name.0);
        // A directory has no size to be set, whatever the field says.
        let set = attr::set(&a.set).map(|set| SetAttr { size: None, ..set });
        let new = verbs::mkdir(nfs, call, dir.bytes(), name, set)?;
        made(nfs, call, (dir.bytes(), name), &new)
    })
}

pub(super) fn symlink(
    nfs: &Nfs,
    call: &mut Call<'_>,
    args: &mut Reader<'_>,
    reply: &mut Writer,
) -> Result<(), Fault> {
    serve(nfs, call, args, reply, |nfs, call, a: SymlinkArgs2<'_>| {
        let (dir, name) = (nfs.long(&a.place.dir)?, a.place.name.0);
        if a.target.0.len() > MAXPATHLEN {
            return Err(Failed::bare(Status::NameTooLong));
        }
        // The attributes are not used (RFC 1094 §2.2.14).
        let set = Ok(SetAttr::default());
        verbs::symlink(nfs, call, dir.bytes(), name, a.target.0, set)?;
        Ok(NoBody)
    })
}

pub(super) fn link(
    nfs: &Nfs,
    call: &mut Call<'_>,
    args: &mut Reader<'_>,
    reply: &mut Writer,
) -> Result<(), Fault> {
    serve(nfs, call, args, reply, |nfs, call, a: LinkArgs2<'_>| {
        let (file, dir) = (nfs.long(&a.file)?, nfs.long(&a.to.dir)?);
        verbs::link(nfs, call, file.bytes(), (dir.bytes(), a.to.name.0))?;
        Ok(NoBody)
    })
}
