//! What the operator is shown of calls to clients.

use rpc::CallFailure;
use std::net::IpAddr;

/// Numbers since the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OutboundCounters {
    /// Calls that were asked for.
    pub calls: u64,
    /// Calls with a result.
    pub answered: u64,
    /// Calls without one, cancelled ones included.
    pub failed: u64,
    /// Calls that gave way to newer ones to the same machine, or found no room.
    pub dropped: u64,
    /// Datagrams that were sent again.
    pub resent: u64,
    /// Questions to port mappers.
    pub port_lookups: u64,
    /// Connections and sockets opened.
    pub opened: u64,
    /// Replies to no call that is under way: late, or of another's xid.
    pub stray_replies: u64,
    /// Messages that are not replies.
    pub garbled: u64,
}

/// A machine that did not answer the last time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnansweringHost {
    /// Its address.
    pub addr: IpAddr,
    /// Failures in a row.
    pub failures: u32,
    /// The last one.
    pub last: CallFailure,
    /// Calls that wait for it.
    pub waiting: usize,
    /// How long until it is tried again.
    pub next_in_ms: u64,
}

/// Calls to clients, now and since the start.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OutboundInfo {
    /// Open connections and sockets.
    pub endpoints: usize,
    /// Calls that wait for their turn.
    pub waiting: usize,
    /// Calls that are under way.
    pub under_way: usize,
    /// Machines that do not answer, the one that failed most often first; at most 64.
    pub unanswering: Vec<UnansweringHost>,
    /// How many there are.
    pub unanswering_hosts: usize,
    /// Numbers since the start.
    pub counters: OutboundCounters,
}
