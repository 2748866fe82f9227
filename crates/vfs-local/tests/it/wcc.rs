//! The attributes before and after a change in a reply never make a client take another's change for its
//! own (RFC 1813 §2.6): wherever a call may block, another thread changes the same object.

use crate::support::{ROOT, each, make, name, of, put};
use bowline_vfs_local::LocalFs;
use std::cell::Cell;
use std::time::Duration;
use testing::{Missing, skip};
use vfs::{Attr, Backend, Blocking, Change, Cx, Durability, Fid, Right, SetAttr, Stability, Want};

/// More than a tick of the clock of file systems.
const TICK: Duration = Duration::from_millis(12);
/// Limit of the blocking points of one call.
const SLEEPS_MAX: u32 = 8;

/// Runs an action at one of a call's blocking points.
struct Meanwhile<'m> {
    left: Cell<u32>,
    work: &'m dyn Fn(),
}

impl Blocking for Meanwhile<'_> {
    fn will_block(&self) -> vfs::Result<()> {
        if self.left.replace(self.left.get().wrapping_sub(1)) == 0 {
            std::thread::sleep(TICK);
            (self.work)();
        }
        Ok(())
    }
}

fn attr(local: &LocalFs, fid: &Fid) -> Attr {
    local.getattr(&of(ROOT), fid, Want::STAT).unwrap()
}

/// Runs `call` with `other` at each of its blocking points; returns how many there were.
fn disturbed(
    local: &LocalFs,
    object: &Fid,
    call: &dyn Fn(&Cx<'_>, u32) -> Change,
    other: &dyn Fn(u32),
) -> u32 {
    let mut disturbed = 0;
    for at in 0..SLEEPS_MAX {
        let happened = Cell::new(false);
        let work = || {
            other(at);
            happened.set(true);
        };
        let sleep = Meanwhile { left: Cell::new(at), work: &work };
        let cx = Cx {
            cred: ROOT,
            blocking: &sleep,
            durability: Durability::Sync,
            right: Right::Check,
            attr_cache_ms: 0,
        };
        let known = attr(local, object).wcc();
        std::thread::sleep(TICK);
        let change = call(&cx, at);
        let believes = change.before.is_some_and(|before| before.same_size_and_times(&known));
        let now = attr(local, object).wcc();
        let seen = change.after.is_some_and(|after| after.wcc().same_size_and_times(&now));
        assert!(!(happened.get() && believes && seen), "hidden at sleep {at}");
        assert!(happened.get() || believes && seen, "a change that was alone says so");
        disturbed += u32::from(happened.get());
    }
    disturbed
}

/// Calls that change a directory; returns how many were disturbed.
fn directories(local: &LocalFs) -> u32 {
    let root = local.root();
    let beside = |n: u32| _ = make(local, &of(ROOT), &root, &format!("beside{n}"), 0o644).unwrap();
    let create = |cx: &Cx<'_>, n: u32| {
        let how = vfs::Create::Guarded(SetAttr::default());
        local.create(cx, &root, name(&format!("new{n}")), how).unwrap().dir
    };
    let remove = |cx: &Cx<'_>, n: u32| local.remove(cx, &root, name(&format!("new{n}"))).unwrap();
    let slept = disturbed(local, &root, &create, &beside);
    slept + disturbed(local, &root, &remove, &|n| beside(n + 100))
}

/// Calls that change a file, or sync it; returns how many were disturbed.
fn files(local: &LocalFs) -> u32 {
    let file = make(local, &of(ROOT), &local.root(), "file", 0o644).unwrap().node.unwrap().fid;
    let writes = |n: u32| _ = put(local, &of(ROOT), &file, &vec![7; 10_000 + n as usize]).unwrap();
    let write = |cx: &Cx<'_>, n: u32| {
        local.write(cx, &file, 0, &[n as u8; 100], Stability::FileSync).unwrap().file
    };
    let set = |cx: &Cx<'_>, n: u32| {
        let mode = SetAttr { mode: Some(0o600 | n), ..SetAttr::default() };
        local.setattr(cx, &file, &mode, None).unwrap()
    };
    let slept = disturbed(local, &file, &write, &writes);
    let slept = slept + disturbed(local, &file, &set, &|n| writes(n + 100));
    let commit = |cx: &Cx<'_>, _| local.commit(cx, &file, 0, 0).unwrap();
    let writes_again = |n| writes(n + 200);
    // or it has nothing to do
    writes_again(99);
    slept + disturbed(local, &file, &commit, &writes_again)
}

#[test]
fn wcc_data_excludes_changes_of_others() {
    each(|stage| {
        let local = stage.serve();
        if directories(&local) + files(&local) == 0 {
            skip(
                Missing::FileSystem,
                format_args!("nothing may block in {}", stage.tree.display()),
            );
        }
    });
}

#[test]
fn a_rename_within_a_directory_changes_it_once() {
    each(|stage| {
        let (local, cx) = (stage.serve(), of(ROOT));
        let root = local.root();
        make(&local, &cx, &root, "old", 0o644).unwrap();
        let before = attr(&local, &root).wcc();
        let (from, to) = local.rename(&cx, (&root, name("old")), (&root, name("new"))).unwrap();
        assert_eq!((from, from.before), (to, Some(before)));
    });
}
