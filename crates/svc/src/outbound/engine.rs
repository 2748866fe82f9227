//! The thread that makes calls: its sockets, its calls, and what it does when one of them moves.
//!
//! A call waits for its machine's turn ([`super::hosts`]), asks the port mapper if need be ([`super::port_lookup`]), is
//! sent, and is done by its reply, a failure, its deadline or a cancellation. Whatever happens to a call ends in
//! [`Engine::finish`], where it leaves all tables before its completion runs.

use crate::clock::Clock;
use crate::outbound::endpoint::{Endpoint, EndpointKey};
use crate::outbound::handle::{Message, Shared};
use crate::outbound::hosts::{HostKey, Hosts, Next};
use crate::outbound::info::{OutboundCounters, OutboundInfo};
use crate::outbound::jobs::{Job, Jobs, Route, Stage, Timer};
use crate::outbound::port_lookup::{LookupVersion, Ports};
use crate::outbound::{OutboundConfig, OutboundLimits};
use rpc::{AuthSys, CallCredential, CallFailure, CallId, ConnId, OutboundCall, Posted};
use rpc::{ProgramPort, Refusal, Reply, Request, Transport};
use std::collections::hash_map::RandomState;
use std::collections::{BTreeSet, HashMap};
use std::hash::BuildHasher;
use std::io::{self, ErrorKind};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use sys::epoll::{Epoll, Events, Interest};
use sys::event::Event;
use xdr::Writer;

/// The token of the event that wakes the thread.
const WAKE: u64 = 0;
/// Room for one receive: a datagram of any length.
const BUFFER: usize = 64 << 10;
/// Machines without an answer that the operator is shown.
const SHOWN_HOSTS: usize = 64;

/// The thread's own.
pub(super) struct Engine {
    config: OutboundConfig,
    shared: Arc<Shared>,
    wake: Arc<Event>,
    epoll: Epoll,
    clock: Clock,
    jobs: Jobs,
    hosts: Hosts,
    ports: Ports,
    endpoints: HashMap<u64, Endpoint>,
    by_key: HashMap<EndpointKey, u64>,
    next_token: u64,
    /// Machines of which a call may be able to go now.
    to_look_at: BTreeSet<HostKey>,
    /// Machines whose call waits for an endpoint.
    starved: BTreeSet<HostKey>,
    xids: (RandomState, u64),
    counters: OutboundCounters,
}

/// Why a call cannot be sent now.
#[derive(Clone, Copy)]
enum NotSent {
    /// All endpoints are in use.
    NoEndpoint,
    Failed(CallFailure),
}

impl Engine {
    pub fn new(config: OutboundConfig, shared: Arc<Shared>, wake: Arc<Event>) -> io::Result<Self> {
        let epoll = Epoll::new()?;
        epoll.add(&*wake, WAKE, Interest::READABLE)?;
        Ok(Self {
            config,
            shared,
            wake,
            epoll,
            clock: Clock::new(),
            jobs: Jobs::default(),
            hosts: Hosts::default(),
            ports: Ports::default(),
            endpoints: HashMap::new(),
            by_key: HashMap::new(),
            next_token: WAKE + 1,
            to_look_at: BTreeSet::new(),
            starved: BTreeSet::new(),
            xids: (RandomState::new(), 0),
            counters: OutboundCounters::default(),
        })
    }

    /// Runs until it is told to stop.
    pub fn run(mut self) {
        let mut events = Events::with_capacity(64);
        let mut buf = vec![0; BUFFER];
        while !self.shared.stopping.load(Relaxed) {
            let next_ms = self.jobs.next_ms();
            let timeout = next_ms.map(|at| at.saturating_sub(self.clock.now_ms()));
            if self.epoll.wait(&mut events, timeout.map(Duration::from_millis)).is_err() {
                std::thread::sleep(Duration::from_millis(100));
            }
            for index in 0..events.len() {
                match events.at(index) {
                    Some(ready) if ready.token == WAKE => drop(self.wake.lower()),
                    Some(ready) => self.advance(ready.token, ready.writable, &mut buf),
                    None => {}
                }
            }
            for message in self.shared.messages() {
                self.take_message(message);
            }
            while let Some(timer) = self.jobs.due(self.clock.now_ms()) {
                self.fire(timer);
            }
            while let Some(host) = self.to_look_at.pop_first() {
                self.start_calls(host);
            }
        }
        for id in self.jobs.all() {
            self.finish(id, Err(CallFailure::Stopped));
        }
    }

    fn limits(&self) -> OutboundLimits {
        self.config.limits
    }

    fn take_message(&mut self, message: Message) {
        match message {
            Message::Call(id, call) => self.begin(id, call),
            Message::Cancel(CallId(id)) => self.finish(id, Err(CallFailure::Cancelled)),
            Message::Reply(CallId(id), record) => self.take_conn_reply(id, &record),
            Message::ConnClosed(conn) => {
                for id in self.jobs.of_conn(conn) {
                    self.finish(id, Err(CallFailure::ConnClosed));
                }
            }
            Message::Info(sender) => drop(sender.send(self.info())),
        }
    }

    fn begin(&mut self, CallId(id): CallId, call: OutboundCall) {
        self.counters.calls += 1;
        let now_ms = self.clock.now_ms();
        let room = self.jobs.len() < self.limits().calls;
        let job = match Job::new(call, now_ms) {
            Ok(job) => job,
            Err(done) => return self.complete(done, Err(CallFailure::ConnClosed)),
        };
        if !room {
            self.counters.dropped += 1;
            return self.complete(job.done, Err(CallFailure::NoRoom));
        }
        let host = job.host();
        self.jobs.add(id, job);
        match host {
            None => self.post(id),
            Some(host) => {
                let limits = self.limits();
                if let Some(oldest) = self.hosts.wait(host, id, &limits) {
                    self.finish(oldest, Err(CallFailure::Displaced));
                }
                self.to_look_at.insert(host);
            }
        }
    }

    /// Starts what may go to a machine now.
    fn start_calls(&mut self, host: HostKey) {
        let limits = self.limits();
        loop {
            let now_ms = self.clock.now_ms();
            match self.hosts.next(host, now_ms, &limits) {
                Next::Nothing => return,
                Next::At(at_ms) => return self.jobs.at(at_ms, Timer::Host(host)),
                Next::Call(id) => match self.try_start(id, now_ms) {
                    Ok(()) => {}
                    Err(NotSent::Failed(why)) => self.fail(id, why),
                    Err(NotSent::NoEndpoint) => {
                        if let Some(job) = self.jobs.get_mut(id) {
                            job.stage = Stage::Waiting;
                        }
                        self.hosts.put_back(host, id);
                        self.starved.insert(host);
                        return;
                    }
                },
            }
        }
    }

    /// Sends a call, or the question for its port.
    fn try_start(&mut self, id: u64, now_ms: u64) -> Result<(), NotSent> {
        let Some(job) = self.jobs.get_mut(id) else { return Ok(()) };
        let known = job.service().map(|service| self.ports.get(&service, now_ms));
        let (port, stage) = match (&job.route, known) {
            (
                Route::Machine {
                    port: ProgramPort::Known(port) | ProgramPort::Answered(port), ..
                },
                _,
            ) => (*port, Stage::Call),
            (_, Some(Some(port))) => (port, Stage::Call),
            (_, _) => (self.config.portmapper_port, Stage::Lookup(LookupVersion::V4)),
        };
        job.port_is_old = matches!(known, Some(Some(_)));
        self.send(id, port, stage)
    }

    /// Sends one message of a call to a port of its machine.
    fn send(&mut self, id: u64, port: u16, stage: Stage) -> Result<(), NotSent> {
        let now_ms = self.clock.now_ms();
        let xid = self.next_xid();
        let Some(job) = self.jobs.get_mut(id) else { return Ok(()) };
        let Route::Machine { to, transport, .. } = &job.route else { return Ok(()) };
        let (transport, local) = (*transport, to.local());
        let key = EndpointKey { to: to.at(port), local, transport };
        job.stage = stage;
        job.message = encode(job, xid, stage, &self.config.machine_name);
        let expects_reply = job.expects_reply || stage != Stage::Call;
        let token = self.endpoint(key)?;
        let Some(endpoint) = self.endpoints.get_mut(&token) else { return Ok(()) };
        let Some(job) = self.jobs.get_mut(id) else { return Ok(()) };
        endpoint.pending.insert(xid, id);
        job.under_way = Some((token, xid));
        if matches!(stage, Stage::Lookup(_)) {
            self.counters.port_lookups += 1;
        }
        let sent = endpoint.send(&job.message, &self.epoll, token);
        let flushed = endpoint.is_flushed();
        if let Err(error) = sent {
            self.end_endpoint(token, &error);
            return Ok(());
        }
        match (expects_reply, transport) {
            (false, _) if flushed => self.finish(id, Ok(&[])),
            (true, Transport::Udp) => self.jobs.resend_later(id, now_ms, self.limits().resend_ms),
            (_, _) => {}
        }
        Ok(())
    }

    /// An endpoint for a port of a machine: one that there is, or a new one.
    fn endpoint(&mut self, key: EndpointKey) -> Result<u64, NotSent> {
        if let Some(token) = self.by_key.get(&key) {
            return Ok(*token);
        }
        if self.endpoints.len() >= self.limits().endpoints {
            let idle = self.endpoints.iter().filter(|(_, endpoint)| endpoint.pending.is_empty());
            let oldest = idle.min_by_key(|(_, endpoint)| endpoint.idle_since_ms);
            let oldest = oldest.map(|(token, _)| *token).ok_or(NotSent::NoEndpoint)?;
            self.drop_endpoint(oldest);
        }
        let token = self.next_token;
        self.next_token += 1;
        let endpoint = Endpoint::open(key, &self.epoll, token)
            .map_err(|error| NotSent::Failed(failure_of(&error)))?;
        self.counters.opened += 1;
        self.endpoints.insert(token, endpoint);
        self.by_key.insert(key, token);
        Ok(token)
    }

    fn drop_endpoint(&mut self, token: u64) -> Option<Endpoint> {
        let endpoint = self.endpoints.remove(&token)?;
        self.by_key.remove(&endpoint.key);
        self.feed_starved();
        Some(endpoint)
    }

    /// Somebody may have an endpoint now.
    fn feed_starved(&mut self) {
        if let Some(host) = self.starved.pop_first() {
            self.to_look_at.insert(host);
        }
    }

    /// Goes on with an endpoint that epoll has told of.
    fn advance(&mut self, token: u64, writable: bool, buf: &mut [u8]) {
        let Some(endpoint) = self.endpoints.get_mut(&token) else { return };
        let mut messages = Vec::new();
        let done = endpoint.advance(writable, (&self.epoll, token), buf, |message| {
            messages.push(message.to_vec())
        });
        let flushed = endpoint.is_flushed();
        if flushed {
            let sent: Vec<u64> = endpoint.pending.values().copied().collect();
            for id in sent {
                let one_way = |job: &mut Job| !job.expects_reply && job.stage == Stage::Call;
                if self.jobs.get_mut(id).is_some_and(one_way) {
                    self.finish(id, Ok(&[]));
                }
            }
        }
        for message in messages {
            self.take_reply(token, &message);
        }
        if let Err(error) = done {
            self.end_endpoint(token, &error);
        }
    }

    /// Takes a message that has come to an endpoint.
    fn take_reply(&mut self, token: u64, message: &[u8]) {
        let Some(endpoint) = self.endpoints.get_mut(&token) else { return };
        let xid = message.first_chunk::<4>().map(|xid| u32::from_be_bytes(*xid));
        let Some(id) = xid.and_then(|xid| endpoint.pending.get(&xid).copied()) else {
            self.counters.stray_replies += 1;
            return;
        };
        let Ok(reply) = Reply::parse(message) else {
            self.counters.garbled += 1;
            return self.fail(id, CallFailure::Garbled);
        };
        endpoint.has_answered = true;
        let Some(job) = self.jobs.get_mut(id) else { return };
        if let Some(host) = job.host() {
            self.hosts.answered(host);
        }
        match (job.stage, reply.results) {
            (Stage::Lookup(version), results) => self.take_port(id, version, results),
            (_, Ok(results)) => self.finish(id, Ok(results.rest())),
            (_, Err(Refusal::ProgUnavail)) if job.port_is_old && !job.tried_again => {
                self.try_again(id);
            }
            (_, Err(refusal)) => self.finish(id, Err(CallFailure::Refused(refusal))),
        }
    }

    /// Takes the answer of a port mapper.
    fn take_port(
        &mut self,
        id: u64,
        version: LookupVersion,
        results: Result<xdr::Reader<'_>, Refusal>,
    ) {
        let now_ms = self.clock.now_ms();
        let Some(job) = self.jobs.get_mut(id) else { return };
        let Some(service) = job.service() else { return };
        let found = match results {
            Ok(mut results) => match version.port(&mut results) {
                Ok(port) => port,
                Err(_) => {
                    self.counters.garbled += 1;
                    return self.finish(id, Err(CallFailure::Garbled));
                }
            },
            Err(
                Refusal::ProgUnavail
                | Refusal::ProgMismatch { .. }
                | Refusal::ProcUnavail
                | Refusal::GarbageArgs,
            ) => None,
            Err(refusal) => return self.finish(id, Err(CallFailure::Refused(refusal))),
        };
        self.leave_endpoint(id);
        let sent = match (found, version.next(service.host)) {
            (Some(port), _) => {
                let limits = self.limits();
                self.ports.learn(service, port, now_ms, &limits);
                self.send(id, port, Stage::Call)
            }
            (None, Some(next)) => self.send(id, self.config.portmapper_port, Stage::Lookup(next)),
            (None, None) => return self.finish(id, Err(CallFailure::NotRegistered)),
        };
        self.sent_or_wait(id, sent);
    }

    /// What follows from a call that goes on: it failed, or waits for its turn anew.
    fn sent_or_wait(&mut self, id: u64, sent: Result<(), NotSent>) {
        match sent {
            Ok(()) => {}
            Err(NotSent::Failed(why)) => self.fail(id, why),
            Err(NotSent::NoEndpoint) => {
                let Some(job) = self.jobs.get_mut(id) else { return };
                job.stage = Stage::Waiting;
                if let Some(host) = job.host() {
                    self.hosts.put_back(host, id);
                    self.starved.insert(host);
                }
            }
        }
    }

    /// Makes a call anew, once: the port that was remembered, or the connection that was open, is out of date.
    fn try_again(&mut self, id: u64) {
        self.leave_endpoint(id);
        let now_ms = self.clock.now_ms();
        let Some(job) = self.jobs.get_mut(id) else { return };
        job.tried_again = true;
        if let Some(service) = job.service().filter(|_| job.port_is_old) {
            self.ports.forget(&service);
        }
        let sent = self.try_start(id, now_ms);
        self.sent_or_wait(id, sent);
    }

    /// An endpoint is at its end: its calls fail, or are made anew if they came too late for it.
    fn end_endpoint(&mut self, token: u64, error: &io::Error) {
        let Some(endpoint) = self.drop_endpoint(token) else { return };
        if error.kind() == ErrorKind::InvalidData {
            self.counters.garbled += 1;
        }
        let why = failure_of(error);
        let was_open = endpoint.has_answered && endpoint.key.transport == Transport::Tcp;
        for id in endpoint.pending.into_values() {
            let Some(job) = self.jobs.get_mut(id) else { continue };
            job.under_way = None;
            let out_of_date =
                was_open || (job.port_is_old && why == CallFailure::ConnectionRefused);
            if out_of_date && !job.tried_again {
                self.try_again(id);
                continue;
            }
            let lookup = matches!(job.stage, Stage::Lookup(_));
            let refused = why == CallFailure::ConnectionRefused;
            self.fail(id, if lookup && refused { CallFailure::NoPortmapper } else { why });
        }
    }

    /// A call has failed by the fault of its machine.
    fn fail(&mut self, id: u64, why: CallFailure) {
        let now_ms = self.clock.now_ms();
        let limits = self.limits();
        if let Some(job) = self.jobs.get_mut(id)
            && let Some(host) = job.host()
        {
            if let Some(service) = job.service() {
                self.ports.forget(&service);
            }
            self.hosts.failed(host, why, now_ms, &limits);
        }
        self.finish(id, Err(why));
    }

    /// Takes a call off its endpoint, which is closed if it does not work and nobody else waits there.
    fn leave_endpoint(&mut self, id: u64) {
        self.jobs.no_resend(id);
        let Some((token, xid)) = self.jobs.get_mut(id).and_then(|job| job.under_way.take()) else {
            return;
        };
        self.leave(token, xid);
    }

    fn leave(&mut self, token: u64, xid: u32) {
        let now_ms = self.clock.now_ms();
        let idle_ms = self.limits().idle_ms;
        let Some(endpoint) = self.endpoints.get_mut(&token) else { return };
        endpoint.pending.remove(&xid);
        if !endpoint.pending.is_empty() {
            return;
        }
        endpoint.idle_since_ms = now_ms;
        // a port mapper is asked once and has few connections
        let is_portmapper = endpoint.key.to.port() == self.config.portmapper_port;
        if endpoint.has_answered && !is_portmapper {
            self.jobs.at(now_ms.saturating_add(idle_ms), Timer::Idle(token));
            self.feed_starved();
        } else {
            self.drop_endpoint(token);
        }
    }

    fn fire(&mut self, timer: Timer) {
        match timer {
            Timer::Host(host) => drop(self.to_look_at.insert(host)),
            Timer::Resend(id) => self.resend(id),
            Timer::Idle(token) => {
                let now_ms = self.clock.now_ms();
                let idle_ms = self.limits().idle_ms;
                let unused = self.endpoints.get(&token).is_some_and(|endpoint| {
                    endpoint.pending.is_empty()
                        && now_ms >= endpoint.idle_since_ms.saturating_add(idle_ms)
                });
                if unused {
                    self.drop_endpoint(token);
                }
            }
            Timer::Deadline(id) => {
                let Some(job) = self.jobs.get_mut(id) else { return };
                let stage = job.stage;
                match (stage, job.host()) {
                    (Stage::Waiting, _) | (_, None) => self.finish(id, Err(CallFailure::NoAnswer)),
                    (Stage::Lookup(_), _) => self.fail(id, CallFailure::NoPortmapper),
                    (Stage::Call, _) => self.fail(id, CallFailure::NoAnswer),
                }
            }
        }
    }

    /// Sends a datagram again.
    fn resend(&mut self, id: u64) {
        let now_ms = self.clock.now_ms();
        let Some(job) = self.jobs.get_mut(id) else { return };
        let Some((token, _)) = job.under_way else { return };
        let Some(endpoint) = self.endpoints.get_mut(&token) else { return };
        self.counters.resent += 1;
        match endpoint.send(&job.message, &self.epoll, token) {
            Ok(()) => self.jobs.resend_later(id, now_ms, self.limits().resend_ms),
            Err(error) => self.end_endpoint(token, &error),
        }
    }

    /// Sends a call over the connection that a client has opened.
    fn post(&mut self, id: u64) {
        let xid = self.next_xid();
        let Some(job) = self.jobs.get_mut(id) else { return };
        let Route::Conn { channel, id: conn } = &job.route else { return };
        let (channel, conn) = (Arc::clone(channel), *conn);
        job.stage = Stage::Call;
        let message = encode(job, xid, Stage::Call, &self.config.machine_name);
        let expects_reply = job.expects_reply;
        if expects_reply && !self.shared.expect_on_conn(conn, xid, CallId(id)) {
            return self.finish(id, Err(CallFailure::NoRoom));
        }
        job.under_way = Some((WAKE, xid));
        let mut writer = Writer::new();
        writer.raw(&message);
        match channel.post(writer) {
            Posted::Sent if expects_reply => {}
            Posted::Sent => self.finish(id, Ok(&[])),
            Posted::Gone => self.finish(id, Err(CallFailure::ConnClosed)),
            Posted::Full => self.finish(id, Err(CallFailure::NoRoom)),
        }
    }

    fn take_conn_reply(&mut self, id: u64, record: &[u8]) {
        match Reply::parse(record) {
            Ok(Reply { results: Ok(results), .. }) => self.finish(id, Ok(results.rest())),
            Ok(Reply { results: Err(refusal), .. }) => {
                self.finish(id, Err(CallFailure::Refused(refusal)));
            }
            Err(_) => {
                self.counters.garbled += 1;
                self.finish(id, Err(CallFailure::Garbled));
            }
        }
    }

    /// A call is done: it leaves all tables, then its completion runs.
    fn finish(&mut self, id: u64, result: Result<&[u8], CallFailure>) {
        let Some(job) = self.jobs.remove(id) else { return };
        match (&job.route, job.under_way) {
            (Route::Conn { id: conn, .. }, Some((_, xid))) => self.forget_on_conn(*conn, xid),
            (Route::Machine { .. }, Some((token, xid))) => self.leave(token, xid),
            (_, None) => {}
        }
        if let Some(host) = job.host() {
            match job.stage {
                Stage::Waiting => self.hosts.give_up(host, id),
                Stage::Lookup(_) | Stage::Call => self.hosts.ended(host),
            }
            self.to_look_at.insert(host);
        }
        if matches!(result, Err(CallFailure::Displaced | CallFailure::NoRoom)) {
            self.counters.dropped += 1;
        }
        self.complete(job.done, result);
    }

    fn forget_on_conn(&self, conn: ConnId, xid: u32) {
        self.shared.forget_on_conn(conn, xid);
    }

    fn complete(&mut self, done: rpc::Completion, result: Result<&[u8], CallFailure>) {
        match result {
            Ok(_) => self.counters.answered += 1,
            Err(_) => self.counters.failed += 1,
        }
        if catch_unwind(AssertUnwindSafe(|| done(result))).is_err() {
            tracing::error!("what was to be done after a call to a client has panicked");
        }
    }

    /// Not to be guessed from those before, so that nobody can answer in the place of a machine.
    fn next_xid(&mut self) -> u32 {
        let (random, count) = &mut self.xids;
        *count += 1;
        (random.hash_one(*count) >> 32) as u32
    }

    fn info(&self) -> OutboundInfo {
        let (waiting, under_way) = self.hosts.totals();
        let (unanswering, unanswering_hosts) =
            self.hosts.unanswering(self.clock.now_ms(), SHOWN_HOSTS);
        let stray_replies = self.counters.stray_replies + self.shared.stray_replies.load(Relaxed);
        OutboundInfo {
            endpoints: self.endpoints.len(),
            waiting,
            under_way: self.jobs.len().saturating_sub(waiting).max(under_way),
            unanswering,
            unanswering_hosts,
            counters: OutboundCounters { stray_replies, ..self.counters },
        }
    }
}

/// One message of a call: the question for its port, or the call.
fn encode(job: &Job, xid: u32, stage: Stage, machine_name: &[u8]) -> Vec<u8> {
    let mut message = Writer::new();
    if let (Stage::Lookup(asked), Some(service)) = (stage, job.service()) {
        let (version, procedure) = asked.numbers();
        let program = proto::portmap::PROGRAM;
        message.put(&Request { xid, program, version, procedure, credential: None });
        message.raw(&asked.args(&service));
    } else {
        let (program, version, procedure) = (job.program, job.version, job.procedure);
        let credential = match &job.credential {
            CallCredential::None => None,
            CallCredential::Root => AuthSys::new(machine_name, 0, 0, &[]),
            CallCredential::User(user) => {
                AuthSys::new(&user.machine, user.uid, user.gid, &user.groups)
            }
        };
        message.put(&Request { xid, program, version, procedure, credential });
        message.raw(&job.args);
    }
    message.bytes().to_vec()
}

/// What an error of a socket says of the other side.
fn failure_of(error: &io::Error) -> CallFailure {
    match error.kind() {
        ErrorKind::ConnectionRefused => CallFailure::ConnectionRefused,
        ErrorKind::InvalidData => CallFailure::Garbled,
        ErrorKind::TimedOut => CallFailure::NoAnswer,
        _ => CallFailure::Unreachable,
    }
}
