//! Data of a large WRITE goes to its file as it arrives (why, and what the dispatcher does about it:
//! [`rpc::Ahead`]).
//!
//! What was received lies in the worker's buffer, which the processor's caches hold. What is left
//! over when the whole pages of it have gone, the *front* (the arguments, less than a page of data),
//! is all that the connection keeps; at its next turn a copy of the front goes to the beginning of
//! the buffer, and the next receive behind it, so that both lie together again. The last receive
//! completes the record where it lies, and the call is answered like any other.
//!
//! Where little arrives at a time, that would copy more than it saves: a receive that brings less than
//! [`AHEAD_BYTES_MIN`] is joined to the front in the connection's memory, the next ones go straight
//! there, and when as much has come together as one receive could have brought it goes ahead from there.
//!
//! A procedure may refuse to take more in the middle (what may be written at once has become less
//! meanwhile). Then the rest of the record is received as that of any other call: were the procedure
//! asked again for what it has refused, nothing more would ever be received.
//!
//! A piece is part of a turn, and lends the core as a call does. One that may sleep leaves the core
//! to a follower, but keeps the connection, of which nothing else could be answered meanwhile: it
//! stands in the middle of a record.

use crate::conn::connection::{Conn, Rx, Sent};
use crate::limits::{AHEAD_BYTES_MIN, FRONT_BYTES_MAX, LARGE_BEGIN_BYTES, RECEIVE_BYTES};
use crate::pool::unread;
use crate::service::round::Round;
use crate::service::stream_round::{AheadSource, RoundEnd, Step, StreamRound};
use rpc::record::{MARK_LEN, Record, RecordError};
use rpc::{Ahead, Beginning, Blocking};
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
    rx.ahead = None;
    let Some((mark, rest)) = input.split_first_chunk::<MARK_LEN>() else { return Ok(()) };
    if rpc::record::single(*mark).is_some_and(|len| len > RECEIVE_BYTES) {
        rx.partial.next(&mut mark.as_slice(), max)?;
        rx.ahead = Some(Ahead::default());
        *input = rest;
    }
    Ok(())
}

/// Copies what is kept of a record whose data goes ahead to the beginning of the receive buffer;
/// how much that is.
pub(crate) fn front(rx: &Rx, buf: &mut [u8]) -> Option<usize> {
    going(rx).filter(|ahead| !ahead.is_empty())?;
    let kept = rx.partial.so_far().filter(|kept| kept.len() <= FRONT_BYTES_MAX)?;
    buf.get_mut(..kept.len())?.copy_from_slice(kept);
    Some(kept.len())
}

/// The next step for a large record of which all that is kept lies at the start of `input`: to
/// answer it, if that completes it, or to let data go ahead, if there is enough.
pub(crate) fn in_place<'b>(rx: &mut Rx, front: usize, input: &mut &'b [u8]) -> Option<Step<'b>> {
    going(rx)?;
    rx.partial.so_far().filter(|kept| kept.len() == front)?;
    let whole = front.saturating_add(rx.partial.missing());
    if let Some((record, rest)) = input.split_at_checked(whole) {
        *input = rest;
        rx.partial.arrived_whole();
        let ahead = rx.ahead.take().filter(|ahead| !ahead.is_empty());
        return Some(Step::Answer(Record::InPlace(record), ahead));
    }
    let least = if rx.large { LARGE_BEGIN_BYTES } else { AHEAD_BYTES_MIN };
    (input.len() >= least)
        .then(|| Step::GoAhead(AheadSource::Received { bytes: mem::take(input), front }))
}

/// Lets data go ahead of a record that is being put together, if there is enough.
pub(crate) fn joined<'b>(rx: &Rx) -> Option<Step<'b>> {
    is_enough(rx).then_some(Step::GoAhead(AheadSource::Kept))
}

/// Whether so much of a record that is being put together is there that its data should go.
pub(crate) fn is_enough(rx: &Rx) -> bool {
    let gathered = || rx.partial.so_far().map_or(0, <[u8]>::len);
    going(rx).is_some() && gathered() >= RECEIVE_BYTES
}

/// What has gone ahead of the record under way, if more of it may.
pub(crate) fn going(rx: &Rx) -> Option<&Ahead> {
    rx.ahead.as_ref().filter(|ahead| !ahead.is_over())
}

impl StreamRound<'_> {
    /// Lets data of the record under way go where it belongs. Ends the turn: nothing of what was
    /// received is left.
    pub(crate) fn go_ahead(&self, source: AheadSource<'_>, spare: &mut Writer) -> RoundEnd {
        let Some(mut rx) = self.rx.borrow_mut().take() else { return RoundEnd::AllAnswered };
        let mut ahead = rx.ahead.take().unwrap_or_default();
        let (bytes, front) = match source {
            AheadSource::Received { bytes, front } => (bytes, front),
            AheadSource::Kept => {
                let kept = rx.partial.so_far().unwrap_or_default();
                (kept, kept.len())
            }
        };
        let new = bytes.get(front..).unwrap_or_default().len();
        let missing = rx.partial.missing().saturating_sub(new);
        let beginning = Beginning { so_far: bytes, piped: None, missing };
        let (gone, end) = self.ask(&rx.conn, beginning, &mut ahead);
        let gone = Some(gone).filter(|gone| !gone.is_empty());
        // Of as much as is ever gathered nothing was taken.
        if gone.is_none() && matches!(source, AheadSource::Kept) {
            ahead.end();
        }
        rx.ahead = (!ahead.is_over() || !ahead.is_empty()).then_some(ahead);
        self.round.stats.add(Counter::PiecesAhead, u64::from(gone.is_some()));
        keep_rest(&mut rx, source, gone, spare);
        *self.rx.borrow_mut() = Some(rx);
        end
    }

    /// Asks the dispatcher what of a record can go ahead, and how the round ends.
    pub(crate) fn ask(
        &self,
        conn: &Conn,
        beginning: Beginning<'_>,
        ahead: &mut Ahead,
    ) -> (Range<usize>, RoundEnd) {
        let blocking = PieceBlocking {
            stream: self,
            conn,
            has_blocked: Cell::default(),
            broken: Cell::default(),
        };
        let dispatcher = &self.round.shared().dispatcher;
        let gone = dispatcher.ahead(beginning, self.peer, &blocking, ahead);
        if blocking.has_blocked.get() && self.round.resumes_at_once() {
            self.round.resumed();
        }
        (gone, if blocking.broken.get() { RoundEnd::Broken } else { RoundEnd::Paused })
    }
}

/// Keeps of what has arrived what has not gone.
fn keep_rest(rx: &mut Rx, source: AheadSource<'_>, gone: Option<Range<usize>>, spare: &mut Writer) {
    match (source, gone) {
        (AheadSource::Kept, None) => {}
        (AheadSource::Kept, Some(gone)) => rx.partial.forget(gone),
        (AheadSource::Received { bytes, front }, None) => {
            rx.partial.reuse(spare);
            rx.partial.join(bytes.get(front..).unwrap_or_default());
        }
        (AheadSource::Received { bytes, front }, Some(gone)) => {
            let before = bytes.get(..gone.start).unwrap_or_default();
            let behind = bytes.get(gone.end..).unwrap_or_default();
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
}
