//! The check against an independent model, over all modes, groups and many ACLs.

use super::{Permission, data_access, granted, permits};
use crate::acl::Acl;
use crate::{AccessMask, Attr, Cred, FileType, MaybeTime, Time, permission_bits};

fn attr(ftype: FileType, mode: u32) -> Attr {
    Attr {
        ftype,
        mode: permission_bits(mode),
        nlink: 1,
        uid: 100,
        gid: 200,
        size: 0,
        used: 0,
        rdev: (0, 0),
        fsid: 0,
        fileid: 1,
        atime: Time::default(),
        mtime: Time::default(),
        ctime: Time::default(),
        change: 0,
        birth: MaybeTime::UNKNOWN,
    }
}

const WHO: [Cred<'static>; 6] = [
    Cred { uid: 0, gid: 0, groups: &[] },
    Cred { uid: 100, gid: 9, groups: &[] },
    Cred { uid: 101, gid: 200, groups: &[] },
    Cred { uid: 101, gid: 9, groups: &[7, 200] },
    Cred { uid: 101, gid: 9, groups: &[300] },
    Cred { uid: 102, gid: 9, groups: &[] },
];

fn acl(entries: &[(u16, u16, u32)]) -> Vec<u8> {
    let mut value = 2u32.to_le_bytes().to_vec();
    for (tag, bits, id) in entries {
        value.extend(tag.to_le_bytes());
        value.extend(bits.to_le_bytes());
        value.extend(id.to_le_bytes());
    }
    value
}

#[test]
fn the_first_matching_class_of_a_mode_decides() {
    for mode in 0..=0o777 {
        for cred in &WHO {
            for bits in 1..=7 {
                let class = if cred.uid == 100 {
                    mode >> 6
                } else if cred.gid == 200 || cred.groups.contains(&200) {
                    mode >> 3
                } else {
                    mode
                };
                let by_class = class & bits == bits;
                let root = cred.uid == 0 && (bits & 1 == 0 || mode & 0o111 != 0);
                let got = permits(&attr(FileType::Regular, mode), None, cred, Permission(bits));
                assert_eq!(got, by_class || root, "{mode:o} {cred:?} {bits}");
            }
        }
    }
}

#[test]
fn root_searches_any_directory() {
    let dir = attr(FileType::Directory, 0);
    assert!(permits(&dir, None, &WHO[0], Permission(7)));
    assert!(!permits(&attr(FileType::Regular, 0), None, &WHO[0], Permission::EXEC));
}

#[test]
fn an_acl_names_users_and_groups_within_its_mask() {
    let value = acl(&[
        (1, 6, u32::MAX),
        (2, 7, 102),
        (4, 4, u32::MAX),
        (8, 6, 300),
        (0x10, 6, u32::MAX),
        (0x20, 1, u32::MAX),
    ]);
    let acl = Acl::parse(&value).unwrap();
    let file = attr(FileType::Regular, 0o661);
    let may = |who: usize, bits| permits(&file, Some(&acl), &WHO[who], Permission(bits));
    assert!(may(1, 6) && !may(1, 1), "the owner by the owner's bits");
    assert!(may(5, 6) && !may(5, 1), "a named user within the mask");
    assert!(may(2, 4) && !may(2, 2), "the file's group");
    assert!(may(4, 6) && !may(4, 1), "a named group; a member is not of the others");
    let stranger = Cred { uid: 7, gid: 7, groups: &[] };
    assert!(permits(&file, Some(&acl), &stranger, Permission::EXEC));
    let both = Cred { uid: 101, gid: 200, groups: &[300] };
    assert!(permits(&file, Some(&acl), &both, Permission(6)), "any group that grants it all");
}

#[test]
fn invalid_acls_do_not_parse() {
    assert_eq!(Acl::parse(b""), None);
    assert_eq!(Acl::parse(&acl(&[(3, 7, 0)])), None);
    assert_eq!(Acl::parse(&acl(&[(1, 7, 0)])[..11]), None);
    assert_eq!(Acl::parse(&[1, 0, 0, 0]), None);
    assert_eq!(Acl::parse(&vec![2; 4 + 8 * 2000]), None);
}

#[test]
fn owners_can_always_access_data_and_executables_can_be_read() {
    let file = attr(FileType::Regular, 0o001);
    assert!(data_access(&file, None, &WHO[1], true));
    assert!(data_access(&file, None, &WHO[5], false));
    assert!(!data_access(&file, None, &WHO[5], true));
    assert!(!data_access(&file, None, &WHO[2], false));
}

#[test]
fn access_means_what_the_rfc_says_for_each_type() {
    let all = AccessMask(0x3f);
    let dir = granted(&attr(FileType::Directory, 0o700), None, &WHO[1], all);
    assert_eq!(dir, AccessMask(0x1f));
    let file = granted(&attr(FileType::Regular, 0o700), None, &WHO[1], all);
    assert_eq!(file, AccessMask(0x2d));
    let asked = AccessMask::READ | AccessMask::DELETE;
    assert_eq!(granted(&attr(FileType::Regular, 0o700), None, &WHO[1], asked), AccessMask::READ);
}
