//! Machines that call themselves the same (`co_ownerid`, in version 4.0 the `id` of `nfs_client_id4`): cloned machines,
//! containers, machines of the name localhost.
//!
//! A machine that makes itself known with another verifier has restarted, and what it held ends (RFC 8881 §18.35.4 case
//! 5, RFC 7530 §16.33.5). A verifier that was replaced never comes back then. If it does, and a second one as well, two
//! machines take turns: each takes the other's opens and locks away. Once is not enough, because a client may use
//! another verifier for a moment to be rid of what it holds. If the two are of different users the second cannot get in
//! while the first has something.
//!
//! Lock: the table; taken after that of the clients, and before none.

use super::client::Client;
use crate::acquire::acquire;
use crate::key::Now;
use crate::sync::{AtomicUsize, Mutex};
use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;
use std::sync::atomic::Ordering::{Acquire, Release};

/// Names that are remembered; the one that was not used longest is forgotten.
const NAMES_MAX: usize = 1024;
/// Verifiers of a name that are remembered.
const VERIFIERS_MAX: usize = 8;
/// So many verifiers have to come back.
const RETURNS_MIN: u32 = 2;
/// For how long a conflict is shown after it was last seen.
const SHOWN_MS: u64 = 3_600_000;

/// What two machines of one name do to each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum NameConflictKind {
    /// Each takes the other's opens and locks away.
    TakeTurns,
    /// The second cannot get in, because another user makes the first known.
    OtherUser,
}

/// Two machines that call themselves the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NameConflict {
    /// What they call themselves.
    pub owner: Box<[u8]>,
    /// What they do to each other.
    pub kind: NameConflictKind,
    /// The address of the one that was there.
    pub holder: IpAddr,
    /// The address of the one that came.
    pub comer: IpAddr,
}

/// A name: that of a client of version 4.0, or of another.
type Name = (bool, Box<[u8]>);

#[derive(Debug)]
struct Seen {
    /// The verifiers that were replaced, the oldest first.
    replaced: VecDeque<[u8; 8]>,
    /// How many of them came back.
    returns: u32,
    /// The conflict that was noted last of each kind, and when it was last seen.
    conflicts: BTreeMap<NameConflictKind, (NameConflict, u64)>,
    seen_ms: u64,
}

#[derive(Default)]
struct Table {
    names: BTreeMap<Name, Seen>,
    /// What nobody has been told yet.
    untold: Vec<NameConflict>,
}

/// The names whose clients were replaced or refused.
#[derive(Default)]
pub(super) struct NameConflicts {
    table: Mutex<Table>,
    /// How many conflicts nobody has been told yet.
    untold: AtomicUsize,
}

fn name_of(client: &Client) -> Name {
    (client.is_minor0(), client.owner.clone())
}

impl Table {
    fn seen(&mut self, now: Now, name: Name) -> &mut Seen {
        if self.names.len() >= NAMES_MAX && !self.names.contains_key(&name) {
            let oldest = self.names.iter().min_by_key(|(_, seen)| seen.seen_ms);
            if let Some(oldest) = oldest.map(|(name, _)| name.clone()) {
                self.names.remove(&oldest);
            }
        }
        let new = || Seen {
            replaced: VecDeque::new(),
            returns: 0,
            conflicts: BTreeMap::new(),
            seen_ms: now.0,
        };
        let seen = self.names.entry(name).or_insert_with(new);
        seen.seen_ms = now.0;
        seen
    }
}

impl NameConflicts {
    /// A client was replaced by another of its name, as after a restart.
    pub fn replaced(&self, now: Now, before: &Client, after: &Client) {
        if before.verifier == after.verifier {
            return;
        }
        let mut table = acquire(&self.table);
        let seen = table.seen(now, name_of(before));
        if seen.replaced.contains(&after.verifier) {
            seen.returns = seen.returns.saturating_add(1);
        }
        seen.replaced.retain(|verifier| *verifier != before.verifier);
        seen.replaced.push_back(before.verifier);
        if seen.replaced.len() > VERIFIERS_MAX {
            seen.replaced.pop_front();
        }
        if seen.returns >= RETURNS_MIN {
            let conflict = NameConflict {
                owner: before.owner.clone(),
                kind: NameConflictKind::TakeTurns,
                holder: before.address,
                comer: after.address,
            };
            self.note(now, &mut table, &name_of(before), conflict);
        }
    }

    /// A client was refused because another user has made one of its name known.
    pub fn refused(&self, now: Now, holder: &Client, comer: IpAddr) {
        let mut table = acquire(&self.table);
        table.seen(now, name_of(holder));
        let conflict = NameConflict {
            owner: holder.owner.clone(),
            kind: NameConflictKind::OtherUser,
            holder: holder.address,
            comer,
        };
        self.note(now, &mut table, &name_of(holder), conflict);
    }

    /// Each kind of conflict of a name is told once, and again if it is seen after it was no longer shown.
    fn note(&self, now: Now, table: &mut Table, name: &Name, conflict: NameConflict) {
        let Some(seen) = table.names.get_mut(name) else { return };
        let known = seen.conflicts.insert(conflict.kind, (conflict.clone(), now.0));
        if known.is_none_or(|(_, at_ms)| now.since(at_ms) > SHOWN_MS) {
            table.untold.push(conflict);
            table.untold.truncate(NAMES_MAX);
            self.untold.store(table.untold.len(), Release);
        }
    }

    /// What nobody has been told yet. Costs one load if that is nothing.
    pub fn take_untold(&self) -> Vec<NameConflict> {
        if self.untold.load(Acquire) == 0 {
            return Vec::new();
        }
        let mut table = acquire(&self.table);
        self.untold.store(0, Release);
        std::mem::take(&mut table.untold)
    }

    /// The conflicts of the last hour.
    pub fn recent(&self, now: Now) -> Vec<NameConflict> {
        let table = acquire(&self.table);
        let all = table.names.values().flat_map(|seen| seen.conflicts.values());
        let recent = all.filter(|(_, at_ms)| now.since(*at_ms) <= SHOWN_MS);
        recent.map(|(conflict, _)| conflict.clone()).collect()
    }
}
