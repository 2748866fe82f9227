//! Handshakes and sessions of a server and a client that are connected by two buffers.

use bowline_tls::{
    ALPN, Authority, ClientFiles, ClientTls, Handshake, HandshakeError, Progress, Purpose,
    ServerFiles, ServerTls, Session, client_error_text, server_error_text,
};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use tempfile::TempDir;

fn write(path: &Path, text: &str) {
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
}

struct Pair {
    dir: TempDir,
    server: ServerTls,
}

impl Pair {
    fn new() -> Self {
        let dir = TempDir::new().unwrap();
        let (authority, key) = Authority::create("test").unwrap();
        // as `bowline tls client` does it
        let authority = Authority::load(authority.certificate(), &key).unwrap();
        let names = ["localhost".to_owned(), "::1".to_owned()];
        let issued = authority.issue(&names, Purpose::Server, 30).unwrap();
        let file = |name: &str| dir.path().join(name);
        write(&file("cert"), &issued.certificate);
        write(&file("key"), &issued.key);
        write(&file("ca"), authority.certificate());
        let files =
            ServerFiles { cert: file("cert"), key: file("key"), client_ca: None, crl: None };
        let server = ServerTls::open(files, Arc::default()).unwrap();
        Self { dir, server }
    }

    fn client(&self, alpn: &[u8]) -> ClientTls {
        let files = ClientFiles { ca: Some(self.dir.path().join("ca")), identity: None };
        ClientTls::open(&files, true, alpn).unwrap()
    }

    /// Connects both sides; returns the sessions, or the error text of each side.
    fn join(&self, client: &ClientTls, name: &str) -> Result<(Session, Session), (String, String)> {
        let (mut to_server, mut to_client) = (Vec::new(), Vec::new());
        let mut theirs = Side::Under(client.begin(name, &mut to_server).unwrap());
        let mut ours = Side::Under(self.server.begin().unwrap());
        for _ in 0..10 {
            let sent = std::mem::take(&mut to_server);
            ours = ours.go_on(&sent, &mut to_client);
            let sent = std::mem::take(&mut to_client);
            theirs = theirs.go_on(&sent, &mut to_server);
        }
        match (ours, theirs) {
            (Side::Done(ours), Side::Done(theirs)) => Ok((*ours, *theirs)),
            (ours, theirs) => {
                let names = &self.server.current().certificate.names;
                let ours =
                    ours.failed().map_or(String::new(), |error| server_error_text(&error, names));
                Err((
                    ours,
                    theirs.failed().map_or(String::new(), |error| client_error_text(&error)),
                ))
            }
        }
    }
}

enum Side {
    Under(Handshake),
    Done(Box<Session>),
    Failed(HandshakeError),
}

impl Side {
    fn go_on(self, bytes: &[u8], outgoing: &mut Vec<u8>) -> Self {
        match self {
            Self::Under(handshake) => match handshake.receive(bytes, outgoing) {
                Ok((Some(handshake), Progress::More)) => Self::Under(handshake),
                Ok((None, Progress::Done(session, early))) => {
                    assert!(early.is_empty());
                    Self::Done(session)
                }
                Ok(_) => panic!("neither goes on nor is over"),
                Err(error) => Self::Failed(error),
            },
            over => over,
        }
    }

    fn failed(self) -> Option<HandshakeError> {
        match self {
            Self::Failed(error) => Some(error),
            Self::Under(_) | Self::Done(_) => None,
        }
    }
}

fn open(session: &mut Session, bytes: &[u8], plain: &mut Vec<u8>) -> bool {
    let mut buf = vec![0; session.kept() + bytes.len()];
    let kept = session.put_kept(&mut buf);
    buf[kept..].copy_from_slice(bytes);
    let mut opened = vec![0; buf.len()];
    let done = session.open(&mut buf, &mut opened, &mut Vec::new()).unwrap();
    plain.extend_from_slice(&opened[..done.len]);
    done.ended
}

#[test]
fn a_buffer_that_is_used_again_keeps_its_length() {
    let pair = Pair::new();
    let (mut server, mut client) = pair.join(&pair.client(ALPN), "localhost").unwrap();
    let mut buffer = Vec::new();
    let all = server.seal_at(0, &[1; 50_000], &mut buffer).unwrap();
    let end = server.seal_at(all, b"behind them", &mut buffer).unwrap();
    assert!(end > all);
    let mut plain = Vec::new();
    assert!(!open(&mut client, &buffer[..end], &mut plain));
    assert_eq!((plain[..50_000] == [1; 50_000], &plain[50_000..]), (true, &b"behind them"[..]));
    let length = buffer.len();
    let end = server.seal_at(0, b"over them", &mut buffer).unwrap();
    assert_eq!(buffer.len(), length);
    plain.clear();
    assert!(!open(&mut client, &buffer[..end], &mut plain));
    assert_eq!(plain, b"over them");
}

#[test]
fn data_passes_both_ways_in_pieces_of_any_size() {
    let pair = Pair::new();
    let (mut server, mut client) = pair.join(&pair.client(ALPN), "localhost").unwrap();
    let data: Vec<u8> = (0..100_000_u32).map(|n| n.to_le_bytes()[1]).collect();
    for step in [1_usize, 7, 16_405, 50_000, 200_000] {
        for (from, to) in [(0, 1), (1, 0)] {
            let both = [&mut server, &mut client];
            let (mut records, mut plain) = (Vec::new(), Vec::new());
            both[from].seal(&data, &mut records).unwrap();
            for piece in records.chunks(step) {
                assert!(!open(both[to], piece, &mut plain));
                assert!(both[to].kept() <= bowline_tls::RECORD_MAX);
            }
            assert!(plain == data, "{step}");
            assert_eq!(both[to].kept(), 0);
        }
    }
    let mut records = Vec::new();
    client.close(&mut records);
    let mut plain = Vec::new();
    assert!(open(&mut server, &records, &mut plain), "it has ended");
    // the other direction goes on
    records.clear();
    server.seal(b"last", &mut records).unwrap();
    assert!(!open(&mut client, &records, &mut plain));
    assert_eq!(plain, b"last");
}

#[test]
fn both_sides_report_the_reason_of_a_failed_handshake() {
    let pair = Pair::new();
    let (ours, theirs) = pair.join(&pair.client(b"http/1.1"), "localhost").err().unwrap();
    assert!(ours.contains("did not offer the ALPN protocol sunrpc"), "{ours}");
    assert!(theirs.contains("requires the ALPN protocol sunrpc"), "{theirs}");
    assert!(pair.join(&pair.client(b""), "localhost").is_ok(), "as Linux");
    let (ours, theirs) = pair.join(&pair.client(ALPN), "other.test").err().unwrap();
    assert!(ours.contains("mount with one of localhost, ::1"), "{ours}");
    assert!(theirs.contains("is not valid for the requested name"), "{theirs}");
    assert!(pair.join(&pair.client(ALPN), "::1").is_ok(), "an address");
    let (foreign, _) = Authority::create("foreign").unwrap();
    write(&pair.dir.path().join("ca"), foreign.certificate());
    let (ours, theirs) = pair.join(&pair.client(ALPN), "localhost").err().unwrap();
    assert!(ours.contains("x509.truststore"), "{ours}");
    assert!(theirs.contains("unknown authority"), "{theirs}");
    let mut said = Vec::new();
    let plain = pair.server.begin().unwrap().receive(&[0x80, 0, 0, 40, 1, 2, 3, 4], &mut said);
    let error = plain.err().expect("refused");
    assert_eq!(server_error_text(&error, &[]), "what it sent is not TLS");
}
