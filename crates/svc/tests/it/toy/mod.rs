//! A small program over the real dispatcher, a server that serves it, and clients that speak the
//! wire by hand.

use bowline_svc::{Config, ConnInfo, Limits, PoolMode, Server, WakePolicy};
use rpc::{
    ArgumentSink, BackChannel, Begun, Blocking, Call, Consumed, Copied, Deferred, DispatchSettings,
    Dispatcher, Fault, Piece, Piped, Plan, Program, Reply, Request, Row, Service, SocketBufferSize,
    Transport, Version,
};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use telemetry::{Counter, OpName, Telemetry};
use xdr::{FileRange, Reader, Writer};

pub const PROGRAM: u32 = 400_000;
pub const NULL: u32 = 0;
/// Gives the argument back.
pub const ECHO: u32 = 1;
/// Sleeps this many milliseconds, and says so first.
pub const NAP: u32 = 2;
/// Sleeps this many milliseconds and does not say so.
pub const DOZE: u32 = 3;
/// Gives this many bytes.
pub const GIVE: u32 = 4;

/// Keeps the CPU busy for this many microseconds.
pub const SPIN: u32 = 5;
/// Wants a receive buffer of this many bytes, as an export does.
pub const WISH: u32 = 6;

/// Gives this many bytes of the file from an offset.
pub const FILE: u32 = 7;

/// Sleeps this many milliseconds without saying so, and gives this many bytes.
pub const LATE: u32 = 9;

/// Takes data as it comes, and naps this many milliseconds before each piece, and says so: gives all of
/// the data back, and how much of it came before its record was whole.
pub const TAKE: u32 = 8;

/// Not idempotent: says that it sleeps, waits until it may go on, and gives the number of its run.
pub const ONCE_ONLY: u32 = 10;

/// Says that it blocks, and waits until it may go on.
pub const WAIT: u32 = 11;
/// Waits until it may go on, without having said so.
pub const HANG: u32 = 12;
/// Says that it blocks in the export of that number, waits until it may go on, and gives whether it was let
/// in.
pub const WAIT_IN: u32 = 16;
/// Keeps the CPU busy until it may go on.
pub const COMPUTE: u32 = 13;
/// Gives the number of calls that had begun before it.
pub const CALLS: u32 = 14;

/// Longest wait for anything that must come.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Is answered with its argument when somebody completes it.
pub const LATER: u32 = 15;

/// Leaves the way back to its client with the test.
pub const CALL_ME: u32 = 17;

/// Cannot be answered now, and says that it blocks first if its argument is 1.
pub const NOT_NOW: u32 = 18;

#[derive(Default)]
pub struct State {
    /// The ways back to clients that sent CALL_ME.
    pub channels: Mutex<Vec<Arc<dyn BackChannel>>>,
    /// Calls of LATER that are pending, each with its argument.
    pub deferred: Mutex<Vec<(u32, Deferred)>>,
    pub calls: AtomicU64,
    /// How often TAKE was asked for a piece and took none, though it had taken one.
    pub balked: AtomicU64,
    /// How many calls (ONCE_ONLY, WAIT, HANG, COMPUTE) or pieces of TAKE wait to be told to go on.
    pub waiting: AtomicU64,
    /// How many calls of WAIT_IN came through TLS.
    pub sealed: AtomicU64,
    /// That they may.
    pub go_on: AtomicBool,
    /// What FILE reads.
    pub file: Mutex<Option<Arc<OwnedFd>>>,
}

type Ran = Result<(), Fault>;

fn null(state: &State, _: &mut Call<'_>, args: &mut Reader<'_>, _: &mut Writer) -> Ran {
    state.calls.fetch_add(1, Ordering::Relaxed);
    Ok(args.end()?)
}

fn echo(state: &State, _: &mut Call<'_>, args: &mut Reader<'_>, reply: &mut Writer) -> Ran {
    state.calls.fetch_add(1, Ordering::Relaxed);
    reply.opaque(args.opaque(usize::MAX)?);
    Ok(args.end()?)
}

fn nap(state: &State, call: &mut Call<'_>, args: &mut Reader<'_>, reply: &mut Writer) -> Ran {
    call.blocking.will_block();
    doze(state, call, args, reply)
}

fn doze(state: &State, call: &mut Call<'_>, args: &mut Reader<'_>, reply: &mut Writer) -> Ran {
    state.calls.fetch_add(1, Ordering::Relaxed);
    let ms = args.u32()?;
    std::thread::sleep(Duration::from_millis(ms.into()));
    // The arguments must be what they were when the call began.
    reply.u32(ms);
    call.blocking.will_block();
    Ok(args.end()?)
}

fn give(state: &State, _: &mut Call<'_>, args: &mut Reader<'_>, reply: &mut Writer) -> Ran {
    state.calls.fetch_add(1, Ordering::Relaxed);
    let len = args.u32()?;
    reply.opaque(&vec![0x5a; len as usize]);
    Ok(args.end()?)
}

fn spin(state: &State, _: &mut Call<'_>, args: &mut Reader<'_>, reply: &mut Writer) -> Ran {
    let begun = Instant::now();
    state.calls.fetch_add(1, Ordering::Relaxed);
    let us = args.u32()?;
    reply.u32(us);
    while begun.elapsed() < Duration::from_micros(us.into()) {
        std::hint::spin_loop();
    }
    Ok(args.end()?)
}

fn wish(_: &State, call: &mut Call<'_>, args: &mut Reader<'_>, _: &mut Writer) -> Ran {
    call.outcome.buffers.receive = SocketBufferSize::bytes(args.u32()?);
    Ok(args.end()?)
}

/// A range of the file if the reply takes ranges, else its bytes.
fn file(state: &State, call: &mut Call<'_>, args: &mut Reader<'_>, reply: &mut Writer) -> Ran {
    let (offset, count) = (args.u64()?, args.u32()?);
    let file = state.file.lock().unwrap().clone().ok_or(Fault::SystemErr)?;
    let len = count as usize;
    reply.u32(count);
    call.outcome.bytes_read = count;
    if reply.range_min().is_some_and(|shortest| len >= shortest) {
        reply.range(FileRange { file, offset, len });
    } else {
        call.outcome.copied = Some(Copied::NotTaken);
        let file = std::fs::File::from(file.try_clone().unwrap());
        file.read_exact_at(reply.space(len), offset).unwrap();
        reply.advance(len);
    }
    reply.pad(len);
    Ok(args.end()?)
}

fn late(state: &State, call: &mut Call<'_>, args: &mut Reader<'_>, reply: &mut Writer) -> Ran {
    std::thread::sleep(Duration::from_millis(args.u32()?.into()));
    give(state, call, args, reply)
}

fn once_only(state: &State, call: &mut Call<'_>, args: &mut Reader<'_>, reply: &mut Writer) -> Ran {
    call.blocking.will_block();
    let run = state.calls.fetch_add(1, Ordering::Relaxed);
    wait_until_told(state);
    reply.u32(u32::try_from(run).unwrap());
    Ok(args.end()?)
}

fn not_now(_: &State, call: &mut Call<'_>, args: &mut Reader<'_>, _: &mut Writer) -> Ran {
    if args.u32()? == 1 {
        call.blocking.will_block();
    }
    Err(Fault::NotNow)
}

fn wait(state: &State, call: &mut Call<'_>, args: &mut Reader<'_>, reply: &mut Writer) -> Ran {
    call.blocking.will_block();
    hang(state, call, args, reply)
}

fn wait_in(state: &State, call: &mut Call<'_>, args: &mut Reader<'_>, reply: &mut Writer) -> Ran {
    if !call.peer.security.is_plain() {
        state.sealed.fetch_add(1, Ordering::SeqCst);
    }
    let let_in = call.blocking.will_block_in(u16::try_from(args.u32()?).unwrap());
    if let_in {
        wait_until_told(state);
    }
    reply.u32(let_in.into());
    Ok(args.end()?)
}

fn hang(state: &State, _: &mut Call<'_>, args: &mut Reader<'_>, _: &mut Writer) -> Ran {
    state.calls.fetch_add(1, Ordering::Relaxed);
    wait_until_told(state);
    Ok(args.end()?)
}

fn compute(state: &State, _: &mut Call<'_>, args: &mut Reader<'_>, _: &mut Writer) -> Ran {
    let begun = Instant::now();
    state.calls.fetch_add(1, Ordering::Relaxed);
    state.waiting.fetch_add(1, Ordering::SeqCst);
    while !state.go_on.load(Ordering::SeqCst) {
        assert!(begun.elapsed() < PATIENCE, "nobody told it to go on");
        std::hint::spin_loop();
    }
    state.waiting.fetch_sub(1, Ordering::SeqCst);
    Ok(args.end()?)
}

fn calls(state: &State, _: &mut Call<'_>, args: &mut Reader<'_>, reply: &mut Writer) -> Ran {
    reply.u64(state.calls.load(Ordering::SeqCst));
    Ok(args.end()?)
}

fn wait_until_told(state: &State) {
    state.waiting.fetch_add(1, Ordering::SeqCst);
    until("it may go on", || state.go_on.load(Ordering::SeqCst));
    state.waiting.fetch_sub(1, Ordering::SeqCst);
}

/// For TAKE instead of a nap: takes one piece, and no more for ever.
pub const ONCE: u32 = u32::MAX;
/// The same, but it says that it only wants more of it.
pub const ONCE_AND_PERHAPS: u32 = u32::MAX - 1;
/// For TAKE instead of a nap: waits until it may go on.
pub const UNTIL_TOLD: u32 = u32::MAX - 2;

/// Takes the data of TAKE. Leaves less than [`TAKEN_TOGETHER`] bytes for later, as a file does with
/// half a page.
struct TakeSink {
    state: Arc<State>,
    ms: u32,
    taken: Vec<u8>,
}

impl ArgumentSink for TakeSink {
    fn take(&mut self, blocking: &dyn Blocking, piece: Piece<'_>) -> Consumed {
        if self.ms >= ONCE_AND_PERHAPS && !self.taken.is_empty() {
            self.state.balked.fetch_add(1, Ordering::Relaxed);
            return if self.ms == ONCE { Consumed::NoMore } else { Consumed::TooFew };
        }
        let whole = piece.len() / TAKEN_TOGETHER * TAKEN_TOGETHER;
        if whole == 0 {
            return Consumed::TooFew;
        }
        let at = self.taken.len();
        match piece {
            Piece::Bytes(data) => self.taken.extend_from_slice(&data[..whole]),
            Piece::Piped(Piped { pipe, .. }) => {
                let mut pipe = std::fs::File::from(pipe.try_clone_to_owned().unwrap());
                self.taken.resize(at + whole, 0);
                pipe.read_exact(&mut self.taken[at..]).unwrap();
            }
        }
        match self.ms {
            0 | ONCE | ONCE_AND_PERHAPS => {}
            UNTIL_TOLD => {
                blocking.will_block();
                wait_until_told(&self.state);
            }
            ms => {
                blocking.will_block();
                std::thread::sleep(Duration::from_millis(ms.into()));
            }
        }
        Consumed::Bytes(whole)
    }

    fn finish(
        self: Box<Self>,
        call: &mut Call<'_>,
        data: &[u8],
        args: &mut Reader<'_>,
        reply: &mut Writer,
    ) -> Ran {
        let Self { state, taken, .. } = *self;
        answer_take(&state, call, [&taken, data], args, reply)
    }
}

fn begin_take(
    state: &Arc<State>,
    _: &mut Call<'_>,
    args: &mut Reader<'_>,
    missing: usize,
) -> Begun {
    let Ok([ms, len]) = args.words() else { return Begun::TooFew };
    let data_len = len as usize;
    let behind = behind_data(data_len).len();
    if xdr::padded(data_len) + behind != args.remaining() + missing {
        return Begun::WholeRecord;
    }
    let sink = Box::new(TakeSink { state: Arc::clone(state), ms, taken: Vec::new() });
    Begun::Sink { sink, data_len }
}

fn take(state: &State, call: &mut Call<'_>, args: &mut Reader<'_>, reply: &mut Writer) -> Ran {
    let _ms = args.u32()?;
    let data = args.opaque(usize::MAX)?;
    answer_take(state, call, [&[], data], args, reply)
}

fn answer_take(
    state: &State,
    call: &mut Call<'_>,
    data: [&[u8]; 2],
    args: &mut Reader<'_>,
    reply: &mut Writer,
) -> Ran {
    state.calls.fetch_add(1, Ordering::Relaxed);
    let len = data.concat().len();
    assert!(args.rest() == behind_data(len), "what follows the data is what was sent");
    reply.u32(u32::try_from(data[0].len()).unwrap());
    reply.opaque(&data.concat());
    call.outcome.bytes_written = u32::try_from(len).unwrap();
    Ok(())
}

/// What follows the data of TAKE in its record, as further operations do: nothing, or up to 12 kB.
pub fn behind_data(len: usize) -> Vec<u8> {
    let bytes = len % 4 * 4000;
    (0..bytes).map(|at| (at % 239) as u8).collect()
}

/// Is answered later with its argument.
fn later(state: &State, call: &mut Call<'_>, args: &mut Reader<'_>, _: &mut Writer) -> Ran {
    let argument = args.u32()?;
    args.end()?;
    state.calls.fetch_add(1, Ordering::SeqCst);
    let deferred = call.defer().ok_or(Fault::SystemErr)?;
    state.deferred.lock().unwrap().push((argument, deferred));
    Ok(())
}

fn call_me(state: &State, call: &mut Call<'_>, args: &mut Reader<'_>, _: &mut Writer) -> Ran {
    let channel = call.back_channel().ok_or(Fault::SystemErr)?;
    assert_eq!(channel.conn(), call.conn());
    assert_eq!(channel.peer(), *call.peer);
    state.channels.lock().unwrap().push(channel);
    Ok(args.end()?)
}

/// How many bytes TAKE takes together.
pub const TAKEN_TOGETHER: usize = 1000;

static ROWS: [Row<State>; 19] = rows(Plan::IDEMPOTENT, Plan::NON_IDEMPOTENT);
static URGENT_ROWS: [Row<State>; 19] =
    rows(Plan::IDEMPOTENT.urgent(), Plan::NON_IDEMPOTENT.urgent());

const fn rows(plain: Plan, kept: Plan) -> [Row<State>; 19] {
    [
        Row::new("NULL", plain, null),
        Row::new("ECHO", plain, echo),
        Row::new("NAP", plain, nap),
        Row::new("DOZE", plain, doze),
        Row::new("GIVE", plain, give),
        Row::new("SPIN", plain, spin),
        Row::new("WISH", plain, wish),
        Row::new("FILE", plain, file),
        Row::new("TAKE", plain, take).beginning_with(begin_take),
        Row::new("LATE", plain, late),
        Row::new("ONCE_ONLY", kept, once_only),
        Row::new("WAIT", plain, wait),
        Row::new("HANG", plain, hang),
        Row::new("COMPUTE", plain, compute),
        Row::new("CALLS", plain, calls),
        Row::new("LATER", plain, later),
        Row::new("WAIT_IN", kept.restartable(), wait_in),
        Row::new("CALL_ME", plain, call_me),
        Row::new("NOT_NOW", plain, not_now),
    ]
}
static VERSIONS: [Version<State>; 1] = [Version::new(1, &ROWS)];
static URGENT_VERSIONS: [Version<State>; 1] = [Version::new(1, &URGENT_ROWS)];

/// A running server of the toy program.
pub struct Toy {
    pub server: Server,
    pub telemetry: Arc<Telemetry>,
    pub state: Arc<State>,
    pub dispatcher: Arc<Dispatcher>,
    pub tcp: SocketAddr,
    pub udp: SocketAddr,
}

/// A server on 127.0.0.1 for both transports.
pub fn config() -> Config {
    let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
    // For a whole run of the tests under another policy.
    let wake_policy = std::env::var("TOY_WAKE_POLICY").map_or(WakePolicy::Adaptive, |policy| {
        policy.parse().expect("TOY_WAKE_POLICY names a policy")
    });
    Config {
        tcp: vec![any],
        udp: vec![any],
        threads: (2, 64),
        wake_policy,
        // more than one, whatever the load is
        pool_mode: PoolMode::PerCpu,
        ..Config::default()
    }
}

impl Toy {
    pub fn start(config: Config) -> Self {
        let state = Arc::new(State::default());
        let service = Service {
            number: PROGRAM,
            name: "toy",
            versions: &VERSIONS,
            state: Arc::clone(&state),
        };
        let mount = Service {
            number: proto::mount::PROGRAM,
            name: "mount",
            versions: &URGENT_VERSIONS,
            state: Arc::clone(&state),
        };
        let programs: Vec<Box<dyn Program>> = vec![Box::new(service), Box::new(mount)];
        let dispatcher = Arc::new(Dispatcher::new(programs, DispatchSettings::default()));
        let names = dispatcher.ops().iter().map(|op| OpName {
            program: op.program,
            version: op.version,
            procedure: op.procedure,
        });
        let telemetry = Telemetry::new(names.collect());
        let calls = Arc::clone(&dispatcher);
        let server = Server::start(config, calls, Arc::clone(&telemetry)).unwrap();
        let addr = |transport| {
            let addrs = server.local_addrs();
            let found = addrs.iter().find(|(t, _)| *t == transport).map(|(_, a)| *a);
            found.unwrap_or_else(|| ([0, 0, 0, 0], 0).into())
        };
        let (tcp, udp) = (addr(Transport::Tcp), addr(Transport::Udp));
        Self { server, telemetry, state, dispatcher, tcp, udp }
    }

    pub fn with_limits(limits: Limits) -> Self {
        Self::start(Config { limits, ..config() })
    }

    pub fn is_adaptive(&self) -> bool {
        self.server.wake_policy() == WakePolicy::Adaptive
    }

    /// The connections, with what has limited them over so long a time.
    pub fn measured_conns(&self, over: Duration) -> Vec<ConnInfo> {
        let samples = self.server.link_samples(None);
        std::thread::sleep(over);
        self.server.conns_since(&samples)
    }

    pub fn client(&self) -> Client {
        Client::new(self.tcp)
    }

    pub fn counter(&self, counter: Counter) -> u64 {
        let name = Counter::ALL.iter().find(|(c, _)| *c == counter).unwrap().1;
        let snapshot = self.telemetry.snapshot();
        snapshot.counters.iter().find(|(n, _)| **n == *name).map_or(0, |(_, value)| *value)
    }

    /// Waits until this many calls wait to be told to go on.
    #[track_caller]
    pub fn until_waiting(&self, calls: u64) {
        let waiting = || self.state.waiting.load(Ordering::SeqCst) == calls;
        until("calls wait to be told to go on", waiting);
    }

    /// Tells calls that wait to go on.
    pub fn go_on(&self) {
        self.state.go_on.store(true, Ordering::SeqCst);
    }

    pub fn threads(&self) -> usize {
        self.server.pools().iter().map(|pool| pool.threads).sum()
    }

    pub fn stop(self) {
        assert!(self.server.stop(PATIENCE), "the server did not stop in time");
    }
}

/// Waits until something is so.
#[track_caller]
pub fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < PATIENCE, "never: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A call's message, without record mark.
pub fn message(xid: u32, procedure: u32, args: &[u8]) -> Vec<u8> {
    message_to(PROGRAM, xid, procedure, args)
}

/// A call's message to one of the toy's programs: its own, or MOUNT, which does the same.
pub fn message_to(program: u32, xid: u32, procedure: u32, args: &[u8]) -> Vec<u8> {
    let mut w = Writer::new();
    w.put(&Request { xid, program, version: 1, procedure, credential: None });
    w.raw(args);
    w.bytes().to_vec()
}

/// A record in one fragment.
pub fn record(message: &[u8]) -> Vec<u8> {
    let mark = rpc::record::mark(message.len()).unwrap();
    [&mark.to_be_bytes(), message].concat()
}

/// Opaque data.
pub fn opaque(data: &[u8]) -> Vec<u8> {
    let mut w = Writer::new();
    w.opaque(data);
    w.bytes().to_vec()
}

/// Xid and results of a successful reply.
#[track_caller]
pub fn results(reply: &[u8]) -> (u32, Vec<u8>) {
    let reply = Reply::parse(reply).unwrap();
    (reply.xid, reply.results.unwrap().rest().to_vec())
}

/// A client on one connection.
pub struct Client<S = TcpStream>(pub S);

impl Client {
    pub fn new(addr: SocketAddr) -> Self {
        let stream = TcpStream::connect(addr).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Self(stream)
    }

    /// Whether the server has closed the connection.
    pub fn is_closed(&mut self) -> bool {
        self.0.set_read_timeout(Some(PATIENCE)).unwrap();
        !matches!(self.0.read(&mut [0; 1]), Ok(1))
    }
}

impl<S: Read + Write> Client<S> {
    pub fn send(&mut self, xid: u32, procedure: u32, args: &[u8]) {
        self.0.write_all(&record(&message(xid, procedure, args))).unwrap();
    }

    /// Xid and results of the next reply.
    #[track_caller]
    pub fn receive(&mut self) -> (u32, Vec<u8>) {
        results(&self.try_receive().expect("a reply"))
    }

    pub fn try_receive(&mut self) -> std::io::Result<Vec<u8>> {
        let mut mark = [0; 4];
        self.0.read_exact(&mut mark)?;
        let mark = u32::from_be_bytes(mark);
        assert!(mark >> 31 == 1, "a reply in one fragment");
        let mut reply = vec![0; (mark & (u32::MAX >> 1)) as usize];
        self.0.read_exact(&mut reply)?;
        Ok(reply)
    }

    #[track_caller]
    pub fn call(&mut self, xid: u32, procedure: u32, args: &[u8]) -> Vec<u8> {
        self.send(xid, procedure, args);
        let (got, results) = self.receive();
        assert_eq!(got, xid);
        results
    }
}

/// A client without a connection.
pub fn datagrams(to: SocketAddr) -> UdpSocket {
    let any = if to.is_ipv4() { "127.0.0.1:0" } else { "[::1]:0" };
    let socket = UdpSocket::bind(any).unwrap();
    socket.connect(to).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket
}
