//! Default limits for the parts of a server, as shares of the memory of the machine or the control group.
//!
//! With 64 MiB these are 16 MiB for calls in progress (`memory`), 16 MiB for threads, 8 MiB for open files and
//! 4 MiB for the reply cache; the rest is left to the program, the kernel's socket buffers and the page cache.
//! From 2 GiB on, the parts are limited by what they can use, not by their shares, unless there are many CPUs.

use std::sync::OnceLock;
use svc::{MEMORY_MIN_BYTES, MemoryLimit};

/// `memory` gets a quarter: a container's page cache and socket buffers count towards the same limit.
const CALLS_DIVISOR: u64 = 4;
/// Threads get a quarter.
const THREADS_DIVISOR: u64 = 4;
/// What a thread may use: the reply to a READ of 1 MiB that waits for the disk, its receive buffer, its stack.
const THREAD_BYTES: u64 = 2 << 20;
/// Fewest threads, so that some can block while others answer.
const THREADS_MIN: u64 = 4;
/// Open files get an eighth.
const OPEN_FILES_DIVISOR: u64 = 8;
/// Kernel memory for an open file: its inode and dentry cannot be reclaimed.
const OPEN_FILE_BYTES: u64 = 2 << 10;
/// The reply cache gets a sixteenth.
const REPLY_CACHE_DIVISOR: u64 = 16;

/// The memory that is divided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryShares {
    bytes: u64,
}

impl MemoryShares {
    /// For the memory limit of this process; read once, so that defaults do not change at a reload.
    pub fn of_this_process() -> Self {
        static SHARES: OnceLock<MemoryShares> = OnceLock::new();
        *SHARES.get_or_init(|| Self { bytes: sys::limits::memory_bytes_max() })
    }

    /// The memory limit in bytes.
    pub const fn bytes(self) -> u64 {
        self.bytes
    }

    /// The default of `memory`, in whole MiB.
    pub fn memory(self) -> MemoryLimit {
        MemoryLimit::default_of(((self.bytes / CALLS_DIVISOR) >> 20 << 20).max(MEMORY_MIN_BYTES))
    }

    /// The default for the most threads, where the CPUs would have `wanted`.
    pub fn threads(self, wanted: usize) -> usize {
        let room = (self.bytes / THREADS_DIVISOR / THREAD_BYTES).max(THREADS_MIN);
        wanted.min(count(room))
    }

    /// The limit of cached open files.
    pub fn open_files(self) -> usize {
        count(self.bytes / OPEN_FILES_DIVISOR / OPEN_FILE_BYTES)
    }

    /// Bytes of the reply cache, at most `wanted`.
    pub fn reply_cache(self, wanted: usize) -> usize {
        wanted.min(count(self.bytes / REPLY_CACHE_DIVISOR))
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
    fn all_shares_together_fit_into_small_memory() {
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
    fn shares_are_proportional_within_their_bounds() {
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
