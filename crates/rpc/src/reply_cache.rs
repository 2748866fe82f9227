//! The reply cache: calls that must not run twice, and what was answered.
//!
//! # What it is for
//!
//! A client that gets no reply sends its call again. For most calls that is harmless; a second
//! REMOVE of the same name, though, finds nothing and tells the client that its file was never
//! there. So the replies of calls that are not idempotent ([`crate::Plan::NON_IDEMPOTENT`]) are kept,
//! and a call that comes again gets the reply that it should have got.
//!
//! A WRITE may run twice, but not after a later one: its old data would replace the new. The replies of
//! such calls ([`crate::Plan::REPLAY_UNSAFE`]) are kept over UDP, where a copy of a call may wait in the
//! socket or on another thread until after the next. Over TCP copies come after a minute and over a new
//! connection only, and a lock for each of these calls would cost more.
//!
//! # Criteria
//!
//! 1. A false hit is worse than a false miss. A miss runs a call twice, which usually ends in a
//!    wrong error; a hit on what is *not* a retransmission skips a call and returns a wrong result.
//! 2. Over TCP a retransmission comes late and usually over another connection: a client waits a minute, drops
//!    the connection, and sends all that is unanswered over a new one. Two processes of one host, on the other
//!    hand, may send equal calls with equal xids by connections of their own (clients begin to count at the
//!    clock's second), and each has to be told what its own call did.
//! 3. A call that still runs must not run a second time beside itself, however long it runs. Over UDP its
//!    duplicates are dropped: the first will answer. So are those by the same connection. A copy by another
//!    connection, whose client may hear nothing by the first, waits until the call has ended.
//! 4. Memory is bounded, whatever clients do; a client that floods evicts the oldest replies, never
//!    running calls.
//!
//! # How
//!
//! The key is a keyed 128-bit checksum over the transport, the client's *address without the
//! port* (a client that connects again may have another), the xid, program, version and procedure, the credential without its stamp, the
//! length of the arguments and their first [`CHECKED`] bytes, which are nearly always all. The credential
//! and the arguments keep two clients behind one address apart, and a client that counts its xids from the
//! start again (1); the checksum's key is random, so that nobody can construct a collision. Of longer
//! arguments, as the data of a WRITE and long names, the key covers 64 bits of another seeded checksum, which
//! reads many bytes at a time: a collision there would have to be between two calls of one client that begin
//! alike. The arguments are those that the call's flavour has unwrapped, and what is kept are the results
//! before it wraps them: RPCSEC_GSS sends a retransmission with another sequence number and in another
//! wrapping (RFC 2203 §5.3.3.1).
//!
//! Beside the key it is kept by which connection a call came ([`Origin`]); a call of one key may be there
//! several times, with different origins. A call that begins looks its key up. Nothing: it runs. The same
//! origin, or any for datagrams: it is a copy; if the call runs it is dropped, else the stored results are sent.
//! Another origin: see below. A call that ran and was answered goes to the end of the shard's queue.
//!
//! # Copies by another connection
//!
//! It is a retransmission if the first connection has ended, and a call of its own if the first lives. Which
//! of them is so, the kernel knows better than our own table of connections, in which one may be that ended a
//! moment ago or whose end nobody could tell us of:
//!
//! - The client that connects again from the same port (Linux does, and knfsd relies on it: its key has the
//!   port) can do that only when the first connection is no more: the new SYN makes the kernel ask whether the old
//!   connection is still there, the client says no, and the kernel ends ours before it accepts the new one.
//! - From another port, and the first was closed in order: the FIN or RST came before the new connection's data
//!   or is on its way on the same path; the kernel has ended the first, or half of it, which is as good: a client
//!   that has closed its half does not read what it asked for by other means.
//! - From another port, and the FIN was lost (a cable, a firewall that forgot): to the kernel the first is
//!   established. But a client sends again only what it has got no reply to. So it is waited until the first call
//!   has ended and its reply was sent; the reply is acknowledged by a client that lives, answered with RST
//!   by one that has closed, or not acknowledged at all. Only the first of these is a living connection.
//!   What has not become clear after a while counts as ended ([`crate::CallHost::lives`]).
//!
//! So a false miss needs a client that has acknowledged a reply to the connection that it then gives up without
//! having read it, and the loss of its FIN. A copy that was answered from the cache takes the entry over: it is
//! now by the connection that the answer went to, and the next copy is compared with that; one that was
//! waiting for the same call gets the answer as well.
//!
//! Copies that wait, for a call's end or to learn of a connection, hold a thread each, [`WAITING_MAX`] in all.
//! One more has its connection closed, so that its client sends it again later; it is never left without an
//! answer on a connection that stays open.
//!
//! Answers leave at the queue's front when they are old, or when the shard is full. The age counts from the
//! answer, by the latest time that the shard has been told: a call that took minutes is kept as long as any
//! other. Running calls are in no queue; there are no more of them than threads, and replies that may be pending
//! ([`crate::Deferred`]).
//!
//! A cache that is full takes one answer in and evicts one with each call, and neither is in the processor's
//! caches any more. So answers lie in the order in which they are evicted, in two rings that are
//! allocated when the cache is made: one of what is known of each ([`shard`]), one of the results'
//! bytes ([`byte_ring`]). A ring becomes resident as a whole, so each has its share of the memory, and an
//! answer is evicted when either is full. The index is a table of nothing but numbers in the queue
//! ([`table`]), of which a look-up touches one cache line. What the next call will need, the oldest answer
//! and the space behind the newest, is prefetched when the call before it ends.
//!
//! A call that faulted, panicked, or stayed silent is forgotten, and so are results of more than
//! [`RESULTS_MAX`] bytes.
//!
//! # Locks
//!
//! Each shard is under its own mutex, held for a look-up or for copying results of at most
//! [`RESULTS_MAX`] bytes, and no longer. Nothing else is ever locked under it. A copy that waits
//! waits for the shard's condition variable, which is signalled when the call that it waits for ends. The
//! transport is asked whether a connection lives with no lock held.

mod byte_ring;
mod copies;
mod shard;
mod table;

use crate::back_channel::ConnId;
use crate::{Credential, Outcome, Peer, Transport};
use crossbeam_utils::CachePadded;
use proto::rpc::CallHeader;
use shard::{Running, Shard};
use siphasher::sip128::{Hasher128, SipHasher13};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::net::IpAddr;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Bytes of arguments that are a part of the key's own checksum: all handles, and most names.
const CHECKED: usize = 256;
/// Words of the key's input that describe the credential.
const CREDENTIAL_WORDS: usize = 6;
/// Words of the key's input that every call has: the client's address, the call's numbers, the credential.
const HEAD_WORDS: usize = 4 + 6 + CREDENTIAL_WORDS;
/// The longest results that are kept, in bytes; those of non-idempotent calls have a few hundred.
pub(crate) const RESULTS_MAX: usize = 2048;
/// The most copies that wait: each holds a thread, and a disk that answers nobody must not come to hold
/// twice as many.
pub(crate) const WAITING_MAX: usize = 8;
/// Shards for each CPU, so that workers seldom meet. More would cost more than the meetings: each writes to
/// places of its own in three rings, which neither caches nor page tables keep for many.
const SHARDS_PER_CPU: usize = 2;
/// The most shards.
const SHARDS_MAX: usize = 64;

/// A call's identity. Each half of the checksum is as good as random.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Key {
    /// Chooses the shard.
    shard: u64,
    /// Chooses the place in the shard's table.
    place: u64,
}

/// By which connection a call came: its number, or 0 for a datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Origin(pub u64);

impl Origin {
    /// Of a call that came by this connection.
    pub fn of(conn: Option<ConnId>) -> Self {
        Self(conn.map_or(0, |conn| conn.0))
    }

    const fn conn(self) -> Option<ConnId> {
        if self.0 == 0 { None } else { Some(ConnId(self.0)) }
    }
}

/// A reply that was sent.
#[derive(Debug, Clone)]
pub(crate) struct Stored {
    /// The results, behind `accept_stat`, before the call's flavour wrapped them: a retransmission
    /// may have to be answered with another verifier and in another wrapping (RFC 2203 §5.3.3.1).
    pub results: Box<[u8]>,
    /// What the procedure told the statistics.
    pub outcome: Outcome,
}

/// What is known of a call that begins.
pub(crate) enum Lookup<'c> {
    /// Nothing: run it.
    Fresh(Ticket<'c>),
    /// It is running, and came the same way.
    Running,
    /// It was answered.
    Answered(Stored),
    /// The same call came by another connection.
    OtherConnection(OtherConnection),
}

/// A call that came by another connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OtherConnection {
    pub origin: Origin,
    /// It was not answered yet.
    pub runs: bool,
}

/// How full the reply cache is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ReplyCacheUsage {
    /// Calls remembered, running ones included.
    pub entries: usize,
    /// Bytes of memory.
    pub bytes: usize,
}

/// A shard and its lock.
struct LockedShard {
    shard: Mutex<Shard>,
    /// A call that a duplicate waits for has ended.
    ended: Condvar,
}

/// The cache.
pub(crate) struct ReplyCache {
    first: CachePadded<LockedShard>,
    others: Box<[CachePadded<LockedShard>]>,
    age_ms: u64,
    secret: (u64, u64),
    /// The seeds of what the key covers of long arguments.
    long: foldhash::quality::RandomState,
    /// How many copies wait, or may.
    waiting: AtomicUsize,
}

/// A running call's place; dropping it forgets the call.
pub(crate) struct Ticket<'c> {
    cache: &'c Arc<ReplyCache>,
    key: Key,
    origin: Origin,
    finished: bool,
}

/// The same of a call whose reply is sent later.
pub(crate) struct OwnedTicket {
    cache: Arc<ReplyCache>,
    key: Key,
    origin: Origin,
}

impl ReplyCache {
    /// A cache of at most `bytes` bytes, that keeps replies for `age_ms` milliseconds, for a machine with this many
    /// CPUs.
    pub fn new(bytes: usize, age_ms: u64, cpus: usize) -> Arc<Self> {
        let random = RandomState::new();
        let shards = cpus.saturating_mul(SHARDS_PER_CPU).clamp(1, SHARDS_MAX);
        let shard = || {
            let shard = Mutex::new(Shard::with_capacity(bytes / shards));
            CachePadded::new(LockedShard { shard, ended: Condvar::new() })
        };
        Arc::new(Self {
            first: shard(),
            others: (1..shards).map(|_| shard()).collect(),
            age_ms,
            secret: (random.hash_one(0), random.hash_one(1)),
            long: foldhash::quality::RandomState::default(),
            waiting: AtomicUsize::new(0),
        })
    }

    /// How full the cache is.
    pub fn usage(&self) -> ReplyCacheUsage {
        let mut usage = ReplyCacheUsage::default();
        for locked in self.shards() {
            let shard = locked.lock();
            usage.entries = usage.entries.saturating_add(shard.calls());
            usage.bytes = usage.bytes.saturating_add(shard.bytes());
        }
        usage
    }

    /// The key of a call with these arguments.
    pub fn key(
        &self,
        header: &CallHeader<'_>,
        peer: &Peer,
        credential: &Credential<'_>,
        args: &[u8],
    ) -> Key {
        let mut hasher = SipHasher13::new_with_keys(self.secret.0, self.secret.1);
        // a reply is only for a caller with the same transport security
        let transport = match peer.transport {
            Transport::Tcp => peer.security.number(),
            Transport::Udp => u32::MAX,
        };
        let address = match peer.addr.ip() {
            IpAddr::V4(ip) => ip.to_ipv6_mapped(),
            IpAddr::V6(ip) => ip,
        };
        let len = u32::try_from(args.len()).unwrap_or(u32::MAX);
        let CallHeader { xid, program, version, procedure, .. } = *header;
        let address = address.octets();
        // in one piece, and of whole words of the hash
        let mut head = [0; HEAD_WORDS];
        let (from, rest) = head.split_at_mut(4);
        for (word, bytes) in from.iter_mut().zip(address.as_chunks::<4>().0) {
            *word = u32::from_ne_bytes(*bytes);
        }
        let (call, caller) = rest.split_at_mut(6);
        call.copy_from_slice(&[transport, xid, program, version, procedure, len]);
        caller.copy_from_slice(&credential_words(credential));
        hasher.write(head.map(u32::to_ne_bytes).as_flattened());
        hash_credential(&mut hasher, credential);
        match args.split_at_checked(CHECKED) {
            None => hasher.write(args),
            Some((first, rest)) => {
                hasher.write(first);
                let mut long = self.long.build_hasher();
                long.write(rest);
                hasher.write_u64(long.finish());
            }
        }
        let hash = hasher.finish128();
        Key { shard: hash.h1, place: hash.h2 }
    }

    /// Looks a call up that came at `now_ms`, and takes it in if it is new.
    pub fn begin(self: &Arc<Self>, key: Key, origin: Origin, now_ms: u64) -> Lookup<'_> {
        self.begin_beside(key, origin, &[], now_ms)
    }

    /// The same; those that came by `others` are other calls.
    fn begin_beside(
        self: &Arc<Self>,
        key: Key,
        origin: Origin,
        others: &[Origin],
        now_ms: u64,
    ) -> Lookup<'_> {
        let mut shard = self.locked(key).lock();
        shard.expire(now_ms, self.age_ms);
        if !shard.is_unknown(key) {
            if let Some(stored) = shard.stored(key, origin) {
                return Lookup::Answered(stored);
            }
            if shard.runs(key, origin).is_some() {
                return Lookup::Running;
            }
            let copy = shard.origins(key).find(|(origin, _)| !others.contains(origin));
            if let Some((origin, runs)) = copy {
                return Lookup::OtherConnection(OtherConnection { origin, runs });
            }
        }
        shard.begin(key, origin);
        Lookup::Fresh(Ticket { cache: self, key, origin, finished: false })
    }

    /// Keeps the results of a call that ran; `false` if they are too long.
    fn finish(&self, key: Key, origin: Origin, results: &[u8], outcome: Outcome) -> bool {
        if results.len() > RESULTS_MAX {
            return false;
        }
        let locked = self.locked(key);
        let mut shard = locked.lock();
        let call = shard.end(key, origin);
        shard.answer(key, origin, results, outcome);
        drop(shard);
        locked.ended(call);
        true
    }

    /// Forgets a call that ran.
    fn forget(&self, key: Key, origin: Origin) {
        let locked = self.locked(key);
        let call = locked.lock().end(key, origin);
        locked.ended(call);
    }

    fn shards(&self) -> impl Iterator<Item = &LockedShard> {
        std::iter::once(&self.first).chain(&self.others).map(|locked| &**locked)
    }

    fn locked(&self, key: Key) -> &LockedShard {
        let count = (self.others.len() as u64).saturating_add(1);
        let before = usize::try_from(key.shard % count).ok().and_then(|at| at.checked_sub(1));
        before.and_then(|at| self.others.get(at)).unwrap_or(&self.first)
    }
}

impl LockedShard {
    /// A shard is whole after every line that touches it, so that a poisoned one is as good.
    fn lock(&self) -> MutexGuard<'_, Shard> {
        self.shard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells who waits for a call that ran.
    fn ended(&self, call: Option<Running>) {
        if call.is_some_and(|call| call.awaited) {
            self.ended.notify_all();
        }
    }
}

impl Ticket<'_> {
    /// Keeps the results, unless they are too long.
    pub fn finish(mut self, results: &[u8], outcome: Outcome) {
        self.finished = self.cache.finish(self.key, self.origin, results, outcome);
    }

    /// The same for a call that has not ended when its procedure returns.
    pub fn into_owned(mut self) -> OwnedTicket {
        self.finished = true;
        OwnedTicket { cache: Arc::clone(self.cache), key: self.key, origin: self.origin }
    }
}

impl Drop for Ticket<'_> {
    fn drop(&mut self) {
        if !self.finished {
            self.cache.forget(self.key, self.origin);
        }
    }
}

impl OwnedTicket {
    /// As [`Ticket::finish`].
    pub fn finish(self, results: &[u8], outcome: Outcome) {
        // dropping it then finds nothing to forget
        let _ = self.cache.finish(self.key, self.origin, results, outcome);
    }
}

impl Drop for OwnedTicket {
    fn drop(&mut self) {
        self.cache.forget(self.key, self.origin);
    }
}

/// Who asks, without the stamp, which some clients renew when they send again: the parts of a fixed length, with the
/// lengths of the others.
fn credential_words(credential: &Credential<'_>) -> [u32; CREDENTIAL_WORDS] {
    let count = |len: usize| u32::try_from(len).unwrap_or(u32::MAX);
    match credential {
        Credential::Anonymous => [0; CREDENTIAL_WORDS],
        Credential::Sys(sys) => {
            [1, sys.uid, sys.gid, count(sys.groups().len()), count(sys.machinename.len()), 0]
        }
        Credential::Principal(principal) => {
            [2, principal.flavor, count(principal.name.len()), 0, 0, 0]
        }
    }
}

/// The rest of who asks.
fn hash_credential(hasher: &mut SipHasher13, credential: &Credential<'_>) {
    match credential {
        Credential::Anonymous => {}
        Credential::Principal(principal) => hasher.write(&principal.name),
        Credential::Sys(sys) => {
            for group in sys.groups() {
                hasher.write_u32(*group);
            }
            hasher.write(sys.machinename);
        }
    }
}

#[cfg(test)]
mod tests;
