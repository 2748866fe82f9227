//! Where the callbacks of a client of version 4.0 go, and what SETCLIENTID_CONFIRM is to bring.

use crate::sync::{Arc, AtomicUsize};
use std::net::IpAddr;
use std::sync::atomic::Ordering::Relaxed;

/// What is known of a way of callbacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallbackPath {
    /// Nobody has tried it.
    Unknown,
    /// CB_NULL was answered.
    Up,
    /// It was not; or the client gave no address that may be called.
    Down,
}

/// Where the callbacks of a client go (`cb_client4`).
#[derive(Debug)]
pub struct Callback {
    /// The number of the client's callback program.
    pub program: u32,
    /// What the client wants to find in each callback (`callback_ident`).
    pub ident: u32,
    /// The address that SETCLIENTID came from, which is the only one that is called.
    pub address: IpAddr,
    /// The address of the server's that it came to.
    pub local: IpAddr,
    /// The port; `None` if the client named another address than its own, or none.
    pub port: Option<u16>,
    path: AtomicUsize,
}

impl Callback {
    /// Callbacks that nobody has tried.
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

    /// A callback was answered, or not.
    pub fn tried(&self, answered: bool) {
        self.path.store(if answered { 1 } else { 2 }, Relaxed);
    }
}

/// What the table of clients knows of a client of version 4.0 besides.
pub(in super::super) struct Confirmation {
    /// What the record is, or was, confirmed with.
    pub confirm: [u8; 8],
    /// Where callbacks go.
    pub callback: Arc<Callback>,
    /// Where they go once that is confirmed, and with what.
    pub update: Option<([u8; 8], Arc<Callback>)>,
}
