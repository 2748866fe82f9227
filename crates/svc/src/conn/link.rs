//! What limits a connection now, from two samples of what the kernel knows of it.
//!
//! # How it is found out
//!
//! Between the samples, more bytes arrived or more bytes left; the limit is that of the direction with more.
//!
//! *What leaves* is easy, for the kernel is the sender: it counts for how long it had something
//! to send and could not because the client's window was full, or had nothing to send because
//! the send buffer was. If neither, and it was busy all the time, the network is the limit.
//!
//! *What arrives* has to be inferred. Bytes in flight are rate times round trip (Little's law).
//! If they fill the window that we offer, the client waits for us to offer more, unless the round
//! trip has grown well beyond the shortest: then the bytes wait in a queue before a slow link,
//! and a larger window would only make the queue longer. If they do not fill it, the client has
//! no more to send, or its own congestion control holds it back, which shows by segments out of
//! order. If what has arrived fills the buffer, it is this server that does not read.
//!
//! A limit of the buffer has a value that would lift it: twice the buffer, for how much the path
//! could carry cannot be known before it does. When that is not enough, the next samples say so.

use crate::conn::connection::Conn;
use crate::conn::tcp_buffers::BufferInfo;
use serde::Serialize;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Instant;
use sys::tcp::{self, Info, Memory, Side};

/// A round trip is stretched by a queue when it is longer than the shortest by a quarter and by
/// this much; on a short path it varies by more than a quarter all the time.
const QUEUE_US_MIN: u64 = 2000;
/// Bytes in flight fill a window from this share on, in percent: while an acknowledgement of two
/// segments is on its way, they are not in flight any more, and windows are offered in steps.
const FULL_PERCENT: u64 = 70;
/// Largest buffer that is recommended, in bytes as SO_RCVBUF counts.
const LIFT_MAX: u64 = 512 << 20;

/// What limits a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Limit {
    /// Nothing is under way.
    Idle,
    /// The client asks for no more than it gets.
    Client,
    /// This server does not read what has arrived: its disk or its processors.
    Server,
    /// The window that we offer, which our receive buffer bounds.
    ReceiveWindow,
    /// Our send buffer.
    SendBuffer,
    /// The window that the client offers.
    ClientWindow,
    /// The network.
    Congestion,
}

/// The state of a connection's TCP.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LinkInfo {
    /// What limits it.
    pub limit: Limit,
    /// The buffer, in bytes as SO_RCVBUF or SO_SNDBUF count, that would lift the limit.
    pub lift_bytes: Option<u64>,
    /// Bytes that came, per second.
    pub in_per_s: u64,
    /// Bytes that the client took, per second.
    pub out_per_s: u64,
    /// Round trip, smoothed; 0 if there is none yet.
    pub rtt_us: u32,
    /// The shortest of the last minutes.
    pub rtt_min_us: u32,
    /// The window that we offer.
    pub window_bytes: u64,
    /// The window that the client offers.
    pub client_window_bytes: u64,
    /// What congestion control allows in flight.
    pub congestion_window_bytes: u64,
    /// What the network delivered to the client recently, per second.
    pub delivery_per_s: u64,
    /// Segments sent again.
    pub retransmits: u32,
    /// Segments that came out of order.
    pub out_of_order: u32,
    /// Bytes that have arrived and that we have not read.
    pub unread_bytes: u64,
    /// The receive buffer, as the kernel counts it.
    pub receive_buffer_bytes: u32,
    /// The send buffer, as the kernel counts it.
    pub send_buffer_bytes: u32,
    /// What was asked for the receive buffer.
    pub receive: BufferInfo,
    /// What was asked for the send buffer.
    pub send: BufferInfo,
    /// Its congestion control.
    pub congestion_control: String,
}

/// What the kernel told of connections at one time.
#[derive(Debug, Clone, Default)]
pub struct LinkSamples {
    taken: HashMap<u64, (Instant, Info)>,
    /// The connections that were asked for; all without.
    chosen: Option<HashSet<u64>>,
}

impl LinkSamples {
    /// Asks the kernel about each of the connections, which are those that were chosen.
    pub(crate) fn take(conns: &[Arc<Conn>], chosen: Option<HashSet<u64>>) -> Self {
        let sample = |conn: &Arc<Conn>| {
            Some((conn.id, (Instant::now(), tcp::info(conn.stream.options()).ok()?)))
        };
        Self { taken: conns.iter().filter_map(sample).collect(), chosen }
    }

    /// The numbers of the connections that were asked for; `None` stands for all.
    pub(crate) const fn chosen(&self) -> Option<&HashSet<u64>> {
        self.chosen.as_ref()
    }

    /// The state of a connection, with rates since then; `None` if it was not sampled then, or has ended.
    pub(crate) fn link(&self, conn: &Conn) -> Option<LinkInfo> {
        link(conn, self.taken.get(&conn.id)?)
    }
}

fn link(conn: &Conn, &(then, first): &(Instant, Info)) -> Option<LinkInfo> {
    let memory = tcp::memory(conn.stream.options()).ok()?;
    let unread_bytes = tcp::unread(conn.stream.options());
    let second = tcp::info(conn.stream.options()).ok()?;
    let passed = u64::try_from(then.elapsed().as_micros()).unwrap_or(u64::MAX);
    let samples = SamplePair { first, second, passed_us: passed.max(1), memory, unread_bytes };
    let limit = samples.limit();
    let [receive, send] = conn.buffers.info();
    Some(LinkInfo {
        limit,
        lift_bytes: samples.buffer_to_lift(limit),
        in_per_s: samples.in_per_s(),
        out_per_s: samples.out_per_s(),
        rtt_us: second.rtt_us,
        rtt_min_us: known(second.rtt_min_us),
        window_bytes: samples.window(),
        client_window_bytes: second.peer_window.into(),
        congestion_window_bytes: u64::from(second.send_cwnd).saturating_mul(second.send_mss.into()),
        delivery_per_s: second.delivery_rate,
        retransmits: second.retransmits,
        out_of_order: second.out_of_order,
        unread_bytes,
        receive_buffer_bytes: memory.receive_max,
        send_buffer_bytes: memory.send_max,
        receive,
        send,
        congestion_control: tcp::congestion(conn.stream.options()).unwrap_or_default(),
    })
}

/// The kernel gives the largest number for a shortest round trip that it does not know.
const fn known(rtt_us: u32) -> u32 {
    if rtt_us == u32::MAX { 0 } else { rtt_us }
}

/// Two samples.
struct SamplePair {
    first: Info,
    second: Info,
    passed_us: u64,
    memory: Memory,
    unread_bytes: u64,
}

impl SamplePair {
    fn in_per_s(&self) -> u64 {
        self.per_s(self.second.bytes_received.saturating_sub(self.first.bytes_received))
    }

    fn out_per_s(&self) -> u64 {
        self.per_s(self.second.bytes_acked.saturating_sub(self.first.bytes_acked))
    }

    fn per_s(&self, bytes: u64) -> u64 {
        let per_s = u128::from(bytes) * 1_000_000 / u128::from(self.passed_us.max(1));
        u64::try_from(per_s).unwrap_or(u64::MAX)
    }

    /// The window that we offer; older kernels do not tell, and offer about half of the buffer.
    fn window(&self) -> u64 {
        match self.second.window {
            0 => u64::from(self.memory.receive_max / 2),
            window => window.into(),
        }
    }

    /// Round trip, by what we sent or else by what we received.
    fn rtt_us(&self) -> u64 {
        match self.second.rtt_us {
            0 => self.second.receive_rtt_us.into(),
            rtt => rtt.into(),
        }
    }

    fn limit(&self) -> Limit {
        let waiting = self.second.unacked > 0 || self.second.not_sent > 0;
        match (self.in_per_s(), self.out_per_s()) {
            // a connection whose replies wait is not read, however much has arrived
            (0, 0) if waiting && self.peer_window_is_full() => Limit::ClientWindow,
            (0, 0) if self.unread_bytes > 0 => Limit::Server,
            (0, 0) if waiting => Limit::Congestion,
            (0, 0) => Limit::Idle,
            (arrives, leaves) if arrives >= leaves => self.limit_of_arriving(arrives),
            (_, _) => self.limit_of_leaving(),
        }
    }

    /// Whether what is in flight leaves no room for a segment in the window that the client offers.
    fn peer_window_is_full(&self) -> bool {
        let mss = u64::from(self.second.send_mss);
        let in_flight = u64::from(self.second.unacked).saturating_mul(mss);
        u64::from(self.second.peer_window) < in_flight.saturating_add(mss)
    }

    fn limit_of_arriving(&self, per_s: u64) -> Limit {
        let window = self.window();
        let rtt = self.rtt_us();
        let in_flight = u128::from(per_s) * u128::from(rtt) / 1_000_000;
        let full = in_flight * 100 >= u128::from(window) * u128::from(FULL_PERCENT);
        let out_of_order = self.second.out_of_order != self.first.out_of_order;
        if self.unread_bytes > u64::from(self.memory.receive_max / 4) {
            Limit::Server
        } else if self.has_queue(rtt) || (out_of_order && !full) {
            Limit::Congestion
        } else if full {
            Limit::ReceiveWindow
        } else {
            Limit::Client
        }
    }

    /// Whether the round trip is longer than the path.
    fn has_queue(&self, rtt: u64) -> bool {
        let shortest = u64::from(known(self.second.rtt_min_us));
        shortest > 0 && rtt > shortest.saturating_add((shortest / 4).max(QUEUE_US_MIN))
    }

    fn limit_of_leaving(&self) -> Limit {
        let grown = |of: fn(&Info) -> u64| of(&self.second).saturating_sub(of(&self.first));
        let busy = grown(|info| info.busy_us);
        if grown(|info| info.peer_window_limited_us) > busy / 2 {
            Limit::ClientWindow
        } else if grown(|info| info.send_buffer_limited_us) > busy / 2 {
            Limit::SendBuffer
        } else if busy > self.passed_us / 2 && !self.second.app_limited {
            Limit::Congestion
        } else {
            Limit::Client
        }
    }

    /// The buffer that would lift a limit of a buffer.
    fn buffer_to_lift(&self, limit: Limit) -> Option<u64> {
        let side = match limit {
            Limit::ReceiveWindow => Side::Receive,
            Limit::SendBuffer => Side::Send,
            Limit::Idle
            | Limit::Client
            | Limit::Server
            | Limit::ClientWindow
            | Limit::Congestion => return None,
        };
        // What is asked for is half of what the kernel counts; and twice that.
        let twice = u64::from(self.memory.max(side)).checked_next_power_of_two()?;
        Some(twice.min(LIFT_MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::{Limit, SamplePair};
    use sys::tcp::{Info, Memory};

    /// A second of a connection of 30 ms round trip with a window of 1.4 MB.
    fn samples(change: impl FnOnce(&mut SamplePair)) -> SamplePair {
        let first = Info {
            rtt_us: 30_500,
            rtt_min_us: 30_000,
            window: 1_400_000,
            peer_window: 60_000,
            send_mss: 1448,
            ..Info::default()
        };
        let memory = Memory { receive_max: 2 << 20, send_max: 4 << 20, ..Memory::default() };
        let mut samples =
            SamplePair { first, second: first, passed_us: 1_000_000, memory, unread_bytes: 0 };
        change(&mut samples);
        samples
    }

    #[test]
    fn a_client_that_fills_the_window_is_limited_by_the_receive_window() {
        let full = samples(|samples| samples.second.bytes_received = 45_000_000);
        assert_eq!(
            (full.limit(), full.buffer_to_lift(full.limit())),
            (Limit::ReceiveWindow, Some(2 << 20))
        );
        let half = samples(|samples| samples.second.bytes_received = 20_000_000);
        assert_eq!((half.limit(), half.buffer_to_lift(half.limit())), (Limit::Client, None));
    }

    #[test]
    fn a_send_queue_or_loss_is_attributed_to_the_network() {
        let queue = samples(|samples| {
            samples.second.bytes_received = 30_000_000;
            samples.second.rtt_us = 45_000;
        });
        assert_eq!(queue.limit(), Limit::Congestion);
        let loss = samples(|samples| {
            samples.second.bytes_received = 20_000_000;
            samples.second.out_of_order = 9;
        });
        assert_eq!(loss.limit(), Limit::Congestion);
    }

    #[test]
    fn unread_data_is_attributed_to_the_server() {
        let slow = samples(|samples| {
            samples.second.bytes_received = 45_000_000;
            samples.unread_bytes = 1 << 20;
        });
        assert_eq!(slow.limit(), Limit::Server);
        assert_eq!(samples(|samples| samples.unread_bytes = 1).limit(), Limit::Server);
    }

    #[test]
    fn send_limits_are_taken_from_tcp_info() {
        let leaves = |change: fn(&mut Info)| {
            samples(|samples| {
                samples.second.bytes_acked = 50_000_000;
                samples.second.busy_us = 900_000;
                change(&mut samples.second);
            })
        };
        let buffer = leaves(|info| info.send_buffer_limited_us = 800_000);
        assert_eq!(
            (buffer.limit(), buffer.buffer_to_lift(buffer.limit())),
            (Limit::SendBuffer, Some(4 << 20))
        );
        assert_eq!(
            leaves(|info| info.peer_window_limited_us = 800_000).limit(),
            Limit::ClientWindow
        );
        assert_eq!(leaves(|_| {}).limit(), Limit::Congestion);
        assert_eq!(leaves(|info| info.app_limited = true).limit(), Limit::Client);
        assert_eq!(leaves(|info| info.busy_us = 100_000).limit(), Limit::Client);
    }

    #[test]
    fn idle_connections_have_a_limit_reason() {
        assert_eq!(samples(|_| {}).limit(), Limit::Idle);
        let stuck = |window| {
            samples(|samples| {
                samples.second.not_sent = 9;
                samples.second.peer_window = window;
            })
        };
        assert_eq!(stuck(0).limit(), Limit::ClientWindow);
        assert_eq!(stuck(60_000).limit(), Limit::Congestion);
        assert_eq!(SamplePair { unread_bytes: 1, ..stuck(0) }.limit(), Limit::ClientWindow);
        let in_flight = |unacked| {
            samples(|samples| {
                (samples.second.not_sent, samples.second.unacked) = (9, unacked);
                samples.second.peer_window = 14_480;
            })
        };
        assert_eq!(in_flight(10).limit(), Limit::ClientWindow);
        assert_eq!(in_flight(8).limit(), Limit::Congestion);
    }
}
