//! The parameters of a load and its results, as data and as text.
//!
//! Invariant: rates are per second of counted time; latencies are in microseconds; MB is 10^6 bytes.

use super::counters::{OpCounters, ThreadCounters};
use super::error::LoadError;
use super::plan::{Pace, Plan};
use super::reply::status_name;
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

/// Shares of calls, in percent, whose latencies are kept for pictures.
const SHARES: [f64; 17] = [
    0.0, 10.0, 25.0, 50.0, 75.0, 90.0, 94.0, 95.0, 97.5, 99.0, 99.5, 99.9, 99.95, 99.99, 99.995,
    99.999, 100.0,
];

/// The times of calls, in microseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// Average.
    pub mean_us: f64,
    /// Half of all calls were no slower.
    pub p50_us: f64,
    /// Nine of ten.
    pub p90_us: f64,
    /// 99 of a hundred.
    pub p99_us: f64,
    /// 999 of a thousand.
    pub p999_us: f64,
    /// The slowest.
    pub max_us: f64,
}

/// One operation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OpReport {
    /// Its name.
    pub op: String,
    /// Answered calls.
    pub calls: u64,
    /// Their times.
    pub latency: Latency,
    /// Calls that failed, by the status's name; rejected ones, by the reason's.
    pub errors: BTreeMap<String, u64>,
}

/// How evenly the clients were served.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Fairness {
    /// Answered calls of the client with the fewest,
    pub least: u64,
    /// of the median client,
    pub median: u64,
    /// and of the client with the most.
    pub most: u64,
    /// Jain's index: 1 if all have the same, 1/n if one has all.
    pub jain: f64,
}

/// Results of the clients of one address of the server; addresses stand for interfaces.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ServerReport {
    /// The address.
    pub address: String,
    /// Clients.
    pub clients: u64,
    /// Answered calls a second.
    pub calls_per_s: f64,
}

/// A load and its results.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LoadReport {
    /// The workload.
    pub workload: String,
    /// NFS version: `3`, `4.1`.
    pub version: String,
    /// Transport.
    pub proto: String,
    /// How calls were protected.
    #[serde(default)]
    pub sec: String,
    /// What was mounted.
    pub export: String,
    /// Simulated clients.
    pub clients: usize,
    /// Calls in flight of each.
    pub depth: usize,
    /// Threads of the generator.
    pub threads: usize,
    /// Target rate in calls a second; absent in a closed loop.
    pub rate_per_s: Option<f64>,
    /// Bytes of a READ, a WRITE or a piece of a directory.
    pub size: u32,
    /// Counted seconds.
    pub seconds: f64,
    /// Answered calls.
    pub calls: u64,
    /// The same a second.
    pub calls_per_s: f64,
    /// Data of READs.
    pub read_mb_per_s: f64,
    /// Data of WRITEs.
    pub write_mb_per_s: f64,
    /// Times of all calls.
    pub latency: Latency,
    /// Latency (microseconds) against the share of calls that were no slower (percent).
    pub percentiles: Vec<(f64, f64)>,
    /// Each operation.
    pub operations: Vec<OpReport>,
    /// Calls that failed or were rejected.
    pub errors: u64,
    /// Datagrams retransmitted.
    pub retransmitted: u64,
    /// Calls that timed out after the last retransmission.
    pub lost: u64,
    /// Replies to no call in flight.
    pub strays: u64,
    /// Calls that were due and never sent: the server did not keep up with the rate.
    pub late: u64,
    /// READs that were shorter than the file allows.
    pub short_reads: u64,
    /// READs whose data was compared.
    pub checked: u64,
    /// Those whose data was wrong.
    pub wrong: u64,
    /// Clients against each other.
    pub fairness: Fairness,
    /// Addresses against each other.
    pub servers: Vec<ServerReport>,
    /// The generator's own CPU time per call.
    pub client_cpu_us_per_call: f64,
    /// What the server's process used, if known.
    pub server: Option<ServerCost>,
    /// Why it ended early, if it did.
    pub incomplete: Option<String>,
}

/// The cost of a load for a server on this machine, from the end of the warm-up to the last reply.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct ServerCost {
    /// Its process.
    pub pid: u32,
    /// CPU time per answered call.
    pub cpu_us_per_call: f64,
    /// Context switches per call, of both kinds.
    pub switches_per_call: f64,
    /// Threads at the end.
    pub threads: u64,
    /// Resident memory at the end.
    pub rss_bytes: u64,
    /// Data bytes that it copied, and that it sent or received without a copy; only Bowline reports
    /// them.
    pub bytes_copied: Option<u64>,
    /// See `bytes_copied`.
    pub bytes_not_copied: Option<u64>,
}

impl LoadReport {
    /// Whether every call was answered correctly.
    pub const fn is_clean(&self) -> bool {
        self.errors == 0 && self.wrong == 0 && self.lost == 0 && self.incomplete.is_none()
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts far below 2^52")]
const fn float(count: u64) -> f64 {
    count as f64
}

fn us(histogram: &Histogram<u64>, share: f64) -> f64 {
    float(histogram.value_at_quantile(share)) / 1000.0
}

fn latency(histogram: &Histogram<u64>) -> Latency {
    if histogram.is_empty() {
        return Latency::default();
    }
    Latency {
        mean_us: histogram.mean() / 1000.0,
        p50_us: us(histogram, 0.5),
        p90_us: us(histogram, 0.9),
        p99_us: us(histogram, 0.99),
        p999_us: us(histogram, 0.999),
        max_us: float(histogram.max()) / 1000.0,
    }
}

fn operation(plan: &Plan, op: super::op::Op, cell: &OpCounters) -> OpReport {
    let named = |status| status_name(plan.version, op, status);
    let statuses = cell.statuses.iter().map(|(status, calls)| (named(*status), *calls));
    let rejected = cell.rejected.iter().map(|(why, calls)| ((*why).to_owned(), *calls));
    OpReport {
        op: op.name_in(plan.version).to_owned(),
        calls: cell.latency.len(),
        latency: latency(&cell.latency),
        errors: statuses.chain(rejected).collect(),
    }
}

fn fairness(per_client: &[u64]) -> Fairness {
    let mut sorted = per_client.to_vec();
    sorted.sort_unstable();
    let sum: f64 = sorted.iter().map(|n| float(*n)).sum();
    let squares: f64 = sorted.iter().map(|n| float(*n).powi(2)).sum();
    let jain = if squares > 0.0 { sum * sum / (squares * float(sorted.len() as u64)) } else { 1.0 };
    Fairness {
        least: sorted.first().copied().unwrap_or(0),
        median: sorted.get(sorted.len() / 2).copied().unwrap_or(0),
        most: sorted.last().copied().unwrap_or(0),
        jain,
    }
}

/// The latencies of all operations together.
fn latencies(counters: &ThreadCounters) -> Option<Histogram<u64>> {
    let mut all = counters.operations().map(|(_, cell)| &cell.latency);
    let mut sum = all.next()?.clone();
    for histogram in all {
        // both have the same bounds
        let _ = sum.add(histogram);
    }
    Some(sum)
}

/// What each server was asked: clients are distributed to servers in turn.
fn servers(
    plan: &Plan,
    counters: &ThreadCounters,
    per_s: impl Fn(f64) -> f64,
) -> Vec<ServerReport> {
    let report = |(index, address): (usize, &SocketAddr)| {
        let of_it = counters.per_client.iter().skip(index).step_by(plan.servers.len().max(1));
        ServerReport {
            address: address.to_string(),
            clients: of_it.clone().count() as u64,
            calls_per_s: per_s(float(of_it.sum())),
        }
    };
    plan.servers.iter().enumerate().map(report).collect()
}

/// Converts a load's counters to rates and names.
pub(super) fn report(
    plan: &Plan,
    counters: &ThreadCounters,
    counted: Duration,
    error: Option<&LoadError>,
) -> LoadReport {
    let seconds = counted.as_secs_f64();
    let per_s = |amount: f64| if seconds > 0.0 { amount / seconds } else { 0.0 };
    let operations: Vec<OpReport> =
        counters.operations().map(|(op, cell)| operation(plan, op, cell)).collect();
    let sum = latencies(counters);
    let calls: u64 = counters.per_client.iter().sum();
    LoadReport {
        workload: plan.workload.name().to_owned(),
        version: plan.version.name().to_owned(),
        proto: plan.proto.name().to_owned(),
        sec: plan.sec.name().to_owned(),
        export: plan.export.clone(),
        clients: plan.clients,
        depth: plan.depth,
        threads: plan.threads.clamp(1, plan.clients),
        rate_per_s: match plan.pace {
            Pace::Closed => None,
            Pace::Open(rate) => Some(rate),
        },
        size: plan.size,
        seconds,
        calls,
        calls_per_s: per_s(float(calls)),
        read_mb_per_s: per_s(float(counters.data_counters.bytes_read)) / 1e6,
        write_mb_per_s: per_s(float(counters.data_counters.bytes_written)) / 1e6,
        latency: sum.as_ref().map(latency).unwrap_or_default(),
        percentiles: sum.as_ref().map_or_else(Vec::new, |all| {
            SHARES.iter().map(|share| (*share, us(all, share / 100.0))).collect()
        }),
        errors: operations.iter().flat_map(|op| op.errors.values()).sum(),
        operations,
        retransmitted: counters.retransmitted,
        lost: counters.lost,
        strays: counters.strays,
        late: counters.late,
        short_reads: counters.data_counters.short_reads,
        checked: counters.data_counters.checked,
        wrong: counters.data_counters.wrong,
        fairness: fairness(&counters.per_client),
        servers: servers(plan, counters, per_s),
        client_cpu_us_per_call: if calls > 0 {
            float(counters.cpu_ns) / 1000.0 / float(calls)
        } else {
            0.0
        },
        server: None,
        incomplete: error.map(ToString::to_string),
    }
}

#[cfg(test)]
mod tests {
    use super::fairness;

    #[test]
    fn the_jain_index_measures_fairness() {
        assert!((fairness(&[5, 5, 5, 5]).jain - 1.0).abs() < 1e-9);
        assert!((fairness(&[20, 0, 0, 0]).jain - 0.25).abs() < 1e-9);
        let mixed = fairness(&[1, 9, 3]);
        assert_eq!((mixed.least, mixed.median, mixed.most), (1, 3, 9));
    }
}
