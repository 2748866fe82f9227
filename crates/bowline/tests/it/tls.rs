//! RPC with TLS as an operator sets it up: certificates by one command, exports that demand them, renewal, diagnoses.

use crate::operator_tables::connect;
use crate::rig::{Server, bowline, text};
use client::sealed;
use client::{Client, Identity};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use tls::{ClientFiles, ClientTls};

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
    let stream = sealed::connect(at, PATIENCE, NFS3, (&tls, "localhost")).unwrap();
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
