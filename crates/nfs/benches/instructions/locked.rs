//! No locked instruction and no store on a shared line: a hot call, from its record to its reply over a Linux
//! directory, is run one instruction at a time on two threads. What locked instructions there are
//! (leaving an epoch of the table of open files) must be on lines that only one of the two touches.
//! The same holds for all lines that it writes, by any instruction.
//! The one exception is WRITE, which holds its file by a reference count and counts itself for COMMIT.
//!
//! The program starts itself again as the traced child, whose threads are only those that are stepped.

use super::support::compounds::{Session, operation, putfh};
use super::support::dispatched::Dispatched;
use super::support::{at, wire};
use proto::nfs3::{AccessArgs, Bytes, ReadArgs, StableHow, WriteArgs, procedure as p};
use proto::nfs4::{self, Stateid4, op};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;
use sys::testing::single_step::{Executed, be_traced, mark, watch};
use testing::{Missing, skip};
use vfs_local::{LocalFs, LocalOptions, OpenFiles};
use xdr::{Reader, Writer};

const CHILD: &str = "BOWLINE_STEPPED";
/// The calls that are stepped, on each of two threads.
const CALLS: [&str; 12] = [
    "control",
    "GETATTR",
    "LOOKUP",
    "ACCESS",
    "READ",
    "WRITE",
    "SEQUENCE of version 4.1",
    "GETATTR of version 4.1",
    "LOOKUP of version 4.1",
    "ACCESS of version 4.1",
    "READ of version 4.1",
    "WRITE of version 4.1",
];
/// Bytes of a cache line, two of which the processor fetches together.
const LINE: u64 = 128;

/// A run takes what other threads of the program store meanwhile for the call's, and a call of version 4.1 that sees the clock's
/// next tick first stores when the client was last heard of. So a line counts as written by both threads if each of
/// so many runs says so: on a busy machine a step takes so long that most runs of a call see a tick.
const RUNS: usize = 15;

/// Runs the calls if this process is the traced child; whether it is.
pub fn run_as_child() -> bool {
    let Ok(run) = std::env::var(CHILD) else { return false };
    // the ticks of the clock fall on other calls in each run
    std::thread::sleep(Duration::from_millis(170) * run.parse().unwrap());
    child();
    true
}

/// Steps each call, in up to [`RUNS`] processes.
pub fn check_all() {
    let mut written_by_both = [usize::MAX; CALLS.len()];
    for run in 0..RUNS {
        let pieces = match trace(run) {
            Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
                skip(Missing::Root, format_args!("to trace a process: {error}"));
                return;
            }
            traced => traced.unwrap(),
        };
        assert_eq!(pieces.len(), 2 * CALLS.len());
        let (first, second) = pieces.split_at(CALLS.len());
        for (index, (a, b)) in first.iter().zip(second).enumerate() {
            let both = check(CALLS[index], a, b);
            written_by_both[index] = written_by_both[index].min(both);
        }
        if excess(&written_by_both).is_none() {
            break;
        }
    }
    assert_eq!(written_by_both[0], 1, "a shared counter is seen to be written by both");
    let excess = excess(&written_by_both);
    assert!(excess.is_none(), "writes lines that the other thread's call writes: {excess:?}");
}

/// The first call with more lines written by both than it may have, and how many.
fn excess(written_by_both: &[usize]) -> Option<(&'static str, usize)> {
    let calls = CALLS.into_iter().zip(written_by_both.iter().copied());
    calls.into_iter().find(|(call, lines)| {
        let allowed = match *call {
            "control" => 1,
            call if call.starts_with("WRITE") => 2,
            _ => 0,
        };
        *lines > allowed
    })
}

/// Runs this program again as the child, under the tracer.
fn trace(run: usize) -> std::io::Result<Vec<Executed>> {
    let program = std::env::current_exe()?;
    // waited for by `watch`, which sees it end
    let child = std::process::Command::new(program).env(CHILD, run.to_string()).spawn()?;
    watch(child.id())
}

/// Checks what a call locks on each of two threads; how many lines both wrote.
fn check(call: &str, a: &Executed, b: &Executed) -> usize {
    let words = |seen: &Executed| -> BTreeSet<u64> { seen.locked.iter().copied().collect() };
    let lines =
        |words: &BTreeSet<u64>| -> BTreeSet<u64> { words.iter().map(|word| word / LINE).collect() };
    let (locked_a, locked_b) = (words(a), words(b));
    let shared: Vec<u64> = lines(&locked_a).intersection(&lines(&locked_b)).copied().collect();
    let both: Vec<u64> = lines(&a.changed).intersection(&lines(&b.changed)).copied().collect();
    println!(
        "{call}: {} instructions, {} locked, {} lines shared; {} lines written, {} of them by both",
        a.instructions,
        a.locked.len(),
        shared.len(),
        lines(&a.changed).len(),
        both.len()
    );
    if std::env::var_os("BOWLINE_SHOW").is_some() {
        println!("  locked: {:x?}\n  locked: {:x?}", a.locked, b.locked);
        let of_both = |word: &&u64| both.contains(&(*word / LINE));
        for seen in [a, b] {
            let words: Vec<&u64> = seen.changed.iter().filter(of_both).collect();
            println!("  written: {words:x?}");
        }
    }
    if call == "control" {
        assert_eq!(shared.len(), 1, "a shared counter is seen as one");
        return both.len();
    }
    assert!(a.instructions > 300, "the call was made");
    // a WRITE may sleep in the disk, so it counts as a user of its file meanwhile; and as a change of it, when it
    // begins and when it ends. On how many lines these three words lie is up to the allocator
    let allowed = if call.starts_with("WRITE") { 3 } else { 0 };
    let users = locked_a.intersection(&locked_b).count();
    assert!(shared.len() <= allowed, "{call} locks shared lines: {shared:x?}");
    assert!(users <= allowed, "{call} locks {users} words that the other locks");
    both.len()
}

static CONTROL: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);

/// Serves itself: each call on each of two threads, the last time under the tracer.
fn child() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["file", "opened"] {
        std::fs::write(dir.path().join(name), vec![7; 65_536]).unwrap();
    }
    let files = Arc::new(OpenFiles::new(4096));
    let local = LocalFs::open(dir.path(), &LocalOptions::default(), files).unwrap();
    let server = Arc::new(Dispatched::over(Arc::new(local)));
    let handle_of = |name: &[u8]| {
        let found = server.call(p::LOOKUP, &wire(&at(&server.root, name)));
        let mut r = Reader::new(&found[24..]);
        assert_eq!(r.u32().unwrap(), 0);
        r.opaque(64).unwrap().to_vec()
    };
    let (file, opened) = (handle_of(b"file"), handle_of(b"opened"));
    let session = Session::new(&server);
    let stateid = session.open(&server, b"opened");
    let rounds = |session: &Session| {
        [(); ROUNDS].map(|()| records(&server, (&file, &opened), session, stateid))
    };
    // each thread has a slot of the session, as a client's calls have
    let (ours, theirs) = (rounds(&session.on_slot(1)), rounds(&session.on_slot(2)));
    let (go, wait) = channel::<()>();
    let (tell, done) = channel::<()>();
    let work = move |server: &Dispatched, rounds: &[Vec<Vec<u8>>; ROUNDS]| {
        let [warm @ .., calls] = rounds;
        let mut reply = Writer::new();
        for record in warm.iter().flatten() {
            server.answer(record, &mut reply);
            reply.clear();
        }
        be_traced().unwrap();
        mark();
        CONTROL.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        mark();
        for record in calls {
            mark();
            server.answer(record, &mut reply);
            mark();
            let status = reply.bytes().get(24..28).unwrap();
            assert_eq!(status, [0; 4], "the call failed");
            reply.clear();
        }
    };
    // both live until both have been stepped, so that neither takes over the other's places
    let shared = Arc::clone(&server);
    let first = std::thread::spawn(move || {
        work(&shared, &theirs);
        tell.send(()).unwrap();
        wait.recv().ok();
    });
    // the tracer takes one thread after the other
    done.recv().unwrap();
    let second = std::thread::spawn(move || work(&server, &ours));
    second.join().unwrap();
    drop(go);
    first.join().unwrap();
}

/// How often each call is made, the last time under the tracer.
const ROUNDS: usize = 3;

/// One record of each call but the first.
fn records(
    server: &Dispatched,
    (file, opened): (&[u8], &[u8]),
    session: &Session,
    stateid: Stateid4,
) -> Vec<Vec<u8>> {
    let file = Bytes(file);
    let stable = StableHow::Unstable;
    let data = Bytes(&[1; 512][..]);
    let write = nfs4::WriteArgs { stateid, offset: 0, stable: nfs4::StableHow4::Unstable, data };
    let compound = |operations: &[Vec<u8>]| session.record(server, operations);
    let on_file = |one: Vec<u8>| compound(&[putfh(opened), one]);
    vec![
        server.record(p::GETATTR, &wire(&file)),
        server.record(p::LOOKUP, &wire(&at(&server.root, b"file"))),
        server.record(p::ACCESS, &wire(&AccessArgs { object: file, access: 0x3f })),
        server.record(p::READ, &wire(&ReadArgs { file, offset: 4096, count: 2048 })),
        server.record(
            p::WRITE,
            &wire(&WriteArgs { file, offset: 0, stable, data: Bytes(&[1; 512]) }),
        ),
        compound(&[]),
        on_file(operation(op::GETATTR, &nfs4::LINUX_GETATTR)),
        compound(&[putfh(&server.root), operation(op::LOOKUP, &Bytes::<255>(b"file"))]),
        on_file(operation(op::ACCESS, &0x3f_u32)),
        on_file(operation(op::READ, &nfs4::ReadArgs { stateid, offset: 4096, count: 2048 })),
        on_file(operation(op::WRITE, &write)),
    ]
}
