//! The queue, the thread and its files.

use super::{AuditLog, QUEUE_MAX, Relaxed, line};
use crate::settings::{Values, parse};
use export::Exports;
use nfs::audit::{AuditRecord, AuditSink, AuditedOperation, AuditedPath};
use nfs::{Nfs, NfsSettings};
use rpc::{Peer, Transport};
use serde_json::Value;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

fn record(name: &str) -> AuditRecord {
    let peer = Peer {
        addr: "[::ffff:192.0.2.7]:700".parse().unwrap(),
        local: "192.0.2.1:2049".parse().unwrap(),
        transport: Transport::Udp,
        security: rpc::TransportSecurity::PLAIN,
    };
    let path = Some(Path::new("/srv").join(name));
    AuditRecord {
        time: SystemTime::UNIX_EPOCH,
        operation: AuditedOperation::Remove,
        peer,
        uid: Some(1000),
        principal: None,
        acts_as_uid: 65534,
        export: "/srv".into(),
        place: AuditedPath { name: Some(name.into()), path },
        to: None,
        set: None,
        failed: None,
    }
}

fn values(assignments: &[&str]) -> Values {
    let mut values = Values::default();
    for (key, value) in assignments.iter().map(|text| text.split_once('=').unwrap()) {
        parse(key, value).unwrap().store(&mut values);
    }
    values
}

fn log(values: &Values) -> Result<AuditLog, String> {
    let exports = Exports::new(export::Table::default());
    AuditLog::start(&Arc::new(Nfs::new(Arc::new(exports), NfsSettings::default())), values)
}

fn sink(log: &AuditLog) -> super::Queue {
    let queue = super::lock(&log.shared.wanted).queue.clone().unwrap();
    super::Queue { queue, shared: Arc::clone(&log.shared) }
}

/// Waits until a file has this many lines and returns them.
fn lines(path: &Path, count: usize) -> Vec<Value> {
    let begun = Instant::now();
    loop {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        let lines: Vec<Value> =
            text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        if lines.len() >= count {
            return lines;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "{text}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_record_is_one_line() {
    let mut text = Vec::new();
    line::put(&mut text, &record("a\nb"));
    assert_eq!(
        String::from_utf8(text).unwrap(),
        "{\"version\":1,\"time\":\"1970-01-01T00:00:00.000000Z\",\"operation\":\"REMOVE\",\"client\":\"192.0.2.7\",\
         \"port\":700,\"transport\":\"udp\",\"user\":1000,\"acts_as\":65534,\"export\":\"/srv\",\
         \"path\":\"/srv/a\\nb\",\"result\":\"ok\"}\n"
    );
}

#[test]
fn full_files_are_kept_and_the_oldest_goes() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("audit");
    let set = format!("audit={}", path.display());
    let log = log(&values(&[&set, "audit-size=64K", "audit-files=2"])).unwrap();
    let sink = sink(&log);
    // each file holds a batch beyond 64 KiB at the most
    for number in 0..4000 {
        sink.record(record(&format!("{number:04}")));
    }
    let begun = Instant::now();
    while log.shared.waiting.load(Relaxed) > 0 {
        assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", log.warnings());
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(std::fs::read_to_string(&path).unwrap().contains("/srv/3999\""));
    let mut names: Vec<_> = std::fs::read_dir(dir.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names, ["audit", "audit.1", "audit.2"]);
    let first = std::fs::metadata(dir.path().join("audit.1")).unwrap().len();
    assert!((64 << 10..192 << 10).contains(&first), "{first}");
    assert_eq!(log.lost(), 0);
}

#[test]
fn a_file_that_was_moved_is_opened_again_and_another_one_is_taken() {
    let dir = tempfile::tempdir().unwrap();
    let (path, moved, other) =
        (dir.path().join("audit"), dir.path().join("moved"), dir.path().join("other"));
    let log = log(&values(&[&format!("audit={}", path.display())])).unwrap();
    let sink = sink(&log);
    sink.record(record("a"));
    assert_eq!(lines(&path, 1)[0]["path"], "/srv/a");
    std::fs::rename(&path, &moved).unwrap();
    sink.record(record("b"));
    lines(&moved, 2);
    log.reopen();
    sink.record(record("c"));
    assert_eq!(lines(&path, 1)[0]["path"], "/srv/c");
    log.apply(&values(&[&format!("audit={}", other.display())])).unwrap();
    sink.record(record("d"));
    assert_eq!(lines(&other, 1)[0]["path"], "/srv/d");
    assert_eq!(lines(&moved, 2).len(), 2);
    log.apply(&Values::default()).unwrap();
    sink.record(record("e"));
    assert!(log.warnings().is_none());
    let nowhere = values(&["audit=/nowhere/audit"]);
    assert!(log.apply(&nowhere).unwrap_err().contains("/nowhere/audit cannot be written"));
}

/// The file is on a device that is always full: records are lost, and it is said how many.
#[test]
fn what_cannot_be_written_is_counted() {
    assert!(log(&values(&["audit=/dev/full"])).err().unwrap().contains("not a regular file"));
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("audit");
    let log = log(&values(&[&format!("audit={}", path.display())])).unwrap();
    // a queue that nobody empties
    let (queue, records) = std::sync::mpsc::sync_channel(QUEUE_MAX);
    let full = super::Queue { queue, shared: Arc::clone(&log.shared) };
    for _ in 0..QUEUE_MAX + 3 {
        full.record(record("x"));
    }
    drop(records);
    assert_eq!(log.lost(), 3);
    assert!(log.warnings().unwrap().contains("3 records were dropped"), "{:?}", log.warnings());
    sink(&log).record(record("y"));
    let written = lines(&path, 2);
    let dropped: u64 = written.iter().filter_map(|line| line["dropped"].as_u64()).sum();
    assert_eq!(dropped, 3, "{written:?}");
}
