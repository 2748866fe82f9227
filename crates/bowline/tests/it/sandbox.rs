//! What a running server has given up, as the kernel sees each of its threads; by hand what the filter of system calls
//! costs.

use crate::rig::{BOWLINE, Server, is_root, text};
use std::process::Command;
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

/// Microseconds of processor time per call of a load, and calls per second.
fn load(server: &Server, workload: &str, more: &[&str]) -> [f64; 2] {
    let json = server.control().with_file_name(format!("{workload}.json"));
    let output = Command::new(BOWLINE)
        .args(["bench", "load", "--quiet", "--keep", "--threads", "1", "--workload", workload])
        .args(["--server", &format!("127.0.0.1:{}", server.port)])
        .args(["--export", server.served().to_str().unwrap()])
        .args(["--server-pid", &server.child.id().to_string()])
        .args(["--seconds", "1.5", "--warmup", "0.3"])
        .args(more)
        .arg("--json")
        .arg(&json)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let value: serde_json::Value = serde_json::from_slice(&std::fs::read(json).unwrap()).unwrap();
    let report: bench::load::LoadReport =
        serde_json::from_value(value["loads"][0].clone()).unwrap();
    assert!(report.is_clean(), "{report:?}");
    [report.server.unwrap().cpu_us_per_call, report.calls_per_s]
}

/// Prints what `sandbox=auto` costs beside `off`: medians of rounds in which the two servers alternate, one client with
/// one call under way (each call has its receive, its send and its wait) and sixteen (which share them).
#[test]
#[ignore = "by hand: ROUNDS=15 cargo test --release -p bowline --test it cost_of_the_sandbox -- --ignored --nocapture"]
fn cost_of_the_sandbox() {
    let rounds: usize = std::env::var("ROUNDS").map_or(15, |rounds| rounds.parse().unwrap());
    let [auto, off] = ["sandbox=auto", "sandbox=off"].map(|set| Server::start(&["--set", set]));
    for workload in ["null", "getattr"] {
        for clients in ["1", "16"] {
            let more = ["--clients", clients, "--depth", "1"];
            let mut seen: Vec<[[f64; 2]; 2]> = Vec::new();
            for round in 0..rounds {
                // who is first alternates as well
                let first = if round % 2 == 0 { [&auto, &off] } else { [&off, &auto] };
                let [one, other] = first.map(|server| load(server, workload, &more));
                seen.push(if round % 2 == 0 { [one, other] } else { [other, one] });
            }
            let median = |of: &dyn Fn(&[[f64; 2]; 2]) -> f64| {
                let mut values: Vec<f64> = seen.iter().map(of).collect();
                values.sort_by(f64::total_cmp);
                (values[values.len() / 2], values[0], values[values.len() - 1])
            };
            let [auto_us, off_us] = [0, 1].map(|server| median(&|round| round[server][0]).0);
            let [auto_rate, off_rate] = [0, 1].map(|server| median(&|round| round[server][1]).0);
            let (ratio, least, most) = median(&|round| round[0][0] / round[1][0]);
            println!(
                "{workload}, {clients} clients: auto {auto_us:.3} us, {auto_rate:.0} calls/s; off {off_us:.3} us, \
                 {off_rate:.0} calls/s; CPU per call auto / off {ratio:.3} ({least:.3} to {most:.3})"
            );
        }
    }
}
