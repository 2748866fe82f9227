//! A backend with faults that can be switched on: errors, delays, data loss. For tests.

mod leases;
mod space;

use std::ops::ControlFlow;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;
use vfs::acl::Acls;
use vfs::{
    AccessMask, Attr, Backend, Change, Component, Create, Created, Cx, DirEntry, Fid, Found, Kept,
    Leases, Limits, ListArgs, Listing, Locks, Name, NodeKind, OpenAccess, Quotas, ReadDone,
    ReadRange, Result, SetAttr, Space, Stability, StatFs, Status, Time, Verifier, Want, WriteDone,
    Xattrs,
};

/// A call of the trait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "each is the trait's call of that name")]
pub enum Operation {
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
    CopyRange,
}

/// A fault.
#[derive(Debug, Clone, Copy)]
pub struct Fault {
    /// The affected call; `None`: all.
    pub operation: Option<Operation>,
    /// The error; `None`: it succeeds.
    pub status: Option<Status>,
    /// The time that it blocks.
    pub delay: Duration,
    /// The longest time that it blocks, if that is more; uniformly distributed.
    pub delay_max: Duration,
    /// The share of the calls that are affected, 0 to 1; pseudo-random.
    pub share: f64,
    /// Whether the backend calls `will_block` before the delay, as the trait requires.
    pub calls_will_block: bool,
    /// How often the write verifier has changed because unstable data was lost.
    pub verifier_changes: u8,
    /// Whether the write verifier changes as each stable write begins.
    pub changes_verifier_on_stable_write: bool,
    /// Whether all changes have the same time.
    pub clock_stands_still: bool,
    /// Where affected calls wait.
    pub gate: Option<&'static Gate>,
}

/// Where calls wait until they are let through.
#[derive(Debug, Default)]
pub struct Gate {
    /// How many have come, and whether it is open.
    state: Mutex<(usize, bool)>,
    changed: Condvar,
}

impl Gate {
    /// Waits for a call to come.
    pub fn await_call(&self) {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        drop(self.changed.wait_while(state, |(come, _)| *come == 0));
    }

    /// Lets all calls through.
    pub fn open(&self) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).1 = true;
        self.changed.notify_all();
    }

    fn pass(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.0 = state.0.saturating_add(1);
        self.changed.notify_all();
        drop(self.changed.wait_while(state, |(_, is_open)| !*is_open));
    }
}

impl Default for Fault {
    fn default() -> Self {
        let (delay, delay_max) = (Duration::ZERO, Duration::ZERO);
        Self {
            operation: None,
            status: None,
            delay,
            delay_max,
            share: 1.0,
            calls_will_block: false,
            verifier_changes: 0,
            changes_verifier_on_stable_write: false,
            clock_stands_still: false,
            gate: None,
        }
    }
}

/// A backend with faults that can be changed while it is in use.
pub struct FaultyFs<B> {
    inner: B,
    /// Locked to read or replace the fault only.
    fault: Arc<Mutex<Fault>>,
    /// Number of calls so far, which determines whether a call is affected.
    calls: AtomicU64,
}

impl<B: Backend> FaultyFs<B> {
    /// Over another backend, without a fault.
    pub fn new(inner: B) -> Self {
        Self { inner, fault: Arc::default(), calls: AtomicU64::new(0) }
    }

    /// The current fault; keep a clone to change it later.
    pub fn fault(&self) -> Arc<Mutex<Fault>> {
        Arc::clone(&self.fault)
    }

    /// Two numbers from 0 to 1: splitmix64 of the call's number.
    fn draw(&self) -> (f64, f64) {
        let call = self.calls.fetch_add(1, Ordering::Relaxed);
        let mut z = call.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^= z >> 31;
        #[expect(clippy::cast_possible_truncation, reason = "two halves")]
        let fraction = |half: u64| f64::from(half as u32) / (f64::from(u32::MAX) + 1.0);
        (fraction(z >> 32), fraction(z))
    }

    /// The result of a write, by the faulty clock.
    fn dated(&self, mut done: WriteDone) -> WriteDone {
        if self.fault.lock().unwrap_or_else(PoisonError::into_inner).clock_stands_still {
            let Change { before, after } = &mut done.file;
            before.iter_mut().for_each(|attr| (attr.mtime, attr.ctime) = Default::default());
            after.iter_mut().for_each(|attr| (attr.mtime, attr.ctime) = Default::default());
        }
        done
    }

    fn at(&self, cx: &Cx<'_>, operation: Operation) -> Result<&B> {
        let fault = *self.fault.lock().unwrap_or_else(PoisonError::into_inner);
        if fault.operation.is_some_and(|only| only != operation) {
            return Ok(&self.inner);
        }
        let (fraction, delay_fraction) = self.draw();
        if fault.share < 1.0 && fraction >= fault.share {
            return Ok(&self.inner);
        }
        let delay =
            fault.delay + fault.delay_max.saturating_sub(fault.delay).mul_f64(delay_fraction);
        if !delay.is_zero() {
            if fault.calls_will_block {
                cx.blocking.will_block()?;
            }
            std::thread::sleep(delay);
        }
        if let Some(gate) = fault.gate {
            gate.pass();
        }
        fault.status.map_or(Ok(&self.inner), Err)
    }
}

impl<B: Backend> Backend for FaultyFs<B> {
    fn root(&self) -> Fid {
        self.inner.root()
    }

    fn root_fsid(&self) -> u64 {
        self.inner.root_fsid()
    }

    fn is_still_there(&self) -> bool {
        self.inner.is_still_there()
    }

    fn limits(&self) -> Limits {
        self.inner.limits()
    }

    fn write_verifier(&self) -> Verifier {
        let verifier_changes =
            self.fault.lock().unwrap_or_else(PoisonError::into_inner).verifier_changes;
        self.inner.write_verifier().map(|byte| byte.wrapping_add(verifier_changes))
    }

    fn statfs(&self, cx: &Cx<'_>, fid: &Fid) -> Result<StatFs> {
        self.at(cx, Operation::Statfs)?.statfs(cx, fid)
    }

    fn getattr(&self, cx: &Cx<'_>, fid: &Fid, want: Want) -> Result<Attr> {
        self.at(cx, Operation::Getattr)?.getattr(cx, fid, want)
    }

    fn setattr(
        &self,
        cx: &Cx<'_>,
        fid: &Fid,
        set: &SetAttr,
        guard: Option<Time>,
    ) -> Result<Change> {
        self.at(cx, Operation::Setattr)?.setattr(cx, fid, set, guard)
    }

    fn access(&self, cx: &Cx<'_>, fid: &Fid, mask: AccessMask) -> Result<(AccessMask, Attr)> {
        self.at(cx, Operation::Access)?.access(cx, fid, mask)
    }

    fn may_open(&self, cx: &Cx<'_>, fid: &Fid, access: OpenAccess) -> Result<Attr> {
        self.at(cx, Operation::Access)?.may_open(cx, fid, access)
    }

    fn keep(&self, cx: &Cx<'_>, fid: &Fid) -> Result<Kept> {
        self.inner.keep(cx, fid)
    }

    fn open(&self, cx: &Cx<'_>, fid: &Fid, access: OpenAccess) -> Result<(Option<Kept>, Attr)> {
        self.at(cx, Operation::Access)?.open(cx, fid, access)
    }

    fn locks(&self) -> Option<&dyn Locks> {
        self.inner.locks()
    }

    fn acls(&self) -> Option<&dyn Acls> {
        self.inner.acls()
    }

    fn quotas(&self) -> Option<&dyn Quotas> {
        self.inner.quotas()
    }

    fn leases(&self) -> Option<&dyn Leases> {
        Some(self)
    }

    fn space(&self) -> Option<&dyn Space> {
        self.inner.space().map(|_| self as &dyn Space)
    }

    fn xattrs(&self) -> Option<&dyn Xattrs> {
        self.inner.xattrs()
    }

    fn lookup(&self, cx: &Cx<'_>, dir: &Fid, name: Component<'_>) -> Result<Found> {
        self.at(cx, Operation::Lookup)?.lookup(cx, dir, name)
    }

    fn readlink(&self, cx: &Cx<'_>, fid: &Fid, target: &mut Vec<u8>) -> Result<Attr> {
        self.at(cx, Operation::Readlink)?.readlink(cx, fid, target)
    }

    fn read(&self, cx: &Cx<'_>, fid: &Fid, offset: u64, data: &mut [u8]) -> Result<ReadDone> {
        self.at(cx, Operation::Read)?.read(cx, fid, offset, data)
    }

    fn read_range(
        &self,
        cx: &Cx<'_>,
        fid: &Fid,
        offset: u64,
        count: usize,
        shortest: usize,
    ) -> Result<ReadRange> {
        self.at(cx, Operation::Read)?.read_range(cx, fid, offset, count, shortest)
    }

    fn write(
        &self,
        cx: &Cx<'_>,
        fid: &Fid,
        offset: u64,
        data: &[u8],
        stable: Stability,
    ) -> Result<WriteDone> {
        let inner = self.at(cx, Operation::Write)?;
        if stable != Stability::Unstable {
            let mut fault = self.fault.lock().unwrap_or_else(PoisonError::into_inner);
            fault.verifier_changes =
                fault.verifier_changes.wrapping_add(fault.changes_verifier_on_stable_write.into());
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
        let inner = self.at(cx, Operation::Write)?;
        inner.write_piped(cx, fid, offset, pipe, len).map(|done| self.dated(done))
    }

    fn commit(&self, cx: &Cx<'_>, fid: &Fid, offset: u64, count: u64) -> Result<Change> {
        self.at(cx, Operation::Commit)?.commit(cx, fid, offset, count)
    }

    fn create(&self, cx: &Cx<'_>, dir: &Fid, name: Name<'_>, how: Create) -> Result<Created> {
        self.at(cx, Operation::Create)?.create(cx, dir, name, how)
    }

    fn mkdir(&self, cx: &Cx<'_>, dir: &Fid, name: Name<'_>, set: &SetAttr) -> Result<Created> {
        self.at(cx, Operation::Mkdir)?.mkdir(cx, dir, name, set)
    }

    fn symlink(
        &self,
        cx: &Cx<'_>,
        dir: &Fid,
        name: Name<'_>,
        target: &[u8],
        set: &SetAttr,
    ) -> Result<Created> {
        self.at(cx, Operation::Symlink)?.symlink(cx, dir, name, target, set)
    }

    fn mknod(
        &self,
        cx: &Cx<'_>,
        dir: &Fid,
        name: Name<'_>,
        kind: NodeKind,
        set: &SetAttr,
    ) -> Result<Created> {
        self.at(cx, Operation::Mknod)?.mknod(cx, dir, name, kind, set)
    }

    fn remove(&self, cx: &Cx<'_>, dir: &Fid, name: Name<'_>) -> Result<Change> {
        self.at(cx, Operation::Remove)?.remove(cx, dir, name)
    }

    fn rmdir(&self, cx: &Cx<'_>, dir: &Fid, name: Name<'_>) -> Result<Change> {
        self.at(cx, Operation::Rmdir)?.rmdir(cx, dir, name)
    }

    fn rename(
        &self,
        cx: &Cx<'_>,
        from: (&Fid, Name<'_>),
        to: (&Fid, Name<'_>),
    ) -> Result<(Change, Change)> {
        self.at(cx, Operation::Rename)?.rename(cx, from, to)
    }

    fn link(&self, cx: &Cx<'_>, fid: &Fid, dir: &Fid, name: Name<'_>) -> Result<(Attr, Change)> {
        self.at(cx, Operation::Link)?.link(cx, fid, dir, name)
    }

    fn readdir(
        &self,
        cx: &Cx<'_>,
        dir: &Fid,
        args: ListArgs,
        sink: &mut dyn FnMut(&DirEntry<'_>) -> ControlFlow<()>,
    ) -> Result<Listing> {
        self.at(cx, Operation::Readdir)?.readdir(cx, dir, args, sink)
    }
}
