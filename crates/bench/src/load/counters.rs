//! The counters of a thread, and how those of several threads are summed.
//!
//! Each thread owns its [`ThreadCounters`]; nothing is shared but [`LiveCounters`], one cache line a thread, for the
//! progress bar.

use super::op::Op;
use crossbeam_utils::CachePadded;
use hdrhistogram::Histogram;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Three digits: a latency is right to a thousandth.
const DIGITS: u8 = 3;
/// The longest latency that is distinguished; longer ones count as this.
const LATENCY_MAX_NS: u64 = 3_600_000_000_000;

/// Counts of results, beyond statuses.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct DataCounters {
    pub bytes_read: u64,
    pub bytes_written: u64,
    pub short_reads: u64,
    /// Calls whose data was compared, and those whose data did not match.
    pub checked: u64,
    pub wrong: u64,
}

/// One operation's counts.
#[derive(Debug, Clone)]
pub(crate) struct OpCounters {
    /// Nanoseconds.
    pub latency: Histogram<u64>,
    /// Statuses other than success.
    pub statuses: BTreeMap<u32, u64>,
    /// Calls that the server rejected.
    pub rejected: BTreeMap<&'static str, u64>,
}

impl OpCounters {
    fn new() -> Option<Self> {
        let latency = Histogram::new_with_max(LATENCY_MAX_NS, DIGITS).ok()?;
        Some(Self { latency, statuses: BTreeMap::new(), rejected: BTreeMap::new() })
    }
}

/// The counters of one thread.
#[derive(Debug, Default)]
pub(crate) struct ThreadCounters {
    cells: Vec<Option<OpCounters>>,
    pub data_counters: DataCounters,
    /// Answered calls of each of the thread's clients.
    pub per_client: Vec<u64>,
    /// Datagrams sent again.
    pub retransmitted: u64,
    /// Calls that timed out after the last retransmission.
    pub lost: u64,
    /// Replies to no call in flight: duplicates of retransmitted ones.
    pub strays: u64,
    /// Calls of an open loop that were due and found no free slot before the end.
    pub late: u64,
    /// Bytes of records in both directions.
    pub bytes_out: u64,
    pub bytes_in: u64,
    /// CPU time of the thread, in nanoseconds.
    pub cpu_ns: u64,
}

impl ThreadCounters {
    pub(crate) fn new(clients: usize) -> Self {
        let cells = Op::ALL.iter().map(|_| None).collect();
        Self { cells, per_client: vec![0; clients], ..Self::default() }
    }

    fn cell(&mut self, op: Op) -> Option<&mut OpCounters> {
        let cell = self.cells.get_mut(op.index())?;
        if cell.is_none() {
            *cell = OpCounters::new();
        }
        cell.as_mut()
    }

    /// An answered call.
    pub(crate) fn call(&mut self, op: Op, client: usize, latency_ns: u64) {
        if let Some(cell) = self.cell(op) {
            cell.latency.saturating_record(latency_ns);
        }
        if let Some(calls) = self.per_client.get_mut(client) {
            *calls += 1;
        }
    }

    pub(crate) fn failed(&mut self, op: Op, status: u32) {
        if let Some(cell) = self.cell(op) {
            *cell.statuses.entry(status).or_default() += 1;
        }
    }

    pub(crate) fn rejected(&mut self, op: Op, why: &'static str) {
        if let Some(cell) = self.cell(op) {
            *cell.rejected.entry(why).or_default() += 1;
        }
    }

    /// The operations that occurred.
    pub(crate) fn operations(&self) -> impl Iterator<Item = (Op, &OpCounters)> {
        let cells = Op::ALL.iter().zip(&self.cells);
        cells.filter_map(|(op, cell)| cell.as_ref().map(|cell| (*op, cell)))
    }

    /// Adds another thread's counts; its clients are appended to ours.
    pub(crate) fn add(&mut self, other: Self) {
        if self.cells.is_empty() {
            self.cells = Op::ALL.iter().map(|_| None).collect();
        }
        for (mine, theirs) in self.cells.iter_mut().zip(other.cells) {
            match (mine.as_mut(), theirs) {
                (_, None) => {}
                (None, theirs) => *mine = theirs,
                (Some(mine), Some(theirs)) => {
                    // both have the same bounds, so that nothing can fail to fit
                    let _ = mine.latency.add(&theirs.latency);
                    for (status, calls) in theirs.statuses {
                        *mine.statuses.entry(status).or_default() += calls;
                    }
                    for (why, calls) in theirs.rejected {
                        *mine.rejected.entry(why).or_default() += calls;
                    }
                }
            }
        }
        self.data_counters.bytes_read += other.data_counters.bytes_read;
        self.data_counters.bytes_written += other.data_counters.bytes_written;
        self.data_counters.short_reads += other.data_counters.short_reads;
        self.data_counters.checked += other.data_counters.checked;
        self.data_counters.wrong += other.data_counters.wrong;
        self.per_client.extend(other.per_client);
        self.retransmitted += other.retransmitted;
        self.lost += other.lost;
        self.strays += other.strays;
        self.late += other.late;
        self.bytes_out += other.bytes_out;
        self.bytes_in += other.bytes_in;
        self.cpu_ns += other.cpu_ns;
    }
}

/// Counters that other threads can read while a load runs.
#[derive(Debug, Default)]
pub struct LiveCounters {
    /// Answered calls, one counter for each thread.
    threads: Vec<CachePadded<AtomicU64>>,
}

impl LiveCounters {
    /// For so many threads.
    pub fn new(threads: usize) -> Self {
        Self { threads: (0..threads).map(|_| CachePadded::default()).collect() }
    }

    /// Calls answered so far, the warm-up's included.
    pub fn calls(&self) -> u64 {
        self.threads.iter().map(|thread| thread.load(Relaxed)).sum()
    }

    pub(crate) fn add(&self, thread: usize, calls: u64) {
        if let Some(counter) = self.threads.get(thread) {
            // one writer: no need for an atomic addition
            counter.store(counter.load(Relaxed) + calls, Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::ThreadCounters;
    use crate::load::op::Op;

    #[test]
    fn counters_of_threads_are_summed() {
        let mut first = ThreadCounters::new(2);
        let mut second = ThreadCounters::new(1);
        for n in 1..=1000 {
            first.call(Op::Null, 0, n * 1000);
            second.call(Op::Null, 0, n * 1000);
        }
        second.call(Op::Read, 0, 5);
        second.failed(Op::Read, 70);
        first.add(second);
        assert_eq!(first.per_client, [1000, 0, 1001]);
        let cells: Vec<_> = first.operations().collect();
        assert_eq!(cells.len(), 2);
        let (op, null) = cells[0];
        assert_eq!((op, null.latency.len()), (Op::Null, 2000));
        // a known distribution: 1 to 1000 us, evenly
        for (share, right_us) in [(0.5, 500.0), (0.9, 900.0), (0.99, 990.0)] {
            #[expect(clippy::cast_precision_loss, reason = "a million at most")]
            let found_us = null.latency.value_at_quantile(share) as f64 / 1000.0;
            assert!((found_us / right_us - 1.0).abs() < 0.005, "{share}: {found_us}");
        }
        assert_eq!(cells[1].1.statuses.get(&70), Some(&1));
    }
}
