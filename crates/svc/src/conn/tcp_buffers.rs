//! The socket buffers of connections: which sizes are set, what the kernel gave, and what is reserved of the
//! machine's memory for TCP.
//!
//! # How a size comes to a connection
//!
//! - The server-wide receive size is set on the listeners, before they listen: connections
//!   inherit it, and the window scale, which both ends agree on in their first packets and never
//!   change (RFC 7323 §2.2), is chosen for it.
//! - The size for the client's network, or else the server-wide one, is set when the connection
//!   is accepted.
//! - The size of an export is set at the first call with a handle of it. Of several exports, the
//!   largest counts.
//! - A change of the settings is applied to the connections that are open, as far as the kernel
//!   lets their windows grow.
//!
//! Sizes are minima: a buffer that is larger already stays. A side for which nothing is wanted is
//! never touched, so that the kernel sizes it by itself. `auto` after a size gives the side back
//! to the kernel, which goes on from the size that it has.
//!
//! # The budget
//!
//! Once the TCP memory of a machine reaches the second number of `net.ipv4.tcp_mem`, the kernel
//! shrinks the windows of every connection, those of other programs too. Up to
//! the first number it does nothing. So what all fixed buffers together may hold is kept under the
//! first number: a connection that does not fit gets half, a quarter, and so on, or stays as it is.
//!
//! Locks: [`Buffers::rules`], for a copy of a pointer; [`ConnBuffers::sides`], one per connection, taken when it
//! is accepted, when the settings change, when it meets an export that wants more than it has, and when
//! somebody asks. Under it: a few socket options. A call whose export wants nothing new does one relaxed load.

use crate::conn::byte_stream::ByteStream;
use crate::sync::lock;
use rpc::{SocketBufferSize, SocketBufferSizes};
use serde::Serialize;
use std::fmt;
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use sys::tcp::{self, Side};
use telemetry::{Counter, WorkerStats};

/// Most that one buffer may be, as the kernel counts it: the largest window there is.
const KERNEL_BYTES_MAX: u64 = 1 << 30;
/// Share of the memory that a kernel without a visible `tcp_mem` lets TCP have: its own default.
const MEMORY_SHARE: u64 = 16;
/// Bytes that a window can be described with, before it is scaled (RFC 9293 §3.1).
const WINDOW_UNSCALED_MAX: u64 = 65_535;

/// Which sizes are set for whom.
pub trait BufferRules: fmt::Debug + Send + Sync {
    /// For everybody else.
    fn server_wide(&self) -> SocketBufferSizes;

    /// For the connections of a client; [`SocketBufferSize::UNSET`] where the server-wide size counts.
    fn for_client(&self, client: IpAddr) -> SocketBufferSizes;
}

/// Server-wide sizes only.
impl BufferRules for SocketBufferSizes {
    fn server_wide(&self) -> SocketBufferSizes {
        *self
    }

    fn for_client(&self, _: IpAddr) -> SocketBufferSizes {
        Self::UNSET
    }
}

/// Why a buffer is less than what was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum BufferReduction {
    /// `net.core.rmem_max` or `net.core.wmem_max`.
    Sysctl,
    /// What all connections together may have (`net.ipv4.tcp_mem`).
    Memory,
    /// The window scale, which was agreed on when the connection began.
    WindowScale,
}

/// One buffer of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct BufferInfo {
    /// What was asked for, as SO_RCVBUF and SO_SNDBUF count; `None`: the kernel's own sizing.
    pub wanted_bytes: Option<u32>,
    /// Why it is less.
    pub reduced_by: Option<BufferReduction>,
}

/// What the buffers of all connections may hold and do hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct BufferTotals {
    /// What fixed buffers may hold if all of them are full.
    pub promised_bytes: u64,
    /// The most that may be promised.
    pub promised_bytes_max: u64,
}

/// What a change of the rules did to the open connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Applied {
    /// Connections that were looked at.
    pub connections: usize,
    /// Those with a buffer that is now as large as wanted.
    pub as_wanted: usize,
    /// Those held back by a sysctl.
    pub reduced_by_sysctl: usize,
    /// Those held back by the budget.
    pub reduced_by_memory: usize,
    /// Those held back by their window scale.
    pub reduced_by_scale: usize,
}

/// What all connections share.
pub(crate) struct Buffers {
    rules: Mutex<Arc<dyn BufferRules>>,
    promised: Arc<BufferBudget>,
    /// The listeners' own receive buffer, before anything was set.
    listener_bytes: AtomicU64,
}

/// Bytes reserved.
#[derive(Debug)]
struct BufferBudget {
    used: AtomicU64,
    max: AtomicU64,
}

impl BufferBudget {
    /// Takes `bytes` if they are left.
    fn take(&self, bytes: u64) -> bool {
        let max = self.max.load(Relaxed);
        let fits = |used: u64| used.checked_add(bytes).filter(|sum| *sum <= max);
        self.used.fetch_update(Relaxed, Relaxed, fits).is_ok()
    }
}

/// A part of the budget; released when dropped.
#[derive(Debug)]
struct BufferReservation {
    of: Arc<BufferBudget>,
    bytes: u64,
}

impl BufferReservation {
    /// Makes it `bytes`; `false`, and nothing changed, if this many are not left.
    fn resize(&mut self, bytes: u64) -> bool {
        if let Some(more) = bytes.checked_sub(self.bytes) {
            if !self.of.take(more) {
                return false;
            }
        } else {
            self.of.used.fetch_sub(self.bytes.saturating_sub(bytes), Relaxed);
        }
        self.bytes = bytes;
        true
    }
}

impl Drop for BufferReservation {
    fn drop(&mut self) {
        self.of.used.fetch_sub(self.bytes, Relaxed);
    }
}

/// What a connection knows of its buffers.
pub(crate) struct ConnBuffers {
    /// What exports have wanted so far, packed. Written under `sides`.
    exports: AtomicU64,
    sides: Mutex<[SideState; 2]>,
}

/// One side of a connection.
#[derive(Debug)]
struct SideState {
    side: Side,
    /// For its client.
    base: SocketBufferSize,
    /// For the exports that it is used for.
    export: SocketBufferSize,
    /// Whether we have ended the kernel's own sizing.
    fixed: bool,
    promise: BufferReservation,
    reduced_by: Option<BufferReduction>,
}

impl ConnBuffers {
    pub fn new(buffers: &Buffers) -> Self {
        let held = |side| SideState {
            side,
            base: SocketBufferSize::UNSET,
            export: SocketBufferSize::UNSET,
            fixed: false,
            promise: BufferReservation { of: Arc::clone(&buffers.promised), bytes: 0 },
            reduced_by: None,
        };
        Self {
            exports: AtomicU64::new(0),
            sides: Mutex::new([Side::Receive, Side::Send].map(held)),
        }
    }

    /// Both sides, receiving first.
    pub fn info(&self) -> [BufferInfo; 2] {
        let info = |held: &SideState| BufferInfo {
            wanted_bytes: held.wanted(),
            reduced_by: held.reduced_by,
        };
        let held = lock(&self.sides);
        [info(&held[0]), info(&held[1])]
    }

    /// Gives the connection what the export of a call wants, unless it has it.
    pub fn want_for_export(
        &self,
        stream: &ByteStream,
        wanted: SocketBufferSizes,
        stats: &WorkerStats,
    ) {
        if wanted == SocketBufferSizes::UNSET {
            return;
        }
        let before = SocketBufferSizes::unpack(self.exports.load(Relaxed));
        if before.max(wanted) == before {
            return;
        }
        let mut sides = lock(&self.sides);
        let all = SocketBufferSizes::unpack(self.exports.load(Relaxed)).max(wanted);
        self.exports.store(all.packed(), Relaxed);
        for (side, size) in sides.iter_mut().zip([all.receive, all.send]) {
            if side.export != size {
                side.export = size;
                side.apply(stream, stats);
            }
        }
    }
}

impl Buffers {
    pub fn new(rules: Box<dyn BufferRules>) -> Self {
        let promised = BufferBudget { used: AtomicU64::new(0), max: AtomicU64::new(budget()) };
        Self {
            rules: Mutex::new(rules.into()),
            promised: Arc::new(promised),
            listener_bytes: AtomicU64::new(0),
        }
    }

    fn rules(&self) -> Arc<dyn BufferRules> {
        Arc::clone(&lock(&self.rules))
    }

    /// Sets a listener up: with the server-wide receive size, so that the window scale of what it
    /// accepts is right. What the kernel refuses is seen at each connection.
    pub fn prepare_listener(&self, listener: impl AsFd) {
        let Ok(memory) = tcp::memory(&listener) else { return };
        let own = u64::from(memory.receive_max);
        let own = match self.listener_bytes.compare_exchange(0, own, Relaxed, Relaxed) {
            Ok(_) => own,
            Err(known) => known,
        };
        match self.rules().server_wide().receive.size() {
            Some(bytes) if own < u64::from(bytes).saturating_mul(2) => {
                let _ = tcp::fix_buffer(&listener, Side::Receive, bytes);
            }
            Some(_) => {}
            None if own != u64::from(memory.receive_max) => {
                let half = u32::try_from(own / 2).unwrap_or(u32::MAX);
                let _ = tcp::fix_buffer(&listener, Side::Receive, half);
                let _ = tcp::free_buffer(&listener, Side::Receive);
            }
            None => {}
        }
    }

    /// Gives a new connection what is wanted for its client.
    pub fn set_up(
        &self,
        buffers: &ConnBuffers,
        stream: &ByteStream,
        client: IpAddr,
        stats: &WorkerStats,
    ) {
        let rules = self.rules();
        let all = rules.server_wide();
        let own = rules.for_client(client);
        let mut sides = lock(&buffers.sides);
        let [receive, send] = &mut *sides;
        receive.base = own.receive.or(all.receive);
        send.base = own.send.or(all.send);
        if all.receive.size().is_some() {
            self.account_inherited(receive, stream, stats);
        }
        for side in [receive, send] {
            side.apply(stream, stats);
        }
    }

    /// Accounts for the buffer that a connection has inherited from its listener; back to the
    /// kernel's own size if there is no memory for it.
    fn account_inherited(&self, held: &mut SideState, stream: &ByteStream, stats: &WorkerStats) {
        let Ok(memory) = tcp::memory(stream.options()) else { return };
        let own = self.listener_bytes.load(Relaxed);
        if u64::from(memory.receive_max) <= own {
            return;
        }
        held.fixed = true;
        if !held.promise.resize(memory.receive_max.into()) {
            let half = u32::try_from(own / 2).unwrap_or(u32::MAX);
            let _ = tcp::fix_buffer(stream.options(), Side::Receive, half);
            held.free(stream);
            stats.add(Counter::TcpBuffersCut, 1);
            held.reduced_by = Some(BufferReduction::Memory);
        }
    }

    /// Takes new rules. Connections that are set up from now on follow them; those that are open follow
    /// them after [`Buffers::apply_rules`].
    pub fn set_rules(&self, rules: Box<dyn BufferRules>) {
        self.promised.max.store(budget(), Relaxed);
        *lock(&self.rules) = rules.into();
    }

    /// Applies the rules to open connections.
    pub fn apply_rules<'c>(
        &self,
        conns: impl Iterator<Item = (&'c ConnBuffers, &'c ByteStream, IpAddr)>,
        stats: &WorkerStats,
    ) -> Applied {
        let rules = self.rules();
        let all = rules.server_wide();
        let mut applied = Applied::default();
        for (buffers, stream, client) in conns {
            let own = rules.for_client(client);
            let bases = [own.receive.or(all.receive), own.send.or(all.send)];
            let mut sides = lock(&buffers.sides);
            let mut changed = false;
            for (side, base) in sides.iter_mut().zip(bases) {
                if side.base != base || side.reduced_by.is_some() {
                    changed |= side.base != base;
                    side.base = base;
                    side.apply(stream, stats);
                }
            }
            applied.connections = applied.connections.saturating_add(1);
            applied.count(changed, &sides);
        }
        applied
    }

    /// What is promised.
    pub fn totals(&self) -> BufferTotals {
        BufferTotals {
            promised_bytes: self.promised.used.load(Relaxed),
            promised_bytes_max: self.promised.max.load(Relaxed),
        }
    }
}

impl Applied {
    fn count(&mut self, changed: bool, held: &[SideState; 2]) {
        let reduced = |why| usize::from(held.iter().any(|held| held.reduced_by == Some(why)));
        self.reduced_by_sysctl =
            self.reduced_by_sysctl.saturating_add(reduced(BufferReduction::Sysctl));
        self.reduced_by_memory =
            self.reduced_by_memory.saturating_add(reduced(BufferReduction::Memory));
        self.reduced_by_scale =
            self.reduced_by_scale.saturating_add(reduced(BufferReduction::WindowScale));
        let whole = changed && held.iter().all(|held| held.reduced_by.is_none());
        self.as_wanted = self.as_wanted.saturating_add(usize::from(whole));
    }
}

impl SideState {
    /// The size that is wanted.
    fn wanted(&self) -> Option<u32> {
        self.export.or(self.base).size()
    }

    /// Sets the size that is wanted, as far as the kernel and the budget allow.
    fn apply(&mut self, stream: &ByteStream, stats: &WorkerStats) {
        match self.wanted() {
            None => self.free(stream),
            Some(bytes) => self.fix(stream, bytes, stats),
        }
    }

    /// Lets the kernel size the buffer again. Its size stays, and so does what is reserved.
    fn free(&mut self, stream: &ByteStream) {
        self.reduced_by = None;
        if self.fixed && tcp::free_buffer(stream.options(), self.side).is_ok() {
            self.fixed = false;
        }
    }

    /// Makes the buffer hold `bytes`, which the kernel doubles for its overhead. A failed system
    /// call means that the connection has ended.
    fn fix(&mut self, stream: &ByteStream, bytes: u32, stats: &WorkerStats) {
        self.reduced_by = None;
        let wanted = u64::from(bytes).saturating_mul(2).min(KERNEL_BYTES_MAX);
        let Ok(memory) = tcp::memory(stream.options()) else { return };
        let now = u64::from(memory.max(self.side));
        if wanted <= now {
            return self.check_window_scale(stream, wanted);
        }
        let mut size = wanted;
        // even, as all sizes that the kernel gives
        while size > now && !self.promise.resize(size) {
            size = size / 4 * 2;
        }
        if size < wanted {
            self.reduced_by = Some(BufferReduction::Memory);
            stats.add(Counter::TcpBuffersCut, 1);
        }
        if size <= now {
            return;
        }
        let half = u32::try_from(size / 2).unwrap_or(u32::MAX);
        let done = tcp::fix_buffer(stream.options(), self.side, half)
            .and_then(|_| tcp::memory(stream.options()));
        let Ok(memory) = done else { return };
        self.fixed = true;
        let got = u64::from(memory.max(self.side));
        if got < size {
            self.reduced_by = Some(BufferReduction::Sysctl);
            stats.add(Counter::TcpBuffersClamped, 1);
            // Less than what is taken is always left.
            let _ = self.promise.resize(got);
        }
        if self.side == Side::Receive {
            let _ = tcp::let_window_grow(stream.options(), u32::try_from(got).unwrap_or(u32::MAX));
        }
        self.check_window_scale(stream, got);
    }

    /// Notes whether the window can describe a buffer of this size.
    fn check_window_scale(&mut self, stream: &ByteStream, bytes: u64) {
        if self.side == Side::Receive
            && self.reduced_by.is_none()
            && let Ok(info) = tcp::info(stream.options())
            && WINDOW_UNSCALED_MAX.checked_shl(info.window_scale.into()).unwrap_or(u64::MAX)
                < bytes / 2
        {
            self.reduced_by = Some(BufferReduction::WindowScale);
        }
    }
}

/// Bytes of TCP memory up to which the kernel shrinks no windows.
fn budget() -> u64 {
    let pages = tcp::sysctl_triple("tcp_mem").map(|[first, _, _]| first);
    let page = sys::limits::page_bytes();
    match pages {
        Some(pages) => pages.saturating_mul(page),
        // In a network namespace of its own the sysctl cannot be seen, but counts all the same.
        None => sys::limits::memory_bytes() / MEMORY_SHARE / 4 * 3,
    }
}

#[cfg(test)]
mod tests {
    use super::{BufferBudget, BufferReservation};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

    #[test]
    fn buffer_reservations_end_with_the_connection_within_the_budget() {
        let all = Arc::new(BufferBudget { used: AtomicU64::new(0), max: AtomicU64::new(100) });
        let promise = || BufferReservation { of: Arc::clone(&all), bytes: 0 };
        let (mut one, mut two) = (promise(), promise());
        assert!(one.resize(60) && !two.resize(50) && two.resize(40));
        assert!(one.resize(30) && two.resize(70));
        assert_eq!(all.used.load(Relaxed), 100);
        // The operator has lowered it: what is promised is kept, nothing more is given.
        all.max.store(50, Relaxed);
        assert!(!one.resize(31) && one.resize(10));
        drop(two);
        assert_eq!(all.used.load(Relaxed), 10);
        drop(one);
        assert_eq!(all.used.load(Relaxed), 0);
    }
}
