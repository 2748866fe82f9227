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
//! 3. A call that still runs must not be run again beside itself, however long it runs. Over UDP its
//!    duplicates are dropped, the first will answer. Over TCP the first may answer over a connection
//!    that is no more, and its client would wait for another minute: a duplicate waits until it has ended, and
//!    gets its reply.
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
//! A call that begins looks its key up. Running: drop it, or [claim](ReplyCache::claim) its end and
//! [wait](Claim::wait) for it, which one thread may do for each running call, and [`WAITING_MAX`] in all.
//! Answered: send the stored reply. Else
//! it goes in as running; when it has answered, its place says where its answer is in the shard's
//! queue. Answers leave at the queue's front when they are old, or when the shard holds too much. The
//! age counts from the answer, by the latest time that the shard has heard of: a call that
//! took minutes is kept as long as any other. Running calls are in no queue; there are no more of them
//! than threads.
//!
//! A cache that is full takes one answer in and lets one go with each call, both of which the
//! processor's caches have long forgotten. So answers lie in the order in which they go, in two rings
//! that were allocated when the cache was made: one of what is known of each, one of the replies'
//! bytes. A ring becomes resident as a whole, so each has half of the memory, and an answer goes when
//! either is full. What a look-up goes through, the places, are a few words each.
//!
//! A call that faulted, panicked, or stayed silent is forgotten, and so is a reply of more than
//! [`REPLY_MAX`] bytes.
//!
//! # Locks
//!
//! Each shard is under its own mutex, held for a look-up or for copying one reply of at most
//! [`REPLY_MAX`] bytes, and no longer. Nothing else is ever locked under it. Who waits for the end of a call
//! waits for the shard's condition, which is signalled after a call that somebody has claimed.

use crate::{Call, Credential, Outcome, Transport};
use crossbeam_utils::CachePadded;
use foldhash::fast::FixedState;
use proto::rpc::CallHeader;
use siphasher::sip128::{Hasher128, SipHasher13};
use std::collections::VecDeque;
use std::collections::hash_map::{Entry, HashMap, RandomState};
use std::hash::{BuildHasher, Hash, Hasher};
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Bytes of arguments that the key covers: the handles and names of the calls in question.
pub(crate) const CHECKED: usize = 256;
/// The longest reply that is kept, in bytes; those of non-idempotent calls have a few hundred.
pub(crate) const REPLY_MAX: usize = 2048;
/// Duplicates that wait for running calls at the most: each holds a thread, and a disk that answers nobody must
/// not come to hold twice as many.
pub(crate) const WAITING_MAX: usize = 8;
/// What an entry costs besides its reply's bytes: its place, with the room that the map keeps free, and
/// what is known of its answer.
const ENTRY_COST: usize = 160;
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
    pub reply: Box<[u8]>,
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

/// Where a call is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// `awaited`: a duplicate wants to know when it ends.
    Running { awaited: bool },
    /// Answered, as the so manyth of its shard since the start.
    Answered(u64),
}

/// An answered call.
#[derive(Debug)]
struct Answer {
    key: Key,
    at_ms: u64,
    outcome: Outcome,
    /// Where its reply is among the bytes of all replies since the start.
    start: u64,
    len: usize,
}

#[derive(Debug)]
struct Shard {
    calls: HashMap<Key, Place, FixedState>,
    /// The answered calls, the oldest in front.
    answers: VecDeque<Answer>,
    /// Answered calls that are gone.
    answers_gone: u64,
    /// The replies of `answers`, one behind the other.
    replies: VecDeque<u8>,
    /// Bytes of replies that are gone.
    replies_gone: u64,
    /// Bytes of replies at the most.
    replies_max: usize,
    /// Calls at the most, but for those that run.
    calls_max: usize,
    /// The latest time that a look-up came with.
    now_ms: u64,
}

/// A shard and its lock.
struct Guarded {
    shard: Mutex<Shard>,
    /// A call that somebody has claimed has ended.
    ended: Condvar,
}

/// The cache.
pub(crate) struct ReplyCache {
    shards: [CachePadded<Guarded>; SHARDS],
    age_ms: u64,
    secret: (u64, u64),
    /// How many ends are claimed.
    waiting: AtomicUsize,
}

/// A running call's place; dropping it forgets the call.
pub(crate) struct Ticket<'c> {
    cache: &'c ReplyCache,
    key: Key,
    finished: bool,
}

/// A duplicate's right to wait for the call that runs.
pub(crate) struct Claim<'c> {
    cache: &'c ReplyCache,
    key: Key,
}

impl ReplyCache {
    /// A cache of at most `bytes` bytes, that keeps replies for `age_ms` milliseconds.
    pub fn new(bytes: usize, age_ms: u64) -> Self {
        let random = RandomState::new();
        Self {
            shards: std::array::from_fn(|_| {
                let shard = Mutex::new(Shard::with_room(bytes / SHARDS));
                CachePadded::new(Guarded { shard, ended: Condvar::new() })
            }),
            age_ms,
            secret: (random.hash_one(0), random.hash_one(1)),
            waiting: AtomicUsize::new(0),
        }
    }

    /// How full the cache is.
    pub fn usage(&self) -> CacheUse {
        let mut usage = CacheUse::default();
        for guarded in &self.shards {
            let shard = guarded.lock();
            usage.entries = usage.entries.saturating_add(shard.calls.len());
            usage.bytes = usage.bytes.saturating_add(shard.bytes());
        }
        usage
    }

    /// The key of a call with these arguments.
    pub fn key(&self, header: &CallHeader<'_>, call: &Call<'_>, args: &[u8]) -> Key {
        let mut hasher = SipHasher13::new_with_keys(self.secret.0, self.secret.1);
        let transport = match call.peer.transport {
            Transport::Tcp => 0,
            Transport::Udp => 1,
        };
        let address = match call.peer.addr.ip() {
            IpAddr::V4(ip) => ip.to_ipv6_mapped(),
            IpAddr::V6(ip) => ip,
        };
        hasher.write(&address.octets());
        let len = u32::try_from(args.len()).unwrap_or(u32::MAX);
        let CallHeader { xid, program, version, procedure, .. } = *header;
        write_words(&mut hasher, [transport, xid, program, version, procedure, len]);
        hash_credential(&mut hasher, &call.credential);
        hasher.write(args.get(..CHECKED).unwrap_or(args));
        let hash = hasher.finish128();
        Key { shard: hash.h1, rest: hash.h2 }
    }

    /// Looks a call up that came at `now_ms`, and takes it in if it is new.
    pub fn begin(&self, key: Key, now_ms: u64) -> Lookup<'_> {
        let mut shard = self.guarded(key).lock();
        shard.now_ms = shard.now_ms.max(now_ms);
        shard.expire(self.age_ms);
        let place = match shard.calls.entry(key) {
            Entry::Occupied(entry) => Some(*entry.get()),
            Entry::Vacant(entry) => {
                entry.insert(Place::Running { awaited: false });
                None
            }
        };
        match place {
            None => {
                shard.evict();
                Lookup::Fresh(Ticket { cache: self, key, finished: false })
            }
            Some(Place::Running { .. }) => Lookup::Running,
            // one that is not in the queue is in no place either: invariant of `remove_oldest`
            Some(Place::Answered(number)) => {
                shard.stored(number).map_or(Lookup::Running, Lookup::Answered)
            }
        }
    }

    /// The right to wait for the end of a running call, unless somebody has it already, or too many wait.
    pub fn claim(&self, key: Key) -> Option<Claim<'_>> {
        let claim = Claim { cache: self, key };
        // given back when the claim is dropped
        let before = self.waiting.fetch_add(1, Relaxed);
        let free = match self.guarded(key).lock().calls.get_mut(&key) {
            Some(Place::Running { awaited }) if before < WAITING_MAX => {
                !std::mem::replace(awaited, true)
            }
            Some(Place::Running { .. }) => false,
            // it has just ended
            Some(Place::Answered(_)) | None => true,
        };
        free.then_some(claim)
    }

    fn guarded(&self, key: Key) -> &Guarded {
        let [first, ..] = &self.shards;
        let index = usize::try_from(key.shard % SHARDS as u64).unwrap_or_default();
        self.shards.get(index).unwrap_or(first)
    }
}

impl Claim<'_> {
    /// Waits until the call has ended.
    pub fn wait(self) {
        let guarded = self.cache.guarded(self.key);
        let mut shard = guarded.lock();
        while shard.calls.get(&self.key) == Some(&Place::Running { awaited: true }) {
            shard = guarded.ended.wait(shard).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        self.cache.waiting.fetch_sub(1, Relaxed);
    }
}

impl Guarded {
    /// A shard is whole after every line that touches it, so that a poisoned one is as good.
    fn lock(&self) -> MutexGuard<'_, Shard> {
        self.shard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells who waits for a call that was in this place.
    fn ended(&self, place: Option<Place>) {
        if place == Some(Place::Running { awaited: true }) {
            self.ended.notify_all();
        }
    }
}

impl Ticket<'_> {
    /// Keeps the reply, unless it is too long.
    pub fn finish(mut self, reply: &[u8], outcome: Outcome) {
        if reply.len() > REPLY_MAX {
            return;
        }
        let guarded = self.cache.guarded(self.key);
        let mut shard = guarded.lock();
        let place = shard.answer(self.key, reply, outcome);
        shard.evict();
        drop(shard);
        guarded.ended(place);
        self.finished = true;
    }
}

impl Drop for Ticket<'_> {
    fn drop(&mut self) {
        if !self.finished {
            let guarded = self.cache.guarded(self.key);
            let place = guarded.lock().calls.remove(&self.key);
            guarded.ended(place);
        }
    }
}

impl Shard {
    /// One of so many bytes.
    fn with_room(bytes: usize) -> Self {
        let replies_max = bytes / 2;
        let calls_max = bytes / 2 / ENTRY_COST;
        Self {
            calls: HashMap::default(),
            answers: VecDeque::with_capacity(calls_max.saturating_add(1)),
            answers_gone: 0,
            replies: VecDeque::with_capacity(replies_max.saturating_add(REPLY_MAX)),
            replies_gone: 0,
            replies_max,
            calls_max,
            now_ms: 0,
        }
    }

    /// What all of it costs.
    fn bytes(&self) -> usize {
        self.calls.len().saturating_mul(ENTRY_COST).saturating_add(self.replies.len())
    }

    /// Puts the reply behind those before it, and the call there; gives where it was.
    fn answer(&mut self, key: Key, reply: &[u8], outcome: Outcome) -> Option<Place> {
        let start = self.replies_gone.saturating_add(self.replies.len() as u64);
        let number = self.answers_gone.saturating_add(self.answers.len() as u64);
        self.replies.extend(reply);
        let answer = Answer { key, at_ms: self.now_ms, outcome, start, len: reply.len() };
        self.answers.push_back(answer);
        self.calls.insert(key, Place::Answered(number))
    }

    /// An answer that has not gone.
    fn stored(&self, number: u64) -> Option<Stored> {
        let at = usize::try_from(number.checked_sub(self.answers_gone)?).ok()?;
        let answer = self.answers.get(at)?;
        let start = usize::try_from(answer.start.checked_sub(self.replies_gone)?).ok()?;
        let reply = self.replies.iter().skip(start).take(answer.len).copied().collect();
        Some(Stored { reply, outcome: answer.outcome })
    }

    /// Takes out what is too old.
    fn expire(&mut self, age_ms: u64) {
        let now_ms = self.now_ms;
        let old = |at_ms: u64| now_ms.saturating_sub(at_ms) >= age_ms;
        while self.answers.front().is_some_and(|answer| old(answer.at_ms)) {
            self.remove_oldest();
        }
    }

    /// Takes out what is too much, the oldest first.
    fn evict(&mut self) {
        let full = |shard: &Self| {
            shard.replies.len() > shard.replies_max || shard.calls.len() > shard.calls_max
        };
        while full(self) && !self.answers.is_empty() {
            self.remove_oldest();
        }
    }

    fn remove_oldest(&mut self) {
        let Some(answer) = self.answers.pop_front() else { return };
        self.answers_gone = self.answers_gone.saturating_add(1);
        self.calls.remove(&answer.key);
        self.replies.drain(..answer.len.min(self.replies.len()));
        self.replies_gone = self.replies_gone.saturating_add(answer.len as u64);
    }
}

/// Who asks, without the stamp, which some clients renew when they send again.
fn hash_credential(hasher: &mut SipHasher13, credential: &Credential<'_>) {
    match credential {
        Credential::None => hasher.write_u8(0),
        Credential::Sys(sys) => {
            let groups = sys.groups();
            let count = |len: usize| u32::try_from(len).unwrap_or(u32::MAX);
            let counts = [count(groups.len()), count(sys.machinename.len())];
            write_words(hasher, [1, sys.uid, sys.gid, counts[0], counts[1]]);
            for group in groups {
                hasher.write_u32(*group);
            }
            hasher.write(sys.machinename);
        }
    }
}

/// Hashes words in one piece.
fn write_words<const N: usize>(hasher: &mut SipHasher13, words: [u32; N]) {
    hasher.write(words.map(u32::to_be_bytes).as_flattened());
}

#[cfg(test)]
mod tests;
