//! The Linux kernel's own NFS client as judge: a test boots a user-mode Linux guest, mounts the
//! server there and runs a file of tests/kernel/checks. In `./do test` those that need the same server and mounts share one
//! boot ([`SharedGuest`]). Needs root and TUN.

use crate::GuestSlot;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::sync::OnceLock;
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
    let output = run(environment, count, kind, checks, mount_options, limit_s);
    let text = String::from_utf8_lossy(&output.stdout);
    println!("{text}{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{checks} on {kind}: {}", output.status);
    count_checks(&text, kind, checks, mount_options);
}

/// Boots guests that run checks; what they printed.
fn run(
    environment: &[(&str, &str)],
    count: u32,
    kind: &str,
    checks: &str,
    mount_options: &str,
    limit_s: u32,
) -> Output {
    let slot = GuestSlot::wait();
    let rig = rig();
    let server = format!("{}/server.sh {} {kind}", rig.display(), env!("CARGO_BIN_EXE_bowline"));
    slot.kernel_client()
        .args(["-n", &count.to_string(), "-t", &limit_s.to_string(), &server])
        .arg(rig.join("guest.sh"))
        .args([checks, mount_options])
        .envs(environment.iter().filter(|(name, _)| std::env::var_os(name).is_none()).copied())
        .output()
        .unwrap()
}

/// At least one check must have passed; all are counted by `./do test`.
fn count_checks(text: &str, kind: &str, checks: &str, mount_options: &str) {
    let passed = text.lines().filter(|line| line.starts_with("ok ")).count();
    assert!(passed > 0, "{checks} on {kind}: no check ran");
    log("kernel-client-checks", &format!("{passed} {kind} {checks} {mount_options}"));
}

/// A guest in which several tests have their checks run, if all tests run: the first of them boots it. A test that is run
/// alone boots a guest for itself.
struct SharedGuest {
    kind: &'static str,
    mount_options: &'static str,
    /// The files of checks of all tests.
    checks: &'static str,
    limit_s: u32,
    output: OnceLock<Output>,
}

impl SharedGuest {
    const fn new(
        kind: &'static str,
        mount_options: &'static str,
        checks: &'static str,
        limit_s: u32,
    ) -> Self {
        Self { kind, mount_options, checks, limit_s, output: OnceLock::new() }
    }

    /// These of the checks must pass, and the guest must have ended well.
    fn check(&self, checks: &str) {
        let Self { kind, mount_options, limit_s, .. } = *self;
        if !can_run() || std::env::var_os("BOWLINE_TEST_PROGRAMS").is_none() {
            return guest(kind, checks, mount_options, limit_s);
        }
        let boot = || run(&[], 1, kind, self.checks, mount_options, limit_s);
        let output = self.output.get_or_init(boot);
        let text = String::from_utf8_lossy(&output.stdout);
        let parts = checks.split(',').map(|check| part(&text, check).unwrap_or_default());
        let ours: String = parts.collect();
        println!("{ours}{}", String::from_utf8_lossy(&output.stderr));
        let last = text.rsplit_once("checks over").map_or(&*text, |(_, last)| last);
        let all = |line: &str| match line.strip_suffix(" kernel-client checks passed") {
            Some(counts) => counts.split_once(" of ").is_some_and(|(passed, all)| passed == all),
            None => false,
        };
        let complete = ours.lines().filter(|line| all(line)).count();
        assert_eq!(complete, checks.split(',').count(), "{checks} on {kind}: {}", output.status);
        // what the client's kernel complains about may be anybody's
        assert!(!last.contains("not ok"), "{kind}, {}: {last}", self.checks);
        count_checks(&ours, kind, checks, mount_options);
    }
}

/// What a file of checks printed.
fn part<'t>(text: &'t str, check: &str) -> Option<&'t str> {
    let (_, rest) = text.split_once(&format!("checks {check}:\n"))?;
    let end = rest.find("\nchecks ").map_or(rest.len(), |end| end + 1);
    rest.get(..end)
}

static EXT4: SharedGuest = SharedGuest::new("ext4", "", "objects,data,access,acl,tools,loss", 600);
static EXT4_BY_4_0: SharedGuest =
    SharedGuest::new("ext4 --set versions=2,3,4.0", "vers=4.0", "objects,data,locks,access", 400);
static EXT4_BY_4_1: SharedGuest = SharedGuest::new(
    "ext4 --set versions=2,3,4.1",
    "vers=4.1",
    "objects,data,locks,access,acl4,tools",
    600,
);
static CONTAINER: SharedGuest = SharedGuest::new("container", "", "access,loss", 400);
static TMPFS: SharedGuest = SharedGuest::new("tmpfs", "", "storms,stress", 500);

#[test]
fn objects_on_ext4() {
    EXT4.check("objects");
}

#[test]
fn objects_on_tmpfs_uncached() {
    guest("tmpfs", "objects", "noac", 240);
}

#[test]
fn data() {
    EXT4.check("data");
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
    EXT4_BY_4_1.check("acl4");
}

#[test]
fn operations_of_version_4_2_on_ext4() {
    guest("ext4 --set versions=2,3,4.2", "v42,data,acl4", "vers=4.2", 400);
}

/// Copies that are answered before they are done. Open files that lose their last name: no `.nfsXXXX`, also through a restart of
/// the server. `LOCK_MIB` for larger files, `KC_KERNELS` for other kernels.
#[test]
fn copies_that_go_on_and_open_files_without_a_name() {
    let kind = "ext4 --set versions=2,3,4.2 --set copy=async --set preserve-unlinked=on --set lease=10 --set grace=10";
    guest(kind, "async_copy,unlinked", "vers=4.2", 500);
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
    EXT4_BY_4_1.check("objects");
}

#[test]
fn data_and_locks_over_version_4() {
    EXT4_BY_4_1.check("data,locks");
}

#[test]
fn tools_over_version_4() {
    EXT4_BY_4_1.check("tools");
}

#[test]
fn objects_over_version_4_0() {
    EXT4_BY_4_0.check("objects");
}

#[test]
fn data_and_locks_over_version_4_0() {
    EXT4_BY_4_0.check("data,locks");
}

#[test]
fn access_over_version_4_0() {
    EXT4_BY_4_0.check("access");
}

#[test]
fn access_over_version_4() {
    EXT4_BY_4_1.check("access");
}

#[test]
fn tools() {
    EXT4.check("tools");
}

#[test]
fn storms() {
    TMPFS.check("storms");
}

#[test]
fn access_as_other_users() {
    EXT4.check("access");
}

#[test]
fn access_in_a_container() {
    CONTAINER.check("access");
}

#[test]
fn acls() {
    EXT4.check("acl");
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
/// `LOCK_DELEGATIONS=write` for write delegations as well, `KC_KERNELS` for other kernels.
#[test]
fn delegations_of_two_clients_beside_one_of_version_3() {
    let delegations = std::env::var("LOCK_DELEGATIONS").unwrap_or_else(|_| "read".to_owned());
    let kind = &format!("ext4 --set delegations={delegations} --set lease=5 --set grace=5");
    let mounts =
        ["vers=4.2,", "vers=4.1,", ""].map(|version| version.to_owned() + "acdirmin=0,acdirmax=0");
    let seconds = std::env::var("LOCK_SECONDS").ok().and_then(|seconds| seconds.parse().ok());
    // at the end each client compares all files, which on a busy machine takes as long again
    let limit_s = 400 + 3 * seconds.unwrap_or(0);
    guests(3, kind, "delegations", &mounts.join("|"), limit_s);
}

/// A client of version 4.2 that writes, and one of version 3.
#[test]
fn write_delegations_of_a_client() {
    let kind = "ext4 --set delegations=write --set lease=5 --set grace=5";
    guests(2, kind, "write_delegations", "vers=4.2|acregmin=0,acdirmin=0", 240);
}

/// A client of version 4.0, which is called back at its own address.
#[test]
fn delegations_of_a_client_of_version_4_0() {
    let kind = "ext4 --set versions=2,3,4.0 --set delegations=write --set lease=20 --set grace=5";
    guest(kind, "minor0_delegations", "vers=4.0", 240);
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
                  counters_miss_nothing sqlite_keeps_every_row \
                  a_replaced_file_that_is_still_open_is_not_opened_again";
    let kind = "ext4 --set versions=2,3,4.1";
    let environment = [("LOCK_CHECKS", checks)];
    guests_with(&environment, 2, kind, "locks_two", "vers=4.1|vers=4.1", 400);
}

#[test]
fn loss_in_a_container() {
    CONTAINER.check("loss");
}

#[test]
fn loss() {
    EXT4.check("loss");
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
    TMPFS.check("stress");
}
