//! The loop of one thread: its share of the clients, from the first call to the last reply.
//!
//! Time has three parts: the warm-up, in which nothing is counted; the counted time; and the drain,
//! in which calls in flight are answered and no new ones are sent. A reply counts if it arrives in
//! the counted time.
//!
//! Owns: its clients, its epoll and its counters. Shares: [`LoadShared`], read by all.

use super::counters::{LiveCounters, ThreadCounters};
use super::error::LoadError;
use super::plan::Plan;
use super::sim_client::SimClient;
use super::socket::{ClientSocket, Flush};
use super::version4::StateReturn;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};
use sys::epoll::{Epoll, Events, Interest};

/// Events taken from epoll at once.
const EVENTS: usize = 256;
/// Bytes received at once.
const SCRATCH: usize = 256 << 10;
/// How often retransmissions and silent servers are checked.
const TICK: Duration = Duration::from_millis(10);
/// How long calls in flight may take after the end.
const DRAIN: Duration = Duration::from_secs(2);

/// What all threads of a load read.
pub(crate) struct LoadShared<'a> {
    pub plan: &'a Plan,
    pub live: &'a LiveCounters,
    /// Set by the caller to end early.
    pub stop: &'a AtomicBool,
    /// Set by a thread that failed: the others need not continue.
    pub broken: &'a AtomicBool,
    pub start: Instant,
}

/// A client with its socket.
pub(crate) struct Client {
    pub sim: SimClient,
    pub socket: ClientSocket,
    /// It waits for its socket to become writable.
    full: bool,
}

impl Client {
    pub(crate) const fn new(sim: SimClient, socket: ClientSocket) -> Self {
        Self { sim, socket, full: false }
    }

    /// What it has at a server of version 4 is given back later.
    pub(crate) fn return_state(self, state_return: &mut StateReturn) {
        if let Some(state) = self.sim.into_state()
            && let Ok(stream) = self.socket.begin_blocking()
        {
            state_return.add(stream, state);
        }
    }
}

/// The result of a thread.
pub(crate) struct ThreadOutcome {
    pub counters: ThreadCounters,
    pub error: Option<LoadError>,
    /// Counted time.
    pub counted: Duration,
    pub clients: Vec<Client>,
}

struct ThreadLoop<'a> {
    shared: &'a LoadShared<'a>,
    thread: usize,
    clients: Vec<Client>,
    epoll: Epoll,
    counters: ThreadCounters,
    scratch: Vec<u8>,
    begin_ns: u64,
    end_ns: u64,
    open: bool,
}

/// Runs the calls of `clients`.
pub(crate) fn thread_loop(
    shared: &LoadShared<'_>,
    thread: usize,
    clients: Vec<Client>,
) -> ThreadOutcome {
    let epoll = match Epoll::new() {
        Ok(epoll) => epoll,
        Err(source) => return failed(LoadError::Io { doing: "epoll_create", source }),
    };
    if !shared.plan.cpus.is_empty() {
        // best effort: without it the run is noisier
        let _ = sys::thread::run_on(&shared.plan.cpus);
    }
    let begin_ns = nanoseconds(shared.plan.warmup);
    let mut thread_loop = ThreadLoop {
        shared,
        thread,
        counters: ThreadCounters::new(clients.len()),
        clients,
        epoll,
        scratch: vec![0; SCRATCH],
        begin_ns,
        end_ns: begin_ns.saturating_add(nanoseconds(shared.plan.time)),
        open: matches!(shared.plan.pace, super::plan::Pace::Open(_)),
    };
    let error = thread_loop.run().err();
    if error.is_some() {
        shared.broken.store(true, Relaxed);
        if thread_loop.counters.cpu_ns == 0 {
            thread_loop.counters.cpu_ns = sys::thread::cpu_ns();
        }
    }
    let counted_ns = thread_loop.now_ns().min(thread_loop.end_ns).saturating_sub(begin_ns);
    let end_ns = thread_loop.end_ns;
    thread_loop.counters.late =
        thread_loop.clients.iter_mut().map(|client| client.sim.late(end_ns)).sum();
    ThreadOutcome {
        counters: thread_loop.counters,
        error,
        counted: Duration::from_nanos(counted_ns),
        clients: thread_loop.clients,
    }
}

fn failed(error: LoadError) -> ThreadOutcome {
    let (counters, error) = (ThreadCounters::new(0), Some(error));
    ThreadOutcome { counters, error, counted: Duration::ZERO, clients: Vec::new() }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX >> 8)
}

impl ThreadLoop<'_> {
    fn now_ns(&self) -> u64 {
        nanoseconds(self.shared.start.elapsed())
    }

    /// The tally, if an event at this time counts.
    fn counting(&self, now_ns: u64) -> bool {
        (self.begin_ns..self.end_ns).contains(&now_ns)
    }

    fn run(&mut self) -> Result<(), LoadError> {
        for (token, client) in self.clients.iter().enumerate() {
            let added = self.epoll.add(client.socket.fd(), token as u64, Interest::READABLE);
            added.map_err(|source| LoadError::Io { doing: "epoll_ctl", source })?;
        }
        let now_ns = self.now_ns();
        for token in 0..self.clients.len() {
            if let Some(client) = self.clients.get_mut(token) {
                client.sim.heard_ns = now_ns;
            }
            self.send(token, now_ns, true)?;
        }
        let (mut cpu_ns, mut counted_cpu) = (sys::thread::cpu_ns(), None);
        let mut events = Events::with_capacity(EVENTS);
        let mut tick_ns = now_ns;
        let mut stopped_ns = None;
        loop {
            let now_ns = self.now_ns();
            if counted_cpu.is_none() && now_ns >= self.begin_ns {
                cpu_ns = sys::thread::cpu_ns();
                counted_cpu = Some(());
            }
            if stopped_ns.is_none() && (now_ns >= self.end_ns || self.has_ended()) {
                stopped_ns = Some(now_ns);
                self.end_ns = self.end_ns.min(now_ns);
                self.counters.cpu_ns = sys::thread::cpu_ns().saturating_sub(cpu_ns);
            }
            if let Some(stopped_ns) = stopped_ns
                && (self.is_drained() || now_ns > stopped_ns.saturating_add(nanoseconds(DRAIN)))
            {
                return Ok(());
            }
            let send_new = stopped_ns.is_none();
            if self.open && send_new {
                self.send_due(now_ns)?;
            }
            if now_ns >= tick_ns.saturating_add(nanoseconds(TICK)) {
                tick_ns = now_ns;
                self.tick(now_ns)?;
            }
            let waited = self.epoll.wait(&mut events, Some(self.poll_timeout(now_ns)));
            waited.map_err(|source| LoadError::Io { doing: "epoll_wait", source })?;
            for index in 0..events.len() {
                if let Some(ready) = events.at(index) {
                    self.on_ready(usize::try_from(ready.token).unwrap_or(usize::MAX), send_new)?;
                }
            }
        }
    }

    fn has_ended(&self) -> bool {
        let ended = self.shared.stop.load(Relaxed) || self.shared.broken.load(Relaxed);
        ended || self.shared.plan.passes.is_some() && self.clients.iter().all(|c| c.sim.is_done())
    }

    fn is_drained(&self) -> bool {
        self.clients.iter().all(|client| client.sim.under_way() == 0)
    }

    /// The longest time to wait for events.
    fn poll_timeout(&self, now_ns: u64) -> Duration {
        if !self.open {
            return TICK;
        }
        let due = self.clients.iter().filter_map(|client| client.sim.due_ns()).min();
        let wait_ns = due.map_or(u64::MAX, |due| due.saturating_sub(now_ns));
        Duration::from_nanos(wait_ns).min(TICK)
    }

    fn on_ready(&mut self, token: usize, send_new: bool) -> Result<(), LoadError> {
        let now_ns = self.now_ns();
        let counting = self.counting(now_ns);
        let start = self.shared.start;
        let Some(client) = self.clients.get_mut(token) else { return Ok(()) };
        let before = client.sim.under_way();
        let counters = counting.then_some(&mut self.counters);
        let clock = || nanoseconds(start.elapsed());
        client.socket.receive(&mut client.sim, &mut self.scratch, clock, counters)?;
        let on_reply = before.saturating_sub(client.sim.under_way());
        self.shared.live.add(self.thread, on_reply as u64);
        self.send(token, self.now_ns(), send_new)
    }

    fn send(&mut self, token: usize, now_ns: u64, send_new: bool) -> Result<(), LoadError> {
        let counting = self.counting(now_ns);
        let Some(client) = self.clients.get_mut(token) else { return Ok(()) };
        let counters = counting.then_some(&mut self.counters);
        let flow =
            client.socket.send(&mut client.sim, now_ns, self.shared.plan, send_new, counters)?;
        let full = flow == Flush::Blocked;
        if full != client.full {
            client.full = full;
            let interest = Interest { readable: true, writable: full, edge: false };
            let changed = self.epoll.modify(client.socket.fd(), token as u64, interest);
            changed.map_err(|source| LoadError::Io { doing: "epoll_ctl", source })?;
        }
        Ok(())
    }

    fn send_due(&mut self, now_ns: u64) -> Result<(), LoadError> {
        for token in 0..self.clients.len() {
            let due = self.clients.get(token).and_then(|client| client.sim.due_ns());
            if due.is_some_and(|due| due <= now_ns) {
                self.send(token, now_ns, true)?;
            }
        }
        Ok(())
    }

    /// Retransmits lost datagrams, and detects servers that no longer answer.
    fn tick(&mut self, now_ns: u64) -> Result<(), LoadError> {
        let timeout = self.shared.plan.timeout;
        for client in &mut self.clients {
            client.socket.send_again(&mut client.sim, now_ns, self.shared.plan, &mut self.counters);
            let silent_ns = now_ns.saturating_sub(client.sim.heard_ns);
            if client.sim.under_way() == 0 {
                client.sim.heard_ns = now_ns;
            } else if silent_ns > nanoseconds(timeout) {
                return Err(LoadError::Hangs { server: client.sim.server, after: timeout });
            }
        }
        Ok(())
    }
}
