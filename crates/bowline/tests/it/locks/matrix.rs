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
enum LetsGo {
    Unlock,
    Close,
    Kill,
    /// The machine goes off, and says that it was off when it is on again.
    PowerOff,
}

const LETS_GO: [LetsGo; 4] = [LetsGo::Unlock, LetsGo::Close, LetsGo::Kill, LetsGo::PowerOff];

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
    fn let_go(&mut self, a: &mut Locker, how: LetsGo) {
        match how {
            LetsGo::Unlock => a.unlock(),
            LetsGo::Kill if !a.is_client() => a.end_and_begin(),
            LetsGo::Close | LetsGo::Kill => a.close(),
            LetsGo::PowerOff => {
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
        (asks, lets_go): (Asks, LetsGo),
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
        self.let_go(a, lets_go);
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
        let has = |lets_go: &LetsGo| holds.is_client() || *lets_go != LetsGo::PowerOff;
        for lets_go in LETS_GO.into_iter().filter(has) {
            for (held, wanted) in [(true, true), (true, false), (false, true), (false, false)] {
                if !full && lets_go != LetsGo::Unlock && (held, wanted) != (true, true) {
                    continue;
                }
                for asks in ASKS {
                    let what = format!(
                        "{holds:?} holds (write: {held}), {asked:?} wants (write: {wanted}), \
                         {asks:?}, {lets_go:?}"
                    );
                    let (a, b) = ((&mut a, held), (&mut b, wanted));
                    matrix.cell(a, b, (asks, lets_go), &what);
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
