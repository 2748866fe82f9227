//! Where the callbacks of a client of version 4.0 are sent, and what SETCLIENTID_CONFIRM confirms.

use crate::sync::{Arc, AtomicUsize};
use std::net::IpAddr;
use std::sync::atomic::Ordering::{AcqRel, Relaxed, Release};

/// Whether a client's callback address answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallbackPath {
    /// It was not tried yet.
    Unknown,
    /// CB_NULL, or the last callback, was answered.
    Up,
    /// It was not answered, or the client gave no address that may be called.
    Down,
}

/// What is known of the address.
const UNTRIED: usize = 0;
const UP: usize = 1;
const DOWN: usize = 2;
/// It answers, and not as a callback program does.
const USELESS: usize = 3;

/// The AUTH_SYS credential of callbacks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallbackUser {
    /// The name of the machine.
    pub machine: Box<[u8]>,
    /// The user.
    pub uid: u32,
    /// The group.
    pub gid: u32,
    /// The other groups.
    pub groups: Box<[u32]>,
}

/// What callbacks are authenticated by: as SETCLIENTID was (RFC 7530 §3.3.3).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallbackCredential {
    /// AUTH_NONE.
    None,
    /// AUTH_SYS.
    User(CallbackUser),
    /// SETCLIENTID was protected in a way in which no callbacks are made here: the client gets no delegations.
    Unavailable,
}

/// Where the callbacks of a client are sent (`cb_client4`).
#[derive(Debug)]
pub struct Callback {
    /// The number of the client's callback program.
    pub program: u32,
    /// What each callback is to carry (`callback_ident`).
    pub ident: u32,
    /// The address that SETCLIENTID came from, which is the only one that is called.
    pub address: IpAddr,
    /// The server's address that it came to.
    pub local: IpAddr,
    /// The port; `None` if the client named another address than its own, or none.
    pub port: Option<u16>,
    /// What they are authenticated by.
    pub credential: CallbackCredential,
    path: AtomicUsize,
    /// Not 0 while CB_NULL is not answered yet.
    probed: AtomicUsize,
}

impl Callback {
    /// An address that was not tried yet.
    pub const fn new(
        (program, ident): (u32, u32),
        (address, local): (IpAddr, IpAddr),
        port: Option<u16>,
        credential: CallbackCredential,
    ) -> Self {
        let (path, probed) = (AtomicUsize::new(UNTRIED), AtomicUsize::new(0));
        Self { program, ident, address, local, port, credential, path, probed }
    }

    /// Whether a delegation can be recalled: callbacks get through.
    pub fn takes_recalls(&self) -> bool {
        self.path() == CallbackPath::Up && self.credential != CallbackCredential::Unavailable
    }

    /// Begins to send CB_NULL; false if one is under way, or the program is of no use.
    pub fn begin_probe(&self) -> bool {
        self.path.load(Relaxed) != USELESS && self.probed.swap(1, AcqRel) == 0
    }

    /// CB_NULL was answered, was not answered, or, with `None`, was not sent.
    pub fn end_probe(&self, answered: Option<bool>) {
        if let Some(answered) = answered {
            self.tried(answered);
        }
        self.probed.store(0, Release);
    }

    /// Whether callbacks get through.
    pub fn path(&self) -> CallbackPath {
        match (self.port, self.path.load(Relaxed)) {
            (None, _) => CallbackPath::Down,
            (Some(_), UNTRIED) => CallbackPath::Unknown,
            (Some(_), UP) => CallbackPath::Up,
            (Some(_), _) => CallbackPath::Down,
        }
    }

    /// Notes whether a callback was answered.
    pub fn tried(&self, answered: bool) {
        let path = if answered { UP } else { DOWN };
        let changed = |before| (before != USELESS).then_some(path);
        let _useless = self.path.fetch_update(Relaxed, Relaxed, changed);
    }

    /// What has answered does not speak the callback program, or refuses it: callbacks do not get through until the client
    /// names an address anew, whatever CB_NULL is answered.
    pub fn misunderstood(&self) {
        self.path.store(USELESS, Relaxed);
    }
}

/// What the table of clients keeps of a client of version 4.0 only.
pub(in super::super) struct Confirmation {
    /// The verifier that confirms, or has confirmed, the record (`setclientid_confirm`).
    pub confirm: [u8; 8],
    /// Where callbacks are sent.
    pub callback: Arc<Callback>,
    /// Where they are sent once it is confirmed, and the verifier that confirms it.
    pub update: Option<([u8; 8], Arc<Callback>)>,
}
