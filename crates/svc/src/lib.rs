//! Sockets, connections and the threads that serve them.
//!
//! A **pool** (as many as the load needs by default, `spread.rs`) owns an epoll and its share of the
//! connections. One worker of it, the leader, waits and runs calls to completion; before a call that
//! may sleep it hands the pool's core to a follower and answers its own call alone (`pool.rs` tells
//! how). Datagram sockets are watched by all pools. One acceptor hands new connections out evenly; one
//! watchdog looks after calls that sleep without having said so.
//!
//! Under `wake-policy=unlimited|cap:N|chain` the leader does not run calls: it queues connections
//! that are ready, and worker threads take them, as in the kernel's server (`handover.rs`).
//!
//! Locks, each held for a few instructions or one non-blocking system call, never two at a time
//! except as named: a pool's hand-over, its inbox; a connection's home, its transmit lock (under
//! it: epoll_ctl and a send); the register of connections. What is set of the pools is locked for a
//! whole change, in which threads are started (`grouping.rs`).

mod acceptor;
mod buffers;
mod clients;
mod config;
mod congestion;
mod conn;
mod core;
mod gauge;
mod grouping;
mod handover;
mod home;
mod limits;
mod pieces;
mod pool;
mod register;
mod roster;
mod server;
mod shortage;
mod spread;
mod stats;
mod stream;
mod sync;
mod transmit;
mod udp;
mod unread;
mod urgent;
mod watchdog;
mod worker;
mod zero_copy;

pub use buffers::{Applied, BufferInfo, BufferRules, BufferTotals, Cut};
pub use clients::Carried;
pub use config::{Adopted, Config, PoolMode, SettingError, UdpSockets, WakePolicy};
pub use congestion::Congestion;
pub use gauge::{Limit, LinkInfo};
pub use limits::Limits;
pub use server::{Server, StartError};
pub use stats::{ClientInfo, ConnInfo, Delay, Leader, PoolInfo, SocketInfo, SocketKind};
pub use zero_copy::ZeroCopy;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks; what a thread that panicked left under a lock of ours is whole at every step.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
