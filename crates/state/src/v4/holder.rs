//! The holder of a write delegation, who alone knows the file's size and times (RFC 8881 §10.4.3, RFC 9754): what the server
//! knew when it granted the delegation, and the change attribute that others are shown meanwhile.

use super::delegation_entry::Delegation;
use super::granted_attrs::GrantedAttrs;
use super::server::V4State;
use crate::acquire::acquire;
use crate::key::{FileKey, Now};
use crate::sync::Arc;

/// A client that may have changed a file without the server's knowledge.
pub struct Holder {
    delegation: Arc<Delegation>,
}

impl Holder {
    /// The client's id.
    pub fn client_id(&self) -> u64 {
        self.delegation.client.id
    }

    /// The file as the client names it.
    pub fn handle(&self) -> &[u8] {
        &self.delegation.handle
    }

    /// What was known when the delegation was granted.
    pub fn granted(&self) -> &GrantedAttrs {
        &self.delegation.attrs
    }

    /// Whether the delegation has ended: what the server has of the file is all there is.
    pub fn is_ended(&self) -> bool {
        self.delegation.is_ended()
    }

    /// Whether the delegation is recalled, or its client silent: then it is not asked any more.
    pub fn is_leaving(&self, now: Now, lease_ms: u64) -> bool {
        self.delegation.recalled_for_ms(now).is_some()
            || self.delegation.client.silent_ms(now) > lease_ms
    }

    /// The change attribute that others are shown: `found` is that of the server. It rises with each look at a file that the
    /// holder has changed and not sent, since it may have changed it again; and after the last of them.
    pub fn shown_change(&self, found: u64, is_modified: bool) -> u64 {
        self.delegation.shown_change(found, is_modified)
    }
}

/// A client's own write delegation of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OwnWriteDelegation {
    /// How long ago it was granted, in milliseconds.
    pub age_ms: u64,
    /// Whether it is recalled.
    pub is_recalled: bool,
}

impl V4State {
    /// The write delegation that this client has of a file.
    pub fn write_delegation_of(
        &self,
        now: Now,
        file: &FileKey,
        client: u64,
    ) -> Option<OwnWriteDelegation> {
        let found = self.write_holder(file, None)?.delegation;
        (found.client.id == client).then(|| OwnWriteDelegation {
            age_ms: found.age_ms(now),
            is_recalled: found.recalled_for_ms(now).is_some(),
        })
    }

    /// Whether this client has the write delegation of a file.
    pub fn is_writing(&self, file: &FileKey, client: u64) -> bool {
        let holder = self.write_holder(file, None);
        holder.is_some_and(|holder| holder.client_id() == client)
    }

    /// The client other than `except` that has a write delegation of a file.
    pub fn write_holder(&self, file: &FileKey, except: Option<u64>) -> Option<Holder> {
        let files = acquire(self.delegations.shard(file)?);
        let all = &files.get(file)?.delegations;
        let holder = all.iter().find(|delegation| delegation.is_written_by_other(except))?;
        Some(Holder { delegation: Arc::clone(holder) })
    }
}
