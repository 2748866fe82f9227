//! What `doctor` asks of the process and the machine: rights, filters, limits, memory, the clock.

use super::finding::Finding;
use crate::memory_shares::MemoryShares;
use std::fs;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};
use sys::identity::Capability;

/// With fewer descriptors than this few clients fit.
const OPEN_FILES_ENOUGH: u64 = 65_536;
/// 2026-01-01, in seconds since 1970: a clock that is before it was never set.
const CLOCK_MIN_S: u64 = 1_767_225_600;

/// All of them.
pub fn findings() -> Vec<Finding> {
    vec![rights(), filter(), descriptors(), memory(), clock(), proc()]
}

fn rights() -> Finding {
    const ABOUT: &str = "rights";
    let own = sys::identity::own();
    let uid = own.map_or(u32::MAX, |own| own.uid);
    if !vfs_local::acts_as_callers().unwrap_or(false) {
        return Finding::note(
            ABOUT,
            format!("user {uid} cannot act as other users: all clients get its rights"),
            "run the server as root to act as each client's own user",
        );
    }
    if !sys::identity::has(Capability::DacReadSearch) {
        return Finding::note(
            ABOUT,
            "root without CAP_DAC_READ_SEARCH: a name table is needed to find files",
            "in a container, add the capability CAP_DAC_READ_SEARCH",
        );
    }
    Finding::ok(ABOUT, "calls act as each client's own user")
}

fn filter() -> Finding {
    const ABOUT: &str = "system calls";
    let refused = sys::required_calls::refused();
    if refused.is_empty() {
        return Finding::ok(ABOUT, "no filter blocks a call that the server needs");
    }
    Finding::problem(
        ABOUT,
        format!("a filter blocks {}", refused.join(", ")),
        "allow them: SystemCallFilter=@system-service, or the container engine's default profile",
    )
}

fn descriptors() -> Finding {
    const ABOUT: &str = "descriptors";
    let limit = sys::limits::raise_open_files();
    if limit >= OPEN_FILES_ENOUGH {
        return Finding::ok(ABOUT, format!("{limit} for files and connections"));
    }
    Finding::note(
        ABOUT,
        format!("only {limit} for files and connections"),
        "raise the limit: LimitNOFILE=1048576 in the unit, or `ulimit -Hn`",
    )
}

fn memory() -> Finding {
    const ABOUT: &str = "memory";
    let shares = MemoryShares::of_this_process();
    let bytes = admin::bytes(sys::limits::memory_bytes_max());
    match shares.too_little() {
        Some(why) => Finding::problem(ABOUT, why, "give the process more memory"),
        None => Finding::ok(ABOUT, format!("{bytes} for the server and the cache of files")),
    }
}

/// Clients compare file times with their own clocks (make, NFS attribute caches), and locks have leases.
fn clock() -> Finding {
    const ABOUT: &str = "clock";
    let now_s = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    if now_s < CLOCK_MIN_S {
        return Finding::problem(ABOUT, "was never set", "set it: timedatectl set-ntp true");
    }
    let daemons = ["/run/systemd/timesync/synchronized", "/run/chrony", "/run/ntpd.pid"];
    match daemons.iter().any(|path| Path::new(path).exists()) {
        true => Finding::ok(ABOUT, "is set, and synchronized by a daemon"),
        false => Finding::note(
            ABOUT,
            "is set; no daemon that synchronizes it was found",
            "install chrony or systemd-timesyncd, unless the host keeps the clock: programs compare times of files",
        ),
    }
}

fn proc() -> Finding {
    const ABOUT: &str = "/proc";
    if fs::exists("/proc/self/fd").unwrap_or(false) {
        return Finding::ok(ABOUT, "is mounted");
    }
    Finding::problem(ABOUT, "is not mounted, but is needed to reopen files", "mount it")
}

#[cfg(test)]
mod tests {
    use super::{Finding, findings};

    #[test]
    fn each_finding_is_unique_and_problems_have_a_remedy() {
        let found = findings();
        let mut about: Vec<_> = found.iter().map(|finding| finding.about).collect();
        about.dedup();
        assert_eq!(about.len(), found.len());
        let is_ok = |finding: &&Finding| finding.level == super::super::finding::Level::Ok;
        assert!(found.iter().all(|finding| is_ok(&finding) == finding.remedy.is_empty()));
    }
}
