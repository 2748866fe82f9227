//! Datagram sockets by interface and CPU: changed under load, while interfaces come and go, on
//! machines with several addresses. In network namespaces; needs root.

use crate::net::{Load, Net, address6, alone, ip};
use crate::toy::{ECHO, NAP, NULL, Toy, config, message, opaque, results, until};
use bowline_svc::{Config, InheritedSockets, SocketInfo, UdpSockets};
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};
use sys::datagram::Families;
use testing::{Missing, skip};

const PORT: u16 = 2049;
const ALL: [UdpSockets; 4] =
    [UdpSockets::Single, UdpSockets::Interface, UdpSockets::Cpu, UdpSockets::InterfaceCpu];

fn any4() -> SocketAddr {
    ([0, 0, 0, 0], PORT).into()
}

fn any6() -> SocketAddr {
    ([0_u16; 8], PORT).into()
}

fn at(text: &str) -> SocketAddr {
    (text.parse::<IpAddr>().unwrap(), PORT).into()
}

fn start(udp: &[SocketAddr], udp_sockets: UdpSockets) -> Toy {
    Toy::start(Config { tcp: Vec::new(), udp: udp.to_vec(), udp_sockets, ..config() })
}

fn udp(toy: &Toy) -> Vec<SocketInfo> {
    toy.server.sockets()
}

/// The interfaces that have sockets, each as often as it has any.
fn interfaces(toy: &Toy) -> Vec<String> {
    let mut names: Vec<String> = udp(toy)
        .into_iter()
        .filter(|socket| !socket.note.contains("closes"))
        .filter_map(|socket| socket.interface)
        .collect();
    names.sort_unstable();
    names
}

#[track_caller]
fn until_interfaces(toy: &Toy, expected: &[&str]) {
    let start = Instant::now();
    while interfaces(toy) != expected {
        let now = interfaces(toy);
        assert!(start.elapsed() < Duration::from_secs(60), "{expected:?} never came: {now:?}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn unheard(net: &Net, to: SocketAddr) {
    let socket = net.socket(to);
    socket.send(&message(7, ECHO, &opaque(b"anybody"))).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let error = socket.recv(&mut [0; 200]).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionRefused);
}

fn call(net: &Net, to: SocketAddr) {
    let socket = net.socket(to);
    socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    socket.send(&message(7, ECHO, &opaque(b"here"))).unwrap();
    let mut buf = [0; 200];
    let len = socket.recv(&mut buf).unwrap();
    assert_eq!(results(&buf[..len]), (7, opaque(b"here")));
}

#[test]
fn no_call_is_lost_when_the_setting_changes_under_load() {
    alone(|net| {
        for n in 1..=3 {
            net.cable(n);
        }
        ip("link set lo up");
        let toy = start(&[any4(), any6()], UdpSockets::Single);
        let loads: Vec<Load> = (1..=3)
            .flat_map(|n| [format!("10.0.{n}.1"), format!("fd00:{n}::1")])
            .map(|addr| net.load(at(&addr), false))
            .collect();
        let mut changes = 0;
        for round in 0..6 {
            for step in 0..ALL.len() {
                // each setting after each other
                let mode = ALL[(step * (1 + round % 3) + round) % ALL.len()];
                toy.server.set_udp_sockets(mode).unwrap();
                assert_eq!(toy.server.udp_sockets(), mode);
                changes += 1;
                loads[step % loads.len()].answers(20);
            }
        }
        // and faster than anybody can drain
        for mode in ALL.iter().cycle().take(40) {
            toy.server.set_udp_sockets(*mode).unwrap();
        }
        for load in &loads {
            load.answers(20);
        }
        toy.server.set_udp_sockets(UdpSockets::Single).unwrap();
        until("only the two bases are left", || udp(&toy).len() == 2);
        let mut answered = 0;
        for load in loads {
            assert_eq!(load.seen.twice.load(Relaxed), 0);
            answered += load.stop();
        }
        assert!(answered > changes, "{answered} calls in {changes} changes");
        assert_eq!(toy.counter(telemetry::Counter::DatagramsDropped), 0);
        toy.stop();
    });
}

#[test]
fn udp_sockets_off_stops_receiving_until_changed() {
    alone(|net| {
        net.cable(1);
        ip("link set lo up");
        let to = at("10.0.1.1");
        let toy = start(&[any4(), any6()], UdpSockets::Off);
        assert!(udp(&toy).is_empty() && toy.server.local_addrs().is_empty());
        // nobody has the port
        drop(std::net::UdpSocket::bind(any4()).unwrap());
        unheard(net, to);
        for mode in ALL {
            toy.server.set_udp_sockets(mode).unwrap();
            until("it is served", || udp(&toy).iter().any(|s| s.local == any4()));
            call(net, to);
            call(net, at("fd00:1::1"));
            // what has arrived is answered yet
            let socket = net.socket(to);
            socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
            for xid in 0..8 {
                socket.send(&message(xid, NAP, &opaque(b""))).unwrap();
            }
            toy.server.set_udp_sockets(UdpSockets::Off).unwrap();
            for _ in 0..8 {
                socket.recv(&mut [0; 200]).unwrap();
            }
            until("all have closed", || udp(&toy).is_empty());
            unheard(net, to);
        }
        // faster than anybody can drain
        for mode in ALL.iter().flat_map(|mode| [*mode, UdpSockets::Off]).cycle().take(80) {
            toy.server.set_udp_sockets(mode).unwrap();
        }
        until("all have closed", || udp(&toy).is_empty());
        toy.server.set_udp_sockets(UdpSockets::Single).unwrap();
        until("both are there", || udp(&toy).len() == 2);
        call(net, to);
        toy.stop();
    });
}

#[test]
fn an_inherited_socket_is_switched_off_and_on_and_inherited_again() {
    alone(|net| {
        net.cable(1);
        ip("link set lo up");
        let to = at("10.0.1.1");
        // Linux refuses a peer no more than six datagrams in a row, and then one a second
        std::fs::write("/proc/sys/net/ipv4/icmp_ratelimit", "0").unwrap();
        // as systemd holds it all the time
        let held = std::net::UdpSocket::bind(any6()).unwrap();
        let start = |udp_sockets: UdpSockets| {
            let inherited =
                InheritedSockets { udp: vec![held.try_clone().unwrap()], tcp: Vec::new() };
            let none = Vec::new;
            Toy::start(Config { tcp: none(), udp: none(), inherited, udp_sockets, ..config() })
        };
        for (first, second) in ALL.into_iter().zip([ALL[1], ALL[0], ALL[3], ALL[2]]) {
            net.socket(to).send(&message(7, ECHO, &opaque(b"too early"))).unwrap();
            let toy = start(UdpSockets::Off);
            unheard(net, to);
            assert!(!sys::datagram::has_arrivals(&held), "what came before is forgotten");
            for mode in [first, UdpSockets::Off, second, UdpSockets::Off] {
                toy.server.set_udp_sockets(mode).unwrap();
                until("there is one, or none", || {
                    udp(&toy).iter().any(|s| s.inherited) == (mode != UdpSockets::Off)
                });
                if mode == UdpSockets::Off {
                    unheard(net, to);
                } else {
                    call(net, to);
                    call(net, at("fd00:1::1"));
                    assert_eq!(toy.server.local_addrs().len(), 1);
                }
            }
            toy.stop();
            // its owner may start a server when something arrives
            net.socket(to).send(&message(7, ECHO, &opaque(b"anybody"))).unwrap();
            until("it is heard", || sys::datagram::has_arrivals(&held));
            let toy = start(first);
            call(net, to);
            call(net, at("fd00:1::1"));
            toy.stop();
        }
    });
}

#[test]
fn an_inherited_socket_of_one_interface_is_not_served_by_another() {
    alone(|net| {
        net.cable(1);
        net.cable(2);
        ip("link set lo up");
        std::fs::write("/proc/sys/net/ipv4/icmp_ratelimit", "0").unwrap();
        let links = sys::netlink::links().unwrap();
        let first = links.iter().find(|link| link.name == "s1").unwrap().index;
        // as systemd binds it with BindToDevice=
        let held = sys::datagram::join(any6(), Families::Both, Some(first)).unwrap();
        let inherited = InheritedSockets { udp: vec![held], tcp: Vec::new() };
        let toy = Toy::start(Config { tcp: Vec::new(), udp: Vec::new(), inherited, ..config() });
        for mode in ALL {
            toy.server.set_udp_sockets(mode).unwrap();
            call(net, at("10.0.1.1"));
            unheard(net, at("10.0.2.1"));
            assert_eq!(udp(&toy).len(), 1, "{mode}");
            toy.server.set_udp_sockets(UdpSockets::Off).unwrap();
            until("it is laid up", || udp(&toy).is_empty());
        }
        toy.stop();
    });
}

#[test]
fn interfaces_come_and_go_under_load() {
    alone(|net| {
        net.cable(1);
        net.cable(2);
        ip("link set lo up");
        let toy = start(&[any4()], UdpSockets::Interface);
        until_interfaces(&toy, &["lo", "s1", "s2"]);
        let calm = net.load(at("10.0.1.1"), false);
        let troubled = net.load(at("10.0.2.1"), true);
        troubled.answers(50);

        ip("link set s2 down");
        until_interfaces(&toy, &["lo", "s1"]);
        calm.answers(50);
        ip("link set s2 up");
        until_interfaces(&toy, &["lo", "s1", "s2"]);
        troubled.answers(50);

        ip("link set s2 name wan0");
        until_interfaces(&toy, &["lo", "s1", "wan0"]);
        troubled.answers(50);
        let by_name = || udp(&toy).into_iter().find(|s| s.interface.as_deref() == Some("wan0"));
        let before = by_name().unwrap();
        troubled.answers(50);
        let after = by_name().unwrap();
        assert!(after.received > before.received, "the renamed interface's own socket serves it");
        assert!(after.bytes_out > before.bytes_out && after.drops == 0);

        // another address, and the old one gone: the client moves, the socket stays
        ip("address add 10.0.22.1/24 dev wan0");
        net.at_clients(|| ip("address add 10.0.22.2/24 dev c2"));
        let moved = net.load(at("10.0.22.1"), true);
        moved.answers(50);
        assert!(troubled.stop() >= 200);
        ip("address del 10.0.2.1/24 dev wan0");
        moved.answers(50);

        net.cable(3);
        until_interfaces(&toy, &["lo", "s1", "s3", "wan0"]);
        let newcomer = net.load(at("10.0.3.1"), true);
        newcomer.answers(50);
        assert!(newcomer.stop() >= 50 && moved.stop() >= 100);
        ip("link del s3");
        ip("link del wan0");
        until_interfaces(&toy, &["lo", "s1"]);
        // an interface of the same name is another one
        net.cable(3);
        until_interfaces(&toy, &["lo", "s1", "s3"]);
        call(net, at("10.0.3.1"));
        calm.answers(50);
        assert!(calm.stop() >= 150, "and whoever is elsewhere has lost nothing");
        toy.stop();
    });
}

#[test]
fn udp_replies_use_the_address_and_interface_of_the_call() {
    alone(|net| {
        net.cable(1);
        net.cable(2);
        ip("link set lo up");
        ip("address add 10.0.1.77/24 dev s1");
        address6("fd00:1::77/64 dev s1");
        net.at_clients(|| {
            // the other cable's address by this cable
            ip("route add 10.0.77.1/32 via 10.0.1.1");
            ip("route add fd00:77::1/128 via fd00:1::1");
        });
        ip("address add 10.0.77.1/32 dev s2");
        address6("fd00:77::1/128 dev s2");
        let toy = start(&[any4(), any6()], UdpSockets::Single);
        for mode in ALL {
            toy.server.set_udp_sockets(mode).unwrap();
            for asked in ["10.0.1.1", "10.0.1.77", "10.0.2.1", "10.0.77.1"] {
                call(net, at(asked));
            }
            for asked in ["fd00:1::1", "fd00:1::77", "fd00:2::1", "fd00:77::1"] {
                call(net, at(asked));
            }
        }
        toy.stop();
    });
}

#[test]
fn a_port_in_use_on_one_interface_is_skipped_until_free() {
    alone(|net| {
        net.cable(1);
        net.cable(2);
        ip("link set lo up");
        let links = sys::netlink::links().unwrap();
        let index = links.iter().find(|link| link.name == "s2").unwrap().index;
        // never shared: nobody else can have it
        let other = taken(any4(), index);
        let toy = start(&[any4()], UdpSockets::Interface);
        until_interfaces(&toy, &["lo", "s1"]);
        call(net, at("10.0.1.1"));
        let refused = toy.server.set_udp_sockets(UdpSockets::Single).unwrap_err().to_string();
        assert!(refused.contains("0.0.0.0:2049") && refused.contains("in use"), "{refused}");
        assert_eq!(toy.server.udp_sockets(), UdpSockets::Interface);
        call(net, at("10.0.1.1"));
        drop(other);
        until_interfaces(&toy, &["lo", "s1", "s2"]);
        call(net, at("10.0.2.1"));
        until("the base is there as well", || udp(&toy).iter().any(|s| s.interface.is_none()));
        toy.server.set_udp_sockets(UdpSockets::Single).unwrap();
        call(net, at("10.0.2.1"));
        toy.stop();
    });
}

/// A socket that has the port on one interface, and does not share it.
fn taken(addr: SocketAddr, interface: u32) -> std::net::UdpSocket {
    let socket = sys::datagram::join(addr, Families::Own, Some(interface)).unwrap();
    sys::datagram::unshare(&socket).unwrap();
    socket
}

#[test]
fn without_interfaces_there_is_one_socket() {
    alone(|net| {
        let toy = start(&[any4(), any6()], UdpSockets::InterfaceCpu);
        assert_eq!(udp(&toy).len(), 2);
        assert!(udp(&toy).iter().all(|socket| socket.note.contains("serves all interfaces")));
        net.cable(1);
        until("an interface has sockets", || interfaces(&toy).contains(&"s1".to_owned()));
        call(net, at("10.0.1.1"));
        call(net, at("fd00:1::1"));
        assert!(udp(&toy).iter().all(|socket| !socket.note.contains("serves all interfaces")));
        ip("link set s1 down");
        until("all are closed again", || udp(&toy).len() == 2);
        toy.stop();
    });
}

#[test]
fn bridge_members_have_no_socket_of_their_own() {
    alone(|net| {
        net.cable(1);
        net.cable(2);
        ip("link set lo up");
        let bridge = std::process::Command::new("ip")
            .args(["link", "add", "br0", "type", "bridge"])
            .output()
            .unwrap();
        if !bridge.status.success() {
            skip(Missing::Kernel, "bridges");
            return;
        }
        let toy = start(&[any4()], UdpSockets::Interface);
        until_interfaces(&toy, &["lo", "s1", "s2"]);
        ip("address del 10.0.2.1/24 dev s2");
        ip("address add 10.0.2.1/24 dev br0");
        ip("link set br0 up");
        ip("link set s2 master br0");
        until_interfaces(&toy, &["br0", "lo", "s1"]);
        call(net, at("10.0.2.1"));
        ip("link set s2 nomaster");
        until_interfaces(&toy, &["br0", "lo", "s1", "s2"]);
        toy.stop();
    });
}

#[test]
fn an_inherited_socket_of_both_families_answers_both() {
    alone(|net| {
        net.cable(1);
        ip("link set lo up");
        let cpus = sys::thread::allowed_cpus().unwrap();
        // as systemd binds it
        let both = std::net::UdpSocket::bind(any6()).unwrap();
        let inherited = InheritedSockets { udp: vec![both], tcp: Vec::new() };
        let toy = Toy::start(Config { tcp: Vec::new(), udp: Vec::new(), inherited, ..config() });
        for mode in ALL {
            toy.server.set_udp_sockets(mode).unwrap();
            // a base in a group with those that leave takes everything
            let is_leaving = |s: &SocketInfo| s.note.contains("closes");
            until("nothing leaves", || !udp(&toy).iter().any(is_leaving));
            for address in ["10.0.1.1", "fd00:1::1"] {
                let others = || -> u64 {
                    udp(&toy).iter().filter(|s| !s.inherited).map(|s| s.received).sum()
                };
                let before = others();
                for cpu in &cpus {
                    sys::thread::run_on(&[*cpu]).unwrap();
                    call(net, at(address));
                }
                let beside = others() - before;
                assert_eq!(beside > 0, mode != UdpSockets::Single, "{mode} {address}: {beside}");
            }
        }
        assert_eq!(toy.counter(telemetry::Counter::DatagramsDropped), 0);
        toy.stop();
    });
}

#[test]
fn an_inherited_socket_serves_both_families_again_after_udp_was_off() {
    alone(|net| {
        net.cable(1);
        ip("link set lo up");
        // its owner keeps it while servers come and go, as systemd does
        let kept = std::net::UdpSocket::bind(any6()).unwrap();
        let start = |udp_sockets| {
            let inherited =
                InheritedSockets { udp: vec![kept.try_clone().unwrap()], tcp: Vec::new() };
            let config = Config { tcp: Vec::new(), udp: Vec::new(), inherited, ..config() };
            Toy::start(Config { udp_sockets, ..config })
        };
        let both_answer = || ["10.0.1.1", "fd00:1::1"].map(|address| call(net, at(address)));
        for first in [UdpSockets::Off, UdpSockets::Single] {
            let toy = start(first);
            for mode in ALL {
                toy.server.set_udp_sockets(UdpSockets::Off).unwrap();
                until("nothing is left", || udp(&toy).is_empty());
                let late = net.socket(at("10.0.1.1"));
                late.send(&message(1, NULL, &[])).unwrap();
                toy.server.set_udp_sockets(mode).unwrap();
                both_answer();
                let stale = late.set_nonblocking(true).and_then(|()| late.recv(&mut [0; 100]));
                assert!(stale.is_err(), "{mode}: what came while it was off is not carried out");
            }
            toy.server.set_udp_sockets(UdpSockets::Off).unwrap();
            until("nothing is left", || udp(&toy).is_empty());
            toy.stop();
        }
        let toy = start(UdpSockets::Single);
        both_answer();
        toy.stop();
    });
}

#[test]
fn interfaces_with_closing_sockets_are_bound_again() {
    alone(|net| {
        net.cable(1);
        ip("link set lo up");
        let toy = start(&[any4()], UdpSockets::Interface);
        // they may be gone before anybody can look
        let tried = (0..50).find(|_| {
            toy.server.set_udp_sockets(UdpSockets::Cpu).unwrap();
            toy.server.set_udp_sockets(UdpSockets::InterfaceCpu).unwrap();
            let seen = udp(&toy);
            assert!(!seen.iter().any(|s| s.note.contains("none has a socket")), "{seen:?}");
            let leaving = seen.iter().any(|s| s.note.contains("closes"));
            toy.server.set_udp_sockets(UdpSockets::Interface).unwrap();
            leaving
        });
        assert!(tried.is_some(), "none was ever seen leaving");
        toy.stop();
    });
}

#[test]
fn datagrams_received_before_their_socket_closed_are_answered() {
    const CALLS: u32 = 40;
    alone(|net| {
        net.cable(1);
        ip("link set lo up");
        // one thread, which sleeps while everything arrives
        let toy = Toy::start(Config {
            tcp: Vec::new(),
            udp: vec![any4()],
            udp_sockets: UdpSockets::InterfaceCpu,
            threads: (1, 1),
            ..config()
        });
        let socket = net.socket(at("10.0.1.1"));
        socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        socket.send(&message(1, NAP, &400_u32.to_be_bytes())).unwrap();
        until("the nap has begun", || toy.state.calls.load(Relaxed) == 1);
        for xid in 2..2 + CALLS {
            socket.send(&message(xid, NULL, &[])).unwrap();
        }
        toy.server.set_udp_sockets(UdpSockets::Single).unwrap();
        assert!(udp(&toy).iter().any(|s| s.note.contains("closes")), "it is not empty yet");
        let mut seen = Vec::new();
        let mut buf = [0; 200];
        for _ in 0..=CALLS {
            let len = socket.recv(&mut buf).unwrap();
            seen.push(results(&buf[..len]).0);
        }
        seen.sort_unstable();
        assert!(seen.into_iter().eq(1..2 + CALLS));
        until("the sockets are closed", || udp(&toy).len() == 1);
        toy.stop();
    });
}

#[test]
fn datagrams_are_spread_by_cpu_and_replies_use_send_only_sockets() {
    alone(|net| {
        net.cable(1);
        ip("link set lo up");
        let toy = start(&[any4()], UdpSockets::Cpu);
        let cpus = sys::thread::online_cpus();
        assert_eq!(udp(&toy).len(), cpus as usize);
        let loads: Vec<Load> = (0..4).map(|_| net.load(at("10.0.1.1"), false)).collect();
        for load in &loads {
            load.answers(100);
        }
        let sockets = udp(&toy);
        let total: u64 = sockets.iter().map(|socket| socket.received).sum();
        assert!(total >= 400);
        assert!(sockets.iter().any(|socket| socket.note.contains("for sending only")));
        assert_eq!(toy.counter(telemetry::Counter::UdpSendsWaited), 0);
        for load in loads {
            load.stop();
        }
        toy.stop();
    });
}

#[test]
fn the_buffers_of_all_sockets_change_at_once() {
    alone(|net| {
        net.cable(1);
        ip("link set lo up");
        let toy = start(&[any4()], UdpSockets::Interface);
        toy.server.set_udp_buffer(Some(64 << 10)).unwrap();
        assert!(udp(&toy).iter().all(|s| (s.buffer_in, s.buffer_out) == (64 << 10, 64 << 10)));
        // those that come later too
        toy.server.set_udp_sockets(UdpSockets::InterfaceCpu).unwrap();
        assert!(udp(&toy).iter().all(|s| s.buffer_in == 64 << 10));
        call(net, at("10.0.1.1"));
        toy.server.set_udp_buffer(None).unwrap();
        assert!(udp(&toy).iter().all(|s| s.buffer_in > 64 << 10));
        toy.stop();
    });
}
