//! What must hold in every state.

use super::clients::{Client, Env, Open, bytes};
use crate::world::{address, file};
use bowline_state::{FileRow, How, LockRow, Mode};

/// Checks all of it.
pub fn check(env: &Env) {
    let rows = env.state.file_rows(env.now);
    recorded(env, &rows);
    for row in &rows {
        exclusive(row);
        nobody_is_forgotten(env, row);
        released_at_once(env, row);
    }
    beliefs(env, &rows);
    if env.flights.is_empty() {
        at_rest(env, &rows);
    }
}

fn owner(holder: &bowline_state::Holder) -> u8 {
    let oh = holder.who().name();
    oh.last().map_or(9, |digit| digit - b'0')
}

fn conflict(a: &LockRow, b: &LockRow) -> bool {
    a.holder != b.holder && a.mode.conflicts(b.mode) && a.range.overlaps(b.range)
}

/// No two locks exclude each other, tentative ones included.
fn exclusive(row: &FileRow) {
    for (at, lock) in row.locks.iter().enumerate() {
        assert!(!row.locks[..at].iter().any(|other| conflict(lock, other)), "{row:?}");
    }
}

/// Who holds or waits may reclaim after a crash in this moment; the host is known and has a life.
fn recorded(env: &Env, rows: &[FileRow]) {
    if rows.is_empty() {
        return;
    }
    let list = env.recovery.boot_list();
    let may_reclaim = [0, 1].map(|owner| list.contains_key(&Env::host_name(owner)));
    for row in rows {
        let locks = row.locks.iter().map(|lock| &lock.holder);
        for holder in locks.chain(row.waiters.iter().map(|waiter| &waiter.holder)) {
            assert!(may_reclaim[usize::from(owner(holder))], "a grant is not recorded: {row:?}");
            assert!(env.state.host_name(holder.host()).is_some(), "of a life that is over");
        }
    }
}

/// What a client counts on: no more than it asked for last, should that be less than what it holds.
fn counts_on(client: &Client, byte: usize) -> Option<Mode> {
    let asked = match client.open {
        Open::Nothing => None,
        Open::Answer(request) | Open::Grant(request) => Some(request),
    };
    let asked = asked.filter(|request| bytes(request.range).contains(&byte));
    let held = client.held[byte]?;
    Some(asked.map_or(held, |request| request.mode.min(held)))
}

/// What the clients count on does not conflict, and what they need not reclaim is in the table.
fn beliefs(env: &Env, rows: &[FileRow]) {
    for number in 0..2_u8 {
        let row = rows.iter().find(|row| row.file == file(number));
        for byte in 0..2 {
            let clients = [0, 1].map(|owner: usize| &env.clients[owner][usize::from(number)]);
            let counted = clients.map(|client| counts_on(client, byte));
            if let [Some(one), Some(other)] = counted {
                assert!(!one.conflicts(other), "two clients hold byte {byte} of {number}");
            }
            for (of, client) in (0..2_u8).zip(clients) {
                let in_table = row.and_then(|row| table_mode(row, of, byte));
                let lost = !client.lost[byte] && in_table < counted[usize::from(of)];
                assert!(!lost, "a lock of {of} was lost: {row:?}");
            }
        }
    }
}

fn table_mode(row: &FileRow, of: u8, byte: usize) -> Option<Mode> {
    let own = row.locks.iter().filter(|lock| owner(&lock.holder) == of);
    let held = own.filter(|lock| lock.tentative_ms.is_none() && bytes(lock.range).contains(&byte));
    held.map(|lock| lock.mode).max()
}

/// A client that waits for a grant is in the queue, or is about to be told.
fn nobody_is_forgotten(env: &Env, row: &FileRow) {
    let number = usize::from(*row.file.bytes().last().unwrap());
    for files in &env.clients {
        let Open::Grant(request) = files[number].open else { continue };
        let How::Wait(tag) = request.how else { continue };
        let waits = row.waiters.iter().any(|waiter| waiter.tag == tag);
        let told = env.tells.iter().any(|(other, _)| *other == tag);
        assert!(waits || told, "a request is lost: {request:?} {row:?}");
    }
}

/// Where the kernel is not being asked it shows no more than is held: what was given back is free for local programs.
fn released_at_once(env: &Env, row: &FileRow) {
    let number = usize::from(*row.file.bytes().last().unwrap());
    for byte in
        (0..2).filter(|byte| !row.asked.iter().any(|(extent, _)| bytes(*extent).contains(byte)))
    {
        let strongest = (0..2).filter_map(|of| table_mode(row, of, byte)).max();
        assert!(env.shown[number][byte] <= strongest, "byte {byte} is still shown: {row:?}");
    }
}

/// Nothing is under way: nothing is tentative, the kernel shows exactly the strongest mode held, and whoever waits has
/// somebody in the way.
fn at_rest(env: &Env, rows: &[FileRow]) {
    for number in 0..2_u8 {
        let row = rows.iter().find(|row| row.file == file(number));
        for byte in 0..2 {
            let strongest =
                row.and_then(|row| (0..2).filter_map(|of| table_mode(row, of, byte)).max());
            assert_eq!(env.shown[usize::from(number)][byte], strongest, "{row:?}");
        }
        let Some(row) = row else { continue };
        assert!(row.locks.iter().all(|lock| lock.tentative_ms.is_none()), "{row:?}");
        assert!(row.asked.is_empty(), "{row:?}");
        assert!(!(row.locks.is_empty() && row.waiters.is_empty()), "an empty file is left");
        let mut earlier: Vec<LockRow> = Vec::new();
        for waiter in &row.waiters {
            let as_lock = LockRow {
                holder: waiter.holder.clone(),
                range: waiter.range,
                mode: waiter.mode,
                tentative_ms: None,
            };
            let in_the_way = row.locks.iter().chain(&earlier).any(|lock| conflict(lock, &as_lock));
            assert!(in_the_way || waiter.local, "nobody is in the way of {:?}", waiter.tag);
            earlier.push(as_lock);
        }
    }
    for host in env.state.host_rows(env.now) {
        let of = |row: &&FileRow| {
            let locks = row.locks.iter().map(|lock| &lock.holder);
            locks
                .chain(row.waiters.iter().map(|waiter| &waiter.holder))
                .any(|h| h.host() == host.id)
        };
        assert_eq!(host.files, rows.iter().filter(of).count(), "{host:?}");
        let ranges = rows.iter().flat_map(|row| &row.locks);
        assert_eq!(host.ranges, ranges.filter(|lock| lock.holder.host() == host.id).count());
        assert!(host.info.addr == address(0) || host.info.addr == address(1));
    }
}
