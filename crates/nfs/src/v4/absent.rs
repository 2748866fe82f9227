//! Absent file systems (RFC 8881 §11.3, §11.4; RFC 7530 §8).
//!
//! An export with `refer=` is absent: a name leads into it, and there every operation on the current filehandle fails with
//! NFS4ERR_MOVED, GETFH as well, so that no client has a filehandle of it. Only GETATTR, VERIFY, NVERIFY and a READDIR of
//! the directory around it give a few attributes, by which the client finds it elsewhere.

use super::attr::{self, put_fsid};
use super::frame::Frame;
use super::fs_locations;
use super::minor0;
use super::op_errors;
use super::status::Failed;
use crate::object::Object;
use proto::nfs4::{Bitmap4, Nfsstat4, attr as a, op};
use xdr::Writer;

/// The attributes of an absent file system.
static OF_ABSENT: Bitmap4 =
    Bitmap4::of(&[a::FSID, a::RDATTR_ERROR, a::FS_LOCATIONS, a::MOUNTED_ON_FILEID]);

/// The file id of the directory that an absent file system covers, where there is none: not 0, which some clients
/// treat as "no file id".
const NOTHING_COVERED: u64 = 1;

/// Refuses operations while the current filehandle is in an absent file system.
///
/// # Errors
/// NFS4ERR_MOVED, unless the operation gives attributes or does not use the current filehandle.
#[cold]
pub(super) fn check(number: u32, minor: u32) -> Result<(), Failed> {
    let errors = if minor == 0 { minor0::errors_of(number) } else { op_errors::errors_of(number) };
    let is_let_through =
        matches!(number, op::GETATTR | op::VERIFY | op::NVERIFY | op::PUTFH | op::RESTOREFH);
    if is_let_through || !errors.contains(&Nfsstat4::Moved) {
        return Ok(());
    }
    Err(Nfsstat4::Moved.into())
}

/// Appends `fattr4` of the root of an absent file system.
///
/// # Errors
/// NFS4ERR_MOVED if `fs_locations` is not asked for (RFC 8881 §11.4.1).
#[cold]
pub(super) fn put(
    frame: &Frame<'_>,
    object: &Object<'_>,
    asked: &Bitmap4,
    reply: &mut Writer,
) -> Result<(), Failed> {
    if !asked.has(a::FS_LOCATIONS) {
        return Err(Nfsstat4::Moved.into());
    }
    let mounted_on = attr::mounted_on_by_directory(frame, object, NOTHING_COVERED);
    put_attrs(frame, object, mounted_on, asked, reply);
    Ok(())
}

/// Appends `fattr4` of the root of an absent file system as an entry of the directory that it is in.
///
/// # Errors
/// NFS4ERR_MOVED if neither `fs_locations` nor `rdattr_error` is among what is asked for (RFC 8881 §11.4.2). Who asks for
/// names only gets them.
#[cold]
pub(super) fn put_entry(
    frame: &Frame<'_>,
    root: &Object<'_>,
    mounted_on: u64,
    asked: &Bitmap4,
    reply: &mut Writer,
) -> Result<(), Failed> {
    let is_told = asked.has(a::FS_LOCATIONS) || asked.has(a::RDATTR_ERROR);
    if !is_told && !asked.is_empty() {
        return Err(Nfsstat4::Moved.into());
    }
    put_attrs(frame, root, mounted_on, asked, reply);
    Ok(())
}

fn put_attrs(
    frame: &Frame<'_>,
    root: &Object<'_>,
    mounted_on: u64,
    asked: &Bitmap4,
    reply: &mut Writer,
) {
    let (export, given) = (root.export(), asked.and(&OF_ABSENT));
    reply.put(&given);
    let len = reply.mark();
    reply.u32(0);
    let values = reply.mark();
    for number in given.iter() {
        match number {
            a::FSID => put_fsid(export, export.root_fsid, false, reply),
            a::RDATTR_ERROR => {
                let is_told = asked.has(a::FS_LOCATIONS);
                let status = if is_told { Nfsstat4::Ok } else { Nfsstat4::Moved };
                reply.u32(status.number());
            }
            a::FS_LOCATIONS => fs_locations::put(frame, export, reply),
            _ => reply.u64(mounted_on),
        }
    }
    let bytes = reply.written_since(values);
    reply.patch_u32(len, u32::try_from(bytes).unwrap_or(u32::MAX));
}

/// Refuses attributes of VERIFY and NVERIFY that an absent file system has not.
///
/// # Errors
/// NFS4ERR_MOVED (RFC 8881 §11.4.1); NFS4ERR_INVAL for `rdattr_error`.
#[cold]
pub(super) fn check_comparable(asked: &Bitmap4) -> Result<(), Failed> {
    if !asked.has(a::FS_LOCATIONS) || !OF_ABSENT.covers(asked) {
        return Err(Nfsstat4::Moved.into());
    }
    attr::check_comparable(&OF_ABSENT, asked)
}
