//! The loop of one thread: its share of the clients, from the first call to the last answer.
//!
//! Time has three parts: the warm-up, in which nothing counts; the counted time; and the drain, in
//! which calls under way are answered and no new ones go out. An answer counts if it comes in the
//! counted time.
//!
//! Owns: its clients, its epoll and its tally. Shares: [`Stage`], read by all.

use super::error::LoadError;
use super::plan::Plan;
use super::seat::Seat;
use super::tally::{Live, Tally};
use super::wire::{Flow, Wire};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};
use sys::epoll::{Epoll, Events, Interest};

/// Events taken from epoll at once.
const EVENTS: usize = 256;
/// Bytes received at once.
const SCRATCH: usize = 256 << 10;
/// How often retransmissions and silent servers are looked for.
const TICK: Duration = Duration::from_millis(10);
/// How long calls under way may take after the end.
const DRAIN: Duration = Duration::from_secs(2);

/// What all threads of a load read.
pub(crate) struct Stage<'a> {
    pub plan: &'a Plan,
    pub live: &'a Live,
    /// Set to end early, by whoever runs the load.
    pub stop: &'a AtomicBool,
    /// Set by a thread that cannot go on: the others need not.
    pub broken: &'a AtomicBool,
    pub start: Instant,
}

/// A client with its socket.
pub(crate) struct Client {
    pub seat: Seat,
    pub wire: Wire,
    /// It waits for its socket to take more.
    full: bool,
}

impl Client {
    pub(crate) const fn new(seat: Seat, wire: Wire) -> Self {
        Self { seat, wire, full: false }
    }
}

/// What a thread comes back with.
pub(crate) struct Driven {
    pub tally: Tally,
    pub error: Option<LoadError>,
    /// Counted time.
    pub counted: Duration,
}

struct Driver<'a> {
    stage: &'a Stage<'a>,
    thread: usize,
    clients: Vec<Client>,
    epoll: Epoll,
    tally: Tally,
    scratch: Vec<u8>,
    begin_ns: u64,
    end_ns: u64,
    open: bool,
}

/// Makes the calls of `clients`.
pub(crate) fn drive(stage: &Stage<'_>, thread: usize, clients: Vec<Client>) -> Driven {
    let epoll = match Epoll::new() {
        Ok(epoll) => epoll,
        Err(source) => return failed(LoadError::Io { doing: "epoll_create", source }),
    };
    if !stage.plan.cpus.is_empty() {
        // a wish: where it is not granted, the run is noisier
        let _ = sys::thread::run_on(&stage.plan.cpus);
    }
    let begin_ns = nanoseconds(stage.plan.warmup);
    let mut driver = Driver {
        stage,
        thread,
        tally: Tally::new(clients.len()),
        clients,
        epoll,
        scratch: vec![0; SCRATCH],
        begin_ns,
        end_ns: begin_ns.saturating_add(nanoseconds(stage.plan.time)),
        open: matches!(stage.plan.pace, super::plan::Pace::Open(_)),
    };
    let error = driver.run().err();
    if error.is_some() {
        stage.broken.store(true, Relaxed);
        if driver.tally.cpu_ns == 0 {
            driver.tally.cpu_ns = sys::thread::cpu_ns();
        }
    }
    let counted_ns = driver.now_ns().min(driver.end_ns).saturating_sub(begin_ns);
    let end_ns = driver.end_ns;
    driver.tally.late = driver.clients.iter_mut().map(|client| client.seat.late(end_ns)).sum();
    Driven { tally: driver.tally, error, counted: Duration::from_nanos(counted_ns) }
}

fn failed(error: LoadError) -> Driven {
    Driven { tally: Tally::new(0), error: Some(error), counted: Duration::ZERO }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX >> 8)
}

impl Driver<'_> {
    fn now_ns(&self) -> u64 {
        nanoseconds(self.stage.start.elapsed())
    }

    /// The tally, if an event at this time counts.
    fn counting(&self, now_ns: u64) -> bool {
        (self.begin_ns..self.end_ns).contains(&now_ns)
    }

    fn run(&mut self) -> Result<(), LoadError> {
        for (token, client) in self.clients.iter().enumerate() {
            let added = self.epoll.add(client.wire.fd(), token as u64, Interest::READABLE);
            added.map_err(|source| LoadError::Io { doing: "epoll_ctl", source })?;
        }
        let now_ns = self.now_ns();
        for token in 0..self.clients.len() {
            if let Some(client) = self.clients.get_mut(token) {
                client.seat.heard_ns = now_ns;
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
            if stopped_ns.is_none() && (now_ns >= self.end_ns || self.is_over()) {
                stopped_ns = Some(now_ns);
                self.end_ns = self.end_ns.min(now_ns);
                self.tally.cpu_ns = sys::thread::cpu_ns().saturating_sub(cpu_ns);
            }
            if let Some(stopped_ns) = stopped_ns
                && (self.is_quiet() || now_ns > stopped_ns.saturating_add(nanoseconds(DRAIN)))
            {
                return Ok(());
            }
            let issue = stopped_ns.is_none();
            if self.open && issue {
                self.send_due(now_ns)?;
            }
            if now_ns >= tick_ns.saturating_add(nanoseconds(TICK)) {
                tick_ns = now_ns;
                self.tick(now_ns)?;
            }
            let waited = self.epoll.wait(&mut events, Some(self.patience(now_ns)));
            waited.map_err(|source| LoadError::Io { doing: "epoll_wait", source })?;
            for index in 0..events.len() {
                if let Some(ready) = events.at(index) {
                    self.visit(usize::try_from(ready.token).unwrap_or(usize::MAX), issue)?;
                }
            }
        }
    }

    fn is_over(&self) -> bool {
        let ended = self.stage.stop.load(Relaxed) || self.stage.broken.load(Relaxed);
        ended || self.stage.plan.passes.is_some() && self.clients.iter().all(|c| c.seat.is_done())
    }

    fn is_quiet(&self) -> bool {
        self.clients.iter().all(|client| client.seat.under_way() == 0)
    }

    /// How long to wait for events at the most.
    fn patience(&self, now_ns: u64) -> Duration {
        if !self.open {
            return TICK;
        }
        let due = self.clients.iter().filter_map(|client| client.seat.due_ns()).min();
        let wait_ns = due.map_or(u64::MAX, |due| due.saturating_sub(now_ns));
        Duration::from_nanos(wait_ns).min(TICK)
    }

    fn visit(&mut self, token: usize, issue: bool) -> Result<(), LoadError> {
        let now_ns = self.now_ns();
        let counting = self.counting(now_ns);
        let start = self.stage.start;
        let Some(client) = self.clients.get_mut(token) else { return Ok(()) };
        let before = client.seat.under_way();
        let tally = counting.then_some(&mut self.tally);
        let clock = || nanoseconds(start.elapsed());
        client.wire.receive(&mut client.seat, &mut self.scratch, clock, tally)?;
        let answered = before.saturating_sub(client.seat.under_way());
        self.stage.live.add(self.thread, answered as u64);
        self.send(token, self.now_ns(), issue)
    }

    fn send(&mut self, token: usize, now_ns: u64, issue: bool) -> Result<(), LoadError> {
        let counting = self.counting(now_ns);
        let Some(client) = self.clients.get_mut(token) else { return Ok(()) };
        let tally = counting.then_some(&mut self.tally);
        let flow = client.wire.send(&mut client.seat, now_ns, self.stage.plan, issue, tally)?;
        let full = flow == Flow::Full;
        if full != client.full {
            client.full = full;
            let interest = Interest { readable: true, writable: full, edge: false };
            let changed = self.epoll.modify(client.wire.fd(), token as u64, interest);
            changed.map_err(|source| LoadError::Io { doing: "epoll_ctl", source })?;
        }
        Ok(())
    }

    fn send_due(&mut self, now_ns: u64) -> Result<(), LoadError> {
        for token in 0..self.clients.len() {
            let due = self.clients.get(token).and_then(|client| client.seat.due_ns());
            if due.is_some_and(|due| due <= now_ns) {
                self.send(token, now_ns, true)?;
            }
        }
        Ok(())
    }

    /// Sends again what was lost, and finds servers that say nothing any more.
    fn tick(&mut self, now_ns: u64) -> Result<(), LoadError> {
        let timeout = self.stage.plan.timeout;
        for client in &mut self.clients {
            client.wire.send_again(&mut client.seat, now_ns, self.stage.plan, &mut self.tally);
            let silent_ns = now_ns.saturating_sub(client.seat.heard_ns);
            if client.seat.under_way() == 0 {
                client.seat.heard_ns = now_ns;
            } else if silent_ns > nanoseconds(timeout) {
                return Err(LoadError::Hangs { server: client.seat.server, after: timeout });
            }
        }
        Ok(())
    }
}
