//! How many instructions a hot call takes in user space, from its record to its reply over a Linux
//! directory, each with the limit that it must not pass. Processes under Callgrind make the calls, each over a server and a directory of
//! its own.
//!
//! Invariants:
//! - One call is counted and nothing else. What it needs is made in [`ready`], where calls of its
//!   kind are answered first: files are open, names are known, the reply's buffer has grown, and the
//!   reply cache is full.
//! - It goes the way that it goes in a server: an ordinary user calls, changes are on disk before they
//!   are answered, replies of calls that must not run twice are kept.
//! - It does not go the way of an error: its reply is one of success, and as long as that of the call
//!   before it ([`Shape`]).
//! - It does not meet the system calls that Valgrind 3.19 refuses, openat2(2) and cachestat(2): a
//!   warm call opens by name what it makes and nothing else, and a range of less than four pages is
//!   not counted ([`sys::io::is_cached`]).
//!
//! Seeded hashes decide where a call's keys lie in the tables: one process in ten counts 1 % more, and a rare one 2 %
//! (of CREATE, from 7,700: up to 8,000). So each call is counted in [`PROCESSES`] processes, and the median is what counts; in CI in one,
//! if that is within the limit. A limit is 3 % more than the median was when that was last looked at. A change that makes a call longer has
//! to say so here; one that makes it shorter takes the limit down.
//!
//! Before version 4, GETATTR took 1,961, LOOKUP 3,819, ACCESS 2,342, WRITE 3,115. Exports inside of exports, the queue
//! of calls whose export hangs, and the channel that a call came by (`xprtsec`) had made each 40 to 100 longer. That
//! was won back elsewhere: the ends of a call go by reference; objects and attributes are used where they were made
//! instead of being moved; XDR reads and writes a word without a conditional move.
//!
//! Before that each hot call is run one instruction at a time, and must lock none on a shared line ([`locked`]). Both are in one
//! program, because linking it with all optimisations takes longer than running it.
//!
//! `./do instructions` counts. Where the instructions of a call go:
//!
//! ```text
//! callgrind_annotate --auto=no --inclusive=yes target/tmp/instructions/getattr.1.out
//! ```
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a failure is the measurement's, the counts are its output"
)]

#[path = "instructions/locked.rs"]
mod locked;

#[path = "instructions/locks.rs"]
mod locks;

#[path = "instructions/version4.rs"]
mod version4;

#[path = "../tests/support/mod.rs"]
mod support;

use proto::nfs3::{
    AccessArgs, Bytes, CommitArgs, CreateArgs, CreateHow3, Fh, ReadArgs, ReaddirArgs,
    ReaddirplusArgs, Sattr3, StableHow, WriteArgs, procedure as p,
};
use rpc::Verdict;
use std::ops::RangeInclusive;
use std::os::unix::fs::chown;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::time::Duration;
use support::dispatched::Dispatched;
use support::{at, wire};
use tempfile::TempDir;
use testing::{Missing, is_root, skip};
use vfs_local::{LocalFs, LocalOptions, Naming, OpenFiles};
use xdr::{Reader, Writer};

/// Who calls, and owns everything.
const USER: u32 = 1000;
/// Names in the directory that is listed.
const NAMES: usize = 48;
/// A reply cache that some dozens of calls fill: a server's is full most of its life, and a small
/// one's tables are as large as they will be.
const REPLY_CACHE_BYTES: usize = 10_240;
/// Calls that surely fill it.
const FILLING: u32 = 256;
/// After that time READDIRPLUS knows an object again that is not open.
const OLD: Duration = Duration::from_secs(3);

/// Processes in which a call is counted; an odd number.
const PROCESSES: usize = 5;

/// A call that is counted.
struct Counted {
    name: &'static str,
    /// Its instructions; one more in the median fails the run.
    limit: u64,
    calls: fn(&Served) -> Calls,
    /// The export's `attr-cache`.
    attr_cache_ms: u32,
}

const fn counted(name: &'static str, limit: u64, calls: fn(&Served) -> Calls) -> Counted {
    Counted { name, limit, calls, attr_cache_ms: 0 }
}

/// The same where attributes are kept for longer than the process lives.
const fn kept(name: &'static str, limit: u64, calls: fn(&Served) -> Calls) -> Counted {
    Counted { attr_cache_ms: 60_000, ..counted(name, limit, calls) }
}

const COUNTED: [Counted; 35] = [
    counted("null", 575, null),
    counted("getattr", 1_925, getattr),
    counted("lookup", 3_770, lookup),
    counted("access", 2_245, access),
    counted("read", 2_450, read),
    counted("read_range", 2_530, read_range),
    counted("write", 2_970, write),
    counted("commit", 2_395, commit),
    counted("create", 7_970, create),
    counted("remove", 4_945, remove),
    counted("readdir", 15_955, readdir),
    counted("readdirplus", 50_420, readdirplus),
    counted("lock", 16_685, locks::lock),
    counted("unlock", 15_190, locks::unlock),
    counted("sequence4", 1_900, version4::sequence),
    counted("getattr4", 4_215, version4::getattr),
    counted("lookup4", 6_285, version4::lookup),
    counted("access4", 4_025, version4::access),
    counted("access4_attrs", 4_480, version4::access_getattr),
    counted("read4", 4_480, version4::read),
    counted("read4_range", 4_585, version4::read_range),
    counted("write4", 5_145, version4::write),
    counted("open_close4", 10_600, version4::open_close),
    counted("create4", 14_160, version4::create),
    counted("close4", 5_335, version4::close),
    counted("remove4", 5_455, version4::remove),
    counted("shared_open4", 15_295, version4::open_close_shared),
    counted("readdir4", 40_920, version4::readdir),
    counted("readdir4_whole", 53_390, version4::readdir_whole),
    kept("getattr_kept", 2_155, getattr),
    kept("lookup_kept", 3_935, lookup),
    kept("access_kept", 2_450, access),
    kept("readdir_kept", 17_550, readdir),
    kept("readdirplus_kept", 49_340, readdirplus),
    kept("readdir4_kept", 39_690, version4::readdir),
];

/// In the environment of a process that is counted: the names of its calls.
const CHILD: &str = "BOWLINE_COUNTED";

/// The function that Callgrind counts, by its name in the program.
#[inline(never)]
fn counted_call(ready: &mut Ready) {
    ready.verdict = Some(ready.server.answer(&ready.record, &mut ready.reply));
}

/// The function at whose end Callgrind writes what it has counted.
#[inline(never)]
fn write_counts(ready: &Ready) {
    std::hint::black_box(ready);
}

/// A server's directory, and what is in it.
struct Served {
    server: Dispatched,
    /// Of 64 KiB.
    file: Vec<u8>,
    dir: TempDir,
}

/// The records that are answered before, the last of them of the kind that is counted, and the one
/// that is counted.
struct Calls {
    before: Vec<Vec<u8>>,
    counted: Vec<u8>,
    /// The shortest range of a file that a reply takes.
    range_min: Option<usize>,
}

/// All that a call needs.
struct Ready {
    server: Dispatched,
    record: Vec<u8>,
    reply: Writer,
    verdict: Option<Verdict>,
    /// Of the reply before.
    shape: Shape,
    /// Lives as long as what is served.
    _dir: TempDir,
}

/// What two replies to calls of one kind have in common.
#[derive(Debug, PartialEq, Eq)]
struct Shape {
    len: usize,
    ranges: bool,
}

impl Shape {
    /// Of a reply of success.
    fn of(reply: &Writer) -> Self {
        // the RPC header says success, and so does the procedure, if it has anything to say
        let ends = reply.bytes().get(20..).unwrap_or_default();
        assert!(ends.len() >= 4 && ends.iter().take(8).all(|byte| *byte == 0), "the call failed");
        Self { len: reply.total_len(), ranges: reply.has_ranges() }
    }
}

/// A directory in which there is a file, served to an ordinary user.
fn serve(attr_cache_ms: u32) -> Served {
    let dir = place();
    let path = dir.path().join("file");
    std::fs::write(&path, vec![7; 65_536]).unwrap();
    for made in [dir.path(), &path] {
        chown(made, Some(USER), Some(USER)).unwrap();
    }
    let backend = Arc::new(local(&dir));
    let mut server = Dispatched::keeping_attributes(REPLY_CACHE_BYTES, backend, attr_cache_ms);
    server.user = (USER, USER);
    let found = server.call(p::LOOKUP, &wire(&at(&server.root, b"file")));
    let mut r = Reader::new(&found[24..]);
    assert_eq!(r.u32().unwrap(), 0);
    let file = r.opaque(64).unwrap().to_vec();
    Served { server, file, dir }
}

/// Beside the build, where files have handles more often than in a directory for temporary ones.
fn place() -> TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

fn local(dir: &TempDir) -> LocalFs {
    let files = Arc::new(OpenFiles::new(4096));
    LocalFs::open(dir.path(), &LocalOptions::default(), files).unwrap()
}

/// Everything up to the call that is counted.
fn ready(call: &Counted) -> Ready {
    let served = serve(call.attr_cache_ms);
    served.fill_replies();
    let Calls { before, counted, range_min } = (call.calls)(&served);
    let mut reply = Writer::new();
    reply.take_ranges(range_min);
    let mut shape = None;
    for record in before {
        reply.clear();
        assert_eq!(served.server.answer(&record, &mut reply), Verdict::Reply);
        shape = Some(Shape::of(&reply));
    }
    reply.clear();
    let shape = shape.unwrap();
    assert_eq!(shape.ranges, range_min.is_some(), "a range is given where it is wanted");
    let Served { server, dir, .. } = served;
    Ready { server, record: counted, reply, verdict: None, shape, _dir: dir }
}

/// Whether the call that was counted did what the one before it did.
fn check(done: &Ready) {
    // Callgrind, in the same thread, writes its counts as the user that the thread is
    sys::identity::act_as_process().unwrap();
    assert_eq!(done.verdict, Some(Verdict::Reply));
    assert_eq!(Shape::of(&done.reply), done.shape);
}

impl Served {
    /// The same call again and again.
    fn repeated(&self, procedure: u32, args: &[u8]) -> Calls {
        let record = self.server.record(procedure, args);
        Calls { before: vec![record.clone(), record.clone()], counted: record, range_min: None }
    }

    fn create(&self, name: &[u8]) -> Vec<u8> {
        let set = Sattr3 { mode: Some(0o644), ..Sattr3::default() };
        let how = CreateHow3::Unchecked(set);
        self.server
            .record(p::CREATE, &wire(&CreateArgs { place: at(&self.server.root, name), how }))
    }

    fn remove(&self, name: &[u8]) -> Vec<u8> {
        self.server.record(p::REMOVE, &wire(&at(&self.server.root, name)))
    }

    /// Fills the reply cache, with replies that there is no such name.
    fn fill_replies(&self) {
        let mut reply = Writer::new();
        for n in 0..FILLING {
            let record = self.remove(format!("no such {n}").as_bytes());
            assert_eq!(self.server.answer(&record, &mut reply), Verdict::Reply);
            reply.clear();
        }
    }

    /// Makes the names of a listing.
    fn fill_directory(&self) {
        for n in 0..NAMES {
            std::fs::write(self.dir.path().join(format!("entry{n}")), b"").unwrap();
        }
    }
}

fn null(served: &Served) -> Calls {
    served.repeated(p::NULL, &[])
}

fn getattr(served: &Served) -> Calls {
    let file: Fh<'_> = Bytes(&served.file);
    served.repeated(p::GETATTR, &wire(&file))
}

fn lookup(served: &Served) -> Calls {
    served.repeated(p::LOOKUP, &wire(&at(&served.server.root, b"file")))
}

fn access(served: &Served) -> Calls {
    let args = AccessArgs { object: Bytes(&served.file), access: 0x3f };
    served.repeated(p::ACCESS, &wire(&args))
}

/// 4 KiB, copied.
fn read(served: &Served) -> Calls {
    let args = ReadArgs { file: Bytes(&served.file), offset: 4096, count: 4096 };
    served.repeated(p::READ, &wire(&args))
}

/// 8 KiB, as a range of the file.
fn read_range(served: &Served) -> Calls {
    let args = ReadArgs { file: Bytes(&served.file), offset: 4096, count: 8192 };
    Calls { range_min: Some(1), ..served.repeated(p::READ, &wire(&args)) }
}

/// 512 bytes, of which the disk need not know yet.
fn write(served: &Served) -> Calls {
    let (file, stable) = (Bytes(served.file.as_slice()), StableHow::Unstable);
    let args = WriteArgs { file, offset: 0, stable, data: Bytes(&[1; 512]) };
    served.repeated(p::WRITE, &wire(&args))
}

/// Of a file of which everything is on disk.
fn commit(served: &Served) -> Calls {
    let args = CommitArgs { file: Bytes(&served.file), offset: 0, count: 0 };
    let mut calls = served.repeated(p::COMMIT, &wire(&args));
    calls.before.splice(..0, write(served).before);
    calls
}

fn create(served: &Served) -> Calls {
    let before = [b"one", b"two"].map(|name| served.create(name)).to_vec();
    Calls { before, counted: served.create(b"six"), range_min: None }
}

fn remove(served: &Served) -> Calls {
    let before = vec![served.create(b"one"), served.create(b"two"), served.remove(b"one")];
    Calls { before, counted: served.remove(b"two"), range_min: None }
}

fn readdir(served: &Served) -> Calls {
    served.fill_directory();
    let args =
        ReaddirArgs { dir: Bytes(&served.server.root), cookie: 0, verf: [0; 8], count: 8192 };
    served.repeated(p::READDIR, &wire(&args))
}

fn readdirplus(served: &Served) -> Calls {
    served.fill_directory();
    std::thread::sleep(OLD);
    let dir = Bytes(served.server.root.as_slice());
    let args = ReaddirplusArgs { dir, cookie: 0, verf: [0; 8], dircount: 8192, maxcount: 32_768 };
    served.repeated(p::READDIRPLUS, &wire(&args))
}

/// Runs calls one after the other in a process under Callgrind; the numbers of their instructions, in their order. Callgrind writes a
/// file after each call, and counts from 0 again.
fn count(calls: &[&Counted], process: usize, folder: &Path) -> Vec<u64> {
    let names: Vec<_> = calls.iter().map(|call| call.name).collect();
    let part = |n: usize| folder.join(format!("{}.{process}.out.{n}", names[0]));
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--cache-sim=no", "--collect-atstart=no"])
        .args(["--toggle-collect=*counted_call*", "--dump-after=*write_counts*"])
        .arg(format!("--callgrind-out-file={}", part(1).with_extension("").display()))
        .arg(std::env::current_exe().unwrap())
        .env(CHILD, names.join(","))
        .output()
        .unwrap_or_else(|error| panic!("valgrind does not start ({error}): install it"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{names:?}: {}\n{said}", output.status);
    let counted = names.iter().enumerate().map(|(n, name)| {
        let counts = folder.join(format!("{name}.{process}.out"));
        std::fs::rename(part(n + 1), &counts)
            .unwrap_or_else(|error| panic!("{name}: {error}\n{said}"));
        let text = std::fs::read_to_string(&counts).unwrap();
        let total = text.lines().find_map(|line| line.strip_prefix("totals: "));
        let total = total.unwrap_or_else(|| panic!("{}: no totals\n{said}", counts.display()));
        total.trim().parse().unwrap()
    });
    counted.collect()
}

/// Counts calls in so many processes, half of the calls beside the other half; of each call its counts.
fn count_in(processes: RangeInclusive<usize>, calls: &[&Counted], folder: &Path) -> Vec<Vec<u64>> {
    let count_half = |half: &[&Counted]| {
        let mut counts = vec![Vec::new(); half.len()];
        for process in processes.clone().filter(|_| !half.is_empty()) {
            for (of_call, counted) in counts.iter_mut().zip(count(half, process, folder)) {
                of_call.push(counted);
            }
        }
        counts
    };
    let (left, right) = calls.split_at(calls.len() / 2);
    std::thread::scope(|scope| {
        let beside = scope.spawn(|| count_half(right));
        let mut counts = count_half(left);
        counts.extend(beside.join().unwrap());
        counts
    })
}

/// Counts all calls; whether each is within its limit.
fn count_all() -> bool {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("instructions");
    std::fs::create_dir_all(&folder).unwrap();
    let calls: Vec<_> = COUNTED.iter().collect();
    let processes = if std::env::var_os("CI").is_some() { 1 } else { PROCESSES };
    let mut counts = count_in(1..=processes, &calls, &folder);
    if processes < PROCESSES {
        let beyond = |n: &usize| median(&counts[*n]) > calls[*n].limit;
        let again: Vec<usize> = (0..calls.len()).filter(beyond).collect();
        let calls: Vec<_> = again.iter().map(|n| calls[*n]).collect();
        let more = count_in(processes + 1..=PROCESSES, &calls, &folder);
        for (n, more) in again.into_iter().zip(more) {
            counts[n].extend(more);
        }
    }
    let mut within = true;
    for (Counted { name, limit, .. }, counts) in COUNTED.iter().zip(&counts) {
        let (median, most) = (median(counts), counts.iter().max().unwrap());
        // nothing was counted if the function's name was not found
        let holds = (1..=*limit).contains(&median);
        let verdict = if holds { "" } else { "  OUTSIDE OF ITS LIMIT" };
        println!(
            "{name:16} {median:6} instructions, at most {limit:6} (a process: {most}){verdict}"
        );
        within &= holds;
    }
    within
}

fn median(counts: &[u64]) -> u64 {
    let mut sorted = counts.to_vec();
    sorted.sort_unstable();
    sorted[sorted.len() / 2]
}

fn main() -> ExitCode {
    if let Ok(names) = std::env::var(CHILD) {
        for name in names.split(',') {
            let call = COUNTED.iter().find(|call| call.name == name).unwrap();
            let mut ready = ready(call);
            counted_call(&mut ready);
            check(&ready);
            write_counts(&ready);
        }
        return ExitCode::SUCCESS;
    }
    if locked::run_as_child() {
        return ExitCode::SUCCESS;
    }
    if !std::env::args().any(|arg| arg == "--bench") {
        skip(Missing::Purpose, "only `cargo bench` counts instructions, under Valgrind");
    } else if !cfg!(target_arch = "x86_64") || !is_root() {
        skip(Missing::Root, "x86_64 and a server that finds files by handle");
    } else if local(&place()).naming() != Naming::Handles {
        skip(Missing::FileSystem, "file handles (name_to_handle_at)");
    } else {
        locked::check_all();
        if !std::env::args().any(|arg| arg == "locked") && !count_all() {
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}
