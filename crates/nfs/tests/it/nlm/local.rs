//! Clients and programs of this machine exclude each other, over a directory.

use super::rig::{A, B, Rig};
use bowline_nfs::OnOff;
use proto::nlm::Status;
use std::fs::File;
use std::io::Write;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use sys::ofd_lock::{self, LockType, Range};
use testing::{Missing, is_root, skip};
use vfs_local::{LocalFs, LocalOptions, OpenFiles};

pub struct Local {
    pub rig: Rig,
    dir: tempfile::TempDir,
}

pub const FIRST_TEN: Range = Range { start: 0, len: 10 };
pub const ALL: Range = Range { start: 0, len: 0 };

pub fn local() -> Option<Local> {
    if !is_root() {
        skip(Missing::Root, "a server that finds files by handle");
        return None;
    }
    let dir = tempfile::tempdir().unwrap();
    File::create(dir.path().join("file")).unwrap().write_all(b"contents").unwrap();
    let files = Arc::new(OpenFiles::new(4096));
    let backend = LocalFs::open(dir.path(), &LocalOptions::default(), files).unwrap();
    Some(Local { rig: Rig::over(Arc::new(backend)), dir })
}

impl Local {
    /// A program's own description of the file.
    pub fn program(&self) -> File {
        File::options().read(true).write(true).open(self.dir.path().join("file")).unwrap()
    }

    /// How many descriptors of the file this process has open for its locks.
    fn descriptions(&self) -> usize {
        let path = self.dir.path().join("file");
        let fds = std::fs::read_dir("/proc/self/fd").unwrap();
        let of_file = |fd: &std::fs::DirEntry| {
            let flags = std::fs::read_to_string(format!(
                "/proc/self/fdinfo/{}",
                fd.file_name().to_string_lossy()
            ));
            std::fs::read_link(fd.path()).is_ok_and(|target| target == path)
                && flags.is_ok_and(|flags| flags.contains("lock:"))
        };
        fds.flatten().filter(of_file).count()
    }
}

fn may_lock(file: &File, range: Range, kind: LockType) -> bool {
    let taken = ofd_lock::set(file.as_fd(), range, kind).is_ok();
    if taken {
        ofd_lock::set(file.as_fd(), range, LockType::Unlock).unwrap();
    }
    taken
}

#[test]
fn a_client_lock_excludes_local_programs_until_it_is_released() {
    let Some(local) = local() else { return };
    let (rig, handle, program) = (&local.rig, local.rig.handle("file"), local.program());
    assert_eq!(rig.lock(A, true, A.lock(&handle, 0, 10)), Status::Granted);
    assert!(!may_lock(&program, FIRST_TEN, LockType::Read));
    assert!(may_lock(&program, Range { start: 10, len: 0 }, LockType::Write));
    assert_eq!(rig.lock(A, false, A.lock(&handle, 0, 10)), Status::Granted);
    assert!(may_lock(&program, FIRST_TEN, LockType::Read), "weaker now");
    assert!(!may_lock(&program, FIRST_TEN, LockType::Write));
    assert_eq!(rig.lock(B, false, B.lock(&handle, 5, 10)), Status::Granted);
    assert_eq!(local.descriptions(), 1, "one for all owners");
    assert_eq!(rig.unlock(A, A.lock(&handle, 0, 0)), Status::Granted);
    assert!(may_lock(&program, Range { start: 0, len: 5 }, LockType::Write));
    assert!(!may_lock(&program, FIRST_TEN, LockType::Write), "B still reads");
    assert_eq!(rig.unlock(B, B.lock(&handle, 0, 0)), Status::Granted);
    assert!(may_lock(&program, ALL, LockType::Write));
    assert_eq!(local.descriptions(), 0);
}

#[test]
fn a_local_lock_excludes_clients_and_is_shown_by_test() {
    let Some(local) = local() else { return };
    let (rig, handle, program) = (&local.rig, local.rig.handle("file"), local.program());
    ofd_lock::set(program.as_fd(), FIRST_TEN, LockType::Read).unwrap();
    assert_eq!(rig.lock(A, true, A.lock(&handle, 0, 0)), Status::Denied);
    assert_eq!(rig.lock(A, false, A.lock(&handle, 0, 0)), Status::Granted);
    assert_eq!(rig.lock(A, true, A.lock(&handle, 10, 0)), Status::Granted);
    assert_eq!(rig.lock(A, true, A.lock(&handle, 0, 0)), Status::Denied);
    let found = rig.test(A, true, A.lock(&handle, 0, 0)).unwrap_err();
    let (exclusive, _, oh, offset, len) = found.1.unwrap();
    assert_eq!((exclusive, &oh[..], offset, len), (false, &b"local"[..], 0, 10));
    assert_eq!(rig.test(A, false, A.lock(&handle, 0, 0)), Ok(()));
    drop(program);
    assert_eq!(rig.lock(A, true, A.lock(&handle, 0, 0)), Status::Granted);
}

#[test]
fn a_locked_file_stays_locked_after_its_last_name_is_removed() {
    let Some(local) = local() else { return };
    let (rig, handle) = (&local.rig, local.rig.handle("file"));
    assert_eq!(rig.lock(A, true, A.lock(&handle, 0, 0)), Status::Granted);
    std::fs::remove_file(local.dir.path().join("file")).unwrap();
    assert_eq!(rig.lock(B, true, B.lock(&handle, 0, 0)), Status::Denied);
    assert_eq!(rig.unlock(A, A.lock(&handle, 0, 0)), Status::Granted);
    assert_eq!(rig.nfs.state.totals().files, 0);
    // it is kept a moment longer
    std::thread::sleep(std::time::Duration::from_millis(1050));
    rig.nlm().tick();
    assert_eq!(rig.lock(B, true, B.lock(&handle, 0, 0)), Status::StaleHandle);
}

#[test]
fn without_local_locks_only_the_table_decides() {
    let Some(local) = local() else { return };
    let (rig, handle, program) = (&local.rig, local.rig.handle("file"), local.program());
    rig.nlm().settings.set_local_locks(OnOff::Off);
    ofd_lock::set(program.as_fd(), ALL, LockType::Write).unwrap();
    assert_eq!(rig.lock(A, true, A.lock(&handle, 0, 0)), Status::Granted);
    assert_eq!(rig.lock(B, true, B.lock(&handle, 0, 0)), Status::Denied);
    assert_eq!(rig.unlock(A, A.lock(&handle, 0, 0)), Status::Granted);
}

#[test]
fn threads_of_two_clients_never_hold_the_same_bytes() {
    let Some(local) = local() else { return };
    let (rig, handle) = (&local.rig, local.rig.handle("file"));
    let inside = std::sync::atomic::AtomicU32::new(0);
    let granted = std::sync::atomic::AtomicU32::new(0);
    std::thread::scope(|scope| {
        for who in [A, B, super::rig::A2] {
            let (handle, inside, granted) = (&handle, &inside, &granted);
            scope.spawn(move || {
                for _ in 0..2000 {
                    if rig.lock(who, true, who.lock(handle, 3, 4)) == Status::Granted {
                        assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                        granted.fetch_add(1, Ordering::Relaxed);
                        assert_eq!(inside.fetch_sub(1, Ordering::SeqCst), 1);
                        assert_eq!(rig.unlock(who, who.lock(handle, 3, 4)), Status::Granted);
                    }
                }
            });
        }
    });
    assert!(granted.into_inner() >= 1000, "the test ran");
    assert_eq!(rig.nfs.state.totals().files, 0);
    assert!(may_lock(&local.program(), ALL, LockType::Write), "nothing stays behind");
}
