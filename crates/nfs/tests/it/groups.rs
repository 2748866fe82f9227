//! `manage-gids`: beyond the sixteen groups of AUTH_SYS, this machine's own list counts.

use crate::support::{TestServer, exports};
use export::{GroupService, Options, Squash};
use proto::nfs3::{AccessArgs, AccessOk, Bytes, PostOpAttr, Res, procedure as p};
use std::io;
use std::sync::Arc;
use vfs_mem::{MemFs, MemOptions};

/// User 1000 is in thirty groups, 30 among them, user 1001 in forty; others are unknown.
struct FixedGroups;

impl GroupService for FixedGroups {
    fn groups_of(&self, uid: u32) -> io::Result<Option<Vec<u32>>> {
        match uid {
            1000 => Ok(Some((1..=30).collect())),
            1001 => Ok(Some((0..=40).rev().collect())),
            1002 => Err(io::ErrorKind::TimedOut.into()),
            _ => Ok(None),
        }
    }
}

/// A directory that group `gid` may enter, and who may enter it.
fn may_enter(gid: u32, options: Options, uid: u32) -> bool {
    let mem = MemFs::new(MemOptions { owner: (1, gid), mode: 0o750, ..MemOptions::default() });
    let exports = exports::of(&[("/mem", Arc::new(mem), options)]);
    let mut server = TestServer::new(exports.with_group_service(Box::new(FixedGroups)));
    server.uid = uid;
    let root = server.root();
    let args = AccessArgs { object: Bytes(&root), access: 0x3f };
    (0..2)
        .map(|_| {
            let res: Res<AccessOk, PostOpAttr> = server.v3(p::ACCESS, &args);
            res.into_result().unwrap().access != 0
        })
        .reduce(|first, again| {
            assert_eq!(first, again, "asked and remembered say the same");
            again
        })
        .unwrap()
}

#[test]
fn manage_gids_replaces_the_groups_of_the_credential() {
    let manage = Options { manage_gids: true, ..exports::RW };
    assert!(may_enter(30, manage, 1000));
    assert!(!may_enter(31, manage, 1000));
    assert!(may_enter(40, manage, 1001));
    assert!(!may_enter(30, exports::RW, 1000));
    // strangers, and users of a service that is silent, keep what the client says of them
    for uid in [1002, 1003] {
        assert!(may_enter(uid, manage, uid));
        assert!(!may_enter(30, manage, uid));
    }
}

#[test]
fn root_squash_maps_group_0_of_listed_groups() {
    let manage = Options { manage_gids: true, ..exports::RW };
    assert!(may_enter(0, manage, 1001));
    let squashed = Options { squash: Squash::Root, anongid: 777, ..manage };
    assert!(!may_enter(0, squashed, 1001));
    assert!(may_enter(777, squashed, 1001));
    assert!(may_enter(40, squashed, 1001));
}

#[test]
fn all_groups_are_kept_with_root_squash_and_anongid_0() {
    let options = Options { manage_gids: true, squash: Squash::Root, anongid: 0, ..exports::RW };
    for gid in 0..=40 {
        assert!(may_enter(gid, options, 1001), "group {gid}");
    }
}
