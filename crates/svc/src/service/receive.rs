//! The receiving side of a service round: one receive, and what is to be done next with what it brought.

use crate::conn::connection::Rx;
use crate::conn::seal::Arrived;
use crate::limits::{DIRECT_BYTES_MIN, DIRECT_BYTES_PER_ROUND, RECEIVE_BYTES};
use crate::pool::shared::Shared;
use crate::service::stream_round::{Received, Step};
use crate::service::worker_context::{WorkerBuffers, keep_larger};
use crate::service::{write_ahead, write_pipe};
use crate::sync::add;
use rpc::record::RecordError;
use std::io::ErrorKind;
use std::sync::Arc;
use telemetry::{Counter, WorkerStats};
use xdr::Writer;

/// One receive. The bytes of a record of which much is missing go straight into their place.
pub(crate) fn receive(
    rx: &mut Rx,
    buffers: &mut WorkerBuffers,
    shared: &Shared,
    stats: &WorkerStats,
) -> Received {
    rx.more = true;
    if let Some(filled) = write_pipe::fill(rx, &mut buffers.pipe, shared, stats) {
        return Received::Piped(filled);
    }
    let buf = buffers.receive.as_mut_slice();
    let front = write_ahead::front(rx, buf);
    if rx.conn.stream.opens_records() || front.is_some() || rx.partial.missing() < DIRECT_BYTES_MIN
    {
        let front = front.unwrap_or(0);
        let end = write_pipe::room(rx, front).map_or(buf.len(), |room| room.min(buf.len()));
        let room = buf.get_mut(front..end).unwrap_or_default();
        return match receive_once(rx, room, stats) {
            Ok(Arrived { len: 0, .. }) => drained(rx, Received::EndOfStream),
            Ok(Arrived { len, more }) => {
                rx.more = more;
                Received::Bytes { front, len: front.saturating_add(len) }
            }
            Err(none) => drained(rx, none),
        };
    }
    let conn = Arc::clone(&rx.conn);
    let mut total = 0_usize;
    while total < DIRECT_BYTES_PER_ROUND && !write_ahead::is_enough(rx) {
        let Some(space) = rx.partial.space() else { break };
        let room = space.len();
        stats.add(Counter::ReceiveCalls, 1);
        match conn.stream.receive(space) {
            Ok(Arrived { len: 0, .. }) => return drained(rx, Received::EndOfStream),
            Ok(Arrived { len, more }) => {
                rx.partial.received(len);
                add(&conn.counters.bytes_in, len as u64);
                total = total.saturating_add(len);
                if len < room {
                    rx.more = more;
                    break;
                }
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                (rx.more, rx.read_until_empty) = (false, false);
                break;
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => return drained(rx, Received::Broken),
        }
    }
    if total == 0 { Received::Nothing } else { Received::Placed }
}

/// A receive found nothing, or the end of the stream.
const fn drained(rx: &mut Rx, received: Received) -> Received {
    (rx.more, rx.read_until_empty) = (false, false);
    received
}

fn receive_once(rx: &Rx, buf: &mut [u8], stats: &WorkerStats) -> Result<Arrived, Received> {
    loop {
        stats.add(Counter::ReceiveCalls, 1);
        match rx.conn.stream.receive(buf) {
            Ok(arrived) => {
                add(&rx.conn.counters.bytes_in, arrived.len as u64);
                return Ok(arrived);
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Err(Received::Nothing),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => return Err(Received::Broken),
        }
    }
}

/// What is next: `input` is what was received, behind a copy of the `front` bytes that are kept of the
/// record under way.
pub(crate) fn next_step<'b>(
    rx: &mut Rx,
    front: usize,
    input: &mut &'b [u8],
    spare: &mut Writer,
    record_max: usize,
) -> Result<Option<Step<'b>>, RecordError> {
    write_ahead::begin(rx, input, record_max)?;
    let step = match write_ahead::in_place(rx, front, input) {
        Some(step) => Some(step),
        None => {
            *input = input.get(front..).unwrap_or_default();
            join(rx, input, spare, record_max)?
        }
    };
    if let Some(Step::Answer(_, argument)) = &step {
        add(&rx.conn.counters.calls, 1);
        rx.large &= argument.is_some();
    }
    Ok(step)
}

/// Puts the record under way together; a large one gets memory that a large one had before.
fn join<'b>(
    rx: &mut Rx,
    input: &mut &'b [u8],
    spare: &mut Writer,
    record_max: usize,
) -> Result<Option<Step<'b>>, RecordError> {
    if rx.partial.missing() > RECEIVE_BYTES {
        rx.partial.reuse(spare);
    }
    Ok(match rx.partial.next(input, record_max)? {
        Some(record) => Some(Step::Answer(record, write_ahead::taken(rx))),
        None => write_ahead::joined(rx),
    })
}

/// Takes the memory of a connection that is between two records.
pub(crate) fn take_memory(rx: &mut Rx, spare: &mut Writer) {
    if rx.partial.capacity() > 0
        && let Some(memory) = rx.partial.release()
    {
        keep_larger(spare, memory);
    }
}

/// Counts a stream that cannot be split into records.
pub(crate) fn count_refused(stats: &WorkerStats, error: &RecordError) {
    stats.add(
        match error {
            RecordError::TooLarge { .. } => Counter::RecordsTooLarge,
            RecordError::TooManyFragments => Counter::RecordsMalformed,
            RecordError::NoMemory { .. } => Counter::MemoryClosed,
        },
        1,
    );
}
