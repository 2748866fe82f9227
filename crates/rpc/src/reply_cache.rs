//! The reply cache: calls that must not run twice, and what was answered.
//!
//! # What it is for
//!
//! A client that hears nothing sends its call again. For most calls that is harmless; a second
//! REMOVE of the same name, though, finds nothing and tells the client that its file was never
//! there. So the rows marked CACHED are remembered, and a call that comes again gets the reply
//! that it should have got.
//!
//! # Criteria
//!
//! 1. A false hit is worse than a false miss. A miss runs a call twice, which usually ends in a
//!    wrong error; a hit on what is *not* a retransmission skips a call and lies about it.
//! 2. Retransmissions come late and over another connection: a client on TCP waits a minute,
//!    drops the connection, and sends all that is unanswered over a new one, from a new port.
//! 3. A call that still runs must not be run again beside itself; its duplicates are dropped, the
//!    first will answer. This holds however long it runs.
//! 4. Memory is bounded, whatever clients do, and a client that floods pushes out the oldest
//!    replies, never running calls.
//!
//! # How
//!
//! The key is a keyed 128-bit checksum over the transport, the client's *address without the
//! port* (2), the xid, program, version and procedure, the credential without its stamp, the
//! length of the arguments and their first [`CHECKED`] bytes. The credential and the arguments
//! keep two clients behind one address apart, and a client that counts its xids from the start
//! again (1); the checksum's key is random, so that nobody can construct a collision.
//!
//! A call that begins looks its key up. Running: drop it. Answered: send the stored reply. Else
//! it goes in as running; when it has answered, the reply takes its place and the key goes to the
//! end of the shard's queue. Replies leave at the queue's front when they are old, or when the
//! shard holds too many bytes. The age counts from the answer, by the latest time that the shard
//! has heard of: a call that took minutes is kept as long as any other. Running calls are in no
//! queue; there are no more of them than threads.
//!
//! A call that faulted, panicked, or stayed silent is forgotten, and so is a reply of more than
//! [`REPLY_MAX`] bytes.
//!
//! # Locks
//!
//! Each shard is under its own mutex, held for a look-up and no longer: replies are allocated,
//! copied and freed outside. Nothing else is ever locked under it.

use crate::{Call, Credential, Outcome, Transport};
use crossbeam_utils::CachePadded;
use foldhash::fast::FixedState;
use proto::rpc::CallHeader;
use siphasher::sip128::{Hasher128, SipHasher13};
use std::collections::VecDeque;
use std::collections::hash_map::{Entry, HashMap, RandomState};
use std::hash::{BuildHasher, Hash, Hasher};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Bytes of arguments that the key covers: the handles and names of the calls in question.
pub(crate) const CHECKED: usize = 256;
/// The longest reply that is kept, in bytes; those of non-idempotent calls have a few hundred.
pub(crate) const REPLY_MAX: usize = 2048;
/// What an entry costs besides its reply: its places in the map and the queue with the room that
/// both keep free, and the reply's allocation.
const ENTRY_COST: usize = 256;
/// Shards, so that workers seldom meet; a power of two.
const SHARDS: usize = 16;

/// A call's identity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Key {
    shard: u64,
    rest: u64,
}

impl Hash for Key {
    /// Half of the checksum, which is as good as random already.
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.rest);
    }
}

/// A reply that was sent.
#[derive(Debug, Clone)]
pub(crate) struct Stored {
    /// The whole message.
    pub reply: Arc<[u8]>,
    /// What the procedure told the statistics.
    pub outcome: Outcome,
}

/// What is known of a call that begins.
pub(crate) enum Lookup<'c> {
    /// Nothing: run it.
    Fresh(Ticket<'c>),
    /// It is running.
    Running,
    /// It was answered.
    Answered(Stored),
}

/// How full the reply cache is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CacheUse {
    /// Calls remembered, running ones included.
    pub entries: usize,
    /// Bytes of memory.
    pub bytes: usize,
}

#[derive(Debug)]
enum State {
    Running,
    Answered(Stored),
}

#[derive(Debug, Default)]
struct Shard {
    calls: HashMap<Key, State, FixedState>,
    /// The answered calls and when, the oldest in front.
    answered: VecDeque<(Key, u64)>,
    bytes: usize,
    /// The latest time that a look-up came with.
    now_ms: u64,
}

/// The cache.
pub(crate) struct ReplyCache {
    shards: [CachePadded<Mutex<Shard>>; SHARDS],
    shard_bytes: usize,
    age_ms: u64,
    secret: (u64, u64),
}

/// A running call's place; dropping it forgets the call.
pub(crate) struct Ticket<'c> {
    cache: &'c ReplyCache,
    key: Key,
    finished: bool,
}

impl ReplyCache {
    /// A cache of at most `bytes` bytes, that keeps replies for `age_ms` milliseconds.
    pub fn new(bytes: usize, age_ms: u64) -> Self {
        let random = RandomState::new();
        Self {
            shards: std::array::from_fn(|_| CachePadded::default()),
            shard_bytes: bytes / SHARDS,
            age_ms,
            secret: (random.hash_one(0), random.hash_one(1)),
        }
    }

    /// How full the cache is.
    pub fn usage(&self) -> CacheUse {
        let mut usage = CacheUse::default();
        for shard in &self.shards {
            let shard = lock(shard);
            usage.entries = usage.entries.saturating_add(shard.calls.len());
            usage.bytes = usage.bytes.saturating_add(shard.bytes);
        }
        usage
    }

    /// The key of a call with these arguments.
    pub fn key(&self, header: &CallHeader<'_>, call: &Call<'_>, args: &[u8]) -> Key {
        let mut hasher = SipHasher13::new_with_keys(self.secret.0, self.secret.1);
        hasher.write_u8(match call.peer.transport {
            Transport::Tcp => 0,
            Transport::Udp => 1,
        });
        match call.peer.addr.ip() {
            IpAddr::V4(ip) => hasher.write_u128(u128::from(ip.to_ipv6_mapped())),
            IpAddr::V6(ip) => hasher.write_u128(u128::from(ip)),
        }
        for word in [header.xid, header.program, header.version, header.procedure] {
            hasher.write_u32(word);
        }
        hash_credential(&mut hasher, &call.credential);
        hasher.write_usize(args.len());
        hasher.write(args.get(..CHECKED).unwrap_or(args));
        let hash = hasher.finish128();
        Key { shard: hash.h1, rest: hash.h2 }
    }

    /// Looks a call up that came at `now_ms`, and takes it in if it is new.
    pub fn begin(&self, key: Key, now_ms: u64) -> Lookup<'_> {
        let mut removed = Vec::new();
        let mut shard = self.shard(key);
        shard.now_ms = shard.now_ms.max(now_ms);
        shard.expire(self.age_ms, &mut removed);
        let lookup = match shard.calls.entry(key) {
            Entry::Occupied(entry) => match entry.get() {
                State::Running => Lookup::Running,
                State::Answered(stored) => Lookup::Answered(stored.clone()),
            },
            Entry::Vacant(entry) => {
                entry.insert(State::Running);
                shard.bytes = shard.bytes.saturating_add(ENTRY_COST);
                shard.evict(self.shard_bytes, &mut removed);
                Lookup::Fresh(Ticket { cache: self, key, finished: false })
            }
        };
        drop(shard);
        drop(removed);
        lookup
    }

    fn shard(&self, key: Key) -> MutexGuard<'_, Shard> {
        let [first, ..] = &self.shards;
        let index = usize::try_from(key.shard % SHARDS as u64).unwrap_or_default();
        lock(self.shards.get(index).unwrap_or(first))
    }
}

impl Ticket<'_> {
    /// Keeps the reply, unless it is too long.
    pub fn finish(mut self, reply: &[u8], outcome: Outcome) {
        if reply.len() > REPLY_MAX {
            return;
        }
        let stored = Stored { reply: reply.into(), outcome };
        let mut removed = Vec::new();
        let mut shard = self.cache.shard(self.key);
        shard.answer(self.key, stored);
        shard.evict(self.cache.shard_bytes, &mut removed);
        drop(shard);
        self.finished = true;
    }
}

impl Drop for Ticket<'_> {
    fn drop(&mut self) {
        if !self.finished {
            let mut shard = self.cache.shard(self.key);
            if shard.calls.remove(&self.key).is_some() {
                shard.bytes = shard.bytes.saturating_sub(ENTRY_COST);
            }
        }
    }
}

impl Shard {
    /// Puts the reply in a running call's place.
    fn answer(&mut self, key: Key, stored: Stored) {
        self.bytes = self.bytes.saturating_add(stored.reply.len());
        self.calls.insert(key, State::Answered(stored));
        self.answered.push_back((key, self.now_ms));
    }

    /// Takes out what is too old; `removed` is for freeing it without the lock.
    fn expire(&mut self, age_ms: u64, removed: &mut Vec<State>) {
        let now_ms = self.now_ms;
        let old = |at_ms: u64| now_ms.saturating_sub(at_ms) >= age_ms;
        while self.answered.front().is_some_and(|(_, at_ms)| old(*at_ms)) {
            self.remove_oldest(removed);
        }
    }

    /// Takes out what is too much, the oldest first.
    fn evict(&mut self, bytes_max: usize, removed: &mut Vec<State>) {
        while self.bytes > bytes_max && !self.answered.is_empty() {
            self.remove_oldest(removed);
        }
    }

    fn remove_oldest(&mut self, removed: &mut Vec<State>) {
        let Some((key, _)) = self.answered.pop_front() else { return };
        let Some(state) = self.calls.remove(&key) else { return };
        let reply = match &state {
            State::Answered(stored) => stored.reply.len(),
            State::Running => 0,
        };
        self.bytes = self.bytes.saturating_sub(ENTRY_COST.saturating_add(reply));
        removed.push(state);
    }
}

/// A shard is whole after every line that touches it, so that a poisoned one is as good.
fn lock(shard: &Mutex<Shard>) -> MutexGuard<'_, Shard> {
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Who asks, without the stamp, which some clients renew when they send again.
fn hash_credential(hasher: &mut SipHasher13, credential: &Credential<'_>) {
    match credential {
        Credential::None => hasher.write_u8(0),
        Credential::Sys(sys) => {
            hasher.write_u8(1);
            hasher.write_u32(sys.uid);
            hasher.write_u32(sys.gid);
            hasher.write_usize(sys.groups().len());
            for group in sys.groups() {
                hasher.write_u32(*group);
            }
            hasher.write_usize(sys.machinename.len());
            hasher.write(sys.machinename);
        }
    }
}

#[cfg(test)]
mod tests;
