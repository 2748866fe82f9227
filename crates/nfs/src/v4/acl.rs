//! The attribute `acl` (RFC 8881 §6.2.1): a POSIX ACL as NFSv4 entries, and the other way round.
//!
//! Owners are written as in the attribute `owner`. What the mapping does and refuses is in [`vfs::acl4`].

use super::owner::Owners;
use super::status::Failed;
use crate::object::Object;
use crate::verbs;
use export::OwnerKind;
use proto::layout::Bytes;
use proto::nfs4::{AclValue, Nfsace4, Nfsstat4, acetype};
use vfs::acl::Acl;
use vfs::acl4::{self, Ace, AceKind, AceWho, AclRefused, flag};
use vfs::{Fid, FileType, Status};
use xdr::Writer;

/// Whether an object's ACLs are shown and set.
pub(super) fn has_acls(object: &Object<'_>) -> bool {
    object.shows_acls() && object.backend().acls().is_some()
}

/// The entries that an object is shown with.
///
/// # Errors
/// Those of the file system.
pub(super) fn of(object: &Object<'_>) -> vfs::Result<Vec<Ace>> {
    let found = verbs::acls(object, true, true)?;
    let is_directory = found.attr.ftype == FileType::Directory;
    let access = found.access.ok_or(Status::ServerFault)?;
    Ok(acl4::from_posix(&access, found.default.as_ref(), is_directory))
}

/// Appends the value.
pub(super) fn put(aces: &[Ace], owners: Owners<'_>, w: &mut Writer) {
    w.u32(u32::try_from(aces.len()).unwrap_or(u32::MAX));
    for ace in aces {
        let kind = match ace.kind {
            AceKind::Allow => acetype::ALLOW,
            AceKind::Deny => acetype::DENY,
        };
        let mut put = |who: &[u8]| {
            w.put(&Nfsace4 { kind, flags: ace.flags, mask: ace.mask, who: Bytes(who) });
        };
        match ace.who {
            AceWho::Owner => put(b"OWNER@"),
            AceWho::Group => put(b"GROUP@"),
            AceWho::Everyone => put(b"EVERYONE@"),
            AceWho::User(id) => owners.with_text(OwnerKind::User, id, put),
            AceWho::NamedGroup(id) => owners.with_text(OwnerKind::Group, id, put),
        }
    }
}

/// The entries of a value that is to be set.
///
/// # Errors
/// NFS4ERR_ATTRNOTSUPP for entries that neither allow nor deny; NFS4ERR_BADOWNER.
pub(super) fn parse(value: &AclValue<'_>, owners: Owners<'_>) -> Result<Vec<Ace>, Failed> {
    value.iter().map(|wire| ace(&wire, owners)).collect()
}

fn ace(wire: &Nfsace4<'_>, owners: Owners<'_>) -> Result<Ace, Failed> {
    let kind = match wire.kind {
        acetype::ALLOW => AceKind::Allow,
        acetype::DENY => AceKind::Deny,
        acetype::AUDIT | acetype::ALARM => return Err(Nfsstat4::AttrNotSupp.into()),
        _ => return Err(Nfsstat4::Inval.into()),
    };
    let who = match wire.who.0 {
        b"OWNER@" => AceWho::Owner,
        b"GROUP@" => AceWho::Group,
        b"EVERYONE@" => AceWho::Everyone,
        name if wire.flags & flag::IDENTIFIER_GROUP != 0 => {
            AceWho::NamedGroup(owners.find(OwnerKind::Group, name)?)
        }
        name => AceWho::User(owners.find(OwnerKind::User, name)?),
    };
    Ok(Ace { kind, flags: wire.flags, mask: wire.mask, who })
}

/// POSIX ACLs that can be set.
pub(super) struct PosixAcls {
    access: Acl,
    default: Option<Acl>,
}

/// What is to be set on an object of this owner and type, in the export of `object`.
///
/// # Errors
/// NFS4ERR_ATTRNOTSUPP where there are no ACLs, and as [`acl4::to_posix`] says; NFS4ERR_INVAL.
pub(super) fn prepare(
    object: &Object<'_>,
    aces: &[Ace],
    owner: u32,
    ftype: FileType,
) -> Result<PosixAcls, Failed> {
    // Linux has none of links
    if !has_acls(object) || ftype == FileType::Symlink {
        return Err(Nfsstat4::AttrNotSupp.into());
    }
    let mapped = acl4::to_posix(aces, owner, ftype == FileType::Directory);
    let (access, default) = mapped.map_err(|refused| match refused {
        AclRefused::NotSupported => Nfsstat4::AttrNotSupp,
        AclRefused::Invalid => Nfsstat4::Inval,
    })?;
    Ok(PosixAcls { access, default })
}

/// The ACL that a new object is to have besides what it inherits.
///
/// # Errors
/// As [`prepare`].
pub(super) fn of_new(
    dir: &Object<'_>,
    (aces, owner): (Option<&[Ace]>, Option<u32>),
    ftype: FileType,
) -> Result<Option<PosixAcls>, Failed> {
    let owner = owner.unwrap_or(dir.cx().cred.uid);
    aces.map(|aces| prepare(dir, aces, owner, ftype)).transpose()
}

/// Sets the ACL of an object that was just made in the export of `dir`.
///
/// # Errors
/// As [`apply`]; the object is there all the same.
pub(super) fn apply_to_new(
    dir: &Object<'_>,
    fid: Fid,
    acls: Option<&PosixAcls>,
) -> Result<(), Failed> {
    let Some(acls) = acls else { return Ok(()) };
    let mut object = dir.clone();
    object.fid = fid;
    apply(&object, acls)
}

/// Sets them.
///
/// # Errors
/// NFS4ERR_ATTRNOTSUPP if the file system has none after all; its other errors.
pub(super) fn apply(object: &Object<'_>, acls: &PosixAcls) -> Result<(), Failed> {
    let done = verbs::set_acls(object, Some(Some(&acls.access)), acls.default.as_ref());
    done.map(drop).map_err(|status| match status {
        Status::NotSupp => Nfsstat4::AttrNotSupp.into(),
        other => other.into(),
    })
}
