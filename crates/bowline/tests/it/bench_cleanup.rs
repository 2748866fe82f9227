//! A measurement that ends, is stopped, or is killed leaves no process, no network and no file behind.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use sys::child::{Ending, end, exists};

const PATIENCE: Duration = Duration::from_secs(120);
/// What a server under load has used of a processor, and one that only starts has not.
const LOADED: Duration = Duration::from_millis(250);

/// A peer that everyone has: this very program.
fn peer() -> String {
    format!(
        "{} serve {{DIR}} --port {{PORT}} --portmap off --state-dir $TMPDIR/s --control $TMPDIR/c",
        env!("CARGO_BIN_EXE_bowline")
    )
}

/// A measurement that takes long enough to be stopped.
fn bench(words: &[&str], temporary: &Path) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bowline"));
    command.arg("bench").args(words).env("TMPDIR", temporary);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

/// All descendants of a process.
fn descendants(pid: u32) -> BTreeSet<u32> {
    let mut all = BTreeSet::new();
    for task in std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten() {
        let children = std::fs::read_to_string(task.path().join("children")).unwrap_or_default();
        for child in children.split_whitespace().map(|word| word.parse().unwrap()) {
            all.insert(child);
            all.extend(descendants(child));
        }
    }
    all
}

fn names(dir: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(dir).unwrap().flatten();
    let mut names: Vec<_> = entries.filter_map(|e| e.file_name().into_string().ok()).collect();
    names.sort();
    names
}

fn network(pid: &str) -> Option<PathBuf> {
    std::fs::read_link(format!("/proc/{pid}/ns/net")).ok()
}

/// What a run has made so far: processes, and networks other than this one's.
fn made(pid: u32) -> (BTreeSet<u32>, BTreeSet<PathBuf>) {
    let processes = descendants(pid);
    let own = network("self");
    let networks = processes.iter().filter_map(|pid| network(&pid.to_string()));
    let networks = networks.filter(|network| Some(network) != own.as_ref()).collect();
    (processes, networks)
}

/// Directories of the run `pid` below where it keeps files.
fn scratch(pid: u32, temporary: &Path) -> Vec<PathBuf> {
    let prefix = format!("bowline-bench-{pid}-");
    let entries = [temporary, Path::new("/dev/shm")].into_iter().flat_map(std::fs::read_dir);
    let paths = entries.flatten().flatten().map(|entry| entry.path());
    let ours =
        |path: &PathBuf| path.file_name().is_some_and(|n| n.to_string_lossy().starts_with(&prefix));
    paths.filter(ours).collect()
}

fn until(what: &str, mut done: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !done() {
        assert!(begun.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Nothing of what was made is there any more.
fn assert_gone(processes: &BTreeSet<u32>, networks: &BTreeSet<PathBuf>) {
    until("a process stays behind", || !processes.iter().any(|pid| exists(*pid)));
    // what was started after they were listed, too; the kernel takes a moment to end it
    until("a process stays in its networks", || {
        let entries = std::fs::read_dir("/proc").unwrap().flatten();
        let mut pids = entries.filter_map(|entry| entry.file_name().into_string().ok());
        !pids.any(|pid| network(&pid).is_some_and(|net| networks.contains(&net)))
    });
}

/// Starts a comparison and waits until all three servers are there.
fn running(temporary: &Path) -> (Child, BTreeSet<u32>, BTreeSet<PathBuf>) {
    let mut child = bench(&["compare", "--quick", "--peer", &peer()], temporary);
    let mut seen = (BTreeSet::new(), BTreeSet::new());
    until("the servers do not start", || {
        assert!(child.try_wait().unwrap().is_none(), "it ended too early");
        seen = made(child.id());
        seen.0.len() >= 3
    });
    assert!(!scratch(child.id(), temporary).is_empty());
    (child, seen.0, seen.1)
}

#[test]
fn an_interrupted_comparison_leaves_no_processes_or_files() {
    let temporary = tempfile::tempdir().unwrap();
    let (mut child, processes, networks) = running(temporary.path());
    end(child.id(), Ending::Interrupt).unwrap();
    let mut status = None;
    until("Ctrl-C does not end it", || {
        status = child.try_wait().unwrap();
        status.is_some()
    });
    assert!(!status.unwrap().success());
    assert_gone(&processes, &networks);
    assert_eq!(scratch(child.id(), temporary.path()), Vec::<PathBuf>::new());
}

#[test]
fn an_interrupted_comparison_prints_partial_results() {
    let temporary = tempfile::tempdir().unwrap();
    let words = ["compare", "--quick", "--rounds", "1000", "--only", "null, 4", "--peer", &peer()];
    let words = words.into_iter().chain(["--export-options", "attr-cache=1000"]);
    let mut command = Command::new(env!("CARGO_BIN_EXE_bowline"));
    command.arg("bench").args(words).env("TMPDIR", temporary.path());
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = child.spawn().unwrap();
    let used = || -> BTreeMap<u32, Duration> {
        let all = descendants(child.id()).into_iter();
        all.filter_map(|pid| Some((pid, sys::thread::process_cpu_time(pid).ok()?))).collect()
    };
    let loaded = |now: &BTreeMap<u32, Duration>, since: &BTreeMap<u32, Duration>| {
        let grown = |(pid, time): &(&u32, &Duration)| {
            time.saturating_sub(since.get(*pid).copied().unwrap_or_default()) > LOADED
        };
        now.iter().filter(grown).count() >= 3
    };
    // a load on each of the three servers, and another on each: the first round is over
    let mut since = BTreeMap::new();
    for round in ["first", "second"] {
        until(&format!("no {round} load on each server"), || loaded(&used(), &since));
        since = used();
    }
    end(child.id(), Ending::Interrupt).unwrap();
    let found = child.wait_with_output().unwrap();
    assert_eq!(found.status.code(), Some(1));
    let (table, said) =
        (String::from_utf8_lossy(&found.stdout), String::from_utf8_lossy(&found.stderr));
    let row = table.lines().find(|line| line.starts_with("NULL, 4 x 16 in flight")).unwrap();
    assert_eq!(row.matches('x').count(), 3, "both ratios: {row}");
    assert!(table.contains("fewer in the last row"), "{table}");
    assert!(table.contains("Bowline's export with attr-cache=1000"), "{table}");
    assert!(said.starts_with("bowline: stopped"), "{said}");
}

#[test]
fn files_of_a_killed_comparison_are_removed_by_the_next() {
    let temporary = tempfile::tempdir().unwrap();
    let (mut child, processes, networks) = running(temporary.path());
    let killed = child.id();
    end(killed, Ending::Kill).unwrap();
    child.wait().unwrap();
    assert_gone(&processes, &networks);
    let (mut next, ..) = running(temporary.path());
    assert_eq!(scratch(killed, temporary.path()), Vec::<PathBuf>::new());
    // impatience: the second Ctrl-C does not wait for servers to finish
    for _ in 0..2 {
        end(next.id(), Ending::Interrupt).unwrap();
        std::thread::sleep(Duration::from_millis(50));
    }
    let (processes, networks) = made(next.id());
    until("two Ctrl-C do not end it", || next.try_wait().unwrap().is_some());
    assert_gone(&processes, &networks);
    assert_eq!(scratch(next.id(), temporary.path()), Vec::<PathBuf>::new());
}

#[test]
fn interrupted_experiments_keep_only_their_results() {
    let temporary = tempfile::tempdir().unwrap();
    let out = temporary.path().join("out");
    let words = ["run", "starve", "rsync-walk", "--quick", "--out", out.to_str().unwrap()];
    let mut child = bench(&words, temporary.path());
    let mut seen = (BTreeSet::new(), BTreeSet::new());
    until("no server starts", || {
        assert!(child.try_wait().unwrap().is_none(), "it ended too early");
        seen = made(child.id());
        !seen.0.is_empty()
    });
    end(child.id(), Ending::Interrupt).unwrap();
    let mut status = None;
    until("Ctrl-C does not end it", || {
        status = child.try_wait().unwrap();
        status.is_some()
    });
    assert_eq!(status.unwrap().code(), Some(1));
    assert_gone(&seen.0, &seen.1);
    assert_eq!(scratch(child.id(), temporary.path()), Vec::<PathBuf>::new());
    // the first says how far it came, the second was not begun
    let found = names(&out);
    let results: Vec<_> = found.iter().filter(|name| name.ends_with(".json")).collect();
    assert_eq!(results, ["machine.json", "starve.json"]);
    let text = std::fs::read_to_string(out.join("starve.json")).unwrap();
    let findings: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(findings["outcome"], "partial", "{text}");
}
