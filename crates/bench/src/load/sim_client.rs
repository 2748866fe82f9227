//! One simulated client: its identity, its slots, and its calls in flight.
//!
//! An xid has the slot in its low bits and a sequence number above, so that a reply finds its call
//! without a table, and a late duplicate is distinguished from the reply to the slot's next call.
//!
//! Invariant: a slot is free, resting (its generator had no call for it) or busy with one call.

use super::call::CallTemplate;
use super::counters::{DataCounters, ThreadCounters};
use super::error::LoadError;
use super::generator::{CallGenerator, Rng};
use super::op::Op;
use super::plan::{Pace, Plan, SLOT_BITS};
use super::reply::{self, Reply};
use super::version4::State4;
use gss::Caller;
use std::net::SocketAddr;
use std::time::{SystemTime, UNIX_EPOCH};
use xdr::Writer;

/// The part of an xid that is the slot.
const SLOT_MASK: u32 = (1 << SLOT_BITS) - 1;

/// A call in flight, or space for one.
pub(crate) struct Slot {
    pub busy: bool,
    pub xid: u32,
    op: Op,
    /// When the call was due: latency counts from here.
    from_ns: u64,
    /// For datagrams: when to send it again, how often that was done, and what.
    pub again_ns: u64,
    pub tries: u32,
    pub record: Writer,
    /// The call's number in its context.
    protected: u32,
}

/// A simulated client without its socket.
pub(crate) struct SimClient {
    /// Index in the thread's tally.
    pub number: usize,
    pub server: SocketAddr,
    template: CallTemplate,
    /// What the client has at a server of version 4.
    state: Option<State4>,
    /// The context that protects calls, and a call before it is protected.
    caller: Option<(Caller, Writer)>,
    generator: Box<dyn CallGenerator>,
    pub slots: Vec<Slot>,
    free: Vec<usize>,
    resting: Vec<usize>,
    sequence: u32,
    arrivals: Option<Arrivals>,
    /// When a reply last arrived, or the first call was sent.
    pub heard_ns: u64,
}

/// When the calls of an open loop are due: at random, as from many independent users (Poisson).
struct Arrivals {
    next_ns: u64,
    mean_ns: f64,
    rng: Rng,
}

impl Arrivals {
    fn advance(&mut self) {
        #[expect(clippy::cast_precision_loss, reason = "53 bits of chance are enough")]
        let share = (self.rng.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
        let gap_ns = -self.mean_ns * (1.0 - share).ln();
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "positive, and saturates"
        )]
        let gap_ns = gap_ns as u64;
        self.next_ns = self.next_ns.saturating_add(gap_ns);
    }
}

/// A server's reply cache must not take a call of one run for the same call of another, over a new connection: xids rise
/// with the time, by more than the calls that a client makes in it.
fn first_sequence() -> u32 {
    const CALLS_PER_MS: u128 = 64;
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let calls = since_epoch.as_millis().wrapping_mul(CALLS_PER_MS);
    u32::try_from(calls & u128::from(u32::MAX >> SLOT_BITS)).unwrap_or(0)
}

impl SimClient {
    pub(crate) fn new(
        plan: &Plan,
        client: usize,
        number: usize,
        server: SocketAddr,
        (template, state): (CallTemplate, Option<State4>),
        generator: Box<dyn CallGenerator>,
    ) -> Self {
        let slot = |_| Slot {
            busy: false,
            xid: 0,
            op: Op::Null,
            from_ns: 0,
            again_ns: 0,
            tries: 0,
            record: Writer::new(),
            protected: 0,
        };
        let arrivals = match plan.pace {
            Pace::Closed => None,
            Pace::Open(rate) => {
                #[expect(clippy::cast_precision_loss, reason = "at most 60,000")]
                let mean_ns = 1e9 * plan.clients as f64 / rate;
                let rng = Rng::new(plan.seed ^ 0x0a77, client);
                let mut arrivals = Arrivals { next_ns: 0, mean_ns, rng };
                arrivals.advance();
                Some(arrivals)
            }
        };
        Self {
            number,
            server,
            template,
            state,
            caller: None,
            generator,
            slots: (0..plan.depth).map(slot).collect(),
            free: (0..plan.depth).rev().collect(),
            resting: Vec::with_capacity(plan.depth),
            sequence: first_sequence(),
            arrivals,
            heard_ns: 0,
        }
    }

    /// What the client has at a server of version 4, if nothing is under way.
    pub(crate) fn into_state(self) -> Option<State4> {
        if self.under_way() == 0 { self.state } else { None }
    }

    /// Protects its calls by a context; the template's have no record mark then.
    #[must_use]
    pub(crate) fn protected_by(mut self, caller: Option<Caller>) -> Self {
        self.caller = caller.map(|caller| (caller, Writer::new()));
        self
    }

    /// Calls that have no reply yet.
    pub(crate) fn under_way(&self) -> usize {
        self.slots.len() - self.free.len() - self.resting.len()
    }

    /// Whether all its calls are done and answered.
    pub(crate) fn is_done(&self) -> bool {
        self.generator.is_done() && self.under_way() == 0
    }

    /// When the next call is due; `None` in a closed loop, or while no slot is free.
    pub(crate) fn due_ns(&self) -> Option<u64> {
        if self.free.is_empty() { None } else { self.arrivals.as_ref().map(|a| a.next_ns) }
    }

    /// Calls that were due before `end_ns` and never sent.
    pub(crate) fn late(&mut self, end_ns: u64) -> u64 {
        let Some(arrivals) = &mut self.arrivals else { return 0 };
        let mut late = 0;
        while arrivals.next_ns < end_ns {
            late += 1;
            arrivals.advance();
        }
        late
    }

    /// Writes the next call, if one is due, and returns its slot; appended to `out`, or if there is
    /// none into the slot's own record.
    pub(crate) fn next(&mut self, now_ns: u64, out: Option<&mut Writer>) -> Option<usize> {
        let from_ns = match &self.arrivals {
            None => now_ns,
            Some(arrivals) if arrivals.next_ns <= now_ns => arrivals.next_ns,
            Some(_) => return None,
        };
        while let Some(index) = self.free.pop() {
            let Some(slot) = self.slots.get_mut(index) else { continue };
            let Some(call) = self.generator.next(index) else {
                self.resting.push(index);
                continue;
            };
            self.sequence = self.sequence.wrapping_add(1);
            let low_bits = u32::try_from(index).unwrap_or(0) & SLOT_MASK;
            slot.xid = (self.sequence << SLOT_BITS) | low_bits;
            (slot.busy, slot.op, slot.from_ns, slot.tries) = (true, call.op(), from_ns, 0);
            let state = self.state.as_mut().map(|state| (state, index));
            match (out, &mut self.caller) {
                (Some(out), Some((caller, plain))) => {
                    plain.clear();
                    self.template.put(plain, slot.xid, &call, state);
                    slot.protected = put_protected(out, caller, plain.bytes());
                }
                (Some(out), None) => self.template.put(out, slot.xid, &call, state),
                (None, _) => {
                    slot.record.clear();
                    self.template.put(&mut slot.record, slot.xid, &call, state);
                }
            }
            if let Some(arrivals) = &mut self.arrivals {
                arrivals.advance();
            }
            return Some(index);
        }
        None
    }

    /// Frees a slot whose call timed out.
    pub(crate) fn give_up(&mut self, index: usize) {
        if let Some(slot) = self.slots.get_mut(index)
            && slot.busy
        {
            slot.busy = false;
            let nothing = reply::Body::Plain;
            // the generator handles it as a failure: the call did not run, or its outcome is
            // unknown
            self.generator.on_reply(index, u32::MAX, &nothing, &mut DataCounters::default());
            self.release(index);
        }
    }

    fn release(&mut self, index: usize) {
        self.free.push(index);
        // resting slots may wait for a reply
        self.free.append(&mut self.resting);
    }

    /// Handles a received record. `tally` is `None` while nothing is counted.
    pub(crate) fn record(
        &mut self,
        record: &[u8],
        now_ns: u64,
        counters: Option<&mut ThreadCounters>,
    ) -> Result<(), LoadError> {
        let garbage =
            |error: xdr::Error| LoadError::Garbage { server: self.server, what: error.to_string() };
        let xid = reply::xid(record).map_err(garbage)?;
        let index = (xid & SLOT_MASK) as usize;
        self.heard_ns = now_ns;
        let Some(slot) = self.slots.get_mut(index).filter(|slot| slot.busy && slot.xid == xid)
        else {
            if let Some(counters) = counters {
                counters.strays += 1;
            }
            return Ok(());
        };
        let (op, from_ns) = (slot.op, slot.from_ns);
        let mut buffer = Vec::new();
        let plain = match &self.caller {
            None => record,
            Some((caller, _)) => {
                caller.open(slot.protected, record, &mut buffer).map_err(|error| {
                    LoadError::Garbage { server: self.server, what: error.to_string() }
                })?
            }
        };
        let state = self.state.as_mut().map(|state| (state, index));
        let reply = reply::read(plain, self.template.version(), op, state).map_err(garbage)?;
        slot.busy = false;
        let (status, body) = match &reply {
            Reply::Result { status, body } => (*status, body),
            Reply::Rejected(_) => (u32::MAX, &reply::Body::Plain),
        };
        match counters {
            None => self.generator.on_reply(index, status, body, &mut DataCounters::default()),
            Some(counters) => {
                counters.call(op, self.number, now_ns.saturating_sub(from_ns));
                counters.bytes_in += record.len() as u64;
                match reply {
                    Reply::Result { status: 0, .. } => {}
                    Reply::Result { status, .. } => counters.failed(op, status),
                    Reply::Rejected(why) => counters.rejected(op, why),
                }
                self.generator.on_reply(index, status, body, &mut counters.data_counters);
            }
        }
        self.release(index);
        Ok(())
    }
}

/// Appends a call as a protected record; its number.
fn put_protected(out: &mut Writer, caller: &mut Caller, plain: &[u8]) -> u32 {
    let mark = out.mark();
    out.u32(0);
    let start = out.mark();
    // what the template writes is a call, and our own protection does not fail
    let number = caller.protect(plain, out).unwrap_or_default();
    out.patch_u32(mark, rpc::record::mark(out.written_since(start)).unwrap_or(0));
    number
}
