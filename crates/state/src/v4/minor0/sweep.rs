//! Ends owners that are not needed any more.
//!
//! An owner without opens or locks is kept for a lease period after its last request, so that this can be retransmitted
//! (RFC 7530 §9.1.10); an open that is not confirmed in that time is closed and its owner removed (§16.18.5).

use super::super::server::{Entry, V4State};
use super::super::stateid::key_of;
use super::owner::{Owner, OwnerKind};
use super::owners::OwnerRow;
use crate::acquire::acquire;
use crate::key::Now;
use crate::sync::Arc;

impl V4State {
    /// Removes the owners that had no state for a lease period, and opens that were not confirmed in that time. To be called
    /// periodically.
    pub fn sweep_owners(&self, now: Now) {
        let clients: Vec<_> = acquire(&self.clients)
            .all()
            .filter(|client| client.is_minor0())
            .map(Arc::clone)
            .collect();
        for client in clients {
            let Some(owners) = client.owners() else { continue };
            for owner in owners.take_idle(now, self.lease_ms()) {
                self.end_owner(&owner);
            }
        }
    }

    /// Ends the opens of an owner that was removed from its client's table.
    pub(in super::super) fn end_owner(&self, owner: &Arc<Owner>) {
        let entries = self.entries.pin();
        if let Some(closed) = owner.take_closed() {
            entries.remove(&key_of(&closed));
        }
        if owner.kind == OwnerKind::Open {
            for other in owner.states() {
                let Some(Entry::Open(open)) = entries.get(&key_of(&other)) else { continue };
                let open = Arc::clone(open);
                open.client.forget_open(&other);
                self.remove_open(&open);
            }
        }
    }

    /// The owners of version 4.0.
    pub fn owner_rows(&self, now: Now) -> Vec<OwnerRow> {
        let clients: Vec<_> = acquire(&self.clients).all().map(Arc::clone).collect();
        let owners = clients.iter().filter_map(|client| Some((client.id, client.owners()?)));
        owners.flat_map(|(id, owners)| owners.rows(id, now)).collect()
    }
}
