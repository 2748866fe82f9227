//! The client: makes the calls one by one, and has the disk copied after each reply.

use super::tree::{DIRS, Exists, Node, SECTOR, Safety, Slot, Step, Tree, VERIFIER, content};
use crate::random::Xorshift;
use client::{Client, Fh, Identity};
use proto::nfs3::{CreateHow3, MknodData3, Nfstime3, Sattr3, SetTime3, StableHow};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};
use tls::{ClientFiles, ClientTls};

/// Longest wait for a copy of the disk, and for a reply.
const PATIENCE: Duration = Duration::from_secs(60);

/// Makes `steps` calls; copy 0 of the disk is from before the first, copy N from after the Nth.
///
/// In the first half the kernel writes nothing by itself, so that what was not synced is on no disk. In the second
/// it writes all the time, so that there is always something in the disk's cache that was not flushed.
pub fn work(seed: u64, steps: u64, job: &Path) {
    let mut hands = Caller::new();
    let (mut random, mut tree) = (Xorshift(seed), Tree::default());
    copy_disk(job, 0);
    for n in 1..=steps {
        if n == steps / 2 {
            write_back_at_once();
        }
        let step = tree.choose(&mut random, n);
        hands.name(step);
        hands.file(&tree, step);
        tree.answered(step);
        if n >= steps / 2 {
            // the kernel writes every hundredth of a second: some, none or all of it
            std::thread::sleep(Duration::from_millis(n % 4 * 10));
        }
        write_without_flush();
        copy_disk(job, n);
    }
}

/// Gives the disk blocks that it has not been told to flush, so that each cut loses some, whatever else the kernel has
/// written by then: direct writes go to the disk at once, and flush nothing.
fn write_without_flush() {
    let to = "of=/mnt/disk/unflushed";
    let written = Command::new("dd")
        .args([
            "if=/dev/zero",
            to,
            "bs=4096",
            "count=16",
            "oflag=direct",
            "conv=notrunc",
            "status=none",
        ])
        .status();
    assert!(written.unwrap().success());
}

/// Has the guest's kernel write whatever is dirty.
fn write_back_at_once() {
    for name in ["expire", "writeback"] {
        std::fs::write(format!("/proc/sys/vm/dirty_{name}_centisecs"), "1").unwrap();
    }
}

/// Has the host copy the disk as a power cut would leave it now.
fn copy_disk(job: &Path, n: u64) {
    let (part, cut) = (job.join("cut.part"), job.join("cut"));
    std::fs::write(&part, n.to_string()).unwrap();
    std::fs::rename(part, &cut).unwrap();
    let start = Instant::now();
    while cut.exists() {
        assert!(start.elapsed() < PATIENCE, "nobody copies the disk");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A connection to the server of the guest, over TLS if power.sh says by which authority.
fn connect() -> Client {
    let at = "127.0.0.1:2049".parse().unwrap();
    let Some(ca) = std::env::var_os("CA") else { return Client::tcp(at, PATIENCE).unwrap() };
    let files = ClientFiles { ca: Some(ca.into()), identity: None };
    let tls = ClientTls::open(&files, true, tls::ALPN).unwrap();
    let nfs3 = (proto::nfs3::PROGRAM, proto::nfs3::VERSION);
    let stream = client::starttls::connect(at, PATIENCE, nfs3, (&tls, "localhost")).unwrap();
    Client::over_tls(stream, PATIENCE)
}

/// A connection, and the handles of what it works on.
struct Caller {
    client: Client,
    dirs: Vec<Fh>,
    /// Of [`Tree::files`].
    files: Vec<Fh>,
}

impl Caller {
    fn new() -> Self {
        let mut client = connect();
        client.set_identity(Some(Identity::root()));
        let root = client.mount(b"/mnt/disk/served").unwrap();
        let mut dirs = vec![root];
        for name in &DIRS[1..] {
            let made = client.mkdir(&root, name.as_bytes(), Sattr3::default()).unwrap();
            dirs.push(made.handle.unwrap());
        }
        Self { client, dirs, files: Vec::new() }
    }

    /// Makes the call if it is one that works on a name.
    fn name(&mut self, step: Step) {
        let (dirs, client) = (&self.dirs, &mut self.client);
        let dir = |at: Slot| &dirs[at.dir];
        let none = Sattr3::default();
        match step {
            Step::Create { at, how, mode } => {
                let set = Sattr3 { mode: Some(mode), ..none };
                let how = match how {
                    Exists::Guarded => CreateHow3::Guarded(set),
                    Exists::Unchecked => CreateHow3::Unchecked(set),
                    Exists::Exclusive => CreateHow3::Exclusive([VERIFIER; 8]),
                };
                let made = client.create(dir(at), at.name(), how).unwrap();
                self.files.push(made.handle.unwrap());
            }
            Step::Empty { at } => {
                let set = Sattr3 { size: Some(0), ..none };
                client.create(dir(at), at.name(), CreateHow3::Unchecked(set)).unwrap();
            }
            Step::Mkdir { at } => drop(client.mkdir(dir(at), at.name(), none).unwrap()),
            Step::Symlink { at, to } => {
                let to = to.to_string();
                client.symlink(dir(at), at.name(), to.as_bytes(), none).unwrap();
            }
            Step::Mknod { at } => {
                client.mknod(dir(at), at.name(), MknodData3::Fifo(none)).unwrap();
            }
            Step::Rename { from, to } => {
                client.rename((dir(from), from.name()), (dir(to), to.name())).unwrap();
            }
            Step::Mode { at, mode } => {
                let found = client.lookup(dir(at), at.name()).unwrap();
                let set = Sattr3 { mode: Some(mode), ..none };
                client.setattr(&found.handle, set, None).unwrap();
            }
            Step::Remove { at } => drop(client.remove(dir(at), at.name()).unwrap()),
            Step::Rmdir { at } => drop(client.rmdir(dir(at), at.name()).unwrap()),
            _ => {}
        }
    }

    /// Makes the call if it is one that works on a file, by its handle.
    fn file(&mut self, tree: &Tree, step: Step) {
        let client = &mut self.client;
        let file = |at: Slot| match tree.names[&at] {
            Node::File(id) => &self.files[id],
            ref other => panic!("{at:?} is {other:?}"),
        };
        match step {
            Step::Link { file: of, at } => {
                client.link(file(of), &self.dirs[at.dir], at.name()).unwrap();
            }
            Step::Write { at, first, count, safety, tag } => {
                let data: Vec<u8> = (first..first + count).flat_map(|s| content(s, tag)).collect();
                let stable = match safety {
                    Safety::Unstable => StableHow::Unstable,
                    Safety::DataSync => StableHow::DataSync,
                    Safety::FileSync => StableHow::FileSync,
                };
                let done = client.write(file(at), first * SECTOR, &data, stable).unwrap();
                assert_eq!(u64::from(done.count), count * SECTOR);
            }
            Step::Commit { at, first, count } => {
                let bytes = u32::try_from(count * SECTOR).unwrap();
                client.commit(file(at), first * SECTOR, bytes).unwrap();
            }
            Step::Resize { at, sectors } => {
                let set = Sattr3 { size: Some(sectors * SECTOR), ..Sattr3::default() };
                client.setattr(file(at), set, None).unwrap();
            }
            Step::Times { at, mtime: seconds } => {
                let mtime = SetTime3::Client(Nfstime3 { seconds, nseconds: 0 });
                client.setattr(file(at), Sattr3 { mtime, ..Sattr3::default() }, None).unwrap();
            }
            _ => {}
        }
    }
}
