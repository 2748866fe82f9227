//! Calls over both transports and both families come back whole, however they are cut.

use crate::toy::{ECHO, GIVE, NULL, Toy, config, datagrams, message, opaque, record, results};
use std::io::Write;

fn text(n: u32) -> Vec<u8> {
    opaque(format!("text number {n}").as_bytes())
}

#[test]
fn connections_and_datagrams_are_answered_on_both_families() {
    for any in ["127.0.0.1:0", "[::1]:0"] {
        let any = any.parse().unwrap();
        let toy = Toy::start(bowline_svc::Config { tcp: vec![any], udp: vec![any], ..config() });
        let mut client = toy.client();
        assert!(client.call(1, NULL, &[]).is_empty());
        assert_eq!(client.call(2, ECHO, &text(2)), text(2));
        let socket = datagrams(toy.udp);
        socket.send(&message(3, ECHO, &text(3))).unwrap();
        let mut buf = [0; 1000];
        let len = socket.recv(&mut buf).unwrap();
        assert_eq!(results(&buf[..len]), (3, text(3)));
        let conns = toy.server.conns();
        assert_eq!((conns.len(), conns[0].calls), (1, 2));
        assert_eq!(conns[0].peer, client.0.local_addr().unwrap());
        let sockets = toy.server.sockets();
        assert_eq!((sockets[0].received, sockets[1].received), (1, 1));
        crate::toy::until("the datagram is counted", || toy.server.sockets()[1].sent == 1);
        toy.stop();
    }
}

#[test]
fn a_batch_of_datagrams_is_answered_one_by_one() {
    let toy = Toy::start(config());
    let socket = datagrams(toy.udp);
    for xid in 0..100 {
        socket.send(&message(xid, ECHO, &text(xid))).unwrap();
    }
    let mut seen: Vec<u32> = Vec::new();
    let mut buf = [0; 1000];
    for _ in 0..100 {
        let len = socket.recv(&mut buf).unwrap();
        let (xid, got) = results(&buf[..len]);
        assert_eq!(got, text(xid));
        seen.push(xid);
    }
    seen.sort_unstable();
    assert!(seen.into_iter().eq(0..100));
    toy.stop();
}

#[test]
fn a_datagram_may_be_as_long_as_udp_allows() {
    let toy = Toy::start(config());
    let socket = datagrams(toy.udp);
    let data = opaque(&vec![7; 60 << 10]);
    socket.send(&message(1, ECHO, &data)).unwrap();
    let mut buf = vec![0; 65_536];
    let len = socket.recv(&mut buf).unwrap();
    assert_eq!(results(&buf[..len]), (1, data));
    // A reply that does not fit a datagram is dropped, and the next call is answered.
    socket.send(&message(2, GIVE, &70_000_u32.to_be_bytes())).unwrap();
    socket.send(&message(3, NULL, &[])).unwrap();
    let len = socket.recv(&mut buf).unwrap();
    assert_eq!(results(&buf[..len]).0, 3);
    toy.stop();
}

#[test]
fn udp_replies_leave_from_the_destination_address_of_the_call() {
    let any = "0.0.0.0:0".parse().unwrap();
    let toy = Toy::start(bowline_svc::Config { udp: vec![any], ..config() });
    let asked = ([127, 0, 0, 9], toy.udp.port()).into();
    // Connected: a reply from elsewhere would not be received.
    let socket = datagrams(asked);
    socket.send(&message(1, NULL, &[])).unwrap();
    let len = socket.recv(&mut [0; 100]).unwrap();
    assert!(len > 0);
    toy.stop();
}

#[test]
fn many_calls_in_one_segment_are_answered_in_order() {
    let toy = Toy::start(config());
    let mut client = toy.client();
    let calls: Vec<u8> = (0..500).flat_map(|xid| record(&message(xid, ECHO, &text(xid)))).collect();
    client.0.write_all(&calls).unwrap();
    for xid in 0..500 {
        assert_eq!(client.receive(), (xid, text(xid)));
    }
    toy.stop();
}

#[test]
fn fragments_are_joined() {
    let toy = Toy::start(config());
    let mut client = toy.client();
    let call = message(9, ECHO, &text(9));
    let mut wire = Vec::new();
    let pieces: Vec<&[u8]> = call.chunks(10).collect();
    for (n, piece) in pieces.iter().enumerate() {
        let last = if n + 1 == pieces.len() { 1 << 31 } else { 0 };
        wire.extend((u32::try_from(piece.len()).unwrap() | last).to_be_bytes());
        wire.extend(*piece);
    }
    wire.extend(record(&message(10, NULL, &[])));
    client.0.write_all(&wire).unwrap();
    assert_eq!(client.receive(), (9, text(9)));
    assert_eq!(client.receive().0, 10);
    toy.stop();
}

#[test]
fn a_call_may_arrive_byte_by_byte() {
    let toy = Toy::start(config());
    let mut client = toy.client();
    for xid in 0..3 {
        for byte in record(&message(xid, ECHO, &text(xid))) {
            client.0.write_all(&[byte]).unwrap();
        }
        assert_eq!(client.receive(), (xid, text(xid)));
    }
    toy.stop();
}

#[test]
fn large_records_and_replies_work_between_small_ones() {
    let toy = Toy::start(config());
    let mut client = toy.client();
    let large = opaque(&(0..3_000_000_u32).map(|n| (n % 251) as u8).collect::<Vec<_>>());
    let mut wire = record(&message(1, NULL, &[]));
    wire.extend(record(&message(2, ECHO, &large)));
    wire.extend(record(&message(3, GIVE, &1_000_000_u32.to_be_bytes())));
    wire.extend(record(&message(4, NULL, &[])));
    let mut writer = client.0.try_clone().unwrap();
    let sender = std::thread::spawn(move || writer.write_all(&wire).unwrap());
    assert_eq!(client.receive().0, 1);
    let (xid, got) = client.receive();
    assert!(xid == 2 && got == large);
    assert_eq!(client.receive().1.len(), 1_000_004);
    assert_eq!(client.receive().0, 4);
    sender.join().unwrap();
    crate::toy::until("the connection holds no memory", || {
        toy.server.conns()[0].partial_bytes == 0
    });
    toy.stop();
}

#[test]
fn a_client_that_closes_its_side_still_gets_its_replies() {
    let toy = Toy::start(config());
    let mut client = toy.client();
    client.send(1, crate::toy::NAP, &100_u32.to_be_bytes());
    client.send(2, NULL, &[]);
    client.0.shutdown(std::net::Shutdown::Write).unwrap();
    assert_eq!(client.receive().0, 2);
    assert_eq!(client.receive().0, 1);
    assert!(client.is_closed());
    crate::toy::until("the connection is forgotten", || toy.server.connections() == 0);
    toy.stop();
}

#[test]
fn inherited_sockets_are_served() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let inherited = bowline_svc::InheritedSockets { tcp: vec![listener], udp: vec![socket] };
    let toy =
        Toy::start(bowline_svc::Config { tcp: Vec::new(), udp: Vec::new(), inherited, ..config() });
    assert!(toy.client().call(1, NULL, &[]).is_empty());
    let socket = datagrams(toy.udp);
    socket.send(&message(1, NULL, &[])).unwrap();
    assert!(socket.recv(&mut [0; 100]).unwrap() > 0);
    assert!(toy.server.sockets().iter().all(|socket| socket.inherited));
    toy.stop();
}
