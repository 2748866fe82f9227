//! Share reservations of NLM and opens of version 4 in each other's way, and in that of calls without an open.

use crate::v4_world::{
    ALICE, Answer, Client, EXCLUSIVE, HERE, LEASE, NlmClient, READ, Server, WRITE, conflict,
};
use bowline_state::v4::{OpenError, Stateid};
use bowline_state::{FileKey, HostRemoval, Now, Plan, ShareBits, ShareMode};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};

/// From when on what a host has may be taken that sends no calls.
const SILENT: u64 = 24 * 3_600_000;
const THERE: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2));
const PC: NlmClient = NlmClient { addr: HERE, name: b"pc" };
const OTHER: NlmClient = NlmClient { addr: THERE, name: b"other" };
const MODES: [ShareMode; 4] =
    [READ, WRITE, EXCLUSIVE, ShareMode { access: ShareBits::READ, deny: ShareBits::WRITE }];

fn mode(access: u32, deny: u32) -> ShareMode {
    let bits = |number| ShareBits::from_number(number).unwrap();
    ShareMode { access: bits(access), deny: bits(deny) }
}

fn key(number: u8) -> FileKey {
    FileKey::new(&[number]).unwrap()
}

/// A client that has had something, and is recorded.
fn client(server: &mut Server, name: &[u8]) -> Client {
    let client = server.client(0, name, 1, ALICE);
    server.complete(0, &client);
    server.open_and_close(0, &client);
    client
}

/// What an access without an open comes to.
fn access(server: &Server, now: u64, file: &FileKey, from: Option<IpAddr>) -> [bool; 2] {
    [ShareBits::READ, ShareBits::WRITE]
        .map(|bits| server.v4.check_denied(Now(now), file, bits, from).is_ok())
}

#[test]
fn an_open_and_a_reservation_exclude_each_other_by_their_modes() {
    for (one, other) in MODES.into_iter().flat_map(|one| MODES.map(|other| (one, other))) {
        let expected = if conflict(one, other) { Answer::Denied } else { Answer::Open };
        let mut server = Server::first();
        let opener = client(&mut server, b"a");
        assert_eq!(server.reserve(0, (&PC, opener.file), false, one), Answer::Open);
        assert_eq!(server.open(0, &opener, false, other), expected, "{one:?} and {other:?}");
        let mut server = Server::first();
        let opener = client(&mut server, b"a");
        assert_eq!(server.open(0, &opener, false, one), Answer::Open);
        assert_eq!(server.reserve(0, (&PC, opener.file), false, other), expected);
        assert_eq!(server.reserve(0, (&PC, key(9)), false, other), Answer::Open, "another file");
        assert_eq!(server.locks.totals().hosts, 1);
    }
}

#[test]
fn a_reservation_does_not_deny_the_calls_of_its_own_client() {
    let mut server = Server::first();
    let opener = client(&mut server, b"a");
    let file = opener.file;
    assert_eq!(server.reserve(0, (&PC, file), false, EXCLUSIVE), Answer::Open);
    assert_eq!(access(&server, 0, &file, Some(HERE)), [true; 2]);
    assert_eq!(access(&server, 0, &file, Some(THERE)), [false; 2]);
    assert_eq!(access(&server, 0, &file, None), [false; 2], "special stateids");
    assert_eq!(access(&server, 0, &key(9), None), [true; 2], "another file");
    let leaving = server.locks.free_all(Now(0), server.host(0, &PC));
    assert!(matches!(leaving, HostRemoval::Gone(0, _)));
    assert_eq!(access(&server, 0, &file, Some(THERE)), [true; 2]);
    assert_eq!(server.locks.totals().files, 0);
    // an open is used by its stateid: it denies everybody who has none
    assert_eq!(server.open(0, &opener, false, MODES[3]), Answer::Open);
    assert_eq!(access(&server, 0, &file, Some(HERE)), [true, false]);
    assert_eq!(access(&server, 0, &file, None), [true, false]);
}

/// A client whose lease is over, and a host that was silent for a day, keep what they have until somebody wants it, and also
/// then if a third is in the way.
#[test]
fn the_silent_lose_what_others_want() {
    let mut server = Server::first();
    let (a, b) = (client(&mut server, b"a"), client(&mut server, b"b"));
    let file = a.file;
    assert_eq!(server.open(0, &a, false, MODES[3]), Answer::Open);
    assert_eq!(server.reserve(0, (&PC, file), false, MODES[3]), Answer::Open);
    let later = LEASE + 2000;
    let wanted = |server: &Server, now| server.share(now, &b, false, WRITE);
    let denied = |server: &Server, now| {
        server.v4.check_denied(Now(now), &file, ShareBits::WRITE, Some(THERE))
    };
    // the host calls, the client does not: the client is not ended for what is not granted
    let host = server.host(later, &PC);
    assert_eq!(wanted(&server, later), Err(OpenError::ShareDenied));
    assert_eq!(denied(&server, later), Err(OpenError::ShareDenied));
    assert_eq!(server.v4.open_count(), 1);
    assert_eq!(server.reserve(later, (&OTHER, key(9)), false, READ), Answer::Open);
    assert_eq!(wanted(&server, later + SILENT - 1), Err(OpenError::ShareDenied));
    let over = Err(OpenError::Expired(vec![a.id]));
    assert_eq!(wanted(&server, later + SILENT).map(drop), over);
    assert_eq!(denied(&server, later + SILENT), over);
    server.expire(later + SILENT, a.id);
    assert_eq!(wanted(&server, later + SILENT), Err(OpenError::Silent(host)));
    assert_eq!(denied(&server, later + SILENT), Err(OpenError::Silent(host)));
    let HostRemoval::Record(record) = server.locks.release_host(Now(later + SILENT), host) else {
        panic!("it is recorded");
    };
    server.store(record);
    assert_eq!(denied(&server, later + SILENT), Ok(()));
    assert!(wanted(&server, later + SILENT).is_ok());
    assert!(!server.locks.has_denials());
    // SHARE ends the silent as well
    let now = later + SILENT + LEASE + 2000;
    assert_eq!(server.reserve(now, (&OTHER, file), false, EXCLUSIVE), Answer::Open);
    assert_eq!(server.v4.open_count(), 0);
    let plan = {
        let owner = bowline_state::ShareOwner { host: server.host(now + SILENT, &PC), oh: b"pc" };
        let request = bowline_state::ShareRequest {
            owner,
            addr: HERE,
            mode: READ,
            reclaim: false,
            monitored: false,
            kept: None,
        };
        server.v4.share(Now(now + SILENT), &file, &request).unwrap().0
    };
    assert!(matches!(plan, Plan::Silent(_)), "{plan:?}");
}

/// What is held before a restart is had back by both, and nothing that excludes it meanwhile.
#[test]
fn both_reclaim_what_they_had() {
    let mut server = Server::first();
    let a = client(&mut server, b"a");
    assert_eq!(server.open(0, &a, false, READ), Answer::Open);
    assert_eq!(server.reserve(0, (&PC, a.file), false, READ), Answer::Open);
    assert_eq!(server.reserve(0, (&OTHER, key(9)), false, EXCLUSIVE), Answer::Open);
    server.restart();
    let again = server.client(0, b"a", 1, ALICE);
    assert_eq!(server.reserve(0, (&PC, a.file), false, READ), Answer::Grace);
    assert_eq!(server.open(0, &again, false, READ), Answer::Grace);
    assert_eq!(server.reserve(0, (&PC, a.file), true, MODES[3]), Answer::Open);
    assert_eq!(server.open(0, &again, true, WRITE), Answer::Denied, "not what it had");
    assert_eq!(server.open(0, &again, true, READ), Answer::Open);
    assert_eq!(server.reserve(0, (&OTHER, a.file), true, EXCLUSIVE), Answer::Denied);
    let elsewhere = Client { file: key(9), ..again };
    assert_eq!(server.open(0, &elsewhere, true, READ), Answer::Open, "first come");
    assert_eq!(server.reserve(0, (&OTHER, key(9)), true, EXCLUSIVE), Answer::Denied);
    assert!(server.locks.has_denials());
    server.unreserve(0, (&PC, a.file), MODES[3]);
    assert!(!server.locks.has_denials());
}

/// What somebody has of the file: the modes by which he has it, and the stateid of an open.
type Model = BTreeMap<usize, (Option<Stateid>, Vec<ShareMode>)>;

fn whole(modes: &[ShareMode]) -> ShareMode {
    let all = |of: fn(&ShareMode) -> ShareBits| modes.iter().fold(0, |all, m| all | of(m).number());
    mode(all(|mode| mode.access), all(|mode| mode.deny))
}

proptest! {
    /// Two clients of version 4 and two of version 3 open, narrow, close, reserve and give back, or lose everything.
    #[test]
    fn opens_and_reservations_equal_the_model(
        steps in proptest::collection::vec((0..4_usize, 0..4_u32, 0..4_u32, 0..5_u8), 1..60),
    ) {
        let mut server = Server::first();
        let clients = [client(&mut server, b"a"), client(&mut server, b"b")];
        let hosts = [PC, OTHER];
        let file = clients[0].file;
        let mut model = Model::new();
        for (who, access_bits, deny, what) in steps {
            let wanted = mode(access_bits, deny);
            let own = model.get(&who).cloned().unwrap_or_default();
            let host = who.checked_sub(2).map(|at| hosts[at]);
            match (what, host) {
                (0 | 1, None) if access_bits > 0 => {
                    let denied = model.values().any(|(_, modes)| conflict(whole(modes), wanted));
                    let opened = server.share(0, &clients[who], false, wanted);
                    prop_assert_eq!(opened.is_err(), denied);
                    if let Ok(stateid) = opened {
                        let entry = model.entry(who).or_default();
                        entry.0 = Some(stateid);
                        entry.1.push(wanted);
                    }
                }
                (0 | 1, Some(host)) => {
                    let mut others = model.iter().filter(|(other, _)| **other != who);
                    let denied = others.any(|(_, (_, modes))| conflict(whole(modes), wanted));
                    let answer = server.reserve(0, (&host, file), false, wanted);
                    prop_assert_eq!(answer, if denied { Answer::Denied } else { Answer::Open });
                    if !denied {
                        model.entry(who).or_default().1.push(wanted);
                    }
                }
                (2, None) if let Some(stateid) = own.0 => {
                    let inside = |one: &ShareMode| {
                        one.access.number() & !access_bits == 0 && one.deny.number() & !deny == 0
                    };
                    let left: Vec<_> = own.1.iter().copied().filter(inside).collect();
                    let reading = server.v4.read();
                    let narrowed =
                        server.v4.downgrade(&reading, clients[who].id, (stateid, &file), wanted);
                    let possible = access_bits > 0 && !left.is_empty() && whole(&left) == wanted;
                    prop_assert_eq!(narrowed.is_ok(), possible);
                    if let Ok(stateid) = narrowed {
                        model.insert(who, (Some(stateid), left));
                    }
                }
                (2 | 3, Some(host)) => {
                    server.unreserve(0, (&host, file), wanted);
                    if let Some(at) = own.1.iter().position(|one| *one == wanted) {
                        let (_, modes) = model.get_mut(&who).unwrap();
                        modes.remove(at);
                        if modes.is_empty() {
                            model.remove(&who);
                        }
                    }
                }
                (3, None) if let Some(stateid) = own.0 => {
                    let closed = server.v4.close(&server.v4.read(), clients[who].id, stateid, &file);
                    prop_assert!(closed.is_ok());
                    model.remove(&who);
                }
                (4, Some(host)) => {
                    let _gone = server.locks.free_all(Now(0), server.host(0, &host));
                    model.remove(&who);
                }
                _ => {}
            }
            let denies = |one: &ShareMode, bit: u32| one.deny.number() & bit != 0;
            let any = model.values().any(|(_, modes)| modes.iter().any(|one| denies(one, 3)));
            prop_assert_eq!(server.locks.has_denials(), any);
            for from in [None, Some(HERE), Some(THERE)] {
                let is_own = |who: usize| {
                    who.checked_sub(2).is_some_and(|at| Some(hosts[at].addr) == from)
                };
                let allowed = |bit| {
                    let mut others = model.iter().filter(|(who, _)| !is_own(**who));
                    !others.any(|(_, (_, modes))| denies(&whole(modes), bit))
                };
                prop_assert_eq!(access(&server, 0, &file, from), [allowed(1), allowed(2)]);
            }
        }
    }
}
