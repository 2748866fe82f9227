//! Data of a large WRITE goes to its file as it arrives (why, and what the dispatcher does about it:
//! [`rpc::large_argument`]).
//!
//! What was received lies in the worker's buffer, in the processor's caches. When the whole pages of it were
//! taken, the rest, the *front* (the arguments, less than a page of data), is all that the connection keeps; in
//! its next round a copy of the front goes to the beginning of the buffer, and the next receive behind it, so
//! that both lie together again. The last receive completes the record where it lies, and the call is answered
//! like any other.
//!
//! Where little arrives at a time, that would copy more than it saves: a receive that brings less than
//! [`AHEAD_BYTES_MIN`] is joined to the front in the connection's memory, the next ones go straight there, and
//! when as much is there as one receive could have brought it is taken from there.
//!
//! A procedure may refuse to take more in the middle (the most that may be written at once has become less
//! meanwhile). Then the rest of the record is received like that of any other call: if the procedure were asked
//! again for what it has refused, nothing more would ever be received.
//!
//! A piece is part of a service round, as a call is. One that may block leaves the event loop to a follower, but
//! keeps the connection, of which nothing else could be answered meanwhile: it is in the middle of a record.

use crate::conn::connection::{Conn, Rx, Sent};
use crate::limits::{AHEAD_BYTES_MIN, FRONT_BYTES_MAX, LARGE_BEGIN_BYTES, RECEIVE_BYTES};
use crate::pool::blocked_calls::Caller;
use crate::pool::unread;
use crate::service::round::{Admission, Round};
use crate::service::stream_round::{DataSource, RoundEnd, Step, StreamRound};
use rpc::record::{MARK_LEN, Record, RecordError};
use rpc::{Blocking, LargeArgument, PartialRecord};
use std::cell::Cell;
use std::mem;
use std::ops::Range;
use telemetry::Counter;
use xdr::Writer;

/// At the start of a record in one fragment that one receive cannot bring: takes its mark.
pub(crate) fn begin(rx: &mut Rx, input: &mut &[u8], max: usize) -> Result<(), RecordError> {
    if !rx.partial.is_empty() {
        return Ok(());
    }
    rx.argument = None;
    let Some((mark, rest)) = input.split_first_chunk::<MARK_LEN>() else { return Ok(()) };
    if rpc::record::single(*mark).is_some_and(|len| len > RECEIVE_BYTES) {
        rx.partial.next(&mut mark.as_slice(), max)?;
        rx.argument = Some(LargeArgument::default());
        *input = rest;
    }
    Ok(())
}

/// Copies what is kept of a record whose data is taken as it comes to the beginning of the receive buffer;
/// how much that is.
pub(crate) fn front(rx: &Rx, buf: &mut [u8]) -> Option<usize> {
    taking(rx).filter(|argument| !argument.is_empty())?;
    let kept = rx.partial.so_far().filter(|kept| kept.len() <= FRONT_BYTES_MAX)?;
    buf.get_mut(..kept.len())?.copy_from_slice(kept);
    Some(kept.len())
}

/// The next step for a large record of which all that is kept lies at the start of `input`: to
/// answer it, if that completes it, or to have data taken, if there is enough.
pub(crate) fn in_place<'b>(rx: &mut Rx, front: usize, input: &mut &'b [u8]) -> Option<Step<'b>> {
    taking(rx)?;
    rx.partial.so_far().filter(|kept| kept.len() == front)?;
    let whole = front.saturating_add(rx.partial.missing());
    if let Some((record, rest)) = input.split_at_checked(whole) {
        *input = rest;
        rx.partial.arrived_whole();
        return Some(Step::Answer(Record::InPlace(record), taken(rx)));
    }
    let least = if rx.large { LARGE_BEGIN_BYTES } else { AHEAD_BYTES_MIN };
    (input.len() >= least)
        .then(|| Step::TakeData(DataSource::Received { bytes: mem::take(input), front }))
}

/// Has data taken of a record that is being put together, if there is enough.
pub(crate) fn joined<'b>(rx: &Rx) -> Option<Step<'b>> {
    is_enough(rx).then_some(Step::TakeData(DataSource::Kept))
}

/// Whether so much of a record that is being put together is there that its data should be taken.
pub(crate) fn is_enough(rx: &Rx) -> bool {
    let gathered = || rx.partial.so_far().map_or(0, <[u8]>::len);
    taking(rx).is_some() && gathered() >= RECEIVE_BYTES
}

/// What was taken of the record under way, if more of it may be.
pub(crate) fn taking(rx: &Rx) -> Option<&LargeArgument> {
    rx.argument.as_ref().filter(|argument| !argument.is_over())
}

/// What was taken of a record that is whole now, if anything.
pub(crate) fn taken(rx: &mut Rx) -> Option<LargeArgument> {
    rx.argument.take().filter(|argument| !argument.is_empty())
}

impl StreamRound<'_> {
    /// Has data of the record under way taken. Ends the round: nothing of what was received is left.
    pub(crate) fn take_data(&self, source: DataSource<'_>, spare: &mut Writer) -> RoundEnd {
        let Some(mut rx) = self.rx.borrow_mut().take() else { return RoundEnd::AllAnswered };
        let mut argument = rx.argument.take().unwrap_or_default();
        let (bytes, front) = match source {
            DataSource::Received { bytes, front } => (bytes, front),
            DataSource::Kept => {
                let kept = rx.partial.so_far().unwrap_or_default();
                (kept, kept.len())
            }
        };
        let new = bytes.get(front..).unwrap_or_default().len();
        let missing = rx.partial.missing().saturating_sub(new);
        let partial = PartialRecord { so_far: bytes, piped: None, missing };
        let (taken, end) = self.ask(&rx.conn, partial, &mut argument);
        let taken = Some(taken).filter(|taken| !taken.is_empty());
        // Nothing was taken of as much as is ever gathered: more would not help.
        if taken.is_none() && matches!(source, DataSource::Kept) {
            argument.end();
        }
        rx.argument = (!argument.is_over() || !argument.is_empty()).then_some(argument);
        self.round.stats.add(Counter::PiecesAhead, u64::from(taken.is_some()));
        keep_rest(&mut rx, source, taken, spare);
        *self.rx.borrow_mut() = Some(rx);
        end
    }

    /// Asks the dispatcher what of a record can be taken, and how the round ends.
    pub(crate) fn ask(
        &self,
        conn: &Conn,
        partial: PartialRecord<'_>,
        argument: &mut LargeArgument,
    ) -> (Range<usize>, RoundEnd) {
        let blocking = PieceBlocking {
            stream: self,
            conn,
            has_blocked: Cell::default(),
            broken: Cell::default(),
        };
        self.round.set_procedure(partial.so_far);
        let dispatcher = &self.round.shared().dispatcher;
        let taken = dispatcher.take_data(partial, &self.peer, &blocking, argument);
        if blocking.has_blocked.get() && self.round.resumes_at_once() {
            self.round.resumed();
        }
        (taken, if blocking.broken.get() { RoundEnd::Broken } else { RoundEnd::Paused })
    }
}

/// Keeps of what has arrived what was not taken.
fn keep_rest(rx: &mut Rx, source: DataSource<'_>, taken: Option<Range<usize>>, spare: &mut Writer) {
    match (source, taken) {
        (DataSource::Kept, None) => {}
        (DataSource::Kept, Some(taken)) => rx.partial.forget(taken),
        (DataSource::Received { bytes, front }, None) => {
            rx.partial.reuse(spare);
            rx.partial.join(bytes.get(front..).unwrap_or_default());
        }
        (DataSource::Received { bytes, front }, Some(taken)) => {
            let before = bytes.get(..taken.start).unwrap_or_default();
            let behind = bytes.get(taken.end..).unwrap_or_default();
            rx.partial.arrived(bytes.len().saturating_sub(front), [before, behind]);
        }
    }
}

/// A piece under way, as the procedure sees it.
struct PieceBlocking<'t, 'b> {
    stream: &'t StreamRound<'b>,
    conn: &'t Conn,
    has_blocked: Cell<bool>,
    broken: Cell<bool>,
}

impl Blocking for PieceBlocking<'_, '_> {
    /// Lets another thread lead; the connection stays with this worker. The end of the round finds that
    /// the round is not current any more, as after a rescue by the watchdog.
    fn will_block(&self) {
        if self.has_blocked.replace(true) {
            return;
        }
        let Round { pool, stats, .. } = &self.stream.round;
        let mut collected = self.stream.collected.borrow_mut();
        let sent = self.conn.send(&pool.handles, stats, &[&collected]);
        let sent = unread::account(sent, self.conn, &pool.shared, stats);
        collected.clear();
        self.broken.set(sent == Sent::Broken);
        self.stream.round.step_aside(|_| {});
    }

    fn will_block_in(&self, export: u16) -> bool {
        self.will_block();
        let (conn, addr) = (Some(self.conn.id), Some(self.conn.peer.addr));
        self.stream.round.enter_export(export, Caller { conn, addr }, Admission::DataTaken)
    }
}
