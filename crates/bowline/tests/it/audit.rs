//! The record of removes, renames and changed attributes of a running server: switched on, moved away, switched off.

use crate::operator_tables::connect;
use crate::rig::{Server, text};
use serde_json::Value;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

/// The operations of a file's lines with their paths, once there are so many.
fn lines(path: &Path, count: usize) -> Vec<(String, String)> {
    let begun = Instant::now();
    loop {
        let written = std::fs::read_to_string(path).unwrap_or_default();
        let parsed = written.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let field = |line: &Value, key: &str| line[key].as_str().unwrap_or_default().to_owned();
        let lines: Vec<_> =
            parsed.map(|line| (field(&line, "operation"), field(&line, "path"))).collect();
        if lines.len() >= count {
            return lines;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "{written}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn audit_is_switched_on_and_reopened_and_off() {
    let server = Server::start(&[]);
    let served = server.served().canonicalize().unwrap();
    let (audit, moved) = (server.base.path().join("audit"), server.base.path().join("moved"));
    for name in ["a", "b", "c"] {
        std::fs::write(served.join(name), "").unwrap();
    }
    std::fs::set_permissions(&served, std::fs::Permissions::from_mode(0o777)).unwrap();
    let mut client = connect(&server);
    let root = client.mount(served.to_str().unwrap().as_bytes()).unwrap();
    let set = |value: &str| server.ask(&["set", &format!("audit={value}")]);
    let refused = set("/nowhere/audit");
    assert!(text(&refused.stderr).contains("/nowhere/audit cannot be written"), "{refused:?}");

    assert!(set(audit.to_str().unwrap()).status.success());
    client.remove(&root, b"a").unwrap();
    let path = |name: &str| served.join(name).to_str().unwrap().to_owned();
    assert_eq!(lines(&audit, 1), [("REMOVE".to_owned(), path("a"))]);
    std::fs::rename(&audit, &moved).unwrap();
    assert!(server.ask(&["reload"]).status.success());
    client.remove(&root, b"b").unwrap();
    assert_eq!(lines(&audit, 1), [("REMOVE".to_owned(), path("b"))]);

    assert!(set("off").status.success());
    client.remove(&root, b"c").unwrap();
    // what calls have recorded is written before the server ends
    server.signal("-TERM");
    let mut server = server;
    assert_eq!(server.ended(), Some(0));
    assert_eq!((lines(&audit, 1).len(), lines(&moved, 1).len()), (1, 1));
}
