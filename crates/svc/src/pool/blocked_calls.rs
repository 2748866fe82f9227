//! The calls that block in each export, and how many may.
//!
//! A file system that hangs (a dead disk, a network file system without its server) keeps every thread
//! that works in it. So that it does not take all threads, the calls that block in one export at a time are
//! bounded by a share of the threads. A call beyond it waits, before it has done anything, until one of the
//! others ends; once the oldest of them has blocked for [`HUNG_AFTER`], calls beyond the share are refused at
//! once, and their clients are told to try again later (NFS3ERR_JUKEBOX, RFC 1813 §2.6). A file system that
//! is merely slow never has a call that old.
//!
//! Only a call that is about to block comes here. The lock guards a list for each export and is held for a
//! few instructions.

use crate::conn::info::BlockedCallInfo;
use crate::sync::lock;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};
use sys::thread::ThreadNumber;

/// From this age of its oldest blocked call on, an export counts as hung.
const HUNG_AFTER: Duration = Duration::from_secs(2);

/// Which procedure a call is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Procedure {
    pub program: u32,
    pub version: u32,
    pub procedure: u32,
}

impl Procedure {
    /// Of a call, whose header begins with xid, type, RPC version, program, version and procedure
    /// (RFC 5531 §9).
    pub fn of(record: &[u8]) -> Self {
        let word = |at: usize| {
            let bytes = record.get(at..).and_then(<[u8]>::first_chunk::<4>);
            bytes.map_or(0, |bytes| u32::from_be_bytes(*bytes))
        };
        Self { program: word(12), version: word(16), procedure: word(20) }
    }
}

/// Where a call came from.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Caller {
    /// The number of its connection; none for a datagram.
    pub conn: Option<u64>,
    /// The client's end.
    pub addr: Option<SocketAddr>,
}

/// A call that sleeps in a file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SleepingCall {
    /// Its number among the calls that have slept in this export.
    pub id: u64,
    /// The client's end, if it is known.
    pub client: Option<SocketAddr>,
    /// The thread that runs it.
    pub thread: ThreadNumber,
    /// Which call in which export, and for how long.
    pub info: BlockedCallInfo,
}

/// An export in which calls block, or were refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockedExport {
    /// Its index in the export table.
    pub export: u16,
    /// Calls that block in it now.
    pub calls: usize,
    /// Calls beyond its share that wait for one of them to end.
    pub waiting: usize,
    /// For how long the oldest has blocked, in milliseconds; 0 if none does.
    pub oldest_ms: u64,
    /// The program of the oldest call.
    pub program: u32,
    /// Its version.
    pub version: u32,
    /// Its procedure.
    pub procedure: u32,
    /// Calls that were refused since the server started.
    pub refused: u64,
}

/// The calls that block in each export.
#[derive(Debug)]
pub(crate) struct BlockedCalls {
    exports: Mutex<HashMap<u16, ExportCalls>>,
    /// A call that others wait for has ended.
    ended: Condvar,
    /// How many may block in one export.
    share: AtomicUsize,
}

#[derive(Debug, Default)]
struct ExportCalls {
    calls: Vec<BlockedCall>,
    last_id: u64,
    waiting: usize,
    refused: u64,
}

#[derive(Debug, Clone, Copy)]
struct BlockedCall {
    id: u64,
    since: Instant,
    procedure: Procedure,
    caller: Caller,
    thread: ThreadNumber,
}

impl ExportCalls {
    fn oldest(&self) -> Option<&BlockedCall> {
        self.calls.iter().min_by_key(|call| call.since)
    }
}

/// The permission of one call to block in an export; ends when it is dropped.
#[derive(Debug)]
pub(crate) struct BlockPermit<'b> {
    blocked: &'b BlockedCalls,
    export: u16,
    id: u64,
}

impl Drop for BlockPermit<'_> {
    fn drop(&mut self) {
        let mut exports = lock(&self.blocked.exports);
        let Some(export) = exports.get_mut(&self.export) else { return };
        export.calls.retain(|call| call.id != self.id);
        let waiting = export.waiting > 0;
        drop(exports);
        if waiting {
            self.blocked.ended.notify_all();
        }
    }
}

impl BlockedCalls {
    /// None blocks yet; in each export so many calls may.
    pub fn new(share: usize) -> Self {
        Self {
            exports: Mutex::default(),
            ended: Condvar::new(),
            share: AtomicUsize::new(share.max(1)),
        }
    }

    /// Changes how many calls may block in one export. Those beyond it that block already are not
    /// disturbed.
    pub fn set_share(&self, share: usize) {
        self.share.store(share.max(1), Relaxed);
        self.ended.notify_all();
    }

    /// A call is about to block in an export. Waits if too many do; `None` if the export is hung. The caller
    /// must not lead its pool.
    pub fn enter(
        &self,
        export: u16,
        procedure: Procedure,
        caller: Caller,
    ) -> Option<BlockPermit<'_>> {
        let mut exports = lock(&self.exports);
        loop {
            let calls = exports.entry(export).or_default();
            if calls.calls.len() < self.share.load(Relaxed) {
                calls.last_id = calls.last_id.wrapping_add(1);
                let id = calls.last_id;
                let thread = ThreadNumber::own();
                calls.calls.push(BlockedCall {
                    id,
                    since: Instant::now(),
                    procedure,
                    caller,
                    thread,
                });
                return Some(BlockPermit { blocked: self, export, id });
            }
            let age = calls.oldest().map_or(Duration::ZERO, |call| call.since.elapsed());
            let Some(left) = HUNG_AFTER.checked_sub(age).filter(|left| !left.is_zero()) else {
                calls.refused = calls.refused.saturating_add(1);
                return None;
            };
            calls.waiting = calls.waiting.saturating_add(1);
            let waited = self.ended.wait_timeout(exports, left);
            exports = waited.unwrap_or_else(PoisonError::into_inner).0;
            if let Some(calls) = exports.get_mut(&export) {
                calls.waiting = calls.waiting.saturating_sub(1);
            }
        }
    }

    /// The oldest blocked call of each connection that has one.
    pub fn oldest_of_conns(&self) -> HashMap<u64, BlockedCallInfo> {
        let exports = lock(&self.exports);
        let mut oldest: HashMap<u64, BlockedCallInfo> = HashMap::new();
        for (export, calls) in exports.iter() {
            for call in &calls.calls {
                let Some(conn) = call.caller.conn else { continue };
                let info = call.info(*export);
                let kept = oldest.entry(conn).or_insert(info);
                if info.age_ms > kept.age_ms {
                    *kept = info;
                }
            }
        }
        oldest
    }

    /// The calls that have slept for at least so long, the oldest first.
    pub fn sleeping(&self, age_min: Duration) -> Vec<SleepingCall> {
        let exports = lock(&self.exports);
        let mut all = Vec::new();
        for (export, calls) in exports.iter() {
            let old = calls.calls.iter().filter(|call| call.since.elapsed() >= age_min);
            all.extend(old.map(|call| SleepingCall {
                id: call.id,
                client: call.caller.addr,
                thread: call.thread,
                info: call.info(*export),
            }));
        }
        drop(exports);
        all.sort_unstable_by_key(|call| std::cmp::Reverse(call.info.age_ms));
        all
    }

    /// The exports in which calls block or were refused, by number.
    pub fn exports(&self) -> Vec<BlockedExport> {
        let exports = lock(&self.exports);
        let mut all: Vec<BlockedExport> = exports
            .iter()
            .filter(|(_, calls)| !calls.calls.is_empty() || calls.refused > 0)
            .map(|(export, calls)| calls.info(*export))
            .collect();
        drop(exports);
        all.sort_unstable_by_key(|info| info.export);
        all
    }
}

impl BlockedCall {
    fn info(&self, export: u16) -> BlockedCallInfo {
        let Procedure { program, version, procedure } = self.procedure;
        let age_ms = u64::try_from(self.since.elapsed().as_millis()).unwrap_or(u64::MAX);
        BlockedCallInfo { export, age_ms, program, version, procedure }
    }
}

impl ExportCalls {
    fn info(&self, export: u16) -> BlockedExport {
        let oldest = self.oldest();
        let age = oldest.map_or(Duration::ZERO, |call| call.since.elapsed());
        let Procedure { program, version, procedure } =
            oldest.map_or_else(Procedure::default, |call| call.procedure);
        BlockedExport {
            export,
            calls: self.calls.len(),
            waiting: self.waiting,
            oldest_ms: u64::try_from(age.as_millis()).unwrap_or(u64::MAX),
            program,
            version,
            procedure,
            refused: self.refused,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{BlockedCalls, Caller, HUNG_AFTER, Procedure};
    use std::sync::Arc;
    use std::time::Instant;

    #[test]
    fn calls_beyond_the_share_wait_for_others_to_end() {
        let blocked = Arc::new(BlockedCalls::new(1));
        let first = blocked.enter(7, Procedure::default(), Caller::default()).unwrap();
        assert!(
            blocked.enter(8, Procedure::default(), Caller::default()).is_some(),
            "another export"
        );
        let theirs = Arc::clone(&blocked);
        let second = std::thread::spawn(move || {
            theirs.enter(7, Procedure::default(), Caller::default()).is_some()
        });
        while blocked.exports()[0].waiting == 0 {
            std::thread::yield_now();
        }
        drop(first);
        assert!(second.join().unwrap());
        assert!(blocked.exports().is_empty());
    }

    #[test]
    fn calls_beyond_the_share_of_a_hung_export_are_refused() {
        let blocked = BlockedCalls::new(2);
        let read = Procedure { program: 100_003, version: 3, procedure: 6 };
        let held = [
            blocked.enter(1, read, Caller::default()).unwrap(),
            blocked.enter(1, read, Caller::default()).unwrap(),
        ];
        let start = Instant::now();
        assert!(blocked.enter(1, read, Caller::default()).is_none());
        assert!(start.elapsed() > HUNG_AFTER / 2, "it waited first");
        assert!(blocked.enter(1, read, Caller::default()).is_none(), "at once");
        let info = blocked.exports()[0];
        assert_eq!((info.export, info.calls, info.refused, info.procedure), (1, 2, 2, 6));
        assert!(u128::from(info.oldest_ms) >= HUNG_AFTER.as_millis());
        blocked.set_share(3);
        assert!(blocked.enter(1, read, Caller::default()).is_some());
        drop(held);
        assert_eq!(blocked.exports()[0].calls, 0);
    }

    #[test]
    fn the_oldest_call_of_each_connection_is_found() {
        let blocked = BlockedCalls::new(9);
        let read = Procedure { program: 100_003, version: 3, procedure: 6 };
        let addr = "192.0.2.7:700".parse().ok();
        let by = |conn| Caller { conn: Some(conn), addr };
        let first = blocked.enter(1, read, by(4));
        std::thread::sleep(std::time::Duration::from_millis(20));
        let later = [
            blocked.enter(2, Procedure::default(), by(4)),
            blocked.enter(2, read, by(5)),
            blocked.enter(2, read, Caller::default()),
        ];
        let oldest = blocked.oldest_of_conns();
        assert_eq!(oldest.len(), 2);
        assert_eq!((oldest[&4].export, oldest[&4].procedure), (1, 6));
        let sleeping = blocked.sleeping(std::time::Duration::from_millis(15));
        assert_eq!((sleeping.len(), sleeping[0].client), (1, addr));
        assert_eq!(sleeping[0].thread, sys::thread::ThreadNumber::own());
        assert_eq!(blocked.sleeping(std::time::Duration::ZERO).len(), 4);
        assert!(oldest[&4].age_ms >= 20 && oldest[&4].age_ms >= oldest[&5].age_ms);
        drop(first);
        assert_eq!(blocked.oldest_of_conns()[&4].export, 2);
        drop(later);
        assert!(blocked.oldest_of_conns().is_empty());
    }

    #[test]
    fn a_procedure_is_read_from_a_call_header() {
        let call: Vec<u8> =
            [9, 0, 2, 100_003, 3, 6].into_iter().flat_map(u32::to_be_bytes).collect();
        let read = Procedure { program: 100_003, version: 3, procedure: 6 };
        assert_eq!(Procedure::of(&call), read);
        assert_eq!(Procedure::of(&call[..14]), Procedure::default());
    }
}
