//! One simulated client: its identity, its lanes, and what it has under way.
//!
//! An xid carries the lane in its low bits and a running number above, so that an answer finds its
//! call without a table, and a late duplicate is told from the answer to the lane's next call.
//!
//! Invariant: a lane is free, resting (its work had nothing for it) or busy with one call.

use super::answer::{self, Answer};
use super::ask::Head;
use super::error::LoadError;
use super::op::Op;
use super::plan::{Pace, Plan, SLOT_BITS};
use super::tally::{Checks, Tally};
use super::work::{Dice, Work};
use std::net::SocketAddr;
use xdr::Writer;

/// The part of an xid that is the lane.
const LANE_MASK: u32 = (1 << SLOT_BITS) - 1;

/// A call under way, or room for one.
pub(crate) struct Lane {
    pub busy: bool,
    pub xid: u32,
    op: Op,
    /// When the call was due: latency counts from here.
    from_ns: u64,
    /// For datagrams: when to send it again, how often that was done, and what.
    pub again_ns: u64,
    pub tries: u32,
    pub record: Writer,
}

/// A simulated client without its socket.
pub(crate) struct Seat {
    /// Index in the thread's tally.
    pub number: usize,
    pub server: SocketAddr,
    head: Head,
    work: Box<dyn Work>,
    pub lanes: Vec<Lane>,
    free: Vec<usize>,
    resting: Vec<usize>,
    sequence: u32,
    arrivals: Option<Arrivals>,
    /// When something was last heard, or the first call sent.
    pub heard_ns: u64,
}

/// When the calls of an open loop are due: at random, as from many independent users (Poisson).
struct Arrivals {
    next_ns: u64,
    mean_ns: f64,
    dice: Dice,
}

impl Arrivals {
    fn advance(&mut self) {
        #[expect(clippy::cast_precision_loss, reason = "53 bits of chance are enough")]
        let share = (self.dice.roll() >> 11) as f64 / (1_u64 << 53) as f64;
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

impl Seat {
    pub(crate) fn new(
        plan: &Plan,
        client: usize,
        number: usize,
        server: SocketAddr,
        head: Head,
        work: Box<dyn Work>,
    ) -> Self {
        let lane = |_| Lane {
            busy: false,
            xid: 0,
            op: Op::Null,
            from_ns: 0,
            again_ns: 0,
            tries: 0,
            record: Writer::new(),
        };
        let arrivals = match plan.pace {
            Pace::Closed => None,
            Pace::Open(rate) => {
                #[expect(clippy::cast_precision_loss, reason = "at most 60,000")]
                let mean_ns = 1e9 * plan.clients as f64 / rate;
                let dice = Dice::new(plan.seed ^ 0x0a77, client);
                let mut arrivals = Arrivals { next_ns: 0, mean_ns, dice };
                arrivals.advance();
                Some(arrivals)
            }
        };
        // a server that keeps replies must not take one run's xids for another's
        let sequence = u32::try_from(plan.seed & 0xfff).unwrap_or(0) << 8;
        Self {
            number,
            server,
            head,
            work,
            lanes: (0..plan.depth).map(lane).collect(),
            free: (0..plan.depth).rev().collect(),
            resting: Vec::with_capacity(plan.depth),
            sequence,
            arrivals,
            heard_ns: 0,
        }
    }

    /// Calls that have no answer yet.
    pub(crate) fn under_way(&self) -> usize {
        self.lanes.len() - self.free.len() - self.resting.len()
    }

    /// Whether its work is done and answered.
    pub(crate) fn is_done(&self) -> bool {
        self.work.is_done() && self.under_way() == 0
    }

    /// When the next call is due; `None` in a closed loop, or while no lane is free.
    pub(crate) fn due_ns(&self) -> Option<u64> {
        if self.free.is_empty() { None } else { self.arrivals.as_ref().map(|a| a.next_ns) }
    }

    /// Calls that were due before `end_ns` and never went out.
    pub(crate) fn late(&mut self, end_ns: u64) -> u64 {
        let Some(arrivals) = &mut self.arrivals else { return 0 };
        let mut late = 0;
        while arrivals.next_ns < end_ns {
            late += 1;
            arrivals.advance();
        }
        late
    }

    /// Writes the next call, if one is to go out now, and gives its lane; behind the others in `out`,
    /// or where there is none into the lane's own record.
    pub(crate) fn next(&mut self, now_ns: u64, out: Option<&mut Writer>) -> Option<usize> {
        let from_ns = match &self.arrivals {
            None => now_ns,
            Some(arrivals) if arrivals.next_ns <= now_ns => arrivals.next_ns,
            Some(_) => return None,
        };
        while let Some(index) = self.free.pop() {
            let Some(lane) = self.lanes.get_mut(index) else { continue };
            let Some(ask) = self.work.next(index) else {
                self.resting.push(index);
                continue;
            };
            self.sequence = self.sequence.wrapping_add(1);
            let slot = u32::try_from(index).unwrap_or(0) & LANE_MASK;
            lane.xid = (self.sequence << SLOT_BITS) | slot;
            (lane.busy, lane.op, lane.from_ns, lane.tries) = (true, ask.op(), from_ns, 0);
            match out {
                Some(out) => self.head.put(out, lane.xid, &ask),
                None => {
                    lane.record.clear();
                    self.head.put(&mut lane.record, lane.xid, &ask);
                }
            }
            if let Some(arrivals) = &mut self.arrivals {
                arrivals.advance();
            }
            return Some(index);
        }
        None
    }

    /// Frees a lane whose call is given up.
    pub(crate) fn give_up(&mut self, index: usize) {
        if let Some(lane) = self.lanes.get_mut(index)
            && lane.busy
        {
            lane.busy = false;
            let nothing = answer::Body::Plain;
            // the work hears of a failure: what it asked did not happen, or nobody knows
            self.work.answered(index, u32::MAX, &nothing, &mut Checks::default());
            self.release(index);
        }
    }

    fn release(&mut self, index: usize) {
        self.free.push(index);
        // an answer may be what resting lanes wait for
        self.free.append(&mut self.resting);
    }

    /// Takes a record in. `tally` is `None` while nothing counts.
    pub(crate) fn record(
        &mut self,
        record: &[u8],
        now_ns: u64,
        tally: Option<&mut Tally>,
    ) -> Result<(), LoadError> {
        let garbage =
            |error: xdr::Error| LoadError::Garbage { server: self.server, what: error.to_string() };
        let xid = answer::xid(record).map_err(garbage)?;
        let index = (xid & LANE_MASK) as usize;
        self.heard_ns = now_ns;
        let Some(lane) = self.lanes.get_mut(index).filter(|lane| lane.busy && lane.xid == xid)
        else {
            if let Some(tally) = tally {
                tally.strays += 1;
            }
            return Ok(());
        };
        let (op, from_ns) = (lane.op, lane.from_ns);
        let answer = answer::read(record, self.head.version(), op).map_err(garbage)?;
        lane.busy = false;
        let (status, body) = match &answer {
            Answer::Result { status, body } => (*status, body),
            Answer::Refused(_) => (u32::MAX, &answer::Body::Plain),
        };
        match tally {
            None => self.work.answered(index, status, body, &mut Checks::default()),
            Some(tally) => {
                tally.call(op, self.number, now_ns.saturating_sub(from_ns));
                tally.bytes_in += record.len() as u64;
                match answer {
                    Answer::Result { status: 0, .. } => {}
                    Answer::Result { status, .. } => tally.failed(op, status),
                    Answer::Refused(why) => tally.refused(op, why),
                }
                self.work.answered(index, status, body, &mut tally.checks);
            }
        }
        self.release(index);
        Ok(())
    }
}
