//! Storms of hostile connections over TLS: before, in and after the handshake, each does one thing that no client of NFS
//! does, while others are served. `STORM=20000` for more connections, `SEED` for the same choices.

use crate::tls::{Sealed, call, probed, receive};
use crate::toy::{ECHO, GIVE, PATIENCE, config, message, opaque, record, results};
use bowline_svc::{Config, PoolMode};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant, SystemTime};
use telemetry::Counter;
use testing::in_child;
use tls::{ForgedRecords, RECORD_PLAIN_MAX};

/// Connections, unless `STORM` says otherwise.
const CONNECTIONS: u64 = 400;
const THREADS: u64 = 4;
/// Connections that stay, of each thread.
const HELD: usize = 16;
/// The most by which memory may have grown, with all that is left of the clients, which are in the same process.
const GROWTH_MAX: usize = 64 << 20;

const CHANGE_CIPHER_SPEC: u8 = 20;
const ALERT: u8 = 21;
const HANDSHAKE: u8 = 22;
const DATA: u8 = 23;

/// KeyUpdate (RFC 8446 §4.6.3), without and with a request for the other side's.
const KEY_UPDATE: [u8; 5] = [24, 0, 0, 1, 0];
const KEY_UPDATE_BOTH: [u8; 5] = [24, 0, 0, 1, 1];

/// xorshift64.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % end as u64) as usize
    }

    fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.below(256) as u8).collect()
    }

    fn pick<'t, T>(&mut self, of: &'t [T]) -> &'t T {
        &of[self.below(of.len())]
    }
}

/// What comes of a connection whose last bytes are a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// The call is answered.
    Served,
    /// It is closed, and the call is not answered.
    Closed,
    /// Served where keys can be changed, else closed.
    ServedWithNewKeys,
    /// Closed by this process; the kernel may skip what there is, and serve.
    ClosedByProcess,
    /// Nothing is to be answered: the client goes away, by a FIN or a reset, or stays.
    Left,
    /// Neither; never expected.
    Silent,
}

/// What a client sends after its handshake.
struct Sender<'r> {
    forged: ForgedRecords,
    random: &'r mut Random,
}

impl Sender<'_> {
    fn record(&mut self, content_type: u8, content: &[u8]) -> Vec<u8> {
        self.forged.record(content_type, content).unwrap()
    }

    fn many(&mut self, count: usize, content_type: u8, content: &[u8]) -> Vec<u8> {
        (0..count).flat_map(|_| self.record(content_type, content)).collect()
    }

    fn data(&mut self, data: &[u8]) -> Vec<u8> {
        data.chunks(RECORD_PLAIN_MAX).flat_map(|part| self.record(DATA, part)).collect()
    }

    fn call(&mut self) -> Vec<u8> {
        self.data(&a_call())
    }

    /// One record of another type, and a call.
    fn then_call(&mut self, content_type: u8, content: &[u8]) -> Vec<u8> {
        [self.record(content_type, content), self.call()].concat()
    }

    /// Changes of keys, each with its message, and a call.
    fn new_keys(&mut self, count: usize, message: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for _ in 0..count {
            bytes.extend(self.record(HANDSHAKE, message));
            self.forged.change_key().unwrap();
        }
        bytes.extend(self.call());
        bytes
    }
}

fn a_call() -> Vec<u8> {
    record(&message(1, ECHO, &opaque(&[7; 100])))
}

/// What each client's port is for, for what a failure says.
type Names = Mutex<BTreeMap<u16, String>>;
type Bytes = fn(&mut Sender<'_>) -> Vec<u8>;

/// What is sent after the handshake, in the name's words, with a call behind it.
static AFTER: [(&str, End, Bytes); 37] = [
    ("nothing else", End::Served, |s| s.call()),
    ("records of one byte", End::Served, |s| {
        a_call().iter().flat_map(|byte| s.record(DATA, &[*byte])).collect()
    }),
    ("32 empty records", End::Served, |s| [s.many(32, DATA, &[]), s.call()].concat()),
    ("more empty records", End::ClosedByProcess, |s| [s.many(200, DATA, &[]), s.call()].concat()),
    ("warnings", End::Served, |s| [s.many(3, ALERT, &[1, 90]), s.call()].concat()),
    ("many warnings", End::Closed, |s| [s.many(40, ALERT, &[1, 90]), s.call()].concat()),
    ("20 changes of keys", End::ServedWithNewKeys, |s| s.new_keys(20, &KEY_UPDATE)),
    ("20 changes of both keys", End::ServedWithNewKeys, |s| s.new_keys(20, &KEY_UPDATE_BOTH)),
    ("many changes of keys", End::Closed, |s| s.new_keys(100, &KEY_UPDATE_BOTH)),
    ("a KeyUpdate of no such kind", End::Closed, |s| s.new_keys(1, &[24, 0, 0, 1, 7])),
    ("a longer KeyUpdate", End::Closed, |s| s.new_keys(1, &[24, 0, 0, 2, 0, 0])),
    ("a KeyUpdate and the old key", End::Closed, |s| s.then_call(HANDSHAKE, &KEY_UPDATE)),
    ("a new key without KeyUpdate", End::Closed, |s| {
        s.forged.change_key().unwrap();
        s.call()
    }),
    ("close_notify", End::Closed, |s| s.then_call(ALERT, &[1, 0])),
    ("a fatal alert", End::Closed, |s| s.then_call(ALERT, &[2, 40])),
    ("half an alert", End::Closed, |s| s.then_call(ALERT, &[1])),
    ("a longer alert", End::Closed, |s| s.then_call(ALERT, &[1, 0, 0])),
    ("an empty alert", End::Closed, |s| s.then_call(ALERT, &[])),
    ("a ClientHello", End::Closed, |s| {
        let hello = [&[1, 0, 0, 200, 3, 3][..], &s.random.bytes(198)].concat();
        s.then_call(HANDSHAKE, &hello)
    }),
    ("a Certificate", End::Closed, |s| s.then_call(HANDSHAKE, &[11, 0, 0, 4, 0, 0, 0, 0])),
    ("a session ticket", End::Closed, |s| s.then_call(HANDSHAKE, &[4, 0, 0, 2, 0, 0])),
    ("half a KeyUpdate", End::Closed, |s| s.then_call(HANDSHAKE, &KEY_UPDATE[..3])),
    ("an empty handshake record", End::Served, |s| s.then_call(HANDSHAKE, &[])),
    ("a message of 16 MiB", End::Closed, |s| s.then_call(HANDSHAKE, &[1, 255, 255, 255])),
    ("ChangeCipherSpec", End::Closed, |s| s.then_call(CHANGE_CIPHER_SPEC, &[1])),
    ("no such content type", End::Closed, |s| s.then_call(99, b"abc")),
    ("no content type", End::Closed, |s| s.then_call(0, &[0; 50])),
    ("a record that is too long", End::Closed, |s| s.then_call(DATA, &[0; RECORD_PLAIN_MAX + 1])),
    ("a record twice", End::Closed, |s| {
        let call = a_call();
        let (half, rest) = call.split_at(50);
        [s.data(half).repeat(2), s.data(rest)].concat()
    }),
    ("records in the wrong order", End::Closed, |s| {
        let call = a_call();
        let (half, rest) = call.split_at(50);
        let first = s.data(half);
        [s.data(rest), first].concat()
    }),
    ("a changed bit", End::Closed, |s| {
        let mut call = s.call();
        let at = 5 + s.random.below(call.len() - 5);
        call[at] ^= 1 << s.random.below(8);
        call
    }),
    ("arbitrary bytes", End::Closed, |s| s.random.bytes(20_000)),
    ("a call in the clear", End::Closed, |_| a_call()),
    ("an alert in the clear", End::Closed, |s| [vec![21, 3, 3, 0, 2, 2, 40], s.call()].concat()),
    ("a length that no record has", End::Closed, |s| [vec![23, 3, 3, 255, 255], s.call()].concat()),
    ("an RPC record of 2 GiB", End::Closed, |s| {
        let mark = (u32::MAX >> 1).to_be_bytes();
        [s.data(&mark), s.call()].concat()
    }),
    ("5,000 RPC fragments of no bytes", End::Closed, |s| {
        let fragments = [0; 4].repeat(5000);
        [s.data(&fragments), s.call()].concat()
    }),
];

/// What is sent after the handshake by those who then say no more.
static LEFT: [Bytes; 5] = [
    |_| Vec::new(),
    |s| {
        let call = s.call();
        let len = s.random.below(call.len());
        call[..len].to_vec()
    },
    |s| {
        let call = a_call();
        let len = s.random.below(call.len());
        s.data(&call[..len])
    },
    // a length that is not over
    |s| [vec![23, 3, 3, 64, 0], s.random.bytes(3000)].concat(),
    // replies that nobody takes
    |s| s.data(&record(&message(1, GIVE, &1_000_000_u32.to_be_bytes())).repeat(8)),
];

/// What becomes of a connection: whether a record with data comes, or it ends.
fn outcome(mut stream: &TcpStream) -> End {
    let mut header = [0; 5];
    loop {
        if let Err(error) = stream.read_exact(&mut header) {
            return if error.kind() == ErrorKind::WouldBlock { End::Silent } else { End::Closed };
        }
        let mut content = vec![0; usize::from(u16::from_be_bytes([header[3], header[4]]))];
        if stream.read_exact(&mut content).is_err() {
            return End::Closed;
        }
        // longer than an alert and a KeyUpdate
        if header[0] == DATA && content.len() > 40 {
            return End::Served;
        }
    }
}

/// One connection that is hostile before its handshake is over; it ends, and no call is answered.
fn hostile_handshake(server: &Sealed, random: &mut Random, names: &Names) {
    let stream = probed(server.toy.tcp);
    let port = stream.local_addr().unwrap().port();
    let mut hello = Vec::new();
    let handshake = server.client_with(None).begin("localhost", &mut hello).unwrap();
    let at = random.below(hello.len());
    let kind = random.below(6);
    names.lock().unwrap().insert(port, format!("handshake {kind}"));
    let bytes = match kind {
        0 => hello[..at].to_vec(),
        1 => {
            hello[at] ^= 1 << random.below(8);
            hello
        }
        2 => hello.repeat(2),
        3 => random.bytes(300),
        4 => [&hello[..], &a_call()].concat(),
        // what would be Finished
        _ => [&hello[..], &[DATA, 3, 3, 0, 53], &random.bytes(53)].concat(),
    };
    drop(handshake);
    // it may be closed in the middle
    let _ = (&stream).write_all(&bytes);
    if random.below(4) == 0 {
        return sys::socket::discard_on_close(&stream).unwrap();
    }
    let _ = stream.shutdown(Shutdown::Write);
    let mut said = Vec::new();
    let _ = (&stream).read_to_end(&mut said);
    assert!(!said.windows(8).any(|bytes| bytes == [7; 8]), "a call is answered");
}

/// One connection that is hostile after its handshake; returned if it stays.
///
/// # Errors
/// What did not come as expected.
fn hostile_session(
    server: &Sealed,
    random: &mut Random,
    number: usize,
    (records, names): (ServersRecords, &Names),
) -> Result<Option<TcpStream>, String> {
    let (stream, forged) = server.connect().forge().unwrap();
    let mut sender = Sender { forged, random };
    let (name, expected, bytes) = match AFTER.get(number % (AFTER.len() + LEFT.len())) {
        Some((name, end, bytes)) => (*name, *end, *bytes),
        None => ("nothing more", End::Left, *sender.random.pick(&LEFT)),
    };
    let port = stream.local_addr().unwrap().port();
    names.lock().unwrap().insert(port, name.to_owned());
    let bytes = bytes(&mut sender);
    let sent = (&stream).write_all(&bytes);
    if expected == End::Left {
        let stays = random.below(3);
        if stays == 1 {
            sys::socket::discard_on_close(&stream).unwrap();
        }
        return Ok((stays == 0).then_some(stream));
    }
    let skipped = expected == End::ClosedByProcess && records.in_kernel;
    let expected = match expected {
        End::ServedWithNewKeys if records.change_keys => End::Served,
        End::ServedWithNewKeys | End::ClosedByProcess => End::Closed,
        other => other,
    };
    let end = if sent.is_ok() { outcome(&stream) } else { End::Closed };
    if skipped && end == End::Served {
        return Ok(None);
    }
    if end == expected { Ok(None) } else { Err(format!("{name}: {end:?}")) }
}

/// Has honest calls answered until it is told to stop; how many.
fn honest(stream: &mut (impl Read + Write), stop: &AtomicBool, seed: u64) -> u64 {
    let (mut random, mut calls) = (Random(seed), 0);
    while !stop.load(SeqCst) {
        let len = if random.below(50) == 0 { 1_000_000 } else { random.below(5000) };
        let data = opaque(&random.bytes(len.min(5000)).repeat(len.div_ceil(5000).max(1)));
        assert!(call(stream, 1, ECHO, &data) == data);
        calls += 1;
    }
    calls
}

/// Who encrypts and decrypts the server's records.
#[derive(Clone, Copy)]
pub struct ServersRecords {
    pub in_kernel: bool,
    /// Whether clients can change their keys.
    pub change_keys: bool,
}

/// A storm.
pub fn storm(connections: u64, records: ServersRecords) {
    let own =
        || SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_nanos() as u64;
    let seed = std::env::var("SEED").map_or_else(|_| own() | 1, |seed| seed.parse().unwrap());
    println!("SEED={seed}");
    let server = Sealed::start_as(
        Duration::from_secs(10),
        Config { pool_mode: PoolMode::Global, ..config() },
    );
    let (mut sealed, mut plain) = (server.connect(), server.toy.client());
    let (stop, next) = (AtomicBool::new(false), AtomicU64::new(0));
    // what the last connection from each port was
    let names = Mutex::new(BTreeMap::new());
    let calls = std::thread::scope(|scope| {
        let honest_ones = [
            scope.spawn(|| honest(&mut sealed, &stop, seed)),
            scope.spawn(|| honest(&mut plain.0, &stop, seed + 2)),
        ];
        let hostile_ones = (0..THREADS).map(|thread| {
            let (server, next, names) = (&server, &next, &names);
            scope.spawn(move || {
                let mut random = Random(seed.wrapping_add(thread << 32) | 1);
                let (mut held, mut wrong) = (Vec::new(), BTreeSet::new());
                loop {
                    let number = next.fetch_add(1, SeqCst);
                    if number >= connections {
                        return wrong;
                    }
                    if number % 5 == 0 {
                        hostile_handshake(server, &mut random, names);
                        continue;
                    }
                    match hostile_session(server, &mut random, number as usize, (records, names)) {
                        Ok(stays) => held.extend(stays),
                        Err(what) => drop(wrong.insert(what)),
                    }
                    if held.len() > HELD {
                        held.remove(0);
                    }
                }
            })
        });
        let ended: Vec<_> =
            hostile_ones.collect::<Vec<_>>().into_iter().map(|one| one.join()).collect();
        stop.store(true, SeqCst);
        let calls = honest_ones.map(|one| one.join().unwrap());
        let wrong: BTreeSet<_> = ended.into_iter().flat_map(|one| one.unwrap()).collect();
        assert!(wrong.is_empty(), "{wrong:?}");
        calls
    });
    assert!(calls.iter().all(|calls| *calls > 0), "{calls:?}");
    let left = || {
        let all = server.toy.server.conns();
        let ports = all.iter().map(|conn| conn.peer.port()).collect::<BTreeSet<_>>();
        let names = names.lock().unwrap();
        ports.iter().filter_map(|port| names.get(port).cloned()).collect::<Vec<_>>()
    };
    let begun = Instant::now();
    while server.toy.server.connections() > 2 {
        assert!(begun.elapsed() < PATIENCE, "connections stay that are closed: {:?}", left());
        std::thread::sleep(Duration::from_millis(5));
    }
    println!(
        "{connections} hostile connections; {} calls over TLS and {} in the clear were answered; {} handshakes failed",
        calls[0],
        calls[1],
        server.toy.counter(Counter::TlsFailed)
    );
    for stream in [&mut sealed as &mut dyn ReadWrite, &mut plain.0] {
        stream.write_all(&a_call()).unwrap();
        assert_eq!(results(&receive(&mut &mut *stream).unwrap()), (1, opaque(&[7; 100])));
    }
    drop((sealed, plain));
    server.toy.stop();
}

trait ReadWrite: Read + Write {}
impl<T: Read + Write> ReadWrite for T {}

#[test]
fn a_storm_of_hostile_connections_delays_nobody() {
    if !in_child("tls_storm::a_storm_of_hostile_connections_delays_nobody", &[]) {
        return;
    }
    let resident = || {
        let text = std::fs::read_to_string("/proc/self/statm").unwrap();
        text.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
    };
    let records = ServersRecords { in_kernel: false, change_keys: true };
    // what is made once
    storm(50, records);
    let before = resident();
    storm(std::env::var("STORM").map_or(CONNECTIONS, |number| number.parse().unwrap()), records);
    let growth = resident().saturating_sub(before);
    println!("{} KiB more", growth >> 10);
    assert!(growth < GROWTH_MAX, "{growth} bytes more");
}
