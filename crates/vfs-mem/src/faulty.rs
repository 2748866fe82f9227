//! A backend that fails on demand: what a dying, full or slow disk does to the server above it.

use std::ops::ControlFlow;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use vfs::{
    AccessMask, Attr, Backend, Change, Component, Create, Created, Cx, DirEntry, Fid, Found,
    Limits, ListArgs, Listing, Name, NodeKind, ReadDone, ReadRange, Result, SetAttr, Stability,
    StatFs, Status, Time, Verifier, Want, WriteDone,
};

/// A call of the trait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "each is the trait's call of that name")]
pub enum Verb {
    Statfs,
    Getattr,
    Setattr,
    Access,
    Lookup,
    Readlink,
    Read,
    Write,
    Commit,
    Create,
    Mkdir,
    Symlink,
    Mknod,
    Remove,
    Rmdir,
    Rename,
    Link,
    Readdir,
}

/// What goes wrong.
#[derive(Debug, Clone, Copy)]
pub struct Fault {
    /// Which call it is about; `None`: all.
    pub verb: Option<Verb>,
    /// What it fails with; `None`: it works.
    pub status: Option<Status>,
    /// How long it takes, asleep.
    pub delay: Duration,
    /// The longest that it takes, if that is more; evenly in between.
    pub delay_max: Duration,
    /// Which share of the calls it is about, 0 to 1; which of them is drawn.
    pub share: f64,
    /// Whether the delay is announced, as the trait demands.
    pub announced: bool,
    /// How often the disk has lost unstable data: each changes the write verifier.
    pub losses: u8,
    /// Whether it loses some more as each stable write begins, and somebody else's sync is told of it.
    pub loses: bool,
    /// Whether all changes come within one tick of the clock.
    pub timeless: bool,
}

impl Default for Fault {
    fn default() -> Self {
        let (delay, delay_max) = (Duration::ZERO, Duration::ZERO);
        Self {
            verb: None,
            status: None,
            delay,
            delay_max,
            share: 1.0,
            announced: false,
            losses: 0,
            loses: false,
            timeless: false,
        }
    }
}

/// A backend with faults that can be changed while it is in use.
pub struct Faulty<B> {
    inner: B,
    /// Locked to read or replace the fault only.
    fault: Arc<Mutex<Fault>>,
    /// Calls so far, of which each draws its lot.
    calls: AtomicU64,
}

impl<B: Backend> Faulty<B> {
    /// Over another backend, with no fault yet.
    pub fn new(inner: B) -> Self {
        Self { inner, fault: Arc::default(), calls: AtomicU64::new(0) }
    }

    /// The fault in force; keep a clone to change it later.
    pub fn fault(&self) -> Arc<Mutex<Fault>> {
        Arc::clone(&self.fault)
    }

    /// Two lots, from 0 to 1: splitmix64 of the call's number.
    fn draw(&self) -> (f64, f64) {
        let call = self.calls.fetch_add(1, Ordering::Relaxed);
        let mut z = call.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^= z >> 31;
        #[expect(clippy::cast_possible_truncation, reason = "two halves")]
        let lot = |half: u64| f64::from(half as u32) / (f64::from(u32::MAX) + 1.0);
        (lot(z >> 32), lot(z))
    }

    /// What a write says it did, by the clock in force.
    fn dated(&self, mut done: WriteDone) -> WriteDone {
        if self.fault.lock().unwrap_or_else(PoisonError::into_inner).timeless {
            let Change { before, after } = &mut done.file;
            before.iter_mut().for_each(|attr| (attr.mtime, attr.ctime) = Default::default());
            after.iter_mut().for_each(|attr| (attr.mtime, attr.ctime) = Default::default());
        }
        done
    }

    fn at(&self, cx: &Cx<'_>, verb: Verb) -> Result<&B> {
        let fault = *self.fault.lock().unwrap_or_else(PoisonError::into_inner);
        if fault.verb.is_some_and(|only| only != verb) {
            return Ok(&self.inner);
        }
        let (lot, other_lot) = self.draw();
        if fault.share < 1.0 && lot >= fault.share {
            return Ok(&self.inner);
        }
        let delay = fault.delay + fault.delay_max.saturating_sub(fault.delay).mul_f64(other_lot);
        if !delay.is_zero() {
            if fault.announced {
                cx.blocking.will_block();
            }
            std::thread::sleep(delay);
        }
        fault.status.map_or(Ok(&self.inner), Err)
    }
}

impl<B: Backend> Backend for Faulty<B> {
    fn root(&self) -> Fid {
        self.inner.root()
    }

    fn is_still_there(&self) -> bool {
        self.inner.is_still_there()
    }

    fn limits(&self) -> Limits {
        self.inner.limits()
    }

    fn write_verifier(&self) -> Verifier {
        let losses = self.fault.lock().unwrap_or_else(PoisonError::into_inner).losses;
        self.inner.write_verifier().map(|byte| byte.wrapping_add(losses))
    }

    fn statfs(&self, cx: &Cx<'_>, fid: &Fid) -> Result<StatFs> {
        self.at(cx, Verb::Statfs)?.statfs(cx, fid)
    }

    fn getattr(&self, cx: &Cx<'_>, fid: &Fid, want: Want) -> Result<Attr> {
        self.at(cx, Verb::Getattr)?.getattr(cx, fid, want)
    }

    fn setattr(
        &self,
        cx: &Cx<'_>,
        fid: &Fid,
        set: &SetAttr,
        guard: Option<Time>,
    ) -> Result<Change> {
        self.at(cx, Verb::Setattr)?.setattr(cx, fid, set, guard)
    }

    fn access(&self, cx: &Cx<'_>, fid: &Fid, mask: AccessMask) -> Result<(AccessMask, Attr)> {
        self.at(cx, Verb::Access)?.access(cx, fid, mask)
    }

    fn lookup(&self, cx: &Cx<'_>, dir: &Fid, name: Component<'_>) -> Result<Found> {
        self.at(cx, Verb::Lookup)?.lookup(cx, dir, name)
    }

    fn readlink(&self, cx: &Cx<'_>, fid: &Fid, target: &mut Vec<u8>) -> Result<Attr> {
        self.at(cx, Verb::Readlink)?.readlink(cx, fid, target)
    }

    fn read(&self, cx: &Cx<'_>, fid: &Fid, offset: u64, data: &mut [u8]) -> Result<ReadDone> {
        self.at(cx, Verb::Read)?.read(cx, fid, offset, data)
    }

    fn read_range(
        &self,
        cx: &Cx<'_>,
        fid: &Fid,
        offset: u64,
        count: usize,
        shortest: usize,
    ) -> Result<ReadRange> {
        self.at(cx, Verb::Read)?.read_range(cx, fid, offset, count, shortest)
    }

    fn write(
        &self,
        cx: &Cx<'_>,
        fid: &Fid,
        offset: u64,
        data: &[u8],
        stable: Stability,
    ) -> Result<WriteDone> {
        let inner = self.at(cx, Verb::Write)?;
        if stable != Stability::Unstable {
            let mut fault = self.fault.lock().unwrap_or_else(PoisonError::into_inner);
            fault.losses = fault.losses.wrapping_add(fault.loses.into());
        }
        inner.write(cx, fid, offset, data, stable).map(|done| self.dated(done))
    }

    fn write_piped(
        &self,
        cx: &Cx<'_>,
        fid: &Fid,
        offset: u64,
        pipe: BorrowedFd<'_>,
        len: usize,
    ) -> Result<WriteDone> {
        let inner = self.at(cx, Verb::Write)?;
        inner.write_piped(cx, fid, offset, pipe, len).map(|done| self.dated(done))
    }

    fn commit(&self, cx: &Cx<'_>, fid: &Fid, offset: u64, count: u64) -> Result<Change> {
        self.at(cx, Verb::Commit)?.commit(cx, fid, offset, count)
    }

    fn create(&self, cx: &Cx<'_>, dir: &Fid, name: Name<'_>, how: Create) -> Result<Created> {
        self.at(cx, Verb::Create)?.create(cx, dir, name, how)
    }

    fn mkdir(&self, cx: &Cx<'_>, dir: &Fid, name: Name<'_>, set: &SetAttr) -> Result<Created> {
        self.at(cx, Verb::Mkdir)?.mkdir(cx, dir, name, set)
    }

    fn symlink(
        &self,
        cx: &Cx<'_>,
        dir: &Fid,
        name: Name<'_>,
        target: &[u8],
        set: &SetAttr,
    ) -> Result<Created> {
        self.at(cx, Verb::Symlink)?.symlink(cx, dir, name, target, set)
    }

    fn mknod(
        &self,
        cx: &Cx<'_>,
        dir: &Fid,
        name: Name<'_>,
        kind: NodeKind,
        set: &SetAttr,
    ) -> Result<Created> {
        self.at(cx, Verb::Mknod)?.mknod(cx, dir, name, kind, set)
    }

    fn remove(&self, cx: &Cx<'_>, dir: &Fid, name: Name<'_>) -> Result<Change> {
        self.at(cx, Verb::Remove)?.remove(cx, dir, name)
    }

    fn rmdir(&self, cx: &Cx<'_>, dir: &Fid, name: Name<'_>) -> Result<Change> {
        self.at(cx, Verb::Rmdir)?.rmdir(cx, dir, name)
    }

    fn rename(
        &self,
        cx: &Cx<'_>,
        from: (&Fid, Name<'_>),
        to: (&Fid, Name<'_>),
    ) -> Result<(Change, Change)> {
        self.at(cx, Verb::Rename)?.rename(cx, from, to)
    }

    fn link(&self, cx: &Cx<'_>, fid: &Fid, dir: &Fid, name: Name<'_>) -> Result<(Attr, Change)> {
        self.at(cx, Verb::Link)?.link(cx, fid, dir, name)
    }

    fn readdir(
        &self,
        cx: &Cx<'_>,
        dir: &Fid,
        args: ListArgs,
        sink: &mut dyn FnMut(&DirEntry<'_>) -> ControlFlow<()>,
    ) -> Result<Listing> {
        self.at(cx, Verb::Readdir)?.readdir(cx, dir, args, sink)
    }
}
