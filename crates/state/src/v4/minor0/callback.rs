//! Where the callbacks of a client of version 4.0 are sent, and what SETCLIENTID_CONFIRM confirms.

use crate::sync::{Arc, AtomicUsize};
use std::net::IpAddr;
use std::sync::atomic::Ordering::Relaxed;

/// Whether a client's callback address answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallbackPath {
    /// It was not tried yet.
    Unknown,
    /// CB_NULL was answered.
    Up,
    /// CB_NULL was not answered, or the client gave no address that may be called.
    Down,
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
    path: AtomicUsize,
}

impl Callback {
    /// An address that was not tried yet.
    pub const fn new(
        (program, ident): (u32, u32),
        (address, local): (IpAddr, IpAddr),
        port: Option<u16>,
    ) -> Self {
        Self { program, ident, address, local, port, path: AtomicUsize::new(0) }
    }

    /// Whether callbacks get through.
    pub fn path(&self) -> CallbackPath {
        match (self.port, self.path.load(Relaxed)) {
            (None, _) => CallbackPath::Down,
            (Some(_), 0) => CallbackPath::Unknown,
            (Some(_), 1) => CallbackPath::Up,
            (Some(_), _) => CallbackPath::Down,
        }
    }

    /// Notes whether a callback was answered.
    pub fn tried(&self, answered: bool) {
        self.path.store(if answered { 1 } else { 2 }, Relaxed);
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
