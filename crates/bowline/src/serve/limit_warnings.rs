//! Warnings about limits of the process: few descriptors, or more `memory` than there is.

use crate::memory_shares::MemoryShares;
use crate::settings::ByteSize;
use svc::{ConnUsage, MemoryLimit};

/// With fewer descriptors than this, a few clients use all of them.
const OPEN_FILES_FEW: u64 = 128;

/// All warnings.
pub fn all(memory: MemoryLimit) -> Vec<String> {
    let files = about_files(sys::limits::open_files());
    let shares = MemoryShares::of_this_process();
    let memory = match shares.memory_in_force(memory) {
        (_, Some(bounded)) => Some(bounded),
        (_, None) => about_memory(memory, shares.bytes()),
    };
    files.into_iter().chain(memory).collect()
}

/// For so long after a connection was closed to make room for others the status says so.
const DISPLACED_LATELY_MS: u64 = 600_000;

/// About clients with so many connections that others had no room.
pub fn about_connections(usage: &ConnUsage) -> Option<String> {
    let ago_ms = usage.displaced_ago_ms.filter(|ago_ms| *ago_ms < DISPLACED_LATELY_MS)?;
    let (client, has) = usage.most.as_ref()?;
    Some(format!(
        "the connection limit was reached {} ago, and silent connections were closed for new clients; now {} of {} \
         are taken, {has} of them by {client}: check why it has so many, or raise LimitNOFILE=",
        admin::duration_s(ago_ms / 1000),
        usage.taken,
        usage.max
    ))
}

fn about_files(open_files: u64) -> Option<String> {
    (open_files < OPEN_FILES_FEW).then(|| {
        format!(
            "the process may have only {open_files} descriptors for files and connections, so clients will \
             wait for each other: raise the limit with `ulimit -n` or LimitNOFILE="
        )
    })
}

fn about_memory(memory: MemoryLimit, bytes_max: u64) -> Option<String> {
    (memory.bytes() as u64 > bytes_max / 2).then(|| {
        format!(
            "memory={} is more than half of the memory of the machine or the control group, {}: under load \
             the kernel may kill the server for lack of memory",
            ByteSize(memory.into()),
            admin::bytes(bytes_max)
        )
    })
}

#[cfg(test)]
mod tests {
    use super::{ConnUsage, MemoryLimit, about_connections, about_files, about_memory};

    #[test]
    fn a_warning_names_the_client_with_the_most_connections() {
        let most = Some(("192.0.2.9".to_owned(), 460));
        let quiet = ConnUsage { taken: 464, max: 464, most, displaced_ago_ms: None };
        assert_eq!(about_connections(&quiet), None);
        let old = ConnUsage { displaced_ago_ms: Some(3_600_000), ..quiet.clone() };
        assert_eq!(about_connections(&old), None);
        let text =
            about_connections(&ConnUsage { displaced_ago_ms: Some(7_000), ..quiet }).unwrap();
        assert!(text.contains("464 of 464 are taken, 460 of them by 192.0.2.9"), "{text}");
    }

    #[test]
    fn low_limits_cause_a_warning() {
        let size = |bytes: u64| MemoryLimit::try_from(bytes).unwrap();
        assert!(about_files(64).unwrap().contains("LimitNOFILE"));
        assert_eq!(about_files(1024), None);
        let warning = about_memory(size(512 << 20), 64 << 20).unwrap();
        assert!(warning.contains("memory=512M") && warning.contains("64.0 MiB"), "{warning}");
        assert_eq!(about_memory(size(16 << 20), 64 << 20), None);
        assert_eq!(about_memory(size(512 << 20), u64::MAX), None);
    }
}
