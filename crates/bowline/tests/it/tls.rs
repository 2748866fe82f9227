//! RPC with TLS as an operator sets it up: certificates by one command, exports that demand them, renewal, diagnoses.

use crate::operator_tables::connect;
use crate::rig::channel::Channel;
use crate::rig::{Server, bowline, text};
use crate::state_kills::open;
use client::nfs4::Session;
use client::starttls;
use client::{Client, Identity};
use proto::layout::Bytes;
use proto::nfs4::{self, CompoundHead, Nfsstat4, StableHow4, Stateid4, WriteArgs, op};
use rpc::{AuthSys, Request};
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant, SystemTime};
use tls::{ClientFiles, ClientTls};
use xdr::Writer;

const PATIENCE: Duration = Duration::from_secs(60);
const NFS3: (u32, u32) = (proto::nfs3::PROGRAM, proto::nfs3::VERSION);

/// What a command that succeeds prints.
#[track_caller]
fn out(output: &std::process::Output) -> String {
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
    text(&output.stdout) + &text(&output.stderr)
}

/// A client over TLS, with this certificate or none.
fn sealed_client(server: &Server, ca: PathBuf, identity: Option<(PathBuf, PathBuf)>) -> Client {
    let tls = ClientTls::open(&ClientFiles { ca: Some(ca), identity }, true, tls::ALPN).unwrap();
    let at: SocketAddr = ([127, 0, 0, 1], server.port).into();
    let stream = starttls::connect(at, PATIENCE, NFS3, (&tls, "localhost")).unwrap();
    let mut client = Client::over_tls(stream, PATIENCE);
    client.set_identity(Some(Identity {
        machine: "web.test".to_owned(),
        uid: 0,
        gid: 0,
        groups: Vec::new(),
    }));
    client
}

#[test]
fn certificates_of_tls_init_are_served_required_and_renewed() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let file = |name: &str| dir.path().join("tls").join(name);
    let shown = |name: &str| file(name).display().to_string();
    let place = dir.path().join("tls").display().to_string();
    let page = out(&bowline(&["tls", "init", "nfs.test", "--dir", &place]));
    assert!(page.contains("-o xprtsec=tls nfs.test:/PATH"), "{page}");
    let page = out(&bowline(&["tls", "client", "web.test", "--dir", &place]));
    assert!(page.contains("tls-name=web.test"), "{page}");
    for (name, mode) in [("ca.key", 0o600), ("server.key", 0o600), ("web.test.key", 0o600)] {
        assert_eq!(file(name).metadata().unwrap().permissions().mode() & 0o777, mode, "{name}");
    }
    let served = |name: &str| {
        let path = dir.path().join(name);
        std::fs::create_dir(&path).unwrap();
        std::fs::write(path.join("a"), "data").unwrap();
        path.display().to_string()
    };
    let (sealed, known) = (served("sealed"), served("known"));
    let exports = dir.path().join("exports");
    let rules = format!(
        "{sealed} *(rw,insecure,xprtsec=tls:mtls)\n{known} *(rw,xprtsec=mtls,tls-name=web.*)\n"
    );
    std::fs::write(&exports, rules).unwrap();
    let (cert, key, ca) = (shown("server.pem"), shown("server.key"), shown("ca.pem"));
    let options = ["--exports", exports.to_str().unwrap(), "--tls-cert", &cert, "--tls-key", &key];
    let server = Server::start(&[&options[..], &["--tls-client-ca", &ca]].concat());

    let mut plain = connect(&server);
    let (sealed_root, known_root) =
        (plain.mount(sealed.as_bytes()).unwrap(), plain.mount(known.as_bytes()).unwrap());
    let refused = plain.lookup(&sealed_root, b"a").unwrap_err().to_string();
    assert!(refused.contains("weak") || refused.contains("Weak"), "{refused}");
    let mut unknown = sealed_client(&server, file("ca.pem"), None);
    unknown.lookup(&sealed_root, b"a").unwrap();
    assert!(unknown.lookup(&known_root, b"a").is_err());
    let identity = (file("web.test.pem"), file("web.test.key"));
    let mut web = sealed_client(&server, file("ca.pem"), Some(identity));
    web.lookup(&sealed_root, b"a").unwrap();
    web.lookup(&known_root, b"a").unwrap();
    let conns = server.json("conns");
    let shown: Vec<_> =
        conns.as_array().unwrap().iter().map(|row| row["security"].as_str().unwrap()).collect();
    for wanted in ["none", "tls", "mtls web.test"] {
        assert!(shown.contains(&wanted), "{shown:?}");
    }
    assert_eq!(server.json("clients")[0]["certificates"], serde_json::json!(["web.test"]));
    let explained = |more: &[&str]| {
        let output =
            server.ask(&[&["explain", "127.0.0.1", &known, "--port", "4000"], more].concat());
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let (status, page) = explained(&[]);
    assert!(status == Some(1) && page.contains("no rule of the export"), "{page}");
    let (status, page) = explained(&["--certificate", "web.test"]);
    assert!(
        status == Some(0) && page.contains("tls-name=web.*"),
        "a certificate is enough: {page}"
    );
    let (status, page) = explained(&["--certificate", "mail.test"]);
    assert_eq!(status, Some(1), "{page}");
    let (status, page) = explained(&["--certificate", "web.test", "--sec", "krb5p"]);
    assert!(status == Some(1) && page.contains("krb5p is not in sec=sys:none"), "{page}");

    let port = server.port.to_string();
    let doctor = || bowline(&["doctor", "tls", "localhost", "--port", &port, "--ca", &ca]);
    let before = out(&doctor());
    assert!(before.contains("for nfs.test, ") && before.contains("can mount"), "{before}");
    // a new certificate with another name is read by itself, and nobody's connection ends
    out(&bowline(&["tls", "init", "other.test", "--dir", &place]));
    let start = Instant::now();
    while !out(&doctor()).contains("for other.test, ") {
        assert!(start.elapsed() < PATIENCE, "the new certificate is not read");
        std::thread::sleep(Duration::from_millis(200));
    }
    web.lookup(&known_root, b"a").unwrap();
    // one that others can read is not used, and said
    std::fs::set_permissions(file("server.key"), std::fs::Permissions::from_mode(0o644)).unwrap();
    let notes = out(&server.ask(&["reload"]));
    assert!(notes.contains("chmod 600"), "{notes}");
    out(&doctor());
}

#[test]
fn tls_require_refuses_calls_in_the_clear() {
    let dir = tempfile::tempdir().unwrap();
    let place = dir.path().display().to_string();
    out(&bowline(&["tls", "init", "--dir", &place]));
    let file = |name: &str| dir.path().join(name).display().to_string();
    let (cert, key, exports) = (file("server.pem"), file("server.key"), file("exports"));
    std::fs::write(&exports, format!("{place} *(ro,insecure)\n")).unwrap();
    let server = Server::start(&[
        "--exports",
        &exports,
        "--tls-cert",
        &cert,
        "--tls-key",
        &key,
        "--set",
        "tls=require",
    ]);
    let refused = connect(&server).mount(place.as_bytes()).unwrap_err().to_string();
    assert!(refused.contains("weak") || refused.contains("Weak"), "{refused}");
    let mut client = sealed_client(&server, dir.path().join("ca.pem"), None);
    client.mount(place.as_bytes()).unwrap();
}

/// Waits until something is so.
#[track_caller]
fn until(mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < PATIENCE, "never");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Streams that are busy while the server's certificate is replaced over and over (`RENEWALS` for more), the kernel's part in
/// TLS is switched, and clients come and go: no call fails, and no handshake. A client whose certificate ends keeps its
/// connection until a reload looks at it, gets no new one, and the log says why.
#[test]
fn certificates_are_renewed_and_end_under_load() {
    const STREAMS: usize = 16;
    let renewals = std::env::var("RENEWALS").map_or(6, |number| number.parse().unwrap());
    let channel = Channel::tls();
    let Channel::Tls(certificates) = &channel else { unreachable!() };
    let (log, exports) = (certificates.file("log"), certificates.file("exports"));
    let served = certificates.file("served");
    std::fs::create_dir(&served).unwrap();
    std::fs::write(served.join("a"), vec![7; 100_000]).unwrap();
    std::fs::write(&exports, format!("{} *(rw,insecure,xprtsec=tls:mtls)\n", served.display()))
        .unwrap();
    let ca = certificates.file("ca.pem");
    let mut args = channel.options();
    for option in
        [["--exports", exports.to_str().unwrap()], ["--tls-client-ca", ca.to_str().unwrap()]]
    {
        args.extend(option.map(str::to_owned));
    }
    let error = std::fs::File::create(&log).unwrap();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let server = Server::start_with(&args, |command| {
        command.stderr(error);
    });
    let mut first = channel.connect(([127, 0, 0, 1], server.port).into(), PATIENCE).unwrap();
    let root = first.mount(served.as_os_str().as_encoded_bytes()).unwrap();
    let file = first.lookup(&root, b"a").unwrap().handle;
    let (stop, calls) = (AtomicBool::new(false), AtomicU64::new(0));
    let at: SocketAddr = ([127, 0, 0, 1], server.port).into();
    let connect = || channel.connect(at, PATIENCE).unwrap();
    let read = |client: &mut Client| {
        assert!(client.read(&file, 0, 100_000).unwrap().data == [7; 100_000]);
        calls.fetch_add(1, SeqCst);
    };
    let work = |mut client: Client| {
        while !stop.load(SeqCst) {
            read(&mut client);
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..STREAMS {
            scope.spawn(|| work(connect()));
        }
        scope.spawn(|| {
            while !stop.load(SeqCst) {
                read(&mut connect());
            }
        });
        for renewal in 0..renewals {
            let before = calls.load(SeqCst);
            certificates.renew();
            out(&server.ask(&["reload"]));
            out(&server.ask(&["set", if renewal % 2 == 0 { "ktls=off" } else { "ktls=auto" }]));
            read(&mut connect());
            until(|| calls.load(SeqCst) > before + 2 * STREAMS as u64);
        }
        stop.store(true, SeqCst);
    });
    println!("{} calls under {renewals} renewals", calls.load(SeqCst));
    let end = SystemTime::now() + Duration::from_secs(3);
    let ended = certificates.identity(end);
    let mut known = sealed_client(&server, ca.clone(), Some(ended.clone()));
    until(|| SystemTime::now() > end + Duration::from_secs(1));
    known.getattr(&root).unwrap();
    out(&server.ask(&["reload"]));
    until(|| known.getattr(&root).is_err());
    let tls =
        ClientTls::open(&ClientFiles { ca: Some(ca), identity: Some(ended) }, true, tls::ALPN)
            .unwrap();
    // the client's side of a handshake is over before the server has seen the certificate
    let refused = match starttls::connect(at, PATIENCE, NFS3, (&tls, "localhost")) {
        Ok(stream) => Client::over_tls(stream, PATIENCE).null().is_err(),
        Err(_) => true,
    };
    assert!(refused, "a certificate that has ended is accepted");
    until(|| std::fs::read_to_string(&log).unwrap().contains("its certificate has expired"));
}

/// A COMPOUND that writes data at the beginning of a file, as Linux sends it, in a record.
fn write_record(
    session: &mut Session,
    (handle, stateid): (&[u8], Stateid4),
    data: &[u8],
) -> Vec<u8> {
    let credential = AuthSys::new(b"web.test", 0, 0, &[]);
    let mut w = Writer::new();
    let (program, version) = (proto::nfs3::PROGRAM, nfs4::VERSION);
    w.put(&Request { xid: 77, program, version, procedure: 1, credential });
    w.put(&CompoundHead { tag: b"", minor: 1, count: 3 });
    w.u32(op::SEQUENCE);
    w.put(&session.next_request(1, false).unwrap());
    w.u32(op::PUTFH);
    w.put(&Bytes::<128>(handle));
    w.u32(op::WRITE);
    w.put(&WriteArgs { stateid, offset: 0, stable: StableHow4::Unstable, data: Bytes(data) });
    let mark = rpc::record::mark(w.bytes().len()).unwrap();
    [&mark.to_be_bytes(), w.bytes()].concat()
}

/// Sends a record; the COMPOUND's status.
fn answered(stream: &mut (impl Read + Write), record: &[u8]) -> Nfsstat4 {
    stream.write_all(record).unwrap();
    let mut mark = [0; 4];
    stream.read_exact(&mut mark).unwrap();
    let mut reply = vec![0; (u32::from_be_bytes(mark) & (u32::MAX >> 1)) as usize];
    stream.read_exact(&mut reply).unwrap();
    rpc::Reply::parse(&reply).unwrap().results.unwrap().get().unwrap()
}

/// The data goes to the file as it arrives; if the connection breaks, the request runs once when it comes again.
#[test]
fn a_large_write_of_version_4_inside_tls_breaks_and_comes_again() {
    let dir = tempfile::tempdir().unwrap();
    let (place, served) = (dir.path().display().to_string(), dir.path().join("served"));
    out(&bowline(&["tls", "init", "--dir", &place]));
    std::fs::create_dir(&served).unwrap();
    for (path, mode) in [(dir.path(), 0o755), (&served, 0o777)] {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    }
    let file = |name: &str| dir.path().join(name).display().to_string();
    let (cert, key, exports) = (file("server.pem"), file("server.key"), file("exports"));
    let rule = format!("{} *(rw,insecure,async,xprtsec=tls,fsid=0)\n", served.display());
    std::fs::write(&exports, rule).unwrap();
    let options = ["--exports", &exports, "--tls-cert", &cert, "--tls-key", &key];
    let server = Server::start(&options);
    let mut client = sealed_client(&server, dir.path().join("ca.pem"), None);
    let mut session = client.open_session(b"machine", 4).unwrap();
    let (stateid, handle) = open(&mut client, &mut session, b"file", 0).unwrap();

    let data: Vec<u8> = (0..1_u32 << 20).map(|at| (at % 251) as u8).collect();
    let record = write_record(&mut session, (&handle, stateid), &data);
    let files = ClientFiles { ca: Some(dir.path().join("ca.pem")), identity: None };
    let tls = ClientTls::open(&files, true, tls::ALPN).unwrap();
    let at: SocketAddr = ([127, 0, 0, 1], server.port).into();
    let connect = || starttls::connect(at, PATIENCE, NFS3, (&tls, "localhost")).unwrap();
    let mut broken = connect();
    broken.write_all(&record[..700_000]).unwrap();
    let start = Instant::now();
    while !std::fs::read(served.join("file")).unwrap().starts_with(&data[..256 << 10]) {
        assert!(start.elapsed() < PATIENCE, "no data goes ahead");
        std::thread::sleep(Duration::from_millis(5));
    }
    drop(broken);
    let mut again = connect();
    assert_eq!(answered(&mut again, &record), Nfsstat4::Ok);
    assert!(std::fs::read(served.join("file")).unwrap() == data);
    assert_eq!(answered(&mut again, &record), Nfsstat4::RetryUncachedRep);
    let next = write_record(&mut session, (&handle, stateid), &data[1..]);
    assert_eq!(answered(&mut again, &next), Nfsstat4::Ok);
    assert!(std::fs::read(served.join("file")).unwrap().starts_with(&data[1..]));
}
