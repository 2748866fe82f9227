//! What many hosts, and hosts with many locks, cost at the most: entries, and bytes of memory for each.

use crate::world::{World, file, range};
use allocation_counter::measure;
use bowline_state::{
    ByteRange, Caller, FileKey, HostId, HostRemoval, How, LockRequest, Mode, NotIdentified, Now,
    Plan, Record, Records, Recovery, State, Transport, Who,
};
use std::net::{IpAddr, Ipv4Addr};

/// Hosts that come back at once.
const HOSTS: u32 = 10_000;
/// Bytes that one lock may cost, beside its file.
const LOCK_BYTES: i64 = 150;
/// Bytes that a host with one lock in a file of its own may cost.
const HOST_BYTES: i64 = 1600;

#[test]
fn a_host_may_hold_65536_locks_and_no_more() {
    let mut world = World::new(false);
    let mut held = 0;
    let taken = measure(|| {
        // eight owners in eight files: what one owner or one file may have is not reached
        'all: for number in 0..9 {
            for at in 0..8190 {
                let bytes = range(at * 2, at * 2);
                match world.lock((1, 10 + number), file(number as u8), bytes, Mode::Write, How::Try)
                {
                    Plan::Granted => held += 1,
                    Plan::NoRoom => break 'all,
                    other => panic!("{other:?}"),
                }
            }
        }
    });
    // a change may cut one range into three
    assert_eq!(held, 65_535);
    let each = taken.bytes_current / i64::from(held);
    println!("{each} bytes for each of {held} locks of a host");
    assert!(each <= LOCK_BYTES, "{each}");
    let another = world.lock((2, 10), file(0), range(1, 1), Mode::Write, How::Try);
    assert!(matches!(another, Plan::Granted), "nobody else is affected: {another:?}");
    // looking is as cheap as it was: nothing is allocated
    let looked = measure(|| {
        let denied = world.state.test(
            &file(3),
            &Who::Nlm { host: world.host(2), svid: 1, oh: b"x" },
            range(4001, 4002),
            Mode::Write,
        );
        assert!(format!("{denied:?}").contains("Held"));
    });
    assert!(looked.count_total < 40, "{looked:?}");
    let HostRemoval::Record(record) = world.state.release_host(world.now, world.host(1)) else {
        panic!("it was recorded")
    };
    world.store(&record);
    assert_eq!((world.state.totals().ranges, world.state.totals().files), (1, 1));
}

fn address(number: u32) -> IpAddr {
    IpAddr::V4(Ipv4Addr::from(0x0a00_0000 + number))
}

fn identify(state: &State, now: Now, number: u32) -> Result<HostId, NotIdentified> {
    state.identify(
        now,
        &Caller {
            addr: address(number),
            name: format!("host{number}").as_bytes(),
            local: address(0x00ff_0000),
            nlm_version: 4,
            transport: Transport::Udp,
            nsm_state: 1,
        },
    )
}

/// Asks for the one byte that a host has in a file of its own, storing what is to be stored.
fn lock(state: &State, now: Now, number: u32, how: How, stored: &mut Vec<Record>) -> Plan {
    let key = FileKey::new(&number.to_be_bytes()).unwrap();
    loop {
        let host = identify(state, now, number).unwrap();
        let request = LockRequest {
            who: Who::Nlm { host, svid: 1, oh: b"1@host" },
            range: ByteRange::new(0, 0).unwrap(),
            mode: Mode::Write,
            how,
            local: false,
            monitored: true,
            kept: None,
        };
        let (plan, effects) = state.lock(now, &key, &request);
        assert!(effects.is_empty());
        match plan {
            Plan::Record(record) => {
                let effects = state.persisted(now, &record);
                assert!(effects.is_empty());
                stored.push(record);
            }
            plan => return plan,
        }
    }
}

fn granted(plan: &Plan) {
    assert!(matches!(plan, Plan::Granted), "{plan:?}");
}

/// The server that starts after these records.
fn started(stored: &mut Vec<Record>) -> State {
    let mut bytes = Vec::new();
    stored.iter().for_each(|record| record.encode(&mut bytes));
    println!("{} bytes of records", bytes.len());
    let recovery = Recovery::of(Records::new(&bytes));
    stored.extend(recovery.start_records());
    State::new(&recovery, Now(0), bowline_state::Limits::default(), 1)
}

#[test]
fn ten_thousand_hosts_reclaim_at_once() {
    let mut stored = Recovery::default().start_records();
    let mut state = State::new(&Recovery::default(), Now(0), bowline_state::Limits::default(), 1);
    let taken = measure(|| {
        let mut records = Vec::with_capacity(HOSTS as usize);
        for number in 0..HOSTS {
            granted(&lock(&state, Now(1), number, How::Try, &mut records));
        }
        stored.append(&mut records);
    });
    let each = taken.bytes_current / i64::from(HOSTS);
    println!("{each} bytes for each of {HOSTS} hosts with a lock in a file of its own");
    assert!(each <= HOST_BYTES, "{each}");

    // twice: the second crash comes in the grace period, when half of them are back
    for back in [HOSTS / 2, HOSTS] {
        state = started(&mut stored);
        assert_eq!(state.hosts_to_notify().len(), HOSTS as usize);
        let stranger = lock(&state, Now(1), HOSTS, How::Try, &mut stored);
        assert!(matches!(stranger, Plan::Grace), "{stranger:?}");
        for number in 0..back {
            granted(&lock(&state, Now(1), number, How::Reclaim, &mut stored));
        }
        assert_eq!(state.hosts_to_notify().len(), (HOSTS - back) as usize);
    }
    // all are back, and ten seconds are quiet
    assert!(state.in_grace(Now(10_000)));
    let (record, _) = state.tick(Now(10_001), 1);
    let effects = state.persisted(Now(10_001), &record.unwrap());
    assert!(effects.is_empty() && state.grace_is_over());
    assert_eq!((state.totals().hosts, state.totals().ranges), (10_001, 10_000));
    granted(&lock(&state, Now(10_002), HOSTS, How::Try, &mut stored));
}

#[test]
fn hosts_beyond_the_limit_are_refused_and_those_that_hold_nothing_go() {
    let state = State::new(&Recovery::default(), Now(0), bowline_state::Limits::default(), 1);
    let mut stored = Vec::new();
    let most = bowline_state::Limits::default().hosts as u32;
    for number in 0..most {
        granted(&lock(&state, Now(1), number, How::Try, &mut stored));
    }
    assert_eq!(identify(&state, Now(2), most), Err(NotIdentified::NoRoom));
    let recorded = identify(&state, Now(2), 7).unwrap();
    let HostRemoval::Record(record) = state.release_host(Now(2), recorded) else { panic!() };
    let _none = state.persisted(Now(2), &record);
    assert!(identify(&state, Now(3), most).is_ok());
    // it holds nothing and was not recorded: it makes place
    assert!(identify(&state, Now(4), most + 1).is_ok());
    assert_eq!(state.totals().hosts, most as usize);
}

#[test]
fn a_host_is_not_recorded_for_a_lock_that_it_does_not_get() {
    let mut world = World::new(false);
    let denied = |plan: Plan| assert!(matches!(plan, Plan::Denied(_)), "{plan:?}");
    let all = ByteRange::ALL;
    for host in 1..=2 {
        granted(&world.lock((host, 1), file(host), all, Mode::Write, How::Try));
    }
    let recorded = world.stored.len();
    denied(world.lock((3, 1), file(1), all, Mode::Write, How::Try));
    assert_eq!(world.stored.len(), recorded, "a stranger that gets nothing");

    world.restart();
    granted(&world.lock((1, 1), file(1), all, Mode::Write, How::Reclaim));
    let recorded = world.stored.len();
    // it says that it held what another has taken back
    denied(world.lock((2, 1), file(1), all, Mode::Write, How::Reclaim));
    assert_eq!(world.stored.len(), recorded, "it got nothing back");
    let row = |world: &World, host| {
        let rows = world.state.host_rows(world.now);
        rows.iter().any(|row| row.info.addr == crate::world::address(host) && row.recorded)
    };
    assert!(row(&world, 1) && !row(&world, 2));
    // the grace period is over: whoever got nothing back has nothing to reclaim after the next restart
    world.tick(60_000);
    assert!(world.state.grace_is_over());
    granted(&world.lock((3, 1), file(2), all, Mode::Write, How::Try));
    world.restart();
    let lost = world.lock((2, 1), file(2), all, Mode::Write, How::Reclaim);
    assert!(matches!(lost, Plan::NoGrace), "{lost:?}");
    granted(&world.lock((3, 1), file(2), all, Mode::Write, How::Reclaim));
}
