//! Missing, hanging, dying and faulty servers: one clear error, and the counters so far are kept.

use bench::load::{FileSet, LiveCounters, LoadError, Plan, Proto, Run, Workload, run};
use proto::rpc::{Accepted, ReplyHeader};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use xdr::Writer;

/// Serves every connection with `each`, on a thread of its own.
pub(super) fn server(each: impl Fn(TcpStream) + Send + Sync + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    let each = Arc::new(each);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let each = Arc::clone(&each);
            std::thread::spawn(move || each(stream));
        }
    });
    addr
}

/// The next record's bytes, its mark left out; `None` at the end.
pub(super) fn record(stream: &mut TcpStream) -> Option<Vec<u8>> {
    let mut mark = [0; 4];
    stream.read_exact(&mut mark).ok()?;
    let mut record = vec![0; (u32::from_be_bytes(mark) & 0x7fff_ffff) as usize];
    stream.read_exact(&mut record).ok()?;
    Some(record)
}

fn null_reply(call: &[u8]) -> Vec<u8> {
    let xid = u32::from_be_bytes(*call.first_chunk().unwrap());
    let mut w = Writer::new();
    w.put(&ReplyHeader::accepted(xid, Accepted::Success));
    marked(w.bytes())
}

pub(super) fn marked(record: &[u8]) -> Vec<u8> {
    let mark = u32::try_from(record.len()).unwrap() | 0x8000_0000;
    [&mark.to_be_bytes(), record].concat()
}

fn plan(server: SocketAddr) -> Plan {
    let mut plan = Plan::new(server, "/", Workload::Null);
    (plan.clients, plan.depth) = (3, 2);
    (plan.warmup, plan.time) = (Duration::ZERO, Duration::from_secs(600));
    plan.timeout = Duration::from_secs(30);
    plan
}

fn load(plan: &Plan) -> Run {
    let file_set = Arc::new(FileSet::prepare(plan).unwrap());
    run(plan, &file_set, &LiveCounters::new(1), &AtomicBool::new(false)).unwrap()
}

#[test]
fn a_missing_server_gives_connection_refused() {
    let addr = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let error = FileSet::prepare(&plan(addr)).unwrap_err().to_string();
    assert!(error.contains("no server listens there"), "{error}");
    assert_eq!(error.lines().count(), 1);
}

#[test]
fn a_server_without_mountd_gives_a_one_line_error() {
    // accepts any call of NFS, and no other program
    let addr = server(|mut stream| {
        while let Some(call) = record(&mut stream) {
            let xid = u32::from_be_bytes(*call.first_chunk().unwrap());
            let mut w = Writer::new();
            w.put(&ReplyHeader::accepted(xid, Accepted::ProgUnavail));
            if stream.write_all(&marked(w.bytes())).is_err() {
                return;
            }
        }
    });
    let mut plan = plan(addr);
    plan.workload = Workload::Getattr;
    plan.mount_port = Some(addr.port());
    let error = FileSet::prepare(&plan).unwrap_err().to_string();
    assert!(!error.is_empty() && error.lines().count() == 1, "{error}");
}

#[test]
fn a_server_that_hangs_times_out() {
    let answered = std::sync::atomic::AtomicU64::new(0);
    let addr = server(move |mut stream| {
        while let Some(call) = record(&mut stream) {
            // the first hundred, then silence
            if answered.fetch_add(1, std::sync::atomic::Ordering::Relaxed) < 100
                && stream.write_all(&null_reply(&call)).is_err()
            {
                return;
            }
        }
    });
    let mut plan = plan(addr);
    plan.timeout = Duration::from_secs(2);
    let run = load(&plan);
    assert!(matches!(run.error, Some(LoadError::Hangs { .. })), "{:?}", run.error);
    assert!(run.report.calls > 0, "what was answered before counts");
    assert!(run.report.incomplete.is_some());
}

#[test]
fn a_server_that_dies_leaves_partial_results() {
    let addr = server(|mut stream| {
        for _ in 0..50 {
            let Some(call) = record(&mut stream) else { return };
            if stream.write_all(&null_reply(&call)).is_err() {
                return;
            }
        }
    });
    let run = load(&plan(addr));
    assert!(matches!(run.error, Some(LoadError::Died { missing: 1.., .. })), "{:?}", run.error);
    assert!(run.report.calls >= 50, "{}", run.report.calls);
    assert!(!run.report.is_clean());
}

#[test]
fn invalid_replies_are_errors() {
    for garbage in [
        // a call, not a reply
        marked(&[0, 0, 0, 1, 0, 0, 0, 0]),
        // a record far over the limit
        vec![0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0],
        b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec(),
    ] {
        let first = AtomicBool::new(true);
        let sent = garbage.clone();
        let addr = server(move |mut stream| {
            while let Some(call) = record(&mut stream) {
                // the NULL of the preparation is answered correctly
                let good = first.swap(false, std::sync::atomic::Ordering::Relaxed);
                let reply = if good { null_reply(&call) } else { sent.clone() };
                if stream.write_all(&reply).is_err() {
                    return;
                }
            }
        });
        let run = load(&plan(addr));
        let told = matches!(run.error, Some(LoadError::Garbage { .. }));
        assert!(told, "{garbage:?}: {:?}", run.error);
    }
}

#[test]
fn lost_datagrams_are_sent_again_and_counted() {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let addr = socket.local_addr().unwrap();
    std::thread::spawn(move || {
        let mut buffer = [0; 2048];
        let mut number = 0_u64;
        while let Ok((len, from)) = socket.recv_from(&mut buffer) {
            number += 1;
            // every seventh call is lost, every ninth answered twice
            if number.is_multiple_of(7) {
                continue;
            }
            let reply = null_reply(&buffer[..len]);
            for _ in 0..if number.is_multiple_of(9) { 2 } else { 1 } {
                let _ = socket.send_to(&reply[4..], from);
            }
        }
    });
    let mut plan = plan(addr);
    plan.proto = Proto::Udp;
    plan.time = Duration::from_millis(600);
    plan.retransmit = Duration::from_millis(20);
    let run = load(&plan);
    assert!(run.error.is_none(), "{:?}", run.error);
    let report = run.report;
    assert!(report.retransmitted > 0 && report.strays > 0, "{report:?}");
    assert_eq!((report.lost, report.errors), (0, 0));
    assert!(report.calls > report.retransmitted);
}

/// A server that stalls is charged for every call that was due meanwhile, not only for the one that
/// it delayed.
#[test]
fn an_open_loop_counts_the_calls_that_had_to_wait() {
    let addr = server(|mut stream| {
        let mut number = 0_u64;
        while let Some(call) = record(&mut stream) {
            number += 1;
            if number == 100 {
                std::thread::sleep(Duration::from_millis(300));
            }
            if stream.write_all(&null_reply(&call)).is_err() {
                return;
            }
        }
    });
    let mut plan = plan(addr);
    (plan.clients, plan.depth) = (1, 1);
    plan.time = Duration::from_millis(900);
    plan.pace = bench::load::Pace::Open(500.0);
    let open = load(&plan).report;
    plan.pace = bench::load::Pace::Closed;
    let closed = load(&plan).report;
    // a third of the time nothing was answered: a third of the calls due waited, half of them over 100 ms
    assert!(open.latency.p90_us > 50_000.0, "{:?}", open.latency);
    assert!(closed.latency.p90_us < 50_000.0, "{:?}", closed.latency);
    assert!(open.latency.max_us >= 250_000.0 && closed.latency.max_us >= 250_000.0);
}
