//! Equal calls by two connections of one host: the retransmission of a client that has connected again, and two
//! calls of two processes (`rpc/reply_cache.rs`).

use crate::toy::{
    Client, ECHO, NOT_NOW, ONCE_ONLY, Toy, config, datagrams, message, opaque, until,
};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;
use sys::testing::tcp::{close_silently, connect_from};
use telemetry::Counter;
use testing::{Missing, is_root, skip};

const XID: u32 = 7;

fn run(number: u32) -> (u32, Vec<u8>) {
    (XID, number.to_be_bytes().to_vec())
}

/// The server, and a client whose call runs.
fn running() -> (Toy, Client) {
    let toy = Toy::start(config());
    let mut first = toy.client();
    first.send(XID, ONCE_ONLY, &[]);
    until("it runs", || toy.state.waiting.load(SeqCst) == 1);
    (toy, first)
}

fn client_of(stream: TcpStream) -> Client {
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    Client(stream)
}

fn server_of(stream: &TcpStream) -> SocketAddr {
    stream.peer_addr().unwrap()
}

#[test]
fn equal_calls_of_two_processes_each_get_their_own_reply() {
    let toy = Toy::start(config());
    toy.state.go_on.store(true, SeqCst);
    for xid in 0..40 {
        let mut clients = [toy.client(), toy.client()];
        for client in &mut clients {
            client.send(xid, ONCE_ONLY, &[]);
        }
        let [one, other] = clients.each_mut().map(Client::receive);
        assert_ne!(one, other, "both were told that they were the first");
        // whoever asks again hears the same
        for (client, first) in clients.iter_mut().zip([one, other]) {
            client.send(xid, ONCE_ONLY, &[]);
            assert_eq!(client.receive(), first);
        }
    }
    assert_eq!(toy.state.calls.load(SeqCst), 80);
    toy.stop();
}

#[test]
fn an_equal_call_of_a_second_process_runs_after_the_first() {
    let (toy, mut first) = running();
    let mut second = toy.client();
    second.send(XID, ONCE_ONLY, &[]);
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!(toy.state.waiting.load(SeqCst), 1);
    toy.state.go_on.store(true, SeqCst);
    assert_eq!((first.receive(), second.receive()), (run(0), run(1)));
    assert_eq!(toy.counter(Counter::DuplicatesReplayed), 0);
    toy.stop();
}

#[test]
fn a_retransmission_from_another_port_gets_the_first_reply() {
    if !is_root() {
        return skip(Missing::Root, "closing a connection in silence takes CAP_NET_ADMIN");
    }
    let (toy, first) = running();
    close_silently(first.0).unwrap();
    let mut copy = toy.client();
    copy.send(XID, ONCE_ONLY, &[]);
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!(toy.server.conns().len(), 2, "nobody has told the server of an end");
    toy.state.go_on.store(true, SeqCst);
    assert_eq!(copy.receive(), run(0));
    assert_eq!(toy.state.calls.load(SeqCst), 1);
    toy.stop();
}

#[test]
fn a_retransmission_from_the_same_port_gets_the_first_reply() {
    if !is_root() {
        return skip(Missing::Root, "closing a connection in silence takes CAP_NET_ADMIN");
    }
    let (toy, first) = running();
    let (from, to) = (first.0.local_addr().unwrap(), server_of(&first.0));
    close_silently(first.0).unwrap();
    let mut copy = client_of(connect_from(from, to).unwrap());
    copy.send(XID, ONCE_ONLY, &[]);
    toy.state.go_on.store(true, SeqCst);
    assert_eq!(copy.receive(), run(0));
    assert_eq!(toy.state.calls.load(SeqCst), 1);
    toy.stop();
}

#[test]
fn a_lost_reply_is_sent_to_the_retransmission() {
    if !is_root() {
        return skip(Missing::Root, "closing a connection in silence takes CAP_NET_ADMIN");
    }
    let (toy, first) = running();
    close_silently(first.0).unwrap();
    toy.state.go_on.store(true, SeqCst);
    until("it has run", || toy.server.conns().is_empty());
    let mut copy = toy.client();
    copy.send(XID, ONCE_ONLY, &[]);
    assert_eq!(copy.receive(), run(0));
    // and a third copy, by a connection that came after it
    drop(copy);
    let mut third = toy.client();
    third.send(XID, ONCE_ONLY, &[]);
    assert_eq!(third.receive(), run(0));
    assert_eq!(toy.state.calls.load(SeqCst), 1);
    toy.stop();
}

#[test]
fn a_third_copy_of_a_running_call_is_answered() {
    let (toy, first) = running();
    drop(first);
    let mut second = toy.client();
    second.send(XID, ONCE_ONLY, &[]);
    std::thread::sleep(Duration::from_millis(20));
    drop(second);
    let mut third = toy.client();
    third.send(XID, ONCE_ONLY, &[]);
    std::thread::sleep(Duration::from_millis(20));
    toy.state.go_on.store(true, SeqCst);
    assert_eq!(third.receive(), run(0));
    assert_eq!(toy.state.calls.load(SeqCst), 1);
    toy.stop();
}

#[test]
fn a_call_that_cannot_be_answered_now_closes_only_its_connection() {
    let toy = Toy::start(config());
    let mut other = toy.client();
    for blocks in [0_u32, 1] {
        let mut client = toy.client();
        client.send(1, ECHO, &opaque(b"before"));
        client.send(2, NOT_NOW, &blocks.to_be_bytes());
        assert_eq!(client.receive(), (1, opaque(b"before")));
        assert!(client.is_closed());
        assert_eq!(other.call(3, ECHO, &opaque(b"x")), opaque(b"x"));
    }
    // over UDP nothing is said
    let socket = datagrams(toy.udp);
    socket.send(&message(4, NOT_NOW, &[0; 4])).unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    assert!(socket.recv(&mut [0; 64]).is_err());
    toy.stop();
}
