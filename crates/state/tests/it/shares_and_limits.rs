//! Share reservations, and the limits of everything.

use crate::cases::{denied, granted};
use crate::world::{Owner, World, address, file, range};
use bowline_state::{
    ByteRange, How, Limits, Mode, Now, Plan, ShareBits, ShareMode, ShareOwner, ShareRequest, Tag,
};

const A: Owner = (1, 10);
const B: Owner = (2, 20);
const C: Owner = (3, 30);
const ALL: ByteRange = ByteRange::ALL;

fn share(world: &mut World, host: u8, oh: &[u8], access: u32, deny: u32) -> Plan {
    loop {
        let owner = ShareOwner { host: world.host(host), oh };
        let bits = |n| ShareBits::from_number(n).unwrap();
        let request = ShareRequest {
            owner,
            addr: address(host),
            mode: ShareMode { access: bits(access), deny: bits(deny) },
            reclaim: false,
            monitored: true,
            kept: None,
        };
        match world.state.share(world.now, &file(0), &request).0 {
            Plan::Record(record) => world.store(&record),
            plan => return plan,
        }
    }
}

fn unshare(world: &World, host: u8, oh: &[u8], access: u32, deny: u32) {
    let owner = ShareOwner { host: world.host(host), oh };
    let bits = |n| ShareBits::from_number(n).unwrap();
    let mode = ShareMode { access: bits(access), deny: bits(deny) };
    let _none = world.state.unshare(world.now, &file(0), &owner, mode);
}

/// All pairs of access and deny of two owners.
#[test]
fn shares_conflict_by_access_and_deny_bits() {
    for (access, deny) in (0..4).flat_map(|a| (0..4).map(move |d| (a, d))) {
        for (other_access, other_deny) in (0..4).flat_map(|a| (0..4).map(move |d| (a, d))) {
            let mut world = World::new(false);
            granted(&share(&mut world, 1, b"a", access, deny));
            let plan = share(&mut world, 2, b"b", other_access, other_deny);
            let conflict = access & other_deny != 0 || deny & other_access != 0;
            assert_eq!(matches!(plan, Plan::Denied(_)), conflict, "{plan:?}");
            assert_eq!(matches!(plan, Plan::Granted), !conflict);
            unshare(&world, 1, b"a", access, deny);
            unshare(&world, 2, b"b", other_access, other_deny);
            assert_eq!(world.state.totals().files, 0);
        }
    }
}

#[test]
fn opens_are_counted_per_combination() {
    let mut world = World::new(false);
    granted(&share(&mut world, 1, b"a", 1, 2));
    granted(&share(&mut world, 1, b"a", 1, 2));
    granted(&share(&mut world, 1, b"a", 3, 0));
    denied(&share(&mut world, 2, b"b", 2, 0));
    unshare(&world, 1, b"a", 1, 2);
    denied(&share(&mut world, 2, b"b", 2, 0));
    unshare(&world, 1, b"a", 3, 2);
    denied(&share(&mut world, 2, b"b", 2, 0));
    unshare(&world, 1, b"a", 1, 2);
    granted(&share(&mut world, 2, b"b", 2, 0));
    // read and write access of A's third open is left
    denied(&share(&mut world, 2, b"b", 2, 1));
}

#[test]
fn every_limit_is_enforced() {
    let small = Limits {
        ranges_per_file: 10,
        ranges_per_owner: 6,
        ranges_per_host: 8,
        ranges: 14,
        waiters_per_file: 2,
        waiters: 3,
        shares_per_file: 2,
        opens_per_share: 3,
        hosts: 5,
        files: 6,
        ..Limits::default()
    };
    let room = |plan: &Plan| match plan {
        Plan::Granted => true,
        Plan::NoRoom => false,
        other => panic!("{other:?}"),
    };
    // how many single bytes an owner gets in one file, a host's owners in two, all owners in one, all in all
    let fill = |world: &mut World, owner: Owner, number: u8, at: u64| {
        (0..20)
            .filter(|n| {
                room(&world.lock(
                    owner,
                    file(number),
                    range(at + n * 2, at + n * 2),
                    Mode::Read,
                    How::Try,
                ))
            })
            .count()
    };
    let mut world = World::with_limits(false, small.clone());
    assert_eq!(fill(&mut world, A, 0, 0), 5);
    assert_eq!(fill(&mut world, (1, 11), 1, 0), 2, "the host's limit");
    assert_eq!(fill(&mut world, B, 0, 1), 4, "the file's limit");
    assert_eq!(fill(&mut world, C, 1, 0), 2, "the limit of all");
    // UNLOCK must not make ranges without end either
    let mut world = World::with_limits(
        false,
        Limits { ranges_per_owner: 99, ranges_per_host: 99, ..small.clone() },
    );
    granted(&world.lock(A, file(0), range(0, 60), Mode::Write, How::Try));
    let cuts = (1..30).filter(|n| room(&world.unlock(A, file(0), range(n * 2, n * 2)))).count();
    assert_eq!(cuts, 9);
    granted(&world.unlock(A, file(0), ALL));
    // waiting requests: in a file, in all; beyond that they are denied
    let mut world = World::with_limits(false, small.clone());
    for number in 0..2 {
        granted(&world.lock(A, file(number), ALL, Mode::Write, How::Try));
    }
    let mut wait = |number, svid| {
        let how = How::Wait(Tag(u64::from(number) * 100 + svid as u64));
        matches!(world.lock((2, svid), file(number), ALL, Mode::Write, how), Plan::Blocked(_))
    };
    let waiting: Vec<bool> =
        [(0, 1), (0, 2), (0, 3), (1, 1), (1, 2)].map(|(f, s)| wait(f, s)).into();
    assert_eq!(waiting, [true, true, false, true, false]);
    // shares
    let mut world = World::with_limits(false, small.clone());
    let shares: Vec<bool> = [b"a", b"a", b"a", b"a", b"b", b"c"]
        .iter()
        .map(|oh| room(&share(&mut world, 1, *oh, 1, 0)))
        .collect();
    assert_eq!(shares, [true, true, true, false, true, false]);
    // files
    let mut world = World::with_limits(false, small.clone());
    let files =
        (0..9).filter(|n| room(&world.lock(A, file(*n), range(0, 0), Mode::Read, How::Try)));
    assert_eq!(files.count(), 6);
    // hosts: one that has nothing makes place for another, one that holds something does not
    let mut world = World::with_limits(false, small);
    (1..=5).for_each(|host| assert!(world.try_host(host).is_ok()));
    granted(&world.lock((2, 1), file(0), ALL, Mode::Read, How::Try));
    (6..=9).for_each(|host| assert!(world.try_host(host).is_ok()));
    assert!(world.state.host_rows(Now(0)).iter().any(|row| row.info.addr == address(2)));
    (6..=9).for_each(|host| {
        granted(&world.lock((host, 1), file(0), ALL, Mode::Read, How::Try));
    });
    assert!(world.try_host(10).is_err());
}
