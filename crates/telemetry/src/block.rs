//! One worker's counters. Single writer: plain loads and stores, no read-modify-write.
//!
//! The meaning of a row is fixed when the block is created; a row is allocated when its worker
//! first needs it, so that a worker uses memory only for the procedures and exports that it serves
//! (2 KiB each) and allocates nothing once it has served each of them. A row starts on a cache line
//! of its own.

use crate::OpName;
use crate::cell::Cell;
use crate::counter::Counter;
use crate::datagram_clients::{DatagramClients, DatagramTotals};
use crate::histogram::{BUCKETS, bucket_of};
use crossbeam_utils::CachePadded;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::OnceLock;

/// Exports that have a row of their own; the rest share one more row.
pub const EXPORTS_MAX: usize = 256;
/// Different error codes that are counted separately for one procedure; the rest are counted
/// together.
pub const STATUS_SLOTS: usize = 12;

/// Number and duration of calls.
#[derive(Debug)]
pub struct Timing {
    /// Calls answered.
    pub calls: Cell,
    /// Nanoseconds in all.
    pub total_ns: Cell,
    /// The longest call, in ns.
    pub max_ns: Cell,
    /// Calls by latency.
    pub buckets: [Cell; BUCKETS],
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            calls: Cell::default(),
            total_ns: Cell::default(),
            max_ns: Cell::default(),
            buckets: std::array::from_fn(|_| Cell::default()),
        }
    }
}

impl Timing {
    fn count(&self, ns: u64) {
        self.calls.add(1);
        self.total_ns.add(ns);
        if ns > self.max_ns.read() {
            self.max_ns.set(ns);
        }
        if let Some(bucket) = self.buckets.get(bucket_of(ns)) {
            bucket.add(1);
        }
    }
}

/// One procedure's statistics on one worker.
#[derive(Debug, Default)]
pub struct Op {
    /// Calls and latency.
    pub timing: Timing,
    /// Bytes of the calls' records.
    pub bytes_in: Cell,
    /// Bytes of the replies.
    pub bytes_out: Cell,
    /// Errors: a status and how often it was returned. A slot belongs to the first status that uses
    /// it; status 0 means free.
    pub errors: [(Cell, Cell); STATUS_SLOTS],
    /// Errors whose status has no slot.
    pub other_errors: Cell,
}

/// One operation's statistics on one worker inside calls that are counted as another.
#[derive(Debug, Default)]
pub struct NestedOp {
    /// How often it ran.
    pub runs: Cell,
    /// How often it failed.
    pub failed: Cell,
}

impl Op {
    fn error(&self, status: u32) {
        let wanted = u64::from(status);
        for (code, count) in &self.errors {
            if code.read() == 0 {
                code.add(wanted);
            }
            if code.read() == wanted {
                return count.add(1);
            }
        }
        self.other_errors.add(1);
    }
}

/// One export's statistics on one worker.
#[derive(Debug)]
pub struct Export {
    /// Calls and latency.
    pub timing: Timing,
    /// Calls that failed.
    pub failed: Cell,
    /// How many of them because a disk or file system failed.
    pub io_errors: Cell,
    /// Payload bytes read.
    pub bytes_read: Cell,
    /// Payload bytes written.
    pub bytes_written: Cell,
    /// Calls by procedure.
    pub ops: Box<[Cell]>,
}

impl Export {
    fn new(ops: usize) -> Self {
        Self {
            timing: Timing::default(),
            failed: Cell::default(),
            io_errors: Cell::default(),
            bytes_read: Cell::default(),
            bytes_written: Cell::default(),
            ops: (0..ops).map(|_| Cell::default()).collect(),
        }
    }
}

/// One answered call, as input of the statistics.
#[derive(Debug, Clone, Copy, Default)]
pub struct Call {
    /// The procedure's index.
    pub op: u16,
    /// The export's index, if the call was for one.
    pub export: Option<u16>,
    /// The protocol's status; 0 is success.
    pub status: u32,
    /// From the start of its execution to its reply, in ns.
    pub latency_ns: u64,
    /// Length of its record.
    pub bytes_in: u64,
    /// Length of its reply.
    pub bytes_out: u64,
    /// Payload read.
    pub bytes_read: u32,
    /// Payload written.
    pub bytes_written: u32,
}

/// An optional row, on cache lines of its own.
type Row<T> = OnceLock<Box<CachePadded<T>>>;

/// One worker's statistics.
#[derive(Debug)]
pub struct Block {
    ops: Box<[Row<Op>]>,
    /// Each procedure's status for a failed disk or file system.
    io_error_status: Box<[Option<u32>]>,
    nested: Box<[NestedOp]>,
    counters: CachePadded<[Cell; Counter::ALL.len()]>,
    /// The last row is shared by all exports without a row of their own.
    exports: Box<[Row<Export>]>,
    datagram_clients: OnceLock<DatagramClients>,
}

impl Block {
    /// A block of zeros over these procedures.
    pub fn new(ops: &[OpName]) -> Self {
        Self {
            ops: ops.iter().map(|_| OnceLock::new()).collect(),
            io_error_status: ops.iter().map(OpName::io_error_status).collect(),
            nested: ops.iter().map(|_| NestedOp::default()).collect(),
            counters: CachePadded::new(std::array::from_fn(|_| Cell::default())),
            exports: (0..=EXPORTS_MAX).map(|_| OnceLock::new()).collect(),
            datagram_clients: OnceLock::new(),
        }
    }

    /// Adds to a counter.
    pub fn add(&self, counter: Counter, n: u64) {
        if let Some(cell) = self.counters.get(counter as usize) {
            cell.add(n);
        }
    }

    /// Counts one answered call.
    pub fn call(&self, call: &Call) {
        let Some(row) = self.ops.get(usize::from(call.op)) else { return };
        let op = row.get_or_init(Box::default);
        op.timing.count(call.latency_ns);
        op.bytes_in.add(call.bytes_in);
        op.bytes_out.add(call.bytes_out);
        if call.status != 0 {
            op.error(call.status);
        }
        if let Some(export) = call.export {
            self.export_call(export, call);
        }
    }

    /// Counts what a client did over UDP.
    pub fn datagrams_of(&self, address: IpAddr, more: DatagramTotals) {
        self.datagram_clients.get_or_init(DatagramClients::default).count(address, more);
    }

    /// Adds what clients did over UDP to `sums`.
    pub fn add_datagram_clients_to(&self, sums: &mut HashMap<IpAddr, DatagramTotals>) {
        if let Some(clients) = self.datagram_clients.get() {
            clients.add_to(sums);
        }
    }

    /// Counts one operation inside a call that is counted as another.
    pub fn operation(&self, op: u16, status: u32) {
        let Some(nested) = self.nested.get(usize::from(op)) else { return };
        nested.runs.add(1);
        nested.failed.add(u64::from(status != 0));
    }

    fn export_call(&self, index: u16, call: &Call) {
        let Some(row) = self.exports.get(usize::from(index).min(EXPORTS_MAX)) else { return };
        let new = || Box::new(CachePadded::new(Export::new(self.ops.len())));
        let export = row.get_or_init(new);
        export.timing.count(call.latency_ns);
        export.bytes_read.add(u64::from(call.bytes_read));
        export.bytes_written.add(u64::from(call.bytes_written));
        if call.status != 0 {
            export.failed.add(1);
            let io_error = self.io_error_status.get(usize::from(call.op)).copied().flatten();
            export.io_errors.add(u64::from(io_error == Some(call.status)));
        }
        if let Some(cell) = export.ops.get(usize::from(call.op)) {
            cell.add(1);
        }
    }

    /// One procedure's statistics, if the worker has answered it.
    pub fn op(&self, index: usize) -> Option<&Op> {
        Some(self.ops.get(index)?.get()?)
    }

    /// One operation's statistics inside calls that are counted as another.
    pub fn nested(&self, index: usize) -> Option<&NestedOp> {
        self.nested.get(index)
    }

    /// One counter's value.
    pub fn counter(&self, counter: Counter) -> u64 {
        self.counters.get(counter as usize).map_or(0, Cell::read)
    }

    /// The exports that this worker has served; the index [`EXPORTS_MAX`] stands for all without a
    /// row.
    pub fn exports(&self) -> impl Iterator<Item = (usize, &Export)> {
        self.exports.iter().enumerate().filter_map(|(n, row)| Some((n, &***row.get()?)))
    }
}
