//! A client with very many connections makes room for the others; a client with a few keeps them, however long it
//! has been silent.

use crate::net::{address6, alone, ip};
use crate::toy::{Client, ECHO, NULL, Toy, WAIT, config, opaque, record, until};
use bowline_svc::{ClientInfo, Config, Limits};
use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use sys::testing::tcp::connect_from;
use telemetry::Counter;

/// The most connections of the servers here.
const CONNECTIONS_MAX: usize = 24;

fn few_connections() -> Limits {
    Limits { connections_max: CONNECTIONS_MAX, ..Limits::default() }
}

fn loopback(last: u8) -> IpAddr {
    Ipv4Addr::new(127, 0, 0, last).into()
}

fn client_at(from: IpAddr, to: SocketAddr) -> Client {
    let stream = connect_from(SocketAddr::new(from, 0), to).unwrap();
    stream.set_nodelay(true).unwrap();
    stream.set_read_timeout(Some(std::time::Duration::from_secs(60))).unwrap();
    Client(stream)
}

/// A client that has made a call and is silent since.
fn idle_mount(from: IpAddr, to: SocketAddr) -> Client {
    let mut client = client_at(from, to);
    assert!(client.call(1, NULL, &[]).is_empty());
    client
}

/// So many connections from there, once the server has looked at all of them.
fn many(toy: &Toy, from: IpAddr, count: usize) -> Vec<Client> {
    let seen = || toy.counter(Counter::Connections) + toy.counter(Counter::ConnectionsRefused);
    let before = seen();
    let all = (0..count).map(|_| client_at(from, toy.tcp)).collect();
    until("all were looked at", || seen() == before + count as u64);
    all
}

fn info(toy: &Toy, address: IpAddr) -> ClientInfo {
    toy.server.clients().into_iter().find(|client| client.address == address).unwrap()
}

#[test]
fn silent_connections_of_one_address_do_not_exclude_others() {
    let toy = Toy::with_limits(few_connections());
    let mut mount = idle_mount(loopback(2), toy.tcp);
    let mut works = client_at(loopback(66), toy.tcp);
    works.send(7, WAIT, &[]);
    toy.until_waiting(1);
    let silent = many(&toy, loopback(66), 3 * CONNECTIONS_MAX);
    assert!(toy.server.connections() <= CONNECTIONS_MAX + 32);
    let mut newcomers: Vec<Client> = (0..CONNECTIONS_MAX / 2)
        .map(|n| idle_mount(loopback(100 + u8::try_from(n).unwrap()), toy.tcp))
        .collect();
    assert_eq!(mount.call(2, ECHO, &opaque(b"still here")), opaque(b"still here"));
    for newcomer in &mut newcomers {
        assert!(newcomer.call(2, NULL, &[]).is_empty());
    }
    toy.go_on();
    assert_eq!(works.receive().0, 7, "a call in work protects its connection");
    until("those that made room are closed", || toy.server.connections() <= CONNECTIONS_MAX);
    let displaced = toy.counter(Counter::ConnectionsDisplaced);
    assert!(displaced >= newcomers.len() as u64, "{displaced}");
    assert_eq!(info(&toy, loopback(66)).totals.displaced, displaced);
    assert_eq!(info(&toy, loopback(2)).totals.displaced, 0);
    drop(silent);
    toy.stop();
}

#[test]
fn connections_without_calls_are_closed_first() {
    let toy = Toy::with_limits(few_connections());
    let mut used: Vec<Client> =
        (0..CONNECTIONS_MAX / 2).map(|_| idle_mount(loopback(66), toy.tcp)).collect();
    let mut sending = many(&toy, loopback(66), 2);
    for client in &mut sending {
        client.0.write_all(&record(&[0; 64])[..20]).unwrap();
    }
    until("what they sent was received", || {
        toy.server.conns().iter().filter(|conn| conn.partial_bytes > 0).count() == 2
    });
    let silent = many(&toy, loopback(66), CONNECTIONS_MAX - 2 - used.len());
    for client in &mut used {
        // every pool serves one of them, and takes what is new before
        assert!(client.call(2, NULL, &[]).is_empty());
    }
    let newcomers: Vec<Client> = (0..silent.len())
        .map(|n| idle_mount(loopback(100 + u8::try_from(n).unwrap()), toy.tcp))
        .collect();
    for mut client in silent {
        assert!(client.is_closed());
    }
    for client in &mut used {
        assert!(client.call(3, NULL, &[]).is_empty());
    }
    until("those that made room are closed", || toy.server.connections() == CONNECTIONS_MAX);
    let receiving = toy.server.conns().iter().filter(|conn| conn.partial_bytes > 0).count();
    assert_eq!(receiving, 2, "what arrives protects its connection");
    drop((newcomers, sending));
    toy.stop();
}

#[test]
fn active_connections_are_closed_down_to_a_fair_share() {
    let toy = Toy::with_limits(few_connections());
    let crowd: Vec<Client> =
        (0..CONNECTIONS_MAX).map(|_| idle_mount(loopback(66), toy.tcp)).collect();
    let other: Vec<Client> =
        (0..CONNECTIONS_MAX / 2).map(|_| idle_mount(loopback(77), toy.tcp)).collect();
    assert_eq!(info(&toy, loopback(77)).connections, other.len() as u64);
    until("room was made", || info(&toy, loopback(66)).connections == CONNECTIONS_MAX as u64 / 2);
    // now both have the same: the next is refused instead of another being closed
    assert!(client_at(loopback(77), toy.tcp).is_closed());
    assert_eq!(toy.counter(Counter::ConnectionsDisplaced), CONNECTIONS_MAX as u64 / 2);
    drop((crowd, other));
    toy.stop();
}

#[test]
fn addresses_of_one_network_of_ipv6_are_one_client() {
    alone(|_| {
        ip("link set lo up");
        let address = |network: u16, host: u16| -> IpAddr {
            IpAddr::from([0xfd00, network, 0, 0, 0, 0, 0, host])
        };
        for host in 1..=8 {
            address6(&format!("{}/64 dev lo", address(1, host)));
        }
        address6(&format!("{}/64 dev lo", address(2, 1)));
        address6(&format!("{}/64 dev lo", address(3, 1)));
        let listen = SocketAddr::new(address(3, 1), 0);
        let limits = Limits { connections_max: 12, ..Limits::default() };
        let toy = Toy::start(Config { tcp: vec![listen], udp: Vec::new(), limits, ..config() });
        // each address has as few as the mount, all of them have more
        let mut mounts = [idle_mount(address(2, 1), toy.tcp), idle_mount(address(2, 1), toy.tcp)];
        let silent: Vec<_> = (0..10).flat_map(|n| many(&toy, address(1, 1 + n % 8), 1)).collect();
        let mut late = idle_mount(address(3, 1), toy.tcp);
        for client in mounts.iter_mut().chain([&mut late]) {
            assert!(client.call(9, NULL, &[]).is_empty());
        }
        assert_eq!(toy.counter(Counter::ConnectionsDisplaced), 1);
        assert_eq!(toy.counter(Counter::ConnectionsRefused), 0);
        drop(silent);
        toy.stop();
    });
}
