//! Measures what a NULL call costs the server: `null` starts itself as a server in a process of
//! its own, loads it from one thread, and prints calls per second and the server's CPU time per
//! call. `null [SECONDS] [apart|shared]`; `apart` (the default) keeps server and load on
//! different CPUs.

use bowline_svc::{Config, PoolMode, Server};
use rpc::{Call, DispatchSettings, Dispatcher, Fault, Plan, Request, Row, Service, Version};
use std::error::Error;
use std::io::{BufRead, BufReader, ErrorKind, IoSlice};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};
use sys::epoll::{Epoll, Events, Interest};
use telemetry::{OpName, Telemetry};
use xdr::{Reader, Writer};

type Done<T> = Result<T, Box<dyn Error>>;

/// The program that is served.
const PROGRAM: u32 = 400_000;
/// Bytes of a reply with its record mark.
const REPLY_BYTES: usize = 28;
/// Bytes of arguments, to make a call as long as a GETATTR's.
const ARGS_BYTES: usize = 64;

fn null(_: &(), _: &mut Call<'_>, _: &mut Reader<'_>, _: &mut Writer) -> Result<(), Fault> {
    Ok(())
}

static ROWS: [Row<()>; 1] = [Row::new("NULL", Plan::IDEMPOTENT, null)];
static VERSIONS: [Version<()>; 1] = [Version::new(1, &ROWS)];

fn main() -> Done<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    if let ["serve", place] = args[..] {
        return serve(place);
    }
    let seconds = args.first().map_or(Ok(2.0), |text| text.parse())?;
    let place = args.get(1).copied().unwrap_or("apart");
    let (mut server, addr) = start(place)?;
    if place == "apart" {
        sys::thread::run_on(&[0])?;
    }
    println!("{:>6} {:>6} {:>12} {:>14}", "conns", "depth", "calls/s", "server us/call");
    for (connections, depth) in [(1, 1), (16, 1), (64, 1), (4, 16), (8, 16), (16, 16)] {
        let duration = Duration::from_secs_f64(seconds);
        let (calls, cpu, wall) = load(addr, connections, depth, duration, server.id())?;
        let (rate, cost) = (calls / wall.as_secs_f64(), cpu.as_secs_f64() * 1e6 / calls);
        println!("{connections:>6} {depth:>6} {rate:>12.0} {cost:>14.2}");
    }
    server.kill()?;
    server.wait()?;
    Ok(())
}

/// The server's process.
fn serve(place: &str) -> Done<()> {
    let pool_mode = if place == "apart" { PoolMode::Global } else { PoolMode::PerCpu };
    if place == "apart" {
        sys::thread::run_on(&[1])?;
    }
    let service =
        Service { number: PROGRAM, name: "null", versions: &VERSIONS, state: Arc::new(()) };
    let dispatcher =
        Arc::new(Dispatcher::new(vec![Box::new(service)], DispatchSettings::default()));
    let name = OpName { program: "null", version: 1, procedure: "NULL" };
    let config = Config { tcp: vec!["127.0.0.1:0".parse()?], pool_mode, ..Config::default() };
    let server = Server::start(config, dispatcher, Telemetry::new(vec![name]))?;
    for (_, addr) in server.local_addrs() {
        println!("{addr}");
    }
    loop {
        std::thread::park();
    }
}

/// Starts the server's process; where it listens.
fn start(place: &str) -> Done<(Child, SocketAddr)> {
    let mut command = Command::new(std::env::current_exe()?);
    let mut child = command.args(["serve", place]).stdout(Stdio::piped()).spawn()?;
    let mut line = String::new();
    BufReader::new(child.stdout.take().ok_or("no output")?).read_line(&mut line)?;
    Ok((child, line.trim().parse()?))
}

/// Keeps `depth` calls under way on each connection; calls, the server's CPU time, and the time.
fn load(
    addr: SocketAddr,
    connections: usize,
    depth: usize,
    duration: Duration,
    pid: u32,
) -> Done<(f64, Duration, Duration)> {
    let mut call = Writer::new();
    call.put(&Request { xid: 1, program: PROGRAM, version: 1, procedure: 0, credential: None });
    call.raw(&[0; ARGS_BYTES]);
    let mark = rpc::record::mark(call.len()).ok_or("too long")?.to_be_bytes();
    let calls = [&mark, call.bytes()].concat().repeat(depth);
    let call_bytes = calls.len() / depth;
    let epoll = Epoll::new()?;
    let mut streams = Vec::new();
    for token in 0..connections {
        let stream = TcpStream::connect(addr)?;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        epoll.add(&stream, token as u64, Interest::READABLE)?;
        sys::socket::send(&stream, &[IoSlice::new(&calls)])?;
        streams.push((stream, 0_usize));
    }
    let mut events = Events::with_capacity(64);
    let mut buf = vec![0; 65_536];
    let (mut answered, mut cpu, mut start) = (0_usize, cpu_time(pid)?, Instant::now());
    let mut warm = false;
    while start.elapsed() < duration {
        if !warm && start.elapsed() > duration / 4 {
            (answered, cpu, start, warm) = (0, cpu_time(pid)?, Instant::now(), true);
        }
        epoll.wait(&mut events, Some(Duration::from_millis(100)))?;
        for index in 0..events.len() {
            let token = events.at(index).ok_or("no event")?.token as usize;
            let (stream, partial) = streams.get_mut(token).ok_or("no stream")?;
            let len = match sys::socket::receive(stream, &mut buf) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => continue,
                received => received?,
            };
            let replies = (*partial + len) / REPLY_BYTES;
            *partial = (*partial + len) % REPLY_BYTES;
            answered += replies;
            let next = calls.get(..call_bytes * replies.min(depth)).unwrap_or_default();
            if !next.is_empty() {
                sys::socket::send(stream, &[IoSlice::new(next)])?;
            }
        }
    }
    Ok((answered as f64, cpu_time(pid)? - cpu, start.elapsed()))
}

/// CPU time of a process, with the threads that have ended; the kernel tells it in hundredths.
fn cpu_time(pid: u32) -> Done<Duration> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let (_, fields) = text.rsplit_once(") ").ok_or("no name")?;
    let times = fields.split(' ').skip(11).take(2).map(str::parse::<u64>);
    Ok(Duration::from_millis(times.sum::<Result<u64, _>>()? * 10))
}
