//! The lower bound: a server that answers every call with a canned reply of the right size and does nothing
//! else. The work that no server can avoid is done as cheaply as the kernel can: the data of a WRITE goes
//! to a file in memory, that of a READ comes out of one, by sendfile from [`SENDFILE_MIN`] on, and CREATE
//! and REMOVE create and remove a file (`canned/created_files.rs`). COMPOUND of version 4 is answered by the operation
//! that it is about (`canned/compound.rs`). There are as many files as the loads
//! have, of the same length, and they are accessed in the same order (WRITEs sequentially in a file of the
//! connection's own, READs at random): reading or writing the same few pages all the time would keep them
//! in the processor's caches, which no real server can do.
//!
//! Its cost is what sockets, wake-ups and this machine cost today; no server that sends the same replies
//! over the same connections can be much cheaper. Each loop makes one `recv` and one `send` per round. It
//! reads no handle and no credential, and stores no data of clients: it is for `bowline bench compare`
//! only, which takes the cheaper of one loop and one on each CPU.
//!
//! Invariant: a connection belongs to one loop; no other thread uses it.

mod compound;
mod created_files;

use crate::load::{FILE_BYTES, FILES, Rng};
use created_files::CreatedFiles;
use proto::nfs3::procedure as p;
use proto::nfs4::{self, op};
use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::io::{self, ErrorKind, IoSlice, Read};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::num::NonZeroUsize;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use sys::epoll::{Epoll, Events, Interest};

/// Bytes received at once; a WRITE of 1 MiB takes several receives.
const RECEIVE: usize = 256 << 10;
/// Data from which on it is sent out of a file, as `docs/bench` has the crossover.
const SENDFILE_MIN: usize = 8 << 10;
/// The files, as many as a load has clients that write. The first [`FILES`] of them are read.
const ALL_FILES: usize = 16;
/// Bytes of a header of an accepted reply, its mark included.
const HEADER: usize = 28;
/// Bytes of a `post_op_attr` with attributes (RFC 1813 §2.6).
const POST_OP_ATTR: usize = 88;
/// Offsets of the version and of the procedure in a call, its mark included.
const VERSION_AT: usize = 20;
const PROCEDURE_AT: usize = 24;
/// Bytes of a call by which it is known; of version 4 more.
const KNOWN_BY: usize = PROCEDURE_AT + 4;

/// The word of a call at an offset; 0 behind its end.
fn word(call: &[u8], at: usize) -> u32 {
    call.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |bytes| u32::from_be_bytes(*bytes))
}

/// Bytes of the record that begins so, its mark included.
fn record_len(head: &[u8]) -> usize {
    (word(head, 0) & 0x7fff_ffff) as usize + 4
}

/// Whether a call that begins so is a COMPOUND.
fn is_compound(head: &[u8]) -> bool {
    word(head, VERSION_AT) == nfs4::VERSION && word(head, PROCEDURE_AT) == nfs4::procedure::COMPOUND
}

/// How many bytes of a call are needed to answer it, of which these are the first.
fn needed(head: &[u8]) -> usize {
    if head.len() >= KNOWN_BY && is_compound(head) {
        record_len(head).min(compound::HEAD_MAX)
    } else {
        KNOWN_BY
    }
}

/// Replies that were made once.
struct Canned {
    zeros: Vec<u8>,
    compounds: compound::Replies,
}

/// One connection of a loop.
struct Peer {
    stream: TcpStream,
    /// Bytes of the record under way that are still to come and need not be kept.
    skip: usize,
    /// The start of an incomplete record.
    head: Vec<u8>,
    out: Vec<u8>,
    sent: usize,
    /// Ranges of files that go between the bytes of `out`, and after how many of these.
    between: VecDeque<(usize, Piece)>,
    /// The record being received is a WRITE: what is skipped of it goes to the file.
    writes: bool,
    /// The file that it writes, and where the next bytes go.
    own: usize,
    at: usize,
    /// State of the random offsets of READs.
    rng: Rng,
    token: u64,
    /// The directory of CREATE, once there was one.
    making: Option<CreatedFiles>,
}

/// Where data comes from and goes to; shared by all loops.
struct Files {
    all: Vec<File>,
    /// A directory in memory for created files.
    place: PathBuf,
}

impl Files {
    /// Files in this directory, unlinked at once.
    fn new(place: &Path) -> io::Result<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let zeros = vec![0; FILE_BYTES];
        let make = |_| {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let path = place.join(format!("bound-{}-{number}", std::process::id()));
            let file = File::options().read(true).write(true).create_new(true).open(&path)?;
            std::fs::remove_file(&path)?;
            file.write_all_at(&zeros, 0)?;
            Ok(file)
        };
        let all = (0..ALL_FILES).map(make).collect::<io::Result<_>>()?;
        Ok(Self { all, place: place.to_owned() })
    }

    fn at(&self, index: usize) -> io::Result<&File> {
        self.all.get(index % ALL_FILES).ok_or_else(|| ErrorKind::NotFound.into())
    }
}

/// A range of a file.
#[derive(Debug, Clone, Copy)]
struct Piece {
    file: usize,
    offset: u64,
    len: usize,
}

/// Accepts connections on `port` of the loopback for ever, and distributes them to this many loops;
/// `None`: one bound to each CPU. `place` is a directory in memory for its files.
///
/// # Errors
/// The port is in use, or the machine has no threads or files left.
pub fn serve(port: u16, loops: Option<NonZeroUsize>, place: &Path) -> io::Result<()> {
    // listen first, so that clients can connect at once
    let files = Arc::new(Files::new(place)?);
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
    let places: Vec<Option<usize>> = match loops {
        Some(count) => vec![None; count.get()],
        None => sys::thread::allowed_cpus()?.into_iter().map(Some).collect(),
    };
    let mut loops = Vec::new();
    for cpu in places {
        let (epoll, inbox) = (Arc::new(Epoll::new()?), Arc::new(Mutex::new(HashMap::new())));
        let (its_epoll, its_inbox) = (Arc::clone(&epoll), Arc::clone(&inbox));
        let its_files = Arc::clone(&files);
        std::thread::Builder::new().name("canned".into()).spawn(move || {
            if let Some(cpu) = cpu {
                let _ = sys::thread::run_on(&[cpu]);
            }
            answer(&its_epoll, &its_inbox, &its_files)
        })?;
        loops.push((epoll, inbox));
    }
    let mut next = loops.iter().cycle();
    for (token, stream) in (0_u64..).zip(listener.incoming()) {
        let (Ok(stream), Some((epoll, inbox))) = (stream, next.next()) else { continue };
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        let added = {
            let mut inbox = inbox.lock().unwrap_or_else(PoisonError::into_inner);
            inbox.insert(token, stream.try_clone()?);
            epoll.add(&stream, token, Interest::READABLE)
        };
        added?;
    }
    Ok(())
}

type Inbox = Mutex<HashMap<u64, TcpStream>>;

fn answer(epoll: &Epoll, inbox: &Inbox, files: &Files) -> io::Result<()> {
    let mut peers: HashMap<u64, Peer> = HashMap::new();
    let mut events = Events::with_capacity(256);
    let mut buffer = vec![0; RECEIVE];
    let zeros = vec![0; SENDFILE_MIN + HEADER + POST_OP_ATTR + 40];
    let canned = Canned { zeros, compounds: compound::Replies::new() };
    loop {
        epoll.wait(&mut events, None)?;
        for index in 0..events.len() {
            let Some(ready) = events.at(index) else { continue };
            let peer = match peers.entry(ready.token) {
                std::collections::hash_map::Entry::Occupied(peer) => peer.into_mut(),
                std::collections::hash_map::Entry::Vacant(place) => {
                    let mut inbox = inbox.lock().unwrap_or_else(PoisonError::into_inner);
                    let Some(stream) = inbox.remove(&ready.token) else { continue };
                    place.insert(Peer::new(stream, ready.token))
                }
            };
            match peer.visit(&mut buffer, &canned, files) {
                Ok(full) => {
                    let interest = Interest { readable: true, writable: full, edge: false };
                    if full || ready.writable {
                        epoll.modify(&peer.stream, ready.token, interest)?;
                    }
                }
                Err(_) => drop(peers.remove(&ready.token)),
            }
        }
    }
}

/// The count of a READ, which is the last word of its record, as far as there are files.
fn asked_count(head: &[u8]) -> usize {
    (word(head, record_len(head) - 4) as usize).min(FILE_BYTES)
}

/// How many of so many bytes, a multiple of four as the loads ask for, are sent out of a file, and how many are copied.
const fn sent_and_kept(count: usize) -> (usize, usize) {
    if count >= SENDFILE_MIN { (count, 0) } else { (0, count) }
}

impl Peer {
    fn new(stream: TcpStream, token: u64) -> Self {
        let own = usize::try_from(token).unwrap_or(0);
        Self {
            stream,
            skip: 0,
            head: Vec::new(),
            out: Vec::new(),
            sent: 0,
            between: VecDeque::new(),
            writes: false,
            own,
            at: 0,
            rng: Rng::new(1, own),
            token,
            making: None,
        }
    }

    /// One receive, the replies to the calls in it, one send. True: the send buffer is full.
    fn visit(&mut self, buffer: &mut [u8], canned: &Canned, files: &Files) -> io::Result<bool> {
        if self.sent < self.out.len() || !self.between.is_empty() {
            return self.flush(files);
        }
        let got = match self.stream.read(buffer) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(got) => got,
            Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(false),
            Err(e) => return Err(e),
        };
        let mut input = buffer.get(..got).unwrap_or_default();
        loop {
            let skipped = self.skip.min(input.len());
            self.skip -= skipped;
            if self.writes {
                self.write(input.get(..skipped).unwrap_or_default(), files)?;
            }
            input = input.get(skipped..).unwrap_or_default();
            if input.is_empty() {
                break;
            }
            if self.head.is_empty() && input.len() >= needed(input) {
                // the usual case: nothing is copied
                self.begin(input, canned, files)?;
                continue;
            }
            let missing = needed(&self.head).saturating_sub(self.head.len());
            let (now, rest) = input.split_at(missing.min(input.len()));
            self.head.extend_from_slice(now);
            input = rest;
            if self.head.len() >= needed(&self.head) {
                let head = std::mem::take(&mut self.head);
                self.begin(&head, canned, files)?;
                self.skip -= head.len();
            }
        }
        self.flush(files)
    }

    /// Queues the reply to the record that begins with `head`; returns the number of its bytes, those of
    /// the head included, that are to be skipped.
    ///
    /// # Errors
    /// Those of the files.
    fn begin(&mut self, head: &[u8], canned: &Canned, files: &Files) -> io::Result<()> {
        self.skip = record_len(head);
        if is_compound(head) {
            return self.begin_compound(head, canned, files);
        }
        let procedure = word(head, PROCEDURE_AT);
        self.writes = procedure == p::WRITE;
        let count = if procedure == p::READ { asked_count(head) } else { 0 };
        let (sent, kept) = sent_and_kept(count);
        let body = match procedure {
            p::NULL => 0,
            p::GETATTR => 4 + 84,
            p::ACCESS => 4 + POST_OP_ATTR + 4,
            p::LOOKUP => 4 + 4 + 40 + 2 * POST_OP_ATTR,
            p::READ => 4 + POST_OP_ATTR + 12 + kept,
            p::WRITE => 4 + 28 + POST_OP_ATTR + 16,
            p::CREATE => 4 + 8 + 40 + POST_OP_ATTR + 28 + POST_OP_ATTR,
            p::REMOVE => 4 + 28 + POST_OP_ATTR,
            _ => 4 + POST_OP_ATTR,
        };
        self.put_header(head, body + sent);
        // NFS3_OK and zeros: no attributes, no data counted
        let start = self.out.len();
        self.out.extend_from_slice(canned.zeros.get(..body).unwrap_or_default());
        self.fix_lengths(start, procedure, count);
        match procedure {
            p::CREATE => self.making(files)?.make()?,
            p::REMOVE => self.making(files)?.remove()?,
            _ => {}
        }
        self.put_data(count, files)
    }

    /// The same for a COMPOUND.
    fn begin_compound(&mut self, head: &[u8], canned: &Canned, files: &Files) -> io::Result<()> {
        let main = compound::main_op(head);
        self.writes = main.op == op::WRITE;
        let count = if main.op == op::READ { asked_count(head) } else { 0 };
        let body = canned.compounds.to(main);
        self.put_header(head, body.len() + count);
        self.out.extend_from_slice(body);
        if let Some(len) = self.out.last_chunk_mut().filter(|_| count > 0) {
            *len = u32::try_from(count).unwrap_or(0).to_be_bytes();
        }
        let (_, kept) = sent_and_kept(count);
        self.out.extend_from_slice(canned.zeros.get(..kept).unwrap_or_default());
        match main.op {
            op::OPEN if main.creates => self.making(files)?.make()?,
            op::REMOVE => self.making(files)?.remove()?,
            _ => {}
        }
        self.put_data(count, files)
    }

    /// The header of the reply to a call that begins so, and that has a body of so many bytes: REPLY, accepted, no
    /// verifier, SUCCESS.
    fn put_header(&mut self, head: &[u8], body: usize) {
        let len = u32::try_from(HEADER - 4 + body).unwrap_or(u32::MAX) | 0x8000_0000;
        self.out.extend_from_slice(&len.to_be_bytes());
        self.out.extend_from_slice(head.get(4..8).unwrap_or_default());
        self.out.extend_from_slice(&1_u32.to_be_bytes());
        self.out.extend_from_slice(&[0; HEADER - 12]);
    }

    /// The data of a READ: into the room at the end of what is queued, or queued as a range.
    fn put_data(&mut self, count: usize, files: &Files) -> io::Result<()> {
        if count == 0 {
            return Ok(());
        }
        let piece = self.draw(count);
        let (sent, kept) = sent_and_kept(count);
        if sent > 0 {
            self.between.push_back((self.out.len(), piece));
            return Ok(());
        }
        let data = self.out.len() - kept;
        let place = self.out.get_mut(data..).unwrap_or_default();
        files.at(piece.file)?.read_exact_at(place, piece.offset)
    }

    fn making(&mut self, files: &Files) -> io::Result<&mut CreatedFiles> {
        match &mut self.making {
            Some(making) => Ok(making),
            none => Ok(none.insert(CreatedFiles::new(&files.place, self.token)?)),
        }
    }

    /// A range of any file that is read, at a multiple of its length.
    fn draw(&mut self, len: usize) -> Piece {
        let file = self.rng.below(FILES);
        let offset = self.rng.below(FILE_BYTES / len) * len;
        Piece { file, offset: offset as u64, len }
    }

    /// Writes data where that of the WRITE before it ended.
    fn write(&mut self, mut data: &[u8], files: &Files) -> io::Result<()> {
        while !data.is_empty() {
            self.at %= FILE_BYTES;
            let (now, rest) = data.split_at(data.len().min(FILE_BYTES - self.at));
            files.at(self.own)?.write_all_at(now, self.at as u64)?;
            self.at += now.len();
            data = rest;
        }
        Ok(())
    }

    /// Fixes the lengths in the zeros of a body, so that it decodes.
    fn fix_lengths(&mut self, body: usize, procedure: u32, count: usize) {
        let count = u32::try_from(count).unwrap_or(0);
        let mut put = |at: usize, value: u32| {
            if let Some(place) = self.out.get_mut(body + at..).and_then(<[u8]>::first_chunk_mut) {
                *place = value.to_be_bytes();
            }
        };
        let (yes, regular, directory) = (1, 1, 2);
        match procedure {
            p::GETATTR => put(4, regular),
            p::ACCESS => {
                put(4, yes);
                put(8, regular);
            }
            p::LOOKUP => {
                put(4, 40);
                for at in [48, 48 + POST_OP_ATTR] {
                    put(at, yes);
                    put(at + 4, regular);
                }
            }
            p::READ => {
                put(4, yes);
                put(8, regular);
                put(4 + POST_OP_ATTR, count);
                put(12 + POST_OP_ATTR, count);
            }
            p::CREATE => {
                put(4, yes);
                put(8, 40);
                put(52, yes);
                put(56, regular);
                put(52 + POST_OP_ATTR, yes);
                put(80 + POST_OP_ATTR, yes);
                put(84 + POST_OP_ATTR, directory);
            }
            p::REMOVE => {
                put(4, yes);
                put(32, yes);
                put(36, directory);
            }
            p::WRITE => {
                put(4, yes);
                put(32, yes);
                put(36, regular);
                // the request is not known: the smallest reply that is not an error
                put(32 + POST_OP_ATTR, 1);
            }
            _ => {}
        }
    }

    /// Sends what is queued. True: the send buffer is full.
    fn flush(&mut self, files: &Files) -> io::Result<bool> {
        let full = |error: io::Error| match error.kind() {
            ErrorKind::WouldBlock => Ok(true),
            _ => Err(error),
        };
        loop {
            let end = self.between.front().map_or(self.out.len(), |(before, _)| *before);
            if let Some(rest) = self.out.get(self.sent..end).filter(|rest| !rest.is_empty()) {
                let ahead = !self.between.is_empty();
                let send = if ahead { sys::socket::send_ahead } else { sys::socket::send };
                match send(&self.stream, &[IoSlice::new(rest)]) {
                    Ok(sent) => self.sent += sent,
                    Err(error) => return full(error),
                }
                continue;
            }
            let Some((_, left)) = self.between.front_mut() else { break };
            let file = files.at(left.file)?.as_fd();
            match sys::socket::send_file(&self.stream, file, left.offset, left.len) {
                Ok(sent) => {
                    left.offset += sent as u64;
                    left.len -= sent.min(left.len);
                }
                Err(error) => return full(error),
            }
            if left.len == 0 {
                self.between.pop_front();
            }
        }
        self.out.clear();
        self.sent = 0;
        Ok(false)
    }
}

#[cfg(test)]
mod tests {
    use crate::experiments::require_clean;
    use crate::load::{FileSet, LiveCounters, Plan, Version, Workload, run};
    use std::net::TcpListener;
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;
    use std::time::Duration;

    /// The replies decode as those of a server: the client has the same work.
    #[test]
    fn every_canned_reply_decodes() {
        let port = {
            let free = TcpListener::bind("127.0.0.1:0").unwrap();
            free.local_addr().unwrap().port()
        };
        let dir = tempfile::tempdir().unwrap();
        let place = dir.path().to_owned();
        std::thread::spawn(move || super::serve(port, None, &place));
        let server = ([127, 0, 0, 1], port).into();
        let until = std::time::Instant::now() + Duration::from_secs(10);
        while std::net::TcpStream::connect(server).is_err() {
            assert!(std::time::Instant::now() < until, "the bound does not listen");
        }
        let loads = [
            (Workload::Null, 4096),
            (Workload::Getattr, 4096),
            (Workload::Access, 4096),
            (Workload::Lookup, 4096),
            (Workload::Read, 4096),
            (Workload::Read, 1 << 20),
            (Workload::Write, 300_000),
            (Workload::Create, 4096),
            (Workload::OpenClose, 4096),
        ];
        let versions = [Version::V3, Version::V40, Version::V41];
        let all = loads.iter().flat_map(|load| versions.map(|version| (load, version)));
        for ((workload, size), version) in all.filter(|((load, _), v)| load.fits(*v)) {
            let mut plan = Plan::new(server, "/", workload.clone());
            (plan.version, plan.clients, plan.depth, plan.size) = (version, 2, 3, *size);
            (plan.warmup, plan.time) = (Duration::ZERO, Duration::from_millis(200));
            let file_set = Arc::new(FileSet::synthetic(&plan));
            let run =
                run(&plan, &file_set, &LiveCounters::new(1), &AtomicBool::new(false)).unwrap();
            assert!(run.error.is_none(), "{}: {:?}", workload.name(), run.error);
            assert!(run.report.calls > 0 && run.report.errors == 0, "{:?}", run.report);
            assert_eq!(run.report.short_reads, 0, "{}", workload.name());
            if matches!(workload, Workload::Read) {
                let mut short = run;
                short.report.short_reads = 1;
                let failed = require_clean(short, "peer").unwrap_err().to_string();
                assert!(failed.contains("peer: 1 READs of"), "{failed}");
            }
        }
    }
}
