//! Sums are exact, percentiles are where they must be, and blocks are used again.

use super::{Call, Counter, OpName, Telemetry};
use std::sync::Arc;

fn telemetry() -> Arc<Telemetry> {
    let op = |procedure| OpName { program: "nfs", version: 3, procedure };
    Telemetry::new(vec![op("NULL"), op("READ")])
}

#[test]
fn writers_on_many_threads_lose_nothing_while_readers_read() {
    let telemetry = telemetry();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let stats = telemetry.worker();
                for n in 0..10_000 {
                    let call = Call { op: 1, export: Some(3), latency_ns: 1000, ..Call::default() };
                    stats.call(&Call {
                        status: u32::from(n % 10 == 0) * 70,
                        bytes_read: 5,
                        ..call
                    });
                    stats.add(Counter::SendCalls, 2);
                }
            });
        }
        for _ in 0..20 {
            assert!(telemetry.snapshot().totals.calls <= 40_000);
        }
    });
    let snapshot = telemetry.snapshot();
    assert_eq!(snapshot.totals.calls, 40_000);
    let read = &snapshot.ops[1];
    assert_eq!((read.calls, read.failed), (40_000, 4_000));
    assert_eq!((read.errors[0].status, read.errors[0].count), (70, 4_000));
    assert_eq!(snapshot.counters["send-calls"], 80_000);
    let export = &snapshot.exports[0];
    assert_eq!((export.index, export.calls, export.bytes_read), (3, 40_000, 200_000));
    assert_eq!(export.ops["nfs3.READ"], 40_000);
}

#[test]
fn percentiles_of_a_known_distribution() {
    let telemetry = telemetry();
    let stats = telemetry.worker();
    for us in 1..=1000u64 {
        stats.call(&Call { op: 0, latency_ns: us * 1000, ..Call::default() });
    }
    let latency = telemetry.snapshot().ops[0].latency;
    for (got, want) in [(latency.p50_us, 500.0), (latency.p90_us, 900.0), (latency.p99_us, 990.0)] {
        assert!((got - want).abs() / want < 0.13, "{got} for {want}");
    }
    assert!((latency.max_us - 1000.0).abs() < f64::EPSILON);
    assert!((latency.mean_us - 500.5).abs() < 0.01);
}

#[test]
fn a_leaving_workers_block_is_kept_and_given_on() {
    let telemetry = telemetry();
    for _ in 0..100 {
        telemetry.worker().add(Counter::Wakeups, 1);
    }
    assert_eq!(telemetry.snapshot().counters["wakeups"], 100);
    assert_eq!(telemetry.blocks.lock().unwrap().len(), 1);
}

#[test]
fn too_many_kinds_of_errors_share_the_last_slot() {
    let telemetry = telemetry();
    let stats = telemetry.worker();
    for status in 1..=50 {
        stats.call(&Call { op: 0, status, ..Call::default() });
    }
    assert_eq!(telemetry.snapshot().ops[0].failed, 50);
}
