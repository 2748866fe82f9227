//! The power fails: what has been answered as done is on the disk, whatever the call was and whenever
//! that happens. A user-mode Linux guest serves a disk of its own; a client in it makes calls that are
//! chosen by chance, one after the other, and after each reply the disk is copied as a power cut would leave
//! it: without what the guest's kernel has only in its memory, and of what the disk was given since it was last
//! told to flush only some blocks, chosen by chance (tests/kernel/volatile.py). Then each copy is mounted and held
//! against what had been promised when it was made.
//!
//! `SEED` makes one run again, `STEPS` a longer one. Skipped, loudly, without root or TUN.

mod check;
mod tree;
mod work;

use crate::GuestSlot;
use std::path::{Path, PathBuf};
use std::process::Command;
use testing::{Missing, is_root, skip};

/// Calls of one run, each followed by a copy of the disk.
const STEPS: u64 = 25;

/// What came of a run.
struct PowerCut {
    /// What was not there that had been promised.
    broken: Vec<String>,
    /// Blocks that had been written and not flushed when the power failed, and went.
    blocks_lost: u64,
}

/// What the disk does of a flush.
#[derive(Clone, Copy, PartialEq)]
enum Flushes {
    Done,
    /// It says that it is done, and does it when it is told the next time.
    Late,
}

/// Serves a new file system in a guest, with these options of the export, for so many calls.
fn cut(fs: &str, options: &str, kind: &str, flushes: Flushes, steps: u64) -> Option<PowerCut> {
    if !is_root() || !Path::new("/dev/net/tun").exists() {
        skip(Missing::Tun, "root and /dev/net/tun");
        return None;
    }
    let slot = GuestSlot::wait();
    let dir = tempfile::tempdir().unwrap();
    let disk = dir.path().join("disk");
    std::fs::File::create(&disk).unwrap().set_len(320 << 20).unwrap();
    let made = Command::new(format!("mkfs.{fs}")).arg("-q").arg(&disk).output();
    let Ok(made) = made else {
        skip(Missing::Program, format_args!("mkfs.{fs}"));
        return None;
    };
    assert!(made.status.success(), "{made:?}");
    let seed = crate::random::seed();
    let rig = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/kernel"));
    let late = if flushes == Flushes::Late { "late" } else { "" };
    let cuts = rig.join("volatile.py");
    let output = slot
        .kernel_client()
        .args(["-t", "300", "-d"])
        .arg(&disk)
        .arg(format!(
            "python3 {} {} $KC_JOB/disk.log {seed} {late}",
            cuts.display(),
            disk.display()
        ))
        .arg(rig.join("power.sh"))
        .args([fs, options, kind, env!("CARGO_BIN_EXE_bowline")])
        .arg(std::env::current_exe().unwrap())
        .args([seed.to_string(), steps.to_string()])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    println!("{text}{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{fs}, seed {seed}: {}", output.status);
    let told = |what: &'static str| text.lines().filter_map(move |line| line.strip_prefix(what));
    let blocks_lost = told("looked at all copies; blocks that the disk lost: ").next();
    let blocks_lost = blocks_lost.unwrap().parse().unwrap();
    Some(PowerCut { broken: told("lost: ").map(str::to_owned).collect(), blocks_lost })
}

fn nothing_is_lost(fs: &str, kind: &str) {
    let steps = std::env::var("STEPS").map_or(STEPS, |steps| steps.parse().unwrap());
    let Some(cut) = cut(fs, "sync", kind, Flushes::Done, steps) else { return };
    let PowerCut { broken, blocks_lost } = cut;
    assert!(broken.is_empty(), "{} promises broken, the first {}", broken.len(), broken[0]);
    assert!(blocks_lost > 0, "the disk has lost nothing: that shows little");
}

#[test]
fn ext4_keeps_acknowledged_changes() {
    nothing_is_lost("ext4", "root");
}

#[test]
fn ext4_keeps_acknowledged_changes_in_a_container() {
    nothing_is_lost("ext4", "container");
}

/// Those of a client over TLS.
#[test]
fn xfs_keeps_acknowledged_changes() {
    nothing_is_lost("xfs", "tls");
}

#[test]
fn btrfs_keeps_acknowledged_changes() {
    nothing_is_lost("btrfs", "root");
}

#[test]
fn an_async_export_loses_unsynced_writes() {
    if let Some(cut) = cut("ext4", "async", "root", Flushes::Done, 10) {
        assert!(cut.broken.len() >= 10, "an async export promises nothing: {:?}", cut.broken);
    }
}

#[test]
fn a_disk_that_delays_flushes_is_detected() {
    if let Some(cut) = cut("ext4", "sync", "root", Flushes::Late, 10) {
        assert!(cut.broken.len() >= 5, "{:?}", cut.broken);
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
            let blocks = std::fs::read_to_string(job.join("lost")).unwrap();
            println!("looked at all copies; blocks that the disk lost: {blocks}");
        }
        part => panic!("no such part: {part}"),
    }
}
