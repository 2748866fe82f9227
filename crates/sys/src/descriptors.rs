//! The descriptors that a process may have open, divided between its connections and its open files.
//!
//! Connections come first: each takes one as long as there are any; open files get the rest, fewer as
//! more clients connect. What else a server opens (listeners, epolls, pipes, the log, the control socket)
//! is in a reserve. Both sides still have to deal with a shortage: the limit may be lowered while the
//! process runs, and the machine may be out of descriptors before the process is.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Descriptors for everything but connections and open files.
const RESERVED: usize = 1024;
/// Descriptors that are left to open files however many clients connect.
const FILES_MIN: usize = 48;

/// A process's descriptors. Written when a connection opens or closes, read when a file is opened.
#[derive(Debug)]
pub struct DescriptorBudget {
    /// Without the reserve.
    total: usize,
    connections: AtomicUsize,
}

impl DescriptorBudget {
    /// The budget of a process that may have this many descriptors. The reserve is at most half of them.
    pub fn new(descriptors_max: u64) -> Self {
        let all = usize::try_from(descriptors_max).unwrap_or(usize::MAX);
        let total = all.saturating_sub(RESERVED.min(all / 2));
        Self { total, connections: AtomicUsize::new(0) }
    }

    /// The budget of this process, by its limit in force (RLIMIT_NOFILE).
    pub fn of_this_process() -> Self {
        Self::new(crate::limits::open_files())
    }

    /// The most connections.
    pub fn connections_max(&self) -> usize {
        self.total.saturating_sub(FILES_MIN).max(self.total / 2)
    }

    /// There are this many connections now.
    pub fn set_connections(&self, count: usize) {
        self.connections.store(count, Relaxed);
    }

    /// Descriptors for open files, as of now.
    pub fn files(&self) -> usize {
        self.total.saturating_sub(self.connections.load(Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::DescriptorBudget;

    #[test]
    fn connections_and_files_stay_within_the_descriptor_limit() {
        for limit in [0, 16, 64, 200, 1024, 4096, 1 << 20, u64::MAX] {
            let budget = DescriptorBudget::new(limit);
            let max = budget.connections_max();
            assert!(limit < 16 || max > 0, "{limit}");
            for connections in [0, max / 2, max] {
                budget.set_connections(connections);
                assert!((connections + budget.files()) as u64 <= limit, "{limit} {connections}");
            }
            assert!(limit < 400 || budget.files() >= 48, "{limit}: files keep some");
        }
    }
}
