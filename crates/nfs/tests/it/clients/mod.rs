//! What clients of other operating systems send, byte by byte, and what each needs of the replies.
//!
//! Owns: the sequences of five clients, worked out from their public sources and from what is known of the one without
//! sources. They are not recordings of a running client. The versions of the sources are in `docs/conformance.md`.
//! Nothing here encodes or decodes with the server's own layouts.

mod answer;
mod esxi;
mod freebsd;
mod illumos;
mod macos;
mod windows;
mod wire;

use crate::nlm::rig::{Rig, file_in_memory};
use crate::support::Awake;
use answer::{Answer, Attrs, Known, Reply, Sequenced, Session};
use bowline_nfs::nfs_program;
use rpc::{AuthSys, Call, Credential, Peer, Program, Transport, TransportSecurity};
use std::cell::{Cell, RefCell};
use std::sync::Arc;
use wire::{Args, op};
use xdr::{Reader, Writer};

/// Status codes that the clients are ready for.
mod status {
    pub const OK: u32 = 0;
    pub const NOENT: u32 = 2;
    pub const EXIST: u32 = 17;
    pub const NOTEMPTY: u32 = 66;
    pub const STALE: u32 = 70;
    pub const NOTSUPP: u32 = 10004;
    pub const SAME: u32 = 10009;
    pub const DENIED: u32 = 10010;
    pub const GRACE: u32 = 10013;
    pub const SHARE_DENIED: u32 = 10015;
    pub const STALE_CLIENTID: u32 = 10022;
    pub const STALE_STATEID: u32 = 10023;
    pub const NO_GRACE: u32 = 10033;
    pub const BADSESSION: u32 = 10052;
    pub const COMPLETE_ALREADY: u32 = 10054;
    pub const SEQ_MISORDERED: u32 = 10063;
}

/// How a client writes what surrounds the operations.
#[derive(Clone, Copy)]
struct Dialect {
    /// The bytes of a tag.
    tag: fn(&str) -> Vec<u8>,
    /// Whether the reply of a COMPOUND with this tag is to be kept (`sa_cachethis`).
    cached: fn(&str) -> bool,
}

/// A tag as it is.
fn as_is(tag: &str) -> Vec<u8> {
    tag.as_bytes().to_vec()
}

/// A tag of twelve bytes, the rest of which are blanks.
fn twelve(tag: &str) -> Vec<u8> {
    let blanks = std::iter::repeat_n(b' ', 12);
    tag.bytes().chain(blanks).take(12).collect()
}

/// A client, and its session on slot 0 if it has one.
struct Client<'r> {
    rig: &'r Rig,
    minor: u32,
    dialect: Dialect,
    uid: u32,
    clientid: Cell<u64>,
    session: Cell<Option<[u8; 16]>>,
    sequence: Cell<u32>,
    /// What SEQUENCE said last.
    heard: RefCell<Option<Sequenced>>,
}

impl<'r> Client<'r> {
    fn new(rig: &'r Rig, minor: u32, dialect: Dialect) -> Self {
        Self {
            rig,
            minor,
            dialect,
            uid: 0,
            clientid: Cell::new(0),
            session: Cell::new(None),
            sequence: Cell::new(0),
            heard: RefCell::new(None),
        }
    }

    /// Sends these operations and nothing else.
    fn bare(&self, tag: &str, operations: &[Vec<u8>]) -> Reply {
        let tag = (self.dialect.tag)(tag);
        let count = u32::try_from(operations.len()).unwrap();
        let head = Args::default().opaque(&tag).u32(self.minor).u32(count).end();
        let reply = run(self.rig, self.uid, &[&[head], operations].concat().concat());
        let reply = Reply::of(&reply);
        assert_eq!(reply.tag, tag, "the tag is echoed");
        reply
    }

    /// Sends these operations, behind SEQUENCE if there is a session.
    fn call(&self, tag: &str, operations: &[Vec<u8>]) -> Reply {
        let Some(session) = self.session.get() else { return self.bare(tag, operations) };
        let sequence = self.sequence.get() + 1;
        self.sequence.set(sequence);
        let cached = (self.dialect.cached)(tag);
        let head = Args::of(op::SEQUENCE).fixed(&session).u32(sequence).u32(0).u32(0);
        let head = head.u32(cached.into()).end();
        let reply = self.bare(tag, &[&[head], operations].concat());
        if let (op::SEQUENCE, 0, Answer::Sequenced(sequenced)) = &reply.results[0] {
            let got = (sequenced.session, sequenced.sequence, sequenced.slot);
            assert_eq!(got, (session, sequence, 0), "of this request");
            *self.heard.borrow_mut() = Some(sequenced.clone());
        }
        reply
    }

    /// The same, which has to succeed.
    fn done(&self, tag: &str, operations: &[Vec<u8>]) -> Reply {
        let reply = self.call(tag, operations);
        assert_eq!(reply.status, status::OK, "{tag}: {reply:?}");
        let sequence = usize::from(self.session.get().is_some());
        assert_eq!(reply.results.len(), operations.len() + sequence, "{tag}");
        reply
    }

    /// The same, whose last operation has to end with this status.
    fn fails(&self, tag: &str, operations: &[Vec<u8>], status: u32) -> Reply {
        let reply = self.call(tag, operations);
        assert_eq!(reply.status, status, "{tag}: {reply:?}");
        reply
    }

    /// EXCHANGE_ID, the first time or again.
    fn exchange(&self, tag: &str, exchange_id: Vec<u8>) -> Known {
        let reply = self.bare(tag, &[exchange_id]);
        assert_eq!(reply.status, status::OK, "{reply:?}");
        let Answer::Known(known) = reply.first(op::EXCHANGE_ID) else { panic!("{reply:?}") };
        self.clientid.set(known.clientid);
        known.clone()
    }

    /// CREATE_SESSION; the session is used from now on.
    fn start(&self, tag: &str, create_session: Vec<u8>) -> Session {
        let reply = self.bare(tag, &[create_session]);
        assert_eq!(reply.status, status::OK, "{reply:?}");
        let Answer::Session(session) = reply.first(op::CREATE_SESSION) else { panic!("{reply:?}") };
        self.session.set(Some(session.id));
        self.sequence.set(0);
        session.clone()
    }

    /// SETCLIENTID and SETCLIENTID_CONFIRM of version 4.0.
    fn confirm(&self, tags: [&str; 2], before: &[Vec<u8>], setclientid: Vec<u8>) {
        let reply = self.done(tags[0], &[before, &[setclientid]].concat());
        let Answer::Client { clientid, confirm } = reply.first(op::SETCLIENTID) else {
            panic!("{reply:?}")
        };
        let args = Args::of(op::SETCLIENTID_CONFIRM).u64(*clientid).fixed(confirm).end();
        self.done(tags[1], &[args]);
        self.clientid.set(*clientid);
    }
}

/// Runs a COMPOUND of a user; its result.
fn run(rig: &Rig, uid: u32, compound: &[u8]) -> Vec<u8> {
    let peer = Peer {
        addr: "127.0.0.1:900".parse().unwrap(),
        local: "127.0.0.1:2049".parse().unwrap(),
        transport: Transport::Tcp,
        security: TransportSecurity::PLAIN,
    };
    let sys = AuthSys::new(b"client", uid, uid, &[]).unwrap();
    let mut call = Call::new(1, &peer, Credential::Sys(sys), &Awake);
    let program = nfs_program(Arc::clone(&rig.nfs));
    let row = program.row(4, 1).unwrap().id;
    let mut reply = Writer::new();
    program.run(row, &mut call, &mut Reader::new(compound), &mut reply).unwrap();
    reply.bytes().to_vec()
}

/// A server with one export, `/e`, in which there is `file`.
fn server() -> Rig {
    Rig::over(file_in_memory())
}

/// The value of `mode`.
fn mode(mode: u32) -> Vec<u8> {
    mode.to_be_bytes().to_vec()
}

/// The value of `size`.
fn size(size: u64) -> Vec<u8> {
    size.to_be_bytes().to_vec()
}

/// A time to be set (`settime4`): `SET_TO_CLIENT_TIME4`.
fn client_time(seconds: u64, nanoseconds: u32) -> Vec<u8> {
    Args::default().u32(1).u64(seconds).u32(nanoseconds).end()
}

/// That a client received each attribute that it asked for.
fn given(attrs: &Attrs, asked: &[u32]) {
    assert_eq!(attrs.numbers(), answer::numbers(asked));
}

/// The type of an object: 1 a file, 2 a directory, 5 a symbolic link, 7 a FIFO.
const TYPE: u32 = 1;
const SUPPORTED: u32 = 0;
const CHANGE: u32 = 3;
const SIZE: u32 = 4;
const FSID: u32 = 8;
const LEASE: u32 = 10;
const HANDLE: u32 = 19;
const FILEID: u32 = 20;
const MODE: u32 = 33;
const MOUNTED_ON: u32 = 55;
const EXCLUSIVE: u32 = 75;
