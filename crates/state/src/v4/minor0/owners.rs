//! The owners of a client.

use super::owner::{Owner, OwnerKind};
use crate::acquire::acquire;
use crate::key::Now;
use crate::sync::{Arc, Mutex};
use std::collections::BTreeMap;

/// The owners of a client.
#[derive(Default)]
pub(in super::super) struct Owners {
    table: Mutex<Table>,
}

#[derive(Default)]
struct Table {
    /// The client has been removed: nothing is added any more.
    ended: bool,
    owners: BTreeMap<(OwnerKind, Box<[u8]>), Arc<Owner>>,
}

/// An owner, as an operator sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnerRow {
    /// The client's id.
    pub client: u64,
    /// Its name within the client.
    pub name: Box<[u8]>,
    /// Whether it locks bytes, or opens files.
    pub locks: bool,
    /// The seqid of its last request.
    pub seqid: Option<u32>,
    /// Whether its first OPEN was confirmed.
    pub confirmed: bool,
    /// How many opens or lock states it has.
    pub states: usize,
    /// How long it has not been used, in milliseconds.
    pub idle_ms: u64,
}

impl Owners {
    pub fn find(&self, kind: OwnerKind, name: &[u8]) -> Option<Arc<Owner>> {
        acquire(&self.table).owners.get(&(kind, name.into())).map(Arc::clone)
    }

    /// The owner of this name, added if there is none; `None` if there are too many, or the client has ended.
    pub fn find_or_add(
        &self,
        kind: OwnerKind,
        name: &[u8],
        (now, most): (Now, usize),
    ) -> Option<Arc<Owner>> {
        let mut table = acquire(&self.table);
        let full = table.ended || table.owners.len() >= most;
        let key = (kind, name.into());
        if full {
            return table.owners.get(&key).map(Arc::clone);
        }
        let make = || Arc::new(Owner::new(kind, name, now));
        Some(Arc::clone(table.owners.entry(key).or_insert_with(make)))
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        acquire(&self.table).owners.len()
    }

    /// Removes an owner, if the one of its name is still this one.
    pub fn remove(&self, owner: &Arc<Owner>) {
        let mut table = acquire(&self.table);
        let key = (owner.kind, owner.name.clone());
        if table.owners.get(&key).is_some_and(|found| Arc::ptr_eq(found, owner)) {
            table.owners.remove(&key);
        }
    }

    /// Removes all; none is added after that.
    pub fn end(&self) -> Vec<Arc<Owner>> {
        let mut table = acquire(&self.table);
        table.ended = true;
        std::mem::take(&mut table.owners).into_values().collect()
    }

    /// Removes those that were not used for so long and have no open, or an unconfirmed one, and no lock state.
    pub(super) fn take_idle(&self, now: Now, kept_ms: u64) -> Vec<Arc<Owner>> {
        let mut table = acquire(&self.table);
        let is_over = |owner: &Arc<Owner>| {
            owner.idle_ms(now) > kept_ms
                && (owner.state_count() == 0 || !owner.is_confirmed())
                && !owner.is_running()
        };
        let over: Vec<_> =
            table.owners.values().filter(|owner| is_over(owner)).map(Arc::clone).collect();
        table.owners.retain(|_, owner| !is_over(owner));
        over
    }

    pub fn rows(&self, client: u64, now: Now) -> Vec<OwnerRow> {
        let row = |owner: &Arc<Owner>| OwnerRow {
            client,
            name: owner.name.clone(),
            locks: owner.kind == OwnerKind::Lock,
            seqid: owner.last_seqid(),
            confirmed: owner.is_confirmed(),
            states: owner.state_count(),
            idle_ms: owner.idle_ms(now),
        };
        acquire(&self.table).owners.values().map(row).collect()
    }
}
