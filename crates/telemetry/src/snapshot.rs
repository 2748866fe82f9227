//! The sum of all blocks at one moment.

use crate::OpName;
use crate::block::{Block, EXPORTS_MAX, Op, Timing};
use crate::counter::Counter;
use crate::histogram::{BUCKETS, middle_ns};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Latency of some calls, in µs; all zero if there were none.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Latency {
    /// Mean.
    pub mean_us: f64,
    /// Half of the calls were faster.
    pub p50_us: f64,
    /// Nine of ten were faster.
    pub p90_us: f64,
    /// 99 of 100 were faster.
    pub p99_us: f64,
    /// 999 of 1000 were faster.
    pub p999_us: f64,
    /// The slowest.
    pub max_us: f64,
}

/// Calls by latency: the buckets of the histogram that are not empty and how many calls are in each. The
/// difference of two shows the calls in between.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Buckets {
    /// Total time of all calls in nanoseconds.
    pub total_ns: u64,
    /// Number of the bucket ([`crate::upper_ns`]), calls in it.
    pub counts: Vec<(usize, u64)>,
}

/// How often a status was returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorCount {
    /// The protocol's number.
    pub status: u32,
    /// How often.
    pub count: u64,
}

/// One procedure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OpRow {
    /// The program's short name.
    pub program: String,
    /// The version.
    pub version: u32,
    /// The procedure's name.
    pub procedure: String,
    /// Calls answered.
    pub calls: u64,
    /// Calls that failed.
    pub failed: u64,
    /// Bytes of the calls.
    pub bytes_in: u64,
    /// Bytes of the replies.
    pub bytes_out: u64,
    /// Total time of the calls.
    pub latency: Latency,
    /// Calls by latency.
    pub buckets: Buckets,
    /// The errors, most frequent first.
    pub errors: Vec<ErrorCount>,
    /// Errors whose status is not listed, because a worker had seen a dozen others.
    pub other_errors: u64,
    /// How often it ran inside calls that are counted as another operation (of a COMPOUND): these
    /// are not included in `calls` or in the latency.
    pub nested: u64,
    /// How many of those failed.
    pub nested_failed: u64,
}

/// The index of the row of all exports without a row of their own.
pub const OTHER_EXPORTS: u16 = u16::MAX;

/// One export.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ExportRow {
    /// Its index in the export table; [`OTHER_EXPORTS`] for all those from
    /// [`crate::EXPORTS_MAX`] on together.
    pub index: u16,
    /// Calls for it.
    pub calls: u64,
    /// Calls that failed.
    pub failed: u64,
    /// How many of them because a disk or file system failed.
    #[serde(default)]
    pub io_errors: u64,
    /// Payload bytes read.
    pub bytes_read: u64,
    /// Payload bytes written.
    pub bytes_written: u64,
    /// Total time of its calls.
    pub latency: Latency,
    /// Calls by latency.
    pub buckets: Buckets,
    /// Calls by procedure (`nfs3.READ`), those that were called.
    pub ops: BTreeMap<String, u64>,
}

/// Totals.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Totals {
    /// Calls answered.
    pub calls: u64,
    /// Calls that failed.
    pub failed: u64,
    /// Bytes of the calls.
    pub bytes_in: u64,
    /// Bytes of the replies.
    pub bytes_out: u64,
}

/// The statistics at one moment.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Snapshot {
    /// Totals.
    pub totals: Totals,
    /// The procedures, in the order of the tables; also those never called.
    pub ops: Vec<OpRow>,
    /// The exports that were used.
    pub exports: Vec<ExportRow>,
    /// The plain counters by name.
    pub counters: BTreeMap<String, u64>,
}

/// Sums the blocks.
pub fn add_up(names: &[OpName], blocks: &[Arc<Block>]) -> Snapshot {
    let mut snapshot = Snapshot::default();
    for (index, name) in names.iter().enumerate() {
        let mut row = op_row(name, blocks.iter().filter_map(|block| block.op(index)));
        for nested in blocks.iter().filter_map(|block| block.nested(index)) {
            row.nested += nested.runs.read();
            row.nested_failed += nested.failed.read();
        }
        snapshot.totals.calls += row.calls;
        snapshot.totals.failed += row.failed;
        snapshot.totals.bytes_in += row.bytes_in;
        snapshot.totals.bytes_out += row.bytes_out;
        snapshot.ops.push(row);
    }
    for (counter, name) in Counter::ALL {
        let sum = blocks.iter().map(|block| block.counter(*counter)).sum();
        snapshot.counters.insert((*name).to_owned(), sum);
    }
    snapshot.exports = export_rows(names, blocks);
    snapshot
}

fn op_row<'b>(name: &OpName, parts: impl Iterator<Item = &'b Op>) -> OpRow {
    let (mut sum, mut errors) = (Sum::default(), BTreeMap::<u32, u64>::new());
    let (mut bytes_in, mut bytes_out, mut other_errors) = (0, 0, 0);
    for op in parts {
        sum.add(&op.timing);
        other_errors += op.other_errors.read();
        bytes_in += op.bytes_in.read();
        bytes_out += op.bytes_out.read();
        for (code, count) in &op.errors {
            if code.read() != 0 {
                let code = u32::try_from(code.read()).unwrap_or(u32::MAX);
                *errors.entry(code).or_default() += count.read();
            }
        }
    }
    let mut errors: Vec<ErrorCount> =
        errors.into_iter().map(|(status, count)| ErrorCount { status, count }).collect();
    errors.sort_by_key(|e| std::cmp::Reverse(e.count));
    OpRow {
        program: name.program.to_owned(),
        version: name.version,
        procedure: name.procedure.to_owned(),
        calls: sum.calls,
        failed: errors.iter().map(|e| e.count).sum::<u64>() + other_errors,
        bytes_in,
        bytes_out,
        latency: sum.latency(),
        buckets: sum.filled_buckets(),
        errors,
        other_errors,
        nested: 0,
        nested_failed: 0,
    }
}

fn export_rows(names: &[OpName], blocks: &[Arc<Block>]) -> Vec<ExportRow> {
    let mut rows: BTreeMap<usize, (Sum, ExportRow)> = BTreeMap::new();
    for (index, export) in blocks.iter().flat_map(|block| block.exports()) {
        let (sum, row) = rows.entry(index).or_insert_with(|| {
            let own = u16::try_from(index).ok().filter(|_| index < EXPORTS_MAX);
            let index = own.unwrap_or(OTHER_EXPORTS);
            (
                Sum::default(),
                ExportRow {
                    index,
                    calls: 0,
                    failed: 0,
                    io_errors: 0,
                    bytes_read: 0,
                    bytes_written: 0,
                    latency: Latency::default(),
                    buckets: Buckets::default(),
                    ops: BTreeMap::new(),
                },
            )
        });
        sum.add(&export.timing);
        row.failed += export.failed.read();
        row.io_errors += export.io_errors.read();
        row.bytes_read += export.bytes_read.read();
        row.bytes_written += export.bytes_written.read();
        for (name, cell) in names.iter().zip(&export.ops).filter(|(_, cell)| cell.read() > 0) {
            let key = format!("{}{}.{}", name.program, name.version, name.procedure);
            *row.ops.entry(key).or_default() += cell.read();
        }
    }
    rows.into_values()
        .map(|(sum, row)| ExportRow {
            calls: sum.calls,
            latency: sum.latency(),
            buckets: sum.filled_buckets(),
            ..row
        })
        .collect()
}

/// Sum of the latencies of several blocks.
struct Sum {
    calls: u64,
    total_ns: u64,
    max_ns: u64,
    buckets: [u64; BUCKETS],
}

impl Default for Sum {
    fn default() -> Self {
        Self { calls: 0, total_ns: 0, max_ns: 0, buckets: [0; BUCKETS] }
    }
}

impl Sum {
    fn add(&mut self, timing: &Timing) {
        self.calls += timing.calls.read();
        self.total_ns += timing.total_ns.read();
        self.max_ns = self.max_ns.max(timing.max_ns.read());
        for (sum, bucket) in self.buckets.iter_mut().zip(&timing.buckets) {
            *sum += bucket.read();
        }
    }

    fn filled_buckets(&self) -> Buckets {
        let counts = self.buckets.iter().copied().enumerate().filter(|(_, count)| *count > 0);
        Buckets { total_ns: self.total_ns, counts: counts.collect() }
    }

    #[expect(clippy::cast_precision_loss, reason = "shown to three digits")]
    fn latency(&self) -> Latency {
        if self.calls == 0 {
            return Latency::default();
        }
        let us = |ns: u64| ns as f64 / 1000.0;
        Latency {
            mean_us: us(self.total_ns) / self.calls as f64,
            p50_us: us(self.quantile(500)),
            p90_us: us(self.quantile(900)),
            p99_us: us(self.quantile(990)),
            p999_us: us(self.quantile(999)),
            max_us: us(self.max_ns),
        }
    }

    /// The middle of the bucket in which `per_mille` of the calls are reached, at most the maximum.
    fn quantile(&self, per_mille: u64) -> u64 {
        let all: u64 = self.buckets.iter().sum();
        let wanted = (all * per_mille).div_ceil(1000).max(1);
        let mut seen = 0;
        for (bucket, count) in self.buckets.iter().enumerate() {
            seen += count;
            if seen >= wanted {
                return middle_ns(bucket).min(self.max_ns);
            }
        }
        self.max_ns
    }
}
