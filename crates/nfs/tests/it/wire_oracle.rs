//! Version 3 on a Linux directory against version 3 on the file system in memory, through the wire:
//! the same records in the same order get the same replies, but for what differs by nature:
//! handles, file ids, times, cookies, storage.
//!
//! What is compared below the wire is in vfs-local's `oracle`; here arguments are garbage, names are
//! odd, handles are old, and each reply is read to its end.

use crate::support::dispatched::Dispatched;
use crate::support::{at, wire};
use proptest::prelude::*;
use proto::nfs3::{
    AccessArgs, AccessOk, Bytes, CommitArgs, CommitOk, CreateArgs, CreateHow3, Fattr3, FileType3,
    FsinfoOk, LinkArgs, LinkRes, LookupOk, MadeOk, MkdirArgs, MknodArgs, MknodData3, NoBody,
    PostOpAttr, ReadArgs, ReadOk, ReaddirArgs, ReaddirOk, ReaddirplusArgs, ReaddirplusOk,
    ReadlinkOk, RenameArgs, RenameRes, Res, Sattr3, SetattrArgs, StableHow, SymlinkArgs, WccData,
    WriteArgs, WriteOk, procedure as p,
};
use rpc::Reply;
use std::sync::Arc;
use vfs_local::{LocalFs, LocalOptions, OpenFiles};
use vfs_mem::{MemFs, MemOptions};
use xdr::Decode;

/// Seconds without a call after which nothing is kept open.
const REST_S: u32 = 100;

/// Which handle, among those that both sides have given.
type HandleIndex = usize;

#[derive(Debug, Clone)]
enum Op {
    Getattr(HandleIndex),
    Lookup(HandleIndex, Vec<u8>),
    Access(HandleIndex, u32),
    Readlink(HandleIndex),
    Read(HandleIndex, u64, u32),
    Write(HandleIndex, u64, Vec<u8>),
    Create(HandleIndex, Vec<u8>, u8),
    Mkdir(HandleIndex, Vec<u8>),
    Symlink(HandleIndex, Vec<u8>),
    Fifo(HandleIndex, Vec<u8>),
    Set(HandleIndex, Option<u32>, Option<u64>),
    Remove(HandleIndex, Vec<u8>),
    Rmdir(HandleIndex, Vec<u8>),
    Rename(HandleIndex, Vec<u8>, HandleIndex, Vec<u8>),
    Link(HandleIndex, HandleIndex, Vec<u8>),
    List(HandleIndex, u32),
    ListPlus(HandleIndex, u32),
    Commit(HandleIndex),
    Fsinfo(HandleIndex),
    /// A procedure with arguments that may be anything.
    Garbage(u32, Vec<u8>),
    /// GETATTR of a handle that is nobody's.
    Forged(Vec<u8>),
    /// Nobody calls for a while: the directory's side closes what it has open, and has to find it again.
    Rest,
}

fn name() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        12 => (b'a'..=b'd').prop_map(|letter| vec![letter]),
        1 => Just(vec![b'n'; 255]),
        1 => prop_oneof![
            Just(b"".to_vec()), Just(b".".to_vec()), Just(b"..".to_vec()), Just(b"a/b".to_vec()),
            Just(b"a\0b".to_vec()), Just(vec![b'n'; 256]), Just(b"\xff\xfe".to_vec()),
        ],
    ]
}

fn op() -> impl Strategy<Value = Op> {
    let place = || 0..12usize;
    let data = proptest::collection::vec(any::<u8>(), 0..60);
    let bytes = proptest::collection::vec(any::<u8>(), 0..80);
    let handle = proptest::collection::vec(any::<u8>(), 0..=64);
    let making = prop_oneof![
        (place(), name(), 0..4u8).prop_map(|(d, n, how)| Op::Create(d, n, how)),
        (place(), name()).prop_map(|(d, n)| Op::Mkdir(d, n)),
        (place(), name()).prop_map(|(d, n)| Op::Symlink(d, n)),
        (place(), name()).prop_map(|(d, n)| Op::Fifo(d, n)),
        (place(), place(), name()).prop_map(|(f, d, n)| Op::Link(f, d, n)),
    ];
    let taking = prop_oneof![
        (place(), name()).prop_map(|(d, n)| Op::Remove(d, n)),
        (place(), name()).prop_map(|(d, n)| Op::Rmdir(d, n)),
        (place(), name(), place(), name()).prop_map(|(a, m, b, n)| Op::Rename(a, m, b, n)),
    ];
    let asking = prop_oneof![
        place().prop_map(Op::Getattr),
        (place(), name()).prop_map(|(d, n)| Op::Lookup(d, n)),
        (place(), 0..0x80u32).prop_map(|(o, mask)| Op::Access(o, mask)),
        place().prop_map(Op::Readlink),
        (place(), 0..9000u64, 0..200u32).prop_map(|(f, at, len)| Op::Read(f, at, len)),
        (place(), 300..4000u32).prop_map(|(d, max)| Op::List(d, max)),
        (place(), 600..4000u32).prop_map(|(d, max)| Op::ListPlus(d, max)),
        place().prop_map(Op::Fsinfo),
    ];
    let changing = prop_oneof![
        (place(), 0..9000u64, data).prop_map(|(f, at, data)| Op::Write(f, at, data)),
        (place(), proptest::option::of(0..0o10000u32), proptest::option::of(0..9000u64))
            .prop_map(|(o, mode, size)| Op::Set(o, mode, size)),
        place().prop_map(Op::Commit),
    ];
    let odd = prop_oneof![
        (0..25u32, bytes).prop_map(|(procedure, args)| Op::Garbage(procedure, args)),
        handle.prop_map(Op::Forged),
        Just(Op::Rest),
    ];
    prop_oneof![8 => making, 4 => taking, 8 => asking, 5 => changing, 1 => odd]
}

/// What both sides have of attributes.
type Seen = (FileType3, u32, u32, u64, u32, u32);

fn seen(attr: &Fattr3) -> Seen {
    let size = if attr.ftype == FileType3::Dir { 0 } else { attr.size };
    (attr.ftype, attr.mode, attr.nlink, size, attr.uid, attr.gid)
}

fn seen_after(change: &WccData) -> Option<Seen> {
    change.after.as_ref().map(seen)
}

/// One side: a server and the handles that it gave.
struct Side {
    server: Dispatched,
    handles: Vec<Vec<u8>>,
}

/// A reply in a form that both sides can give, and the handle in it.
struct Told {
    text: String,
    handle: Option<Vec<u8>>,
    failed: bool,
}

impl Side {
    fn new(backend: Arc<dyn vfs::Backend>, user: (u32, u32), attr_cache_ms: u32) -> Self {
        let mut server = Dispatched::over_with_kept_attributes(backend, attr_cache_ms);
        server.user = user;
        let handles = vec![server.root.clone()];
        Self { server, handles }
    }

    fn handle(&self, index: HandleIndex) -> &[u8] {
        &self.handles[index % self.handles.len()]
    }

    /// The results, read to their end; or why there are none.
    fn ask<T: Decode<'static>>(&self, procedure: u32, args: &[u8]) -> Result<T, String> {
        let reply = self.server.call(procedure, args).leak();
        let mut results = Reply::parse(reply).unwrap().results.map_err(|why| format!("{why:?}"))?;
        let value = results.get().unwrap();
        results.end().unwrap();
        Ok(value)
    }

    fn told<T: Decode<'static>, F: Decode<'static>>(
        &self,
        procedure: u32,
        args: &[u8],
        ok: impl FnOnce(T) -> Told,
    ) -> Told {
        match self.ask::<Res<T, F>>(procedure, args) {
            Ok(Res::Ok(value)) => ok(value),
            Ok(Res::Fail(status, _)) => failed(merged(status.number()).to_string()),
            Err(refusal) => failed(refusal),
        }
    }

    fn made(&self, procedure: u32, args: &[u8]) -> Told {
        self.told::<MadeOk<'_>, WccData>(procedure, args, |made| Told {
            text: format!("{:?} {:?}", made.attr.as_ref().map(seen), seen_after(&made.dir)),
            handle: made.object.map(|handle| handle.0.to_vec()),
            failed: false,
        })
    }

    fn run(&self, op: &Op) -> Told {
        let h = |index: &HandleIndex| self.handle(*index);
        match op {
            Op::Rest => plain(String::new()),
            Op::Getattr(object) => self.getattr(h(object)),
            Op::Forged(handle) => self.getattr(handle),
            Op::Lookup(dir, name) => {
                self.told::<LookupOk<'_>, PostOpAttr>(p::LOOKUP, &wire(&at(h(dir), name)), |ok| {
                    Told {
                        text: format!(
                            "{:?} {:?}",
                            ok.attr.as_ref().map(seen),
                            ok.dir.as_ref().map(seen)
                        ),
                        handle: Some(ok.object.0.to_vec()),
                        failed: false,
                    }
                })
            }
            Op::Access(object, access) => {
                let args = AccessArgs { object: Bytes(h(object)), access: *access };
                self.told::<AccessOk, PostOpAttr>(p::ACCESS, &wire(&args), |ok| {
                    plain(format!("{:x} {:?}", ok.access, ok.attr.as_ref().map(seen)))
                })
            }
            Op::Readlink(link) => {
                let args = wire(&Bytes::<64>(h(link)));
                self.told::<ReadlinkOk<'_>, PostOpAttr>(p::READLINK, &args, |ok| {
                    plain(format!("{:?} {:?}", ok.target, ok.attr.as_ref().map(seen)))
                })
            }
            Op::Read(file, offset, count) => {
                let args = ReadArgs { file: Bytes(h(file)), offset: *offset, count: *count };
                self.told::<ReadOk<'_>, PostOpAttr>(p::READ, &wire(&args), |ok| {
                    let attr = ok.attr.as_ref().map(seen);
                    plain(format!("{} {} {:?} {attr:?}", ok.count, ok.eof, ok.data))
                })
            }
            Op::List(dir, max) => self.list(h(dir), *max),
            Op::ListPlus(dir, max) => self.list_plus(h(dir), *max),
            Op::Commit(file) => {
                let args = CommitArgs { file: Bytes(h(file)), offset: 0, count: 0 };
                self.told::<CommitOk, WccData>(p::COMMIT, &wire(&args), |ok| {
                    plain(format!("{:?}", seen_after(&ok.file)))
                })
            }
            Op::Fsinfo(object) => {
                let args = wire(&Bytes::<64>(h(object)));
                self.told::<FsinfoOk, PostOpAttr>(p::FSINFO, &args, |ok| {
                    plain(format!("{} {} {:?}", ok.rtmax, ok.wtmax, ok.attr.as_ref().map(seen)))
                })
            }
            // what would have to be read differs by procedure; whether there is something may not
            Op::Garbage(procedure, args) => {
                let reply = self.server.call(*procedure, args);
                let results = Reply::parse(&reply).unwrap().results;
                plain(format!("{:?}", results.map(|mut r| r.u32().map(merged))))
            }
            changing => self.change(changing),
        }
    }

    /// The calls that change something.
    fn change(&self, op: &Op) -> Told {
        let h = |index: &HandleIndex| self.handle(*index);
        let set = Sattr3 { mode: Some(0o644), ..Sattr3::default() };
        match op {
            Op::Write(file, offset, data) => {
                let (file, stable) = (Bytes(h(file)), StableHow::Unstable);
                let args = WriteArgs { file, offset: *offset, stable, data: Bytes(data) };
                self.told::<WriteOk, WccData>(p::WRITE, &wire(&args), |ok| {
                    plain(format!("{} {:?}", ok.count, seen_after(&ok.file)))
                })
            }
            Op::Create(dir, name, how) => {
                let cut = Sattr3 { size: Some(0), ..set };
                let how = [
                    CreateHow3::Guarded(set),
                    CreateHow3::Unchecked(cut),
                    CreateHow3::Unchecked(set),
                    CreateHow3::Exclusive([1, 2, 3, 4, 5, 6, 7, 8]),
                ][usize::from(*how)];
                self.made(p::CREATE, &wire(&CreateArgs { place: at(h(dir), name), how }))
            }
            Op::Mkdir(dir, name) => {
                let set = Sattr3 { mode: Some(0o755), ..set };
                self.made(p::MKDIR, &wire(&MkdirArgs { place: at(h(dir), name), set }))
            }
            Op::Symlink(dir, name) => {
                let (place, target) = (at(h(dir), name), Bytes(b"target".as_slice()));
                self.made(p::SYMLINK, &wire(&SymlinkArgs { place, set, target }))
            }
            Op::Fifo(dir, name) => {
                let what = MknodData3::Fifo(set);
                self.made(p::MKNOD, &wire(&MknodArgs { place: at(h(dir), name), what }))
            }
            Op::Set(object, mode, size) => {
                let set = Sattr3 { mode: *mode, size: *size, ..Sattr3::default() };
                let args = SetattrArgs { object: Bytes(h(object)), set, guard: None };
                self.changed(p::SETATTR, &wire(&args))
            }
            Op::Remove(dir, name) => self.changed(p::REMOVE, &wire(&at(h(dir), name))),
            Op::Rmdir(dir, name) => self.changed(p::RMDIR, &wire(&at(h(dir), name))),
            Op::Rename(from, old, to, new) => {
                let args = RenameArgs { from: at(h(from), old), to: at(h(to), new) };
                self.told::<RenameRes, RenameRes>(p::RENAME, &wire(&args), |ok| {
                    plain(format!("{:?} {:?}", seen_after(&ok.from), seen_after(&ok.to)))
                })
            }
            Op::Link(file, dir, name) => {
                let args = LinkArgs { file: Bytes(h(file)), link: at(h(dir), name) };
                self.told::<LinkRes, LinkRes>(p::LINK, &wire(&args), |ok| {
                    plain(format!("{:?} {:?}", ok.attr.as_ref().map(seen), seen_after(&ok.dir)))
                })
            }
            other => unreachable!("{other:?} changes nothing"),
        }
    }

    fn getattr(&self, handle: &[u8]) -> Told {
        self.told::<Fattr3, NoBody>(p::GETATTR, &wire(&Bytes::<64>(handle)), |ok| {
            plain(format!("{:?}", seen(&ok)))
        })
    }

    fn changed(&self, procedure: u32, args: &[u8]) -> Told {
        self.told::<WccData, WccData>(procedure, args, |ok| plain(format!("{:?}", seen_after(&ok))))
    }

    /// All names, in as many replies as they take.
    fn list(&self, dir: &[u8], count: u32) -> Told {
        let (mut names, mut cookie, mut verf) = (Vec::new(), 0, [0; 8]);
        loop {
            let args = ReaddirArgs { dir: Bytes(dir), cookie, verf, count };
            let list = self.ask::<Res<ReaddirOk<'_>, PostOpAttr>>(p::READDIR, &wire(&args));
            let list = match list.unwrap() {
                Res::Ok(list) => list,
                Res::Fail(status, _) => return plain(format!("{status:?}")),
            };
            verf = list.verf;
            for entry in &list.entries {
                cookie = entry.cookie;
                names.push(entry.name.0.to_vec());
            }
            if list.eof {
                names.sort_unstable();
                return plain(format!("{names:?} {:?}", list.dir.as_ref().map(seen)));
            }
        }
    }

    /// All names with their attributes; those of `.` and `..` may be left out.
    fn list_plus(&self, dir: &[u8], max: u32) -> Told {
        let (mut all, mut cookie, mut verf) = (Vec::new(), 0, [0; 8]);
        loop {
            let (dircount, maxcount) = (max, max);
            let args = ReaddirplusArgs { dir: Bytes(dir), cookie, verf, dircount, maxcount };
            let list = self.ask::<Res<ReaddirplusOk<'_>, PostOpAttr>>(p::READDIRPLUS, &wire(&args));
            let list = match list.unwrap() {
                Res::Ok(list) => list,
                Res::Fail(status, _) => return plain(format!("{status:?}")),
            };
            verf = list.verf;
            for entry in &list.entries {
                cookie = entry.cookie;
                let dots = matches!(entry.name.0, b"." | b"..");
                let object = (entry.handle.is_some(), entry.attr.as_ref().map(seen));
                all.push((entry.name.0.to_vec(), (!dots).then_some(object)));
            }
            if list.eof {
                all.sort_unstable_by(|a, b| a.0.cmp(&b.0));
                return plain(format!("{all:?} {:?}", list.dir.as_ref().map(seen)));
            }
        }
    }
}

fn plain(text: String) -> Told {
    Told { text, handle: None, failed: false }
}

fn failed(text: String) -> Told {
    Told { failed: true, ..plain(text) }
}

/// Statuses between which POSIX leaves the choice count as one.
fn merged(status: u32) -> u32 {
    match status {
        1 => 13,      // EPERM, EACCES
        17 => 66,     // EEXIST, ENOTEMPTY
        10_007 => 22, // a type that is wrong in two ways
        other => other,
    }
}

fn compare(ops: &[Op], user: (u32, u32), force_table: bool, attr_cache_ms: u32) {
    sys::open::clear_umask();
    let dir = tempfile::tempdir_in("/dev/shm").unwrap();
    let served = dir.path().join("root");
    std::fs::create_dir(&served).unwrap();
    let own = sys::identity::own().unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    std::fs::set_permissions(&served, mode).unwrap();
    let options = LocalOptions {
        table: Some(dir.path().join("names")),
        force_table,
        ..LocalOptions::default()
    };
    let files = Arc::new(OpenFiles::new(4096));
    let local = LocalFs::open(&served, &options, Arc::clone(&files)).unwrap();
    let options = MemOptions { owner: (own.uid, own.gid), mode: 0o777, ..MemOptions::default() };
    let mut local = Side::new(Arc::new(local), user, attr_cache_ms);
    let mut mem = Side::new(Arc::new(MemFs::new(options)), user, 0);
    for (n, op) in ops.iter().enumerate() {
        if let Op::Rest = op {
            files.sweep(files.now_s().saturating_add(REST_S));
        }
        let (got, wanted) = (local.run(op), mem.run(op));
        // of two handles that are both no good, no RFC says which is named
        let two = matches!(op, Op::Link(..) | Op::Rename(..));
        // a Linux directory keeps a verifier in the times, which the file's first use changes
        let exclusive = |op: &Op| matches!(op, Op::Create(_, _, 3));
        let retried = exclusive(op) && ops[..n].iter().any(exclusive);
        if !(two && got.failed && wanted.failed || retried && got.failed != wanted.failed) {
            assert_eq!(got.text, wanted.text, "call {n}, {op:?}");
        }
        if let (Some(got), Some(wanted)) = (got.handle, wanted.handle) {
            local.handles.push(got);
            mem.handles.push(wanted);
        }
    }
    sys::identity::act_as_process().unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 300,
        failure_persistence: None,
        max_shrink_iters: 3000,
        ..ProptestConfig::default()
    })]

    #[test]
    fn replies_match_those_of_the_local_file_system(
        ops in proptest::collection::vec(op(), 1..60),
        table in any::<bool>(),
        // kept for longer than the calls take
        attr_cache_ms in prop_oneof![Just(0), Just(60_000)],
    ) {
        let own = sys::identity::own().unwrap();
        compare(&ops, (own.uid, own.gid), table, attr_cache_ms);
    }
}

/// Found by the above: by a table of names on tmpfs, an object whose last known name had gone was
/// not found under the other.
#[test]
fn a_file_with_two_names_is_found_after_one_is_removed() {
    let own = sys::identity::own().unwrap();
    let ops = [
        Op::Symlink(0, b"a".to_vec()),
        Op::Link(1, 0, b"d".to_vec()),
        Op::Remove(0, b"d".to_vec()),
        Op::Getattr(1),
        // in another directory
        Op::Mkdir(0, b"b".to_vec()),
        Op::Link(1, 2, b"c".to_vec()),
        Op::Remove(2, b"c".to_vec()),
        Op::Getattr(1),
        Op::Link(1, 2, b"c".to_vec()),
        Op::Rename(2, b"c".to_vec(), 2, b"d".to_vec()),
        Op::Rename(2, b"d".to_vec(), 0, b"d".to_vec()),
        Op::Remove(0, b"a".to_vec()),
        Op::Getattr(1),
        Op::Remove(0, b"d".to_vec()),
        Op::Getattr(1),
    ];
    for (table, attr_cache_ms) in [(false, 0), (true, 0), (false, 60_000), (true, 60_000)] {
        compare(&ops, (own.uid, own.gid), table, attr_cache_ms);
    }
}
