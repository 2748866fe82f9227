//! What all pools of a server and their workers share.

use crate::budget::Budget;
use crate::clock::Clock;
use crate::conn::connection::Rx;
use crate::conn::table::ConnTable;
use crate::limits::Limits;
use crate::pipes::Pipes;
use crate::pool::blocked_calls::BlockedCalls;
use crate::pool::postponed::ResumedCalls;
use crate::pool::thread_shortage::ThreadShortage;
use crate::pool::watchdog_waker::WatchdogWaker;
use crate::pool::worker_pool::Pool;
use crate::udp::received::ReceivedDatagram;
use crate::udp::sockets::DatagramSockets;
use crate::zero_copy::ZeroCopySetting;
use crossbeam_utils::CachePadded;
use rpc::Dispatcher;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, Weak};
use telemetry::{Telemetry, WorkerStats};

/// The pools that take what a pool cannot keep that is drained or has retired.
pub(crate) trait OtherPools: ResumedCalls {
    /// Gives a connection to one of them.
    fn assign(&self, rx: Box<Rx>);
    /// Gives datagrams to one of them.
    fn answer(&self, datagrams: Vec<ReceivedDatagram>);
}

/// Where connections are while they make a TLS handshake, which no worker does.
pub(crate) trait Handshakes: Send + Sync {
    /// Takes a connection of a pool, which gets it back when the handshake is over.
    fn begin(&self, rx: Box<Rx>, pool: &Arc<Pool>);
}

/// What all pools of a server share.
pub(crate) struct Shared {
    pub dispatcher: Arc<Dispatcher>,
    pub telemetry: Arc<Telemetry>,
    pub limits: Limits,
    pub clock: Clock,
    pub watchdog: WatchdogWaker,
    pub datagram_sockets: Arc<DatagramSockets>,
    pub conns: ConnTable,
    /// The calls that block in each export.
    pub blocked: Arc<BlockedCalls>,
    pub other_pools: Arc<dyn OtherPools>,
    /// `None`: there is no certificate, and no flavour offers TLS.
    pub handshakes: Option<Arc<dyn Handshakes>>,
    /// Memory for records under way.
    pub partial: Budget,
    /// Memory for replies that clients have not taken.
    pub queued: Arc<Budget>,
    /// Memory for datagrams that wait for a worker; written for each of them, so it has a cache line.
    pub datagrams: CachePadded<Budget>,
    /// Statistics of the threads that send deferred replies.
    pub deferred_stats: Mutex<WorkerStats>,
    /// Deferred calls that came as datagrams and are not answered yet.
    pub deferred_datagrams: AtomicUsize,
    /// Bytes that a worker keeps in each of its buffers from call to call.
    pub keep_bytes: AtomicUsize,
    pub thread_shortage: ThreadShortage,
    /// Whether READ sends file pages.
    pub zero_copy: ZeroCopySetting,
    /// The pipes that workers have for the data of large WRITEs.
    pub pipes: Pipes,
    /// The identity with which worker threads begin.
    pub own_identity: sys::identity::Own,
}

impl Shared {
    /// Who run calls again that were postponed.
    pub fn resumed_calls(&self) -> Weak<dyn ResumedCalls> {
        let pools: Arc<dyn ResumedCalls> = Arc::<dyn OtherPools>::clone(&self.other_pools);
        Arc::downgrade(&pools)
    }
}
