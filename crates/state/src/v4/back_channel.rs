//! A session's back channel: its connections, its slots, and the consequences of a callback's outcome (RFC 8881
//! §2.10.3.1, §2.10.6).
//!
//! A callback takes a slot and is sent over one connection after the other until it is answered, always with the same
//! slot and sequence ID, so that the client runs it once. When all connections were tried the slot is freed. It is not
//! known then whether the client has seen the sequence ID; the next callback on the slot finds out: if that sequence ID
//! was used, it is sent again with the following one.
//!
//! No lock: the owner of a [`BackChannel`] guards it. `C` is the connection.
//!
//! Invariants: a busy slot belongs to one [`BackCall`]; a call is sent over no connection twice with one sequence ID.

/// Slots of a back channel at the most, whatever the client offers.
pub const BACK_SLOTS_MAX: u32 = 32;
/// Connections of a back channel at the most.
pub const BACK_CONNS_MAX: usize = 64;

#[derive(Debug, Clone)]
struct BackConn<C> {
    id: u64,
    conn: C,
    /// The last callback or probe over it was not answered.
    silent: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct BackSlot {
    /// The sequence ID of the next callback.
    number: u32,
    busy: bool,
    /// The client may have seen that sequence ID.
    uncertain: bool,
    /// Client and server do not agree on its sequence ID, or the client has no such slot.
    lost: bool,
}

/// A callback on its slot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackCall {
    slot: usize,
    number: u32,
    /// The connections that it was sent over.
    tried: Vec<u64>,
    /// Its sequence ID is the one after that it began with.
    moved: bool,
}

impl BackCall {
    /// Its slot.
    pub fn slot(&self) -> u32 {
        u32::try_from(self.slot).unwrap_or(u32::MAX)
    }

    /// Its sequence ID on the slot.
    pub const fn number(&self) -> u32 {
        self.number
    }
}

/// What a client answers to CB_SEQUENCE.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BackAnswer {
    /// It runs the callback.
    Runs,
    /// The sequence ID was used, for this callback or for another one (NFS4ERR_RETRY_UNCACHED_REP, NFS4ERR_SEQ_FALSE_RETRY).
    Seen,
    /// The sequence ID is neither the last one nor the next (NFS4ERR_SEQ_MISORDERED).
    Misordered,
    /// It has no such slot (NFS4ERR_BADSLOT).
    NoSlot,
    /// Not now (NFS4ERR_DELAY).
    Later,
    /// Any other error, or a reply that cannot be decoded.
    Fault,
}

/// What is to be done with a callback.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BackStep {
    /// It has run, its results follow; the slot is free.
    Done,
    /// It has run, and its results are lost; the slot is free.
    DoneBefore,
    /// Send it over the same connection again, with its new sequence ID.
    Again,
    /// Send it again later, unchanged.
    Later,
    /// Give it another slot.
    OtherSlot,
    /// It cannot be delivered over this session, whose back channel is faulty now.
    Lost,
}

/// A session's back channel.
#[derive(Debug, Clone)]
pub struct BackChannel<C> {
    conns: Vec<BackConn<C>>,
    slots: Vec<BackSlot>,
    /// A connection was bound at some time.
    wanted: bool,
    faulty: bool,
}

impl<C: Clone> BackChannel<C> {
    /// Without a connection, with as many slots as the client offers.
    pub fn new(slots: u32) -> Self {
        let slot = BackSlot { number: 1, busy: false, uncertain: false, lost: false };
        let slots = vec![slot; slots.min(BACK_SLOTS_MAX) as usize];
        Self { conns: Vec::new(), slots, wanted: false, faulty: false }
    }

    /// Binds a connection, or marks one that is bound already as answering; `false` if there are too many, or no slots.
    pub fn bind(&mut self, id: u64, conn: C) -> bool {
        if self.slots.is_empty() {
            return false;
        }
        if let Some(bound) = self.conns.iter_mut().find(|bound| bound.id == id) {
            bound.silent = false;
            return true;
        }
        if self.conns.len() >= BACK_CONNS_MAX {
            return false;
        }
        self.conns.push(BackConn { id, conn, silent: false });
        self.wanted = true;
        true
    }

    /// Whether a connection is bound.
    pub fn is_bound(&self, id: u64) -> bool {
        self.conns.iter().any(|bound| bound.id == id)
    }

    /// The connection is closed; `false` if it was not bound.
    pub fn unbind(&mut self, id: u64) -> bool {
        let before = self.conns.len();
        self.conns.retain(|bound| bound.id != id);
        self.conns.len() < before
    }

    /// Whether a callback is likely to be answered: the channel is not faulty and a connection answers.
    pub fn is_up(&self) -> bool {
        !self.faulty && self.conns.iter().any(|bound| !bound.silent)
    }

    /// Whether a connection was bound at some time.
    pub const fn was_wanted(&self) -> bool {
        self.wanted
    }

    /// Whether client and server disagree on all slots, or the client does not accept the session: it needs a new one.
    pub const fn is_faulty(&self) -> bool {
        self.faulty
    }

    /// How many connections are bound.
    pub fn conn_count(&self) -> usize {
        self.conns.len()
    }

    /// How many slots can be used.
    pub fn slot_count(&self) -> usize {
        self.slots.iter().filter(|slot| !slot.lost).count()
    }

    /// How many callbacks have a slot.
    pub fn under_way(&self) -> usize {
        self.slots.iter().filter(|slot| slot.busy).count()
    }

    /// The highest busy slot.
    pub fn highest_busy(&self) -> u32 {
        let highest = self.slots.iter().rposition(|slot| slot.busy).unwrap_or(0);
        u32::try_from(highest).unwrap_or(u32::MAX)
    }

    /// The lowest free slot for a callback.
    pub fn begin(&mut self) -> Option<BackCall> {
        let at = self.slots.iter().position(|slot| !slot.busy && !slot.lost)?;
        let slot = self.slots.get_mut(at)?;
        slot.busy = true;
        Some(BackCall { slot: at, number: slot.number, tried: Vec::new(), moved: false })
    }

    /// The connection that a callback is sent over next; `None` if all were tried.
    pub fn route(&self, call: &mut BackCall) -> Option<(u64, C)> {
        let untried = |bound: &&BackConn<C>| !call.tried.contains(&bound.id);
        let mut answering = self.conns.iter().filter(untried).filter(|bound| !bound.silent);
        let bound = answering.next().or_else(|| self.conns.iter().find(untried))?;
        call.tried.push(bound.id);
        Some((bound.id, bound.conn.clone()))
    }

    /// A callback, or a probe, over this connection was answered.
    pub fn heard(&mut self, id: u64) {
        self.set_silent(id, false);
    }

    /// It was not answered.
    pub fn unanswered(&mut self, id: u64) {
        self.set_silent(id, true);
    }

    fn set_silent(&mut self, id: u64, silent: bool) {
        if let Some(bound) = self.conns.iter_mut().find(|bound| bound.id == id) {
            bound.silent = silent;
        }
    }

    /// The callback was not answered over any connection: frees its slot.
    pub fn give_up(&mut self, call: &BackCall) {
        self.free(call, call.number, true);
    }

    /// CB_SEQUENCE was answered.
    pub fn answered(&mut self, call: &mut BackCall, answer: BackAnswer) -> BackStep {
        let (number, next) = (call.number, call.number.wrapping_add(1));
        let was_uncertain = self.slots.get(call.slot).is_some_and(|slot| slot.uncertain);
        match answer {
            BackAnswer::Runs => {
                self.free(call, next, false);
                BackStep::Done
            }
            BackAnswer::Later => BackStep::Later,
            // it arrived over an earlier connection
            BackAnswer::Seen if call.tried.len() > 1 && (call.moved || !was_uncertain) => {
                self.free(call, next, false);
                BackStep::DoneBefore
            }
            BackAnswer::Seen | BackAnswer::Misordered if !call.moved => {
                call.moved = true;
                call.number = next;
                BackStep::Again
            }
            BackAnswer::Seen | BackAnswer::Misordered => {
                self.lose(call.slot);
                BackStep::OtherSlot
            }
            BackAnswer::NoSlot => {
                // and none above it
                for at in call.slot..self.slots.len() {
                    self.lose(at);
                }
                BackStep::OtherSlot
            }
            BackAnswer::Fault => {
                self.free(call, number, true);
                self.faulty = true;
                BackStep::Lost
            }
        }
    }

    fn free(&mut self, call: &BackCall, number: u32, uncertain: bool) {
        if let Some(slot) = self.slots.get_mut(call.slot) {
            *slot = BackSlot { number, busy: false, uncertain, lost: slot.lost };
        }
    }

    fn lose(&mut self, at: usize) {
        if let Some(slot) = self.slots.get_mut(at) {
            slot.lost = true;
            slot.busy = false;
        }
        self.faulty |= self.slots.iter().all(|slot| slot.lost);
    }
}

#[cfg(test)]
mod tests {
    use super::{BACK_CONNS_MAX, BackAnswer, BackCall, BackChannel, BackStep};

    fn channel(slots: u32, conns: u64) -> BackChannel<u64> {
        let mut channel = BackChannel::new(slots);
        for id in 0..conns {
            assert!(channel.bind(id, id));
        }
        channel
    }

    fn sent(channel: &mut BackChannel<u64>) -> BackCall {
        let mut call = channel.begin().unwrap();
        channel.route(&mut call).unwrap();
        call
    }

    #[test]
    fn a_callback_is_sent_over_each_connection_once_with_its_sequence_id() {
        let mut channel = channel(1, 2);
        let mut call = channel.begin().unwrap();
        assert_eq!(channel.begin(), None, "one slot");
        assert_eq!(channel.route(&mut call), Some((0, 0)));
        channel.unanswered(0);
        assert!(channel.is_up());
        assert_eq!((channel.route(&mut call), call.number()), (Some((1, 1)), 1));
        channel.unanswered(1);
        assert!(!channel.is_up());
        assert_eq!(channel.route(&mut call), None);
        channel.give_up(&call);
        // the client has not seen the first one
        let mut call = sent(&mut channel);
        assert_eq!(call.number(), 1);
        assert_eq!(channel.answered(&mut call, BackAnswer::Runs), BackStep::Done);
        assert_eq!(sent(&mut channel).number(), 2);
    }

    #[test]
    fn a_sequence_id_that_the_client_has_seen_is_not_used_again() {
        for answer in [BackAnswer::Seen, BackAnswer::Misordered] {
            let mut channel = channel(1, 1);
            let call = sent(&mut channel);
            channel.give_up(&call);
            let mut call = sent(&mut channel);
            assert_eq!(channel.answered(&mut call, answer), BackStep::Again);
            assert_eq!(call.number(), 2);
            assert_eq!(channel.answered(&mut call, BackAnswer::Runs), BackStep::Done);
            assert_eq!(sent(&mut channel).number(), 3);
        }
    }

    #[test]
    fn a_callback_that_has_run_by_another_connection_is_done() {
        let mut channel = channel(1, 2);
        let mut call = sent(&mut channel);
        channel.route(&mut call).unwrap();
        assert_eq!(channel.answered(&mut call, BackAnswer::Seen), BackStep::DoneBefore);
        assert_eq!(sent(&mut channel).number(), 2);
    }

    #[test]
    fn slots_that_are_lost_are_not_used_and_without_any_the_channel_is_faulty() {
        let mut channel = channel(3, 1);
        let mut calls: Vec<_> = (0..3).map(|_| sent(&mut channel)).collect();
        assert_eq!(channel.highest_busy(), 2);
        assert_eq!(channel.answered(&mut calls[1], BackAnswer::NoSlot), BackStep::OtherSlot);
        assert_eq!((channel.slot_count(), channel.is_faulty()), (1, false));
        assert_eq!(channel.answered(&mut calls[0], BackAnswer::Misordered), BackStep::Again);
        assert_eq!(channel.answered(&mut calls[0], BackAnswer::Misordered), BackStep::OtherSlot);
        assert!(channel.is_faulty() && !channel.is_up());
    }

    #[test]
    fn a_delay_keeps_the_slot_and_another_error_ends_the_channel() {
        let mut channel = channel(1, 1);
        let mut call = sent(&mut channel);
        assert_eq!(channel.answered(&mut call, BackAnswer::Later), BackStep::Later);
        assert_eq!((channel.begin(), call.number()), (None, 1));
        assert_eq!(channel.answered(&mut call, BackAnswer::Fault), BackStep::Lost);
        assert!(channel.is_faulty());
    }

    #[test]
    fn connections_are_bounded_bound_once_and_unbound() {
        let mut channel = channel(1, BACK_CONNS_MAX as u64);
        assert!(!channel.bind(1000, 1000));
        channel.unanswered(3);
        assert!(channel.bind(3, 3), "bound already, and marked as answering");
        assert!(channel.unbind(3) && !channel.unbind(3));
        assert_eq!(channel.conn_count(), BACK_CONNS_MAX - 1);
        assert!(!BackChannel::<u64>::new(0).bind(1, 1), "no slots, no back channel");
    }
}
