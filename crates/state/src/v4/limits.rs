//! What the state of version 4 may grow to. What goes beyond is refused, and nobody else's state is touched.
//!
//! One host, however many names it calls itself by, gets three quarters of the records of clients and of the sessions, and
//! fifteen sixteenths of the opens (`host_share`).

/// What the state may grow to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct V4Limits {
    /// The lease at first, in milliseconds.
    pub lease_ms: u64,
    /// How long the state of a client that is silent is kept when nobody wants it.
    pub courtesy_ms: u64,
    /// Client records, confirmed or not.
    pub clients: usize,
    /// Sessions of one client.
    pub sessions_per_client: usize,
    /// Sessions of all clients.
    pub sessions: usize,
    /// Slots of a session at first.
    pub slots: u32,
    /// Slots of a session that uses them.
    pub slots_most: usize,
    /// Slots of all sessions; beyond it a new one gets a few.
    pub slots_in_all: usize,
    /// The longest reply that a slot keeps.
    pub cached_reply_bytes: u32,
    /// The same of a session that is made when there are as many slots as there may be.
    pub cached_reply_bytes_when_full: u32,
    /// Opens of one client.
    pub opens_per_client: usize,
    /// Opens in all.
    pub opens: usize,
    /// Opens of one client once seven eighths of all are taken: so few clients cannot take all of them.
    pub opens_when_scarce: usize,
    /// How long a client has to return a delegation, if the lease is not shorter: less than the 45 s for which the kernel
    /// holds back local programs.
    pub recall_ms: u64,
    /// Delegations of one client.
    pub delegations_per_client: usize,
    /// Delegations in all.
    pub delegations: usize,
    /// Lock owners of one open.
    pub lock_owners_per_open: usize,
    /// Revoked stateids of one client that it has not freed.
    pub revoked_per_client: usize,
    /// Lock states of one client.
    pub lock_states_per_client: usize,
    /// Open owners and lock owners of one client of version 4.0.
    pub owners_per_client: usize,
}

impl Default for V4Limits {
    fn default() -> Self {
        Self {
            lease_ms: 60_000,
            courtesy_ms: 24 * 3_600_000,
            clients: 16_384,
            sessions_per_client: 64,
            sessions: 65_536,
            slots: 64,
            slots_most: 1024,
            slots_in_all: 131_072,
            cached_reply_bytes: 8192,
            cached_reply_bytes_when_full: 1024,
            opens_per_client: 262_144,
            opens: 1_100_000,
            opens_when_scarce: 4096,
            recall_ms: 40_000,
            delegations_per_client: 16_384,
            delegations: 65_536,
            lock_owners_per_open: 4096,
            revoked_per_client: 4096,
            lock_states_per_client: 65_536,
            owners_per_client: 65_536,
        }
    }
}
