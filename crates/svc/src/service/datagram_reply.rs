//! A reply to a datagram.

use std::net::SocketAddr;
use sys::mmsg::Local;
use xdr::Writer;

/// A reply that has not been sent.
pub(crate) struct Reply {
    pub bytes: Writer,
    pub to: SocketAddr,
    pub from: Local,
}
