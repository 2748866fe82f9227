//! Calls to a client over the connection that it has opened, and messages to the sender of a datagram.

use crate::toy::{CALL_ME, Client, ECHO, Toy, config, datagrams, message, opaque, record, until};
use bowline_svc::PoolMode;
use rpc::{BackChannel, ConnId, Posted, Replies, Reply, Request};
use std::io::Write;
use std::net::Shutdown;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use xdr::Writer;

/// Calls of the long test.
const CALLBACKS: u32 = 100_000;
/// Calls that are under way at a time.
const WINDOW: u32 = 64;

/// Counts what arrives.
#[derive(Default)]
struct Seen {
    arrived: AtomicU32,
    last_xid: AtomicU32,
    wrong: AtomicU32,
    closed: Mutex<Vec<ConnId>>,
}

impl Replies for Seen {
    fn arrived(&self, _: ConnId, xid: u32, record: &[u8]) {
        let reply = Reply::parse(record);
        let echoed = reply.ok().and_then(|reply| reply.results.ok()).and_then(|mut r| r.u32().ok());
        if echoed != Some(!xid) || self.last_xid.swap(xid, SeqCst) != xid.wrapping_sub(1) {
            self.wrong.fetch_add(1, SeqCst);
        }
        self.arrived.fetch_add(1, SeqCst);
    }

    fn closed(&self, conn: ConnId) {
        self.closed.lock().unwrap().push(conn);
    }
}

fn watched(toy: &Toy) -> Arc<Seen> {
    let seen = Arc::new(Seen::default());
    assert!(toy.dispatcher.set_replies(Arc::clone(&seen) as Arc<dyn Replies>).is_ok());
    seen
}

fn channel(toy: &Toy) -> Arc<dyn BackChannel> {
    toy.state.channels.lock().unwrap().pop().unwrap()
}

/// A call to the client, with its xid's complement for an argument.
fn callback(xid: u32) -> Writer {
    let mut call = Writer::new();
    call.put(&Request { xid, program: 1, version: 1, procedure: 1, credential: None });
    call.u32(!xid);
    call
}

fn words(bytes: &[u8]) -> Vec<u32> {
    bytes.chunks_exact(4).map(|word| u32::from_be_bytes(word.try_into().unwrap())).collect()
}

/// Answers calls with their argument until it has answered this many.
fn answer(client: &mut Client, calls: u32) {
    for _ in 0..calls {
        let call = words(&client.try_receive().unwrap());
        assert_eq!((call[1], call.len()), (0, 11), "a call with one argument");
        let reply = [call[0], 1, 0, 0, 0, 0, call[10]].map(u32::to_be_bytes).concat();
        client.0.write_all(&record(&reply)).unwrap();
    }
}

#[test]
fn a_client_is_called_back_a_hundred_thousand_times_while_pools_change() {
    let toy = Toy::start(config());
    let seen = watched(&toy);
    let mut client = toy.client();
    client.call(1, CALL_ME, &[]);
    let (channel, end) = (channel(&toy), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !end.load(SeqCst) {
                toy.server.set_pool_mode(PoolMode::Global).unwrap();
                std::thread::sleep(Duration::from_millis(20));
                toy.server.set_pool_mode(PoolMode::PerCpu).unwrap();
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        scope.spawn(|| {
            let mut xid = 0;
            while xid < CALLBACKS {
                if xid - seen.arrived.load(SeqCst) >= WINDOW {
                    std::thread::sleep(Duration::from_micros(100));
                    continue;
                }
                xid += 1;
                assert_eq!(channel.post(callback(xid)), Posted::Sent);
            }
        });
        answer(&mut client, CALLBACKS);
        until("all answers arrive", || seen.arrived.load(SeqCst) == CALLBACKS);
        end.store(true, SeqCst);
    });
    assert_eq!(seen.wrong.load(SeqCst), 0, "each answer once and in order");
    // the connection is one as before
    assert_eq!(client.call(2, ECHO, &opaque(b"still here")), opaque(b"still here"));
    let conn = channel.conn().unwrap();
    client.0.shutdown(Shutdown::Both).unwrap();
    until("its end is told", || !seen.closed.lock().unwrap().is_empty());
    assert_eq!(*seen.closed.lock().unwrap(), [conn], "once");
    assert_eq!(channel.post(callback(1)), Posted::Gone);
    toy.stop();
}

#[test]
fn callbacks_that_a_client_does_not_read_are_bounded_and_ordered() {
    let toy = Toy::start(config());
    let _seen = watched(&toy);
    let mut client = toy.client();
    client.call(1, CALL_ME, &[]);
    let channel = channel(&toy);
    let mut posted = 0;
    let last = loop {
        let mut call = callback(posted);
        call.opaque(&[7; 10_000]);
        match channel.post(call) {
            Posted::Sent => posted += 1,
            last => break last,
        }
        assert!(posted < 10_000, "there is no end to it");
    };
    assert_eq!(last, Posted::Full);
    for xid in 0..posted {
        assert_eq!(words(&client.try_receive().unwrap())[0], xid);
    }
    until("there is room again", || channel.post(callback(posted)) == Posted::Sent);
    assert_eq!(words(&client.try_receive().unwrap())[0], posted);
    toy.stop();
}

#[test]
fn a_callback_datagram_leaves_from_the_socket_of_its_call() {
    let toy = Toy::start(config());
    let client = datagrams(toy.udp);
    client.send(&message(1, CALL_ME, &[])).unwrap();
    let mut buf = [0; 1000];
    let len = client.recv(&mut buf).unwrap();
    assert_eq!(words(&buf[..len])[0], 1);
    let channel = channel(&toy);
    assert_eq!(channel.conn(), None);
    assert_eq!(channel.post(callback(77)), Posted::Sent);
    // the client's socket is connected: it hears only the server's own port
    let len = client.recv(&mut buf).unwrap();
    assert_eq!(words(&buf[..len]), words(callback(77).bytes()));
    toy.stop();
    // A worker that has ended still holds the socket for a moment.
    until("the socket is closed", || channel.post(callback(78)) == Posted::Gone);
}
