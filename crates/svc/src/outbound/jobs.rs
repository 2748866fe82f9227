//! The calls that are not done, and when each has to be looked at.

use crate::outbound::hosts::HostKey;
use crate::outbound::port_lookup::{LookupVersion, Service};
use rpc::{
    BackChannel, CallCredential, CallTarget, Completion, OutboundCall, ProgramPort, Transport,
};
use rpc::{CallerAddress, ConnId};
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

/// How far a call has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// It waits for its turn.
    Waiting,
    /// The port is being asked for.
    Lookup(LookupVersion),
    /// The call itself is under way.
    Call,
}

/// Where it goes.
pub(super) enum Route {
    Machine { to: CallerAddress, port: ProgramPort, transport: Transport },
    Conn { channel: Arc<dyn BackChannel>, id: ConnId },
}

/// A call.
pub(super) struct Job {
    pub route: Route,
    pub program: u32,
    pub version: u32,
    pub procedure: u32,
    pub credential: CallCredential,
    pub args: Vec<u8>,
    pub expects_reply: bool,
    pub done: Completion,
    pub stage: Stage,
    /// The endpoint that it is under way on, and the xid.
    pub under_way: Option<(u64, u32)>,
    /// What was sent, to be sent again.
    pub message: Vec<u8>,
    /// The port is remembered from an earlier call.
    pub port_is_old: bool,
    /// It was tried a second time, because a remembered port or an open connection was out of date.
    pub tried_again: bool,
    deadline_ms: u64,
    resend: Option<Resend>,
}

#[derive(Debug, Clone, Copy)]
struct Resend {
    at_ms: u64,
    after_ms: u64,
}

impl Job {
    /// The job for a call.
    pub fn new(call: OutboundCall, now_ms: u64) -> Result<Self, Completion> {
        let OutboundCall { target, program, version, procedure, credential, args, .. } = call;
        let route = match target {
            CallTarget::Machine { to, port, transport } => Route::Machine { to, port, transport },
            CallTarget::Conn(channel) => match channel.conn() {
                Some(id) => Route::Conn { channel, id },
                None => return Err(call.done),
            },
        };
        Ok(Self {
            route,
            program,
            version,
            procedure,
            credential,
            args,
            expects_reply: call.expects_reply,
            done: call.done,
            stage: Stage::Waiting,
            under_way: None,
            message: Vec::new(),
            port_is_old: false,
            tried_again: false,
            deadline_ms: now_ms.saturating_add(call.timeout_ms),
            resend: None,
        })
    }

    /// The machine that it goes to, or the port of it that counts as one; `None` for one over a client's connection.
    pub const fn host(&self) -> Option<HostKey> {
        match &self.route {
            Route::Machine { to, port: ProgramPort::Answered(port), .. } => Some(to.at(*port)),
            Route::Machine { to, .. } => Some(to.at(0)),
            Route::Conn { .. } => None,
        }
    }

    /// What the port mapper is asked for.
    pub const fn service(&self) -> Option<Service> {
        let (program, version) = (self.program, self.version);
        match &self.route {
            Route::Machine { to, port: ProgramPort::AskPortmapper, transport } => {
                Some(Service { host: to.addr(), program, version, transport: *transport })
            }
            Route::Machine { .. } | Route::Conn { .. } => None,
        }
    }
}

/// What a time is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Timer {
    /// The call is late.
    Deadline(u64),
    /// The datagram is to be sent again.
    Resend(u64),
    /// The machine may be called again.
    Host(HostKey),
    /// The endpoint may be unused.
    Idle(u64),
}

/// All calls and times.
#[derive(Default)]
pub(super) struct Jobs {
    jobs: HashMap<u64, Job>,
    timers: BTreeSet<(u64, Timer)>,
}

impl Jobs {
    pub fn len(&self) -> usize {
        self.jobs.len()
    }

    pub fn add(&mut self, id: u64, job: Job) {
        self.timers.insert((job.deadline_ms, Timer::Deadline(id)));
        self.jobs.insert(id, job);
    }

    pub fn get_mut(&mut self, id: u64) -> Option<&mut Job> {
        self.jobs.get_mut(&id)
    }

    /// Takes a call out, with its times.
    pub fn remove(&mut self, id: u64) -> Option<Job> {
        let job = self.jobs.remove(&id)?;
        self.timers.remove(&(job.deadline_ms, Timer::Deadline(id)));
        if let Some(resend) = job.resend {
            self.timers.remove(&(resend.at_ms, Timer::Resend(id)));
        }
        Some(job)
    }

    /// Has a datagram sent again after a while, and each time after twice as long, up to eight times that.
    pub fn resend_later(&mut self, id: u64, now_ms: u64, first_ms: u64) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        let after_ms = job.resend.map_or(first_ms, |resend| {
            resend.after_ms.saturating_mul(2).min(first_ms.saturating_mul(8))
        });
        self.no_resend(id);
        let at_ms = now_ms.saturating_add(after_ms);
        self.timers.insert((at_ms, Timer::Resend(id)));
        if let Some(job) = self.jobs.get_mut(&id) {
            job.resend = Some(Resend { at_ms, after_ms });
        }
    }

    /// The datagram is not to be sent again.
    pub fn no_resend(&mut self, id: u64) {
        if let Some(resend) = self.jobs.get_mut(&id).and_then(|job| job.resend.take()) {
            self.timers.remove(&(resend.at_ms, Timer::Resend(id)));
        }
    }

    pub fn at(&mut self, at_ms: u64, timer: Timer) {
        self.timers.insert((at_ms, timer));
    }

    /// The next time.
    pub fn next_ms(&self) -> Option<u64> {
        self.timers.first().map(|(at_ms, _)| *at_ms)
    }

    /// What is due.
    pub fn due(&mut self, now_ms: u64) -> Option<Timer> {
        let (at_ms, timer) = *self.timers.first()?;
        if at_ms > now_ms {
            return None;
        }
        self.timers.pop_first();
        if let Timer::Resend(id) = timer
            && let Some(job) = self.jobs.get_mut(&id)
            && let Some(resend) = &mut job.resend
        {
            resend.at_ms = 0;
        }
        Some(timer)
    }

    /// The calls over a client's connection.
    pub fn of_conn(&self, conn: ConnId) -> Vec<u64> {
        let here = |job: &Job| matches!(&job.route, Route::Conn { id, .. } if *id == conn);
        self.jobs.iter().filter(|(_, job)| here(job)).map(|(id, _)| *id).collect()
    }

    /// All calls.
    pub fn all(&self) -> Vec<u64> {
        self.jobs.keys().copied().collect()
    }
}
