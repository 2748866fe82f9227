//! The two lists of an object between the wire's form and that of the back ends.

use crate::object::Object;
use crate::verbs;
use proto::nfsacl::{AclEntries, AclEntry as WireEntry, SecAttr, kind, mask};
use vfs::access::Permission;
use vfs::acl::{Acl, AclEntry, AclTag};
use vfs::{Attr, Status};

/// An object's attributes and the lists that were asked for, in the wire's form.
pub(super) struct Lists {
    /// The attributes.
    pub attr: Attr,
    mask: u32,
    access: Vec<WireEntry>,
    default: Vec<WireEntry>,
}

impl Lists {
    /// Those that `asked`, bits of [`mask`], names.
    ///
    /// # Errors
    /// [`Status::Inval`] for an unknown bit.
    pub fn of(object: &Object<'_>, asked: u32) -> vfs::Result<Self> {
        if asked & !mask::ALL != 0 {
            return Err(Status::Inval);
        }
        let wanted = |bits: u32| asked & bits != 0;
        let found = verbs::acls(
            object,
            wanted(mask::ACL | mask::ACL_COUNT),
            wanted(mask::DEFAULT | mask::DEFAULT_COUNT),
        )?;
        let attr = found.attr;
        let wire = |acl: &Option<Acl>, flag| {
            acl.as_ref().map_or_else(Vec::new, |acl| to_wire(acl, &attr, flag))
        };
        let (access, default) = (wire(&found.access, 0), wire(&found.default, kind::DEFAULT));
        Ok(Self { attr, mask: asked, access, default })
    }

    /// For the reply: the counts always, the entries where they were asked for.
    pub fn sec_attr(&self) -> SecAttr<'_> {
        let count = |list: &[WireEntry]| u32::try_from(list.len()).unwrap_or(u32::MAX);
        let entries = |bit| {
            move |list| if self.mask & bit == 0 { AclEntries::NONE } else { AclEntries::Own(list) }
        };
        SecAttr {
            mask: self.mask,
            acl_count: count(&self.access),
            acl: entries(mask::ACL)(self.access.as_slice()),
            default_count: count(&self.default),
            default: entries(mask::DEFAULT)(self.default.as_slice()),
        }
    }
}

/// Sets the lists of a call, and gives the attributes after that.
///
/// # Errors
/// [`Status::Inval`] for entries that make no ACL or an unknown bit of the mask, and those of [`verbs::set_acls`].
pub(super) fn set(object: &Object<'_>, lists: &SecAttr<'_>) -> vfs::Result<Attr> {
    if lists.mask & !mask::ALL != 0 {
        return Err(Status::Inval);
    }
    let named =
        |bit, list| if lists.mask & bit == 0 { Ok(None) } else { from_wire(list).map(Some) };
    let access = named(mask::ACL, lists.acl)?;
    let default = named(mask::DEFAULT, lists.default)?.flatten();
    verbs::set_acls(object, access.as_ref().map(Option::as_ref), default.as_ref())
}

/// The entries of an ACL, four at least. The owner and the owning group stand with their ids, as Solaris wants it.
fn to_wire(acl: &Acl, attr: &Attr, flag: u32) -> Vec<WireEntry> {
    let wire = |entry: &AclEntry| {
        let (kind, id) = match entry.tag {
            AclTag::UserObj => (kind::USER_OBJ, attr.uid),
            AclTag::User(id) => (kind::USER, id),
            AclTag::GroupObj => (kind::GROUP_OBJ, attr.gid),
            AclTag::Group(id) => (kind::GROUP, id),
            AclTag::Mask => (kind::CLASS_OBJ, 0),
            AclTag::Other => (kind::OTHER_OBJ, 0),
        };
        WireEntry { kind: kind | flag, id, permissions: entry.permissions.bits() }
    };
    let mut list = Vec::with_capacity(acl.entries().len().saturating_add(1));
    for entry in acl.entries() {
        list.push(wire(entry));
        let needs_mask = entry.tag == AclTag::GroupObj && acl.find(AclTag::Mask).is_none();
        if needs_mask {
            list.push(wire(&AclEntry { tag: AclTag::Mask, ..*entry }));
        }
    }
    list
}

/// The ACL of some entries; `None` for no entries, which take an ACL away.
///
/// # Errors
/// [`Status::Inval`] for an unknown kind, permissions that there are not, or a set that is no ACL. More than the
/// permissions may be set in a mask: Solaris does that.
fn from_wire(list: AclEntries<'_>) -> vfs::Result<Option<Acl>> {
    if list.is_empty() {
        return Ok(None);
    }
    let entry = |entry: WireEntry| {
        let permissions = Permission::from_bits(entry.permissions);
        let tag = match entry.kind & !kind::DEFAULT {
            kind::USER_OBJ => AclTag::UserObj,
            kind::USER => AclTag::User(entry.id),
            kind::GROUP_OBJ => AclTag::GroupObj,
            kind::GROUP => AclTag::Group(entry.id),
            kind::CLASS_OBJ => AclTag::Mask,
            kind::OTHER_OBJ => AclTag::Other,
            _ => return Err(Status::Inval),
        };
        let exact = permissions.bits() == entry.permissions || tag == AclTag::Mask;
        if exact { Ok(AclEntry { tag, permissions }) } else { Err(Status::Inval) }
    };
    let entries = list.iter().map(entry).collect::<vfs::Result<Vec<_>>>()?;
    Acl::new(without_spare_mask(entries)).map(Some).ok_or(Status::Inval)
}

/// The three entries of a mode, of the four that they are sent as.
fn without_spare_mask(mut entries: Vec<AclEntry>) -> Vec<AclEntry> {
    let find = |tag| entries.iter().find(|entry| entry.tag == tag).map(|entry| entry.permissions);
    let (group, mask) = (find(AclTag::GroupObj), find(AclTag::Mask));
    if entries.len() == 4 && mask.is_some() && mask == group {
        entries.retain(|entry| entry.tag != AclTag::Mask);
    }
    entries
}
