//! Shared by the tests: a served directory in either naming mode, callers, mounts that are removed.

use bowline_vfs_local::{LocalFs, LocalOptions, Naming, OpenFiles};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tempfile::TempDir;
pub use testing::{AS_NOBODY, in_child, is_root};
use vfs::{
    Attr, Backend, Component, Create, Created, Cred, Cx, Durability, Fid, IgnoreBlocking, Name,
    Result, Right, SetAttr, Stability,
};

/// The server's own root.
pub const ROOT: Cred<'static> = Cred { uid: 0, gid: 0, groups: &[] };
/// An ordinary user.
pub const ANN: Cred<'static> = Cred { uid: 4001, gid: 4001, groups: &[4100] };
/// Another one.
pub const BOB: Cred<'static> = Cred { uid: 4002, gid: 4002, groups: &[] };

/// The context of a caller.
pub fn of(cred: Cred<'_>) -> Cx<'_> {
    Cx {
        cred,
        blocking: &IgnoreBlocking,
        durability: Durability::Sync,
        right: Right::Check,
        attr_cache_ms: 0,
    }
}

pub fn name(text: &str) -> Name<'_> {
    Name::new(text.as_bytes()).unwrap()
}

/// Whether a test that needs root can run; reports it as skipped if not.
#[track_caller]
pub fn has_root() -> bool {
    if !is_root() {
        testing::skip(testing::Missing::Root, "other users' identities");
    }
    is_root()
}

/// A directory, the path of its table, and a way to serve it repeatedly.
pub struct Stage {
    _dir: TempDir,
    pub tree: PathBuf,
    pub table: PathBuf,
    pub naming: Naming,
    pub files: Arc<OpenFiles>,
}

impl Stage {
    pub fn new(naming: Naming) -> Self {
        Self::new_in(&std::env::temp_dir(), naming)
    }

    /// A directory below `base`.
    pub fn new_in(base: &Path, naming: Naming) -> Self {
        sys::open::clear_umask();
        let dir = tempfile::tempdir_in(base).unwrap();
        let tree = dir.path().join("tree");
        std::fs::create_dir(&tree).unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o777);
        std::fs::set_permissions(&tree, mode).unwrap();
        let table = dir.path().join("table");
        Self { _dir: dir, tree, table, naming, files: Arc::new(OpenFiles::new(4096)) }
    }

    /// Serves the directory, or another one below the stage.
    pub fn serve_at(&self, path: &Path) -> LocalFs {
        let options = LocalOptions {
            table: Some(self.table.clone()),
            force_table: self.naming == Naming::Table,
            ..LocalOptions::default()
        };
        let local = LocalFs::open(path, &options, Arc::clone(&self.files)).unwrap();
        assert_eq!(local.naming(), self.naming);
        local
    }

    pub fn serve(&self) -> LocalFs {
        self.serve_at(&self.tree)
    }
}

/// Runs a test in each naming mode that this process can have.
pub fn each(run: impl Fn(&Stage)) {
    each_in(&std::env::temp_dir(), run);
}

/// The same on a tmpfs, for tests with so many files that a disk would take minutes.
pub fn each_in_memory(run: impl Fn(&Stage)) {
    each_in("/dev/shm".as_ref(), run);
}

fn each_in(base: &Path, run: impl Fn(&Stage)) {
    if is_root() {
        run(&Stage::new_in(base, Naming::Handles));
        sys::identity::act_as_process().unwrap();
    } else {
        testing::skip(testing::Missing::Root, "files by handle");
    }
    run(&Stage::new_in(base, Naming::Table));
}

/// That something is mounted on a directory of the root, and not entered: where ids are handles, the directory below the
/// mount is found, which is empty, else access is denied.
#[track_caller]
pub fn assert_is_covered(local: &LocalFs, cx: &Cx<'_>, name: &str) {
    match find(local, cx, &local.root(), name) {
        Ok((covered, _)) => {
            assert_eq!(find(local, cx, &covered, "secret").map(drop), Err(vfs::Status::NoEnt));
        }
        Err(status) => assert_eq!(status, vfs::Status::Acces),
    }
}

pub fn find(local: &LocalFs, cx: &Cx<'_>, dir: &Fid, name: &str) -> Result<(Fid, Attr)> {
    let component = Component::new(name.as_bytes()).unwrap();
    local.lookup(cx, dir, component).map(|found| (found.node.fid, found.node.attr))
}

pub fn make(local: &LocalFs, cx: &Cx<'_>, dir: &Fid, file: &str, mode: u32) -> Result<Created> {
    let set = SetAttr { mode: Some(mode), ..SetAttr::default() };
    local.create(cx, dir, name(file), Create::Guarded(set))
}

pub fn put(local: &LocalFs, cx: &Cx<'_>, fid: &Fid, data: &[u8]) -> Result<usize> {
    local.write(cx, fid, 0, data, Stability::Unstable).map(|done| done.count)
}

pub fn take(local: &LocalFs, cx: &Cx<'_>, fid: &Fid) -> Result<Vec<u8>> {
    let mut data = vec![0; 1 << 16];
    let done = local.read(cx, fid, 0, &mut data)?;
    data.truncate(done.count);
    Ok(data)
}

/// All names of a directory, in several calls, each of at most `most` entries.
pub fn names(local: &LocalFs, cx: &Cx<'_>, dir: &Fid, most: usize, nodes: bool) -> Vec<String> {
    let (mut all, mut cookie) = (Vec::new(), 0);
    loop {
        let mut left = most;
        let done = local.readdir(
            cx,
            dir,
            vfs::ListArgs { room: most.saturating_mul(32), ..vfs::ListArgs::all(cookie, nodes) },
            &mut |entry| {
                if left == 0 {
                    return std::ops::ControlFlow::Break(());
                }
                assert!(entry.cookie != 0 && i64::try_from(entry.cookie).is_ok());
                all.push(String::from_utf8_lossy(entry.name).into_owned());
                (cookie, left) = (entry.cookie, left - 1);
                std::ops::ControlFlow::Continue(())
            },
        );
        if done.unwrap().eof {
            return all;
        }
    }
}

/// A mount that is removed at the end.
pub struct Mounted(PathBuf);

impl Mounted {
    pub fn tmpfs(at: &Path, options: &str) -> Self {
        run("mount", &["-t", "tmpfs", "-o", options, "none", at.to_str().unwrap()]);
        Self(at.to_owned())
    }

    pub fn bind(from: &Path, at: &Path) -> Self {
        run("mount", &["--bind", from.to_str().unwrap(), at.to_str().unwrap()]);
        Self(at.to_owned())
    }

    /// A file system in an image file, if there are loop devices.
    pub fn image(image: &Path, at: &Path) -> Option<Self> {
        let mount = Command::new("mount").args(["-o", "loop"]).args([image, at]).status();
        mount.is_ok_and(|status| status.success()).then(|| Self(at.to_owned()))
    }

    pub fn remount(&self, options: &str) {
        let options = format!("remount,{options}");
        let arguments = ["-o", &options, self.0.to_str().unwrap()];
        // busy as long as a child of another test has our descriptors
        soon("the mount not to be busy", || {
            Command::new("mount").args(arguments).status().unwrap().success()
        });
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        run("umount", &["-l", self.0.to_str().unwrap()]);
    }
}

/// Waits for a condition that is delayed only by children of other tests of this process: between
/// fork and exec they hold copies of our descriptors.
pub fn soon(what: &str, is_so: impl Fn() -> bool) {
    let until = Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(Instant::now() < until, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

pub fn run(program: &str, arguments: &[&str]) {
    let status = Command::new(program).args(arguments).status().unwrap();
    assert!(status.success(), "{program} {arguments:?}");
}

/// Descriptors of this process for a deleted file with this text in its path.
pub fn deleted_open(part: &str) -> usize {
    let links = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
    links
        .filter_map(|link| std::fs::read_link(link.path()).ok())
        .map(|target| target.to_string_lossy().into_owned())
        .filter(|target| target.contains(part) && target.ends_with("(deleted)"))
        .count()
}
