//! What a client sends before it is known: the bytes of a TLS handshake, changed or not, and those behind it.
//!
//! The library that compiles for this takes a minute, so that this target is only built when it is named:
//! `fuzz/run 60 tls_stream`. The tests of the crate `tls` replay its inputs.

use bowline_tls::{
    ALPN, Authority, ClientFiles, ClientTls, Handshake, Progress, Purpose, RECORD_MAX, ServerFiles,
    ServerTls, Session,
};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::{Arc, LazyLock};

/// A server answers a flight with no more than its certificates and an alert.
const ANSWER_MAX: usize = 16 << 10;

struct Parties {
    server: ServerTls,
    client: ClientTls,
}

static PARTIES: LazyLock<Parties> = LazyLock::new(Parties::new);

impl Parties {
    /// A server that asks for certificates, and a client that has one.
    fn new() -> Self {
        let dir = std::env::temp_dir().join(format!("tls-stream-{}", std::process::id()));
        fs::create_dir_all(&dir).expect("a directory");
        let file = |name: &str, text: &str| {
            let path = dir.join(name);
            fs::write(&path, text).expect("a file");
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("its mode");
            path
        };
        let (authority, _) = Authority::create("test").expect("an authority");
        let issue = |purpose| {
            authority.issue(&["localhost".to_owned()], purpose, 30).expect("a certificate")
        };
        let (own, theirs) = (issue(Purpose::Server), issue(Purpose::Client));
        let ca = file("ca", authority.certificate());
        let files = ServerFiles {
            cert: file("cert", &own.certificate),
            key: file("key", &own.key),
            client_ca: Some(ca.clone()),
            crl: None,
        };
        let server = ServerTls::open(files, Arc::default()).expect("a server");
        let identity = Some((file("theirs", &theirs.certificate), file("their-key", &theirs.key)));
        let client = ClientTls::open(&ClientFiles { ca: Some(ca), identity }, true, ALPN);
        let client = client.expect("a client");
        remove(&dir);
        Self { server, client }
    }
}

fn remove(dir: &Path) {
    let _ = fs::remove_dir_all(dir);
}

/// Checks one input: what is done, how bytes are cut into pieces, and the bytes, or what is changed in a handshake.
pub fn run(data: &[u8]) {
    let Some(([what, piece], rest)) = data.split_first_chunk::<2>() else { return };
    let piece = usize::from(*piece) + 1;
    match what % 3 {
        0 => arbitrary(rest, piece),
        1 => changed(rest, piece),
        _ => behind(rest, piece),
    }
}

/// Bytes in place of a handshake.
fn arbitrary(bytes: &[u8], piece: usize) {
    let mut handshake = PARTIES.server.begin().expect("a handshake");
    for part in bytes.chunks(piece) {
        let mut answer = Vec::new();
        let received = handshake.receive(part, &mut answer);
        assert!(answer.len() <= ANSWER_MAX);
        match received {
            Ok((Some(next), Progress::More)) => handshake = next,
            Ok(_) => panic!("nobody has the keys"),
            Err(_) => return,
        }
        assert!(handshake.kept() <= bytes.len());
    }
}

/// One side of a handshake.
enum Side {
    Under(Handshake),
    Done(Box<Session>),
    Failed,
}

impl Side {
    fn receive(self, bytes: &[u8], piece: usize, answer: &mut Vec<u8>) -> Self {
        let mut side = self;
        for part in bytes.chunks(piece) {
            side = match side {
                Self::Under(handshake) => match handshake.receive(part, answer) {
                    Ok((Some(handshake), Progress::More)) => Self::Under(handshake),
                    Ok((_, Progress::Done(session, early))) => {
                        assert!(early.is_empty(), "nothing was sent");
                        Self::Done(session)
                    }
                    Ok((None, Progress::More)) => panic!("neither goes on nor is over"),
                    Err(_) => Self::Failed,
                },
                Self::Done(mut session) => match open(&mut session, part) {
                    Some(len) => {
                        assert_eq!(len, 0, "nothing was sent");
                        Self::Done(session)
                    }
                    None => Self::Failed,
                },
                Self::Failed => return Self::Failed,
            };
        }
        side
    }
}

/// What is changed of all bytes that the client sends: where, and what stands there.
struct Change {
    at: usize,
    kind: u8,
    value: u8,
}

impl Change {
    /// Applies it if it is in this flight, which begins at `sent`.
    fn apply(&self, flight: &mut Vec<u8>, sent: usize) {
        let Some(at) = self.at.checked_sub(sent).filter(|at| *at < flight.len()) else { return };
        match self.kind % 4 {
            0 => flight.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= self.value),
            1 => flight.truncate(at),
            2 => flight.insert(at, self.value),
            _ => {
                let repeated: Vec<u8> =
                    flight.iter().skip(at).take(usize::from(self.value)).copied().collect();
                flight.splice(at..at, repeated);
            }
        }
    }
}

/// A handshake with a change, or none: it ends on both sides or the server does not take it for one.
fn changed(bytes: &[u8], piece: usize) {
    let Some([high, low, kind, value]) = bytes.first_chunk::<4>() else { return };
    let change =
        Change { at: usize::from(u16::from_be_bytes([*high, *low])), kind: *kind, value: *value };
    let (server, client) = join(&change, piece);
    let is_harmless = change.kind.is_multiple_of(4) && change.value == 0;
    match (server, client) {
        (Side::Done(mut server), Side::Done(mut client)) => {
            let mut sealed = Vec::new();
            client.seal(b"hello", &mut sealed).expect("sealed");
            let opened = open(&mut server, &sealed);
            assert!(!is_harmless || opened == Some(5));
        }
        (Side::Done(_), _) => panic!("a session without a client"),
        _ => assert!(!is_harmless, "it had to be completed"),
    }
}

/// Both sides after a handshake.
fn join(change: &Change, piece: usize) -> (Side, Side) {
    let (mut to_server, mut to_client) = (Vec::new(), Vec::new());
    let mut client =
        Side::Under(PARTIES.client.begin("localhost", &mut to_server).expect("a client"));
    let mut server = Side::Under(PARTIES.server.begin().expect("a handshake"));
    let mut sent = 0;
    for _ in 0..6 {
        let mut flight = std::mem::take(&mut to_server);
        let len = flight.len();
        change.apply(&mut flight, sent);
        sent += len;
        server = server.receive(&flight, piece, &mut to_client);
        assert!(to_client.len() <= ANSWER_MAX);
        client = client.receive(&std::mem::take(&mut to_client), 1 << 14, &mut to_server);
    }
    (server, client)
}

/// Bytes behind a handshake that the client has not sealed: no data comes of them.
fn behind(bytes: &[u8], piece: usize) {
    let (server, _) = join(&Change { at: usize::MAX, kind: 0, value: 0 }, 1 << 14);
    let Side::Done(mut session) = server else { panic!("it had to be completed") };
    for part in bytes.chunks(piece) {
        match open(&mut session, part) {
            Some(len) => assert_eq!(len, 0, "data that nobody has sealed"),
            None => return,
        }
        assert!(session.kept() <= RECORD_MAX);
    }
}

/// How much data there is in bytes received; `None` if they are no records of the session.
fn open(session: &mut Session, bytes: &[u8]) -> Option<usize> {
    let mut buf = vec![0; session.kept() + bytes.len()];
    let kept = session.put_kept(&mut buf);
    buf.get_mut(kept..)?.copy_from_slice(bytes);
    let mut plain = vec![0; buf.len()];
    session.open(&mut buf, &mut plain, &mut Vec::new()).ok().map(|opened| opened.len)
}
