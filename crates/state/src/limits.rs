//! What the state may grow to. A peer that reaches a limit is refused ([`Plan::NoRoom`](crate::Plan::NoRoom));
//! nobody else's state is touched.
//!
//! One host gets no more than a part of what there is: three quarters of a file's entries, a quarter of all files and of
//! all waiting requests, a sixteenth of all ranges. So the other hosts always find room.
//!
//! The limits of one file hold exactly. Those of a host and of the whole server are checked before the change and
//! may be exceeded by what the threads that are inside at the same moment add: two ranges each.

/// The limits and times. All can be set per instance; the defaults are those of the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Byte ranges in one file, of all owners.
    pub ranges_per_file: usize,
    /// Byte ranges of one owner in one file.
    pub ranges_per_owner: usize,
    /// Entries of one host in one file, of whatever kind: with as many it gets no further range there.
    pub entries_per_host_and_file: usize,
    /// Byte ranges of one host, in all files.
    pub ranges_per_host: usize,
    /// Byte ranges in all.
    pub ranges: usize,
    /// Requests that wait for one file.
    pub waiters_per_file: usize,
    /// Requests of one host that wait for one file.
    pub waiters_per_host_and_file: usize,
    /// Requests of one host that wait.
    pub waiters_per_host: usize,
    /// Requests that wait, in all.
    pub waiters: usize,
    /// Share reservations in one file: pairs of an owner and a combination of access and deny.
    pub shares_per_file: usize,
    /// The same of one host.
    pub shares_per_host_and_file: usize,
    /// Opens counted by one share reservation.
    pub opens_per_share: u32,
    /// NLM hosts.
    pub hosts: usize,
    /// Files in which one host has something.
    pub files_per_host: usize,
    /// Files with state.
    pub files: usize,
    /// The longest grace period, in milliseconds.
    pub grace_ms: u64,
    /// How long the grace period goes on after the last reclaim or the last answer to SM_NOTIFY, before it may end
    /// early.
    pub grace_quiet_ms: u64,
    /// A host without a call for this long loses its locks when somebody else wants one of them. 0: never.
    pub silent_ms: u64,
    /// A monitored host that holds nothing and has sent no call for this long is forgotten.
    pub idle_ms: u64,
    /// When a request that a local program's lock blocks is tried again first.
    pub retry_min_ms: u64,
    /// The delay doubles each time up to this.
    pub retry_max_ms: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            ranges_per_file: 65_536,
            ranges_per_owner: 16_384,
            entries_per_host_and_file: 49_152,
            ranges_per_host: 65_536,
            ranges: 1_000_000,
            waiters_per_file: 1024,
            waiters_per_host_and_file: 768,
            waiters_per_host: 16_384,
            waiters: 65_536,
            shares_per_file: 4096,
            shares_per_host_and_file: 3072,
            opens_per_share: 65_536,
            hosts: 16_384,
            files_per_host: 262_144,
            files: 1_000_000,
            grace_ms: 60_000,
            grace_quiet_ms: 10_000,
            silent_ms: 24 * 3_600_000,
            idle_ms: 3_600_000,
            retry_min_ms: 50,
            retry_max_ms: 1000,
        }
    }
}

/// Parts of an UNLOCK that one lock request may collect while the kernel is asked; an UNLOCK beyond that is told to
/// come back.
pub(crate) const UNLOCKED_MAX: usize = 16;
/// Edges that the search for a deadlock follows at the most; a longer chain is taken for none.
pub const DEADLOCK_EDGES_MAX: usize = 1000;
/// Grants that one file remembers as not yet confirmed by their clients.
pub(crate) const UNCONFIRMED_MAX: usize = 1024;
/// The longest caller name in bytes (`LM_MAXSTRLEN`).
pub const NAME_MAX: usize = 1024;
