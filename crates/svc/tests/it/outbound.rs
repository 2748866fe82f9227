//! Calls that the server makes, to machines that answer well, badly, late or not at all.

use crate::toy::{CALL_ME, Toy, config, until};
use bowline_svc::{OutboundCalls, OutboundConfig, OutboundLimits};
use proto::portmap::{Mapping, PROGRAM as PORTMAP, Rpcb};
use proto::rpc::{Accepted, CallHeader, ReplyHeader};
use rpc::{
    CallCredential, CallFailure, CallTarget, CallerAddress, Outbound, OutboundCall, Peer,
    ProgramPort, Refusal, Replies, Transport,
};
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering::SeqCst};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;
use xdr::{Reader, Writer};

const NLM: u32 = 100_021;
const NSM: u32 = 100_024;
/// How long a call may take in a test that does not end by it.
const LONG_MS: u64 = 60_000;

type Outcome = Result<Vec<u8>, CallFailure>;

fn peer(host: u8) -> CallerAddress {
    let addr = SocketAddr::from(([127, 0, 0, host], 700));
    let local = SocketAddr::from(([127, 0, 0, 1], 2049));
    CallerAddress::of(&Peer {
        addr,
        local,
        transport: Transport::Tcp,
        security: rpc::TransportSecurity::PLAIN,
    })
}

/// What a call is, besides its arguments.
#[derive(Clone, Copy)]
struct How {
    to: CallerAddress,
    port: ProgramPort,
    transport: Transport,
    timeout_ms: u64,
    program: u32,
}

impl How {
    fn known(port: u16, transport: Transport) -> Self {
        let port = ProgramPort::Known(port);
        Self { to: peer(1), port, transport, timeout_ms: LONG_MS, program: NLM }
    }

    fn looked_up(transport: Transport) -> Self {
        Self { port: ProgramPort::AskPortmapper, ..Self::known(0, transport) }
    }
}

fn request(how: How, args: &[u8], done: rpc::Completion) -> OutboundCall {
    OutboundCall {
        target: CallTarget::Machine { to: how.to, port: how.port, transport: how.transport },
        program: how.program,
        version: 4,
        procedure: 5,
        credential: CallCredential::Root,
        args: args.to_vec(),
        timeout_ms: how.timeout_ms,
        expects_reply: true,
        done,
    }
}

fn begin(calls: &OutboundCalls, how: How, args: &[u8]) -> Receiver<Outcome> {
    let (sender, receiver) = channel();
    let done = Box::new(move |result: Result<&[u8], CallFailure>| {
        sender.send(result.map(<[u8]>::to_vec)).unwrap();
    });
    calls.call(request(how, args, done));
    receiver
}

#[track_caller]
fn call(calls: &OutboundCalls, how: How, args: &[u8]) -> Outcome {
    begin(calls, how, args).recv_timeout(Duration::from_secs(30)).expect("an outcome")
}

fn start(portmapper_port: u16, limits: OutboundLimits) -> Arc<OutboundCalls> {
    let config = OutboundConfig { machine_name: b"server".to_vec(), portmapper_port, limits };
    OutboundCalls::start(config).unwrap()
}

/// The header of a call and its arguments.
fn parse(message: &[u8]) -> (CallHeader<'_>, Vec<u8>) {
    let mut reader = Reader::new(message);
    let header = reader.get().unwrap();
    (header, reader.rest().to_vec())
}

fn reply(xid: u32, status: Accepted, results: &[u8]) -> Vec<u8> {
    let mut w = Writer::new();
    w.put(&ReplyHeader::accepted(xid, status));
    w.raw(results);
    w.bytes().to_vec()
}

fn opaque(text: &[u8]) -> Vec<u8> {
    let mut w = Writer::new();
    w.opaque(text);
    w.bytes().to_vec()
}

/// A machine: a port mapper and whatever else, on one port, over UDP and TCP. Each message is given to the closure, whose
/// messages are sent back.
struct Machine {
    addr: SocketAddr,
    end: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
    connections: Arc<AtomicUsize>,
}

type Answers = Arc<dyn Fn(&[u8], SocketAddr) -> Vec<Vec<u8>> + Send + Sync>;

impl Machine {
    fn new(answer: impl Fn(&[u8], SocketAddr) -> Vec<Vec<u8>> + Send + Sync + 'static) -> Self {
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = tcp.local_addr().unwrap();
        let udp = UdpSocket::bind(addr).unwrap();
        udp.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
        tcp.set_nonblocking(true).unwrap();
        let (end, connections) = (Arc::new(AtomicBool::new(false)), Arc::default());
        let answer: Answers = Arc::new(answer);
        let (ended, answers) = (Arc::clone(&end), Arc::clone(&answer));
        let datagrams = std::thread::spawn(move || {
            let mut buf = [0; 65_536];
            while !ended.load(SeqCst) {
                let Ok((len, from)) = udp.recv_from(&mut buf) else { continue };
                for message in answers(&buf[..len], from) {
                    let _gone = udp.send_to(&message, from);
                }
            }
        });
        let (ended, accepted) = (Arc::clone(&end), Arc::clone(&connections));
        let streams = std::thread::spawn(move || {
            let mut threads = Vec::new();
            while !ended.load(SeqCst) {
                match tcp.accept() {
                    Ok((stream, from)) => {
                        AtomicUsize::fetch_add(&accepted, 1, SeqCst);
                        let (answer, ended) = (Arc::clone(&answer), Arc::clone(&ended));
                        threads.push(std::thread::spawn(move || {
                            serve_stream(stream, from, &answer, &ended);
                        }));
                    }
                    Err(_) => std::thread::sleep(Duration::from_millis(5)),
                }
            }
            threads.into_iter().for_each(|thread| thread.join().unwrap());
        });
        Self { addr, end, threads: vec![datagrams, streams], connections }
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        self.end.store(true, SeqCst);
        self.threads.drain(..).for_each(|thread| thread.join().unwrap());
    }
}

/// An empty message closes the connection; one that begins with a record mark of its own is sent as it is.
fn serve_stream(mut stream: TcpStream, from: SocketAddr, answer: &Answers, end: &AtomicBool) {
    stream.set_nonblocking(false).unwrap();
    stream.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
    let mut input = Vec::new();
    while !end.load(SeqCst) {
        let mut buf = [0; 4096];
        match stream.read(&mut buf) {
            Ok(0) => return,
            Ok(len) => input.extend_from_slice(&buf[..len]),
            Err(_) => continue,
        }
        while input.len() >= 4 {
            let mark = u32::from_be_bytes(input[..4].try_into().unwrap());
            let len = (mark & !(1 << 31)) as usize;
            if input.len() < 4 + len {
                break;
            }
            let record: Vec<u8> = input.drain(..4 + len).skip(4).collect();
            for message in answer(&record, from) {
                if message.is_empty() {
                    return;
                }
                let mark = rpc::record::mark(message.len()).unwrap();
                let marked = [&mark.to_be_bytes()[..], &message].concat();
                let _gone = stream.write_all(if message == GARBAGE { GARBAGE } else { &marked });
            }
        }
    }
}

/// No record: its mark claims 2 GiB.
const GARBAGE: &[u8] = b"\xff\xff\xff\xff garbage";

/// Answers calls with their arguments, and questions for NLM's port with its own; `versions` are those of the port
/// mapper.
fn echo(own_port: &Arc<AtomicU32>, versions: &'static [u32]) -> Machine {
    let own_port = Arc::clone(own_port);
    let port = Arc::clone(&own_port);
    let machine = Machine::new(move |message, _| vec![answer(message, &own_port, versions)]);
    port.store(machine.addr.port().into(), SeqCst);
    machine
}

fn answer(message: &[u8], own_port: &AtomicU32, versions: &[u32]) -> Vec<u8> {
    let (header, args) = parse(message);
    let port = own_port.load(SeqCst);
    let ok = |results: &[u8]| reply(header.xid, Accepted::Success, results);
    if header.program != PORTMAP {
        return ok(&args);
    }
    if !versions.contains(&header.version) {
        let (low, high) = (versions[0], versions[versions.len() - 1]);
        return reply(header.xid, Accepted::ProgMismatch { low, high }, &[]);
    }
    let mut reader = Reader::new(&args);
    if header.version == 2 {
        let mapping: Mapping = reader.get().unwrap();
        let known = mapping.program == NLM;
        return ok(&if known { port } else { 0 }.to_be_bytes());
    }
    let asked: Rpcb<'_> = reader.get().unwrap();
    let text = match asked.program {
        NLM => format!("127.0.0.1.{}.{}", port >> 8, port & 255),
        _ => String::new(),
    };
    ok(&opaque(text.as_bytes()))
}

#[test]
fn ports_are_looked_up_by_every_version_over_both_transports() {
    for versions in [&[2_u32, 3, 4][..], &[3], &[2]] {
        let own_port = Arc::new(AtomicU32::new(0));
        let machine = echo(&own_port, versions);
        let calls = start(machine.addr.port(), OutboundLimits::default());
        for transport in [Transport::Udp, Transport::Tcp] {
            let how = How::looked_up(transport);
            assert_eq!(call(&calls, how, b"argument"), Ok(b"argument".to_vec()));
            let asked = calls.info().counters.port_lookups;
            assert_eq!(call(&calls, how, b"again!!!"), Ok(b"again!!!".to_vec()));
            assert_eq!(calls.info().counters.port_lookups, asked, "the port is remembered");
            let missing = How { program: NSM, ..how };
            assert_eq!(call(&calls, missing, b""), Err(CallFailure::NotRegistered));
        }
        let info = calls.info();
        assert_eq!((info.counters.answered, info.counters.failed, info.under_way), (4, 2, 0));
        assert_eq!(info.unanswering_hosts, 0);
    }
}

#[test]
fn a_call_has_auth_sys_root_and_the_address_used_by_the_client() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&seen);
    let machine = Machine::new(move |message, from| {
        let (header, _) = parse(message);
        let body = Reader::new(header.credential.body).get::<proto::rpc::AuthSysParms<'_>>();
        let name = body.map(|body| (body.machine_name.to_vec(), body.uid)).unwrap();
        noted.lock().unwrap().push((from.ip(), name));
        vec![reply(header.xid, Accepted::Success, &[])]
    });
    let calls = start(1, OutboundLimits::default());
    let local = SocketAddr::from(([127, 0, 0, 5], 2049));
    let addr = machine.addr;
    let used = CallerAddress::of(&Peer {
        addr,
        local,
        transport: Transport::Udp,
        security: rpc::TransportSecurity::PLAIN,
    });
    for transport in [Transport::Udp, Transport::Tcp] {
        let how = How { to: used, ..How::known(machine.addr.port(), transport) };
        assert_eq!(call(&calls, how, b""), Ok(Vec::new()));
    }
    // one that is not an address of this machine is not used
    let gone = CallerAddress::recorded(addr.ip(), [192, 0, 2, 7].into());
    let how = How { to: gone, ..How::known(addr.port(), Transport::Udp) };
    assert_eq!(call(&calls, how, b""), Ok(Vec::new()));
    let seen = seen.lock().unwrap();
    let from = |ip: [u8; 4]| (IpAddr::V4(Ipv4Addr::from(ip)), (b"server".to_vec(), 0));
    assert_eq!(*seen, [from([127, 0, 0, 5]), from([127, 0, 0, 5]), from([127, 0, 0, 1])]);
}

#[test]
fn an_unanswering_host_gets_one_call_at_a_time_with_backoff() {
    let asked = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&asked);
    let machine = Machine::new(move |_, _| {
        counted.fetch_add(1, SeqCst);
        Vec::new()
    });
    let limits =
        OutboundLimits { resend_ms: 400, backoff_min_ms: 600_000, ..OutboundLimits::default() };
    let calls = start(1, limits);
    let how = How { timeout_ms: 3000, ..How::known(machine.addr.port(), Transport::Udp) };
    let all: Vec<_> = (0..5).map(|_| begin(&calls, how, b"")).collect();
    until("one is under way", || asked.load(SeqCst) > 0);
    assert_eq!((calls.info().under_way, calls.info().waiting), (1, 4));
    for outcome in all {
        assert_eq!(outcome.recv().unwrap(), Err(CallFailure::NoAnswer));
    }
    // at 0, 400, 1200 and 2800 ms
    assert!((1..=4).contains(&asked.load(SeqCst)), "{} datagrams", asked.load(SeqCst));
    let info = calls.info();
    assert_eq!((info.unanswering.len(), info.unanswering[0].failures), (1, 1));
    assert_eq!(info.unanswering[0].last, CallFailure::NoAnswer);
    assert!(info.unanswering[0].next_in_ms > 10_000);
    assert_eq!(call(&calls, how, b""), Err(CallFailure::NoAnswer), "nothing is sent meanwhile");
    assert!(asked.load(SeqCst) <= 4);
}

#[test]
fn a_refused_connection_fails_at_once() {
    let port = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let limits = OutboundLimits { backoff_min_ms: 1, ..OutboundLimits::default() };
    for transport in [Transport::Udp, Transport::Tcp] {
        let calls = start(port, limits);
        let refused = call(&calls, How::known(port, transport), b"");
        assert_eq!(refused, Err(CallFailure::ConnectionRefused));
        let absent = call(&calls, How::looked_up(transport), b"");
        assert_eq!(absent, Err(CallFailure::NoPortmapper));
        assert_eq!(calls.info().unanswering[0].failures, 2);
        assert_eq!(calls.info().endpoints, 0);
    }
}

#[test]
fn only_a_reply_with_the_xid_from_the_same_host_is_accepted() {
    let elsewhere = Arc::new(UdpSocket::bind("127.0.0.1:0").unwrap());
    let forger = Arc::clone(&elsewhere);
    let machine = Machine::new(move |message, from| {
        let (header, _) = parse(message);
        let forged = reply(header.xid, Accepted::Success, b"forged!!");
        if from.is_ipv4() && message.len() % 4 == 0 {
            forger.send_to(&forged, from).unwrap();
        }
        let wrong = reply(header.xid.wrapping_add(1), Accepted::Success, b"wrong xid...");
        let right = reply(header.xid, Accepted::Success, b"right...");
        vec![wrong, b"x".to_vec(), right]
    });
    let calls = start(1, OutboundLimits::default());
    let how = How::known(machine.addr.port(), Transport::Udp);
    assert_eq!(call(&calls, how, b""), Ok(b"right...".to_vec()));
    assert_eq!(calls.info().counters.stray_replies, 2);
}

#[test]
fn an_invalid_reply_fails_the_call() {
    let machine = Machine::new(|message, _| {
        let xid = parse(message).0.xid.to_be_bytes();
        // a reply with a status that does not exist
        vec![[&xid[..], &[0, 0, 0, 1, 0, 0, 0, 9]].concat()]
    });
    let calls = start(1, OutboundLimits { backoff_min_ms: 1, ..OutboundLimits::default() });
    for transport in [Transport::Udp, Transport::Tcp] {
        let how = How::known(machine.addr.port(), transport);
        assert_eq!(call(&calls, how, b""), Err(CallFailure::Garbled));
    }
    let machine = Machine::new(|_, _| vec![GARBAGE.to_vec()]);
    let how = How::known(machine.addr.port(), Transport::Tcp);
    assert_eq!(call(&calls, how, b""), Err(CallFailure::Garbled));
    let machine =
        Machine::new(|message, _| vec![reply(parse(message).0.xid, Accepted::ProcUnavail, &[])]);
    let how = How::known(machine.addr.port(), Transport::Udp);
    assert_eq!(call(&calls, how, b""), Err(CallFailure::Refused(Refusal::ProcUnavail)));
    assert_eq!(calls.info().counters.garbled, 3);
}

#[test]
fn two_replies_to_a_retransmitted_datagram_count_once() {
    let arrived = AtomicU32::new(0);
    let machine = Machine::new(move |message, _| {
        let late = reply(parse(message).0.xid, Accepted::Success, b"late");
        // both answers come after the second datagram
        if arrived.fetch_add(1, SeqCst) % 2 == 1 { vec![late.clone(), late] } else { Vec::new() }
    });
    let calls = start(1, OutboundLimits { resend_ms: 250, ..OutboundLimits::default() });
    let how = How::known(machine.addr.port(), Transport::Udp);
    assert_eq!(call(&calls, how, b""), Ok(b"late".to_vec()));
    assert_eq!(call(&calls, how, b""), Ok(b"late".to_vec()));
    assert!(calls.info().counters.resent >= 2);
    assert_eq!(calls.info().counters.answered, 2);
}

#[test]
fn a_connection_is_reused_and_replaced_when_closed() {
    let closing = Arc::new(AtomicBool::new(false));
    let closes = Arc::clone(&closing);
    let machine = Machine::new(move |message, _| {
        if closes.swap(false, SeqCst) {
            return vec![Vec::new()];
        }
        let (header, args) = parse(message);
        vec![reply(header.xid, Accepted::Success, &args)]
    });
    let calls = start(1, OutboundLimits::default());
    let how = How::known(machine.addr.port(), Transport::Tcp);
    for _ in 0..20 {
        assert_eq!(call(&calls, how, b"same"), Ok(b"same".to_vec()));
    }
    assert_eq!(machine.connections.load(SeqCst), 1);
    closing.store(true, SeqCst);
    assert_eq!(call(&calls, how, b"anew"), Ok(b"anew".to_vec()));
    assert_eq!(machine.connections.load(SeqCst), 2);
    // a machine that closes instead of ever answering is unreachable
    let machine = Machine::new(|_, _| vec![Vec::new()]);
    let how = How::known(machine.addr.port(), Transport::Tcp);
    assert_eq!(call(&calls, how, b""), Err(CallFailure::Unreachable));
}

#[test]
fn a_cached_port_without_a_listener_is_looked_up_again() {
    let own_port = Arc::new(AtomicU32::new(0));
    let machine = echo(&own_port, &[2, 3, 4]);
    let second = Machine::new(|message, _| {
        vec![reply(parse(message).0.xid, Accepted::Success, b"elsewhere...")]
    });
    let first = Machine::new(|message, _| {
        vec![reply(parse(message).0.xid, Accepted::Success, b"first...")]
    });
    let calls = start(machine.addr.port(), OutboundLimits::default());
    for transport in [Transport::Udp, Transport::Tcp] {
        own_port.store(first.addr.port().into(), SeqCst);
        assert_eq!(call(&calls, How::looked_up(transport), b""), Ok(b"first...".to_vec()));
    }
    drop(first);
    own_port.store(second.addr.port().into(), SeqCst);
    for transport in [Transport::Udp, Transport::Tcp] {
        assert_eq!(call(&calls, How::looked_up(transport), b""), Ok(b"elsewhere...".to_vec()));
    }
}

/// Every call is done once, however many there are, and no more are kept than the limits say.
#[test]
fn ten_thousand_calls_at_once_are_bounded_and_all_done() {
    const CALLS: usize = 10_000;
    let machine = Machine::new(|_, _| Vec::new());
    let limits = OutboundLimits { backoff_min_ms: 10_000, ..OutboundLimits::default() };
    let calls = start(1, limits);
    let done = Arc::new(AtomicUsize::new(0));
    let displaced = Arc::new(AtomicUsize::new(0));
    for n in 0..CALLS {
        let (done, displaced) = (Arc::clone(&done), Arc::clone(&displaced));
        let counted: rpc::Completion = Box::new(move |result| {
            match result.unwrap_err() {
                CallFailure::Displaced | CallFailure::NoRoom => displaced.fetch_add(1, SeqCst),
                _ => 0,
            };
            done.fetch_add(1, SeqCst);
        });
        // 500 machines, 20 calls each; nobody answers
        let host = SocketAddr::from(([127, 0, 1 + (n % 2) as u8, (n / 2 % 250) as u8 + 1], 9));
        let to = CallerAddress::of(&Peer {
            addr: host,
            local: host,
            transport: Transport::Udp,
            security: rpc::TransportSecurity::PLAIN,
        });
        let port = machine.addr.port();
        let how = How { to, timeout_ms: 4000, ..How::known(port, Transport::Tcp) };
        calls.call(request(how, &[0; 100], counted));
    }
    let info = calls.info();
    assert!(info.endpoints <= limits.endpoints, "{info:?}");
    assert!(info.waiting + info.under_way <= 2 * limits.calls, "{info:?}");
    until("all are done", || done.load(SeqCst) == CALLS);
    assert_eq!(calls.info().under_way, 0);
    assert!(displaced.load(SeqCst) >= 500 * 3, "{} gave way", displaced.load(SeqCst));
    calls.stop();
    assert_eq!(done.load(SeqCst), CALLS, "each once");
}

#[test]
fn a_call_can_be_cancelled_and_all_end_when_the_server_stops() {
    let machine = Machine::new(|_, _| Vec::new());
    let calls = start(1, OutboundLimits::default());
    let how = How::known(machine.addr.port(), Transport::Udp);
    let (sender, outcome) = channel();
    let done = Box::new(move |result: Result<&[u8], CallFailure>| {
        sender.send(result.map(drop)).unwrap();
    });
    let id = calls.call(request(how, b"", done));
    calls.cancel(id);
    assert_eq!(outcome.recv().unwrap(), Err(CallFailure::Cancelled));
    let pending: Vec<_> = (0..3).map(|_| begin(&calls, how, b"")).collect();
    calls.stop();
    for outcome in pending {
        assert_eq!(outcome.recv().unwrap(), Err(CallFailure::Stopped));
    }
    assert_eq!(call(&calls, how, b""), Err(CallFailure::Stopped));
}

#[test]
fn a_call_without_a_reply_is_done_when_sent() {
    let seen = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&seen);
    let machine = Machine::new(move |_, _| {
        counted.fetch_add(1, SeqCst);
        Vec::new()
    });
    let calls = start(1, OutboundLimits::default());
    for transport in [Transport::Udp, Transport::Tcp] {
        let (sender, outcome) = channel();
        let done = Box::new(move |result: Result<&[u8], CallFailure>| {
            sender.send(result.map(<[u8]>::len)).unwrap();
        });
        let how = How::known(machine.addr.port(), transport);
        calls.call(OutboundCall { expects_reply: false, ..request(how, b"", done) });
        assert_eq!(outcome.recv_timeout(Duration::from_millis(LONG_MS)), Ok(Ok(0)));
    }
    until("both arrive", || seen.load(SeqCst) == 2);
}

#[test]
fn calls_over_the_clients_own_connection_are_answered_or_end_with_it() {
    let toy = Toy::start(config());
    let calls = start(1, OutboundLimits::default());
    let replies = Arc::clone(&calls) as Arc<dyn Replies>;
    assert!(toy.dispatcher.set_replies(replies).is_ok());
    let mut client = toy.client();
    client.call(1, CALL_ME, &[]);
    let channel = toy.state.channels.lock().unwrap().pop().unwrap();
    let post = |timeout_ms| {
        let (sender, outcome) = std::sync::mpsc::channel();
        let done = Box::new(move |result: Result<&[u8], CallFailure>| {
            sender.send(result.map(<[u8]>::to_vec)).unwrap();
        });
        let how = How { timeout_ms, ..How::known(0, Transport::Tcp) };
        let target = CallTarget::Conn(Arc::clone(&channel));
        calls.call(OutboundCall { target, ..request(how, b"ping", done) });
        outcome
    };
    let outcome = post(LONG_MS);
    let call = client.try_receive().unwrap();
    let (header, args) = parse(&call);
    assert_eq!((header.program, header.procedure, &args[..]), (NLM, 5, &b"ping"[..]));
    let pong = crate::toy::record(&reply(header.xid, Accepted::Success, b"pong"));
    client.0.write_all(&pong).unwrap();
    assert_eq!(outcome.recv().unwrap(), Ok(b"pong".to_vec()));
    // the same once more is for nobody
    client.0.write_all(&pong).unwrap();
    until("it is counted", || calls.info().counters.stray_replies == 1);
    assert_eq!(post(50).recv().unwrap(), Err(CallFailure::NoAnswer));
    let pending = post(LONG_MS);
    drop(client);
    assert_eq!(pending.recv().unwrap(), Err(CallFailure::ConnClosed));
    assert_eq!(post(LONG_MS).recv().unwrap(), Err(CallFailure::ConnClosed));
    assert_eq!(calls.info().under_way, 0);
    toy.stop();
}
