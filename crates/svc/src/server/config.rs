//! What a server is started with.

use crate::conn::congestion::Congestion;
use crate::conn::tcp_buffers::BufferRules;
use crate::kernel_tls::KernelTlsChoice;
use crate::limits::Limits;
use crate::settings::{PoolMode, UdpSockets, WakePolicy};
use crate::zero_copy::ZeroCopy;
use rpc::SocketBufferSizes;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use sys::descriptors::DescriptorBudget;
use sys::inherited::InheritedSockets;
use tls::ServerTls;

/// The default of [`Config::export_share`].
pub const EXPORT_SHARE_DEFAULT: usize = 75;

/// What a [`crate::Server`] is started with.
#[derive(Debug)]
pub struct Config {
    /// Where to listen for connections; port 0 takes any.
    pub tcp: Vec<SocketAddr>,
    /// Where to take datagrams; port 0 takes any.
    pub udp: Vec<SocketAddr>,
    /// Sockets that were bound before the server started, by systemd for one.
    pub inherited: InheritedSockets,
    /// Fewest and most worker threads of all pools together; each pool has one at least.
    pub threads: (usize, usize),
    /// The share of the threads that may block in one export, in percent: what a hung file system takes.
    pub export_share: usize,
    /// How many pools.
    pub pool_mode: PoolMode,
    /// Who is woken for a call.
    pub wake_policy: WakePolicy,
    /// How datagram sockets are laid out.
    pub udp_sockets: UdpSockets,
    /// Bytes for each buffer of each datagram socket; `None`: as the sysctls allow.
    pub udp_buffer: Option<usize>,
    /// Whether READ sends file pages without copying them.
    pub zero_copy: ZeroCopy,
    /// What peers may make grow.
    pub limits: Limits,
    /// What connections take their descriptors from.
    pub descriptors: Arc<DescriptorBudget>,
    /// What connections' socket buffers are to be.
    pub buffers: Box<dyn BufferRules>,
    /// The congestion control of connections.
    pub congestion: Congestion,
    /// TLS, if there is a certificate.
    pub tls: Option<TlsConfig>,
}

/// TLS of a server.
pub struct TlsConfig {
    /// Certificates.
    pub server: Arc<ServerTls>,
    /// Whether the kernel takes the records over.
    pub kernel: KernelTlsChoice,
    /// Threads that make handshakes.
    pub threads: usize,
    /// How long a handshake may take.
    pub handshake_max: Duration,
}

impl fmt::Debug for TlsConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsConfig").field("threads", &self.threads).finish_non_exhaustive()
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            tcp: Vec::new(),
            udp: Vec::new(),
            inherited: InheritedSockets::default(),
            threads: (2, 128),
            export_share: EXPORT_SHARE_DEFAULT,
            pool_mode: PoolMode::Auto,
            wake_policy: WakePolicy::Adaptive,
            udp_sockets: UdpSockets::default(),
            udp_buffer: None,
            zero_copy: ZeroCopy::Auto,
            limits: Limits::default(),
            descriptors: Arc::new(DescriptorBudget::of_this_process()),
            buffers: Box::new(SocketBufferSizes::UNSET),
            congestion: Congestion::Auto,
            tls: None,
        }
    }
}
