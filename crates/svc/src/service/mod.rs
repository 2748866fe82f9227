//! One service round of a connection or of a datagram socket: receive, answer, send.

pub(crate) mod datagram_ranges;
pub(crate) mod datagrams;
pub(crate) mod stream;
pub(crate) mod write_ahead;
pub(crate) mod write_pipe;
