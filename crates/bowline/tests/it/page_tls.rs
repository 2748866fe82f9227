//! The web page over TLS: settings changed from another machine, the certificate replaced, half handshakes and garbage.
//! An address that is no loopback address, in a network namespace, stands for other machines.

use crate::rig::{Server, bowline, free_port, text};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};
use testing::{ByteWrites, Missing, in_child, is_root, skip};
use tls::{ALPN, ALPN_HTTP, ClientFiles, ClientStream, ClientTls};

const PATIENCE: Duration = Duration::from_secs(60);
/// Longest handshake (`TIME_MAX` of admin).
const HANDSHAKE_MAX: Duration = Duration::from_secs(5);
/// Most connections (`CONNECTIONS_MAX` of admin).
const CONNECTIONS_MAX: usize = 64;
/// Where clients are whom the server does not know as its own machine.
const ELSEWHERE: &str = "192.0.2.1";
/// Runs a program where there is that address.
const WITH_ELSEWHERE: [&str; 5] = [
    "unshare",
    "-n",
    "sh",
    "-c",
    r#"ip link set lo up && ip address add 192.0.2.1/32 dev lo && exec "$0" "$@""#,
];
const CHANGE: &str = r#"{"key":"max-read","value":"64K"}"#;

/// A server with a certificate for `nfs.test`, and its page on all addresses.
struct Page {
    dir: tempfile::TempDir,
    server: Server,
    port: u16,
}

impl Page {
    fn start() -> Self {
        let (dir, port) = (tempfile::tempdir().unwrap(), free_port());
        init(&dir, "nfs.test");
        let file = |name| dir.path().join(name).display().to_string();
        let at = format!("0.0.0.0:{port}");
        let (cert, key) = (file("server.pem"), file("server.key"));
        let server = Server::start(&["--metrics", &at, "--tls-cert", &cert, "--tls-key", &key]);
        Self { dir, server, port }
    }

    fn ca(&self) -> PathBuf {
        self.dir.path().join("ca.pem")
    }

    fn token(&self) -> String {
        text(&self.server.ask(&["token"]).stdout).trim_end().to_owned()
    }

    fn setting(&self) -> String {
        text(&self.server.ask(&["get", "max-read"]).stdout).trim_end().to_owned()
    }

    /// What curl says of a page: its exit status, and the answer with its head.
    fn curl(&self, url: &str, more: &[&str]) -> (Option<i32>, String) {
        let output = Command::new("curl")
            .args(["--silent", "--show-error", "--include", "--max-time", "60", "--cacert"])
            .arg(self.ca())
            .args(more)
            .arg(url)
            .output()
            .unwrap();
        (output.status.code(), text(&output.stdout) + &text(&output.stderr))
    }

    /// The answer to a change with this token, over TLS or not, from this address.
    fn change(&self, scheme: &str, host: &str, token: &str) -> String {
        let authorization = format!("Authorization: Bearer {token}");
        let url = format!("{scheme}://{host}:{}/api/set", self.port);
        let (status, answer) =
            self.curl(&url, &["--header", &authorization, "--data", CHANGE, "--http1.1"]);
        assert_eq!(status, Some(0), "{answer}");
        answer
    }

    fn connect(&self, host: &str) -> TcpStream {
        let at: SocketAddr = format!("{host}:{}", self.port).parse().unwrap();
        let stream = TcpStream::connect(at).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    /// A metric, as who scrapes without TLS reads it.
    fn metric(&self, sample: &str) -> f64 {
        let mut stream = self.connect("127.0.0.1");
        stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let value = answer.lines().find_map(|line| line.strip_prefix(sample)?.strip_prefix(' '));
        value.unwrap_or_else(|| panic!("no {sample}: {answer}")).parse().unwrap()
    }
}

fn init(dir: &tempfile::TempDir, name: &str) {
    let made = bowline(&["tls", "init", name, "--dir", dir.path().to_str().unwrap()]);
    assert!(made.status.success(), "{}", text(&made.stderr));
}

fn has_curl() -> bool {
    let found = Command::new("curl").arg("--version").output().is_ok();
    if !found {
        skip(Missing::Program, "curl");
    }
    found
}

/// A client of rustls.
fn rustls_client(page: &Page, alpn: &[u8]) -> ClientTls {
    let files = ClientFiles { ca: Some(page.ca()), identity: None };
    ClientTls::open(&files, true, alpn).unwrap()
}

#[test]
fn settings_are_changed_from_elsewhere_over_tls_only() {
    if !is_root() {
        return skip(Missing::Root, "a network namespace");
    }
    let test = "page_tls::settings_are_changed_from_elsewhere_over_tls_only";
    if !has_curl() || !in_child(test, &WITH_ELSEWHERE) {
        return;
    }
    let page = Page::start();
    let lines = page.server.lines.concat();
    assert!(lines.contains(&format!("\npage: https://nfs.test:{}/, also http://\n", page.port)));
    let token = page.token();
    // the page is the same over both; who does not know the authority does not get it over TLS
    let url = |scheme: &str, path: &str| format!("{scheme}://{ELSEWHERE}:{}{path}", page.port);
    for scheme in ["http", "https"] {
        let (status, answer) = page.curl(&url(scheme, "/"), &[]);
        assert_eq!(status, Some(0), "{answer}");
        assert!(answer.starts_with("HTTP/1.1 200 ") && answer.trim_end().ends_with("</html>"));
        assert!(answer.contains("content-security-policy: default-src 'none'; script-src 'self';"));
        assert!(!answer.to_lowercase().contains("strict-transport-security"), "{answer}");
        let (_, access) = page.curl(&url(scheme, "/api/access"), &[]);
        let wanted = format!("\"has_tls\":true,\"is_private\":{}", scheme == "https");
        assert!(access.contains(&wanted), "{access}");
    }
    let (status, said) = page.curl(&url("https", "/"), &["--cacert", "/dev/null"]);
    assert_ne!(status, Some(0), "{said}");
    let (status, said) = page.curl(&url("https", "/"), &["--tls-max", "1.2"]);
    assert_eq!(status, Some(35), "{said}");

    for wrong in ["", "0", &"0".repeat(32), &token[1..]] {
        let answer = page.change("https", ELSEWHERE, wrong);
        assert!(answer.starts_with("HTTP/1.1 401 "), "{answer}");
        let answer = page.change("http", ELSEWHERE, wrong);
        assert!(answer.starts_with("HTTP/1.1 403 ") && answer.contains("https://"), "{answer}");
    }
    assert_eq!((page.setting().as_str(), page.token()), ("1M", token.clone()));
    // who can listen has the token now, so that it counts no more
    let answer = page.change("http", ELSEWHERE, &token);
    assert!(answer.starts_with("HTTP/1.1 403 ") && answer.contains("not valid any more"));
    assert_eq!(page.setting(), "1M");
    assert!(page.change("https", ELSEWHERE, &token).starts_with("HTTP/1.1 401 "));
    let token = page.token();
    let answer = page.change("https", ELSEWHERE, &token);
    assert!(answer.starts_with("HTTP/1.1 200 ") && answer.contains("\"before\":\"1M\""));
    assert_eq!(page.setting(), "64K");
    for scheme in ["http", "https"] {
        assert!(page.change(scheme, "127.0.0.1", &token).starts_with("HTTP/1.1 200 "));
    }
    assert_eq!(page.metric("bowline_web_refused_changes_total"), 10.0);
    assert!(page.metric("bowline_web_connections_total{security=\"tls\"}") >= 9.0);
    assert!(page.metric("bowline_web_failed_handshakes_total") >= 2.0);

    // another client of TLS; a page from another place cannot make a browser send the token, as its question is not answered
    for alpn in [ALPN_HTTP, b""] {
        let client = rustls_client(&page, alpn);
        let stream = page.connect(ELSEWHERE);
        let mut stream = ClientStream::connect(stream, &client, "nfs.test").unwrap();
        let head = "OPTIONS /api/set HTTP/1.1\r\nHost: x\r\nOrigin: http://other.test\r\n\
                    Access-Control-Request-Method: POST\r\n\r\n";
        stream.write_all(head.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 405 "), "{answer}");
        assert!(!answer.to_lowercase().contains("access-control"), "{answer}");
    }
    let of_rpc = rustls_client(&page, ALPN);
    assert!(ClientStream::connect(page.connect(ELSEWHERE), &of_rpc, "nfs.test").is_err());
}

#[test]
fn a_new_certificate_is_the_pages_too() {
    if !has_curl() {
        return;
    }
    let page = Page::start();
    let asked = |name: &str| {
        let resolve = format!("{name}:{}:127.0.0.1", page.port);
        let url = format!("https://{name}:{}/metrics", page.port);
        page.curl(&url, &["--resolve", &resolve])
    };
    assert_eq!(asked("nfs.test").0, Some(0));
    // no name of the certificate
    assert_eq!(asked("other.test").0, Some(60));
    init(&page.dir, "other.test");
    let begun = Instant::now();
    while asked("other.test").0 != Some(0) {
        assert!(begun.elapsed() < PATIENCE, "{:?}", asked("other.test"));
        std::thread::sleep(Duration::from_millis(100));
    }
    // one that cannot be used leaves the last in use
    std::fs::write(page.dir.path().join("server.pem"), "nothing").unwrap();
    assert!(text(&page.server.ask(&["reload"]).stdout).contains("no certificate"));
    assert_eq!(asked("other.test").0, Some(0));
}

/// What begins a connection and is no handshake that ends.
fn wrong_beginnings(hello: &[u8]) -> Vec<Vec<u8>> {
    let mut changed = hello.to_vec();
    if let Some(byte) = changed.get_mut(40) {
        *byte ^= 1;
    }
    let mut wrong: Vec<Vec<u8>> = [
        &b"\x16"[..],
        b"\x16\x03\x01\x40\x00",
        b"\x16\x03\x01\xff\xff",
        b"\x16\x03\x01\0\x05\x01\0\0\x01\0",
        b"\x16\x16\x16\x16\x16\x16\x16\x16\x16\x16\x16\x16\x16\x16\x16\x16",
        b"\x15\x03\x03\0\x02\x02\x28",
        b"\x80\x2e\x01\x03\x01",
        b"\0",
        b"GET / HTTP/1.1\r\n",
    ]
    .map(<[u8]>::to_vec)
    .to_vec();
    // a first message of 16 MiB, of which 64 KiB come
    let record = [&b"\x16\x03\x01\x40\x00\x01\xff\xff\xff"[..], &[7; (1 << 14) - 4]].concat();
    wrong.push(record.repeat(4));
    wrong.push([hello, b"GET / HTTP/1.1\r\n\r\n"].concat());
    wrong.push(changed);
    wrong.extend((1..8).map(|part| hello[..hello.len() * part / 8].to_vec()));
    wrong
}

#[test]
fn half_handshakes_and_garbage_keep_nobody_out() {
    let page = Page::start();
    let client = rustls_client(&page, ALPN_HTTP);
    let mut hello = Vec::new();
    let _handshake = client.begin("nfs.test", &mut hello).unwrap();
    let begun = Instant::now();
    let silent: Vec<TcpStream> = wrong_beginnings(&hello)
        .iter()
        .map(|bytes| {
            let mut stream = page.connect("127.0.0.1");
            stream.write_all(bytes).unwrap();
            stream
        })
        .collect();
    // a whole one, byte by byte, and who comes without TLS, are served meanwhile
    let by_byte = ByteWrites::new(page.connect("127.0.0.1")).unwrap();
    let mut stream = ClientStream::connect(by_byte, &client, "nfs.test").unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 ") && answer.contains("\nbowline_build_info"));
    assert!(page.metric("bowline_web_connections_total{security=\"none\"}") >= 1.0);
    assert!(begun.elapsed() < HANDSHAKE_MAX, "{:?}", begun.elapsed());
    for mut stream in silent {
        // an end or a reset: nothing of the page
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        assert!(!answer.starts_with(b"HTTP/1.1 200 "), "{}", text(&answer));
    }
    let took = begun.elapsed();
    assert!(took < HANDSHAKE_MAX * 3, "they are closed after {took:?}");
    assert!(page.metric("bowline_web_failed_handshakes_total") >= 15.0);

    // more than there may be, of which each has begun a handshake
    let crowd: Vec<TcpStream> = (0..CONNECTIONS_MAX * 2)
        .map(|_| {
            let mut stream = page.connect("127.0.0.1");
            // one that has no place is closed already
            let _ = stream.write_all(&hello[..100]);
            stream
        })
        .collect();
    for mut stream in crowd {
        let _ = stream.read_to_end(&mut Vec::new());
    }
    assert!(page.metric("bowline_web_refused_connections_total") >= 1.0);
    let status = page.server.json("status");
    assert_eq!(status["state"], "ok", "{status}");
}
