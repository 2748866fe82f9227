//! The list of plain counters; one row names, orders and documents each.

macro_rules! counters {
    ($($(#[doc = $doc:literal])* $variant:ident = $name:literal,)*) => {
        /// A plain counter; each worker has its own copy.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[repr(usize)]
        pub enum Counter {
            $($(#[doc = $doc])* $variant,)*
        }

        impl Counter {
            /// All of them, in order.
            pub const ALL: &'static [(Self, &'static str)] = &[$((Self::$variant, $name),)*];

            /// Of all of them, in order, the name and what it counts, for people.
            pub const ABOUT: &'static [(&'static str, &'static str)] =
                &[$(($name, concat!($($doc),*)),)*];
        }
    };
}

counters! {
    /// Connections accepted.
    Connections = "connections",
    /// Connections closed, by either side.
    ConnectionsClosed = "connections-closed",
    /// Connections refused because a limit was reached.
    ConnectionsRefused = "connections-refused",
    /// Silent connections of clients with very many that were closed to make room for other clients.
    ConnectionsDisplaced = "connections-displaced",
    /// TLS handshakes that succeeded.
    TlsHandshakes = "tls-handshakes",
    /// TLS handshakes after which the kernel took the records over; they are among those that succeeded.
    TlsInKernel = "tls-in-kernel",
    /// TLS handshakes that failed, for any reason; the connection was closed.
    TlsFailed = "tls-failed",
    /// TLS handshakes that were not over in time; they are among those that failed.
    TlsTimedOut = "tls-timed-out",
    /// TLS handshakes that made room for others', as there were too many at once.
    TlsDisplaced = "tls-displaced",
    /// Times that descriptors or memory were short when connections were to be accepted; they wait.
    AcceptShortages = "accept-shortages",
    /// Records over the limit; the connection was closed.
    RecordsTooLarge = "records-too-large",
    /// Records that are no RPC calls or were cut wrongly; the connection was closed.
    RecordsMalformed = "records-malformed",
    /// Connections closed because partial records or unread replies exceeded the server's budget.
    BudgetClosed = "budget-closed",
    /// Connections closed because the process could get no memory for a record, as its limit of address space
    /// is reached.
    MemoryClosed = "memory-closed",
    /// Connections closed because a record made no progress.
    RecordsTimedOut = "records-timed-out",
    /// Connections closed because replies waited and their client took none for too long.
    RepliesTimedOut = "replies-timed-out",
    /// Calls refused by RPC: version, program, procedure, credential, arguments.
    CallsRejected = "calls-rejected",
    /// Procedures that panicked; the call was answered SYSTEM_ERR.
    ProcedurePanics = "procedure-panics",
    /// Datagrams received.
    Datagrams = "datagrams",
    /// Datagrams dropped: truncated, beyond what may wait for a worker, or replies that cannot be sent.
    DatagramsDropped = "datagrams-dropped",
    /// Replies to datagrams that waited for another worker's to leave by the same socket.
    UdpSendsWaited = "udp-sends-waited",
    /// Times that a datagram socket was full when replies were to be sent.
    UdpSendsFull = "udp-sends-full",
    /// Retransmissions that met the first call still running, and did not wait for it.
    DuplicatesDropped = "duplicates-dropped",
    /// Retransmissions answered from the reply cache.
    DuplicatesReplayed = "duplicates-replayed",
    /// Leaders that promoted a follower before a call that may block.
    Promotions = "promotions",
    /// Promotions that found no follower and could start none.
    PromotionsFailed = "promotions-failed",
    /// Leaders that the watchdog found blocked in a call that had not announced it.
    WatchdogRescues = "watchdog-rescues",
    /// Threads woken.
    Wakeups = "wakeups",
    /// Worker threads started.
    ThreadsStarted = "threads-started",
    /// Worker threads that could not be started: the limits on processes, or memory.
    ThreadsNotStarted = "threads-not-started",
    /// Worker threads ended.
    ThreadsExited = "threads-exited",
    /// Receive system calls.
    ReceiveCalls = "receive-calls",
    /// Send system calls.
    SendCalls = "send-calls",
    /// Payload bytes that the kernel copied from or to user space; zeros in place of what was cut off
    /// are among them.
    BytesCopied = "bytes-copied",
    /// Payload bytes that went from the page cache to the socket inside the kernel, once they have.
    BytesNotCopied = "bytes-not-copied",
    /// READs whose data was copied because it was shorter than what is worth sending as a range.
    CopiedShort = "copied-short",
    /// READs whose data was copied because it was not in memory.
    CopiedCold = "copied-cold",
    /// READs whose data was copied because their backend has no file that can be sent.
    CopiedNoFile = "copied-no-file",
    /// READs whose data was copied because `zero-copy` is off, or the transport sends no
    /// ranges.
    CopiedNotTaken = "copied-not-taken",
    /// Pieces that were copied because the kernel refuses to send that file's pages.
    CopiedRefused = "copied-refused",
    /// Replies in datagrams whose data was copied because it begins at an odd offset of its file.
    CopiedOdd = "copied-odd",
    /// Sends of zeros in place of what was cut off a file after its length was promised.
    RangesPadded = "ranges-padded",
    /// Replies that were half sent when their file had to be brought back into memory.
    RangesFetched = "ranges-fetched",
    /// READs whose data was copied because TLS in this process seals their connection: into the reply, then they are among
    /// those of `copied-not-taken`, or piece by piece when it is sent.
    CopiedSealed = "copied-sealed",
    /// Service rounds of connections that ended before all received calls were answered, so that
    /// other connections were served.
    TurnsCut = "turns-cut",
    /// Pieces of large WRITEs that were written before their record was whole.
    PiecesAhead = "pieces-ahead",
    /// Bytes of large WRITEs that went from the socket to their files through a pipe, without being
    /// copied to the server in between.
    BytesPiped = "bytes-piped",
    /// Socket buffers that a sysctl made smaller than what was asked for.
    TcpBuffersClamped = "tcp-buffers-clamped",
    /// Socket buffers that the budget of the machine's TCP memory made smaller, or refused.
    TcpBuffersCut = "tcp-buffers-cut",
    /// Sends that found the socket full and left bytes in the queue.
    RepliesQueued = "replies-queued",
}
