//! The rows of all clients, sessions and opens.
//!
//! The map is read as it changes: a row may be of something that ends meanwhile.

use super::name_conflicts::NameConflict;
use super::rows::{ClientRow, OpenRow, SessionRow};
use super::server::{Entry, V4State};
use crate::acquire::acquire;
use crate::key::Now;
use crate::sync::Arc;

impl V4State {
    /// Clients that were seen within the last hour to call themselves the same.
    pub fn name_conflicts(&self, now: Now) -> Vec<NameConflict> {
        self.name_conflicts.recent(now)
    }

    /// Those that nobody has been told yet. Costs one load if there are none.
    pub fn take_name_conflicts(&self) -> Vec<NameConflict> {
        self.name_conflicts.take_untold()
    }

    /// The clients.
    pub fn client_rows(&self, now: Now) -> Vec<ClientRow> {
        acquire(&self.clients).rows(now, self.lease_ms())
    }

    /// The sessions, those of one client after the other.
    pub fn session_rows(&self) -> Vec<SessionRow> {
        let entries = self.entries.pin();
        let mut rows: Vec<_> = entries
            .values()
            .filter_map(|entry| match entry {
                Entry::Session(session) => Some(session.row()),
                Entry::Open(_) | Entry::Lock(_) | Entry::Delegation(_) | Entry::Revoked(_) => None,
            })
            .collect();
        rows.sort_unstable_by_key(|row| (row.client, row.id));
        rows
    }

    /// The opens, those of one client after the other.
    pub fn open_rows(&self) -> Vec<OpenRow> {
        let clients: Vec<_> = acquire(&self.clients).all().map(Arc::clone).collect();
        clients.iter().flat_map(|client| client.open_rows()).collect()
    }
}
