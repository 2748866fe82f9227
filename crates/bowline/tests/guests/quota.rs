//! rquota as judged by quota(1), over an ext4 and an xfs that count: a user-mode Linux guest has a kernel with quotas, and
//! is the server and the client. Needs root, TUN and the Debian package quota.

use crate::GuestSlot;
use std::path::Path;
use testing::{Missing, is_root, log, skip};

fn quotas_on(fs: &str) {
    if !is_root() || !Path::new("/dev/net/tun").exists() {
        return skip(Missing::Tun, format_args!("root and /dev/net/tun for the quotas of {fs}"));
    }
    let has = |program: &str| Path::new(program).exists();
    if !has("/usr/bin/quota") || !has(&format!("/usr/sbin/mkfs.{fs}")) {
        return skip(Missing::Program, format_args!("quota, mkfs.{fs}"));
    }
    alone(&format!("{fs} quota"), "quota.sh", &[fs], 9);
}

/// Runs a script of tests/kernel in a guest that is server and client, with a disk of its own; it has to pass so many
/// checks, besides those of lists that it runs (`checks/*.py`), all of which have to pass.
pub fn alone(what: &str, script: &str, args: &[&str], checks: usize) {
    let dir = tempfile::tempdir().unwrap();
    let disk = dir.path().join("disk");
    std::fs::File::create(&disk).unwrap().set_len(400 << 20).unwrap();
    let rig = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/kernel");
    let slot = GuestSlot::wait();
    let output = slot
        .kernel_client()
        .args(["-t", "400", "-d"])
        .arg(&disk)
        .arg("exec sleep 600")
        .arg(rig.join(script))
        .args(args)
        .arg(env!("CARGO_BIN_EXE_bowline"))
        .output()
        .unwrap();
    drop(slot);
    let text = String::from_utf8_lossy(&output.stdout);
    println!("{text}{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{what}: {}", output.status);
    let passed = text.lines().filter(|line| line.starts_with("ok ")).count();
    let listed = text.lines().filter_map(|line| {
        let numbers = line.strip_suffix(" kernel-client checks passed")?;
        let (good, all) = numbers.split_once(" of ").unwrap();
        assert_eq!(good, all, "{what}");
        Some(all.parse::<usize>().unwrap())
    });
    assert_eq!(passed, checks + listed.sum::<usize>(), "{what}");
    log("kernel-client-checks", &format!("{passed} {what}"));
}

#[test]
fn quotas_of_ext4() {
    quotas_on("ext4");
}

#[test]
fn quotas_of_xfs() {
    quotas_on("xfs");
}
