//! Clients of version 4 that take all that they get of sessions, opens and locks: the next one mounts, opens and locks
//! at its first try.

use super::rig::{Rig, file_in_memory};
use super::version4::{Client, WRITE, compound, compound_of, create_session, exchange_id, oper};
use proto::layout::Bytes;
use proto::nfs4::{ClientAddr4, Nfsstat4, OpenClaim4, SetclientidArgs, Stateid4, op};
use state::Limits;
use state::v4::V4Limits;

/// What a server may have, in small, in the proportions that it has by default where memory is scarce.
fn rig() -> Rig {
    let version_4 = V4Limits {
        sessions_per_client: 8,
        sessions: 24,
        slots: 8,
        slots_in_all: 32,
        opens: 128,
        opens_per_client: 64,
        opens_when_scarce: 2,
        ..V4Limits::default()
    };
    let limits = Limits {
        ranges_per_file: 64,
        ranges_per_owner: 16,
        entries_per_host_and_file: 48,
        ranges_per_host: 64,
        ranges: 1024,
        ..Limits::default()
    };
    Rig::with_limits(file_in_memory(), limits, version_4)
}

/// Takes one more of something until that is refused; how many there are.
fn until_refused(mut take: impl FnMut(u32) -> Result<(), Nfsstat4>) -> (u32, Nfsstat4) {
    let refused = |number| take(number).err().map(|why| (number, why));
    (0..10_000).find_map(refused).expect("a limit")
}

/// Takes all sessions and all opens, with their owners in one file.
fn greedy<'r>(rig: &'r Rig, name: &[u8]) -> (Client<'r>, Vec<Stateid4>, u32) {
    let client = Client::new(rig, name, 1);
    let (sessions, _) =
        until_refused(|number| match compound(rig, &[create_session(client.id, 2 + number)]).0 {
            Nfsstat4::Ok => Ok(()),
            why => Err(why),
        });
    let mut opened = Vec::new();
    let (opens, why) = until_refused(|number| {
        opened.push(client.claim(&number.to_be_bytes(), (3, 0), OpenClaim4::Fh)?);
        Ok(())
    });
    assert_eq!(why, Nfsstat4::Delay, "{opens} opens");
    (client, opened, sessions + 1)
}

/// Takes all locks of the file, with as many owners as it needs.
fn lock_all(client: &Client<'_>, open: Stateid4) -> u32 {
    let (locks, why) = until_refused(|number| {
        let range = (u64::from(number) * 2, 1);
        client.lock(open, &(number / 8).to_be_bytes(), WRITE, range).map(|_| ())
    });
    assert_eq!(why, Nfsstat4::Delay, "{locks} locks");
    locks
}

/// What any client needs, at the first try.
fn works(rig: &Rig, name: &[u8]) {
    let client = Client::new(rig, name, 1);
    let open = client.claim(b"o", (3, 0), OpenClaim4::Fh).unwrap();
    let lock = client.lock(open, b"l", WRITE, (1_000_000 + u64::from(name[0]), 1)).unwrap();
    client.unlock(lock, (0, u64::MAX)).unwrap();
    assert_eq!(client.close(open), Nfsstat4::Ok);
}

#[test]
fn one_client_that_takes_all_leaves_room_for_the_next() {
    let rig = rig();
    let (first, opened, sessions) = greedy(&rig, b"1");
    let locks = lock_all(&first, opened[0]);
    assert_eq!((sessions, opened.len()), (8, 64));
    assert!((40..=48).contains(&locks), "{locks}");
    works(&rig, b"5");
    // a second of that kind gets what the first has left, and a third client still works
    let (_second, opened, sessions) = greedy(&rig, b"2");
    assert!(sessions == 8 && opened.len() < 64, "{sessions} {}", opened.len());
    works(&rig, b"6");
}

fn setclientid(name: &[u8]) -> Vec<u8> {
    let cb_location = ClientAddr4 { netid: Bytes(b"tcp"), addr: Bytes(b"127.0.0.1.3.132") };
    let (verifier, id, cb_program) = ([1; 8], Bytes(name), 0x4000_0000);
    let args = SetclientidArgs { verifier, id, cb_program, cb_location, callback_ident: 1 };
    oper(op::SETCLIENTID, &args)
}

/// As containers do that are killed with a file open, each with a name of its own.
#[test]
fn silent_clients_make_room_for_new_ones() {
    let lease_ms = 2000;
    let version_4 = V4Limits { lease_ms, clients: 8, ..V4Limits::default() };
    let rig = Rig::with_limits(file_in_memory(), Limits::default(), version_4);
    let opens = |name: u32| {
        let client = Client::new(&rig, &name.to_be_bytes(), 1);
        client.claim(b"o", (3, 0), OpenClaim4::Fh).unwrap();
        client
    };
    let gone: Vec<_> = (0..6).map(opens).collect();
    assert_eq!(
        compound(&rig, &[exchange_id(b"more", 1)]).0,
        Nfsstat4::Delay,
        "six of eight are for one host"
    );
    rig.nfs.clock.advance_ms(lease_ms + 2000);
    let lives = opens(100);
    assert_eq!(gone[5].call(&[]).0, Nfsstat4::BadSession);
    assert_eq!(lives.call(&[]).0, Nfsstat4::Ok);
    let gone: Vec<_> = (101..106).map(opens).collect();
    let of_minor0 = || compound_of(0, &rig, &[setclientid(b"more")]).0;
    assert_eq!(of_minor0(), Nfsstat4::Delay);
    rig.nfs.clock.advance_ms(lease_ms + 2000);
    assert_eq!(of_minor0(), Nfsstat4::Ok);
    assert_eq!(gone[0].call(&[]).0, Nfsstat4::BadSession);
}
