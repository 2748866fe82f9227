//! The ACLs of an object (NFSACL's GETACL and SETACL).

use crate::object::Object;
use vfs::acl::{Acl, AclKind};
use vfs::{Attr, FileType, Status, Want};

/// Those of an object's attributes and ACLs that were asked for.
#[derive(Debug)]
pub struct ObjectAcls {
    /// The attributes.
    pub attr: Attr,
    /// The access ACL, or the entries of the mode.
    pub access: Option<Acl>,
    /// The default ACL.
    pub default: Option<Acl>,
}

/// The attributes and the access and default ACL, each if it is asked for. Where ACLs are not shown (`no_acl`), or the
/// back end has none, an object has its mode only.
///
/// # Errors
/// [`Status::Stale`], [`Status::Io`].
pub fn acls(object: &Object<'_>, access: bool, default: bool) -> vfs::Result<ObjectAcls> {
    let (cx, fid) = (object.cx(), &object.fid);
    let attr = object.backend().getattr(&cx, fid, Want::STAT)?;
    let acls = object.backend().acls().filter(|_| object.shows_acls());
    let find = |kind| acls.map_or(Ok(None), |acls| acls.acl(&cx, fid, kind));
    let access = match access {
        true => Some(find(AclKind::Access)?.unwrap_or_else(|| Acl::of_mode(attr.mode))),
        false => None,
    };
    let default = match default && attr.ftype == FileType::Directory {
        true => find(AclKind::Default)?,
        false => None,
    };
    Ok(ObjectAcls { attr, access, default })
}

/// Sets the access ACL, if one is given (`Some(None)` removes it), and the default ACL of a directory (`None` removes
/// it); returns the attributes after that. The file system decides whether the caller may.
///
/// # Errors
/// [`Status::RoFs`]; [`Status::Inval`] for a default ACL of anything but a directory; [`Status::NotSupp`] where there
/// are no ACLs or they are not shown; [`Status::Perm`].
pub fn set_acls(
    object: &Object<'_>,
    access: Option<Option<&Acl>>,
    default: Option<&Acl>,
) -> vfs::Result<Attr> {
    object.check_writable()?;
    let acls = object.backend().acls().filter(|_| object.shows_acls()).ok_or(Status::NotSupp)?;
    let (cx, fid) = (object.cx(), &object.fid);
    let is_directory = object.backend().getattr(&cx, fid, Want::STAT)?.ftype == FileType::Directory;
    if default.is_some() && !is_directory {
        return Err(Status::Inval);
    }
    let mut after = None;
    if let Some(access) = access {
        after = acls.set_acl(&cx, fid, AclKind::Access, access)?.after;
    }
    if is_directory {
        after = acls.set_acl(&cx, fid, AclKind::Default, default)?.after;
    }
    after.map_or_else(|| object.backend().getattr(&cx, fid, Want::STAT), Ok)
}
