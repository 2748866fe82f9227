//! Calls that the server makes to its clients' machines: NLM's GRANTED, SM_NOTIFY, callbacks of NFSv4.
//!
//! One thread makes all of them ([`engine`]): non-blocking sockets, one epoll, replies matched by their xid on a socket
//! that is connected to the one address that may answer. [`OutboundCalls`] is the handle to it: any thread makes a
//! call, and none waits. Calls over a connection that the client has opened go through the same thread, which knows when
//! they are late; their replies are brought by workers ([`rpc::Replies`]).
//!
//! # Limits
//!
//! [`OutboundLimits`]: sockets, calls in all, calls that wait for one machine. Beyond the last the oldest call that waits
//! goes: whoever asked for a callback asks again. Of a machine that does not answer one call is under way at a time, and
//! after each failure nothing is sent to it for a while, which doubles ([`hosts`]).
//!
//! Calls go only to the address of somebody who has called; the type of a target has no other ([`rpc::CallerAddress`]).
//!
//! # Locks
//!
//! The inbox: a list operation. The calls over clients' connections that are under way: a map operation; the inbox is
//! not taken under it. Everything else belongs to the thread.

mod endpoint;
mod engine;
mod handle;
mod hosts;
mod info;
mod jobs;
mod port_lookup;

pub use handle::OutboundCalls;
pub use info::{OutboundCounters, OutboundInfo, UnansweringHost};

/// What calls to clients may grow to, and their times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutboundLimits {
    /// Sockets and connections.
    pub endpoints: usize,
    /// Calls that wait for one machine.
    pub waiting_per_host: usize,
    /// Calls that are under way to one machine that answers.
    pub under_way_per_host: usize,
    /// Calls in all.
    pub calls: usize,
    /// Machines of which is remembered that they do not answer.
    pub silent_hosts: usize,
    /// How long nothing is sent to a machine after the first failure; doubles with each.
    pub backoff_min_ms: u64,
    /// The longest such time.
    pub backoff_max_ms: u64,
    /// When a datagram without an answer is sent again first; doubles up to eight times that.
    pub resend_ms: u64,
    /// How long an unused connection stays open.
    pub idle_ms: u64,
    /// How long the port of a program is remembered.
    pub port_age_ms: u64,
}

impl Default for OutboundLimits {
    fn default() -> Self {
        Self {
            endpoints: 256,
            waiting_per_host: 16,
            under_way_per_host: 16,
            calls: 4096,
            silent_hosts: 4096,
            backoff_min_ms: 1000,
            backoff_max_ms: 60_000,
            resend_ms: 1000,
            idle_ms: 30_000,
            port_age_ms: 300_000,
        }
    }
}

/// How calls to clients are made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutboundConfig {
    /// This machine's name, for AUTH_SYS.
    pub machine_name: Vec<u8>,
    /// The port of port mappers.
    pub portmapper_port: u16,
    /// The limits.
    pub limits: OutboundLimits,
}

impl Default for OutboundConfig {
    fn default() -> Self {
        let limits = OutboundLimits::default();
        Self { machine_name: Vec::new(), portmapper_port: proto::portmap::PORT, limits }
    }
}
