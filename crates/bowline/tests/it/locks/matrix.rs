//! A holds, B asks: each way to a lock against each other, in each mode, by each kind of request, until A lets go in each
//! way there is. What must come out is the same for all ways, and follows from the modes.
//!
//! `LOCK_MATRIX=full` has every mode for every way of letting go, and not only write against write for all but unlock.

use super::locker::{LOCK_APIS, Locker, Shared, server};
use proto::nsm::{self, Notify};
use rpc::{AuthSys, Request};
use std::net::{Ipv4Addr, UdpSocket};
use std::time::Duration;
use xdr::Writer;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asks {
    Test,
    Try,
    Wait,
    WaitThenCancel,
}

const ASKS: [Asks; 4] = [Asks::Test, Asks::Try, Asks::Wait, Asks::WaitThenCancel];

/// How A lets go. A client's process that is killed is unlocked by its kernel as one that closes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReleaseBy {
    Unlock,
    Close,
    Kill,
    /// The machine goes off, and says that it was off when it is on again.
    PowerOff,
}

const RELEASES: [ReleaseBy; 4] =
    [ReleaseBy::Unlock, ReleaseBy::Close, ReleaseBy::Kill, ReleaseBy::PowerOff];

/// The machine called `name` has been off.
fn notify(shared: &Shared, name: &[u8], state: i32) {
    // from a port below 1024: of any other nobody is believed
    let mut ports = 600..1024;
    let socket = ports.find_map(|port| UdpSocket::bind((Ipv4Addr::LOCALHOST, port)).ok()).unwrap();
    socket.connect((Ipv4Addr::LOCALHOST, shared.server.port)).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let mut message = Writer::new();
    let (program, version, procedure) = (nsm::PROGRAM, nsm::VERSION, nsm::procedure::NOTIFY);
    let credential = AuthSys::new(name, 0, 0, &[]);
    // a number that no other boot has used: it must not be taken for a call that came again
    let xid = state.unsigned_abs() * 8 + u32::from(name.last().copied().unwrap_or(0) % 8);
    message.put(&Request { xid, program, version, procedure, credential });
    message.put(&Notify { name, state });
    socket.send(message.bytes()).unwrap();
    let _void = socket.recv(&mut [0; 64]).unwrap();
}

struct Matrix<'a> {
    shared: &'a Shared,
    /// The holder's machine.
    name: &'a [u8],
    boots: i32,
    cells: usize,
}

impl Matrix<'_> {
    fn release(&mut self, a: &mut Locker, how: ReleaseBy) {
        match how {
            ReleaseBy::Unlock => a.unlock(),
            ReleaseBy::Kill if !a.is_client() => a.end_and_begin(),
            ReleaseBy::Close | ReleaseBy::Kill => a.close(),
            ReleaseBy::PowerOff => {
                a.end_and_begin();
                self.boots += 1;
                notify(self.shared, self.name, self.boots);
            }
        }
    }

    /// One cell: `held` and `wanted` say whether for writing.
    fn cell(
        &mut self,
        (a, held): (&mut Locker, bool),
        (b, wanted): (&mut Locker, bool),
        (asks, release_by): (Asks, ReleaseBy),
        what: &str,
    ) {
        assert!(a.gets(held), "{what}: there is nobody else");
        let excluded = held || wanted;
        match asks {
            Asks::Test => assert_eq!(b.test(wanted), !excluded, "{what}"),
            Asks::Try => assert_eq!(b.lock(wanted), !excluded, "{what}"),
            Asks::Wait | Asks::WaitThenCancel if !excluded => {
                assert!(b.lock(wanted), "{what}: there is nothing to wait for");
            }
            Asks::Wait => {
                b.begin_waiting(wanted);
                assert!(b.still_waits(wanted), "{what}");
            }
            Asks::WaitThenCancel => {
                b.begin_waiting(wanted);
                b.stop_waiting(wanted);
            }
        }
        self.release(a, release_by);
        match asks {
            Asks::Wait if excluded => b.await_grant(wanted, what),
            Asks::WaitThenCancel if excluded => {
                assert!(a.gets(true), "{what}: nobody was given what nobody wants");
                a.unlock();
            }
            _ => assert!(b.gets(wanted), "{what}: it is free"),
        }
        b.unlock();
        self.cells += 1;
    }
}

/// Who holds and who asks, by the holder's way: each holder has bytes of his own, so that all of them go on at once.
const NAMES: [(&[u8], &[u8]); 6] = [
    (b"holder0", b"asker0"),
    (b"holder1", b"asker1"),
    (b"holder2", b"asker2"),
    (b"holder3", b"asker3"),
    (b"holder4", b"asker4"),
    (b"holder5", b"asker5"),
];

/// All cells of one way to hold; how many there are.
fn cells_of(shared: &Shared, number: usize, full: bool) -> usize {
    let (holds, start) = (LOCK_APIS[number], 100 * (1 + number as u64));
    let (name, asker) = NAMES[number];
    let mut matrix = Matrix { shared, name, boots: 100, cells: 0 };
    let mut a = Locker::new(holds, name, shared, start);
    // of two programs of this machine neither comes by the server
    for asked in LOCK_APIS.into_iter().filter(|asked| holds.is_client() || asked.is_client()) {
        let mut b = Locker::new(asked, asker, shared, start);
        // the machine of a local program is the server's
        let has = |release_by: &ReleaseBy| holds.is_client() || *release_by != ReleaseBy::PowerOff;
        for release_by in RELEASES.into_iter().filter(has) {
            for (held, wanted) in [(true, true), (true, false), (false, true), (false, false)] {
                if !full && release_by != ReleaseBy::Unlock && (held, wanted) != (true, true) {
                    continue;
                }
                for asks in ASKS {
                    let what = format!(
                        "{holds:?} holds (write: {held}), {asked:?} wants (write: {wanted}), \
                         {asks:?}, {release_by:?}"
                    );
                    let (a, b) = ((&mut a, held), (&mut b, wanted));
                    matrix.cell(a, b, (asks, release_by), &what);
                }
            }
        }
    }
    matrix.cells
}

#[test]
fn a_held_lock_excludes_all_others_until_it_is_released() {
    let Some(shared) = server() else { return };
    let full = std::env::var("LOCK_MATRIX").is_ok_and(|which| which == "full");
    let cells: Vec<usize> = std::thread::scope(|scope| {
        let shared = &shared;
        let start = |number| scope.spawn(move || cells_of(shared, number, full));
        let threads: Vec<_> = (0..LOCK_APIS.len()).map(start).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let (client, program) = if full { (6 * 64, 4 * 48) } else { (6 * 28, 4 * 24) };
    assert_eq!(cells, LOCK_APIS.map(|holds| if holds.is_client() { client } else { program }));
    assert_eq!(shared.rows().as_array().unwrap().len(), 0, "nothing stays behind");
}
