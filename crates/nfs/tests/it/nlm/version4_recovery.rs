//! Clients of version 4.1 around a restart of the server, and while the store fails: what is stored, what can be claimed
//! again, what waits.

use super::rig::{A, Rig, Sender, file_in_memory};
use super::version4::{Client, WRITE, compound, nlm_lock, oper};
use crate::support::{certificate, exports};
use export::Options;
use export::exports_file::parse;
use proto::nfs4::{Nfsstat4, OpenClaim4, op};
use proto::nlm::Status;
use rpc::{Principal, PrincipalUser, TransportSecurity};
use state::{Limits, Record, Recovery};
use std::sync::atomic::Ordering::Relaxed;

const CLAIM: OpenClaim4<'static> = OpenClaim4::Previous(0);

fn clients_stored(rig: &Rig) -> usize {
    let stored = rig.store.stored.lock().unwrap();
    stored.iter().filter(|record| matches!(record, Record::Client(_))).count()
}

#[test]
fn a_client_is_recorded_before_its_first_open() {
    let rig = Rig::over(file_in_memory());
    let client = Client::before_reclaim(&rig, b"one", 1);
    assert_eq!(client.claim(b"o", (3, 0), OpenClaim4::Fh), Err(Nfsstat4::Grace));
    assert_eq!(client.claim(b"o", (3, 0), CLAIM), Err(Nfsstat4::NoGrace));
    rig.store.broken.store(true, Relaxed);
    assert_eq!(client.complete(), Nfsstat4::Ok);
    assert_eq!(client.complete(), Nfsstat4::CompleteAlready);
    assert_eq!(client.claim(b"o", (3, 0), OpenClaim4::Fh), Err(Nfsstat4::Delay));
    rig.store.broken.store(false, Relaxed);
    assert_eq!(clients_stored(&rig), 0, "a mount alone is not recorded");
    client.open(b"o", 3);
    assert_eq!(clients_stored(&rig), 1);
    client.open(b"p", 3);
    assert_eq!(clients_stored(&rig), 1, "once, as long as it has something");
}

#[test]
fn what_was_reclaimed_is_recorded_before_reclaim_complete_is_answered() {
    let rig = Rig::over(file_in_memory());
    Client::new(&rig, b"one", 1).open(b"o", 3);
    let rig = rig.restarted();
    let client = Client::before_reclaim(&rig, b"one", 1);
    client.claim(b"o", (3, 0), CLAIM).unwrap();
    assert_eq!(clients_stored(&rig), 1, "the record of before stands for it");
    rig.store.broken.store(true, Relaxed);
    assert_eq!(client.complete(), Nfsstat4::Delay);
    rig.store.broken.store(false, Relaxed);
    assert_eq!(client.complete(), Nfsstat4::Ok);
    assert_eq!(clients_stored(&rig), 2);
    // a crash now, before anybody else has been granted anything: it reclaims once more
    let rig = rig.restarted();
    let client = Client::before_reclaim(&rig, b"one", 1);
    client.claim(b"o", (3, 0), CLAIM).unwrap();
}

/// What sends the requests of a client.
#[derive(Debug, Clone, Copy)]
enum By {
    /// AUTH_SYS without TLS.
    Plain,
    /// AUTH_SYS through TLS, without a certificate.
    Tls,
    /// A machine with a certificate of this name and series.
    Machine(&'static str, u8),
    /// A principal, by the pseudo-flavour of one of the services.
    Kerberos(&'static str, u32),
}

/// The same client name and verifier from somebody else are another client: it reclaims nothing (RFC 8881 §8.4.2.1).
#[test]
fn only_the_same_principal_and_machine_reclaim() {
    let parsed = parse(b"/x *(sec=sys:krb5:krb5i:krb5p)");
    let flavors = parsed.entries[0].rules[0].options.flavors;
    let options = Options { flavors, ..exports::RW };
    for (before, after, may) in [
        (By::Plain, By::Plain, true),
        (By::Plain, By::Kerberos("root@LAB.TEST", 390_003), false),
        (By::Kerberos("root@LAB.TEST", 390_003), By::Kerberos("root@LAB.TEST", 390_005), true),
        (By::Kerberos("root@LAB.TEST", 390_005), By::Kerberos("other@LAB.TEST", 390_005), false),
        (By::Kerberos("root@LAB.TEST", 390_004), By::Plain, false),
        (By::Tls, By::Plain, true),
        (By::Machine("one.lab", 1), By::Machine("one.lab", 2), true),
        (By::Machine("one.lab", 1), By::Machine("two.lab", 1), false),
        (By::Machine("one.lab", 1), By::Tls, false),
        (By::Machine("one.lab", 1), By::Plain, false),
        (By::Plain, By::Machine("one.lab", 1), false),
    ] {
        let mut held = Vec::new();
        let mut sender = |rig: &Rig, by| {
            let (mut principal, mut security) = (None, TransportSecurity::PLAIN);
            match by {
                By::Plain => {}
                By::Tls => security = TransportSecurity::TLS,
                By::Machine(name, series) => {
                    let certificates = rig.nfs.exports.certificates();
                    let certificate = certificates.hold(certificate(name, series)).unwrap();
                    security = TransportSecurity::of_certificate(certificate.id());
                    held.push(certificate);
                }
                By::Kerberos(name, flavor) => {
                    let user = Some(PrincipalUser { uid: 0, gid: 0, groups: Box::default() });
                    principal = Some(Principal { flavor, name: name.as_bytes().into(), user });
                }
            }
            Sender { principal, security }
        };
        let limits = Limits::default();
        let mut rig = Rig::with(file_in_memory(), options, &Recovery::default(), limits);
        rig.sender = sender(&rig, before);
        Client::new(&rig, b"one", 1).open(b"o", 3);
        let mut rig = rig.restarted();
        rig.sender = sender(&rig, after);
        let claimed = Client::before_reclaim(&rig, b"one", 1).claim(b"o", (3, 0), CLAIM);
        let refused = claimed.err();
        assert_eq!(refused, (!may).then_some(Nfsstat4::NoGrace), "{before:?} {after:?}");
    }
}

#[test]
fn no_grace_period_waits_for_a_client_that_has_had_nothing_for_a_while() {
    let rig = Rig::over(file_in_memory());
    let one = Client::new(&rig, b"one", 1);
    let opened = one.open(b"o", 3);
    assert_eq!(one.close(opened), Nfsstat4::Ok);
    for _ in 0..4 {
        // its lease is renewed, it is there
        rig.nfs.clock.advance_ms(rig.nfs.v4.state.lease_ms() / 2 + 2000);
        assert_eq!(one.call(&[]).0, Nfsstat4::Ok);
        rig.nlm().tick();
    }
    let rig = rig.restarted();
    assert!(rig.nfs.state.grace_is_over(), "{:?}", rig.store.stored.lock().unwrap());
    let one = Client::new(&rig, b"one", 1);
    one.open(b"o", 3);
    assert_eq!(clients_stored(&rig), 2, "recorded again before it had something");
    for _ in 0..4 {
        rig.nfs.clock.advance_ms(rig.nfs.v4.state.lease_ms() / 2 + 2000);
        assert_eq!(one.call(&[]).0, Nfsstat4::Ok);
        rig.nlm().tick();
    }
    let rig = rig.restarted();
    let one = Client::before_reclaim(&rig, b"one", 1);
    one.claim(b"o", (3, 0), CLAIM).unwrap();
}

#[test]
fn opens_and_locks_are_reclaimed_after_a_restart() {
    let rig = Rig::over(file_in_memory());
    let one = Client::new(&rig, b"one", 1);
    Client::new(&rig, b"two", 1).open(b"t", 1);
    let stateid = one.claim(b"o", (3, 2), OpenClaim4::Fh).unwrap();
    let lock = one.lock(stateid, b"p", WRITE, (0, 10)).unwrap();
    let rig = rig.restarted();
    assert_eq!(one_session_is_bad(&rig, &one), Nfsstat4::StaleClientid);
    let again = Client::before_reclaim(&rig, b"one", 1);
    assert_ne!(again.id, one.id);
    assert_eq!(again.test_stateid(stateid), Nfsstat4::BadStateid.number());
    assert_eq!(again.unlock(lock, (0, 10)), Err(Nfsstat4::BadStateid));
    let other = Client::new(&rig, b"other", 1);
    assert_eq!(other.claim(b"o", (1, 0), OpenClaim4::Fh), Err(Nfsstat4::Grace));
    assert_eq!(other.claim(b"o", (1, 0), CLAIM), Err(Nfsstat4::NoGrace));
    assert_eq!(other.test(b"p", WRITE, (0, 10)), Nfsstat4::Grace);
    assert_eq!(nlm_lock(&rig, A, 0, 1), Status::DeniedGracePeriod);
    let opened = again.claim(b"o", (3, 2), CLAIM).unwrap();
    assert_eq!(again.lock(opened, b"p", WRITE, (0, 10)), Err(Nfsstat4::Grace), "no reclaim");
    let lock = again.reclaim(opened, b"p", (0, 10)).unwrap();
    assert_eq!(again.complete(), Nfsstat4::Ok);
    assert_eq!(again.reclaim(opened, b"p", (20, 10)), Err(Nfsstat4::NoGrace), "it is done");
    assert_eq!(again.claim(b"o2", (1, 0), CLAIM), Err(Nfsstat4::NoGrace));
    assert_eq!(other.claim(b"o", (1, 0), OpenClaim4::Fh), Err(Nfsstat4::Grace), "two is not");
    // two wants nothing back
    assert_eq!(Client::before_reclaim(&rig, b"two", 1).complete(), Nfsstat4::Ok);
    assert_eq!(other.claim(b"o", (2, 0), OpenClaim4::Fh), Err(Nfsstat4::ShareDenied));
    assert_eq!(nlm_lock(&rig, A, 0, 1), Status::Denied, "what was reclaimed counts");
    assert_eq!(nlm_lock(&rig, A, 10, 1), Status::Granted);
    assert!(again.unlock(lock, (0, 10)).is_ok());
}

/// What CREATE_SESSION says to the client of before the restart, after SEQUENCE has said BADSESSION.
fn one_session_is_bad(rig: &Rig, before: &Client<'_>) -> Nfsstat4 {
    let sequence = proto::nfs4::SequenceArgs {
        sessionid: before.session(),
        sequenceid: 9,
        slotid: 0,
        highest_slotid: 0,
        cachethis: false,
    };
    assert_eq!(compound(rig, &[oper(op::SEQUENCE, &sequence)]).0, Nfsstat4::BadSession);
    let destroyed = compound(rig, &[oper(op::DESTROY_CLIENTID, &before.id)]).0;
    assert_eq!(destroyed, Nfsstat4::StaleClientid);
    compound(rig, &[super::version4::create_session(before.id, 1)]).0
}

#[test]
fn two_clients_cannot_reclaim_the_same() {
    let rig = Rig::over(file_in_memory());
    for name in [b"one", b"two"] {
        Client::new(&rig, name, 1).open(b"o", 3);
    }
    let rig = rig.restarted();
    let clients = [b"one", b"two"].map(|name: &[u8; 3]| Client::before_reclaim(&rig, name, 1));
    let [one, two] = &clients;
    let opened = one.claim(b"o", (3, 2), CLAIM).unwrap();
    assert_eq!(two.claim(b"o", (2, 0), CLAIM), Err(Nfsstat4::ReclaimConflict));
    let other = two.claim(b"o", (1, 0), CLAIM).unwrap();
    assert!(one.reclaim(opened, b"p", (0, 10)).is_ok());
    assert_eq!(two.reclaim(other, b"p", (5, 10)), Err(Nfsstat4::OpenMode));
}

#[test]
fn a_failing_store_leaves_what_is_held_and_refuses_what_is_new() {
    let rig = Rig::over(file_in_memory());
    let two = Client::new(&rig, b"two", 1);
    let opened = two.open(b"t", 1);
    assert_eq!(two.close(opened), Nfsstat4::Ok);
    let one = Client::new(&rig, b"one", 1);
    let opened = one.claim(b"o", (3, 3), OpenClaim4::Fh).unwrap();
    one.lock(opened, b"p", WRITE, (0, 10)).unwrap();
    rig.store.broken.store(true, Relaxed);
    assert!(one.lock(opened, b"q", WRITE, (20, 10)).is_ok(), "a recorded client goes on");
    let three = Client::new(&rig, b"three", 1);
    assert_eq!(three.claim(b"o", (1, 0), OpenClaim4::Fh), Err(Nfsstat4::Delay), "a new one waits");
    // a courtesy client keeps what it has until its record can be taken back
    rig.nfs.clock.advance_ms(rig.nfs.v4.state.lease_ms() + 1000);
    assert_eq!(two.claim(b"o", (1, 0), OpenClaim4::Fh), Err(Nfsstat4::Delay));
    assert_eq!(one.call(&[]).0, Nfsstat4::Ok, "it is back");
    assert_eq!(two.claim(b"o", (1, 0), OpenClaim4::Fh), Err(Nfsstat4::ShareDenied));
    rig.nfs.clock.advance_ms(rig.nfs.v4.state.lease_ms() + 1000);
    rig.store.broken.store(false, Relaxed);
    assert!(two.claim(b"o", (1, 0), OpenClaim4::Fh).is_ok());
    assert_eq!(one.call(&[]).0, Nfsstat4::BadSession);
    let stored = rig.store.stored.lock().unwrap();
    assert!(matches!(stored.last(), Some(Record::ClientGone(..))), "{stored:?}");
}

#[test]
fn a_destroyed_client_is_forgotten_before_the_answer() {
    let rig = Rig::over(file_in_memory());
    let one = Client::new(&rig, b"one", 1);
    let opened = one.open(b"o", 3);
    assert_eq!(one.close(opened), Nfsstat4::Ok);
    assert_eq!(one.call(&[oper(op::DESTROY_SESSION, &one.session())]).0, Nfsstat4::Ok);
    assert_eq!(compound(&rig, &[oper(op::DESTROY_CLIENTID, &one.id)]).0, Nfsstat4::Ok);
    let stored = rig.store.stored.lock().unwrap().clone();
    assert!(matches!(stored.last(), Some(Record::ClientGone(..))), "{stored:?}");
    assert!(state::Recovery::of(stored).is_empty());
}

#[test]
fn a_client_with_an_expired_lease_is_kept_for_a_day_without_conflicts() {
    let rig = Rig::over(file_in_memory());
    let one = Client::new(&rig, b"one", 1);
    let opened = one.open(b"o", 3);
    for _ in 0..23 {
        rig.nfs.clock.advance_ms(3_600_000);
        rig.nlm().tick();
    }
    assert_eq!(one.test_stateid(opened), 0);
    for _ in 0..25 {
        rig.nfs.clock.advance_ms(3_600_000);
        rig.nlm().tick();
    }
    assert_eq!(one.call(&[]).0, Nfsstat4::BadSession);
    let stored = rig.store.stored.lock().unwrap().clone();
    assert!(state::Recovery::of(stored).is_empty());
}
