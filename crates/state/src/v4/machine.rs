//! State protection by the credential of a client's machine (SP4_MACH_CRED, RFC 8881 §2.10.8.3): which operations need
//! it, and from which connections a session then takes requests.

use crate::sync::{AtomicU64, AtomicUsize};
use std::sync::atomic::Ordering::Relaxed;

/// BIND_CONN_TO_SESSION.
const BIND_CONN: u32 = 41;
/// Connections of a session that are remembered; a client has 16 at the most, and new ones after others broke.
const CONNS: usize = 32;

/// What a client's machine alone may do, and what it may do in its users' place; sets of operations by their numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MachineCredential {
    /// `spo_must_enforce`: operations that are refused to everybody else.
    pub enforced: [u32; 3],
    /// `spo_must_allow`: operations that it may do whatever flavours an export accepts.
    pub allowed: [u32; 3],
}

fn has(set: &[u32; 3], op: u32) -> bool {
    let word = usize::try_from(op / 32).ok().and_then(|word| set.get(word));
    word.is_some_and(|word| word & 1 << (op % 32) != 0)
}

impl MachineCredential {
    /// Whether an operation is the machine's alone.
    pub fn enforces(&self, op: u32) -> bool {
        has(&self.enforced, op)
    }

    /// Whether the machine may do an operation in its users' place.
    pub fn allows(&self, op: u32) -> bool {
        has(&self.allowed, op)
    }

    pub(super) fn binds_connections(&self) -> bool {
        self.enforces(BIND_CONN)
    }
}

/// The connections that a session takes requests from: the numbers of the last [`CONNS`] that were bound, plus one.
#[derive(Default)]
pub(super) struct BoundConns {
    ids: [AtomicU64; CONNS],
    next: AtomicUsize,
}

impl BoundConns {
    pub fn bind(&self, conn: u64) {
        if self.has(conn) {
            return;
        }
        let at = self.next.fetch_add(1, Relaxed) % CONNS;
        if let Some(place) = self.ids.get(at) {
            place.store(conn.wrapping_add(1), Relaxed);
        }
    }

    pub fn has(&self, conn: u64) -> bool {
        self.ids.iter().any(|id| id.load(Relaxed) == conn.wrapping_add(1))
    }
}

#[cfg(test)]
mod tests {
    use super::{BoundConns, CONNS, MachineCredential};

    #[test]
    fn operations_are_found_by_their_numbers() {
        let machine = MachineCredential { enforced: [0, 1 << 9, 1 << 6], allowed: [1 << 4, 0, 0] };
        assert!(machine.enforces(41) && machine.binds_connections() && machine.enforces(70));
        assert!(!machine.enforces(4) && machine.allows(4) && !machine.allows(200));
    }

    #[test]
    fn the_last_connections_are_remembered() {
        let bound = BoundConns::default();
        assert!(!bound.has(0) && !bound.has(u64::MAX - 1));
        for conn in 0..=CONNS as u64 {
            bound.bind(conn);
            bound.bind(conn);
            assert!(bound.has(conn));
        }
        assert!(!bound.has(0) && bound.has(1));
    }
}
