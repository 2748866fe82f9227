//! A small file system over `/dev/fuse` whose operations hang, fail or succeed as a test says.
//!
//! [`FuseTree::mount`] mounts a directory of ordinary files, whose data is kept in memory. Each operation that is
//! [hung](FuseTree::hang) is received and not answered until [`FuseTree::release`]: to the kernel that is a file
//! system whose disk or server is gone. A thread that waits for such an answer cannot be killed, not even by
//! SIGKILL, until the answer comes or the mount is [aborted](FuseTree::abort). [`FuseTree::fail`] has an operation
//! answered with an error.
//!
//! The protocol is that of `linux/fuse.h`, version 7.31; its structures are encoded field by field. Nothing is
//! cached by the kernel (validity 0), so that each system call arrives here. One thread receives; it holds the
//! lock of the state only while it makes an answer.

use crate::{Missing, is_root, skip};
use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The minor version of the protocol that is spoken.
const MINOR: u32 = 31;
/// Largest WRITE that the kernel sends.
const WRITE_MAX: u32 = 128 << 10;
/// What is asked of the kernel: file handles that outlive its caches, large WRITEs, look-ups side by side.
const INIT_FLAGS: u32 = 1 << 4 | 1 << 5 | 1 << 18;
/// Background requests (RELEASE among them) before the kernel holds others back.
const BACKGROUND_MAX: u16 = 512;
/// The node of the root.
const ROOT: u64 = 1;
/// The node of the first file.
const FIRST_FILE: u64 = 2;

const NO_ENTRY: i32 = 2;
const INTERRUPTED: i32 = 4;
const EXISTS: i32 = 17;
const NOT_IMPLEMENTED: i32 = 38;

/// An operation of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum Op {
    /// Looks a name up.
    Lookup = 1,
    /// stat.
    GetAttr = 3,
    /// chmod, chown, truncate, utimes.
    SetAttr = 4,
    /// unlink.
    Unlink = 10,
    /// open of a file.
    Open = 14,
    /// read.
    Read = 15,
    /// write.
    Write = 16,
    /// statfs.
    StatFs = 17,
    /// The last descriptor of an open file was closed; nobody waits for it.
    Release = 18,
    /// fsync.
    Fsync = 20,
    /// A descriptor was closed; close waits for it.
    Flush = 25,
    /// open of a directory.
    OpenDir = 27,
    /// getdents.
    ReadDir = 28,
    /// open with `O_CREAT`.
    Create = 35,
}

const FORGET: u32 = 2;
const INIT: u32 = 26;
const RELEASE_DIR: u32 = 29;
const INTERRUPT: u32 = 36;
const BATCH_FORGET: u32 = 42;

#[derive(Debug, Clone, Default)]
struct Node {
    data: Vec<u8>,
    mode: u32,
    uid: u32,
    gid: u32,
    mtime_s: u64,
}

/// A request that was received.
#[derive(Debug, Clone)]
struct Request {
    opcode: u32,
    unique: u64,
    node: u64,
    /// What follows the header.
    body: Vec<u8>,
}

#[derive(Debug, Default)]
struct State {
    names: BTreeMap<Vec<u8>, u64>,
    nodes: BTreeMap<u64, Node>,
    last_node: u64,
    hung: Vec<u32>,
    failing: HashMap<u32, i32>,
    /// Requests that were received and hang.
    held: Vec<Request>,
    /// Whether an interrupt ends what hangs.
    answers_interrupts: bool,
    /// How often each operation was received.
    received: HashMap<u32, u64>,
}

struct Shared {
    device: File,
    state: Mutex<State>,
    changed: Condvar,
}

/// A mounted tree; unmounted when it is dropped.
pub struct FuseTree {
    mount: PathBuf,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl FuseTree {
    /// Mounts a directory with these files (name, data) on `mount`, which is made if it does not exist; `None`, and a
    /// counted skip, where that cannot be done.
    ///
    /// # Panics
    /// If the directory cannot be made.
    #[must_use]
    pub fn mount(mount: &Path, files: &[(&str, &[u8])]) -> Option<Self> {
        if !is_root() {
            skip(Missing::Root, "a file system over /dev/fuse");
            return None;
        }
        let Ok(device) = File::options().read(true).write(true).open("/dev/fuse") else {
            skip(Missing::Kernel, "/dev/fuse");
            return None;
        };
        std::fs::create_dir_all(mount).unwrap();
        // mount(8) has the device as its standard input: the kernel takes the descriptor by its number there
        let options = "fd=0,rootmode=40000,user_id=0,group_id=0,allow_other,default_permissions";
        let mut command = Command::new("mount");
        command.args(["-i", "-t", "fuse", "-o", options, "bowline-test"]).arg(mount);
        let output = command.stdin(Stdio::from(device.try_clone().unwrap())).output().unwrap();
        if !output.status.success() {
            skip(
                Missing::Kernel,
                format_args!("fuse: {}", String::from_utf8_lossy(&output.stderr)),
            );
            return None;
        }
        let shared = Arc::new(Shared {
            device,
            state: Mutex::new(State::with_files(files)),
            changed: Condvar::new(),
        });
        let theirs = Arc::clone(&shared);
        let thread = std::thread::spawn(move || theirs.serve());
        Some(Self { mount: mount.to_owned(), shared, thread: Some(thread) })
    }

    /// Where it is mounted.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.mount
    }

    /// Path of one of its files.
    #[must_use]
    pub fn file(&self, name: &str) -> PathBuf {
        self.mount.join(name)
    }

    /// From now on these operations hang.
    pub fn hang(&self, ops: &[Op]) {
        let mut state = self.shared.state.lock().unwrap();
        state.hung = ops.iter().map(|op| *op as u32).collect();
    }

    /// Every operation hangs.
    pub fn hang_all(&self) {
        let mut state = self.shared.state.lock().unwrap();
        state.hung =
            (0..64).filter(|op| ![INIT, FORGET, INTERRUPT, BATCH_FORGET].contains(op)).collect();
    }

    /// Nothing hangs any more; what did is answered.
    pub fn release(&self) {
        let mut state = self.shared.state.lock().unwrap();
        state.hung.clear();
        for request in std::mem::take(&mut state.held) {
            self.shared.answer(&mut state, &request);
        }
    }

    /// From now on an operation fails with this error number; 0: it works again.
    pub fn fail(&self, op: Op, errno: i32) {
        self.shared.state.lock().unwrap().failing.insert(op as u32, errno);
    }

    /// From now on a request that hangs ends with EINTR when the kernel says that its caller was interrupted or
    /// killed, as most file systems do. Without it the caller cannot be killed.
    pub fn answer_interrupts(&self) {
        self.shared.state.lock().unwrap().answers_interrupts = true;
    }

    /// How many requests of an operation hang now.
    #[must_use]
    pub fn held(&self, op: Op) -> usize {
        self.shared.state.lock().unwrap().held(op)
    }

    /// Waits until at least this many requests of an operation hang.
    ///
    /// # Panics
    /// After thirty seconds.
    pub fn wait_until_held(&self, op: Op, count: usize) {
        self.wait_until(&format!("{count} {op:?} hang"), |state| state.held(op) >= count);
    }

    /// Waits until at least this many requests hang, of whatever operation.
    ///
    /// # Panics
    /// After thirty seconds.
    pub fn wait_until_any_held(&self, count: usize) {
        self.wait_until(&format!("{count} requests hang"), |state| state.held.len() >= count);
    }

    fn wait_until(&self, what: &str, is_so: impl Fn(&State) -> bool) {
        let begun = Instant::now();
        let mut state = self.shared.state.lock().unwrap();
        while !is_so(&state) {
            let left = Duration::from_secs(30).checked_sub(begun.elapsed());
            let left = left.unwrap_or_else(|| panic!("not so: {what}"));
            state = self.shared.changed.wait_timeout(state, left).unwrap().0;
        }
    }

    /// How many requests of an operation were received so far.
    #[must_use]
    pub fn received(&self, op: Op) -> u64 {
        let state = self.shared.state.lock().unwrap();
        state.received.get(&(op as u32)).copied().unwrap_or(0)
    }

    /// What a file holds.
    #[must_use]
    pub fn data(&self, name: &str) -> Option<Vec<u8>> {
        let state = self.shared.state.lock().unwrap();
        let node = state.names.get(name.as_bytes())?;
        state.nodes.get(node).map(|node| node.data.clone())
    }

    /// Ends the file system: a thread that waits for an answer gets an error, as after writing to
    /// `/sys/fs/fuse/connections/N/abort`.
    pub fn abort(&self) {
        let _ = Command::new("umount").args(["-f", "-l"]).arg(&self.mount).output();
    }
}

impl Drop for FuseTree {
    fn drop(&mut self) {
        self.abort();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Shared {
    /// Receives until the mount is gone (ENODEV).
    fn serve(&self) {
        let mut buffer = vec![0; WRITE_MAX as usize + 4096];
        loop {
            let len = match (&self.device).read(&mut buffer) {
                Ok(len) => len,
                // ENOENT: the request was interrupted before it was received
                Err(error) if matches!(error.raw_os_error(), Some(2 | 4 | 11)) => continue,
                Err(_) => return,
            };
            let Some(request) = Request::parse(&buffer[..len]) else { continue };
            let mut state = self.state.lock().unwrap();
            *state.received.entry(request.opcode).or_default() += 1;
            if request.opcode == INTERRUPT {
                self.interrupt(&mut state, &request);
            } else if state.hung.contains(&request.opcode) {
                state.held.push(request);
            } else {
                self.answer(&mut state, &request);
            }
            drop(state);
            self.changed.notify_all();
        }
    }

    fn answer(&self, state: &mut State, request: &Request) {
        if [FORGET, INTERRUPT, BATCH_FORGET].contains(&request.opcode) {
            return;
        }
        let failing = state.failing.get(&request.opcode).copied().filter(|errno| *errno != 0);
        let result = failing.map_or_else(|| state.perform(request), Err);
        self.reply(request, result);
    }

    /// The caller of a request was interrupted: `fuse_interrupt_in` names it.
    fn interrupt(&self, state: &mut State, request: &Request) {
        if !state.answers_interrupts {
            return;
        }
        let unique = Fields(&request.body).u64(0);
        if let Some(place) = state.held.iter().position(|held| held.unique == unique) {
            let held = state.held.swap_remove(place);
            self.reply(&held, Err(INTERRUPTED));
        }
    }

    fn reply(&self, request: &Request, result: Result<Vec<u8>, i32>) {
        let (error, body) = match result {
            Ok(body) => (0, body),
            Err(errno) => (-errno, Vec::new()),
        };
        let mut reply = u32::try_from(body.len() + 16).unwrap().to_ne_bytes().to_vec();
        reply.extend(error.to_ne_bytes());
        reply.extend(request.unique.to_ne_bytes());
        reply.extend(body);
        // fails if the caller was killed meanwhile, or the mount is gone
        let _ = (&self.device).write(&reply);
    }
}

impl Request {
    fn parse(bytes: &[u8]) -> Option<Self> {
        let header = Fields(bytes);
        let body = bytes.get(40..)?.to_vec();
        Some(Self { opcode: header.u32(4), unique: header.u64(8), node: header.u64(16), body })
    }

    /// The name at the end of the body, which ends in a zero, behind `skip` bytes.
    fn name(&self, skip: usize) -> Vec<u8> {
        let rest = self.body.get(skip..).unwrap_or_default();
        rest.split(|byte| *byte == 0).next().unwrap_or_default().to_vec()
    }
}

/// A structure of the protocol, in the machine's byte order.
struct Fields<'b>(&'b [u8]);

impl Fields<'_> {
    fn u32(&self, at: usize) -> u32 {
        self.0.get(at..).and_then(|b| b.first_chunk()).map_or(0, |b| u32::from_ne_bytes(*b))
    }

    fn u64(&self, at: usize) -> u64 {
        self.0.get(at..).and_then(|b| b.first_chunk()).map_or(0, |b| u64::from_ne_bytes(*b))
    }
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

fn longs(longs: &[u64]) -> Vec<u8> {
    longs.iter().flat_map(|long| long.to_ne_bytes()).collect()
}

impl State {
    fn with_files(files: &[(&str, &[u8])]) -> Self {
        let root = Node { mode: 0o040_777, ..Node::default() };
        let mut state = Self { last_node: ROOT, ..Self::default() };
        state.nodes.insert(ROOT, root);
        for (name, data) in files {
            let node = state.add(name.as_bytes().to_vec(), 0o100_666);
            state.nodes.entry(node).and_modify(|node| node.data = data.to_vec());
        }
        state
    }

    fn add(&mut self, name: Vec<u8>, mode: u32) -> u64 {
        self.last_node = (self.last_node + 1).max(FIRST_FILE);
        self.nodes.insert(self.last_node, Node { mode, ..Node::default() });
        self.names.insert(name, self.last_node);
        self.last_node
    }

    fn held(&self, op: Op) -> usize {
        self.held.iter().filter(|request| request.opcode == op as u32).count()
    }

    /// Does what a request asks for; the body of the reply, or an error number.
    fn perform(&mut self, request: &Request) -> Result<Vec<u8>, i32> {
        const LOOKUP: u32 = Op::Lookup as u32;
        const GETATTR: u32 = Op::GetAttr as u32;
        const SETATTR: u32 = Op::SetAttr as u32;
        const UNLINK: u32 = Op::Unlink as u32;
        const OPEN: u32 = Op::Open as u32;
        const OPEN_DIR: u32 = Op::OpenDir as u32;
        const READ: u32 = Op::Read as u32;
        const WRITE: u32 = Op::Write as u32;
        const STATFS: u32 = Op::StatFs as u32;
        const READ_DIR: u32 = Op::ReadDir as u32;
        const CREATE: u32 = Op::Create as u32;
        const RELEASE: u32 = Op::Release as u32;
        const FSYNC: u32 = Op::Fsync as u32;
        const FLUSH: u32 = Op::Flush as u32;
        match request.opcode {
            INIT => Ok(init(&request.body)),
            LOOKUP => self.lookup(request),
            GETATTR => self.attributes(request.node),
            SETATTR => self.set_attributes(request),
            UNLINK => self.names.remove(&request.name(0)).map(|_| Vec::new()).ok_or(NO_ENTRY),
            OPEN => Ok(open_out(request.node)),
            OPEN_DIR => Ok(longs(&[request.node, 0])),
            READ => self.read(request),
            WRITE => self.write(request),
            STATFS => Ok(statfs()),
            READ_DIR => Ok(self.list(request)),
            CREATE => self.create(request),
            RELEASE | RELEASE_DIR | FSYNC | FLUSH => Ok(Vec::new()),
            _ => Err(NOT_IMPLEMENTED),
        }
    }

    fn lookup(&self, request: &Request) -> Result<Vec<u8>, i32> {
        let node = match request.name(0).as_slice() {
            // of a file handle: the node itself; there is one directory
            b"." => request.node,
            b".." => ROOT,
            name => *self.names.get(name).ok_or(NO_ENTRY)?,
        };
        self.entry(node)
    }

    /// `fuse_entry_out`.
    fn entry(&self, node: u64) -> Result<Vec<u8>, i32> {
        let attr = self.attr(node)?;
        Ok([longs(&[node, 1, 0, 0, 0]), attr].concat())
    }

    /// `fuse_attr_out`.
    fn attributes(&self, node: u64) -> Result<Vec<u8>, i32> {
        Ok([longs(&[0, 0]), self.attr(node)?].concat())
    }

    /// `fuse_attr`.
    fn attr(&self, node: u64) -> Result<Vec<u8>, i32> {
        let Node { data, mode, uid, gid, mtime_s } = self.nodes.get(&node).ok_or(NO_ENTRY)?;
        let size = data.len() as u64;
        let times = longs(&[node, size, size.div_ceil(512), *mtime_s, *mtime_s, *mtime_s]);
        let links = if node == ROOT { 2 } else { 1 };
        Ok([times, words(&[0, 0, 0, *mode, links, *uid, *gid, 0, 4096, 0])].concat())
    }

    fn set_attributes(&mut self, request: &Request) -> Result<Vec<u8>, i32> {
        let fields = Fields(&request.body);
        let valid = fields.u32(0);
        let node = self.nodes.get_mut(&request.node).ok_or(NO_ENTRY)?;
        if valid & 1 != 0 {
            node.mode = fields.u32(68);
        }
        if valid & 2 != 0 {
            node.uid = fields.u32(76);
        }
        if valid & 4 != 0 {
            node.gid = fields.u32(80);
        }
        if valid & 8 != 0 {
            node.data.resize(usize::try_from(fields.u64(16)).unwrap(), 0);
        }
        if valid & 32 != 0 {
            node.mtime_s = fields.u64(40);
        }
        self.attributes(request.node)
    }

    fn read(&self, request: &Request) -> Result<Vec<u8>, i32> {
        let fields = Fields(&request.body);
        let (offset, size) = (usize::try_from(fields.u64(8)).unwrap(), fields.u32(16) as usize);
        let data = &self.nodes.get(&request.node).ok_or(NO_ENTRY)?.data;
        let from = data.get(offset..).unwrap_or_default();
        Ok(from[..size.min(from.len())].to_vec())
    }

    fn write(&mut self, request: &Request) -> Result<Vec<u8>, i32> {
        let fields = Fields(&request.body);
        let (offset, size) = (usize::try_from(fields.u64(8)).unwrap(), fields.u32(16));
        let bytes = request.body.get(40..40 + size as usize).unwrap_or_default();
        let node = self.nodes.get_mut(&request.node).ok_or(NO_ENTRY)?;
        node.data.resize(node.data.len().max(offset + bytes.len()), 0);
        node.data[offset..offset + bytes.len()].copy_from_slice(bytes);
        Ok(words(&[size, 0]))
    }

    fn create(&mut self, request: &Request) -> Result<Vec<u8>, i32> {
        let (mode, name) = (Fields(&request.body).u32(4), request.name(16));
        if self.names.contains_key(&name) {
            return Err(EXISTS);
        }
        let node = self.add(name, mode);
        Ok([self.entry(node)?, open_out(node)].concat())
    }

    /// `fuse_dirent` of each name behind the offset.
    fn list(&self, request: &Request) -> Vec<u8> {
        let fields = Fields(&request.body);
        let (offset, size) = (usize::try_from(fields.u64(8)).unwrap(), fields.u32(16) as usize);
        let dots = [(&b"."[..], ROOT), (b"..", ROOT)];
        let names = self.names.iter().map(|(name, node)| (name.as_slice(), *node));
        let mut out = Vec::new();
        for (index, (name, node)) in dots.into_iter().chain(names).enumerate().skip(offset) {
            let kind = self.nodes.get(&node).map_or(0, |node| node.mode >> 12);
            let mut entry = longs(&[node, index as u64 + 1]);
            entry.extend(words(&[u32::try_from(name.len()).unwrap(), kind]));
            entry.extend(name);
            entry.resize(entry.len().next_multiple_of(8), 0);
            if out.len() + entry.len() > size {
                break;
            }
            out.extend(entry);
        }
        out
    }
}

/// `fuse_open_out` of a file whose data the kernel does not cache (`FOPEN_DIRECT_IO`).
fn open_out(node: u64) -> Vec<u8> {
    [longs(&[node]), words(&[1, 0])].concat()
}

/// `fuse_init_out`.
fn init(body: &[u8]) -> Vec<u8> {
    let fields = Fields(body);
    let flags = fields.u32(12) & INIT_FLAGS;
    let mut out = words(&[7, MINOR, fields.u32(8), flags]);
    out.extend(BACKGROUND_MAX.to_ne_bytes());
    out.extend(BACKGROUND_MAX.to_ne_bytes());
    out.extend(words(&[WRITE_MAX, 1]));
    out.resize(64, 0);
    out
}

/// `fuse_statfs_out`: a file system with room.
fn statfs() -> Vec<u8> {
    let mut out = longs(&[1 << 20, 1 << 19, 1 << 19, 1 << 16, 1 << 15]);
    out.extend(words(&[4096, 255, 4096]));
    out.resize(80, 0);
    out
}

#[cfg(test)]
mod tests {
    use super::{FuseTree, Op};
    use std::io::ErrorKind;

    #[test]
    fn operations_of_the_fuse_tree_can_hang_and_fail() {
        let dir = tempfile::tempdir().unwrap();
        let Some(tree) = FuseTree::mount(dir.path(), &[("a", b"hello"), ("b", b"")]) else {
            return;
        };
        assert_eq!(std::fs::read(tree.file("a")).unwrap(), b"hello");
        std::fs::write(tree.file("b"), b"written").unwrap();
        std::fs::write(tree.file("c"), b"made").unwrap();
        assert_eq!(tree.data("b").unwrap(), b"written");
        let listed = std::fs::read_dir(tree.path()).unwrap();
        let mut names: Vec<_> = listed.map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, ["a", "b", "c"]);
        std::fs::remove_file(tree.file("c")).unwrap();
        tree.fail(Op::Write, 28);
        let error = std::fs::write(tree.file("b"), b"more").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::StorageFull);
        tree.fail(Op::Write, 0);

        tree.hang(&[Op::GetAttr]);
        let path = tree.file("a");
        let reader = std::thread::spawn(move || std::fs::read(path).map(|data| data.len()));
        tree.wait_until_held(Op::GetAttr, 1);
        assert!(!reader.is_finished());
        tree.release();
        assert_eq!(reader.join().unwrap().unwrap(), 5);
        assert!(tree.received(Op::GetAttr) > 1 && tree.held(Op::GetAttr) == 0);

        tree.hang_all();
        let path = tree.file("a");
        let reader = std::thread::spawn(move || std::fs::read(path));
        tree.wait_until_any_held(1);
        tree.abort();
        assert!(reader.join().unwrap().is_err());
    }
}
