//! How many system calls a call of a client takes between its record and its reply, over a directory in memory: each has the
//! number that it must not pass. They are most of what a call costs, and can be counted while the machine is busy.
//!
//! Each call is made over and over before it is counted: files are open, names are known. A file that is created has a
//! name that never was.

use crate::support::compounds::{Session, operation, plain, putfh};
use crate::support::dispatched::Dispatched;
use crate::support::{at, wire};
use bowline_nfs::OnOff;
use proto::layout::Bytes;
use proto::nfs3::{self, AccessArgs, CreateArgs, CreateHow3, ReaddirplusArgs, Sattr3};
use proto::nfs4::{
    Bitmap4, CloseArgs, Createhow4, Fattr4, LINUX_GETATTR, OpenArgs, OpenHow4, ReadArgs,
    ReaddirArgs, StableHow4, Stateid4, WriteArgs, attr, op,
};
use rpc::Verdict;
use std::os::unix::fs::chown;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;
use sys::testing::single_step::{be_traced, mark};
use sys::testing::system_calls::{name, system_calls};
use tempfile::TempDir;
use testing::{Missing, is_root, skip};
use vfs_local::{LocalFs, LocalOptions, Naming, OpenFiles};
use xdr::Writer;

/// The directory that a child serves.
const DIR: &str = "BOWLINE_TEST_CALLS_IN";
/// The `attr-cache` that it serves it with.
const ATTR_CACHE: &str = "BOWLINE_TEST_CALLS_ATTR_CACHE";
/// It serves it with `preserve-unlinked`.
const PRESERVES: &str = "BOWLINE_TEST_CALLS_PRESERVES";
/// The test that the child runs.
const CHILD: &str = "system_calls::answers_calls_while_it_is_traced";
/// Who calls, and owns everything.
const USER: u32 = 1000;
/// Calls that are not counted before one that is.
const WARM: usize = 3;
/// How full the file system is, which is asked once a second; memory, which later calls have.
const NOT_COUNTED: [&str; 5] = ["fstatfs", "brk", "mmap", "munmap", "mprotect"];
const MODE: Fattr4<'static> =
    Fattr4 { mask: Bitmap4::of(&[attr::MODE]), values: Bytes(&[0, 0, 1, 0xa4]) };

/// The calls, and how many system calls each may take; the second number is where attributes are kept (`attr-cache`).
const COUNTED: [(&str, usize, usize); 22] = [
    ("3 GETATTR", 1, 0),
    ("3 LOOKUP", 2, 0),
    ("3 LOOKUP of no name", 3, 1),
    ("3 ACCESS", 1, 0),
    ("3 READDIRPLUS of 8 names", 12, 0),
    ("3 CREATE of a new name", 5, 5),
    ("3 CREATE of a file that is there", 3, 3),
    ("3 REMOVE", 4, 5),
    ("4.1 SEQUENCE", 0, 0),
    ("4.1 GETATTR", 1, 0),
    ("4.1 LOOKUP, GETATTR", 2, 0),
    ("4.1 LOOKUP of no name", 2, 1),
    ("4.1 ACCESS, GETATTR", 1, 0),
    ("4.1 READDIR of 8 names", 12, 0),
    ("4.1 READ 4 KiB", 2, 2),
    ("4.1 WRITE, GETATTR", 3, 3),
    ("4.1 OPEN, ACCESS, GETATTR", 2, 1),
    ("4.1 CLOSE", 0, 0),
    ("4.1 OPEN of a new name, ACCESS, GETATTR", 5, 5),
    ("4.1 OPEN that creates, of a file that is there, GETATTR", 2, 1),
    ("4.1 OPEN that creates exclusively, GETATTR", 10, 10),
    ("4.1 REMOVE", 4, 5),
];
/// What the file that this call removes is: open. With `preserve-unlinked` it takes so many, and all others take what they take
/// without it.
const REMOVE_OF_OPEN: (&str, usize) = ("4.1 REMOVE", 20);
/// Names in the directory that is listed.
const NAMES: usize = 8;
/// After that time a listing knows an object again that is not open.
const OLD: Duration = Duration::from_secs(3);
/// The option of the second number: longer than the child takes.
const ATTR_CACHE_MS: u32 = 60_000;

struct Served {
    server: Dispatched,
    session: Session,
    /// The file `file`, and the stateid by which it is open.
    file: Vec<u8>,
    stateid: Stateid4,
    /// A directory of [`NAMES`].
    listed: Vec<u8>,
}

impl Served {
    fn new(dir: &Path, attr_cache_ms: u32) -> Self {
        let local = LocalFs::open(dir, &LocalOptions::default(), Arc::new(OpenFiles::new(4096)));
        let mut server =
            Dispatched::keeping_attributes(1 << 20, Arc::new(local.unwrap()), attr_cache_ms);
        server.user = (USER, USER);
        if std::env::var_os(PRESERVES).is_some() {
            server.nfs.settings.set_preserve_unlinked(OnOff::On);
        }
        let find = |name| {
            let found = server.call(nfs3::procedure::LOOKUP, &wire(&at(&server.root, name)));
            let mut r = xdr::Reader::new(&found[24..]);
            assert_eq!(r.u32().unwrap(), 0);
            r.opaque(64).unwrap().to_vec()
        };
        let (file, listed) = (find(b"file"), find(b"listed"));
        let session = Session::new(&server);
        let stateid = session.open(&server, b"file");
        Self { server, session, file, stateid, listed }
    }

    fn answer(&self, record: &[u8]) {
        let mut reply = Writer::new();
        assert_eq!(self.server.answer(record, &mut reply), Verdict::Reply);
        drop(reply);
    }

    fn open(&self, name: &[u8], how: OpenHow4<'_>) -> Vec<u8> {
        operation(op::OPEN, &OpenArgs { how, ..self.session.open_args(name) })
    }

    /// The operations of the nth call of version 4.1 of this kind; what is made for it is not counted.
    fn compound(&self, call: &str, n: usize) -> Vec<Vec<u8>> {
        let (root, file) = (|| putfh(&self.server.root), || putfh(&self.file));
        let name = format!("{call} {n}").into_bytes();
        let (access, attrs) =
            (operation(op::ACCESS, &0x3f_u32), operation(op::GETATTR, &LINUX_GETATTR));
        let unchecked = OpenHow4::Create(Createhow4::Unchecked(MODE));
        let opened = || {
            self.session.run(&self.server, &[root(), self.open(&name, unchecked)]);
        };
        let named = |number, name: &[u8]| operation(number, &Bytes::<255>(name));
        match call {
            "4.1 SEQUENCE" => vec![],
            "4.1 GETATTR" => vec![file(), attrs],
            "4.1 LOOKUP, GETATTR" => {
                vec![root(), named(op::LOOKUP, b"file"), plain(op::GETFH), attrs]
            }
            "4.1 LOOKUP of no name" => vec![root(), named(op::LOOKUP, b"none")],
            "4.1 ACCESS, GETATTR" => vec![file(), access, attrs],
            "4.1 READDIR of 8 names" => {
                let (cookieverf, attrs) = ([0; 8], LINUX_GETATTR);
                let (dircount, maxcount) = (8192, 32_768);
                let args = ReaddirArgs { cookie: 0, cookieverf, dircount, maxcount, attrs };
                vec![putfh(&self.listed), operation(op::READDIR, &args)]
            }
            "4.1 READ 4 KiB" => {
                let args = ReadArgs { stateid: self.stateid, offset: 0, count: 4096 };
                vec![file(), operation(op::READ, &args)]
            }
            "4.1 WRITE, GETATTR" => {
                let (stateid, data) = (self.stateid, Bytes(&[1; 512][..]));
                let args = WriteArgs { stateid, offset: 0, stable: StableHow4::Unstable, data };
                vec![file(), operation(op::WRITE, &args), attrs]
            }
            "4.1 OPEN, ACCESS, GETATTR" => {
                let open = self.open(b"file", OpenHow4::NoCreate);
                vec![root(), open, plain(op::GETFH), access, attrs]
            }
            "4.1 CLOSE" => {
                let opened = self.session.open(&self.server, b"file");
                let close = CloseArgs { seqid: 0, stateid: opened };
                vec![file(), operation(op::CLOSE, &close)]
            }
            "4.1 OPEN of a new name, ACCESS, GETATTR" => {
                vec![root(), self.open(&name, unchecked), plain(op::GETFH), access, attrs]
            }
            "4.1 OPEN that creates, of a file that is there, GETATTR" => {
                vec![root(), self.open(b"file", unchecked), plain(op::GETFH), attrs]
            }
            "4.1 OPEN that creates exclusively, GETATTR" => {
                let how = OpenHow4::Create(Createhow4::Exclusive41([7; 8], MODE));
                vec![root(), self.open(&name, how), plain(op::GETFH), attrs]
            }
            "4.1 REMOVE" => {
                opened();
                vec![root(), named(op::REMOVE, &name)]
            }
            other => panic!("{other}?"),
        }
    }

    /// The record of the nth call of this kind.
    fn record(&self, call: &str, n: usize) -> Vec<u8> {
        let name = format!("{call} {n}").into_bytes();
        // no two are the same: a reply is kept
        let create = |name: &[u8]| {
            let mode = 0o640 + u32::try_from(n).unwrap();
            let set = Sattr3 { mode: Some(mode), ..Sattr3::default() };
            let how = CreateHow3::Unchecked(set);
            let args = CreateArgs { place: at(&self.server.root, name), how };
            self.server.record(nfs3::procedure::CREATE, &wire(&args))
        };
        let lookup = |name: &[u8]| {
            self.server.record(nfs3::procedure::LOOKUP, &wire(&at(&self.server.root, name)))
        };
        match call {
            "3 GETATTR" => {
                let file: nfs3::Fh<'_> = Bytes(&self.file);
                self.server.record(nfs3::procedure::GETATTR, &wire(&file))
            }
            "3 LOOKUP" => lookup(b"file"),
            "3 LOOKUP of no name" => lookup(b"none"),
            "3 ACCESS" => {
                let args = AccessArgs { object: Bytes(&self.file), access: 0x3f };
                self.server.record(nfs3::procedure::ACCESS, &wire(&args))
            }
            "3 READDIRPLUS of 8 names" => {
                let (dir, dircount, maxcount) = (Bytes(self.listed.as_slice()), 8192, 32_768);
                let args = ReaddirplusArgs { dir, cookie: 0, verf: [0; 8], dircount, maxcount };
                self.server.record(nfs3::procedure::READDIRPLUS, &wire(&args))
            }
            "3 CREATE of a new name" => create(&name),
            "3 CREATE of a file that is there" => create(b"file"),
            "3 REMOVE" => {
                self.answer(&create(&name));
                let args = at(&self.server.root, &name);
                self.server.record(nfs3::procedure::REMOVE, &wire(&args))
            }
            call => self.session.record(&self.server, &self.compound(call, n)),
        }
    }
}

#[test]
fn answers_calls_while_it_is_traced() {
    let Some(dir) = std::env::var_os(DIR) else { return };
    let attr_cache = std::env::var(ATTR_CACHE).unwrap();
    let served = Served::new(Path::new(&dir), attr_cache.parse().unwrap());
    be_traced().unwrap();
    for (call, ..) in COUNTED {
        for n in 0..WARM {
            served.answer(&served.record(call, n));
        }
        let record = served.record(call, WARM);
        let mut reply = Writer::new();
        mark();
        let verdict = served.server.answer(&record, &mut reply);
        mark();
        assert_eq!(verdict, Verdict::Reply);
        let expected: u32 = if call.contains("no name") { 2 } else { 0 };
        let status = reply.bytes().get(24..28).unwrap();
        assert_eq!(status, expected.to_be_bytes(), "{call}");
    }
}

/// What a child serves.
fn directory() -> TempDir {
    let dir = tempfile::tempdir_in("/dev/shm").unwrap();
    let file = dir.path().join("file");
    std::fs::write(&file, vec![7; 65_536]).unwrap();
    let listed = dir.path().join("listed");
    std::fs::create_dir(&listed).unwrap();
    for n in 0..NAMES {
        std::fs::write(listed.join(format!("entry{n}")), b"").unwrap();
    }
    for made in [dir.path(), &file, &listed] {
        chown(made, Some(USER), Some(USER)).unwrap();
    }
    let open = || LocalFs::open(dir.path(), &LocalOptions::default(), Arc::new(OpenFiles::new(64)));
    assert_eq!(open().unwrap().naming(), Naming::Handles);
    dir
}

#[test]
fn calls_take_few_system_calls() {
    if !cfg!(target_arch = "x86_64") || !is_root() {
        skip(Missing::Root, "x86_64 and a server that finds files by handle");
        return;
    }
    // a name that is made never was: each child has a directory of its own
    let dirs = [(0, false), (ATTR_CACHE_MS, false), (0, true)]
        .map(|(attr_cache_ms, preserves)| (attr_cache_ms, preserves, directory()));
    std::thread::sleep(OLD);
    let mut beyond = Vec::new();
    for (attr_cache_ms, preserves, dir) in &dirs {
        let mut child = Command::new(std::env::current_exe().unwrap());
        child.args(["--exact", CHILD, "--test-threads=1"]).env(DIR, dir.path());
        child.env(ATTR_CACHE, attr_cache_ms.to_string());
        if *preserves {
            child.env(PRESERVES, "1");
        }
        let mut child = child.stdout(Stdio::null()).spawn().unwrap();
        let counted = system_calls(&mut child, COUNTED.len()).unwrap();
        for ((call, most, most_with_kept), made) in COUNTED.into_iter().zip(counted) {
            let (of_open, most_of_open) = REMOVE_OF_OPEN;
            let most = match attr_cache_ms {
                0 if *preserves && call == of_open => most_of_open,
                0 => most,
                _ => most_with_kept,
            };
            let mut names: Vec<String> = made.iter().map(|number| name(*number)).collect();
            names.retain(|name| !NOT_COUNTED.contains(&name.as_str()));
            let (count, names_made) = (names.len(), names.join(" "));
            println!(
                "{call}, attr-cache={attr_cache_ms}, {preserves}: {count} of at most {most}: {names_made}"
            );
            if count > most {
                beyond.push((call, *attr_cache_ms, *preserves));
            }
        }
    }
    assert!(beyond.is_empty(), "more system calls than before: {beyond:?}");
}
