//! How one answered call is counted in its worker's statistics.

use rpc::{Copied, Done, Duplicate, Outcome, Reject};
use telemetry::{Counter, WorkerStats};

/// Counts payload that was copied. How a range leaves is known only when it is sent: it is counted there.
fn count_copied(stats: &WorkerStats, outcome: &Outcome) {
    let read = u64::from(outcome.bytes_read);
    let received = outcome.bytes_written.saturating_sub(outcome.bytes_piped);
    if received > 0 {
        stats.add(Counter::BytesCopied, u64::from(received));
    }
    let Some(why) = outcome.copied.filter(|_| read > 0) else { return };
    stats.add(Counter::BytesCopied, read);
    stats.add(
        match why {
            Copied::NotTaken => Counter::CopiedNotTaken,
            Copied::Short => Counter::CopiedShort,
            Copied::Cold => Counter::CopiedCold,
            Copied::NoFile => Counter::CopiedNoFile,
            Copied::Listing => return,
        },
        1,
    );
}

/// Counts one call.
pub(crate) fn count(
    stats: &WorkerStats,
    done: &Done,
    latency_ns: u64,
    bytes_in: usize,
    bytes_out: usize,
) {
    if let Some(op) = done.op {
        stats.call(&telemetry::Call {
            op: op.0,
            export: done.outcome.export,
            status: done.outcome.status,
            latency_ns,
            bytes_in: bytes_in as u64,
            bytes_out: bytes_out as u64,
            bytes_read: done.outcome.bytes_read,
            bytes_written: done.outcome.bytes_written,
        });
    }
    count_copied(stats, &done.outcome);
    match done.rejected {
        None => {}
        Some(Reject::Malformed) => stats.add(Counter::RecordsMalformed, 1),
        Some(Reject::Panicked) => stats.add(Counter::ProcedurePanics, 1),
        Some(
            Reject::RpcMismatch
            | Reject::Auth(_)
            | Reject::ProgUnavail
            | Reject::ProgMismatch
            | Reject::ProcUnavail
            | Reject::GarbageArgs
            | Reject::SystemErr,
        ) => stats.add(Counter::CallsRejected, 1),
    }
    match done.duplicate {
        None => {}
        Some(Duplicate::Dropped) => stats.add(Counter::DuplicatesDropped, 1),
        Some(Duplicate::Replayed) => stats.add(Counter::DuplicatesReplayed, 1),
    }
}
