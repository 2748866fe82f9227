//! A Linux directory against the file system in memory: the same calls in the same order give the
//! same results, and the same tree, for arbitrary calls.

use bowline_vfs_local::{LocalFs, LocalOptions, OpenFiles};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::{Arc, Once};
use vfs::{
    AccessMask, Attr, Backend, Component, Create, Cred, Cx, Durability, Fid, FileType,
    IgnoreBlocking, Name, NodeKind, Result, Right, SetAttr, Stability, Status,
};
use vfs_mem::{MemFs, MemOptions};

/// A place: up to three names below the root.
type EntryPath = Vec<u8>;

#[derive(Debug, Clone)]
enum Op {
    Create(EntryPath, u8),
    Mkdir(EntryPath, u32),
    Symlink(EntryPath),
    Fifo(EntryPath),
    Write(EntryPath, u64, Vec<u8>),
    Read(EntryPath, u64, usize),
    Truncate(EntryPath, u64),
    Mode(EntryPath, u32),
    Remove(EntryPath),
    Rmdir(EntryPath),
    Rename(EntryPath, EntryPath),
    Link(EntryPath, EntryPath),
    Access(EntryPath),
    List(EntryPath),
}

fn place() -> impl Strategy<Value = EntryPath> {
    proptest::collection::vec(b'a'..=b'd', 1..=3)
}

fn op() -> impl Strategy<Value = Op> {
    let data = proptest::collection::vec(any::<u8>(), 0..40);
    prop_oneof![
        (place(), 0..3u8).prop_map(|(p, how)| Op::Create(p, how)),
        (place(), 0..0o1000u32).prop_map(|(p, mode)| Op::Mkdir(p, mode | 0o700)),
        place().prop_map(Op::Symlink),
        place().prop_map(Op::Fifo),
        (place(), 0..9000u64, data).prop_map(|(p, at, data)| Op::Write(p, at, data)),
        (place(), 0..9000u64, 0..200usize).prop_map(|(p, at, len)| Op::Read(p, at, len)),
        (place(), 0..9000u64).prop_map(|(p, size)| Op::Truncate(p, size)),
        (place(), 0..0o10000u32).prop_map(|(p, mode)| Op::Mode(p, mode)),
        place().prop_map(Op::Remove),
        place().prop_map(Op::Rmdir),
        (place(), place()).prop_map(|(a, b)| Op::Rename(a, b)),
        (place(), place()).prop_map(|(a, b)| Op::Link(a, b)),
        place().prop_map(Op::Access),
        place().prop_map(Op::List),
    ]
}

/// The comparable attributes of an object: type, mode, links (of files), size (of files), owner.
type Seen = (FileType, u16, u32, u64, u32, u32);

fn seen(attr: &Attr) -> Seen {
    let dir = attr.ftype == FileType::Directory;
    let size = if dir { 0 } else { attr.size };
    (attr.ftype, attr.mode, attr.nlink, size, attr.uid, attr.gid)
}

/// One side of the comparison.
struct Side<'s> {
    backend: &'s dyn Backend,
    cred: Cred<'s>,
    attr_cache_ms: u32,
}

impl<'s> Side<'s> {
    fn cx(&self) -> Cx<'s> {
        Cx {
            cred: self.cred,
            blocking: &IgnoreBlocking,
            durability: Durability::Async,
            right: Right::Check,
            attr_cache_ms: self.attr_cache_ms,
        }
    }

    fn lookup(&self, dir: &Fid, name: u8) -> Result<Fid> {
        let name = [name];
        let name = Component::Name(Name::new(&name)?);
        self.backend.lookup(&self.cx(), dir, name).map(|found| found.node.fid)
    }

    fn find(&self, place: &[u8]) -> Result<Fid> {
        place.iter().try_fold(self.backend.root(), |dir, name| self.lookup(&dir, *name))
    }

    /// The result of a call, in a form that both sides have.
    fn run(&self, op: &Op) -> Result<String> {
        let (cx, backend) = (self.cx(), self.backend);
        let parent = |place: &EntryPath| {
            let (name, dirs) = place.split_last().unwrap();
            self.find(dirs).map(|dir| (dir, [*name]))
        };
        let made = |attr: &Attr| format!("{:?}", seen(attr));
        match op {
            Op::Create(place, how) => {
                let (dir, name) = parent(place)?;
                let set = SetAttr { mode: Some(0o644), ..SetAttr::default() };
                let cut = SetAttr { size: Some(0), ..set };
                let how = [Create::Guarded(set), Create::Unchecked(cut), Create::Unchecked(set)]
                    [usize::from(*how)];
                let node = backend.create(&cx, &dir, Name::new(&name)?, how)?.node.unwrap();
                Ok(made(&node.attr))
            }
            Op::Mkdir(place, mode) => {
                let (dir, name) = parent(place)?;
                let set = SetAttr { mode: Some(*mode), ..SetAttr::default() };
                backend
                    .mkdir(&cx, &dir, Name::new(&name)?, &set)
                    .map(|m| made(&m.node.unwrap().attr))
            }
            Op::Symlink(place) => {
                let (dir, name) = parent(place)?;
                let set = SetAttr::default();
                backend
                    .symlink(&cx, &dir, Name::new(&name)?, b"target", &set)
                    .map(|m| made(&m.node.unwrap().attr))
            }
            Op::Fifo(place) => {
                let (dir, name) = parent(place)?;
                let set = SetAttr { mode: Some(0o622), ..SetAttr::default() };
                backend
                    .mknod(&cx, &dir, Name::new(&name)?, NodeKind::Fifo, &set)
                    .map(|m| made(&m.node.unwrap().attr))
            }
            Op::Write(place, at, data) => {
                let file = self.find(place)?;
                let done = backend.write(&cx, &file, *at, data, Stability::Unstable)?;
                Ok(format!("{} {:?}", done.count, done.file.after.as_ref().map(seen)))
            }
            Op::Read(place, at, len) => {
                let mut data = vec![0; *len];
                let done = backend.read(&cx, &self.find(place)?, *at, &mut data)?;
                Ok(format!("{:?} {}", &data[..done.count], done.eof))
            }
            Op::Truncate(place, size) => {
                self.set(place, SetAttr { size: Some(*size), ..SetAttr::default() })
            }
            Op::Mode(place, mode) => {
                self.set(place, SetAttr { mode: Some(*mode), ..SetAttr::default() })
            }
            Op::Remove(place) => {
                let (dir, name) = parent(place)?;
                backend.remove(&cx, &dir, Name::new(&name)?).map(|_| String::new())
            }
            Op::Rmdir(place) => {
                let (dir, name) = parent(place)?;
                backend.rmdir(&cx, &dir, Name::new(&name)?).map(|_| String::new())
            }
            Op::Rename(from, to) => {
                let ((a, from), (b, to)) = (parent(from)?, parent(to)?);
                let (from, to) = (Name::new(&from)?, Name::new(&to)?);
                backend.rename(&cx, (&a, from), (&b, to)).map(|_| String::new())
            }
            Op::Link(from, to) => {
                let (file, (dir, name)) = (self.find(from)?, parent(to)?);
                let (attr, _) = backend.link(&cx, &file, &dir, Name::new(&name)?)?;
                Ok(made(&attr))
            }
            Op::Access(place) => {
                let mask = AccessMask(0x3f);
                backend.access(&cx, &self.find(place)?, mask).map(|(a, _)| format!("{a:?}"))
            }
            Op::List(place) => self.listed(&self.find(place)?).map(|names| format!("{names:?}")),
        }
    }

    fn set(&self, place: &EntryPath, set: SetAttr) -> Result<String> {
        let change = self.backend.setattr(&self.cx(), &self.find(place)?, &set, None)?;
        Ok(format!("{:?}", change.after.as_ref().map(seen)))
    }

    fn names(&self, dir: &Fid) -> Result<Vec<Vec<u8>>> {
        let mut names = Vec::new();
        self.backend.readdir(&self.cx(), dir, vfs::ListArgs::all(0, false), &mut |entry| {
            names.push(entry.name.to_vec());
            ControlFlow::Continue(())
        })?;
        names.sort();
        Ok(names)
    }

    /// The names of a directory and what they lead to. Each listing is made again, which may be of what is kept of the first.
    fn listed(&self, dir: &Fid) -> Result<BTreeMap<Vec<u8>, Option<Seen>>> {
        let list = |cookie: u64| {
            let mut names = Vec::new();
            let args = vfs::ListArgs::all(cookie, true);
            self.backend.readdir(&self.cx(), dir, args, &mut |entry| {
                let node = entry.node.filter(|node| node.attr.ftype != FileType::Directory);
                let seen = node.map(|node| self::seen(&node.attr));
                names.push((entry.cookie, entry.name.to_vec(), seen));
                ControlFlow::Continue(())
            })?;
            Ok(names)
        };
        let all = list(0)?;
        assert_eq!(list(0)?, all);
        if let [_, (middle, ..), rest @ ..] = all.as_slice() {
            assert_eq!(list(*middle)?, rest, "behind the second entry");
        }
        Ok(all.into_iter().map(|(_, name, seen)| (name, seen)).collect())
    }

    /// Every object below a directory, with its comparable attributes, as root sees it.
    fn tree(&self) -> BTreeMap<Vec<u8>, Seen> {
        let root = Side { cred: Cred { uid: 0, gid: 0, groups: &[] }, ..*self };
        let mut tree = BTreeMap::new();
        let mut todo = vec![(Vec::new(), root.backend.root())];
        while let Some((path, dir)) = todo.pop() {
            for name in root.names(&dir).unwrap() {
                let [byte] = name.as_slice() else { continue };
                if *byte == b'.' {
                    continue;
                }
                let fid = root.lookup(&dir, *byte).unwrap();
                let attr = root.backend.getattr(&root.cx(), &fid, vfs::Want::STAT).unwrap();
                let path = [path.as_slice(), &name].concat();
                if attr.ftype == FileType::Directory {
                    todo.push((path.clone(), fid));
                }
                tree.insert(path, seen(&attr));
            }
        }
        tree
    }
}

/// Statuses that POSIX leaves open count as one.
fn told(result: Result<String>, strict: bool) -> Result<String> {
    result.map_err(|status| match status {
        // if a call can fail for several reasons, POSIX does not define which is returned
        _ if !strict => Status::Acces,
        // the order of two errors, and the error of a full directory
        Status::Perm => Status::Acces,
        Status::Exist => Status::NotEmpty,
        // a type that is wrong in two ways
        Status::Symlink | Status::Inval => Status::WrongType,
        other => other,
    })
}

fn compare(ops: &[Op], cred: Cred<'_>, force_table: bool, attr_cache_ms: u32) {
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
    let local = LocalFs::open(&served, &options, Arc::new(OpenFiles::new(4096))).unwrap();
    let options = MemOptions { owner: (own.uid, own.gid), mode: 0o777, ..MemOptions::default() };
    let mem = MemFs::new(options);
    let strict = cred.uid == own.uid;
    let (local, mem) = (
        Side { backend: &local, cred, attr_cache_ms },
        Side { backend: &mem, cred, attr_cache_ms: 0 },
    );
    for (n, op) in ops.iter().enumerate() {
        let (got, wanted) = (told(local.run(op), strict), told(mem.run(op), strict));
        assert_eq!(got, wanted, "call {n} of {ops:?}");
        // what is looked at here is known when the next call changes it
        if attr_cache_ms > 0 && own.uid == 0 {
            assert_eq!(local.tree(), mem.tree(), "the tree after call {n} of {ops:?}");
        }
    }
    if own.uid == 0 {
        assert_eq!(local.tree(), mem.tree(), "the tree after {ops:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 300,
        failure_persistence: None,
        max_shrink_iters: 2000,
        ..ProptestConfig::default()
    })]

    #[test]
    fn results_match_the_local_file_system_as_root(ops in proptest::collection::vec(op(), 1..60), table in any::<bool>()) {
        let own = sys::identity::own().unwrap();
        compare(&ops, Cred { uid: own.uid, gid: own.gid, groups: &[] }, table, 0);
    }

    /// Attributes and names are kept for longer than the calls take.
    #[test]
    fn results_match_the_local_file_system_with_kept_attributes(ops in proptest::collection::vec(op(), 1..40), table in any::<bool>()) {
        let own = sys::identity::own().unwrap();
        compare(&ops, Cred { uid: own.uid, gid: own.gid, groups: &[] }, table, 60_000);
    }

    #[test]
    fn results_match_the_local_file_system_as_a_user(ops in proptest::collection::vec(op(), 1..60)) {
        static REPORTED: Once = Once::new();
        if testing::is_root() {
            compare(&ops, Cred { uid: 4711, gid: 4712, groups: &[4713] }, false, 0);
        } else {
            REPORTED.call_once(|| assert!(!crate::support::has_root()));
        }
    }
}
