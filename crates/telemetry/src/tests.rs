//! Sums are exact, percentiles are correct, and blocks are reused.

use super::{Call, Counter, EXPORTS_MAX, OTHER_EXPORTS, OpName, STATUS_SLOTS, Telemetry};
use std::sync::Arc;

fn telemetry() -> Arc<Telemetry> {
    let op = |procedure| OpName { program: "nfs", version: 3, procedure };
    Telemetry::new(vec![op("NULL"), op("READ")])
}

#[test]
fn concurrent_writers_lose_no_count_while_readers_read() {
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
fn nested_operations_are_counted_separately() {
    let telemetry = telemetry();
    let stats = telemetry.worker();
    stats.call(&Call { op: 1, latency_ns: 1000, ..Call::default() });
    for status in [0, 0, 70] {
        stats.operation(0, status);
    }
    stats.operation(1, 5);
    stats.operation(9, 5);
    let snapshot = telemetry.snapshot();
    assert_eq!(snapshot.totals.calls, 1);
    let counts = |op: usize| {
        let row = &snapshot.ops[op];
        (row.calls, row.failed, row.nested, row.nested_failed)
    };
    assert_eq!((counts(0), counts(1)), ((0, 0, 3, 1), (1, 0, 1, 1)));
    assert_eq!(snapshot.ops[0].latency, super::Latency::default());
}

/// The latencies that are counted, in ns; returns the percentiles, in µs.
fn told(latencies_ns: impl Iterator<Item = u64>) -> super::Latency {
    let telemetry = telemetry();
    let stats = telemetry.worker();
    for latency_ns in latencies_ns {
        stats.call(&Call { op: 0, latency_ns, ..Call::default() });
    }
    telemetry.snapshot().ops[0].latency
}

fn near(got: f64, want: f64) {
    assert!((got - want).abs() <= want * 0.0625, "{got} for {want}");
}

#[test]
fn percentiles_of_an_even_distribution() {
    let latency = told((1..=10_000).map(|us| us * 1000));
    near(latency.p50_us, 5_000.0);
    near(latency.p90_us, 9_000.0);
    near(latency.p99_us, 9_900.0);
    near(latency.p999_us, 9_990.0);
    assert!((latency.max_us - 10_000.0).abs() < f64::EPSILON);
    assert!((latency.mean_us - 5000.5).abs() < 0.01);
}

#[test]
fn percentiles_of_two_peaks() {
    // 98 of 100 are cached and take 2 µs, two wait 8 ms for a disk
    let latency = told((0..1000).map(|n| if n % 50 == 0 { 8_000_000 } else { 2_000 }));
    near(latency.p50_us, 2.0);
    near(latency.p90_us, 2.0);
    near(latency.p99_us, 8_000.0);
}

#[test]
fn percentiles_of_one_value_do_not_exceed_it() {
    let latency = told(std::iter::repeat_n(1_000_000_000, 3));
    assert!((latency.p999_us - latency.max_us).abs() <= latency.max_us * 0.0625);
    assert!(latency.p999_us <= latency.max_us);
    assert_eq!(told(std::iter::empty()), super::Latency::default());
}

#[test]
fn totals_never_go_backwards_while_workers_come_and_go() {
    let telemetry = telemetry();
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut before = 0;
            loop {
                let end = done.load(std::sync::atomic::Ordering::Acquire);
                let calls = telemetry.snapshot().totals.calls;
                assert!(calls >= before, "{calls} after {before}");
                before = calls;
                if end {
                    return before;
                }
            }
        });
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    for _ in 0..200 {
                        let stats = telemetry.worker();
                        stats.call(&Call { op: 1, ..Call::default() });
                    }
                });
            }
        });
        done.store(true, std::sync::atomic::Ordering::Release);
        assert_eq!(reader.join().unwrap(), 600);
    });
    assert!(telemetry.blocks.lock().unwrap().len() <= 3);
}

#[test]
fn exports_beyond_the_limit_share_a_row() {
    let telemetry = telemetry();
    let stats = telemetry.worker();
    for index in [0, 255, 256, 4000, u16::MAX] {
        stats.call(&Call { op: 1, export: Some(index), status: 5, ..Call::default() });
    }
    stats.call(&Call { op: 9, export: Some(0), ..Call::default() });
    let rows = telemetry.snapshot().exports;
    let seen: Vec<_> = rows.iter().map(|row| (row.index, row.calls, row.failed)).collect();
    assert_eq!(seen, [(0, 1, 1), (255, 1, 1), (OTHER_EXPORTS, 3, 3)]);
}

#[test]
fn the_block_of_a_worker_is_small() {
    // 100 procedures, of which a client of one version uses 25, and 16 exports
    let op = std::mem::size_of::<crate::block::Op>();
    let export = std::mem::size_of::<crate::block::Export>() + 100 * 8;
    let block = 25 * op + 16 * export + (100 + EXPORTS_MAX) * 16;
    assert!(block < 128 << 10, "{block}");
}

#[test]
fn the_block_of_an_ended_worker_is_reused() {
    let telemetry = telemetry();
    for _ in 0..100 {
        telemetry.worker().add(Counter::Wakeups, 1);
    }
    assert_eq!(telemetry.snapshot().counters["wakeups"], 100);
    assert_eq!(telemetry.blocks.lock().unwrap().len(), 1);
}

#[test]
fn statuses_beyond_the_limit_are_counted_together() {
    let telemetry = telemetry();
    let stats = telemetry.worker();
    for status in (1..=50).chain([1, u32::MAX]) {
        stats.call(&Call { op: 0, status, ..Call::default() });
    }
    let row = telemetry.snapshot().ops.swap_remove(0);
    assert_eq!((row.failed, row.errors.len()), (52, STATUS_SLOTS));
    assert_eq!((row.errors[0].status, row.errors[0].count), (1, 2));
    assert_eq!(row.other_errors, 52 - 1 - STATUS_SLOTS as u64);
}
