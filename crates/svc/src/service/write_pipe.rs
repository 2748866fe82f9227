//! The data of a large WRITE goes from the socket to its file through a pipe: the kernel moves it into the pipe,
//! which copies nothing, and from there into the file, which copies it once. Through this process's own memory
//! it would be copied twice.
//!
//! It begins when some of the data was taken (`write_ahead.rs`), so that it is known where the data begins, and
//! goes on while enough arrives at a time to be worth the checks of a piece. In front of what the socket has goes
//! what was left over of the piece before, so that the file gets whole pages in one write; how much is moved is
//! chosen so that nothing is left over again. The end of the record always comes by a receive, which completes
//! it and has it answered like any other.
//!
//! A client that sends large WRITEs goes on doing so: of the next record only the beginning is received, as much
//! as is taken at once, so that there is something left for the pipe.
//!
//! Invariants:
//! - A pipe belongs to one worker, and is empty between two pieces. One that may not be is closed.
//! - What the kernel refuses to move is received; that worker then does not ask again, unless it was for lack of
//!   descriptors or memory, which may pass.

use crate::conn::byte_stream::ByteStream;
use crate::conn::connection::Rx;
use crate::limits::{FRONT_BYTES_MAX, LARGE_BEGIN_BYTES, PIPE_BYTES, PIPED_BYTES_MIN};
use crate::pipes::PipeState;
use crate::pool::shared::Shared;
use crate::service::stream_round::{FilledPipe, RoundEnd, StreamRound};
use crate::service::write_ahead;
use crate::sync::add;
use crate::zero_copy::ZeroCopy;
use rpc::{PartialRecord, Piped};
use std::io;
use sys::io::PAGE;
use sys::pipe::{Pipe, take};
use telemetry::{Counter, WorkerStats};
use xdr::Writer;

/// Bytes of a page: what a piece is a multiple of.
const PAGE_BYTES: usize = PAGE as usize;

/// Moves what has arrived of the data of the record under way into a pipe, if it is enough.
pub(crate) fn fill(
    rx: &mut Rx,
    state: &mut PipeState,
    shared: &Shared,
    stats: &WorkerStats,
) -> Option<FilledPipe> {
    let argument = write_ahead::taking(rx).filter(|argument| !argument.is_empty())?;
    let kept = rx.partial.so_far().filter(|kept| kept.len() <= FRONT_BYTES_MAX)?;
    let front = kept.get(argument.data_at()..)?;
    // what follows the data must not come into the pipe
    let missing = argument.left().checked_sub(front.len())?.min(rx.partial.missing());
    let most = missing.saturating_sub(PAGE_BYTES).min(PIPE_BYTES);
    let most = most.saturating_sub((front.len().saturating_add(most)) % PAGE_BYTES);
    let off = shared.zero_copy.now() == ZeroCopy::Off || !rx.conn.stream.can_move_into_pipe();
    if most < PIPED_BYTES_MIN || off || matches!(state, PipeState::Refused) {
        return None;
    }
    let arrived = rx.conn.stream.arrived_bytes().ok().filter(|n| *n >= PIPED_BYTES_MIN)?;
    let own = match std::mem::take(state) {
        PipeState::Ready(own) => Ok(own),
        PipeState::None | PipeState::Refused => shared.pipes.open()?,
    };
    let moved = own.and_then(|own| {
        stats.add(Counter::ReceiveCalls, 1);
        let moved = bring(&own.pipe, front, &rx.conn.stream, most)?;
        Ok((own, moved))
    });
    let (own, moved) = match moved {
        Ok(filled) => filled,
        Err(error) => {
            let passes = sys::socket::is_shortage(&error);
            *state = if passes { PipeState::None } else { PipeState::Refused };
            return None;
        }
    };
    let front = front.len();
    add(&rx.conn.counters.bytes_in, moved as u64);
    rx.more = moved == most || moved < arrived;
    Some(FilledPipe { own, front, len: front.saturating_add(moved) })
}

/// Copies `front` into an empty pipe, and moves what a socket has in behind it; how much that was. After an error
/// it holds nothing that is not kept elsewhere as well.
fn bring(pipe: &Pipe, front: &[u8], stream: &ByteStream, most: usize) -> io::Result<usize> {
    if !front.is_empty() && pipe.put(front)? < front.len() {
        return Err(io::ErrorKind::WriteZero.into());
    }
    match stream.move_into(pipe, most)? {
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        moved => Ok(moved),
    }
}

/// How much to receive behind the `front` bytes that are kept of the record under way, of a client that
/// sends large ones: its end, or the beginning of the next.
pub(crate) fn room(rx: &Rx, front: usize) -> Option<usize> {
    let most = match rx.partial.missing() {
        0 => LARGE_BEGIN_BYTES.saturating_add(PAGE_BYTES),
        missing => front.saturating_add(missing),
    };
    rx.large.then_some(most)
}

impl StreamRound<'_> {
    /// Has what is in a pipe taken. Ends the round.
    pub(crate) fn take_piped(&self, filled: FilledPipe, spare: &mut Writer) -> RoundEnd {
        let Some(mut rx) = self.rx.borrow_mut().take() else { return RoundEnd::AllAnswered };
        let mut argument = rx.argument.take().unwrap_or_default();
        let FilledPipe { own, front, len } = filled;
        let moved = len.saturating_sub(front);
        let kept = rx.partial.so_far().unwrap_or_default();
        let so_far = kept.get(..argument.data_at()).unwrap_or_default();
        let piped = Some(Piped { pipe: own.pipe.read_end(), len });
        let missing = rx.partial.missing().saturating_sub(moved);
        let partial = PartialRecord { so_far, piped, missing };
        let (taken, end) = self.ask(&rx.conn, partial, &mut argument);
        let taken = taken.len();
        self.round.stats.add(Counter::PiecesAhead, u64::from(taken > 0));
        self.round.stats.add(Counter::BytesPiped, taken as u64);
        spare.clear();
        spare.raw(so_far);
        let rest = take_rest(&own.pipe, len.saturating_sub(taken), spare);
        rx.partial.arrived(moved, [spare.bytes(), &[]]);
        spare.clear();
        rx.large = taken > 0;
        rx.argument = Some(argument);
        *self.rx.borrow_mut() = Some(rx);
        match rest {
            Ok(()) => {
                self.pipe.set(PipeState::Ready(own));
                end
            }
            Err(_) => RoundEnd::Broken,
        }
    }
}

/// Takes the last `len` bytes of what a pipe holds, and forgets those before them: a procedure that has
/// failed leaves what it could not write.
fn take_rest(pipe: &Pipe, len: usize, to: &mut Writer) -> io::Result<()> {
    let held = pipe.held()?;
    let mut surplus = held.checked_sub(len).ok_or(io::ErrorKind::UnexpectedEof)?;
    while surplus > 0 {
        let place = to.space(surplus.min(PAGE_BYTES));
        surplus = surplus.saturating_sub(take(pipe.read_end(), place)?);
    }
    let mut left = len;
    while left > 0 {
        let taken = take(pipe.read_end(), to.space(left))?;
        to.advance(taken);
        left = left.saturating_sub(taken);
    }
    Ok(())
}
