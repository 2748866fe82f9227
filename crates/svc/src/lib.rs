//! Sockets, connections and the threads that serve them.
//!
//! A **pool** owns an epoll instance and its share of the connections. One worker of it, the leader,
//! waits for events and runs calls to completion; before a call that may block it promotes a follower
//! and answers its own call alone (`pool/worker_pool.rs`). Datagram sockets are watched by all pools.
//! One acceptor assigns new connections to pools; one watchdog replaces leaders that are stuck in a
//! call that blocked without announcing it.
//!
//! Under `wake-policy=unlimited|cap:N|chain` the leader does not run calls: it queues connections
//! that are ready, and worker threads take them, as in the kernel's server (`pool/scheduler.rs`).
//!
//! # Folders
//!
//! Each folder may use itself and those above it in this list, and the files beside `lib.rs`:
//!
//! - `conn`: one TCP connection: its socket, what it receives and sends, and the table of all of them.
//! - `udp`: the datagram sockets: which there are, and how one set of them becomes another.
//! - `pool`: a pool, its event loop, and which of its threads does what.
//! - `handshake`: TLS handshakes, on threads of their own.
//! - `service`: one service round: receive, answer the calls, send.
//! - `worker`: a worker thread.
//! - `outbound`: calls that the server makes to its clients' machines; uses none of the others.
//! - `server`: starting, stopping and changing all of it; the acceptor and the watchdog.
//!
//! Locks, each held for a few instructions or one non-blocking system call, never two at a time
//! except as named: a pool's scheduler, its inbox; the slot of a connection's receiving half, its
//! transmit lock (under it: epoll_ctl and a send); the connection table. The pool settings are locked
//! for a whole change, in which threads are started (`server/pool_layout.rs`).

mod addresses;
mod budget;
mod clock;
mod conn;
mod epoll_tokens;
mod errors;
mod handshake;
mod kernel_tls;
mod limits;
mod outbound;
mod pipes;
mod pool;
mod server;
mod service;
mod setting_values;
mod settings;
mod socket_info;
mod sync;
mod udp;
mod worker;
mod zero_copy;

pub use conn::clients::ClientTotals;
pub use conn::congestion::Congestion;
pub use conn::info::{
    BlockedCallInfo, ClientInfo, ConnActivity, ConnCertificate, ConnInfo, ConnTls,
};
pub use conn::link::{Limit, LinkInfo, LinkSamples};
pub use conn::table::ConnUsage;
pub use conn::tcp_buffers::{Applied, BufferInfo, BufferReduction, BufferRules, BufferTotals};
pub use errors::{SettingError, StartError};
pub use kernel_tls::{KernelTlsChoice, KernelTlsState, kernel_tls_of_this_machine};
pub use limits::Limits;
pub use outbound::{
    OutboundCalls, OutboundConfig, OutboundCounters, OutboundInfo, OutboundLimits, UnansweringHost,
};
pub use pool::blocked_calls::{BlockedExport, SleepingCall};
pub use pool::info::{Delay, Leader, PoolInfo};
pub use server::config::{Config, EXPORT_SHARE_DEFAULT, TlsConfig};
pub use server::lifecycle::Server;
pub use setting_values::{ExportShare, MEMORY_MIN_BYTES, MemoryLimit, ThreadRange, UdpBufferSize};
pub use settings::{PoolMode, UdpSockets, WakePolicy};
pub use socket_info::{SocketInfo, SocketKind};
pub use sys::inherited::InheritedSockets;
pub use zero_copy::ZeroCopy;
