//! What a running server tells about itself.

use crate::conn::connection::Conn;
use crate::conn::info::{ClientInfo, ConnActivity, ConnInfo, certified_name};
use crate::conn::link::LinkSamples;
use crate::conn::table::ConnUsage;
use crate::conn::tcp_buffers::BufferTotals;
use crate::kernel_tls::KernelTlsState;
use crate::pool::blocked_calls::{BlockedExport, SleepingCall};
use crate::pool::info::{Delay, PoolInfo};
use crate::pool::worker_pool::Pool;
use crate::server::lifecycle::Server;
use crate::settings::WakePolicy;
use crate::socket_info::{SocketInfo, SocketKind};
use rpc::Transport;
use std::collections::HashSet;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

impl Server {
    /// Whether the kernel takes TLS records over; `None` without a certificate.
    pub fn kernel_tls(&self) -> Option<KernelTlsState> {
        self.state.handshakes.as_ref().map(|handshakes| handshakes.kernel.state())
    }

    /// Where it listens.
    pub fn local_addrs(&self) -> Vec<(Transport, SocketAddr)> {
        let tcp = self.state.listeners.iter().map(|l| (Transport::Tcp, l.local));
        let udp = self.state.shared.datagram_sockets.local_addrs();
        tcp.chain(udp.into_iter().map(|local| (Transport::Udp, local))).collect()
    }

    /// The open connections, in the order in which they came.
    pub fn conns(&self) -> Vec<ConnInfo> {
        let now_ms = self.state.shared.clock.now_ms();
        self.conns_of(None).iter().map(|conn| ConnInfo::new(conn, now_ms)).collect()
    }

    /// The clients that are connected, and those that were last.
    pub fn clients(&self) -> Vec<ClientInfo> {
        let (conns, closed) = self.state.shared.conns.all_and_closed();
        ClientInfo::all(&conns, closed)
    }

    /// What the open connections do, in no order. Cheap for many of them, as the kernel is not asked.
    pub fn conn_activity(&self) -> Vec<ConnActivity> {
        let now_ms = self.state.shared.clock.now_ms();
        self.state.shared.conns.read_all(|conn| ConnActivity::new(conn, now_ms))
    }

    /// Clients that have shown a certificate, and its name; once for each of their connections.
    pub fn certified_clients(&self) -> Vec<(IpAddr, String)> {
        let sealed = self.state.shared.conns.matching(|conn| conn.stream.seal().is_some());
        sealed.iter().filter_map(|conn| certified_name(conn)).collect()
    }

    /// What the kernel tells of open connections now, for [`Server::conns_since`]: of those with these numbers, or of all.
    /// Waits for nothing.
    pub fn link_samples(&self, chosen: Option<HashSet<u64>>) -> LinkSamples {
        LinkSamples::take(&self.conns_of(chosen.as_ref()), chosen)
    }

    /// The connections of which `samples` were to be taken as [`Server::conns`] has them, with what has limited each since
    /// then. Two callers do not disturb each other: each compares with its own samples.
    pub fn conns_since(&self, samples: &LinkSamples) -> Vec<ConnInfo> {
        let now_ms = self.state.shared.clock.now_ms();
        let blocked = self.state.shared.blocked.oldest_of_conns();
        let info = |conn: &Arc<Conn>| ConnInfo {
            link: samples.link(conn),
            oldest_blocked: blocked.get(&conn.id).copied(),
            ..ConnInfo::new(conn, now_ms)
        };
        self.conns_of(samples.chosen()).iter().map(info).collect()
    }

    /// Those with these numbers, or all, by number.
    fn conns_of(&self, chosen: Option<&HashSet<u64>>) -> Vec<Arc<Conn>> {
        let table = &self.state.shared.conns;
        let mut conns = chosen.map_or_else(|| table.all(), |ids| table.chosen(ids));
        conns.sort_unstable_by_key(|conn| conn.id);
        conns
    }

    /// What the buffers of all connections together may hold.
    pub fn buffer_totals(&self) -> BufferTotals {
        self.state.buffers.totals()
    }

    /// How many connections are open.
    pub fn connections(&self) -> usize {
        self.state.shared.conns.len()
    }

    /// How the connections are shared between clients.
    pub fn conn_usage(&self) -> ConnUsage {
        self.state.shared.conns.usage(self.state.connections_max, self.state.shared.clock.now_ms())
    }

    /// The listening and datagram sockets.
    pub fn sockets(&self) -> Vec<SocketInfo> {
        let tcp = self.state.listeners.iter().map(|listener| SocketInfo {
            transport: SocketKind::Tcp,
            local: listener.local,
            inherited: listener.inherited,
            interface: None,
            cpu: None,
            received: listener.accepted.load(Relaxed),
            sent: 0,
            bytes_in: 0,
            bytes_out: 0,
            drops: 0,
            buffer_in: 0,
            buffer_out: 0,
            note: String::new(),
        });
        tcp.chain(self.state.shared.datagram_sockets.infos()).collect()
    }

    /// The exports in which calls block now, or were refused because they hang.
    pub fn blocked_calls(&self) -> Vec<BlockedExport> {
        self.state.shared.blocked.exports()
    }

    /// The calls that have slept in a file system for at least this long, the oldest first.
    pub fn sleeping_calls(&self, age_min: Duration) -> Vec<SleepingCall> {
        self.state.shared.blocked.sleeping(age_min)
    }

    /// The pools; those that are drained after the others.
    pub fn pools(&self) -> Vec<PoolInfo> {
        let wake_policy = self.wake_policy();
        self.state.pools.all().iter().map(|pool| info(pool, wake_policy)).collect()
    }
}

fn info(pool: &Pool, wake_policy: WakePolicy) -> PoolInfo {
    let (threads, counters) = (pool.scheduler.count(), pool.scheduler.counters());
    PoolInfo {
        index: pool.index,
        cpus: pool.cpus.clone(),
        threads: threads.threads,
        parked: threads.parked,
        threads_min: threads.min,
        threads_max: threads.max,
        leader: pool.leader(),
        connections: pool.connections.load(Relaxed),
        calls: pool.counters.calls.load(Relaxed),
        promotions: pool.counters.promotions.load(Relaxed),
        promotions_failed: pool.counters.promotions_failed.load(Relaxed),
        rescues: pool.rescues(),
        wakeups: pool.counters.wakeups.load(Relaxed),
        wake_policy,
        blocked: threads.blocked,
        reserves: threads.reserves,
        queued: threads.queued,
        arrived: pool.counters.arrived.load(Relaxed),
        enqueued: counters.enqueued,
        waited: counters.waited,
        overloads_avoided: counters.overloads_avoided,
        timed_out: counters.timed_out,
        exhausted: counters.exhausted,
        unstuck: counters.unstuck,
        queue_delay: Delay::from(&counters.queue_delay),
        wake_delay: Delay::from(&counters.wake_delay),
    }
}
