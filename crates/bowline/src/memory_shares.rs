//! What the parts of a server get of the memory that it may have: on a large machine as much as they can use,
//! in a container with little of it so much that all of them together stay below its limit.
//!
//! In 64 MiB that is: 16 MiB for calls under way (`memory`), 16 MiB for threads, 8 MiB for open files, 4 MiB
//! for kept replies; the rest is the program's own, the kernel's sockets and the page cache. From 2 GiB on
//! nothing is smaller than elsewhere, unless there are many CPUs.

use std::sync::OnceLock;
use svc::{MEMORY_MIN_BYTES, MemoryLimit};

/// `memory` gets a quarter: the page cache and the kernel's socket buffers of a container are in the same limit.
const UNDER_WAY: u64 = 4;
/// Threads get a quarter.
const THREADS: u64 = 4;
/// What a thread may hold: the reply to a READ of 1 MiB that waits for the disk, what it receives into, what
/// it keeps from call to call.
const THREAD_BYTES: u64 = 2 << 20;
/// Threads at the least: some may sleep, and others answer.
const THREADS_LEAST: u64 = 4;
/// Open files get an eighth.
const OPEN_FILES: u64 = 8;
/// What an open file costs: the kernel cannot forget its inode and its name meanwhile.
const OPEN_FILE_BYTES: u64 = 2 << 10;
/// Kept replies get a sixteenth.
const REPLIES: u64 = 16;

/// How much memory there is to be shared out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryShares {
    bytes: u64,
}

impl MemoryShares {
    /// Of the memory that this process may have; looked up once, so that what nobody has set is no change
    /// at a reload.
    pub fn of_this_process() -> Self {
        static SHARES: OnceLock<MemoryShares> = OnceLock::new();
        *SHARES.get_or_init(|| Self { bytes: sys::limits::memory_bytes_max() })
    }

    /// The bytes that are shared out.
    pub const fn bytes(self) -> u64 {
        self.bytes
    }

    /// The default of `memory`: whole MiB.
    pub fn memory(self) -> MemoryLimit {
        MemoryLimit::default_of(((self.bytes / UNDER_WAY) >> 20 << 20).max(MEMORY_MIN_BYTES))
    }

    /// The most threads by default, of those that the CPUs would have.
    pub fn threads(self, wanted: usize) -> usize {
        let room = (self.bytes / THREADS / THREAD_BYTES).max(THREADS_LEAST);
        wanted.min(count(room))
    }

    /// Objects that may be kept open.
    pub fn open_files(self) -> usize {
        count(self.bytes / OPEN_FILES / OPEN_FILE_BYTES)
    }

    /// Bytes of kept replies, of those that are wanted.
    pub fn reply_cache(self, wanted: usize) -> usize {
        wanted.min(count(self.bytes / REPLIES))
    }
}

fn count(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::MemoryShares;
    use crate::settings::ByteSize;

    fn of(mib: u64) -> MemoryShares {
        MemoryShares { bytes: mib << 20 }
    }

    #[test]
    fn all_shares_of_little_memory_fit_into_it() {
        for mib in [64, 100, 128, 256, 512, 1024, 2048] {
            let shares = of(mib);
            let parts = [
                shares.memory().bytes(),
                shares.threads(512) * (2 << 20),
                shares.open_files() * (2 << 10),
                shares.reply_cache(16 << 20),
            ];
            let all: usize = parts.iter().sum();
            assert!(all as u64 <= shares.bytes() / 4 * 3, "{mib} MiB: {parts:?}");
        }
    }

    #[test]
    fn shares_follow_the_memory_that_there_is() {
        let shown = |mib| ByteSize(of(mib).memory().into()).to_string();
        assert_eq!([16, 64, 67, 128, 1000].map(shown), ["16M", "16M", "16M", "32M", "250M"]);
        assert_eq!([2048, 1 << 20, u64::MAX >> 20].map(shown), ["512M", "512M", "512M"]);
        assert_eq!([0, 64, 128, 4096].map(|mib| of(mib).threads(512)), [4, 8, 16, 512]);
        assert_eq!(of(64).threads(2), 2);
        assert_eq!((of(64).open_files(), of(1024).open_files()), (4096, 65_536));
        assert_eq!(of(64).reply_cache(16 << 20), 4 << 20);
        assert_eq!(of(4096).reply_cache(16 << 20), 16 << 20);
        assert_eq!(MemoryShares::of_this_process(), MemoryShares::of_this_process());
    }
}
