//! POSIX access control lists (the withdrawn POSIX.1e draft 17, as implemented by Linux: acl(5)), as
//! data.

use crate::access::Permission;
use crate::{Change, Cx, Fid, Result};

/// Limit of entries; the kernel's file systems store far fewer in one attribute.
pub const ACL_ENTRIES_MAX: usize = 1024;

/// The version of the extended attribute's binary form.
const ACL_VERSION: u32 = 2;
/// The id of entries without a named user or group.
const NO_ID: u32 = u32::MAX;

/// The subject of an ACL entry; in the order of entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AclTag {
    /// The owner.
    UserObj,
    /// A user.
    User(u32),
    /// The owning group.
    GroupObj,
    /// A group.
    Group(u32),
    /// The maximum permissions of users, groups and the owning group.
    Mask,
    /// All others.
    Other,
}

/// An entry of an ACL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct AclEntry {
    /// Its subject.
    pub tag: AclTag,
    /// Its permissions.
    pub permissions: Permission,
}

/// A valid ACL: one entry each for the owner, the owning group and all others, a mask if there are
/// entries for users or groups, and no subject twice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Acl {
    /// In the order of their tags.
    entries: Vec<AclEntry>,
}

impl Acl {
    /// An ACL of these entries, in any order; `None` if they are invalid.
    pub fn new(mut entries: Vec<AclEntry>) -> Option<Self> {
        entries.sort_by_key(|entry| entry.tag);
        let tags = || entries.iter().map(|entry| entry.tag);
        let twice = tags().zip(tags().skip(1)).any(|(tag, next)| tag == next);
        let has = |tag| tags().any(|known| known == tag);
        let named = tags().any(|tag| matches!(tag, AclTag::User(_) | AclTag::Group(_)));
        let nobody = tags().any(|tag| matches!(tag, AclTag::User(NO_ID) | AclTag::Group(NO_ID)));
        let whole = has(AclTag::UserObj) && has(AclTag::GroupObj) && has(AclTag::Other);
        let valid = whole && !twice && !nobody && (!named || has(AclTag::Mask));
        (valid && entries.len() <= ACL_ENTRIES_MAX).then_some(Self { entries })
    }

    /// The three entries that are equivalent to a mode.
    pub fn of_mode(mode: u16) -> Self {
        let entry =
            |tag, bits: u16| AclEntry { tag, permissions: Permission::from_bits(bits.into()) };
        let entries = vec![
            entry(AclTag::UserObj, mode >> 6),
            entry(AclTag::GroupObj, mode >> 3),
            entry(AclTag::Other, mode),
        ];
        Self { entries }
    }

    /// The entries, in the order of their tags.
    pub fn entries(&self) -> &[AclEntry] {
        &self.entries
    }

    /// The permissions of an entry, if it exists.
    pub fn find(&self, tag: AclTag) -> Option<Permission> {
        self.entries.iter().find(|entry| entry.tag == tag).map(|entry| entry.permissions)
    }

    /// Parses the value of `system.posix_acl_access` or `system.posix_acl_default`: a 32-bit version, then entries
    /// of 16-bit tag, 16-bit permissions and 32-bit id, all little endian. `None` if it is anything else.
    pub fn parse(value: &[u8]) -> Option<Self> {
        let (version, mut rest) = value.split_first_chunk::<4>()?;
        if u32::from_le_bytes(*version) != ACL_VERSION || rest.len() / 8 > ACL_ENTRIES_MAX {
            return None;
        }
        let mut entries = Vec::with_capacity(rest.len() / 8);
        while let Some(([t0, t1, p0, p1, id @ ..], tail)) = rest.split_first_chunk::<8>() {
            let id = u32::from_le_bytes(*id);
            let tag = match u16::from_le_bytes([*t0, *t1]) {
                0x01 => AclTag::UserObj,
                0x02 => AclTag::User(id),
                0x04 => AclTag::GroupObj,
                0x08 => AclTag::Group(id),
                0x10 => AclTag::Mask,
                0x20 => AclTag::Other,
                _ => return None,
            };
            let permissions = Permission::from_bits(u16::from_le_bytes([*p0, *p1]).into());
            entries.push(AclEntry { tag, permissions });
            rest = tail;
        }
        if rest.is_empty() { Self::new(entries) } else { None }
    }

    /// The encoding that [`Acl::parse`] accepts.
    pub fn encode(&self) -> Vec<u8> {
        let mut value = ACL_VERSION.to_le_bytes().to_vec();
        for AclEntry { tag, permissions } in &self.entries {
            let (number, id): (u16, u32) = match *tag {
                AclTag::UserObj => (0x01, NO_ID),
                AclTag::User(id) => (0x02, id),
                AclTag::GroupObj => (0x04, NO_ID),
                AclTag::Group(id) => (0x08, id),
                AclTag::Mask => (0x10, NO_ID),
                AclTag::Other => (0x20, NO_ID),
            };
            let [p0, p1, ..] = permissions.bits().to_le_bytes();
            value.extend(number.to_le_bytes());
            value.extend([p0, p1]);
            value.extend(id.to_le_bytes());
        }
        value
    }
}

/// Which of an object's ACLs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AclKind {
    /// Access ACL.
    Access,
    /// Default ACL: inherited by objects that are created in a directory.
    Default,
}

/// Back ends that support ACLs.
pub trait Acls: Send + Sync {
    /// An ACL; `None` if the object has only its mode.
    ///
    /// # Errors
    /// [`crate::Status`].
    fn acl(&self, cx: &Cx<'_>, fid: &Fid, kind: AclKind) -> Result<Option<Acl>>;

    /// Sets or removes an ACL. An access ACL sets the mode as well, as chmod(2) sets the ACL.
    ///
    /// # Errors
    /// [`crate::Status::Perm`] unless the caller is the owner; [`crate::Status::Inval`] for a default ACL of
    /// anything but a directory; [`crate::Status::NotSupp`] if the file system has no ACLs.
    fn set_acl(&self, cx: &Cx<'_>, fid: &Fid, kind: AclKind, acl: Option<&Acl>) -> Result<Change>;
}

#[cfg(test)]
mod tests {
    use super::{Acl, AclEntry, AclTag};
    use crate::access::Permission;

    fn entries(tags: &[AclTag]) -> Vec<AclEntry> {
        let permissions = Permission::READ.and(Permission::EXEC);
        tags.iter().map(|tag| AclEntry { tag: *tag, permissions }).collect()
    }

    #[test]
    fn an_encoded_acl_parses_to_the_same() {
        let tags = [AclTag::Other, AclTag::Group(7), AclTag::User(9), AclTag::User(5)];
        let basic = [AclTag::Mask, AclTag::GroupObj, AclTag::UserObj];
        let acl = Acl::new(entries(&[&tags[..], &basic[..]].concat())).unwrap();
        assert_eq!(acl.entries()[1].tag, AclTag::User(5));
        assert_eq!(Acl::parse(&acl.encode()), Some(acl.clone()));
        let value = acl.encode();
        for cut in 0..value.len() {
            assert_eq!(Acl::parse(&value[..cut]), None, "{cut}");
        }
    }

    #[test]
    fn acls_that_the_kernel_would_refuse_are_invalid() {
        use AclTag::{Group, GroupObj, Mask, Other, User, UserObj};
        assert!(Acl::new(entries(&[UserObj, GroupObj, Other])).is_some());
        for wrong in [
            &[UserObj, GroupObj][..],
            &[UserObj, Other],
            &[GroupObj, Other],
            &[UserObj, UserObj, GroupObj, Other],
            &[UserObj, GroupObj, Other, User(1)],
            &[UserObj, GroupObj, Other, Group(1)],
            &[UserObj, GroupObj, Other, Mask, User(1), User(1)],
            &[UserObj, GroupObj, Other, Mask, User(u32::MAX)],
        ] {
            assert_eq!(Acl::new(entries(wrong)), None, "{wrong:?}");
        }
    }
}
