//! A small blocking client for NFS versions 2, 3 and 4, MOUNT and the port mapper, on the server's
//! own codec: for `bowline serve --prove`, for registering with rpcbind, for tests and for load.
//!
//! Owns: sockets of `std`, no global state. A [`Client`] is one socket; it is not shared between
//! threads, and can have several calls in flight.

mod callbacks;
mod client;
mod error;
mod handle;
mod message;
mod mount;
mod nfs2;
mod nfs3;
pub mod nfs4;
mod nlm;
mod portmap;
pub mod prove;
pub mod rpcbind;
pub mod starttls;
mod transport;

pub use callbacks::{Callback, CallbackHandler, CallbackReply};
pub use client::{Client, Nothing, Reply};
pub use error::{Error, Result};
pub use handle::Fh;
pub use message::{Identity, Target};
pub use mount::{Exported, Mounted, MountedBy};
pub use nfs2::Entry2;
pub use nfs3::{Entry, Found, Listing, Made, ReadDone};
pub use nlm::{NlmHolder, NlmLock, NlmMessages};
pub use portmap::Listed;
pub use rpc::Refusal;
pub use starttls::StartTlsError;
pub use transport::RECORD_MAX;
