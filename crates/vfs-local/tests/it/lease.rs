//! A local program that holds a lease on a file delays no call: calls that would have to open it are
//! answered with JUKEBOX at once, and succeed when the lease has been released.

use crate::support::{ROOT, Stage, each, each_in_memory, find, make, names, of, put, take};
use bowline_vfs_local::LocalFs;
use std::fs::{File, FileTimes};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::time::{Duration, Instant, SystemTime};
use sys::testing::lease::WriteLease;
use vfs::{Backend, Cx, Fid, LockChange, LockMode, LockOutcome, LockRange, SetAttr, Status};

/// Far below the 45 s that the kernel waits for a lease to be given back (`/proc/sys/fs/lease-break-time`).
const SOON: Duration = Duration::from_secs(30);

#[test]
fn a_lease_of_another_program_delays_no_call() {
    each(|stage| {
        let (local, cx) = (stage.serve(), of(ROOT));
        let path = stage.tree.join("leased");
        std::fs::write(&path, b"theirs").unwrap();
        let file = File::options().read(true).write(true).open(&path).unwrap();
        let lease = WriteLease::take(file.into()).unwrap();
        let begun = Instant::now();
        let (fid, attr) = find(&local, &cx, &local.root(), "leased").unwrap();
        assert_eq!(attr.size, 6);
        assert_eq!(take(&local, &cx, &fid), Err(Status::Jukebox));
        assert_eq!(put(&local, &cx, &fid, b"ours"), Err(Status::Jukebox));
        let cut = SetAttr { size: Some(1), ..SetAttr::default() };
        assert_eq!(local.setattr(&cx, &fid, &cut, None).map(drop), Err(Status::Jukebox));
        let locks = local.locks().unwrap().open(&cx, &fid).map(drop);
        assert_eq!(locks, Err(Status::Jukebox));
        // what opens no data is not held up
        make(&local, &cx, &local.root(), "other", 0o644).unwrap();
        let mode = SetAttr { mode: Some(0o600), ..SetAttr::default() };
        local.setattr(&cx, &fid, &mode, None).unwrap();
        assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
        drop(lease);
        assert_eq!(take(&local, &cx, &fid).unwrap(), b"theirs");
        assert_eq!(put(&local, &cx, &fid, b"ours"), Ok(4));
    });
}

/// Runs a test over a new file, in each naming mode that this process can have.
fn each_file(test: impl Fn(&Stage, &LocalFs, Fid)) {
    each(|stage| {
        let local = stage.serve();
        let made = make(&local, &of(ROOT), &local.root(), "file", 0o644).unwrap();
        test(stage, &local, made.node.unwrap().fid);
    });
}

/// Takes a lease of ours; how often its callback was called.
fn hold_back(local: &dyn Backend, fid: &vfs::Fid) -> (Option<vfs::Kept>, Receiver<()>) {
    let (told, heard) = channel();
    let told = std::sync::Mutex::new(told);
    let on_break = Box::new(move || {
        let _over = told.lock().unwrap().send(());
    });
    (local.leases().unwrap().hold_back_writers(&of(ROOT), fid, on_break).unwrap(), heard)
}

/// As [`hold_back`], where nobody writes the file: on a busy machine a descriptor by which it was written may be closed a
/// little later, or live in the child of another test until that has started its program.
fn lease_of(local: &dyn Backend, fid: &vfs::Fid) -> (vfs::Kept, Receiver<()>) {
    let end = Instant::now() + SOON;
    loop {
        match hold_back(local, fid) {
            (Some(lease), heard) => return (lease, heard),
            (None, _) => assert!(Instant::now() < end, "no lease"),
        }
        std::thread::yield_now();
    }
}

/// The same against everybody.
fn lease_against_everybody(local: &dyn Backend, fid: &vfs::Fid) -> (vfs::Kept, Receiver<()>) {
    let end = Instant::now() + SOON;
    loop {
        let (told, heard) = channel();
        let told = std::sync::Mutex::new(told);
        let disturbed = Box::new(move || {
            let _over = told.lock().unwrap().send(());
        });
        let leases = local.leases().unwrap();
        if let Some(lease) = leases.hold_back_everybody(&of(ROOT), fid, disturbed).unwrap() {
            return (lease, heard);
        }
        assert!(Instant::now() < end, "no lease");
        std::thread::yield_now();
    }
}

#[test]
fn our_own_calls_go_on_under_a_lease_against_everybody_and_a_local_reader_waits() {
    each_file(|stage, local, fid| {
        let cx = of(ROOT);
        let kept = local.keep(&cx, &fid).unwrap();
        put(local, &cx, &fid, b"ours").unwrap();
        local.commit(&cx, &fid, 0, 0).unwrap();
        // it was read and written by descriptors of the server's
        assert_eq!(take(local, &cx, &fid).unwrap(), b"ours");
        let (lease, heard) = lease_against_everybody(local, &fid);
        assert_eq!(take(local, &cx, &fid).unwrap(), b"ours");
        assert_eq!(put(local, &cx, &fid, b"more"), Ok(4));
        let cut = SetAttr { size: Some(2), ..SetAttr::default() };
        local.setattr(&cx, &fid, &cut, None).unwrap();
        let mut locks = local.locks().unwrap().open(&cx, &fid).unwrap();
        let whole = LockRange::new(0, 10).unwrap();
        let write = LockChange { range: whole, mode: Some(LockMode::Write) };
        assert_eq!(locks.apply(&cx, &[write]), Ok(LockOutcome::Done));
        local.commit(&cx, &fid, 0, 0).unwrap();
        assert_eq!(heard.try_recv(), Err(TryRecvError::Empty), "nobody else has come");
        let path = stage.tree.join("file");
        let reader = std::thread::spawn(move || std::fs::read(&path).unwrap());
        heard.recv_timeout(SOON).unwrap();
        // what is not sent yet comes before it
        assert_eq!(put(local, &cx, &fid, b"last"), Ok(4));
        assert!(!reader.is_finished());
        drop(lease);
        assert_eq!(reader.join().unwrap(), b"last");
        // the lock outlives the lease
        let other = local.locks().unwrap().open(&cx, &fid).unwrap();
        assert!(other.test(whole, LockMode::Read).unwrap().is_some());
        drop((locks, other, kept));
        // and what has had a lease against everybody can have one against writers
        local.commit(&cx, &fid, 0, 0).unwrap();
        drop(lease_of(local, &fid));
    });
}

#[test]
fn a_file_that_a_local_program_has_open_gets_no_lease_against_everybody() {
    each_file(|stage, local, fid| {
        let cx = of(ROOT);
        let reader = File::open(stage.tree.join("file")).unwrap();
        let leases = local.leases().unwrap();
        let none = leases.hold_back_everybody(&cx, &fid, Box::new(|| ())).unwrap();
        assert!(none.is_none());
        drop(reader);
        drop(lease_against_everybody(local, &fid));
    });
}

#[test]
fn a_local_program_waits_until_our_lease_is_given_back() {
    each_file(|stage, local, fid| {
        let cx = of(ROOT);
        let kept = local.keep(&cx, &fid).unwrap();
        // made by us, and written: our own descriptor for writing is closed
        put(local, &cx, &fid, b"ours").unwrap();
        local.commit(&cx, &fid, 0, 0).unwrap();
        let (lease, heard) = lease_of(local, &fid);
        assert!(hold_back(local, &fid).0.is_none(), "one at a time");
        let path = stage.tree.join("file");
        // who reads disturbs nobody
        assert_eq!(std::fs::read(&path).unwrap(), b"ours");
        assert_eq!(take(local, &cx, &fid).unwrap(), b"ours");
        assert_eq!(heard.try_recv(), Err(TryRecvError::Empty));
        let writer = std::thread::spawn(move || std::fs::write(&path, b"theirs").unwrap());
        heard.recv_timeout(SOON).unwrap();
        assert_eq!(take(local, &cx, &fid).unwrap(), b"ours");
        assert!(!writer.is_finished());
        drop(lease);
        writer.join().unwrap();
        assert_eq!(take(local, &cx, &fid).unwrap(), b"theirs");
        drop(kept);
    });
}

#[test]
fn our_own_writes_and_local_changes_of_names_disturb_a_lease() {
    each_file(|stage, local, fid| {
        let cx = of(ROOT);
        let (lease, heard) = lease_of(local, &fid);
        assert_eq!(put(local, &cx, &fid, b"ours"), Err(Status::Jukebox));
        heard.recv_timeout(SOON).unwrap();
        drop(lease);
        assert_eq!(put(local, &cx, &fid, b"ours"), Ok(4));
        assert!(hold_back(local, &fid).0.is_none(), "the data is not on disk");
        local.commit(&cx, &fid, 0, 0).unwrap();
        let (lease, heard) = lease_of(local, &fid);
        std::fs::write(stage.tree.join("other"), b"other").unwrap();
        std::fs::rename(stage.tree.join("other"), stage.tree.join("file")).unwrap();
        heard.recv_timeout(SOON).unwrap();
        drop(lease);
    });
}

#[test]
fn a_file_that_a_local_program_writes_gets_no_lease() {
    each_file(|stage, local, fid| {
        let writer = File::options().append(true).open(stage.tree.join("file")).unwrap();
        assert!(hold_back(local, &fid).0.is_none());
        drop(writer);
        drop(lease_of(local, &fid));
    });
}

#[test]
fn locks_for_reading_disturb_no_lease_of_ours_and_one_for_writing_comes_after_it() {
    each_file(|_, local, fid| {
        let cx = of(ROOT);
        let (lease, heard) = lease_of(local, &fid);
        let mut locks = local.locks().unwrap().open(&cx, &fid).unwrap();
        let lock = |start, mode| {
            [LockChange { range: LockRange::new(start, 10).unwrap(), mode: Some(mode) }]
        };
        assert_eq!(locks.apply(&cx, &lock(0, LockMode::Read)), Ok(LockOutcome::Done));
        assert_eq!(heard.try_recv(), Err(TryRecvError::Empty));
        assert_eq!(locks.apply(&cx, &lock(10, LockMode::Write)), Err(Status::Jukebox));
        heard.recv_timeout(SOON).unwrap();
        drop(lease);
        assert_eq!(locks.apply(&cx, &lock(10, LockMode::Write)), Ok(LockOutcome::Done));
        // what was locked before is locked still
        let other = local.locks().unwrap().open(&cx, &fid).unwrap();
        let found = other.test(LockRange::new(0, 5).unwrap(), LockMode::Write).unwrap().unwrap();
        assert_eq!((found.range.start(), found.mode), (0, LockMode::Read));
    });
}

#[test]
fn a_time_of_change_that_a_local_program_sets_alone_disturbs_a_lease() {
    each_file(|stage, local, fid| {
        let (lease, heard) = lease_of(local, &fid);
        let file = File::open(stage.tree.join("file")).unwrap();
        file.set_times(FileTimes::new().set_modified(SystemTime::UNIX_EPOCH)).unwrap();
        heard.recv_timeout(SOON).unwrap();
        drop(lease);
    });
}

/// Whoever holds everybody back knows what it has changed itself.
#[test]
fn what_the_holder_of_a_lease_changes_is_not_told_to_it() {
    each_file(|stage, local, fid| {
        let cx = of(ROOT);
        let (path, beside) = (stage.tree.join("file"), stage.tree.join("beside"));
        let other = make(local, &cx, &local.root(), "beside", 0o644).unwrap().node.unwrap().fid;
        let (lease, heard) = lease_against_everybody(local, &fid);
        let (_other_lease, other_heard) = lease_of(local, &other);
        let chmod = |path: &Path, mode| {
            std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
        };
        let set_mode = |mode| {
            let set = SetAttr { mode: Some(mode), ..SetAttr::default() };
            local.setattr(&cx, &fid, &set, None).unwrap().after
        };
        let leases = local.leases().unwrap();
        if local.limits().change_kind == vfs::ChangeKind::Undefined {
            // two changes may leave the same time: it is told of all
            leases.change_by_holder(&fid, &mut || set_mode(0o640));
            return heard.recv_timeout(SOON).unwrap();
        }
        // changes are told in their order: the other file's comes last
        let nothing_is_told = || {
            chmod(&beside, 0o600);
            other_heard.recv_timeout(SOON).unwrap();
            assert_eq!(heard.try_recv(), Err(TryRecvError::Empty));
        };
        leases.change_by_holder(&fid, &mut || set_mode(0o640));
        nothing_is_told();
        leases.change_by_holder(&fid, &mut || {
            set_mode(0o600);
            // noted while the change is under way
            nothing_is_told();
            set_mode(0o640)
        });
        nothing_is_told();
        chmod(&path, 0o644);
        heard.recv_timeout(SOON).unwrap();
        leases.change_by_holder(&fid, &mut || {
            let left = set_mode(0o640);
            chmod(&path, 0o600);
            left
        });
        heard.recv_timeout(SOON).unwrap();
        leases.change_by_holder(&fid, &mut || set_mode(0o640).filter(|_| false));
        heard.recv_timeout(SOON).unwrap();
        drop(lease);
    });
}

/// Longer than the test takes.
const LONG_MS: u32 = 60_000;

/// The names that a caller is shown who may be shown old ones.
fn old_names(local: &LocalFs, dir: &Fid) -> Vec<String> {
    let cx = Cx { attr_cache_ms: LONG_MS, ..of(ROOT) };
    let mut all = names(local, &cx, dir, usize::MAX, false);
    all.retain(|name| !matches!(name.as_str(), "." | ".."));
    all.sort();
    all
}

/// Listed and looked at a moment ago: all of that may be shown again.
fn each_kept_directory(test: impl Fn(&LocalFs, &Path)) {
    each_in_memory(|stage| {
        let local = stage.serve();
        let path = stage.tree.join("d");
        std::fs::create_dir(&path).unwrap();
        File::create(path.join("one")).unwrap();
        let (dir, _) = find(&local, &of(ROOT), &local.root(), "d").unwrap();
        assert_eq!(old_names(&local, &dir), ["one"]);
        assert_eq!(old_names(&local, &dir), ["one"]);
        File::create(path.join("two")).unwrap();
        assert_eq!(old_names(&local, &dir), ["one"], "kept");
        test(&local, &path);
    });
}

/// Where the kernel holds nobody back from directories (before Linux 6.19), that is said, and nothing more happens.
#[test]
fn a_directory_that_is_held_back_is_shown_as_it_is_and_local_programs_wait() {
    each_kept_directory(|local, path| {
        let cx = of(ROOT);
        let (dir, _) = find(local, &cx, &local.root(), "d").unwrap();
        let (told, heard) = channel();
        let told = std::sync::Mutex::new(told);
        let on_break = Box::new(move || {
            let _over = told.lock().unwrap().send(());
        });
        let leases = local.leases().unwrap();
        let held = leases.hold_back_changes(&cx, &dir, on_break);
        if !leases.holds_directories() {
            assert_eq!(held.map(drop).unwrap_err(), Status::NotSupp);
            assert_eq!(old_names(local, &dir), ["one"]);
            return;
        }
        let held = held.unwrap().unwrap();
        assert_eq!(old_names(local, &dir), ["one", "two"], "nothing from before");
        // who changes it while a change of the holder's passes is seen as well
        let passing = leases.let_change_pass(&cx, &dir).unwrap();
        make(local, &cx, &dir, "own", 0o644).unwrap();
        (0..2).for_each(|_| assert_eq!(old_names(local, &dir), ["one", "own", "two"]));
        File::create(path.join("beside")).unwrap();
        assert_eq!(old_names(local, &dir), ["one", "own", "two"], "kept");
        drop(passing);
        assert_eq!(old_names(local, &dir), ["beside", "one", "own", "two"]);
        assert_eq!(heard.try_recv(), Err(TryRecvError::Empty));
        let waits = path.join("waits");
        let made = std::thread::spawn(move || std::fs::create_dir(waits).unwrap());
        heard.recv_timeout(SOON).unwrap();
        assert_eq!(make(local, &cx, &dir, "late", 0o644).map(drop), Err(Status::Jukebox));
        assert!(!made.is_finished());
        drop(held);
        made.join().unwrap();
    });
}
