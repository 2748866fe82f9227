//! One host takes all that it gets, of each thing that there is a limit of; another then gets its own at once.

use crate::cases::granted;
use crate::world::{World, address, file, range};
use bowline_state::{
    ByteRange, How, Limits, Mode, Plan, ShareBits, ShareMode, ShareOwner, ShareRequest, Tag,
};

const ALL: ByteRange = ByteRange::ALL;

fn limits() -> Limits {
    Limits {
        ranges_per_file: 40,
        ranges_per_owner: 20,
        entries_per_host_and_file: 30,
        ranges_per_host: 60,
        ranges: 80,
        waiters_per_file: 8,
        waiters_per_host_and_file: 6,
        waiters_per_host: 12,
        waiters: 16,
        shares_per_file: 8,
        shares_per_host_and_file: 6,
        files_per_host: 12,
        files: 16,
        ..Limits::default()
    }
}

/// Does the same with ever another number until there is no room.
fn until_full(mut step: impl FnMut(u8) -> Plan) -> u8 {
    let full = |number: &u8| match step(*number) {
        Plan::Granted | Plan::Blocked(_) => false,
        Plan::NoRoom | Plan::Denied(_) => true,
        other => panic!("{other:?}"),
    };
    (0..=200).find(full).expect("a limit")
}

fn share(world: &mut World, host: u8, number: u8, oh: &[u8]) -> Plan {
    let owner = ShareOwner { host: world.host(host), oh };
    let mode = ShareMode { access: ShareBits::READ, deny: ShareBits::NONE };
    let addr = address(host);
    let request = ShareRequest { owner, addr, mode, reclaim: false, monitored: true, kept: None };
    loop {
        match world.state.share(world.now, &file(number), &request).0 {
            Plan::Record(record) => world.store(&record),
            plan => return plan,
        }
    }
}

#[test]
fn the_ranges_of_a_file() {
    let mut world = World::with_limits(false, limits());
    let each = until_full(|n| {
        let at = u64::from(n) * 2;
        world.lock((1, 10 + i32::from(n / 8)), file(0), range(at, at), Mode::Write, How::Try)
    });
    assert_eq!(each, 29, "a change may cut one range into three");
    for n in 0..3 {
        let at = 100 + n * 2;
        granted(&world.lock((2, 10), file(0), range(at, at), Mode::Write, How::Try));
    }
}

#[test]
fn ranges_that_are_cut_by_unlocking() {
    let mut world = World::with_limits(false, limits());
    for number in 0..2 {
        granted(&world.lock((1, 10), file(number), range(0, 500), Mode::Write, How::Try));
    }
    let first = until_full(|n| {
        let at = 1 + u64::from(n) * 2;
        world.unlock((1, 10), file(0), range(at, at))
    });
    assert_eq!(first, 29, "the file's entries of one host");
    granted(&world.lock((2, 10), file(0), range(600, 900), Mode::Write, How::Try));
    granted(&world.unlock((2, 10), file(0), range(700, 700)));
    until_full(|n| {
        let at = 1 + u64::from(n) * 2;
        world.unlock((1, 10), file(1), range(at, at))
    });
    let mut left = 0;
    for number in 2..5 {
        granted(&world.lock((3, 10), file(number), range(0, 500), Mode::Write, How::Try));
        left += 1;
    }
    assert_eq!(left, 3);
    // what is not cut can always be given back
    granted(&world.unlock((1, 10), file(0), ALL));
}

/// Many files, each cut into little pieces: the limit of a host counts there too.
#[test]
fn the_ranges_of_all_files() {
    let mut world = World::with_limits(false, Limits { ranges_per_owner: 99, ..limits() });
    for number in 0..4 {
        let begun = world.lock((1, 10), file(number), range(0, 500), Mode::Write, How::Try);
        if matches!(begun, Plan::NoRoom) {
            break;
        }
        until_full(|n| {
            let at = 1 + u64::from(n) * 2;
            world.unlock((1, 10), file(number), range(at, at))
        });
    }
    assert!(world.state.totals().ranges <= 60, "{:?}", world.state.totals());
    granted(&world.lock((2, 10), file(9), ALL, Mode::Write, How::Try));
}

#[test]
fn requests_that_wait() {
    let mut world = World::with_limits(false, limits());
    for number in 0..3 {
        granted(&world.lock((9, 10), file(number), ALL, Mode::Write, How::Try));
    }
    let mut wait = |host, svid, number: u8| {
        let tag = Tag(u64::from(host) << 32 | u64::from(number) << 16 | u64::from(svid));
        let how = How::Wait(tag);
        world.lock((host, i32::from(svid)), file(number), ALL, Mode::Write, how)
    };
    assert_eq!(until_full(|svid| wait(1, svid, 0)), 6, "of one file");
    assert!(matches!(wait(2, 1, 0), Plan::Blocked(_)));
    assert_eq!(until_full(|svid| wait(1, svid, 1)), 6, "of another");
    assert_eq!(until_full(|svid| wait(1, svid, 2)), 0, "of all");
    for number in 0..3 {
        assert!(matches!(wait(3, 1, number), Plan::Blocked(_)), "{number}");
    }
}

#[test]
fn shares_and_files() {
    let mut world = World::with_limits(false, limits());
    assert_eq!(until_full(|n| share(&mut world, 1, 0, &[n])), 6, "owners of one file");
    granted(&share(&mut world, 2, 0, b"other"));
    assert_eq!(until_full(|n| share(&mut world, 1, 1 + n, b"x")), 11, "files of one host");
    granted(&share(&mut world, 2, 100, b"other"));
    granted(&world.lock((2, 10), file(101), ALL, Mode::Write, How::Try));
}
