//! The established contexts, found by handle without a lock.
//!
//! `found` is the map that calls read; `held` lists the contexts of each principal, oldest first, and is locked only to
//! add and remove contexts. Invariant: a context is in both or in neither, as seen by the holder of the lock.
//!
//! A handle is 16 bytes: a random number of this run of the server, so that handles of an earlier run are unknown
//! instead of matching another context, and the context's number.

use crate::context::Context;
use crate::counters::Counters;
use papaya::HashMap as FoundMap;
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// The most contexts: about 20 MiB. Beyond it the oldest context of the principal with the most contexts is evicted.
pub const CONTEXTS_MAX: usize = 16_384;
/// The most contexts of one principal; beyond it the oldest is evicted.
pub const CONTEXTS_OF_PRINCIPAL_MAX: usize = 1024;
/// Bytes of a handle.
pub const HANDLE_LEN: usize = 16;

/// The contexts.
pub struct Contexts {
    run: u64,
    found: FoundMap<u64, Arc<Context>>,
    held: Mutex<Held>,
}

#[derive(Default)]
struct Held {
    next: u64,
    count: usize,
    of_principal: HashMap<Box<[u8]>, VecDeque<u64>>,
}

impl Contexts {
    pub fn new() -> Self {
        let run = RandomState::new().hash_one(std::process::id());
        Self { run, found: FoundMap::new(), held: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn id(&self, handle: &[u8]) -> Option<u64> {
        let (run, id) = handle.split_first_chunk::<8>()?;
        let id: &[u8; 8] = id.try_into().ok()?;
        (u64::from_be_bytes(*run) == self.run).then(|| u64::from_be_bytes(*id))
    }

    /// The context of a handle.
    pub fn find(&self, handle: &[u8]) -> Option<Arc<Context>> {
        let id = self.id(handle)?;
        self.found.pin().get(&id).cloned()
    }

    pub fn len(&self) -> usize {
        self.lock().count
    }

    /// Principals and the addresses of their clients, each pair once, sorted. Iterates over all contexts.
    pub fn principals(&self) -> BTreeSet<(IpAddr, Box<[u8]>)> {
        let found = self.found.pin();
        found.values().map(|context| (context.client, context.name().into())).collect()
    }

    /// Adds a context and returns its handle; may evict others.
    pub fn add(
        &self,
        context: Arc<Context>,
        now: Instant,
        counters: &Counters,
    ) -> [u8; HANDLE_LEN] {
        let mut held = self.lock();
        if held.count >= CONTEXTS_MAX {
            self.remove_ended(&mut held, now);
        }
        let of_principal = held.of_principal.get(context.name()).map_or(0, VecDeque::len);
        if of_principal >= CONTEXTS_OF_PRINCIPAL_MAX {
            self.evict(&mut held, context.name(), counters);
        } else if held.count >= CONTEXTS_MAX {
            let most = held.of_principal.iter().max_by_key(|(_, ids)| ids.len());
            if let Some(name) = most.map(|(name, _)| name.clone()) {
                self.evict(&mut held, &name, counters);
            }
        }
        let id = held.next;
        held.next = held.next.wrapping_add(1);
        held.count = held.count.saturating_add(1);
        held.of_principal.entry(context.name().into()).or_default().push_back(id);
        self.found.pin().insert(id, context);
        let mut handle = [0; HANDLE_LEN];
        let (run, name) = handle.split_at_mut(8);
        run.copy_from_slice(&self.run.to_be_bytes());
        name.copy_from_slice(&id.to_be_bytes());
        handle
    }

    /// Removes a context; returns whether it existed.
    pub fn remove(&self, handle: &[u8]) -> bool {
        let Some(id) = self.id(handle) else { return false };
        let mut held = self.lock();
        let found = self.found.pin();
        let Some(context) = found.remove(&id) else { return false };
        held.forget(context.name(), id);
        true
    }

    /// Removes the oldest context of a principal.
    fn evict(&self, held: &mut Held, name: &[u8], counters: &Counters) {
        let oldest = held.of_principal.get(name).and_then(|ids| ids.front().copied());
        if let Some(id) = oldest {
            self.found.pin().remove(&id);
            held.forget(name, id);
            Counters::add(&counters.evicted);
        }
    }

    fn remove_ended(&self, held: &mut Held, now: Instant) {
        let found = self.found.pin();
        let ended = found.iter().filter(|(_, context)| context.has_ended(now));
        for (id, context) in ended {
            found.remove(id);
            held.forget(context.name(), *id);
        }
    }
}

impl Held {
    /// Removes a context from the list of its principal.
    fn forget(&mut self, name: &[u8], id: u64) {
        let Some(ids) = self.of_principal.get_mut(name) else { return };
        let before = ids.len();
        ids.retain(|held| *held != id);
        self.count = self.count.saturating_sub(before.saturating_sub(ids.len()));
        if ids.is_empty() {
            self.of_principal.remove(name);
        }
    }
}
