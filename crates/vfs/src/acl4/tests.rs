//! Both directions against a plain evaluation of either kind of ACL, for all users of a small world.

use super::{
    Ace, AceKind, AceWho, AclRefused, AclTag, Permission, bits, flag, from_posix, mask, to_posix,
};
use crate::access::permits;
use crate::acl::{Acl, AclEntry};
use crate::{Attr, Cred, FileType, MaybeTime, Time};
use proptest::prelude::*;

const OWNER: u32 = 1;
const GROUP: u32 = 10;
/// Users and groups that have entries, or not.
const USERS: [u32; 4] = [OWNER, 2, 3, 4];
const GROUPS: [u32; 3] = [GROUP, 11, 12];

fn attr(mode: u16, ftype: FileType) -> Attr {
    Attr {
        ftype,
        mode,
        nlink: 1,
        uid: OWNER,
        gid: GROUP,
        size: 0,
        used: 0,
        rdev: (0, 0),
        fsid: 1,
        fileid: 1,
        atime: Time::default(),
        mtime: Time::default(),
        ctime: Time::default(),
        change: 1,
        birth: MaybeTime::UNKNOWN,
    }
}

/// The mode that the kernel keeps beside an ACL: its group bits are the mask.
fn mode_of(acl: &Acl) -> u16 {
    let of = |tag| acl.find(tag).map_or(0, |permissions| permissions.bits() as u16);
    let class =
        if acl.find(AclTag::Mask).is_some() { of(AclTag::Mask) } else { of(AclTag::GroupObj) };
    of(AclTag::UserObj) << 6 | class << 3 | of(AclTag::Other)
}

/// What the kernel grants.
fn by_posix(acl: &Acl, cred: &Cred<'_>, want: u32) -> bool {
    let attr = attr(mode_of(acl), FileType::Regular);
    permits(&attr, Some(acl), cred, Permission::from_bits(want))
}

/// What RFC 8881 §6.2.1 grants: entry by entry, until all bits are allowed.
fn by_nfs4(aces: &[Ace], cred: &Cred<'_>, want: u32) -> bool {
    let mut left = want;
    for ace in aces {
        let matches = match ace.who {
            AceWho::Owner => cred.uid == OWNER,
            AceWho::Group => cred.in_group(GROUP),
            AceWho::Everyone => true,
            AceWho::User(uid) => cred.uid == uid,
            AceWho::NamedGroup(gid) => cred.in_group(gid),
        };
        if !matches || ace.flags & flag::INHERIT_ONLY != 0 {
            continue;
        }
        match ace.kind {
            AceKind::Allow => left &= !ace.mask,
            AceKind::Deny if left & ace.mask != 0 => return false,
            AceKind::Deny => {}
        }
    }
    left == 0
}

/// Every user, in every set of groups.
fn everybody(check: impl Fn(&Cred<'_>)) {
    for uid in USERS {
        for set in 0..8 {
            let groups: Vec<u32> = GROUPS
                .iter()
                .enumerate()
                .filter(|(n, _)| set & 1 << n != 0)
                .map(|(_, g)| *g)
                .collect();
            check(&Cred { uid, gid: 999, groups: &groups });
        }
    }
}

fn permissions() -> impl Strategy<Value = Permission> {
    (0_u32..8).prop_map(Permission::from_bits)
}

fn posix() -> impl Strategy<Value = Acl> {
    let named = prop::sample::subsequence(
        vec![
            AclTag::User(OWNER),
            AclTag::User(2),
            AclTag::User(3),
            AclTag::Group(GROUP),
            AclTag::Group(11),
            AclTag::Group(12),
        ],
        0..=6,
    );
    (named, prop::collection::vec(permissions(), 10)).prop_map(|(named, permissions)| {
        let mut tags = vec![AclTag::UserObj, AclTag::GroupObj, AclTag::Other];
        if !named.is_empty() {
            tags.push(AclTag::Mask);
        }
        tags.extend(named);
        let entries = tags.into_iter().zip(permissions);
        Acl::new(entries.map(|(tag, permissions)| AclEntry { tag, permissions }).collect()).unwrap()
    })
}

fn nfs4() -> impl Strategy<Value = Vec<Ace>> {
    let who = prop::sample::select(vec![
        AceWho::Owner,
        AceWho::Group,
        AceWho::Everyone,
        AceWho::User(OWNER),
        AceWho::User(2),
        AceWho::User(3),
        AceWho::NamedGroup(GROUP),
        AceWho::NamedGroup(11),
        AceWho::NamedGroup(12),
    ]);
    // single bits as well: write without append, and the other way round
    let bits = prop::sample::subsequence(
        vec![
            mask::READ_DATA,
            mask::WRITE_DATA,
            mask::APPEND_DATA,
            mask::EXECUTE,
            mask::DELETE_CHILD,
            mask::SYNCHRONIZE,
        ],
        0..=6,
    );
    let ace = (any::<bool>(), who, bits).prop_map(|(allows, who, bits)| Ace {
        kind: if allows { AceKind::Allow } else { AceKind::Deny },
        flags: 0,
        mask: bits.into_iter().fold(0, |all, bit| all | bit),
        who,
    });
    prop::collection::vec(ace, 0..8)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    /// Each permission of each user is the same in the NFSv4 ACL that is shown; several at once are never less.
    #[test]
    fn what_is_shown_is_what_the_kernel_checks(acl in posix()) {
        let aces = from_posix(&acl, None, false);
        everybody(|cred| {
            for want in 1..8 {
                let shown = by_nfs4(&aces, cred, bits(Permission::from_bits(want), false));
                let checked = by_posix(&acl, cred, want);
                let same = if want.is_power_of_two() { shown == checked } else { shown || !checked };
                assert!(same, "{cred:?} wants {want}: {acl:?} is shown as {aces:?}");
            }
            assert!(by_nfs4(&aces, cred, mask::ANYBODY));
        });
    }

    /// What was shown and is set again means the same.
    #[test]
    fn an_acl_that_is_set_as_it_was_shown_means_the_same(acl in posix(), is_directory: bool) {
        let aces = from_posix(&acl, is_directory.then_some(&acl), is_directory);
        let (access, default) = to_posix(&aces, OWNER, is_directory).unwrap();
        everybody(|cred| {
            for want in 1..8 {
                assert_eq!(by_posix(&access, cred, want), by_posix(&acl, cred, want), "{cred:?} {want}");
            }
        });
        // and is shown the same from then on
        prop_assert_eq!(from_posix(&access, default.as_ref(), is_directory), aces);
        prop_assert_eq!(default.is_some(), is_directory);
    }

    /// Nobody gets what an ACL that is set does not give.
    #[test]
    fn nobody_gets_more_than_what_was_set(aces in nfs4(), is_directory: bool) {
        let (access, default) = to_posix(&aces, OWNER, is_directory).unwrap();
        prop_assert_eq!(default, None);
        everybody(|cred| {
            for want in 1..8 {
                if by_posix(&access, cred, want) {
                    let asked = bits(Permission::from_bits(want), is_directory);
                    assert!(by_nfs4(&aces, cred, asked), "{cred:?} gets {want} by {access:?} of {aces:?}");
                }
            }
        });
    }

    /// The same of what new files inherit, whoever makes them.
    #[test]
    fn nobody_gets_more_than_what_is_inherited(aces in nfs4()) {
        let flags = flag::INHERIT | flag::INHERIT_ONLY;
        let inherited: Vec<Ace> = aces.iter().map(|ace| Ace { flags, ..*ace }).collect();
        let (_, default) = to_posix(&inherited, 4711, true).unwrap();
        let Some(default) = default else {
            prop_assert!(aces.is_empty());
            return Ok(());
        };
        everybody(|cred| {
            for want in 1..8 {
                if by_posix(&default, cred, want) {
                    assert!(by_nfs4(&aces, cred, bits(Permission::from_bits(want), true)), "{cred:?}");
                }
            }
        });
    }
}

fn ace(kind: AceKind, who: AceWho, mask: u32) -> Ace {
    Ace { kind, flags: 0, mask, who }
}

#[test]
fn a_mode_is_shown_in_three_entries_if_it_can_be() {
    let shown = |mode| from_posix(&Acl::of_mode(mode), None, false);
    let write = mask::WRITE_DATA | mask::APPEND_DATA;
    let group =
        |kind, mask| Ace { flags: flag::IDENTIFIER_GROUP, ..ace(kind, AceWho::Group, mask) };
    let owner = mask::READ_DATA | write | mask::ANYBODY | mask::OWNER;
    assert_eq!(
        shown(0o640),
        [
            ace(AceKind::Allow, AceWho::Owner, owner),
            group(AceKind::Allow, mask::READ_DATA | mask::ANYBODY),
            ace(AceKind::Allow, AceWho::Everyone, mask::ANYBODY),
        ]
    );
    // the owner and the group have less than others
    assert_eq!(
        shown(0o004),
        [
            ace(AceKind::Deny, AceWho::Owner, mask::READ_DATA),
            ace(AceKind::Allow, AceWho::Owner, mask::ANYBODY | mask::OWNER),
            group(AceKind::Allow, mask::ANYBODY),
            group(AceKind::Deny, mask::READ_DATA),
            ace(AceKind::Allow, AceWho::Everyone, mask::READ_DATA | mask::ANYBODY),
        ]
    );
}

#[test]
fn what_cannot_be_withheld_is_refused() {
    let refused = |ace: Ace, is_directory| to_posix(&[ace], OWNER, is_directory).unwrap_err();
    let deny = |who, mask| ace(AceKind::Deny, who, mask);
    for (who, mask) in [
        (AceWho::User(2), mask::READ_ATTRIBUTES),
        (AceWho::Everyone, mask::READ_ACL),
        (AceWho::Owner, mask::WRITE_ACL),
        (AceWho::Everyone, mask::WRITE_ATTRIBUTES),
        (AceWho::User(OWNER), mask::WRITE_ACL),
    ] {
        assert_eq!(refused(deny(who, mask), false), AclRefused::NotSupported);
    }
    // others never had it
    assert!(to_posix(&[deny(AceWho::User(2), mask::WRITE_ACL)], OWNER, false).is_ok());
    let with = |flags| Ace { flags, ..ace(AceKind::Allow, AceWho::Everyone, mask::READ_DATA) };
    assert_eq!(refused(with(flag::FILE_INHERIT), true), AclRefused::NotSupported);
    assert_eq!(refused(with(flag::INHERIT | 4), true), AclRefused::NotSupported);
    assert_eq!(refused(with(0x80), false), AclRefused::NotSupported);
    assert_eq!(refused(with(flag::INHERIT), false), AclRefused::Invalid);
    assert_eq!(refused(with(flag::INHERIT_ONLY), true), AclRefused::Invalid);
    assert_eq!(refused(ace(AceKind::Allow, AceWho::Owner, 1 << 30), true), AclRefused::Invalid);
    assert_eq!(refused(ace(AceKind::Allow, AceWho::User(u32::MAX), 1), true), AclRefused::Invalid);
}

#[test]
fn writing_needs_all_of_its_bits() {
    let write = |mask, is_directory| {
        let (acl, _) =
            to_posix(&[ace(AceKind::Allow, AceWho::Everyone, mask)], OWNER, is_directory).unwrap();
        acl.find(AclTag::Other).unwrap().bits()
    };
    let both = mask::WRITE_DATA | mask::APPEND_DATA;
    assert_eq!((write(mask::WRITE_DATA, false), write(both, false)), (0, 2));
    assert_eq!((write(both, true), write(both | mask::DELETE_CHILD, true)), (0, 2));
}
