//! Copies that go on after their COPY is answered (RFC 7862 §4.8, §15.2): OFFLOAD_STATUS, OFFLOAD_CANCEL, CB_OFFLOAD.
//!
//! [`table`] says which copies there are and whose turn is next; [`threads`] runs the steps, which a copy's [`CopyWork`]
//! makes. A copy that finds no room is not begun here, and its COPY is answered as a synchronous one.
//!
//! A copy has the rights of its stateids, which are checked before each step: a copy whose open was closed, revoked or lost
//! with its client stops, with what it has copied until then. The outcome is kept until the client has answered CB_OFFLOAD
//! and a lease has passed, or two leases; until then CB_OFFLOAD is sent again to a client that could not be reached.
//! Nothing of a copy outlives the server: what was copied is as stable as an unstable write, and the verifier tells.
//!
//! Locks: the table's, held for operations on lists and maps; that of a copy's work, held by the thread that makes a step.
//! Never both at once; no call is made and no file is closed under the table's.

mod table;
mod threads;

use proto::nfs4::Nfsstat4;
use rpc::Blocking;
use state::v4::{Principal, Stateid, V4State};
use state::{FileKey, Now};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;
use table::{After, Cancel, Table};

pub(super) use table::{AsyncCopy, CopyFacts, CopyWork, Progress, Step};

/// How long OFFLOAD_CANCEL waits for the step that is being made, before NFS4ERR_DELAY.
const CANCEL_WAIT: Duration = Duration::from_millis(30);

/// Wakes the thread that looks after outcomes. Must not block.
type Waker = Box<dyn Fn() + Send + Sync>;

/// How many copies there were that went on after COPY was answered.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CopyCounts {
    /// Begun.
    pub begun: u64,
    /// Ended with success, wholly or, for lack of a right, in part.
    pub done: u64,
    /// Ended with an error.
    pub failed: u64,
    /// Ended by OFFLOAD_CANCEL, or with their client.
    pub cancelled: u64,
    /// Answered as synchronous copies, as there was no room.
    pub refused: u64,
    /// Bytes copied.
    pub bytes: u64,
    /// That run or wait for their turn, now.
    pub under_way: u64,
}

/// A copy under way, for the operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopyView {
    /// The id of its client.
    pub client: u64,
    /// The path of the export.
    pub export: String,
    /// The source and the target on this machine, if they are known.
    pub files: [Option<String>; 2],
    /// Bytes copied.
    pub copied: u64,
    /// Bytes to copy.
    pub total: u64,
    /// How long ago it was begun.
    pub age_ms: u64,
}

#[derive(Default)]
struct Counters {
    begun: AtomicU64,
    done: AtomicU64,
    failed: AtomicU64,
    cancelled: AtomicU64,
    refused: AtomicU64,
    bytes: AtomicU64,
}

/// Who has the state by which copies are checked, and tells clients of their end.
pub(super) trait CopyServer: Send + Sync {
    fn copies(&self) -> &Copies;
    fn state(&self) -> &V4State;
    fn now(&self) -> Now;
    /// Something may have been written since the right to it was checked.
    fn copy_stepped(&self, copy: &AsyncCopy);
    /// Tells a client how a copy has ended; [`Copies::answered`] is called then.
    fn tell_copy_ended(self: Arc<Self>, copy: &AsyncCopy, status: Nfsstat4);
}

/// All copies that go on after their COPY is answered.
#[derive(Default)]
pub struct Copies {
    table: Mutex<Table>,
    /// A step has ended.
    stepped: Condvar,
    server: OnceLock<Weak<dyn CopyServer>>,
    waker: OnceLock<Waker>,
    stops: AtomicBool,
    counters: Counters,
}

/// The outcome of OFFLOAD_CANCEL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cancelled {
    /// Nothing more is written.
    Yes,
    /// Nothing more is written once the step that is being made has ended.
    Soon,
    NoSuchCopy,
}

impl Copies {
    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says who makes the steps, once; without it no copy is begun here.
    pub(super) fn set_server(&self, server: Weak<dyn CopyServer>) {
        let _first = self.server.set(server);
    }

    pub(crate) fn set_waker(&self, waker: Waker) {
        let _first = self.waker.set(waker);
    }

    fn wake(&self) {
        if let Some(wake) = self.waker.get() {
            wake();
        }
    }

    /// No further step is made, and no client is told anything.
    pub fn stop(&self) {
        self.stops.store(true, Relaxed);
    }

    /// How many there were.
    pub fn counts(&self) -> CopyCounts {
        let counters = &self.counters;
        CopyCounts {
            begun: counters.begun.load(Relaxed),
            done: counters.done.load(Relaxed),
            failed: counters.failed.load(Relaxed),
            cancelled: counters.cancelled.load(Relaxed),
            refused: counters.refused.load(Relaxed),
            bytes: counters.bytes.load(Relaxed),
            under_way: self.lock().under_way().count() as u64,
        }
    }

    /// Those that are under way, the oldest first.
    pub fn views(&self, now: Now) -> Vec<CopyView> {
        let mut copies: Vec<Arc<AsyncCopy>> = self.lock().under_way().cloned().collect();
        copies.sort_by_key(|copy| copy.facts.begun_ms);
        let view = |copy: &Arc<AsyncCopy>| CopyView {
            client: copy.facts.client,
            export: copy.facts.export_path.clone(),
            files: copy.facts.files.clone(),
            copied: copy.copied.load(Relaxed),
            total: copy.facts.total,
            age_ms: now.0.saturating_sub(copy.facts.begun_ms),
        };
        copies.iter().map(view).collect()
    }

    /// Has a copy go on by itself; false if there is no room for it.
    pub(super) fn begin(&self, copy: &Arc<AsyncCopy>) -> bool {
        let server = self.server.get().filter(|_| !self.stops.load(Relaxed));
        let (bytes, export) = (copy.copied.load(Relaxed), copy.facts.export);
        let admitted = server.and_then(|_| self.lock().admit(copy));
        let is_begun = match (admitted, server) {
            (Some(true), Some(server)) => {
                threads::start(server, export).is_ok()
                    || self.lock().lost_thread(copy, copy.facts.begun_ms)
            }
            (admitted, _) => admitted.is_some(),
        };
        if !is_begun {
            self.counters.refused.fetch_add(1, Relaxed);
            return false;
        }
        self.counters.begun.fetch_add(1, Relaxed);
        self.counters.bytes.fetch_add(bytes, Relaxed);
        // to look for clients that are gone
        self.wake();
        true
    }

    /// How far a copy of a client to a file is; `None`: there is none.
    pub(super) fn progress(
        &self,
        (client, stateid): (u64, Stateid),
        file: &FileKey,
    ) -> Option<Progress> {
        self.lock().progress((client, stateid), file)
    }

    /// Ends a copy of a client's user to a file.
    pub(super) fn cancel(
        &self,
        name: (u64, Stateid),
        (file, principal): (&FileKey, Principal),
        blocking: &dyn Blocking,
    ) -> Cancelled {
        let mut table = self.lock();
        let mut ended = table.cancel(name, file, principal);
        if matches!(ended, Cancel::Running) {
            drop(table);
            blocking.will_block();
            table = self.lock();
            let runs = |table: &mut Table| table.is_running(&name.1.other);
            let waited = self.stepped.wait_timeout_while(table, CANCEL_WAIT, runs);
            (table, _) = waited.unwrap_or_else(PoisonError::into_inner);
            ended = table.cancel(name, file, principal);
        }
        drop(table);
        match ended {
            Cancel::Ended(copy, was_under_way) => {
                copy.release();
                if was_under_way {
                    self.counters.cancelled.fetch_add(1, Relaxed);
                }
                Cancelled::Yes
            }
            Cancel::Running => Cancelled::Soon,
            Cancel::NoSuchCopy => Cancelled::NoSuchCopy,
        }
    }

    /// The copy whose turn it is; `None`: the thread is not needed.
    fn next(&self, export: u32) -> Option<Arc<AsyncCopy>> {
        let mut table = self.lock();
        if self.stops.load(Relaxed) {
            return None;
        }
        table.next(export)
    }

    /// A step has ended, after which so many bytes are copied. How the copy has ended, if it has and its client is to be told.
    fn step_ended(&self, copy: &Arc<AsyncCopy>, step: Step, now: Now) -> Option<Nfsstat4> {
        let copied = copy.copied.load(Relaxed);
        let status = match step {
            Step::More | Step::Later => None,
            Step::Done => Some(Nfsstat4::Ok),
            Step::ClientGone => {
                self.lock().abandon(copy);
                None
            }
            // the client asks for the rest, and is told then
            Step::Stopped(_) if copied > 0 => Some(Nfsstat4::Ok),
            Step::Stopped(status) | Step::Failed(status) => Some(status),
        };
        let after = self.lock().step_ended(copy, status, now.0);
        self.stepped.notify_all();
        let counter = match (after, status) {
            (After::GoesOn, _) => return None,
            (After::Cancelled, _) => &self.counters.cancelled,
            (After::Ended, Some(Nfsstat4::Ok)) => &self.counters.done,
            (After::Ended, _) => &self.counters.failed,
        };
        counter.fetch_add(1, Relaxed);
        copy.release();
        status.filter(|_| after == After::Ended)
    }

    /// A client has heard of the end of a copy, or could not be told.
    pub(super) fn answered(&self, other: &[u8; 12], has_told: bool, now: Now) {
        self.lock().answered(other, has_told, now.0);
        self.wake();
    }

    /// Forgets outcomes whose time is over and copies whose client is gone, and tells clients again that could not be
    /// told. When it is to be called again, in milliseconds of the clock.
    pub(super) fn tick(&self) -> Option<u64> {
        let server = self.server.get().and_then(Weak::upgrade)?;
        let (now, state) = (server.now().0, server.state());
        let clients = self.lock().clients();
        let gone: Vec<u64> =
            clients.into_iter().filter(|client| !state.has_client(*client)).collect();
        let swept = self.lock().sweep(now, state.lease_ms(), &gone);
        for copy in swept.forgotten {
            copy.release();
        }
        self.counters.cancelled.fetch_add(swept.cancelled, Relaxed);
        for (copy, status) in swept.tell_again {
            if !self.stops.load(Relaxed) {
                Arc::clone(&server).tell_copy_ended(&copy, status);
            }
        }
        swept.next_ms
    }
}
