//! What the operator should know of a server that may have little, or was told to take more than it may have.

use crate::memory_shares::MemoryShares;
use crate::settings::ByteSize;
use svc::MemoryLimit;

/// With fewer descriptors than this a handful of clients finds none left.
const OPEN_FILES_FEW: u64 = 128;

/// Notes about the limits on this process.
pub fn all(memory: MemoryLimit) -> Vec<String> {
    let few = about_files(sys::limits::open_files());
    let much = about_memory(memory, MemoryShares::of_this_process().bytes());
    few.into_iter().chain(much).collect()
}

fn about_files(open_files: u64) -> Option<String> {
    (open_files < OPEN_FILES_FEW).then(|| {
        format!(
            "only {open_files} files may be open, connections included: clients will wait for one another; \
             raise it with `ulimit -n` or LimitNOFILE="
        )
    })
}

fn about_memory(memory: MemoryLimit, bytes_max: u64) -> Option<String> {
    (memory.bytes() as u64 > bytes_max / 2).then(|| {
        format!(
            "memory={} is more than half of the {} that the machine or the control group has: clients \
             may drive the server beyond it, and the kernel then kills it",
            ByteSize(memory.into()),
            admin::bytes(bytes_max)
        )
    })
}

#[cfg(test)]
mod tests {
    use super::{MemoryLimit, about_files, about_memory};

    #[test]
    fn what_is_scarce_is_named() {
        let size = |bytes: u64| MemoryLimit::try_from(bytes).unwrap();
        assert!(about_files(64).unwrap().contains("LimitNOFILE"));
        assert_eq!(about_files(1024), None);
        let told = about_memory(size(512 << 20), 64 << 20).unwrap();
        assert!(told.contains("memory=512M") && told.contains("64.0 MiB"), "{told}");
        assert_eq!(about_memory(size(16 << 20), 64 << 20), None);
        assert_eq!(about_memory(size(512 << 20), u64::MAX), None);
    }
}
