//! Snapshots of the state for the operator: rows of values in a fixed order.

use crate::acquire::acquire;
use crate::file::Pending;
use crate::grace::Phase;
use crate::holder::Holder;
use crate::image::Piece;
use crate::key::{FileKey, HostId, Now, Tag};
use crate::range::{ByteRange, Mode};
use crate::record::MonitoredHost;
use crate::server::State;
use crate::share::ShareMode;
use crate::sync::Arc;
use std::ops::ControlFlow;

/// A range that is held or is being decided.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct LockRow {
    /// The owner.
    pub holder: Arc<Holder>,
    /// The bytes.
    pub range: ByteRange,
    /// How.
    pub mode: Mode,
    /// How long the kernel has been asked, in milliseconds; `None` if the lock is held.
    pub tentative_ms: Option<u64>,
}

/// A request that waits.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct WaiterRow {
    /// What the caller calls it.
    pub tag: Tag,
    /// The owner.
    pub holder: Arc<Holder>,
    /// The bytes.
    pub range: ByteRange,
    /// How they are to be held.
    pub mode: Mode,
    /// A local program's lock, or a limit, blocks it.
    pub local: bool,
}

/// A share reservation.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ShareRow {
    /// The host.
    pub host: HostId,
    /// The owner handle.
    pub oh: Box<[u8]>,
    /// What all of its opens want and deny.
    pub mode: ShareMode,
    /// How many opens there are.
    pub opens: u32,
}

/// A file with state.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct FileRow {
    /// The file.
    pub file: FileKey,
    /// What is held, by start and owner, then what is being decided.
    pub locks: Vec<LockRow>,
    /// Who waits, in order.
    pub waiters: Vec<WaiterRow>,
    /// The share reservations.
    pub shares: Vec<ShareRow>,
    /// What the kernel was shown.
    pub shown: Vec<(ByteRange, Mode)>,
    /// What the kernel is being asked, each with the bytes about which nobody else asks meanwhile.
    pub asked: Vec<(ByteRange, Vec<Piece>)>,
}

/// A host.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct HostRow {
    /// The host.
    pub id: HostId,
    /// Who it is.
    pub info: MonitoredHost,
    /// It may reclaim after a restart.
    pub recorded: bool,
    /// It is being removed.
    pub leaving: bool,
    /// Ranges that it holds.
    pub ranges: usize,
    /// Requests of it that wait.
    pub waiters: usize,
    /// Files in which it has something.
    pub files: usize,
    /// Milliseconds since its last call.
    pub silent_ms: u64,
}

/// The whole in numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Totals {
    /// Files with state.
    pub files: usize,
    /// Hosts.
    pub hosts: usize,
    /// Ranges that are held.
    pub ranges: usize,
    /// Requests that wait.
    pub waiters: usize,
    /// The grace period.
    pub grace: Phase,
    /// When it ends at the latest.
    pub grace_ends_ms: u64,
}

impl State {
    /// The whole in numbers.
    pub fn totals(&self) -> Totals {
        let (hosts, (ranges, waiters)) = {
            let hosts = acquire(&self.hosts);
            (hosts.iter().count(), hosts.totals())
        };
        let (grace, grace_ends_ms) = self.grace(|grace| (grace.phase(), grace.ends_ms()));
        Totals { files: self.files.count(), hosts, ranges, waiters, grace, grace_ends_ms }
    }

    /// The hosts, by name.
    pub fn host_rows(&self, now: Now) -> Vec<HostRow> {
        let hosts = acquire(&self.hosts);
        let mut rows: Vec<HostRow> = hosts
            .iter()
            .map(|host| HostRow {
                id: host.id,
                info: host.info.clone(),
                recorded: host.recorded,
                leaving: host.leaving,
                ranges: host.ranges,
                waiters: host.waiters,
                files: host.files.len(),
                silent_ms: now.since(host.last_call_ms),
            })
            .collect();
        drop(hosts);
        rows.sort_by(|a, b| (a.info.addr, &a.info.name).cmp(&(b.info.addr, &b.info.name)));
        rows
    }

    /// The files with state, by key; each as it is when it is looked at.
    pub fn file_rows(&self, now: Now) -> Vec<FileRow> {
        let mut keys = self.files.keys();
        keys.sort_unstable();
        keys.iter().filter_map(|file| self.file_row(now, file)).collect()
    }

    /// One file.
    pub fn file_row(&self, now: Now, file: &FileKey) -> Option<FileRow> {
        self.files.with(file, |state| {
            let mut locks = Vec::with_capacity(state.ranges.len());
            let _all: ControlFlow<()> = state.ranges.visit(ByteRange::ALL, |entry| {
                let holder = Arc::clone(&entry.holder);
                let (range, mode) = (entry.range, entry.mode);
                locks.push(LockRow { holder, range, mode, tentative_ms: None });
                ControlFlow::Continue(())
            });
            locks.sort_by(|a, b| (a.range, &a.holder).cmp(&(b.range, &b.holder)));
            let takes = state.pending.iter().filter_map(|pending| {
                let take = pending.take.as_ref().filter(|take| !take.gone)?;
                let tentative_ms = Some(now.since(pending.since_ms));
                let holder = Arc::clone(&take.holder);
                Some(LockRow { holder, range: take.range, mode: take.mode, tentative_ms })
            });
            locks.extend(takes);
            let waiters = state.waiters.iter().map(|waiter| WaiterRow {
                tag: waiter.tag,
                holder: Arc::clone(&waiter.holder),
                range: waiter.range,
                mode: waiter.mode,
                local: waiter.retry.is_some(),
            });
            let shares = state.shares.iter().map(|share| ShareRow {
                host: share.host,
                oh: share.oh.clone(),
                mode: share.mode(),
                opens: share.opens(),
            });
            FileRow {
                file: *file,
                waiters: waiters.collect(),
                shares: shares.collect(),
                shown: state.image.pieces().collect(),
                asked: state.pending.iter().map(asked).collect(),
                locks,
            }
        })
    }
}

fn asked(pending: &Pending) -> (ByteRange, Vec<Piece>) {
    (pending.extent, pending.pieces.clone())
}
