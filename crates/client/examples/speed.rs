//! Server CPU per call, two servers side by side: closed-loop clients over TCP, interleaved rounds.
//!
//! `speed ROUNDS SECONDS NAME=NFS_PORT,MOUNT_PORT,EXPORT,PID [NAME=…]` measures each server in turn,
//! round by round (A B A B …), and prints for each workload the median µs of server CPU per call, the
//! spread, and the ratio to the first server inside the rounds. The CPU is that of all threads of PID
//! (`/proc/PID/task/*/schedstat`, nanoseconds); the client's own cost is not in it.
//! The export must hold a file `f` of at least one byte.

use std::error::Error;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use xdr::{Reader, Writer};

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

struct Server {
    name: String,
    nfs: u16,
    mount: u16,
    export: String,
    pid: u32,
}

/// One row of the result: what is called, by how many connections, how many calls in flight on each.
struct Workload {
    name: &'static str,
    procedure: u32,
    connections: usize,
    depth: usize,
}

/// What `/proc` counts in on all Linux machines: a hundredth of a second.
const TICK_NS: u64 = 10_000_000;

const WORKLOADS: [Workload; 7] = [
    Workload { name: "null, 16 connections", procedure: 0, connections: 16, depth: 1 },
    Workload { name: "getattr, 16 connections", procedure: 1, connections: 16, depth: 1 },
    Workload { name: "access, 16 connections", procedure: 4, connections: 16, depth: 1 },
    Workload { name: "lookup, 16 connections", procedure: 3, connections: 16, depth: 1 },
    Workload { name: "getattr, 64 connections", procedure: 1, connections: 64, depth: 1 },
    Workload { name: "getattr, 4 connections x 16", procedure: 1, connections: 4, depth: 16 },
    Workload { name: "read 4 KiB, 16 connections", procedure: 6, connections: 16, depth: 1 },
];

fn main() -> Result<()> {
    let mut args = std::env::args().skip(1);
    let rounds: usize = args.next().ok_or("rounds")?.parse()?;
    let seconds: f64 = args.next().ok_or("seconds")?.parse()?;
    let servers = args.map(|a| parse(&a)).collect::<Result<Vec<_>>>()?;
    for workload in &WORKLOADS {
        let mut costs = vec![Vec::new(); servers.len()];
        let mut rates = vec![Vec::new(); servers.len()];
        for _ in 0..rounds {
            for (server, (costs, rates)) in
                servers.iter().zip(costs.iter_mut().zip(rates.iter_mut()))
            {
                let (cost_us, rate) = measure(server, workload, seconds)?;
                costs.push(cost_us);
                rates.push(rate);
            }
        }
        report(workload, &servers, &costs, &rates);
    }
    Ok(())
}

fn parse(text: &str) -> Result<Server> {
    let (name, rest) = text.split_once('=').ok_or("NAME=NFS_PORT,MOUNT_PORT,EXPORT,PID")?;
    let parts: Vec<&str> = rest.split(',').collect();
    let [nfs, mount, export, pid] = parts.as_slice() else { return Err("four parts".into()) };
    Ok(Server {
        name: name.into(),
        nfs: nfs.parse()?,
        mount: mount.parse()?,
        export: (*export).into(),
        pid: pid.parse()?,
    })
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
}

fn report(workload: &Workload, servers: &[Server], costs: &[Vec<f64>], rates: &[Vec<f64>]) {
    let first = costs.first().cloned().unwrap_or_default();
    for ((server, costs), rates) in servers.iter().zip(costs).zip(rates) {
        let ratios: Vec<f64> = costs.iter().zip(&first).map(|(c, f)| c / f).collect();
        let low = costs.iter().copied().fold(f64::INFINITY, f64::min);
        let high = costs.iter().copied().fold(0.0, f64::max);
        println!(
            "{:28} {:10} {:7.2} us/call [{low:.2}-{high:.2}] {:9.0} calls/s  x{:.2}",
            workload.name,
            server.name,
            median(costs),
            median(rates),
            median(&ratios),
        );
    }
}

/// Nanoseconds that a process has run, threads that have ended included; to the kernel's tick.
fn cpu_ns(pid: u32) -> Result<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // the name may hold anything but ends with the last parenthesis
    let (_, rest) = stat.rsplit_once(')').ok_or("no such process")?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    let ticks = |n: usize| fields.get(n).and_then(|f| f.parse::<u64>().ok()).unwrap_or(0);
    Ok((ticks(11) + ticks(12)) * TICK_NS)
}

fn call(w: &mut Writer, xid: u32, program: u32, procedure: u32, args: &[u8]) {
    w.clear();
    let start = w.mark();
    w.u32(0);
    for word in [xid, 0, 2, program, 3, procedure, 1] {
        w.u32(word);
    }
    let mut credential = Writer::new();
    credential.u32(0);
    credential.opaque(b"speed");
    for word in [0, 0, 0] {
        credential.u32(word);
    }
    w.opaque(credential.bytes());
    w.u32(0);
    w.u32(0);
    w.raw(args);
    let length = u32::try_from(w.written_since(start) - 4).unwrap_or(0);
    w.patch_u32(start, length | 0x8000_0000);
}

fn reply(stream: &mut TcpStream) -> Result<Vec<u8>> {
    let mut mark = [0; 4];
    stream.read_exact(&mut mark)?;
    let mut record = vec![0; (u32::from_be_bytes(mark) & 0x7fff_ffff) as usize];
    stream.read_exact(&mut record)?;
    Ok(record)
}

/// MNT of the export and LOOKUP of `f`: the handles of both.
fn handles(server: &Server) -> Result<(Vec<u8>, Vec<u8>)> {
    let mut w = Writer::new();
    let mut args = Writer::new();
    args.opaque(server.export.as_bytes());
    let mut stream = TcpStream::connect(("127.0.0.1", server.mount))?;
    call(&mut w, 1, 100_005, 1, args.bytes());
    stream.write_all(w.bytes())?;
    let record = reply(&mut stream)?;
    let mut r = Reader::new(record.get(24..).ok_or("short MNT reply")?);
    if r.u32()? != 0 {
        return Err("MNT refused".into());
    }
    let root = r.opaque(64)?.to_vec();
    args.clear();
    args.opaque(&root);
    args.opaque(b"f");
    let mut stream = TcpStream::connect(("127.0.0.1", server.nfs))?;
    call(&mut w, 2, 100_003, 3, args.bytes());
    stream.write_all(w.bytes())?;
    let record = reply(&mut stream)?;
    let mut r = Reader::new(record.get(24..).ok_or("short LOOKUP reply")?);
    if r.u32()? != 0 {
        return Err("LOOKUP of f failed".into());
    }
    Ok((root, r.opaque(64)?.to_vec()))
}

fn arguments(procedure: u32, root: &[u8], file: &[u8]) -> Vec<u8> {
    let mut args = Writer::new();
    match procedure {
        1 => args.opaque(file),
        3 => {
            args.opaque(root);
            args.opaque(b"f");
        }
        4 => {
            args.opaque(file);
            args.u32(0x3f);
        }
        6 => {
            args.opaque(file);
            args.u64(0);
            args.u32(4096);
        }
        _ => {}
    }
    args.bytes().to_vec()
}

/// Runs one workload; gives µs of server CPU per call, and calls per second.
fn measure(server: &Server, workload: &Workload, seconds: f64) -> Result<(f64, f64)> {
    let (root, file) = handles(server)?;
    let args = arguments(workload.procedure, &root, &file);
    let (stop, calls) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let mut threads = Vec::new();
    for _ in 0..workload.connections {
        let stream = TcpStream::connect(("127.0.0.1", server.nfs))?;
        stream.set_nodelay(true)?;
        let mut w = Writer::new();
        call(&mut w, 7, 100_003, workload.procedure, &args);
        let (request, depth) = (w.bytes().repeat(workload.depth), workload.depth);
        let (stop, calls) = (Arc::clone(&stop), Arc::clone(&calls));
        threads.push(thread::spawn(move || drive(stream, &request, depth, &stop, &calls)));
    }
    thread::sleep(Duration::from_millis(200));
    let (cpu, count, start) = (cpu_ns(server.pid)?, calls.load(Ordering::Relaxed), Instant::now());
    thread::sleep(Duration::from_secs_f64(seconds));
    let cpu = cpu_ns(server.pid)? - cpu;
    let count = calls.load(Ordering::Relaxed) - count;
    let elapsed_s = start.elapsed().as_secs_f64();
    stop.store(true, Ordering::Relaxed);
    for thread in threads {
        thread.join().map_err(|_| "a client thread died")??;
    }
    #[expect(clippy::cast_precision_loss, reason = "counts far below 2^52")]
    Ok((cpu as f64 / 1000.0 / count.max(1) as f64, count as f64 / elapsed_s))
}

/// One connection: `depth` calls out, `depth` replies in, again and again.
fn drive(
    mut stream: TcpStream,
    request: &[u8],
    depth: usize,
    stop: &AtomicBool,
    calls: &AtomicU64,
) -> Result<()> {
    let mut buffer = vec![0; 1 << 18];
    while !stop.load(Ordering::Relaxed) {
        stream.write_all(request)?;
        let (mut filled, mut seen) = (0, 0);
        while seen < depth {
            let room = buffer.get_mut(filled..).ok_or("replies too large")?;
            let got = stream.read(room)?;
            if got == 0 {
                return Err("the server closed the connection".into());
            }
            filled += got;
            seen += take_replies(&mut buffer, &mut filled);
        }
        calls.fetch_add(depth as u64, Ordering::Relaxed);
    }
    Ok(())
}

/// Counts the whole replies at the front of the buffer and removes them.
fn take_replies(buffer: &mut [u8], filled: &mut usize) -> usize {
    let (mut at, mut seen) = (0, 0);
    while let Some(mark) = buffer.get(at..*filled).and_then(|b| b.first_chunk::<4>()) {
        let end = at + 4 + (u32::from_be_bytes(*mark) & 0x7fff_ffff) as usize;
        if end > *filled {
            break;
        }
        (at, seen) = (end, seen + 1);
    }
    buffer.copy_within(at..*filled, 0);
    *filled -= at;
    seen
}
