//! The Linux kernel's own NFS client as judge: each test boots a user-mode Linux guest, mounts the
//! server there and runs one file of tests/kernel/checks. Needs root and TUN.

use crate::GuestSlot;
use std::path::{Path, PathBuf};
use testing::{Missing, is_root, log, skip};

fn rig() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/kernel")
}

fn can_run() -> bool {
    is_root() && Path::new("/dev/net/tun").exists()
}

/// Runs `checks` on an export of `kind`; every check must pass, and at least one must have run.
fn guest(kind: &str, checks: &str, mount_options: &str, limit_s: u32) {
    guests(1, kind, checks, mount_options, limit_s);
}

/// The same in several guests at the same time, against one server.
fn guests(count: u32, kind: &str, checks: &str, mount_options: &str, limit_s: u32) {
    guests_with(&[], count, kind, checks, mount_options, limit_s);
}

/// The same with these in the environment, unless they are set already.
fn guests_with(
    environment: &[(&str, &str)],
    count: u32,
    kind: &str,
    checks: &str,
    mount_options: &str,
    limit_s: u32,
) {
    if !can_run() {
        skip(Missing::Tun, format_args!("root and /dev/net/tun for the {checks} checks"));
        return;
    }
    let slot = GuestSlot::wait();
    let rig = rig();
    let server = format!("{}/server.sh {} {kind}", rig.display(), env!("CARGO_BIN_EXE_bowline"));
    let output = slot
        .kernel_client()
        .args(["-n", &count.to_string(), "-t", &limit_s.to_string(), &server])
        .arg(rig.join("guest.sh"))
        .args([checks, mount_options])
        .envs(environment.iter().filter(|(name, _)| std::env::var_os(name).is_none()).copied())
        .output()
        .unwrap();
    drop(slot);
    let text = String::from_utf8_lossy(&output.stdout);
    let passed = text.lines().filter(|line| line.starts_with("ok ")).count();
    println!("{text}{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{checks} on {kind}: {}", output.status);
    assert!(passed > 0, "{checks} on {kind}: no check ran");
    // counted by `./do test`
    log("kernel-client-checks", &format!("{passed} {kind} {checks} {mount_options}"));
}

#[test]
fn objects_on_ext4() {
    guest("ext4", "objects", "", 240);
}

#[test]
fn objects_on_tmpfs_uncached() {
    guest("tmpfs", "objects", "noac", 240);
}

#[test]
fn data() {
    guest("ext4", "data", "", 240);
}

#[test]
fn data_in_small_pieces() {
    guest("tmpfs", "data", "rsize=4096,wsize=4096", 240);
}

#[test]
fn objects_over_version_2() {
    guest("ext4", "objects", "vers=2", 240);
}

#[test]
fn data_over_version_2() {
    guest("tmpfs", "data", "vers=2", 240);
}

#[test]
fn mounts_without_options() {
    guest("ext4", "newest", "newest", 180);
}

#[test]
fn acls_over_version_4() {
    guest("ext4 --set versions=2,3,4.1", "acl4", "vers=4.1", 300);
}

#[test]
fn operations_of_version_4_2_on_ext4() {
    guest("ext4 --set versions=2,3,4.2", "v42,data,acl4", "vers=4.2", 400);
}

#[test]
fn operations_of_version_4_2_on_xfs() {
    guest("xfs --set versions=2,3,4.2", "v42", "vers=4.2", 300);
}

#[test]
fn operations_of_version_4_2_on_btrfs() {
    guest("btrfs --set versions=2,3,4.2", "v42", "vers=4.2", 300);
}

#[test]
fn crossing() {
    guest("crossing", "crossing", "actimeo=1", 240);
}

#[test]
fn crossing_over_version_4() {
    guest("crossing --set versions=2,3,4.1", "crossing", "vers=4.1,actimeo=1", 240);
}

/// Owners are names of a domain.
#[test]
fn owners_have_names() {
    guest("names", "names", "vers=4.1,actimeo=1", 240);
}

/// Exports that another server has.
#[test]
fn referrals_are_followed() {
    guest("referral", "referrals", "vers=4.1,actimeo=1", 240);
}

#[test]
fn referrals_are_followed_over_version_4_0() {
    guest("referral", "referrals", "vers=4.0,actimeo=1", 240);
}

#[test]
fn objects_over_version_4() {
    guest("ext4 --set versions=2,3,4.1", "objects", "vers=4.1", 240);
}

#[test]
fn data_and_locks_over_version_4() {
    guest("ext4 --set versions=2,3,4.1", "data,locks", "vers=4.1", 240);
}

#[test]
fn tools_over_version_4() {
    guest("ext4 --set versions=2,3,4.1", "tools", "vers=4.1", 300);
}

#[test]
fn objects_over_version_4_0() {
    guest("ext4 --set versions=2,3,4.0", "objects", "vers=4.0", 240);
}

#[test]
fn data_and_locks_over_version_4_0() {
    guest("ext4 --set versions=2,3,4.0", "data,locks", "vers=4.0", 240);
}

#[test]
fn access_over_version_4_0() {
    guest("ext4 --set versions=2,3,4.0", "access", "vers=4.0", 240);
}

#[test]
fn access_over_version_4() {
    guest("ext4 --set versions=2,3,4.1", "access", "vers=4.1", 240);
}

#[test]
fn tools() {
    guest("ext4", "tools", "", 300);
}

#[test]
fn storms() {
    guest("tmpfs", "storms", "", 400);
}

#[test]
fn access_as_other_users() {
    guest("ext4", "access", "", 240);
}

#[test]
fn access_in_a_container() {
    guest("container", "access", "", 240);
}

#[test]
fn acls() {
    guest("ext4", "acl", "", 240);
}

/// The server is killed, and the network cut, under opens and locks. `LOCK_KILLS` for more kills.
#[test]
fn recovery_of_two_clients_of_version_4() {
    let server = "ext4 --set versions=4.1 --set lease=10 --set grace=10";
    guests(2, server, "recovery", "vers=4.1", 580);
}

/// The socket is there while the server is not, as with systemd: clients are not refused, and do not pause for 3 s.
#[test]
fn recovery_behind_a_socket_that_stays() {
    let kind = "held --set versions=4.1 --set lease=10 --set grace=10";
    let environment = [("LOCK_CHECKS", "work_goes_on_soon_after_a_kill")];
    guests_with(&environment, 2, kind, "recovery", "vers=4.1", 240);
}

/// The server is killed under locks of both; they hear of it by SM_NOTIFY. Each grace period takes ten seconds, so that
/// there are few kills here.
#[test]
fn recovery_of_two_clients_of_version_3() {
    let environment = [("LOCK_KILLS", "2"), ("LOCK_CHECKS", "locks_outlive_kills_of_the_server")];
    let server = "ext4 --set lease=10 --set grace=10";
    guests_with(&environment, 2, server, "recovery", "", 300);
}

/// Both use version 3: one cannot be called back, is cut off, and is switched off with its locks.
#[test]
fn locks_of_version_3_clients_that_are_lost() {
    guests(2, "ext4", "locks_lost", "", 200);
}

/// Both use version 3: who waits is called back.
#[test]
fn locks_of_two_version_3_clients() {
    let checks = "each_excludes_the_other a_waiter_is_granted_when_the_holder_lets_go dotlocks_by_lockfile \
                  mail_is_delivered_by_procmail a_stale_pid_file_is_taken_over";
    guests_with(&[("LOCK_CHECKS", checks)], 2, "ext4", "locks_two", "", 200);
}

/// One of them uses version 3 and the other version 4.1. `LOCK_ROUNDS` for more of everything, `LOCK_CHECKS` for some
/// checks.
#[test]
fn locks_of_two_clients() {
    guests(2, "ext4 --set versions=2,3,4.1", "locks_two", "|vers=4.1", 400);
}

/// Of versions 4.2, 4.1 and 3, and programs of the server's machine. `LOCK_SECONDS` for a longer free-for-all,
/// `KC_KERNELS` for other kernels.
#[test]
fn delegations_of_two_clients_beside_one_of_version_3() {
    let kind = "ext4 --set delegations=read --set lease=5 --set grace=5";
    let mounts =
        ["vers=4.2,", "vers=4.1,", ""].map(|version| version.to_owned() + "acdirmin=0,acdirmax=0");
    let seconds = std::env::var("LOCK_SECONDS").ok().and_then(|seconds| seconds.parse().ok());
    // at the end each client compares all files, which on a busy machine takes as long again
    let limit_s = 400 + 3 * seconds.unwrap_or(0);
    guests(3, kind, "delegations", &mounts.join("|"), limit_s);
}

/// Fewer calls of a compiler that reads the same headers again. `LOCK_WORKS` for other programs.
#[test]
fn what_delegations_save() {
    let environment = [("LOCK_WORKS", "compile")];
    guests_with(
        &environment,
        1,
        "ext4 --set versions=2,3,4.2",
        "delegations_save",
        "vers=4.2",
        200,
    );
}

/// Both use version 4.1: who waits for a lock is called back.
#[test]
fn locks_of_two_version_4_clients() {
    let checks = "each_excludes_the_other a_waiter_is_granted_when_the_holder_lets_go \
                  counters_miss_nothing sqlite_keeps_every_row";
    let kind = "ext4 --set versions=2,3,4.1";
    let environment = [("LOCK_CHECKS", checks)];
    guests_with(&environment, 2, kind, "locks_two", "vers=4.1|vers=4.1", 400);
}

#[test]
fn loss_in_a_container() {
    guest("container", "loss", "", 300);
}

#[test]
fn loss() {
    guest("ext4", "loss", "", 300);
}

#[test]
fn full_disk() {
    guest("small", "full", "", 180);
}

#[test]
fn unprivileged() {
    guest("user", "unprivileged", "", 300);
}

#[test]
fn locks() {
    guest("ext4", "locks", "", 180);
}

#[test]
fn locks_of_an_ordinary_users_server() {
    guest("user", "locks", "", 180);
}

#[test]
fn settings_change_under_load() {
    guest("tmpfs", "stress", "", 240);
}
