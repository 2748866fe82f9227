//! A sample of a server for the tests of `top`, and those of the rates that it shows.

use super::view::View;
use admin::api::{ClientRow, ExportSample, Histogram, OpSample, Sample, SleepingCallRow, Status};
use admin::rates::Rates;

/// A sample of a server with one client, export and procedure that has answered so many calls: fast ones, and one
/// slow one in ten.
pub fn sample(at_ms: u64, calls: u64) -> Sample {
    let latency = Histogram {
        total_ns: calls * 1000,
        buckets: vec![
            (telemetry::bucket_of(100_000), calls - calls / 10),
            (telemetry::bucket_of(9_000_000), calls / 10),
        ],
    };
    let status = Status {
        version: "1.2.3".into(),
        pid: 7,
        uptime_s: at_ms / 1000,
        calls,
        bytes_in: calls * 100,
        bytes_out: calls * 1000,
        connections: 1,
        warnings: vec!["look here".into()],
        ..Status::default()
    };
    Sample {
        at_ms,
        status,
        ops: vec![OpSample {
            program: "nfs".into(),
            version: 3,
            procedure: "READ".into(),
            calls,
            errors: calls / 100,
            bytes_in: calls * 100,
            bytes_out: calls * 1000,
            latency: latency.clone(),
        }],
        sleeping: vec![SleepingCallRow {
            call: "nfs v3 READ".into(),
            export: "/srv/data".into(),
            client: Some("192.0.2.7:700".into()),
            age_ms: 12_000,
            ended: false,
            system_call: Some("pread64 of /srv/data/file".into()),
        }],
        exports: vec![ExportSample {
            path: "/srv/data".into(),
            calls,
            errors: 0,
            bytes_read: calls * 900,
            bytes_written: 0,
            refused: 2,
            latency,
        }],
        clients: vec![ClientRow {
            udp_calls: 0,
            address: "192.0.2.7".into(),
            connections: 1,
            displaced: 0,
            calls,
            bytes_in: calls * 100,
            bytes_out: calls * 1000,
            mounts: vec!["/srv/data".into()],
            sessions: 0,
            opens: 0,
            courtesy: 0,
            callback: Vec::new(),
            refused: 0,
            last_refusal: None,
            principals: Vec::new(),
            certificates: Vec::new(),
            same_name: Vec::new(),
        }],
        ..Sample::default()
    }
}

#[test]
fn rates_are_differences() {
    let rates = Rates::between(&sample(10_000, 1000), &sample(12_000, 3000));
    assert!((rates.interval_s - 2.0).abs() < 1e-9);
    for view in [View::Clients, View::Exports, View::Operations] {
        let row = &view.rows(&rates)[0];
        assert!((row.calls_per_s - 1000.0).abs() < 1e-6, "{row:?}");
    }
    let total = &rates.total;
    assert!((total.in_bytes_per_s - 100_000.0).abs() < 1e-3, "{total:?}");
    let near = |ns: Option<u64>, wanted: u64| ns.unwrap().abs_diff(wanted) * 16 <= wanted;
    assert!(near(total.p50_ns, 100_000) && near(total.p99_ns, 9_000_000), "{total:?}");
    assert!(rates.exports[0].note.contains("2 refused"));
    assert_eq!(rates.server.problems, ["look here"]);
    let call = &View::Calls.rows(&rates)[0];
    assert_eq!(call.note, "12.0 s  192.0.2.7:700  pread64 of /srv/data/file", "{call:?}");
}

#[test]
fn an_interval_without_calls_has_no_latency() {
    let rates = Rates::between(&sample(1000, 500), &sample(2000, 500));
    assert_eq!((rates.total.p50_ns, rates.operations[0].p99_ns), (None, None));
    assert!(rates.total.calls_per_s.abs() < 1e-9);
}

#[test]
fn rates_restart_with_a_restarted_server() {
    let mut after = sample(1000, 10);
    after.status.pid = 8;
    let rates = Rates::between(&sample(50_000, 1000), &after);
    assert!((rates.total.calls_per_s - 10.0).abs() < 1e-6, "{:?}", rates.total);
}
