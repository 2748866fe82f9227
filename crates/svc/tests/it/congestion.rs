//! Which congestion control connections get: from this machine, over a line, over a route that has one of its
//! own; where the system's paces and where it does not. In network namespaces; needs root.

use crate::net::{Net, alone, ip};
use crate::toy::{Toy, config, until};
use bowline_svc::{Config, Congestion};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;
use testing::{Missing, skip};

const PORT: u16 = 2049;

/// The namespace's own; false if the kernel has none of that name, or lets nobody have it.
fn system(name: &str) -> bool {
    std::fs::write("/proc/sys/net/ipv4/tcp_congestion_control", name).is_ok()
}

/// Runs a test in a network whose own is `name`, with a cable.
fn where_system_is(name: &'static str, test: impl FnOnce(&Net) + Send + 'static) {
    alone(move |net| {
        ip("link set lo up");
        net.cable(1);
        if !system(name) {
            return skip(Missing::Kernel, format_args!("congestion control {name}"));
        }
        test(net);
    });
}

fn start(congestion: Congestion) -> Toy {
    let any: SocketAddr = ([0, 0, 0, 0], PORT).into();
    Toy::start(Config { tcp: vec![any], udp: Vec::new(), congestion, ..config() })
}

fn near() -> TcpStream {
    TcpStream::connect(("127.0.0.1", PORT)).unwrap()
}

/// By the server's own address on the line, from the server's machine.
fn near_by_name() -> TcpStream {
    TcpStream::connect(("10.0.1.1", PORT)).unwrap()
}

fn far(net: &Net) -> TcpStream {
    net.at_clients(|| TcpStream::connect(("10.0.1.1", PORT)).unwrap())
}

/// What the server's end of a connection has.
fn of(toy: &Toy, client: &TcpStream) -> String {
    let addr = client.local_addr().unwrap();
    let mut name = String::new();
    until("the server has the connection and knows what limits it", || {
        let conns = toy.measured_conns(Duration::from_millis(1));
        let link = conns.into_iter().find(|c| c.peer == addr).and_then(|c| c.link);
        link.is_some_and(|link| {
            name = link.congestion_control;
            true
        })
    });
    name
}

#[test]
fn local_clients_do_not_use_a_pacing_congestion_control() {
    where_system_is("bbr", |net| {
        let toy = start(Congestion::Auto);
        let (local, named, remote) = (near(), near_by_name(), far(net));
        let all = || [&local, &named, &remote].map(|client| of(&toy, client));
        assert_eq!(all(), ["reno", "reno", "bbr"]);
        toy.server.set_congestion(Congestion::System).unwrap();
        assert_eq!(all(), ["bbr", "bbr", "bbr"]);
        assert_eq!((of(&toy, &near()), of(&toy, &far(net))), ("bbr".into(), "bbr".into()));
        toy.server.set_congestion(Congestion::Named("reno".into())).unwrap();
        assert_eq!(all(), ["reno", "reno", "reno"]);
        assert_eq!(of(&toy, &far(net)), "reno");
        let wrong = toy.server.set_congestion(Congestion::Named("none-such".into()));
        assert!(wrong.unwrap_err().to_string().contains("none-such"));
        assert_eq!(all(), ["reno", "reno", "reno"], "nothing has changed");
        toy.server.set_congestion(Congestion::Auto).unwrap();
        assert_eq!(all(), ["reno", "reno", "bbr"]);
        assert_eq!((of(&toy, &near()), of(&toy, &far(net))), ("reno".into(), "bbr".into()));
        toy.stop();
    });
}

#[test]
fn a_congestion_control_set_on_a_route_is_used() {
    where_system_is("bbr", |net| {
        ip("route replace 10.0.1.0/24 dev s1 proto kernel scope link src 10.0.1.1 congctl cubic");
        let toy = start(Congestion::Auto);
        assert_eq!(of(&toy, &far(net)), "cubic");
        assert_eq!(of(&toy, &near()), "reno");
        toy.stop();
    });
}

#[test]
fn a_system_without_pacing_is_not_changed() {
    where_system_is("reno", |net| {
        let toy = start(Congestion::Auto);
        assert_eq!((of(&toy, &near()), of(&toy, &far(net))), ("reno".into(), "reno".into()));
        // listeners that were never told anything follow the sysctl
        if system("bbr") {
            assert_eq!(of(&toy, &far(net)), "bbr");
        }
        toy.stop();
    });
}
