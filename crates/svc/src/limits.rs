//! Everything that a peer can make grow, and where that ends.

use std::time::Duration;

/// Bytes that a worker receives at once from a connection. A smaller record is never copied together
/// if it has arrived whole; data of a larger WRITE is taken as it comes. 128 KiB made a WRITE of 1 MiB dearer (0.71 of
/// the bound instead of 0.75 to 0.89, docs/bench); only what is used of it is resident.
pub(crate) const RECEIVE_BYTES: usize = 256 << 10;
/// A record under way of which more than this is missing is received straight into its place.
pub(crate) const DIRECT_BYTES_MIN: usize = 32 << 10;
/// Bytes of replies that are sealed together before they are sent: eight records, which fit the processor's caches.
pub(crate) const SEALED_AT_ONCE: usize = 128 << 10;
/// Data of a large record is taken when this much of it is there: less is not worth the checks
/// that each piece takes.
pub(crate) const AHEAD_BYTES_MIN: usize = 64 << 10;
/// What is received of a record of a client that sends large ones, before data goes through a pipe.
pub(crate) const LARGE_BEGIN_BYTES: usize = 16 << 10;
/// Data goes through a pipe when this much of it has arrived.
pub(crate) const PIPED_BYTES_MIN: usize = 64 << 10;
/// Capacity of a worker's pipe: what any user may have. It is made for the first large WRITE; its places are
/// 10 KiB of the kernel's memory, its pages those of the socket.
pub(crate) const PIPE_BYTES: usize = 1 << 20;
/// The most pipes: each is two descriptors, and one is in use for the length of a piece.
pub(crate) const PIPES_MAX: usize = 64;
/// What is kept of a record whose data is taken as it comes, and is copied before what comes next: header and
/// arguments of a WRITE and less than a page of data.
pub(crate) const FRONT_BYTES_MAX: usize = 8 << 10;
/// Bytes received straight into their place before other connections are served.
pub(crate) const DIRECT_BYTES_PER_ROUND: usize = 1 << 20;
/// How long a service round of a connection lasts, in nanoseconds, when it has sent more calls than are answered in
/// that time; the rest waits until the others that are ready were served. A batch of 64 cached calls fits; long
/// enough that a longer batch loses little by being divided.
pub(crate) const ROUND_NS_MAX: u64 = 50_000;
/// A reply that is longer than this is sent from where it was written instead of being copied
/// behind the replies before it: 16 KiB cost less than a microsecond, a send a few.
pub(crate) const REPLY_COPY_MAX: usize = 16 << 10;
/// Replies of one batch that are sent before the batch is through.
pub(crate) const BATCH_BYTES: usize = 256 << 10;
/// Memory that a worker keeps in each of its buffers for replies and for large records from call
/// to call, at most: a READ or WRITE of 1 MiB with its headers.
pub(crate) const KEEP_BYTES_MAX: usize = (1 << 20) + (64 << 10);
/// The least memory that it keeps, however little memory the server may have.
const KEEP_BYTES_MIN: usize = 64 << 10;
/// Memory for calls that wait because as many as may block in their export already.
pub(crate) const POSTPONED_BYTES_MAX: usize = 8 << 20;
/// What such a call costs besides its bytes.
pub(crate) const POSTPONED_COST: usize = 256;
/// What a queued datagram costs besides its bytes: its entry in the queue.
pub(crate) const DATAGRAM_COST: usize = 256;
/// The least memory for queued datagrams, however little the server may have: some of the longest.
const DATAGRAM_BYTES_MIN: usize = 1 << 20;
/// Bytes of messages that are not complete, of all handshakes together: each handshake may keep 64 KiB.
pub(crate) const HANDSHAKE_BYTES_MAX: usize = 32 << 20;
/// Ready events fetched at once.
pub(crate) const EVENTS_PER_WAIT: usize = 64;
/// Clients without an open connection of which is remembered what they did.
pub(crate) const CLIENTS_REMEMBERED: usize = 4096;
/// How long a worker beyond the fewest stays without work.
pub(crate) const IDLE_THREAD_AGE: Duration = Duration::from_secs(5);
/// How long a worker waits for room in a datagram socket before it drops the reply.
pub(crate) const DATAGRAM_PATIENCE: Duration = Duration::from_secs(1);

/// Replies to datagrams that may be pending after their calls have returned ([`rpc::Deferred`]), about
/// 300 bytes each.
pub(crate) const DEFERRED_DATAGRAMS_MAX: usize = 16_384;

/// Unsent bytes of a connection beyond which nothing but replies is added to them.
pub(crate) const POSTED_BYTES_MAX: usize = 256 << 10;

/// TLS handshakes at once. One that is half done holds some kilobytes.
pub(crate) const HANDSHAKES_MAX: usize = 4096;
/// Of one client, as for [`Limits::connections_per_client_max`].
pub(crate) const HANDSHAKES_PER_CLIENT_MAX: usize = 256;

/// What the server takes from its peers at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of one record: 4 MiB of data and its headers.
    pub record_bytes_max: usize,
    /// Open connections; never more than the descriptors allow.
    pub connections_max: usize,
    /// Open connections from one client, which is an IPv4 address or 64 bits of IPv6: a client opens a few, a NAT
    /// gateway many.
    pub connections_per_client_max: usize,
    /// Calls of one connection that block or are answered later at the same time; beyond it the
    /// connection is not read.
    /// One mount of the Linux client sends up to 64 at once by default.
    pub in_flight_max: u32,
    /// Memory for records under way on all connections together.
    pub partial_bytes_max: usize,
    /// Memory for replies that clients have not taken, on all connections together.
    pub queued_bytes_max: usize,
    /// Memory for datagrams that were received and wait for a worker; what comes beyond it is
    /// dropped, and its client sends it again.
    pub datagram_bytes_max: usize,
    /// Memory that a worker keeps in each of its buffers from call to call.
    pub keep_bytes_max: usize,
    /// How long a record under way may make no progress.
    pub partial_age_max: Duration,
    /// How long a client may take none of the replies that wait for it. A client that was
    /// suspended for this long connects again.
    pub reply_age_max: Duration,
    /// How long a connection may be silent; `None` is for ever, as clients keep idle mounts.
    pub idle_age_max: Option<Duration>,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            record_bytes_max: (4 << 20) + (64 << 10),
            connections_max: 65_536,
            connections_per_client_max: 16_384,
            in_flight_max: 128,
            partial_bytes_max: 256 << 20,
            queued_bytes_max: 256 << 20,
            datagram_bytes_max: 16 << 20,
            keep_bytes_max: KEEP_BYTES_MAX,
            partial_age_max: Duration::from_secs(60),
            reply_age_max: Duration::from_secs(300),
            idle_age_max: None,
        }
    }
}

impl Limits {
    /// These limits with `bytes` of memory for what is under way: half for records, half for
    /// replies. Besides, 1/32 of it is for datagrams, and a worker keeps 1/256 of it in a buffer.
    #[must_use]
    pub fn with_memory(self, bytes: usize) -> Self {
        Self {
            partial_bytes_max: bytes / 2,
            queued_bytes_max: bytes / 2,
            datagram_bytes_max: (bytes / 32).max(DATAGRAM_BYTES_MIN),
            keep_bytes_max: (bytes / 256).clamp(KEEP_BYTES_MIN, KEEP_BYTES_MAX),
            ..self
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Limits;

    #[test]
    fn memory_is_divided_among_the_limits() {
        let ample = Limits::default().with_memory(512 << 20);
        assert_eq!(ample, Limits::default());
        let small = Limits::default().with_memory(32 << 20);
        assert_eq!((small.partial_bytes_max, small.queued_bytes_max), (16 << 20, 16 << 20));
        assert_eq!((small.datagram_bytes_max, small.keep_bytes_max), (1 << 20, 128 << 10));
        assert_eq!(small.record_bytes_max, ample.record_bytes_max);
    }
}
