//! Default limits for the parts of a server, as shares of the memory of the machine or the control group, or of the
//! address space that the process may have (RLIMIT_AS, `ulimit -v`) without what it has mapped anyway.
//!
//! With 64 MiB these are 16 MiB for calls in progress (`memory`), 16 MiB for threads, 8 MiB for open files and
//! 4 MiB for the reply cache; the rest is left to the program, the kernel's socket buffers and the page cache.
//! From 2 GiB on, the parts are limited by what they can use, not by their shares, unless there are many CPUs.

use crate::settings::ByteSize;
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
/// Opens of version 4 get an eighth.
const OPENS_DIVISOR: u64 = 8;
/// What an open of version 4 may take, with the note that its file is kept.
const OPEN_BYTES: u64 = 1 << 10;
/// Opens that there may be whatever the memory is.
const OPENS_MIN: usize = 4096;
/// Slots of version 4.1 with the replies that they keep get a sixteenth, and sessions a thirty-second.
const SLOTS_DIVISOR: u64 = 16;
const SESSIONS_DIVISOR: u64 = 32;
/// What a slot may keep, and what a session with its first few slots may take, each of which keeps 1 KiB.
const SLOT_BYTES: u64 = 8 << 10;
const SESSION_BYTES: u64 = 7 << 10;
/// Slots and sessions that there may be whatever the memory is.
const SLOTS_MIN: usize = 256;
const SESSIONS_MIN: usize = 128;
/// The reply cache gets a sixteenth.
const REPLY_CACHE_DIVISOR: u64 = 16;

/// Of limited address space this is for stacks of threads that are no workers, which map 2 MiB each, and for what
/// libraries map later.
const ADDRESS_RESERVE_BYTES: u64 = 32 << 20;
/// What has to be left at the least, for four threads and a few calls.
const ADDRESS_LEFT_MIN_BYTES: u64 = 24 << 20;
/// Where address space is limited, `memory` is at most this part of what is left: an allocation that fails is not one
/// call's failure only.
const ADDRESS_CALLS_DIVISOR: u64 = 3;

/// The memory that is divided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryShares {
    bytes: u64,
    /// Address space that is left for all parts, if it is limited.
    address: Option<AddressSpace>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct AddressSpace {
    limit_bytes: u64,
    left_bytes: u64,
}

impl MemoryShares {
    /// For the memory limit of this process; read once, before the first thread is started, so that defaults do
    /// not change at a reload.
    pub fn of_this_process() -> Self {
        static SHARES: OnceLock<MemoryShares> = OnceLock::new();
        *SHARES.get_or_init(|| {
            let mapped_bytes = sys::limits::address_bytes();
            Self::of(
                sys::limits::memory_bytes_max(),
                sys::limits::address_bytes_max(),
                mapped_bytes,
            )
        })
    }

    fn of(memory_bytes_max: u64, address_bytes_max: Option<u64>, mapped_bytes: u64) -> Self {
        let taken = mapped_bytes.saturating_add(ADDRESS_RESERVE_BYTES);
        let address = address_bytes_max.map(|limit| AddressSpace {
            limit_bytes: limit,
            left_bytes: limit.saturating_sub(taken),
        });
        let left = address.map_or(u64::MAX, |address| address.left_bytes);
        Self { bytes: memory_bytes_max.min(left), address }
    }

    /// The memory limit in bytes.
    pub const fn bytes(self) -> u64 {
        self.bytes
    }

    /// The default of `memory`, in whole MiB.
    pub fn memory(self) -> MemoryLimit {
        MemoryLimit::default_of(((self.bytes / CALLS_DIVISOR) >> 20 << 20).max(MEMORY_MIN_BYTES))
    }

    /// Why the process cannot serve with the address space that it may have.
    pub fn too_little(self) -> Option<String> {
        let AddressSpace { limit_bytes, left_bytes } = self.address?;
        let missing_bytes =
            ADDRESS_LEFT_MIN_BYTES.checked_sub(left_bytes).filter(|missing| *missing > 0)?;
        Some(format!(
            "the address space is limited to {} (RLIMIT_AS), and {} more are needed: raise `ulimit -v` or LimitAS=",
            admin::bytes(limit_bytes),
            admin::bytes(missing_bytes),
        ))
    }

    /// What `memory` comes to where so much is `wanted`, in bytes, and a note where that is less.
    pub fn memory_in_force(self, wanted: MemoryLimit) -> (usize, Option<String>) {
        let Some(AddressSpace { limit_bytes, left_bytes }) = self.address else {
            return (wanted.bytes(), None);
        };
        let most = count(left_bytes / ADDRESS_CALLS_DIVISOR);
        if wanted.bytes() <= most {
            return (wanted.bytes(), None);
        }
        let note = format!(
            "memory={} is more than the address space has room for, which is limited to {} (RLIMIT_AS): {} are \
             used; raise `ulimit -v` or LimitAS=",
            ByteSize(wanted.into()),
            admin::bytes(limit_bytes),
            admin::bytes(most as u64),
        );
        (most, Some(note))
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

    /// Opens of version 4 in all, at most `wanted`.
    pub fn v4_opens(self, wanted: usize) -> usize {
        wanted.min(count(self.bytes / OPENS_DIVISOR / OPEN_BYTES).max(OPENS_MIN))
    }

    /// Slots of all sessions of version 4.1, at most `wanted`.
    pub fn v4_slots(self, wanted: usize) -> usize {
        wanted.min(count(self.bytes / SLOTS_DIVISOR / SLOT_BYTES).max(SLOTS_MIN))
    }

    /// Sessions of version 4.1, at most `wanted`.
    pub fn v4_sessions(self, wanted: usize) -> usize {
        wanted.min(count(self.bytes / SESSIONS_DIVISOR / SESSION_BYTES).max(SESSIONS_MIN))
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
    use super::{MemoryLimit, MemoryShares};
    use crate::settings::ByteSize;

    fn of(mib: u64) -> MemoryShares {
        MemoryShares::of(mib.saturating_mul(1 << 20), None, 20 << 20)
    }

    #[test]
    fn the_sum_of_shares_fits_into_small_memory() {
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
    fn limited_address_space_bounds_memory() {
        let limit = |mib: u64| MemoryLimit::try_from(mib << 20).unwrap();
        let shares = MemoryShares::of(8 << 30, Some(112 << 20), 20 << 20);
        assert_eq!(shares.bytes(), 60 << 20);
        assert_eq!(shares.threads(512), 7);
        assert_eq!(shares.memory_in_force(limit(16)), (16 << 20, None));
        let (bytes, note) = shares.memory_in_force(limit(512));
        assert_eq!(bytes, 20 << 20);
        let note = note.unwrap();
        assert!(note.contains("memory=512M") && note.contains("112.0 MiB"), "{note}");
        assert_eq!(shares.too_little(), None);
        let why = MemoryShares::of(8 << 30, Some(70 << 20), 20 << 20).too_little().unwrap();
        assert!(why.contains("70.0 MiB") && why.contains("6.0 MiB more"), "{why}");
        // none is left: what there is cannot become negative
        let none = MemoryShares::of(8 << 30, Some(30 << 20), 20 << 20);
        assert_eq!((none.bytes(), none.memory_in_force(limit(16)).0), (0, 0));
        let free = MemoryShares::of(8 << 30, None, 20 << 20);
        assert_eq!(free.memory_in_force(limit(512)), (512 << 20, None));
    }

    #[test]
    fn shares_are_proportional_within_their_bounds() {
        let shown = |mib| ByteSize(of(mib).memory().into()).to_string();
        assert_eq!([16, 64, 67, 128, 1000].map(shown), ["16M", "16M", "16M", "32M", "250M"]);
        assert_eq!([2048, 1 << 20, u64::MAX >> 20].map(shown), ["512M", "512M", "512M"]);
        assert_eq!([0, 64, 128, 4096].map(|mib| of(mib).threads(512)), [4, 8, 16, 512]);
        assert_eq!(of(64).threads(2), 2);
        assert_eq!((of(64).open_files(), of(1024).open_files()), (4096, 65_536));
        assert_eq!(
            [16, 64, 16_384].map(|mib| of(mib).v4_opens(1_000_000)),
            [4096, 8192, 1_000_000]
        );
        assert_eq!([16, 64, 65_536].map(|mib| of(mib).v4_slots(131_072)), [256, 512, 131_072]);
        assert_eq!([16, 64, 65_536].map(|mib| of(mib).v4_sessions(65_536)), [128, 292, 65_536]);
        assert_eq!(of(64).reply_cache(16 << 20), 4 << 20);
        assert_eq!(of(4096).reply_cache(16 << 20), 16 << 20);
        assert_eq!(MemoryShares::of_this_process(), MemoryShares::of_this_process());
    }
}
