//! One service round of a connection or of a datagram socket: receive, answer, send.

pub(crate) mod back_channel;
pub(crate) mod call_counters;
pub(crate) mod datagram_ranges;
pub(crate) mod datagram_reply;
pub(crate) mod datagrams;
pub(crate) mod deferred;
pub(crate) mod receive;
pub(crate) mod resumed;
pub(crate) mod round;
pub(crate) mod stream;
pub(crate) mod stream_round;
pub(crate) mod worker_context;
pub(crate) mod write_ahead;
pub(crate) mod write_pipe;
