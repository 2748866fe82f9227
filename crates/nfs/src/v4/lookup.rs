//! LOOKUP and LOOKUPP (RFC 8881 §18.13, §18.14), over the boundaries between the pseudo file system and the exports.

use super::frame::Frame;
use super::name;
use super::status::Failed;
use crate::junction::Crossing;
use crate::object::{Caller, Object, Refused};
use crate::verbs;
use proto::nfs4::{LookupArgs, Nfsstat4};
use vfs::{Fid, FileType, Found, Status};
use xdr::{Reader, Writer};

pub(super) fn lookup<'f>(
    frame: &mut Frame<'f>,
    args: &mut Reader<'f>,
    _: &mut Writer,
) -> Result<(), Failed> {
    let LookupArgs { name } = args.get()?;
    let dir = frame.object()?;
    name::check(name.0, dir)?;
    if let Some(object) = into_junction(frame.caller, dir, name.0)? {
        frame.set_current(object);
        return Ok(());
    }
    let node = find(dir, name.0)?.node;
    match cross(frame.caller, dir, &node.fid)? {
        Some(object) => frame.set_current(object),
        None => {
            frame.move_to(node.fid);
            frame.fetched = Some(node.attr);
        }
    }
    Ok(())
}

/// The root of the export that a name of a directory leads to, if it does.
///
/// # Errors
/// NFS4ERR_ACCESS, NFS4ERR_WRONGSEC, and those of searching the directory.
#[inline]
pub(super) fn into_junction<'f>(
    caller: &'f Caller<'f>,
    dir: &Object<'_>,
    name: &[u8],
) -> Result<Option<Object<'f>>, Failed> {
    match caller.junction(dir, name, Crossing::All)? {
        None => Ok(None),
        Some(inner) => Ok(Some(caller.enter(inner, inner.backend.root())?)),
    }
}

/// The object of a name, with its attributes and those of the directory.
///
/// # Errors
/// Those of the look-up; NFS4ERR_SYMLINK where the directory is a symbolic link.
pub(super) fn find(dir: &Object<'_>, name: &[u8]) -> Result<Found, Failed> {
    match verbs::lookup(dir, name) {
        Ok(found) => Ok(found),
        Err(Status::NotDir) => Err(not_a_directory(dir)),
        Err(status) => Err(status.into()),
    }
}

/// The error for an object that is used as a directory and is none.
#[cold]
fn not_a_directory(object: &Object<'_>) -> Failed {
    let is_link = object.attributes().is_some_and(|attr| attr.ftype == FileType::Symlink);
    if is_link { Nfsstat4::Symlink.into() } else { Nfsstat4::NotDir.into() }
}

/// The root of an export, where an object found in the pseudo file system stands for one; `None` if the object is what it
/// seems.
///
/// # Errors
/// NFS4ERR_NOENT for what leads to nothing that the client may enter; NFS4ERR_WRONGSEC.
pub(super) fn cross<'f>(
    caller: &'f Caller<'f>,
    dir: &Object<'_>,
    found: &Fid,
) -> Result<Option<Object<'f>>, Failed> {
    let table = caller.table();
    let pseudo = table.pseudo();
    if !pseudo.is(dir.export()) {
        return Ok(None);
    }
    if !pseudo.is_visible(found, table.exports(), &caller.requester()) {
        return Err(Nfsstat4::NoEnt.into());
    }
    let Some(export) = pseudo.export_at(found, table.exports()) else { return Ok(None) };
    match caller.enter(export, export.backend.root()) {
        Ok(root) => Ok(Some(root)),
        Err(Refused::Status(Status::Acces)) => Err(Nfsstat4::NoEnt.into()),
        Err(refused) => Err(refused.into()),
    }
}

pub(super) fn lookupp<'f>(
    frame: &mut Frame<'f>,
    _: &mut Reader<'f>,
    _: &mut Writer,
) -> Result<(), Failed> {
    let parent = parent(frame.caller, frame.object()?)?;
    frame.set_current(parent);
    Ok(())
}

/// The directory above one.
///
/// # Errors
/// NFS4ERR_NOENT above the root of the server, NFS4ERR_NOTDIR, NFS4ERR_SYMLINK, NFS4ERR_ACCESS.
pub(super) fn parent<'f>(caller: &'f Caller<'f>, dir: &Object<'f>) -> Result<Object<'f>, Failed> {
    let table = caller.table();
    let pseudo = table.pseudo();
    if dir.fid == dir.export().backend.root() {
        if pseudo.is(dir.export()) {
            return Err(Nfsstat4::NoEnt.into());
        }
        if let Some((outer, covered)) = table.covered_dir(dir.export()) {
            return Ok(caller.enter(outer, covered.dir)?);
        }
        let above = pseudo.parent_of(dir.export(), table.exports()).ok_or(Nfsstat4::NoEnt)?;
        return Ok(caller.pseudo_object(above));
    }
    let mut parent = dir.clone();
    parent.fid = find(dir, b"..")?.node.fid;
    Ok(parent)
}
