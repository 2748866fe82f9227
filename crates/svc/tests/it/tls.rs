//! RPC with TLS (RFC 9289) on the wire: the probe, handshakes that are cut, slow, late or many, certificates that are
//! not accepted, and calls of all kinds inside.

use crate::toy::{
    Client, ECHO, GIVE, LATE, TAKE, Toy, WAIT_IN, config, message, opaque, record, results, until,
};
use bowline_svc::{Config, KernelTlsChoice, PoolMode, TlsConfig};
use proto::rpc::{Accepted, AuthStat, Denied, OpaqueAuth, ReplyBody, ReplyHeader, flavor};
use rpc::Certificates;
use rpc::auth::{AuthTls, STARTTLS};
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};
use sys::testing::tcp::connect_from;
use telemetry::Counter;
use tempfile::TempDir;
use testing::{ByteWrites, Missing, skip};
use tls::{
    ALPN, Authority, ClientFiles, ClientStream, ClientTls, ConnectError, Issued, Purpose, Request,
    ServerFiles, ServerTls,
};
use xdr::{Reader, Writer};

/// A server with a certificate, the authority that issued it, and a place for files.
pub struct Sealed {
    pub toy: Toy,
    tls: Arc<ServerTls>,
    authority: Authority,
    dir: TempDir,
}

fn write(path: &Path, text: &str) {
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
}

fn names(all: &[&str]) -> Vec<String> {
    all.iter().map(|name| (*name).to_owned()).collect()
}

impl Sealed {
    fn start() -> Self {
        Self::start_with(Duration::from_secs(10))
    }

    fn start_with(handshake_max: Duration) -> Self {
        Self::start_as(handshake_max, config())
    }

    pub fn start_as(handshake_max: Duration, config: Config) -> Self {
        let dir = TempDir::new().unwrap();
        let (authority, _key) = Authority::create("test").unwrap();
        let server =
            authority.issue(&names(&["localhost", "127.0.0.1"]), Purpose::Server, 30).unwrap();
        let file = |name: &str| dir.path().join(name);
        write(&file("cert.pem"), &server.certificate);
        write(&file("key.pem"), &server.key);
        write(&file("ca.pem"), authority.certificate());
        let none: &[Vec<u8>] = &[];
        write(&file("crl.pem"), &authority.revoke(none).unwrap());
        let files = ServerFiles {
            cert: file("cert.pem"),
            key: file("key.pem"),
            client_ca: Some(file("ca.pem")),
            crl: Some(file("crl.pem")),
        };
        let certificates = Arc::new(Certificates::default());
        let tls = Arc::new(ServerTls::open(files, certificates).unwrap());
        let config = Config {
            tls: Some(TlsConfig {
                server: Arc::clone(&tls),
                // where it has none, these are tests of records in this process
                kernel: KernelTlsChoice::Auto,
                threads: 2,
                handshake_max,
            }),
            ..config
        };
        let toy = Toy::start(config);
        toy.dispatcher.auth().add(Box::new(AuthTls)).unwrap();
        Self { toy, tls, authority, dir }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// The files of a client with this certificate.
    fn files(&self, identity: Option<&Issued>) -> ClientFiles {
        let identity = identity.map(|issued| {
            let (cert, key) = (self.file("client.pem"), self.file("client.key"));
            write(&cert, &issued.certificate);
            write(&key, &issued.key);
            (cert, key)
        });
        ClientFiles { ca: Some(self.file("ca.pem")), identity }
    }

    pub fn client_with(&self, identity: Option<&Issued>) -> ClientTls {
        ClientTls::open(&self.files(identity), true, ALPN).unwrap()
    }

    fn issue(&self) -> Issued {
        self.authority.issue(&names(&["client.test"]), Purpose::Client, 30).unwrap()
    }

    /// A connection after its handshake.
    fn connect_with(&self, client: &ClientTls) -> Result<ClientStream<TcpStream>, ConnectError> {
        ClientStream::connect(probed(self.toy.tcp), client, "localhost")
    }

    pub fn connect(&self) -> ClientStream<TcpStream> {
        self.connect_with(&self.client_with(None)).unwrap()
    }

    /// Whether the server closes a session with this certificate instead of answering, and does not take it for none.
    #[track_caller]
    fn assert_refused(&self, identity: &Issued) {
        let failed = self.toy.counter(Counter::TlsFailed);
        // the client's side of TLS 1.3 is done before the server has looked at the certificate
        if let Ok(mut stream) = self.connect_with(&self.client_with(Some(identity))) {
            let sent = stream.write_all(&record(&message(1, ECHO, &opaque(b"x"))));
            assert!(sent.is_err() || receive(&mut stream).is_err(), "it was served");
        }
        until("it is counted", || self.toy.counter(Counter::TlsFailed) == failed + 1);
    }
}

fn probe(procedure: u32) -> Vec<u8> {
    let mut w = Writer::new();
    w.words([77, 0, 2, crate::toy::PROGRAM, 1, procedure]);
    w.put(&OpaqueAuth { flavor: flavor::AUTH_TLS, body: &[] });
    w.put(&OpaqueAuth::NONE);
    w.bytes().to_vec()
}

/// A connection whose probe was answered.
pub fn probed(addr: SocketAddr) -> TcpStream {
    probed_on(Client::new(addr))
}

fn probed_on(mut client: Client) -> TcpStream {
    client.0.write_all(&record(&probe(0))).unwrap();
    let reply = client.try_receive().unwrap();
    let header: ReplyHeader<'_> = Reader::new(&reply).get().unwrap();
    let verifier = OpaqueAuth { flavor: 0, body: STARTTLS };
    assert_eq!(header.body, ReplyBody::Accepted { verifier, status: Accepted::Success });
    client.0
}

pub fn receive(stream: &mut impl Read) -> std::io::Result<Vec<u8>> {
    let mut mark = [0; 4];
    stream.read_exact(&mut mark)?;
    let mut reply = vec![0; (u32::from_be_bytes(mark) & (u32::MAX >> 1)) as usize];
    stream.read_exact(&mut reply)?;
    Ok(reply)
}

#[track_caller]
pub fn call(stream: &mut (impl Read + Write), xid: u32, procedure: u32, args: &[u8]) -> Vec<u8> {
    stream.write_all(&record(&message(xid, procedure, args))).unwrap();
    let (got, found) = results(&receive(stream).unwrap());
    assert_eq!(got, xid);
    found
}

/// A call that waits in the queue of its export is run again as what it came as.
#[test]
pub fn a_queued_call_keeps_its_channel() {
    let pool_mode = PoolMode::Global;
    let four = Config { pool_mode, threads: (1, 8), export_share: 50, ..config() };
    let server = Sealed::start_as(Duration::from_secs(10), four);
    let mut stream = server.connect();
    let calls = (0..6).flat_map(|xid| record(&message(xid, WAIT_IN, &7_u32.to_be_bytes())));
    stream.write_all(&calls.collect::<Vec<_>>()).unwrap();
    server.toy.until_waiting(4);
    until("two are queued", || {
        server.toy.server.blocked_calls().first().is_some_and(|info| info.waiting == 2)
    });
    server.toy.go_on();
    for _ in 0..6 {
        assert_eq!(results(&receive(&mut stream).unwrap()).1, 1_u32.to_be_bytes());
    }
    // six that came, and two of them again
    assert_eq!(server.toy.state.sealed.load(Ordering::SeqCst), 8);
    server.toy.stop();
}

fn is_closed(stream: &mut TcpStream) -> bool {
    let mut rest = Vec::new();
    // what is left may be an alert
    let _ = stream.read_to_end(&mut rest);
    true
}

#[test]
fn calls_of_all_kinds_are_answered_inside_tls() {
    let server = Sealed::start();
    let mut stream = server.connect();
    assert_eq!(call(&mut stream, 1, ECHO, &opaque(b"hello")), opaque(b"hello"));
    // several records at once, and one that comes byte by byte
    let batch: Vec<u8> =
        (10..60).flat_map(|xid| record(&message(xid, ECHO, &opaque(&[7; 300])))).collect();
    stream.write_all(&batch).unwrap();
    for xid in 10..60 {
        assert_eq!(results(&receive(&mut stream).unwrap()), (xid, opaque(&[7; 300])));
    }
    let sealed = stream.seal(&record(&message(70, ECHO, &opaque(b"in pieces")))).unwrap();
    let mut socket = stream.get_ref();
    for byte in &sealed {
        socket.write_all(std::slice::from_ref(byte)).unwrap();
    }
    assert_eq!(results(&receive(&mut stream).unwrap()), (70, opaque(b"in pieces")));
    // longer than any buffer on the way, there and back
    let long: Vec<u8> = (0..3_000_001_u32).map(|n| n.to_le_bytes()[n as usize % 3]).collect();
    assert!(call(&mut stream, 80, ECHO, &opaque(&long)) == opaque(&long));
    call(&mut stream, 81, LATE, &[0, 0, 0, 1, 0, 0, 0, 9]);
    let info = server.toy.server.conns();
    let tls = info.iter().find_map(|conn| conn.tls.clone()).expect("its connection is shown");
    assert!(tls.suite.starts_with("TLS_") && tls.certificate.is_none(), "{tls:?}");
    drop(stream);
    server.toy.stop();
}

#[test]
pub fn replies_that_the_client_is_slow_to_take_arrive_whole() {
    let server = Sealed::start();
    let mut stream = server.connect();
    let give = 900_000_u32;
    for xid in 1..=24 {
        stream.write_all(&record(&message(xid, GIVE, &give.to_be_bytes()))).unwrap();
    }
    until("replies wait", || server.toy.counter(Counter::RepliesQueued) > 0);
    std::thread::sleep(Duration::from_millis(100));
    let mut first = None;
    for xid in 1..=24 {
        let (got, data) = results(&receive(&mut stream).unwrap());
        assert_eq!(got, xid);
        assert!(data.len() >= give as usize);
        assert!(*first.get_or_insert_with(|| data.clone()) == data, "the reply to {xid}");
    }
    drop(stream);
    server.toy.stop();
}

#[test]
pub fn what_comes_with_the_end_of_the_handshake_is_answered() {
    let server = Sealed::start();
    let client = server.client_with(None);
    for _ in 0..20 {
        let mut socket = probed(server.toy.tcp);
        let mut outgoing = Vec::new();
        let mut handshake = client.begin("localhost", &mut outgoing).unwrap();
        socket.write_all(&outgoing).unwrap();
        let mut buf = vec![0; 16 << 10];
        let mut session = loop {
            let len = socket.read(&mut buf).unwrap();
            outgoing.clear();
            match handshake.receive(&buf[..len], &mut outgoing).unwrap() {
                (_, tls::Progress::Done(session, _)) => break session,
                (next, tls::Progress::More) => handshake = next.unwrap(),
            }
        };
        // Finished and a call in one write
        session.seal(&record(&message(5, ECHO, &opaque(b"at once"))), &mut outgoing).unwrap();
        socket.write_all(&outgoing).unwrap();
        let mut plain = vec![0; buf.len()];
        let mut len = 0;
        while len == 0 {
            let kept = session.put_kept(&mut buf);
            let got = socket.read(&mut buf[kept..]).unwrap();
            assert!(got > 0, "closed");
            len = session.open(&mut buf[..kept + got], &mut plain, &mut Vec::new()).unwrap().len;
        }
        assert_eq!(results(&plain[4..len]), (5, opaque(b"at once")));
    }
    server.toy.stop();
}

#[test]
pub fn a_client_hello_in_single_bytes_is_read() {
    let server = Sealed::start();
    let slow = ByteWrites::new(probed(server.toy.tcp)).unwrap();
    let mut stream = ClientStream::connect(slow, &server.client_with(None), "localhost").unwrap();
    assert_eq!(call(&mut stream, 1, ECHO, &opaque(b"slow")), opaque(b"slow"));
    drop(stream);
    server.toy.stop();
}

#[test]
fn nothing_may_come_behind_the_probe_before_it_is_answered() {
    let server = Sealed::start();
    let mut hello = Vec::new();
    let _handshake = server.client_with(None).begin("localhost", &mut hello).unwrap();
    let call = record(&message(9, ECHO, &opaque(b"in the clear")));
    let (half, rest) = call.split_at(9);
    for behind in [&call[..], half, rest, &hello, &[0]] {
        let mut client = Client::new(server.toy.tcp);
        client.0.write_all(&[&record(&probe(0)), behind].concat()).unwrap();
        assert!(client.try_receive().is_err(), "not answered");
    }
    // and what is in the clear where the handshake should be is not answered either
    let mut socket = probed(server.toy.tcp);
    socket.write_all(&call).unwrap();
    let mut said = Vec::new();
    let _ = socket.read_to_end(&mut said);
    assert!(said.len() < 16 && !said.windows(4).any(|bytes| bytes == b"clea"), "{said:?}");
    server.toy.stop();
}

#[test]
fn a_probe_inside_tls_is_denied() {
    let server = Sealed::start();
    let mut stream = server.connect();
    stream.write_all(&record(&probe(0))).unwrap();
    let reply = receive(&mut stream).unwrap();
    let header: ReplyHeader<'_> = Reader::new(&reply).get().unwrap();
    assert_eq!(header.body, ReplyBody::Denied(Denied::AuthError(AuthStat::BadCred)));
    assert_eq!(call(&mut stream, 1, ECHO, &opaque(b"goes on")), opaque(b"goes on"));
    drop(stream);
    server.toy.stop();
}

#[test]
fn a_client_of_another_protocol_is_refused_and_one_without_alpn_served() {
    let server = Sealed::start();
    let client = ClientTls::open(&server.files(None), true, b"http/1.1").unwrap();
    let error = server.connect_with(&client).err().expect("refused").to_string();
    assert!(error.contains("sunrpc"), "{error}");
    until("it is counted", || server.toy.counter(Counter::TlsFailed) == 1);
    // as Linux does
    let client = ClientTls::open(&server.files(None), true, b"").unwrap();
    let mut stream = server.connect_with(&client).unwrap();
    assert_eq!(call(&mut stream, 1, ECHO, &opaque(b"x")), opaque(b"x"));
    drop(stream);
    server.toy.stop();
}

#[test]
fn certificates_that_are_not_good_are_refused_and_good_ones_named() {
    let server = Sealed::start();
    let own = names(&["client.test"]);
    let month = SystemTime::now() + Duration::from_secs(30 * 24 * 3600);
    let issue =
        |purpose, end| server.authority.issue_as(&Request { names: &own, purpose, end }).unwrap();
    for purpose in [Some(Purpose::Client), Some(Purpose::RpcClient), None] {
        let good = issue(purpose, month);
        let mut stream = server.connect_with(&server.client_with(Some(&good))).unwrap();
        assert_eq!(call(&mut stream, 1, ECHO, &opaque(b"known")), opaque(b"known"));
        let conns = server.toy.server.conns();
        let seen = conns.iter().filter_map(|conn| conn.tls.as_ref()?.certificate.as_ref());
        let names: Vec<_> = seen.map(|certificate| certificate.name.as_str()).collect();
        assert!(names.contains(&"client.test"), "{names:?}");
    }
    server.assert_refused(&issue(Some(Purpose::Server), month));
    server
        .assert_refused(&issue(Some(Purpose::Client), SystemTime::now() - Duration::from_secs(60)));
    let (foreign, _key) = Authority::create("foreign").unwrap();
    server.assert_refused(&foreign.issue(&own, Purpose::Client, 30).unwrap());
    let many = names(&["*.client.test"]);
    server.assert_refused(&server.authority.issue(&many, Purpose::Client, 30).unwrap());
    server.toy.stop();
}

#[test]
pub fn a_certificate_that_is_revoked_ends_its_connections_and_no_others() {
    let server = Sealed::start();
    let (bad, good) = (server.issue(), server.issue());
    let mut ended = server.connect_with(&server.client_with(Some(&bad))).unwrap();
    let mut kept = server.connect_with(&server.client_with(Some(&good))).unwrap();
    let mut unknown = server.connect();
    for stream in [&mut ended, &mut kept, &mut unknown] {
        call(stream, 1, ECHO, &opaque(b"before"));
    }
    write(
        &server.file("crl.pem"),
        &server.authority.revoke(std::slice::from_ref(&bad.serial)).unwrap(),
    );
    server.tls.reload().unwrap();
    assert_eq!(server.toy.server.recheck_certificates(&server.tls), 1);
    assert_eq!(ended.read(&mut [0; 1]).unwrap_or(0), 0);
    for stream in [&mut kept, &mut unknown] {
        call(stream, 2, ECHO, &opaque(b"after"));
    }
    server.assert_refused(&bad);
    drop((kept, unknown));
    server.toy.stop();
}

#[test]
fn a_renewed_certificate_is_used_for_new_connections_unless_invalid() {
    let server = Sealed::start();
    let mut old = server.connect();
    let new = server.authority.issue(&names(&["other.test"]), Purpose::Server, 30).unwrap();
    // the key does not fit yet
    write(&server.file("cert.pem"), &new.certificate);
    assert!(server.tls.reload().is_err());
    drop(server.connect());
    write(&server.file("key.pem"), &new.key);
    server.tls.reload().unwrap();
    let client = server.client_with(None);
    assert!(server.connect_with(&client).is_err(), "it has another name");
    drop(ClientStream::connect(probed(server.toy.tcp), &client, "other.test").unwrap());
    assert_eq!(call(&mut old, 1, ECHO, &opaque(b"old")), opaque(b"old"));
    drop(old);
    // a key that others can read is not used
    let mode = fs::Permissions::from_mode(0o640);
    fs::set_permissions(server.file("key.pem"), mode).unwrap();
    let error = server.tls.reload().err().unwrap().to_string();
    assert!(error.contains("chmod 600"), "{error}");
    server.toy.stop();
}

#[test]
fn half_handshakes_are_bounded_and_cost_others_nothing() {
    let server = Sealed::start();
    let mut other = server.toy.client();
    // more than one client may have, each with nothing or a part of its first message
    let mut half = Vec::new();
    let mut hello = Vec::new();
    let _handshake = server.client_with(None).begin("localhost", &mut hello).unwrap();
    for number in 0..300_usize {
        let mut socket = probed(server.toy.tcp);
        socket.write_all(&hello[..number % 100]).unwrap();
        half.push(socket);
    }
    until("the oldest made room", || server.toy.counter(Counter::TlsDisplaced) == 300 - 256);
    assert!(is_closed(&mut half[0]));
    assert_eq!(other.call(1, ECHO, &opaque(b"plain")), opaque(b"plain"));
    let mut stream = server.connect();
    assert_eq!(call(&mut stream, 1, ECHO, &opaque(b"sealed")), opaque(b"sealed"));
    // half of them go away by themselves
    half.truncate(150);
    drop((half, stream, other));
    server.toy.stop();
}

/// First messages of nearly 64 KiB that do not end, of four addresses: what all of them keep is bounded, and the largest go.
#[test]
fn what_half_handshakes_keep_is_bounded() {
    const EACH: usize = 3 * (5 + 16_384);
    const HALF: usize = 1000;
    if sys::limits::raise_open_files() < 2 * HALF as u64 + 500 {
        return skip(Missing::Limit, "descriptors for 1,000 connections and their server");
    }
    let server = Sealed::start_with(Duration::from_secs(300));
    let mut small = probed(server.toy.tcp);
    small.write_all(&[22, 3, 1, 0, 200, 1]).unwrap();
    // a record of handshake messages; the first begins a ClientHello of 65,535 bytes
    let record = |begin: [u8; 4]| [&[22, 3, 1, 0x40, 0][..], &begin, &[0; 16_380]].concat();
    let part = [record([1, 0, 0xff, 0xff]), record([0; 4]), record([0; 4])].concat();
    assert_eq!(part.len(), EACH);
    let half: Vec<TcpStream> = (0..HALF)
        .map(|number| {
            let from = SocketAddr::from(([127, 0, 2, (number % 4) as u8 + 1], 0));
            let mut socket = probed_on(Client(connect_from(from, server.toy.tcp).unwrap()));
            // one that is closed meanwhile has sent enough
            let _ = socket.write_all(&part);
            socket
        })
        .collect();
    // 32 MiB, half of it in each of two threads
    let kept = 2 * ((16 << 20) / EACH);
    let displaced = (HALF - kept) as u64;
    until("the largest made room", || server.toy.counter(Counter::TlsDisplaced) >= displaced);
    small.set_nonblocking(true).unwrap();
    let small = small.read(&mut [0; 1]).map_err(|error| error.kind());
    assert_eq!(small, Err(std::io::ErrorKind::WouldBlock), "it is there still");
    let mut stream = server.connect();
    assert_eq!(call(&mut stream, 1, ECHO, &opaque(b"sealed")), opaque(b"sealed"));
    drop((half, stream));
    server.toy.stop();
}

#[test]
fn a_handshake_that_is_not_over_in_time_is_cut() {
    let server = Sealed::start_with(Duration::from_millis(200));
    let mut silent = probed(server.toy.tcp);
    let mut cut = probed(server.toy.tcp);
    cut.write_all(&[22, 3, 1]).unwrap();
    for socket in [&mut silent, &mut cut] {
        assert!(matches!(socket.read(&mut [0; 1]), Ok(0) | Err(_)));
    }
    until("both are counted", || server.toy.counter(Counter::TlsTimedOut) == 2);
    // what ends in the middle is forgotten at once
    drop(probed(server.toy.tcp));
    until("it is counted", || server.toy.counter(Counter::TlsFailed) == 3);
    server.toy.stop();
}

#[test]
pub fn a_server_stops_while_handshakes_are_under_way() {
    let server = Sealed::start();
    let half: Vec<_> = (0..20).map(|_| probed(server.toy.tcp)).collect();
    let stream = server.connect();
    server.toy.stop();
    drop((half, stream));
}

#[test]
pub fn a_record_that_was_tampered_with_ends_the_session() {
    let server = Sealed::start();
    let mut stream = server.connect();
    call(&mut stream, 1, ECHO, &opaque(b"right"));
    let mut sealed = stream.seal(&record(&message(2, TAKE, &opaque(&[1; 100_000])))).unwrap();
    let middle = sealed.len() / 2;
    sealed[middle] ^= 1;
    let mut socket = stream.get_ref();
    // it may be closed before all of it is sent
    let _ = socket.write_all(&sealed);
    assert!(receive(&mut stream).is_err());
    server.toy.stop();
}

#[test]
fn without_a_certificate_a_probe_is_denied_at_once() {
    let toy = Toy::start(config());
    let mut client = toy.client();
    client.0.write_all(&record(&probe(0))).unwrap();
    let reply = client.try_receive().unwrap();
    let header: ReplyHeader<'_> = Reader::new(&reply).get().unwrap();
    assert_eq!(header.body, ReplyBody::Denied(Denied::AuthError(AuthStat::BadCred)));
    assert_eq!(client.call(3, ECHO, &opaque(b"plain")), opaque(b"plain"));
    toy.stop();
}
