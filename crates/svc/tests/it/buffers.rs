//! Socket buffers: what is wanted, what a connection gets, and what all of them may have.

use crate::toy::{Client, ECHO, GIVE, NULL, Toy, WISH, config, message, opaque, record, until};
use bowline_svc::{BufferRules, Config, Limit, LinkInfo};
use rpc::{SocketBufferSize, SocketBufferSizes};
use std::collections::HashSet;
use std::io::Write;
use std::net::IpAddr;
use std::time::Duration;
use telemetry::Counter;
use testing::{Missing, is_root, skip};

const MIB: u32 = 1 << 20;
/// A size within the sysctls of every machine, and over the kernel's default for what arrives.
const SMALL: u32 = 100 << 10;

fn receive(bytes: u32) -> SocketBufferSizes {
    SocketBufferSizes { receive: SocketBufferSize::bytes(bytes), send: SocketBufferSize::UNSET }
}

/// The one connection, as the kernel sees it.
fn link(toy: &Toy) -> LinkInfo {
    toy.measured_conns(Duration::from_millis(1))[0].link.clone().unwrap()
}

fn start(rules: impl BufferRules + 'static) -> (Toy, Client) {
    let toy = Toy::start(Config { buffers: Box::new(rules), ..config() });
    let mut client = toy.client();
    assert!(client.call(1, NULL, &[]).is_empty());
    (toy, client)
}

/// Different sizes for this machine and for others.
#[derive(Debug)]
struct ByClient(SocketBufferSizes);

impl BufferRules for ByClient {
    fn server_wide(&self) -> SocketBufferSizes {
        receive(SMALL)
    }

    fn for_client(&self, client: IpAddr) -> SocketBufferSizes {
        if client.is_loopback() { self.0 } else { SocketBufferSizes::UNSET }
    }
}

#[test]
fn unset_buffer_sizes_are_left_to_the_kernel() {
    let (toy, mut client) = start(SocketBufferSizes::UNSET);
    let before = link(&toy).receive_buffer_bytes;
    for xid in 0..40 {
        client.call(xid, ECHO, &opaque(&vec![1; 900_000]));
    }
    let after = link(&toy);
    assert!(after.receive_buffer_bytes > before, "it grows by itself: {before} {after:?}");
    assert_eq!((after.receive.wanted_bytes, after.send.wanted_bytes), (None, None));
    assert_eq!(toy.server.buffer_totals().promised_bytes, 0);
    toy.stop();
}

#[test]
fn a_new_connection_gets_the_size_of_its_client_or_else_the_servers() {
    let (toy, _client) = start(receive(SMALL));
    assert_eq!(link(&toy).receive_buffer_bytes, 2 * SMALL);
    assert_eq!(toy.server.buffer_totals().promised_bytes, u64::from(2 * SMALL));
    toy.stop();
    let (toy, _client) = start(ByClient(receive(SMALL + 4096)));
    assert_eq!(link(&toy).receive_buffer_bytes, 2 * (SMALL + 4096));
    toy.stop();
}

#[test]
fn buffer_reservations_end_with_the_connection() {
    let (toy, client) = start(receive(SMALL));
    drop(client);
    until("nothing is promised", || toy.server.buffer_totals().promised_bytes == 0);
    toy.stop();
}

#[test]
fn sizes_are_minima_and_an_open_connection_grows() {
    let (toy, mut client) = start(SocketBufferSizes::UNSET);
    let own = link(&toy).receive_buffer_bytes;
    let done = toy.server.set_buffers(Box::new(receive(4096)));
    assert_eq!((done.connections, done.as_wanted), (1, 1));
    assert_eq!(link(&toy).receive_buffer_bytes, own, "nothing shrinks");
    let wide = SocketBufferSizes { send: SocketBufferSize::bytes(MIB * 8), ..receive(own) };
    toy.server.set_buffers(Box::new(wide));
    let grown = link(&toy);
    assert_eq!(grown.receive_buffer_bytes, 2 * own);
    assert_eq!(grown.receive.wanted_bytes, Some(own));
    client.call(2, ECHO, &opaque(&vec![1; 900_000]));
    let promised = toy.server.buffer_totals().promised_bytes;
    assert!(promised >= u64::from(2 * own), "{promised}");
    // The default again: the kernel goes on from here.
    toy.server.set_buffers(Box::new(SocketBufferSizes::UNSET));
    for xid in 0..60 {
        client.call(xid, ECHO, &opaque(&vec![1; 3_000_000]));
    }
    let freed = link(&toy);
    assert_eq!(freed.receive.wanted_bytes, None);
    assert!(freed.receive_buffer_bytes > 2 * own, "it grows by itself: {freed:?}");
    toy.stop();
}

#[test]
fn buffer_sizes_of_an_export_apply_at_its_first_call() {
    let (toy, mut client) = start(SocketBufferSizes::UNSET);
    let own = link(&toy).receive_buffer_bytes;
    client.call(2, WISH, &(own * 2).to_be_bytes());
    assert_eq!(link(&toy).receive_buffer_bytes, own * 4);
    client.call(3, WISH, &own.to_be_bytes());
    assert_eq!(link(&toy).receive_buffer_bytes, own * 4, "of two exports, the larger counts");
    toy.stop();
}

#[test]
fn the_budget_is_not_exceeded() {
    let (toy, first) = start(SocketBufferSizes::UNSET);
    let max = toy.server.buffer_totals().promised_bytes_max;
    let half = u32::try_from((max / 4 + 1).min(512 << 20)).unwrap();
    let fit = usize::try_from(max / u64::from(half) / 2).unwrap();
    if fit > 500 {
        skip(Missing::Limit, format_args!("{max} bytes of TCP memory are too many to be filled"));
        return toy.stop();
    }
    let more: Vec<Client> = (0..=fit).map(|_| toy.client()).collect();
    until("all are there", || toy.server.connections() == fit + 2);
    let done = toy.server.set_buffers(Box::new(receive(half)));
    let totals = toy.server.buffer_totals();
    assert!(totals.promised_bytes <= max, "{totals:?}");
    if done.reduced_by_sysctl > 0 {
        assert!(!is_root(), "{done:?}: root goes beyond net.core.rmem_max");
        skip(Missing::Root, "net.core.rmem_max cuts before the budget does");
        return toy.stop();
    }
    // the window scale of connections that are open is for smaller buffers
    let whole = done.as_wanted + done.reduced_by_scale;
    assert!(done.reduced_by_memory >= 1 && whole >= 1, "{done:?}");
    assert!(toy.counter(Counter::TcpBuffersCut) >= 1);
    let mut late = toy.client();
    assert!(late.call(1, NULL, &[]).is_empty(), "it is served all the same");
    assert!(toy.server.buffer_totals().promised_bytes <= max);
    drop((first, more, late));
    until("nothing is promised", || toy.server.buffer_totals().promised_bytes == 0);
    toy.stop();
}

#[test]
fn the_limit_of_a_connection_is_reported() {
    let (toy, mut client) = start(SocketBufferSizes::UNSET);
    assert_eq!(link(&toy).limit, Limit::Idle);
    // A client that asks for much and reads nothing.
    for xid in 0..60 {
        client.0.write_all(&record(&message(xid, GIVE, &1_000_000_u32.to_be_bytes()))).unwrap();
    }
    until("its window is closed", || {
        let conns = toy.measured_conns(Duration::from_millis(20));
        conns[0].link.as_ref().is_some_and(|link| link.limit == Limit::ClientWindow)
    });
    drop(client);
    toy.stop();
}

#[test]
fn the_kernel_is_asked_about_chosen_connections_only() {
    let (toy, mut client) = start(SocketBufferSizes::UNSET);
    let mut other = toy.client();
    assert!(client.call(2, NULL, &[]).is_empty() && other.call(1, NULL, &[]).is_empty());
    let mut activity = toy.server.conn_activity();
    activity.sort_by_key(|conn| conn.id);
    let calls: Vec<u64> = activity.iter().map(|conn| conn.calls).collect();
    assert_eq!(calls, [2, 1], "{activity:?}");
    let chosen = HashSet::from([activity[1].id, 1 << 40]);
    let samples = toy.server.link_samples(Some(chosen));
    let conns = toy.server.conns_since(&samples);
    assert_eq!(conns.len(), 1);
    assert_eq!((conns[0].id, conns[0].peer), (activity[1].id, activity[1].peer));
    assert!(conns[0].link.is_some());
    assert!(toy.server.conns_since(&toy.server.link_samples(Some(HashSet::new()))).is_empty());
    assert!(toy.server.certified_clients().is_empty(), "none has shown a certificate");
    toy.stop();
}
