//! What an operator changes while the server runs.

use crate::conn::congestion::Congestion;
use crate::conn::tcp_buffers::{Applied, BufferRules};
use crate::errors::SettingError;
use crate::kernel_tls::KernelTlsChoice;
use crate::server::lifecycle::Server;
use crate::server::pool_layout::{cannot_start, replace_pools, split_threads};
use crate::server::state::PoolSettings;
use crate::settings::{PoolMode, UdpSockets, WakePolicy};
use crate::sync::lock;
use crate::zero_copy::ZeroCopy;
use std::io;
use std::sync::atomic::Ordering::Relaxed;
use tls::ServerTls;

impl Server {
    /// Changes what connections' socket buffers are to be: of new ones, and of those that are
    /// open, as far as the kernel lets them grow.
    pub fn set_buffers(&self, rules: Box<dyn BufferRules>) -> Applied {
        let stats = self.state.shared.telemetry.worker();
        let buffers = &self.state.buffers;
        // First the rules: a connection that is not in the table yet is set up by them.
        buffers.set_rules(rules);
        let conns = self.state.shared.conns.all();
        let ends = conns.iter().map(|conn| (&conn.buffers, &conn.stream, conn.peer.addr.ip()));
        let applied = buffers.apply_rules(ends, &stats);
        for listener in &self.state.listeners {
            if let Some(socket) = listener.socket.upgrade() {
                self.state.buffers.prepare_listener(&*socket);
            }
        }
        applied
    }

    /// Changes the congestion control of new connections and of those that are open.
    ///
    /// # Errors
    /// [`SettingError`]: the kernel has none of that name, or this process may not use it.
    pub fn set_congestion(&self, wanted: Congestion) -> Result<(), SettingError> {
        let sockets: Vec<_> =
            self.state.listeners.iter().filter_map(|listener| listener.socket.upgrade()).collect();
        let listeners = sockets.iter().map(|socket| &**socket);
        let names = self.state.congestion.change(wanted, listeners)?;
        self.state.shared.conns.all().iter().for_each(|conn| names.apply(&conn.stream, conn.peer));
        Ok(())
    }

    /// Changes whether the kernel takes over the TLS records of new connections, and finds out again whether it can.
    pub fn set_kernel_tls(&self, choice: KernelTlsChoice) {
        if let Some(handshakes) = &self.state.handshakes {
            handshakes.kernel.set(choice);
        }
    }

    /// Closes the connections of clients whose certificates are no longer accepted, after the authorities or the
    /// revocation list have changed (RFC 9289 §5.2.1); returns how many.
    pub fn recheck_certificates(&self, tls: &ServerTls) -> usize {
        let mut closed = 0_usize;
        for conn in self.state.shared.conns.all() {
            let Some(Err(why)) = conn.stream.seal().map(|seal| seal.recheck(tls)) else { continue };
            tracing::warn!(client = %conn.peer.addr, "connection closed: {why}");
            conn.shut_down();
            closed = closed.saturating_add(1);
        }
        closed
    }

    /// Changes the fewest and the most threads of all pools together.
    ///
    /// # Errors
    /// [`SettingError`]: fewer than one for each pool, or the wrong way round; or the kernel
    /// refuses more threads now.
    pub fn set_threads(&self, min: usize, max: usize) -> Result<(), SettingError> {
        let mut set = lock(&self.state.pool_settings);
        if set.pool_mode == PoolMode::Auto && self.state.pools.current().len() > max {
            let change = |set: PoolSettings| PoolSettings {
                threads: (min, max),
                auto_pools: set.auto_pools.min(max),
                ..set
            };
            replace_pools(&self.state, &mut set, change)?;
            self.state.shared.blocked.set_share(set.blocked_max());
            return Ok(());
        }
        let pools = self.state.pools.current();
        let parts = split_threads((min, max), pools.len())?;
        set.threads = (min, max);
        self.state.shared.blocked.set_share(set.blocked_max());
        for (pool, threads) in pools.iter().zip(parts) {
            pool.resize(threads);
            pool.start_min_threads().map_err(cannot_start)?;
        }
        Ok(())
    }

    /// Changes the share of the threads that may block in one export, in percent. Calls that block already
    /// are not disturbed.
    pub fn set_export_share(&self, percent: usize) {
        let mut set = lock(&self.state.pool_settings);
        set.export_share = percent;
        self.state.shared.blocked.set_share(set.blocked_max());
    }

    /// Changes who is woken for a call. Calls that are queued or run are not disturbed.
    ///
    /// # Errors
    /// [`SettingError`]: the kernel refuses the thread that a queue needs; the policy is in force
    /// all the same, with the threads that there are.
    pub fn set_wake_policy(&self, policy: WakePolicy) -> Result<(), SettingError> {
        let mut set = lock(&self.state.pool_settings);
        set.wake_policy = policy;
        let stats = self.state.shared.telemetry.worker();
        let pools = self.state.pools.all();
        let results = pools.iter().map(|pool| pool.set_policy(policy, &stats));
        let first = results.fold(Ok(()), io::Result::and);
        first.map_err(cannot_start)
    }

    /// Who is woken for a call.
    pub fn wake_policy(&self) -> WakePolicy {
        lock(&self.state.pool_settings).wake_policy
    }

    /// Changes how datagram sockets are laid out; nothing that was received is lost.
    ///
    /// # Errors
    /// [`SettingError`]: the kernel refuses; nothing has changed then.
    pub fn set_udp_sockets(&self, layout: UdpSockets) -> Result<(), SettingError> {
        self.state.shared.datagram_sockets.set_mode(layout)
    }

    /// How datagram sockets are laid out.
    pub fn udp_sockets(&self) -> UdpSockets {
        self.state.shared.datagram_sockets.mode()
    }

    /// Sizes the buffers of datagram sockets; `None`: as the sysctls allow.
    ///
    /// # Errors
    /// [`SettingError`]: the kernel refuses.
    pub fn set_udp_buffer(&self, bytes: Option<usize>) -> Result<(), SettingError> {
        self.state.shared.datagram_sockets.set_buffer(bytes)
    }

    /// Changes how many pools there are. Connections go over to the new ones with all that was
    /// received on them; threads of the old ones end when their calls have.
    ///
    /// # Errors
    /// [`SettingError`]: fewer threads than pools, or the kernel refuses threads or descriptors;
    /// nothing has changed then.
    pub fn set_pool_mode(&self, mode: PoolMode) -> Result<(), SettingError> {
        let mut set = lock(&self.state.pool_settings);
        if mode == set.pool_mode {
            return Ok(());
        }
        // how many pools an earlier load had says nothing of this one
        replace_pools(&self.state, &mut set, |set| PoolSettings {
            pool_mode: mode,
            auto_pools: 1,
            ..set
        })
    }

    /// Changes how much memory there is for records and replies under way; half for each. What is
    /// held beyond it is let go as calls are answered.
    pub fn set_memory(&self, bytes: usize) {
        let limits = self.state.shared.limits.with_memory(bytes);
        self.state.shared.partial.set_limit(limits.partial_bytes_max);
        self.state.shared.queued.set_limit(limits.queued_bytes_max);
        self.state.shared.datagrams.set_limit(limits.datagram_bytes_max);
        self.state.shared.keep_bytes.store(limits.keep_bytes_max, Relaxed);
    }

    /// Bytes that calls under way and unread replies may take, together.
    pub fn memory(&self) -> usize {
        let shared = &self.state.shared;
        shared.partial.limit().saturating_add(shared.queued.limit())
    }

    /// Changes whether READ sends file pages; counts from the next call on.
    pub fn set_zero_copy(&self, choice: ZeroCopy) {
        self.state.shared.zero_copy.set(choice);
    }

    /// Whether READ sends file pages.
    pub fn zero_copy(&self) -> ZeroCopy {
        self.state.shared.zero_copy.now()
    }

    /// How many pools there are.
    pub fn pool_mode(&self) -> PoolMode {
        lock(&self.state.pool_settings).pool_mode
    }
}
