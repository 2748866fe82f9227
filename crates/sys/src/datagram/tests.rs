//! Sockets that share a port, on the loopback interface: no privilege needed.

use super::{
    Families, bind_to_no_interface, has_arrivals, hide, join, leave_group, memory, settle_arrivals,
    share, size_buffers, steer_by_cpu, stop_steering, transmit_only, unshare,
};
use crate::mmsg::{self, Batch, Outgoing};
use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

fn loopback() -> u32 {
    crate::netlink::links().unwrap().into_iter().find(|link| link.loopback).unwrap().index
}

/// A base on any port, shared, and a client of it.
fn base(any: &str) -> (UdpSocket, SocketAddr, UdpSocket) {
    let base = super::bind_alone(any.parse().unwrap()).unwrap();
    let addr = base.local_addr().unwrap();
    let other = super::bind_alone(addr).unwrap_err();
    assert_eq!(other.kind(), ErrorKind::AddrInUse, "the port is taken before it is shared");
    share(&base).unwrap();
    let alone = super::bind_alone(addr).unwrap_err();
    assert_eq!(alone.kind(), ErrorKind::AddrInUse, "and after");
    let here: SocketAddr = if addr.is_ipv4() { "127.0.0.1:0" } else { "[::1]:0" }.parse().unwrap();
    let client = UdpSocket::bind(here).unwrap();
    client.connect((here.ip(), addr.port())).unwrap();
    client.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    (base, addr, client)
}

/// Which of the sockets gets a datagram.
fn taken_by(client: &UdpSocket, sockets: &[&UdpSocket]) -> usize {
    client.send(b"?").unwrap();
    // on the loopback interface delivery is done when the send returns
    let got: Vec<usize> = (0..sockets.len()).filter(|n| has_arrivals(sockets[*n])).collect();
    assert_eq!(got.len(), 1, "exactly one socket gets it: {got:?}");
    sockets[got[0]].recv(&mut [0; 8]).unwrap();
    got[0]
}

fn an_interface_comes_first_until_it_hides(any: &str) {
    let (base, addr, client) = base(any);
    assert_eq!(taken_by(&client, &[&base]), 0);
    let index = loopback();
    let own = join(addr, Families::Own, Some(index)).unwrap();
    assert_eq!(taken_by(&client, &[&base, &own]), 1);
    client.send(b"kept").unwrap();
    hide(&own, Some(index)).unwrap();
    settle_arrivals();
    assert_eq!(taken_by(&client, &[&base]), 0);
    assert!(has_arrivals(&own), "what it has received stays");
    let mut buf = [0; 8];
    let len = own.recv(&mut buf).unwrap();
    assert_eq!(&buf[..len], b"kept");
}

#[test]
fn an_ipv4_interface_socket_has_priority_until_hidden() {
    an_interface_comes_first_until_it_hides("0.0.0.0:0");
    an_interface_comes_first_until_it_hides("127.0.0.1:0");
}

#[test]
fn an_ipv6_interface_socket_has_priority_until_hidden() {
    an_interface_comes_first_until_it_hides("[::]:0");
    an_interface_comes_first_until_it_hides("[::1]:0");
}

fn a_group_is_steered_and_dissolved(any: &str) {
    let cpus = crate::thread::allowed_cpus().unwrap();
    let (base, addr, client) = base(any);
    let second = join(addr, Families::Own, None).unwrap();
    steer_by_cpu(&base, 2).unwrap();
    for cpu in &cpus {
        crate::thread::run_on(&[*cpu]).unwrap();
        assert_eq!(taken_by(&client, &[&base, &second]), cpu % 2, "CPU {cpu}");
    }
    crate::thread::run_on(&cpus).unwrap();
    stop_steering(&base).unwrap();
    bind_to_no_interface(&second).unwrap();
    for _ in 0..4 {
        assert_eq!(taken_by(&client, &[&base, &second]), 0);
    }
    drop(second);
    leave_group(&base).unwrap();
    let own = join(addr, Families::Own, Some(loopback())).unwrap();
    assert_eq!(taken_by(&client, &[&base, &own]), 1, "not the group's first, but what fits best");
}

#[test]
fn reuseport_groups_are_steered_by_cpu() {
    // each on a thread of its own, which goes from CPU to CPU
    for any in ["0.0.0.0:0", "[::]:0"] {
        std::thread::spawn(move || a_group_is_steered_and_dissolved(any)).join().unwrap();
    }
}

fn a_reply_leaves_by_a_socket_that_receives_nothing(any: &str) {
    let (base, addr, client) = base(any);
    let out = transmit_only(addr).unwrap();
    client.send(b"ask").unwrap();
    let mut batch = Batch::new();
    assert_eq!(batch.receive(&base).unwrap(), 1);
    assert!(!has_arrivals(&out));
    let asked = batch.at(0).unwrap();
    let reply = Outgoing { bytes: b"told", to: asked.from, from: asked.to };
    assert_eq!(mmsg::send(&out, &[reply]).unwrap(), 1);
    // connected: a reply from elsewhere would not be received
    let mut buf = [0; 8];
    let len = client.recv(&mut buf).unwrap();
    assert_eq!(&buf[..len], b"told");
}

#[test]
fn send_only_sockets_of_both_families_receive_nothing() {
    for any in ["0.0.0.0:0", "127.0.0.1:0", "[::]:0", "[::1]:0"] {
        a_reply_leaves_by_a_socket_that_receives_nothing(any);
    }
}

#[test]
fn send_only_sockets_do_not_hide_a_port_conflict() {
    let index = Some(loopback());
    let other = join("0.0.0.0:0".parse().unwrap(), Families::Own, index).unwrap();
    let addr: SocketAddr = ([0, 0, 0, 0], other.local_addr().unwrap().port()).into();
    let _out = transmit_only(addr).unwrap();
    unshare(&other).unwrap();
    for interface in [None, index] {
        let error = join(addr, Families::Own, interface).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AddrInUse, "{interface:?}");
    }
}

/// Sends to `addr` until told to end; how many datagrams were refused.
fn flood(addr: SocketAddr, stop: &AtomicBool) -> usize {
    let here: SocketAddr = if addr.is_ipv4() { "127.0.0.1:0" } else { "[::1]:0" }.parse().unwrap();
    let client = UdpSocket::bind(here).unwrap();
    client.connect((here.ip(), addr.port())).unwrap();
    let mut refused = 0;
    while !stop.load(Relaxed) {
        let sent = client.send(b"?");
        refused += usize::from(sent.is_err_and(|e| e.kind() == ErrorKind::ConnectionRefused));
    }
    refused
}

/// Sends to the bases of both families while sockets beside them come and are taken out.
fn nothing_is_refused_while(round: impl Fn(SocketAddr, SocketAddr)) {
    let (_four, four, _) = base("0.0.0.0:0");
    let (_six, six, _) = base(&format!("[::]:{}", four.port()));
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let floods = [four, six].map(|addr| {
            scope.spawn({
                let stop = &stop;
                move || flood(addr, stop)
            })
        });
        (0..20_000).for_each(|_| round(four, six));
        stop.store(true, Relaxed);
        assert_eq!(floods.map(|flood| flood.join().unwrap()), [0, 0], "IPv4 and IPv6 refused");
    });
}

#[test]
fn no_port_unreachable_while_interface_sockets_are_hidden() {
    let index = Some(loopback());
    nothing_is_refused_while(|four, six| {
        for addr in [four, six] {
            hide(&join(addr, Families::Own, index).unwrap(), index).unwrap();
        }
    });
}

#[test]
fn no_port_unreachable_while_group_members_are_unbound() {
    nothing_is_refused_while(|four, six| {
        for addr in [four, six] {
            bind_to_no_interface(&join(addr, Families::Own, None).unwrap()).unwrap();
        }
    });
}

#[test]
fn buffer_sizes_are_as_requested_and_drops_are_counted() {
    let (base, _, client) = base("127.0.0.1:0");
    size_buffers(&base, 16 << 10).unwrap();
    assert_eq!(memory(&base).buffers.receive, 16 << 10);
    for _ in 0..64 {
        client.send(&[0; 1000]).unwrap();
    }
    let seen = memory(&base);
    assert!(seen.drops > 0 && seen.unread_bytes > 0, "{seen:?}");
    while base.recv(&mut [0; 1000]).is_ok() {}
    assert_eq!(memory(&base).unread_bytes, 0);
}
