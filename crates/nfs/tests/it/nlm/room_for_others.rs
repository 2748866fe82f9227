//! Clients of version 4.1 that take all that they get of sessions, opens and locks: the next one mounts, opens and locks
//! at its first try.

use super::rig::{Rig, file_in_memory};
use super::version4::{Client, WRITE, compound, create_session};
use proto::nfs4::{Nfsstat4, OpenClaim4, Stateid4};
use state::Limits;
use state::v4::V4Limits;

/// What a server may have, in small, in the proportions that it has by default where memory is scarce.
fn rig() -> Rig {
    let version_4 = V4Limits {
        sessions_per_client: 8,
        sessions: 20,
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
