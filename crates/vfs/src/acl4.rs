//! NFSv4 access control lists (RFC 8881 §6) in terms of POSIX ones, which is what file systems have; as pure functions.
//!
//! *Showing* ([`from_posix`]): for each user, each permission is the same in both.
//!
//! *Setting* ([`to_posix`]): nobody gets what the NFSv4 ACL would not give them, whatever groups they are in. A POSIX entry
//! decides alone, where in an NFSv4 ACL several do; so for each entry it is computed what its users get at least. An entry
//! of a group that they may or may not be in counts if it denies, and does not if it allows. What POSIX cannot say but by
//! giving less is given less; what it cannot withhold is refused: reading attributes, and the owner's right to change them.
//!
//! Linux looks at an ACL only if its mask permits something; else users with entries of their own have what others have
//! (its `acl_permission_check`). So entries under an empty mask are not shown, and no empty mask is set.
//!
//! Writing a directory includes the removal of its entries, so it needs `DELETE_CHILD` as well.

use crate::access::Permission;
use crate::acl::{Acl, AclEntry, AclTag};

/// The bits of an access mask (`acemask4`).
pub mod mask {
    /// `ACE4_READ_DATA`, `ACE4_LIST_DIRECTORY`.
    pub const READ_DATA: u32 = 0x1;
    /// `ACE4_WRITE_DATA`, `ACE4_ADD_FILE`.
    pub const WRITE_DATA: u32 = 0x2;
    /// `ACE4_APPEND_DATA`, `ACE4_ADD_SUBDIRECTORY`.
    pub const APPEND_DATA: u32 = 0x4;
    /// `ACE4_EXECUTE`.
    pub const EXECUTE: u32 = 0x20;
    /// `ACE4_DELETE_CHILD`.
    pub const DELETE_CHILD: u32 = 0x40;
    /// `ACE4_READ_ATTRIBUTES`.
    pub const READ_ATTRIBUTES: u32 = 0x80;
    /// `ACE4_WRITE_ATTRIBUTES`.
    pub const WRITE_ATTRIBUTES: u32 = 0x100;
    /// `ACE4_READ_ACL`.
    pub const READ_ACL: u32 = 0x2_0000;
    /// `ACE4_WRITE_ACL`.
    pub const WRITE_ACL: u32 = 0x4_0000;
    /// `ACE4_SYNCHRONIZE`.
    pub const SYNCHRONIZE: u32 = 0x10_0000;
    /// All that the RFC defines.
    pub const ALL: u32 = 0x1f_07ff;

    /// What everybody has who reaches an object.
    pub const ANYBODY: u32 = READ_ATTRIBUTES | READ_ACL | SYNCHRONIZE;
    /// What an owner has besides.
    pub const OWNER: u32 = WRITE_ATTRIBUTES | WRITE_ACL;
}

/// The bits of the flags of an entry (`aceflag4`).
pub mod flag {
    /// `ACE4_FILE_INHERIT_ACE`.
    pub const FILE_INHERIT: u32 = 0x1;
    /// `ACE4_DIRECTORY_INHERIT_ACE`.
    pub const DIRECTORY_INHERIT: u32 = 0x2;
    /// `ACE4_INHERIT_ONLY_ACE`.
    pub const INHERIT_ONLY: u32 = 0x8;
    /// `ACE4_IDENTIFIER_GROUP`.
    pub const IDENTIFIER_GROUP: u32 = 0x40;

    /// New files and directories have the entry.
    pub const INHERIT: u32 = FILE_INHERIT | DIRECTORY_INHERIT;
}

/// Whether an entry allows or denies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AceKind {
    /// `ACE4_ACCESS_ALLOWED_ACE_TYPE`.
    Allow,
    /// `ACE4_ACCESS_DENIED_ACE_TYPE`.
    Deny,
}

/// Whom an entry is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AceWho {
    /// `OWNER@`.
    Owner,
    /// `GROUP@`: the owning group.
    Group,
    /// `EVERYONE@`, the owner and the group as well.
    Everyone,
    /// A user.
    User(u32),
    /// A group.
    NamedGroup(u32),
}

/// An entry (`nfsace4`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Ace {
    /// Whether it allows or denies.
    pub kind: AceKind,
    /// Bits of [`flag`].
    pub flags: u32,
    /// Bits of [`mask`].
    pub mask: u32,
    /// Whom.
    pub who: AceWho,
}

/// Why an ACL is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AclRefused {
    /// It would withhold what a file system with POSIX ACLs cannot (NFS4ERR_ATTRNOTSUPP).
    NotSupported,
    /// It makes no sense for this object (NFS4ERR_INVAL).
    Invalid,
}

/// The bits of a mask that stand for these permissions.
const fn bits(permission: Permission, is_directory: bool) -> u32 {
    let permission = permission.bits();
    let read = if permission & 4 != 0 { mask::READ_DATA } else { 0 };
    let write = if permission & 2 != 0 { write_bits(is_directory) } else { 0 };
    let execute = if permission & 1 != 0 { mask::EXECUTE } else { 0 };
    read | write | execute
}

const fn write_bits(is_directory: bool) -> u32 {
    let child = if is_directory { mask::DELETE_CHILD } else { 0 };
    mask::WRITE_DATA | mask::APPEND_DATA | child
}

/// The permissions all of whose bits are allowed.
const fn permission(allowed: u32, is_directory: bool) -> Permission {
    let read = if allowed & mask::READ_DATA != 0 { 4 } else { 0 };
    let writes = write_bits(is_directory);
    let write = if allowed & writes == writes { 2 } else { 0 };
    let execute = if allowed & mask::EXECUTE != 0 { 1 } else { 0 };
    Permission::from_bits(read | write | execute)
}

/// The NFSv4 ACL that says what an access ACL, and the default ACL of a directory, say.
pub fn from_posix(access: &Acl, default: Option<&Acl>, is_directory: bool) -> Vec<Ace> {
    let mut aces = Vec::new();
    show(access, 0, is_directory, &mut aces);
    if let Some(default) = default {
        show(default, flag::INHERIT | flag::INHERIT_ONLY, is_directory, &mut aces);
    }
    aces
}

/// Appends one POSIX ACL: the owner, the users, the groups, everyone; before each what somebody of it would else get from
/// those that come later.
fn show(acl: &Acl, flags: u32, is_directory: bool, aces: &mut Vec<Ace>) {
    let limit = acl.find(AclTag::Mask).map_or(7, Permission::bits);
    let entries = || {
        acl.entries().iter().filter_map(|AclEntry { tag, permissions }| {
            let masked = Permission::from_bits(permissions.bits() & limit);
            match *tag {
                AclTag::UserObj => Some((AceWho::Owner, *permissions)),
                AclTag::GroupObj => Some((AceWho::Group, masked)),
                // without a permission in the mask the kernel does not look at them
                AclTag::User(_) | AclTag::Group(_) if limit == 0 => None,
                AclTag::User(uid) => Some((AceWho::User(uid), masked)),
                AclTag::Group(gid) => Some((AceWho::NamedGroup(gid), masked)),
                AclTag::Other => Some((AceWho::Everyone, *permissions)),
                AclTag::Mask => None,
            }
        })
    };
    let is_group = |who: AceWho| matches!(who, AceWho::Group | AceWho::NamedGroup(_));
    let union = |wanted: &dyn Fn(AceWho) -> bool| {
        let of =
            entries().filter(|(who, _)| wanted(*who)).map(|(_, permissions)| permissions.bits());
        of.fold(0, |all, bits| all | bits)
    };
    let others = union(&|who| who == AceWho::Everyone);
    let groups = union(&is_group) | others;
    let users = union(&|who| matches!(who, AceWho::User(_))) | groups;
    let mut put = |kind, who, permissions: u32, always: u32| {
        let group = if is_group(who) { flag::IDENTIFIER_GROUP } else { 0 };
        let mask = bits(Permission::from_bits(permissions), is_directory) | always;
        if mask != 0 {
            aces.push(Ace { kind, flags: flags | group, mask, who });
        }
    };
    for (who, permissions) in entries().filter(|(who, _)| !is_group(*who)) {
        let own = permissions.bits();
        match who {
            AceWho::Owner => {
                put(AceKind::Deny, who, users & !own, 0);
                put(AceKind::Allow, who, own, mask::ANYBODY | mask::OWNER);
            }
            AceWho::User(_) => {
                put(AceKind::Deny, who, groups & !own, 0);
                put(AceKind::Allow, who, own, mask::ANYBODY);
            }
            AceWho::Everyone | AceWho::Group | AceWho::NamedGroup(_) => {}
        }
    }
    // whoever is in several groups gets what any of them gives
    for (who, permissions) in entries().filter(|(who, _)| is_group(*who)) {
        put(AceKind::Allow, who, permissions.bits(), mask::ANYBODY);
    }
    for (who, permissions) in entries().filter(|(who, _)| is_group(*who)) {
        put(AceKind::Deny, who, others & !permissions.bits(), 0);
    }
    put(AceKind::Allow, AceWho::Everyone, others, mask::ANYBODY);
}

/// Whether the users of a POSIX entry are those of an NFSv4 entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Match {
    Always,
    Maybe,
    Never,
}

/// The rights that a user has at least, and those that are denied for certain.
fn evaluate(aces: &[Ace], matches: impl Fn(AceWho) -> Match) -> (u32, u32) {
    let (mut allowed, mut denied, mut surely) = (0, 0, 0);
    for ace in aces {
        match (matches(ace.who), ace.kind) {
            (Match::Always, AceKind::Allow) => allowed |= ace.mask & !denied,
            (Match::Always, AceKind::Deny) => {
                surely |= ace.mask & !allowed;
                denied |= ace.mask & !allowed;
            }
            (Match::Maybe, AceKind::Deny) => denied |= ace.mask & !allowed,
            (Match::Maybe, AceKind::Allow) | (Match::Never, _) => {}
        }
    }
    (allowed, surely)
}

/// The access ACL of an object of this owner, and the default ACL of a directory if anything is inherited.
///
/// # Errors
/// [`AclRefused`].
pub fn to_posix(
    aces: &[Ace],
    owner: u32,
    is_directory: bool,
) -> Result<(Acl, Option<Acl>), AclRefused> {
    for ace in aces {
        check(ace, is_directory)?;
    }
    let inherits = |ace: &&Ace| ace.flags & flag::INHERIT != 0;
    let own = |ace: &&Ace| ace.flags & flag::INHERIT_ONLY == 0;
    let access: Vec<Ace> = aces.iter().filter(own).copied().collect();
    let default: Vec<Ace> = aces.iter().filter(inherits).copied().collect();
    let access = set(&access, Some(owner), is_directory)?;
    let default = match default.as_slice() {
        [] => None,
        default => Some(set(default, None, is_directory)?),
    };
    Ok((access, default))
}

fn check(ace: &Ace, is_directory: bool) -> Result<(), AclRefused> {
    let inherit = ace.flags & flag::INHERIT;
    let known = flag::INHERIT | flag::INHERIT_ONLY | flag::IDENTIFIER_GROUP;
    if ace.mask & !mask::ALL != 0
        || inherit != 0 && !is_directory
        || inherit == 0 && ace.flags & flag::INHERIT_ONLY != 0
    {
        return Err(AclRefused::Invalid);
    }
    // a default ACL is for files and directories, at any depth
    let halves = inherit != 0 && inherit != flag::INHERIT;
    let hides =
        ace.kind == AceKind::Deny && ace.mask & (mask::READ_ATTRIBUTES | mask::READ_ACL) != 0;
    if ace.flags & !known != 0 || halves || hides {
        return Err(AclRefused::NotSupported);
    }
    Ok(())
}

/// One POSIX ACL; the owner of what inherits it is not known.
fn set(aces: &[Ace], owner: Option<u32>, is_directory: bool) -> Result<Acl, AclRefused> {
    let of_owner = |who| match who {
        AceWho::Owner | AceWho::Everyone => Match::Always,
        AceWho::User(uid) => match owner {
            Some(owner) if owner == uid => Match::Always,
            Some(_) => Match::Never,
            None => Match::Maybe,
        },
        AceWho::Group | AceWho::NamedGroup(_) => Match::Maybe,
    };
    let (allowed, denied) = evaluate(aces, of_owner);
    if denied & mask::OWNER != 0 {
        return Err(AclRefused::NotSupported);
    }
    let entry = |tag, allowed| AclEntry { tag, permissions: permission(allowed, is_directory) };
    let mut entries = vec![entry(AclTag::UserObj, allowed)];
    let mut subjects = vec![AceWho::Group];
    for ace in aces {
        let is_named = matches!(ace.who, AceWho::User(_) | AceWho::NamedGroup(_));
        if is_named && !subjects.contains(&ace.who) {
            subjects.push(ace.who);
        }
    }
    let has_named = subjects.len() > 1;
    for subject in subjects {
        let of_subject = |who| match who {
            who if who == subject => Match::Always,
            AceWho::Everyone => Match::Always,
            AceWho::Owner | AceWho::User(_) => Match::Never,
            AceWho::Group | AceWho::NamedGroup(_) => Match::Maybe,
        };
        let (allowed, _) = evaluate(aces, of_subject);
        let tag = match subject {
            AceWho::User(uid) => AclTag::User(uid),
            AceWho::NamedGroup(gid) => AclTag::Group(gid),
            AceWho::Owner | AceWho::Group | AceWho::Everyone => AclTag::GroupObj,
        };
        entries.push(entry(tag, allowed));
    }
    let of_others = |who| if who == AceWho::Everyone { Match::Always } else { Match::Never };
    if has_named {
        let class = entries.iter().filter(|entry| entry.tag != AclTag::UserObj);
        let class = class.fold(0, |all, entry| all | entry.permissions.bits());
        // without any the kernel would not look at the entries, and give their users what others have
        let permissions = if class == 0 { Permission::READ } else { Permission::from_bits(class) };
        entries.push(AclEntry { tag: AclTag::Mask, permissions });
    }
    entries.push(entry(AclTag::Other, evaluate(aces, of_others).0));
    // too many, or an id that is none
    Acl::new(entries).ok_or(AclRefused::Invalid)
}

#[cfg(test)]
mod tests;
