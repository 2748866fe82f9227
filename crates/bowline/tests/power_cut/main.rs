//! The power fails: what has been answered as done is on the disk, whatever the call was and whenever
//! that happens. A user-mode Linux guest serves a disk of its own; a client in it makes calls that are
//! chosen by chance, one after the other, and after each reply the disk is copied as it is, without
//! what the guest's kernel has only in its memory. Then each copy is mounted and held against what
//! had been promised when it was made.
//!
//! `SEED` makes one run again. Skipped, loudly, without root or TUN.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a failure here is the test's, and the guest's part tells what it found"
)]

mod check;
#[path = "../rig/dice.rs"]
mod dice;
mod tree;
mod work;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

/// Calls of one run, each followed by a copy of the disk.
const STEPS: u64 = 60;
/// One guest at a time: the machine is small.
static TURN: Mutex<()> = Mutex::new(());

/// Serves a new file system in a guest, with these options of the export, for so many calls; what was
/// not there that had been promised.
fn cut(fs: &str, options: &str, kind: &str, steps: u64) -> Option<Vec<String>> {
    let root = std::fs::metadata("/proc/self")
        .is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0);
    if !root || !Path::new("/dev/net/tun").exists() {
        eprintln!("skipped: power cuts need root and /dev/net/tun");
        return None;
    }
    let _turn = TURN.lock().unwrap_or_else(|broken| broken.into_inner());
    let dir = tempfile::tempdir().unwrap();
    let disk = dir.path().join("disk");
    std::fs::File::create(&disk).unwrap().set_len(320 << 20).unwrap();
    let made = Command::new(format!("mkfs.{fs}")).arg("-q").arg(&disk).output();
    let Ok(made) = made else {
        eprintln!("skipped: power cuts on {fs} need mkfs.{fs}");
        return None;
    };
    assert!(made.status.success(), "{made:?}");
    let seed = dice::seed();
    let rig = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/kernel"));
    let output = Command::new(rig.join("kernel-client.sh"))
        .args(["-t", "300", "-d"])
        .arg(&disk)
        .arg(format!("{} {}", rig.join("disk.sh").display(), disk.display()))
        .arg(rig.join("power.sh"))
        .args([fs, options, kind, env!("CARGO_BIN_EXE_bowline")])
        .arg(std::env::current_exe().unwrap())
        .args([seed.to_string(), steps.to_string()])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    println!("{text}{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{fs}, seed {seed}: {}", output.status);
    let looked = text.lines().any(|line| line.starts_with("looked at all"));
    assert!(looked, "the guest looked at the copies");
    let lost = text.lines().filter_map(|line| line.strip_prefix("lost: "));
    Some(lost.map(str::to_owned).collect())
}

fn nothing_is_lost(fs: &str, kind: &str) {
    let lost = cut(fs, "sync", kind, STEPS).unwrap_or_default();
    assert!(lost.is_empty(), "{} promises broken, the first {}", lost.len(), lost[0]);
}

#[test]
fn ext4_keeps_what_was_promised() {
    nothing_is_lost("ext4", "root");
}

#[test]
fn ext4_keeps_what_was_promised_in_a_container() {
    nothing_is_lost("ext4", "container");
}

#[test]
fn xfs_keeps_what_was_promised() {
    nothing_is_lost("xfs", "root");
}

#[test]
fn btrfs_keeps_what_was_promised() {
    nothing_is_lost("btrfs", "root");
}

#[test]
fn what_nobody_has_synced_is_seen_to_be_lost() {
    if let Some(lost) = cut("ext4", "async", "root", 10) {
        assert!(lost.len() >= 10, "an async export promises nothing: {lost:?}");
    }
}

/// What runs inside of the guest (tests/kernel/power.sh).
#[test]
#[ignore = "runs inside of the guests of the others"]
fn in_the_guest() {
    let told = |name: &str| std::env::var(name).unwrap();
    let number = |name: &str| told(name).parse::<u64>().unwrap();
    let (seed, steps) = (number("SEED"), number("STEPS"));
    let job = PathBuf::from(told("JOB"));
    match told("PART").as_str() {
        "work" => work::work(seed, steps, &job),
        "check" => {
            println!();
            for lost in check::check(seed, steps, &job, &told("FS")) {
                println!("lost: {lost}");
            }
            println!("looked at all {steps} copies");
        }
        part => panic!("no such part: {part}"),
    }
}
