//! Makes room for a new connection when the limit is reached: a silent connection is closed; its client reconnects when
//! it needs it.
//!
//! Of which client: first of clients with more connections than the new client would have, those with the most first;
//! then of the new client itself; then of clients with as few as the new one, a connection that has been silent for very
//! long. So a client with very many connections makes room for all others, and one with a few keeps them while another
//! client has more.
//!
//! Which connection: one without any call first, then the one that has been silent for longest. Never one with a call in
//! progress, queued replies, or unread or partial data; a first record that is incomplete after [`FIRST_CALL_MS`] does
//! not count.
//!
//! Used by the acceptor only. The work per new connection is bounded, except in the last of the three cases.

use crate::conn::client_network::ClientNetwork;
use crate::conn::connection::Conn;
use crate::conn::table::Candidates;
use crate::server::state::State;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use telemetry::{Counter, WorkerStats};

/// Clients that are looked at for one newcomer, and connections of each.
const CLIENTS_SEARCHED_MAX: usize = 8;
const CONNS_SEARCHED_MAX: usize = 512;
/// A client that has no more than others loses a connection after this much silence only.
const SILENT_FOR_LONG_MS: u64 = 30_000;
/// In this time a client sends its first call, unless it wants nothing.
const FIRST_CALL_MS: u64 = 5_000;
/// Milliseconds between two messages in the log.
const LOG_EVERY_MS: u64 = 60_000;
/// Clients that one message names.
const NAMED_MAX: usize = 4;

/// Who needs room.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Need {
    /// A connection of this client, which is accepted.
    Of(ClientNetwork),
    /// One that the process cannot accept for lack of descriptors or memory.
    Anybody,
}

/// Makes room, and says so now and then.
pub(crate) struct RoomMaker<'a> {
    state: &'a State,
    log_after_ms: u64,
    /// How many made room since the last message, by client.
    unlogged: BTreeMap<ClientNetwork, u64>,
    unlogged_others: u64,
}

/// How much a connection has done, the least first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Used {
    /// No call has come.
    Never,
    Called,
}

impl<'a> RoomMaker<'a> {
    pub const fn new(state: &'a State) -> Self {
        Self { state, log_after_ms: 0, unlogged: BTreeMap::new(), unlogged_others: 0 }
    }

    /// Has one connection closed, if one can be found.
    pub fn make(&mut self, need: Need, stats: &WorkerStats) -> bool {
        let conns = &self.state.shared.conns;
        let (newcomer, silent_ms) = match need {
            Need::Of(client) => (Some(client), 0),
            Need::Anybody => (None, SILENT_FOR_LONG_MS),
        };
        let with_this = newcomer.map_or(0, |client| conns.count_of(client)).saturating_add(1);
        let larger = conns.of_largest(with_this, CLIENTS_SEARCHED_MAX, CONNS_SEARCHED_MAX);
        let of_larger = larger.into_iter().find_map(|of| self.displace_one(of, silent_ms, stats));
        let own = |client| conns.of_client(client, CONNS_SEARCHED_MAX);
        let of_all = || self.displace_any(stats);
        let made = of_larger
            .or_else(|| self.displace_one(own(newcomer?), SILENT_FOR_LONG_MS, stats))
            .or_else(of_all);
        let Some(made) = made else { return false };
        self.tell(made);
        true
    }

    /// Closes one of these connections that may go, if it has been silent for this long or was never used; tells
    /// whose, and how many he had.
    fn displace_one(
        &self,
        of: Candidates,
        silent_ms: u64,
        stats: &WorkerStats,
    ) -> Option<(ClientNetwork, usize)> {
        let mut order: Vec<_> = of.conns.into_iter().filter_map(|conn| self.rank(conn)).collect();
        order.retain(|(used, silent, _)| *used == Used::Never || *silent >= silent_ms);
        order.sort_unstable_by_key(|(used, silent, conn)| (*used, Reverse(*silent), conn.id));
        let displaced = order.iter().any(|(_, _, conn)| self.displace(conn, stats));
        displaced.then_some((of.client, of.has))
    }

    /// Closes one of anybody's that has been silent for very long, or has never been used for a while.
    fn displace_any(&self, stats: &WorkerStats) -> Option<(ClientNetwork, usize)> {
        let conns = &self.state.shared.conns;
        let long = |used: Used, silent: u64| match used {
            Used::Never => silent > FIRST_CALL_MS,
            Used::Called => silent > SILENT_FOR_LONG_MS,
        };
        let all = conns.all().into_iter().filter_map(|conn| self.rank(conn));
        let mut order: Vec<_> = all.filter(|(used, silent, _)| long(*used, *silent)).collect();
        order.sort_unstable_by_key(|(used, silent, conn)| (*used, Reverse(*silent), conn.id));
        let (_, _, conn) = order.into_iter().find(|(_, _, conn)| self.displace(conn, stats))?;
        let client = ClientNetwork::of(conn.peer.addr.ip());
        Some((client, conns.count_of(client).saturating_add(1)))
    }

    /// Closes a connection, unless something has arrived on it or it is closed already.
    fn displace(&self, conn: &Conn, stats: &WorkerStats) -> bool {
        let silent = conn.stream.arrived_bytes().is_ok_and(|bytes| bytes == 0);
        let now_ms = self.state.shared.clock.now_ms();
        if !silent || !self.state.shared.conns.displace(conn, now_ms) {
            return false;
        }
        stats.add(Counter::ConnectionsDisplaced, 1);
        conn.shut_down();
        true
    }

    /// How much a connection is used, and for how long it has been silent; `None` if it may not go.
    fn rank(&self, conn: Arc<Conn>) -> Option<(Used, u64, Arc<Conn>)> {
        let seen = &conn.counters;
        let silent = self.state.shared.clock.now_ms().saturating_sub(seen.last_ms.load(Relaxed));
        let used = if seen.calls.load(Relaxed) == 0 { Used::Never } else { Used::Called };
        let age = self.state.shared.clock.now_ms().saturating_sub(conn.since_ms);
        let arriving = seen.partial.load(Relaxed) > 0;
        let too_late = used == Used::Never && age > FIRST_CALL_MS;
        let busy = !conn.rx_slot.is_present()
            || seen.in_flight.load(Relaxed) > 0
            || seen.queued.load(Relaxed) > 0
            || (arriving && !too_late);
        (!busy).then_some((used, silent, conn))
    }

    /// Tells the operator who made room, now and then.
    fn tell(&mut self, (client, has): (ClientNetwork, usize)) {
        if self.unlogged.len() < NAMED_MAX || self.unlogged.contains_key(&client) {
            let count = self.unlogged.entry(client).or_default();
            *count = count.saturating_add(1);
        } else {
            self.unlogged_others = self.unlogged_others.saturating_add(1);
        }
        let now_ms = self.state.shared.clock.now_ms();
        if self.log_after_ms > now_ms {
            return;
        }
        self.log_after_ms = now_ms.saturating_add(LOG_EVERY_MS);
        let named = std::mem::take(&mut self.unlogged).into_iter();
        let named: Vec<String> = named.map(|(who, count)| format!("{count} of {who}")).collect();
        let others = std::mem::take(&mut self.unlogged_others);
        tracing::warn!(
            closed = named.join(", "),
            others,
            "all {} places for connections are taken, {has} of them by {client}: silent connections were closed \
             for new clients; LimitNOFILE= allows more",
            self.state.connections_max
        );
    }
}
