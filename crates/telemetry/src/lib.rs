//! Counters and latencies of a running server. Knows nothing of sockets, HTTP or JSON text.
//!
//! Each worker thread owns one [`WorkerStats`] block and is its only writer: a relaxed load and a
//! relaxed store, no locked instruction, no cache line that another worker writes. A reader sums
//! all blocks on request ([`Telemetry::snapshot`]) and never stops a writer. The block of an ended
//! worker is kept and given to the next one, so totals never decrease.

mod block;
mod cell;
mod counter;
mod datagram_clients;
mod histogram;
mod snapshot;

pub use block::{Block, Call, EXPORTS_MAX, STATUS_SLOTS};
pub use counter::Counter;
pub use datagram_clients::DatagramTotals;
pub use histogram::{BUCKETS, bucket_of, middle_ns, upper_ns};
pub use snapshot::{
    Buckets, ErrorCount, ExportRow, Latency, OTHER_EXPORTS, OpRow, Snapshot, Totals,
};

use std::collections::HashMap;
use std::marker::PhantomData;
use std::net::IpAddr;
use std::ops::Deref;
use std::sync::{Arc, Mutex, PoisonError};

/// The meaning of an index in the statistics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpName {
    /// The program's short name.
    pub program: &'static str,
    /// The version number.
    pub version: u32,
    /// The procedure's name in its RFC.
    pub procedure: &'static str,
}

impl OpName {
    /// With which status the procedure says that a disk or file system failed; `None` if it has no such status.
    fn io_error_status(&self) -> Option<u32> {
        // NFSERR_IO, NFS3ERR_IO and NFS4ERR_IO: RFC 1094 §2.3.1, RFC 1813 §2.6, RFC 8881 §15.1
        matches!(self.program, "nfs" | "nfsacl").then_some(5)
    }
}

/// The statistics of one server.
pub struct Telemetry {
    ops: Vec<OpName>,
    /// All blocks, and whether a worker owns each. Locked only when a worker starts or ends and for
    /// a snapshot; no call blocks under it.
    blocks: Mutex<Vec<Owned>>,
}

struct Owned {
    block: Arc<Block>,
    taken: bool,
}

impl Telemetry {
    /// Statistics for these procedures; an op's index is its position here.
    pub fn new(ops: Vec<OpName>) -> Arc<Self> {
        Arc::new(Self { ops, blocks: Mutex::new(Vec::new()) })
    }

    /// A block for the calling thread.
    pub fn worker(self: &Arc<Self>) -> WorkerStats {
        let mut blocks = self.blocks.lock().unwrap_or_else(PoisonError::into_inner);
        let free = blocks.iter_mut().find(|owned| !owned.taken);
        let block = if let Some(owned) = free {
            owned.taken = true;
            Arc::clone(&owned.block)
        } else {
            let block = Arc::new(Block::new(&self.ops));
            blocks.push(Owned { block: Arc::clone(&block), taken: true });
            block
        };
        WorkerStats { block, _one_writer: PhantomData, telemetry: Arc::clone(self) }
    }

    /// The procedures of the indices.
    pub fn ops(&self) -> &[OpName] {
        &self.ops
    }

    /// The sum of all blocks.
    pub fn snapshot(&self) -> Snapshot {
        snapshot::add_up(&self.ops, &self.all_blocks())
    }

    /// What clients did over UDP since the start, or since they were forgotten.
    pub fn datagram_clients(&self) -> HashMap<IpAddr, DatagramTotals> {
        let mut sums = HashMap::new();
        for block in self.all_blocks() {
            block.add_datagram_clients_to(&mut sums);
        }
        sums
    }

    fn all_blocks(&self) -> Vec<Arc<Block>> {
        let blocks = self.blocks.lock().unwrap_or_else(PoisonError::into_inner);
        blocks.iter().map(|owned| Arc::clone(&owned.block)).collect()
    }

    fn give_back(&self, block: &Arc<Block>) {
        let mut blocks = self.blocks.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(owned) = blocks.iter_mut().find(|owned| Arc::ptr_eq(&owned.block, block)) {
            owned.taken = false;
        }
    }
}

/// One thread's block; only that thread writes it. It can be moved to another thread, but not
/// shared with one: two writers would lose counts.
///
/// ```compile_fail
/// fn shared<T: Sync>() {}
/// shared::<bowline_telemetry::WorkerStats>();
/// ```
pub struct WorkerStats {
    block: Arc<Block>,
    /// Not `Sync`.
    _one_writer: PhantomData<std::cell::Cell<()>>,
    telemetry: Arc<Telemetry>,
}

impl Deref for WorkerStats {
    type Target = Block;

    fn deref(&self) -> &Block {
        &self.block
    }
}

impl Drop for WorkerStats {
    fn drop(&mut self) {
        self.telemetry.give_back(&self.block);
    }
}

#[cfg(test)]
mod tests;
