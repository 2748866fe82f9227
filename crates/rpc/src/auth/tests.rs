//! The flavours' verdicts, and the table while calls run.

use super::{Acceptance, AddError, AuthTable, CallMessage, Flavor, NotAccepted};
use crate::{AuthSys, Credential, Transport, TransportSecurity};
use proto::rpc::{AuthStat, CallHeader, OpaqueAuth};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use xdr::{Reader, Writer};

const GSS: u32 = 6;

fn ask(table: &AuthTable, flavor: u32, body: &[u8]) -> Result<(), AuthStat> {
    accept(table, OpaqueAuth { flavor, body }, OpaqueAuth::NONE, |_| ())
}

/// What `of` makes of who calls with this credential and verifier.
fn accept<T>(
    table: &AuthTable,
    credential: OpaqueAuth<'_>,
    verifier: OpaqueAuth<'_>,
    of: impl FnOnce(Credential<'_>) -> T,
) -> Result<T, AuthStat> {
    let (xid, program, version, procedure) = (1, 2, 3, 4);
    let header = CallHeader { xid, program, version, procedure, credential, verifier };
    let args = Reader::new(&[]);
    let message = CallMessage {
        header,
        args,
        record: &[],
        transport: Transport::Tcp,
        security: TransportSecurity::PLAIN,
    };
    match table.accept(&message) {
        Ok(Acceptance::Plain(credential)) => Ok(of(credential)),
        Err(NotAccepted::Denied(stat)) => Err(stat),
        Ok(Acceptance::Protected(_)) | Err(_) => panic!("neither plain nor denied"),
    }
}

fn sys_body() -> Vec<u8> {
    let mut w = Writer::new();
    w.put(&AuthSys::new(b"box", 7, 8, &[9]).unwrap().parms(1));
    w.bytes().to_vec()
}

#[test]
fn auth_none_accepts_any_body() {
    let table = AuthTable::default();
    for body in [&b""[..], b"four"] {
        let none = OpaqueAuth { flavor: 0, body };
        let verifier = OpaqueAuth { flavor: 0, body };
        let anonymous = accept(&table, none, verifier, |c| c == Credential::Anonymous);
        assert_eq!(anonymous, Ok(true));
    }
}

#[test]
fn auth_sys_is_read_to_its_end() {
    let table = AuthTable::default();
    let body = sys_body();
    let sys = OpaqueAuth { flavor: 1, body: &body };
    let expected = AuthSys::new(b"box", 7, 8, &[9]).unwrap();
    let as_sent = accept(&table, sys, OpaqueAuth::NONE, |c| c == Credential::Sys(expected));
    assert_eq!(as_sent, Ok(true));
    let longer = [&body[..], &[0; 4]].concat();
    assert_eq!(ask(&table, 1, &longer), Err(AuthStat::BadCred));
    for len in 0..body.len() {
        assert_eq!(ask(&table, 1, &body[..len]), Err(AuthStat::BadCred));
    }
}

#[test]
fn verifiers_must_be_auth_none() {
    let table = AuthTable::default();
    let body = sys_body();
    let verifier = OpaqueAuth { flavor: 1, body: &body };
    for flavor in [0, 1] {
        let credential = OpaqueAuth { flavor, body: &body };
        assert_eq!(accept(&table, credential, verifier, |_| ()), Err(AuthStat::BadVerf));
    }
}

#[test]
fn unknown_flavours_are_bad_and_shorthands_are_rejected() {
    let table = AuthTable::default();
    for flavor in [3, 4, 5, GSS, 7, 8, 9, 390_003, u32::MAX] {
        assert_eq!(ask(&table, flavor, b""), Err(AuthStat::BadCred));
    }
    assert_eq!(ask(&table, 2, b"shorthand"), Err(AuthStat::RejectedCred));
}

/// Stays inside until told to leave, and knows how many calls are inside.
struct Slow {
    inside: Arc<AtomicUsize>,
    leave: Arc<AtomicBool>,
    entered: Arc<Barrier>,
}

impl Flavor for Slow {
    fn number(&self) -> u32 {
        GSS
    }

    fn accept<'a>(&self, _: &CallMessage<'a>) -> Result<Acceptance<'a>, NotAccepted> {
        self.inside.fetch_add(1, Ordering::SeqCst);
        self.entered.wait();
        while !self.leave.load(Ordering::SeqCst) {
            std::thread::yield_now();
        }
        self.inside.fetch_sub(1, Ordering::SeqCst);
        Ok(Acceptance::Plain(Credential::Anonymous))
    }
}

struct Numbered(u32);

impl Flavor for Numbered {
    fn number(&self) -> u32 {
        self.0
    }

    fn accept<'a>(&self, _: &CallMessage<'a>) -> Result<Acceptance<'a>, NotAccepted> {
        Ok(Acceptance::Plain(Credential::Anonymous))
    }
}

#[test]
fn removal_waits_for_the_last_call_even_through_an_older_table() {
    let table = AuthTable::default();
    let (inside, leave) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    let entered = Arc::new(Barrier::new(2));
    let slow = Slow { inside: inside.clone(), leave: leave.clone(), entered: entered.clone() };
    table.add(Box::new(slow)).unwrap();
    let removed = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let call = scope.spawn(|| ask(&table, GSS, b""));
        entered.wait();
        // The call reads a table that is now two generations old.
        table.add(Box::new(Numbered(5))).unwrap();
        let remover = scope.spawn(|| {
            let flavor = table.remove(GSS).unwrap();
            assert_eq!(inside.load(Ordering::SeqCst), 0, "a call was still inside");
            removed.store(true, Ordering::SeqCst);
            flavor.number()
        });
        // New calls no longer find it, while the old one is still inside.
        while ask_quick(&table) != Err(AuthStat::BadCred) {
            std::thread::yield_now();
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
        assert!(!removed.load(Ordering::SeqCst));
        leave.store(true, Ordering::SeqCst);
        assert_eq!(remover.join().unwrap(), GSS);
        assert_eq!(call.join().unwrap(), Ok(()));
    });
    assert!(table.remove(GSS).is_none());
    assert_eq!(ask(&table, 5, b""), Ok(()));
}

/// Whether the slow flavour is in the table, without going inside.
fn ask_quick(table: &AuthTable) -> Result<(), AuthStat> {
    match table.slots.load()[GSS as usize] {
        Some(_) => Ok(()),
        None => ask(table, GSS, b""),
    }
}

#[test]
fn numbers_are_checked_when_a_flavour_is_added() {
    let table = AuthTable::default();
    assert_eq!(table.add(Box::new(Numbered(8))), Err(AddError::OutOfRange(8)));
    assert_eq!(table.add(Box::new(Numbered(1))), Err(AddError::NumberInUse(1)));
    table.add(Box::new(Numbered(7))).unwrap();
    assert_eq!(ask(&table, 7, b""), Ok(()));
    assert_eq!(table.remove(7).map(|f| f.number()), Some(7));
    assert!(table.remove(u32::MAX).is_none());
    table.add(Box::new(Numbered(7))).unwrap();
}
