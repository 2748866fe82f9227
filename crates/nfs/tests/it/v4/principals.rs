//! Whose state it is: what another user of a client may do with a stateid, and state protection by the credential of a
//! client's machine.

use super::{Client, FORE, create_session, exchange_id, fattr, ok, oper, plain, send};
use crate::support::{TestServer, certificate, exports};
use export::Options;
use export::exports_file::parse;
use proto::nfs4::{
    Bitmap4, CloseArgs, Createhow4, Nfsstat4, OpenHow4, ReadArgs, Stateid4, attr, op,
};
use rpc::{Principal, PrincipalUser, TransportSecurity};
use std::cell::Cell;
use std::sync::Arc;
use xdr::Writer;

const KRB5: u32 = 390_003;
const KRB5I: u32 = 390_004;
const KRB5P: u32 = 390_005;

/// The principal of a machine, by one of the services.
fn machine(name: &str, flavor: u32) -> Option<Principal> {
    Some(Principal { flavor, name: name.as_bytes().into(), user: None })
}

fn user(name: &str, uid: u32, flavor: u32) -> Option<Principal> {
    let user = Some(PrincipalUser { uid, gid: uid, groups: Box::default() });
    Some(Principal { flavor, name: name.as_bytes().into(), user })
}

/// A file that only its owner may read, and the stateid of its owner's open.
fn private_file(client: &Client) -> (Vec<u8>, Stateid4) {
    let mode = fattr(&[attr::MODE], &0o600_u32.to_be_bytes());
    let how = OpenHow4::Create(Createhow4::Unchecked(mode));
    let (handle, stateid) = client.open(b"private", 3, 0, how).unwrap();
    assert_eq!(client.write(&handle, stateid, b"secret"), Nfsstat4::Ok);
    (handle, stateid)
}

/// A session is not a user's: whoever may use it may send any stateid, and is checked himself (RFC 8881 §18.16.3).
#[test]
fn a_stateid_stands_for_permissions_of_its_opener_only() {
    let mut client = Client::new();
    let (handle, stateid) = private_file(&client);
    client.server.uid = 1002;
    assert_eq!(client.read(&handle, stateid), Err(Nfsstat4::Access));
    assert_eq!(client.write(&handle, stateid, b"spoilt"), Nfsstat4::Access);
    client.server.uid = 0;
    assert_eq!(client.read(&handle, stateid).unwrap(), b"secret");
}

#[test]
fn a_proven_user_is_the_same_by_each_service() {
    let parsed = parse(b"/x *(sec=sys:krb5:krb5i:krb5p)");
    let options = parsed.entries[0].rules[0].options;
    let options = Options { flavors: options.flavors, ..exports::RW };
    let server = TestServer::new(exports::of(&[("/x", exports::mem(), options)]));
    let mut client = Client::over(server);
    client.server.principal = user("root@LAB.TEST", 0, KRB5);
    let (handle, stateid) = private_file(&client);
    for (flavor, uid, name, may) in [
        (KRB5I, 0, "root@LAB.TEST", true),
        (KRB5P, 0, "root@LAB.TEST", true),
        (KRB5P, 1002, "bob@LAB.TEST", false),
    ] {
        client.server.principal = user(name, uid, flavor);
        let read = client.read(&handle, stateid);
        assert_eq!(read.is_ok(), may, "{name} {flavor} {read:?}");
    }
    // the number of a user that AUTH_SYS names is nobody's proof
    client.server.principal = None;
    client.server.uid = 1002;
    assert_eq!(client.read(&handle, stateid), Err(Nfsstat4::Access));
}

/// The answer that a slot keeps is for the user of its request.
#[test]
fn a_kept_reply_is_not_given_to_another_user() {
    let mut client = Client::new();
    let (handle, _) = private_file(&client);
    let request = [client.putfh(&handle), plain(op::GETFH)];
    let number = client.sequence.get() + 1;
    client.sequence.set(number);
    let first = client.call_as(number, true, &request);
    assert_eq!(client.call_as(number, true, &request).bytes(), first.bytes());
    client.server.uid = 1002;
    let again = client.call_as(number, true, &request);
    assert_eq!(again.status, Nfsstat4::SeqFalseRetry);
}

/// EXCHANGE_ID that asks for protection of these operations, by these for its users.
fn exchange_protected(owner: &[u8], enforce: &[u32], allow: &[u32]) -> Vec<u8> {
    let mut w = Writer::new();
    w.u32(op::EXCHANGE_ID);
    w.raw(&[1; 8]);
    w.opaque(owner);
    w.words([0, 1]);
    w.put(&Bitmap4::of(enforce));
    w.put(&Bitmap4::of(allow));
    w.u32(0);
    w.bytes().to_vec()
}

/// What Linux asks for.
const ENFORCE: [u32; 5] = [
    op::BIND_CONN_TO_SESSION,
    op::EXCHANGE_ID,
    op::CREATE_SESSION,
    op::DESTROY_SESSION,
    op::DESTROY_CLIENTID,
];
const ALLOW: [u32; 8] = [
    op::CLOSE,
    op::OPEN_DOWNGRADE,
    op::DELEGRETURN,
    op::LOCKU,
    op::COMMIT,
    op::WRITE,
    op::TEST_STATEID,
    op::FREE_STATEID,
];

const HOST: &str = "host/client.lab.test@LAB.TEST";

fn kerberos_server(sec: &str) -> TestServer {
    let parsed = parse(format!("/x *({sec})").as_bytes());
    let flavors = parsed.entries[0].rules[0].options.flavors;
    let options = Options { flavors, ..exports::RW };
    TestServer::new(exports::of(&[("/x", exports::mem(), options)]))
}

/// A client whose sessions are its machine's, but for the connections that they come by, of which there are none here.
fn protected_client(mut server: TestServer, enforce: &[u32]) -> Client {
    server.principal = machine(HOST, KRB5I);
    let known = send(&server, 1, &[exchange_protected(b"client", enforce, &ALLOW)]);
    let mut r = known.reader();
    ok(&mut r, op::EXCHANGE_ID);
    let id = r.u64().unwrap();
    let [_sequence, _flags, how] = r.words().unwrap();
    assert_eq!(how, 1);
    assert_eq!(r.get::<Bitmap4>().unwrap(), Bitmap4::of(enforce));
    let allowed = r.get::<Bitmap4>().unwrap();
    assert!(allowed.has(op::CLOSE) && allowed.has(op::LOCKU) && !allowed.has(op::WRITE));
    let made = send(&server, 1, &[create_session(id, 1, FORE)]);
    assert_eq!(made.status, Nfsstat4::Ok);
    let mut r = made.reader();
    ok(&mut r, op::CREATE_SESSION);
    let session = r.array().unwrap();
    Client { server, session, id, sequence: Cell::new(0), minor: 1 }
}

#[test]
fn state_protection_needs_a_signed_request() {
    let mut server = kerberos_server("sec=sys:krb5:krb5i");
    let mut ask = |principal| {
        server.principal = principal;
        send(&server, 1, &[exchange_protected(b"client", &ENFORCE, &ALLOW)]).status
    };
    assert_eq!(ask(None), Nfsstat4::Inval);
    assert_eq!(ask(machine(HOST, KRB5)), Nfsstat4::Inval);
    assert_eq!(ask(machine(HOST, KRB5P)), Nfsstat4::Ok);
}

#[test]
fn a_protected_client_is_maintained_by_its_machine_only() {
    // without the connections, of which there are none here
    let mut client = protected_client(kerberos_server("sec=sys:krb5:krb5i"), &ENFORCE[1..]);
    let (id, session) = (client.id, client.session);
    let destroy_session = [&op::DESTROY_SESSION.to_be_bytes()[..], &session].concat();
    let destroy_client = oper(op::DESTROY_CLIENTID, &id);
    let others = [
        None,
        machine(HOST, KRB5),
        machine("host/other.lab.test@LAB.TEST", KRB5I),
        user("alice@LAB.TEST", 1001, KRB5P),
    ];
    for other in others {
        client.server.principal = other.clone();
        let ask =
            |operation: &Vec<u8>| send(&client.server, 1, std::slice::from_ref(operation)).status;
        assert_eq!(ask(&create_session(id, 2, FORE)), Nfsstat4::WrongCred, "{other:?}");
        assert_eq!(ask(&destroy_session), Nfsstat4::WrongCred, "{other:?}");
        assert_eq!(ask(&destroy_client), Nfsstat4::WrongCred, "{other:?}");
        // nor may anybody say that it has restarted, or that it has other properties
        let again = exchange_protected(b"client", &ENFORCE, &ALLOW);
        assert_ne!(ask(&again), Nfsstat4::Ok, "{other:?}");
        assert_eq!(ask(&exchange_id(b"client")), Nfsstat4::ClidInUse, "{other:?}");
    }
    client.server.principal = machine(HOST, KRB5P);
    let ask = |operation: Vec<u8>| send(&client.server, 1, &[operation]).status;
    assert_eq!(ask(destroy_session), Nfsstat4::Ok);
    assert_eq!(ask(destroy_client), Nfsstat4::Ok);
}

#[test]
fn a_session_whose_connections_are_protected_takes_nothing_by_another() {
    let client = protected_client(kerberos_server("sec=krb5i"), &ENFORCE);
    // these calls come by no connection
    let refused = client.call(&[plain(op::PUTROOTFH)]);
    assert_eq!(refused.status, Nfsstat4::ConnNotBoundToSession);
    let mut bind = Writer::new();
    bind.u32(op::BIND_CONN_TO_SESSION);
    bind.raw(&client.session);
    bind.words([1, 0]);
    let mut client = client;
    let ask = |client: &Client| send(&client.server, 1, &[bind.bytes().to_vec()]).status;
    assert_eq!(ask(&client), Nfsstat4::Ok);
    client.server.principal = user("alice@LAB.TEST", 1001, KRB5P);
    assert_eq!(ask(&client), Nfsstat4::BadSession, "to others there is none");
}

/// A certificate names a machine: another one that calls itself the same cannot take over what a client has.
#[test]
fn a_client_is_that_of_its_certificate() {
    let server = TestServer::new(exports::of(&[("/x", exports::mem(), exports::RW)]));
    let certificates = Arc::clone(server.nfs().exports.certificates());
    let hold = |name, series| {
        let held = certificates.hold(certificate(name, series)).unwrap();
        (TransportSecurity::of_certificate(held.id()), held)
    };
    let [(one, _a), (renewed, _b), (other, _c)] =
        [("one.lab", 1), ("one.lab", 2), ("other.lab", 3)].map(|(name, series)| hold(name, series));
    assert_ne!(one, renewed);
    let mut client = Client::over(TestServer { security: one, ..server });
    let (handle, stateid) = private_file(&client);
    let again = |client: &Client| send(&client.server, 1, &[exchange_id(b"client")]).status;
    for security in [other, TransportSecurity::TLS, TransportSecurity::PLAIN] {
        client.server.security = security;
        assert_eq!(again(&client), Nfsstat4::ClidInUse, "{security:?}");
    }
    client.server.security = renewed;
    assert_eq!(again(&client), Nfsstat4::Ok);
    assert_eq!(client.read(&handle, stateid).unwrap(), b"secret");
}

/// A user whose ticket has ended leaves opens behind: the machine closes them, whatever flavour the export accepts, and can
/// do nothing else so.
#[test]
fn the_machine_gives_back_what_its_users_have() {
    let mut client =
        protected_client(kerberos_server("sec=krb5p"), &[op::EXCHANGE_ID, op::CREATE_SESSION]);
    client.server.principal = user("root@LAB.TEST", 0, KRB5P);
    let done = client.call(&[oper(op::RECLAIM_COMPLETE, &false)]);
    assert_eq!(done.status, Nfsstat4::Ok);
    let (handle, stateid) = private_file(&client);
    let close = oper(op::CLOSE, &CloseArgs { seqid: 0, stateid });
    let read = oper(op::READ, &ReadArgs { stateid, offset: 0, count: 10 });
    let putfh = client.putfh(&handle);
    // another's machine, or the right one unsigned
    for other in [machine("host/other.lab.test@LAB.TEST", KRB5I), machine(HOST, KRB5), None] {
        client.server.principal = other;
        let refused = client.call(&[putfh.clone(), close.clone()]);
        assert_eq!(refused.status, Nfsstat4::WrongSec);
    }
    client.server.principal = machine(HOST, KRB5I);
    let tried = client.call(&[putfh.clone(), read]);
    assert_eq!(tried.status, Nfsstat4::Access);
    let walked = client.call(&[putfh.clone(), plain(op::LOOKUPP)]);
    assert_eq!(walked.status, Nfsstat4::Access);
    let getattr = oper(op::GETATTR, &Bitmap4::of(&[attr::SIZE]));
    let closed = client.call(&[putfh, getattr, close]);
    assert_eq!(closed.status, Nfsstat4::Ok);
    assert_eq!(client.server.nfs().v4.state.open_count(), 0);
}
