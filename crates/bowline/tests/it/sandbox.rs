//! What a running server has given up, as the kernel sees each of its threads.

use crate::rig::{Server, is_root, text};
use testing::{Missing, skip};

/// A line of the status of each thread of a process.
fn of_threads(pid: u32, key: &str) -> Vec<String> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let read = |task: std::io::Result<std::fs::DirEntry>| {
        // a thread may have ended
        let status = std::fs::read_to_string(task.ok()?.path().join("status")).ok()?;
        Some(status.lines().find_map(|line| line.strip_prefix(key))?.trim().to_owned())
    };
    tasks.filter_map(read).collect()
}

/// CHOWN, DAC_OVERRIDE, DAC_READ_SEARCH, FOWNER, FSETID, SETGID, SETUID, NET_BIND_SERVICE, MKNOD, LEASE.
const EFFECTIVE: u64 =
    1 | 1 << 1 | 1 << 2 | 1 << 3 | 1 << 4 | 1 << 6 | 1 << 7 | 1 << 10 | 1 << 27 | 1 << 28;
/// NET_ADMIN, SYS_ADMIN.
const ON_DEMAND: u64 = 1 << 12 | 1 << 21;

#[test]
fn no_thread_of_a_server_keeps_what_serving_does_not_need() {
    let server = Server::start(&["--prove"]);
    let pid = server.child.id();
    let numbers = |key: &str| {
        of_threads(pid, key).iter().map(|mask| u64::from_str_radix(mask, 16).unwrap()).collect()
    };
    let (effective, permitted): (Vec<u64>, Vec<u64>) = (numbers("CapEff:"), numbers("CapPrm:"));
    assert!(effective.len() > 5, "{effective:?}");
    assert!(effective.iter().all(|mask| mask & !EFFECTIVE == 0), "{effective:x?}");
    assert!(permitted.iter().all(|mask| mask & !(EFFECTIVE | ON_DEMAND) == 0), "{permitted:x?}");
    assert!(of_threads(pid, "NoNewPrivs:").iter().all(|on| on == "1"));
    assert!(of_threads(pid, "Seccomp:").iter().all(|mode| mode == "2"));
    let shown = server.json("status")["sandbox"].as_str().unwrap().to_owned();
    assert!(shown.contains("system calls refused"), "{shown}");
    assert!(text(&server.ask(&["status"]).stdout).contains(&shown));
    // what the server was started with and serving needs is all there
    let own = &of_threads(std::process::id(), "CapPrm:")[0];
    let own = u64::from_str_radix(own, 16).unwrap() & (EFFECTIVE | ON_DEMAND);
    assert!(permitted.iter().all(|mask| *mask == own), "{permitted:x?} of {own:x}");
}

#[test]
fn the_sandbox_can_be_switched_off() {
    if !is_root() {
        return skip(Missing::Root, "a server with capabilities");
    }
    let server = Server::start(&["--set", "sandbox=off"]);
    let pid = server.child.id();
    assert!(of_threads(pid, "NoNewPrivs:").iter().all(|on| on == "0"));
    assert!(of_threads(pid, "Seccomp:").iter().all(|mode| mode == "0"));
    assert_eq!(server.json("status")["sandbox"], "off");
    let refused = server.ask(&["set", "sandbox=auto"]);
    assert!(text(&refused.stderr).contains("only at the start"), "{refused:?}");
}
