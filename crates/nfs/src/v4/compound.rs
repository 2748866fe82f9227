//! COMPOUND (RFC 8881 §16.2): decode, check, run and encode one operation after the other.
//!
//! The reply is written as the operations run: status and number of results are patched at the end, the status of an
//! operation when it has run. An operation that fails has no results but what its row says.
//!
//! In a session (SEQUENCE first) each request runs exactly once; without one only the operations that make sessions run,
//! each alone. At the end the reply is kept in the slot if the client asked for it, and also if it is short and something
//! was changed: a retry of CREATE is then answered rightly even by clients that do not ask.

use super::absent;
use super::arrived_write::ArrivedWrite;
use super::frame::{Frame, keeps_fetched, principal_of};
use super::minor0;
use super::name;
use super::op_errors;
use super::ops::{self, OpRow, Position};
use super::status::Failed;
use crate::Nfs;
use crate::object::Caller;
use proto::nfs4::{CompoundHead, Nfsstat4, OPS_MAX, op, op_info};
use rpc::{Call, Fault, OperationCounter, Plan, Transport};
use state::v4::Principal;
use std::cell::Cell;
use vfs::Status;
use xdr::{Mark, Reader, Writer};

/// Sessions see retransmissions, not the reply cache of RPC; but for version 4.0, which has none.
pub(super) const PLAN: Plan = Plan::IDEMPOTENT;
/// The longest reply that is kept although the client did not ask for it, if something was changed.
const SHORT_REPLY: usize = 1024;
/// Bytes of a request by which a retry is told from another request; with its length and its sender.
pub(super) const HASHED: usize = 512;

/// Plans a COMPOUND: it is counted as its first operation that does something, which is found without decoding the
/// operations behind it.
pub(super) fn plan(_: &Nfs, args: &[u8], _: Transport) -> Plan {
    let mut operations = Reader::new(args);
    let Ok(head) = operations.get::<CompoundHead<'_>>() else { return PLAN };
    let plan = if head.minor == 0 { minor0::plan(args) } else { PLAN };
    let main = main_op(head.count, operations).and_then(ops::place_of);
    main.map_or(plan, |place| plan.counted_as(place))
}

/// The first operation that is not SEQUENCE and does more than to set the current filehandle.
fn main_op(count: u32, mut args: Reader<'_>) -> Option<u32> {
    let mut last = None;
    for _ in 0..count.min(8) {
        let number = args.u32().ok()?;
        last = Some(number);
        match number {
            op::SEQUENCE => drop(args.opaque_fixed(SEQUENCE_BYTES).ok()?),
            op::PUTFH => drop(args.opaque(proto::nfs4::FHSIZE).ok()?),
            op::PUTROOTFH | op::SAVEFH => {}
            _ => break,
        }
    }
    last
}

/// Bytes of the arguments of SEQUENCE.
const SEQUENCE_BYTES: usize = 32;

/// A hash of a request: fast, and good enough to tell the requests of an honest client apart. Nobody can make a request
/// that has the hash of another user's: that would take the key. Of a request of so many bytes its first ones are hashed.
pub(super) fn hash_of(request: &[u8], bytes: usize, caller: Principal, key: u64) -> u64 {
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    let mix = |hash: u64, word: u64| (hash ^ word).wrapping_mul(FACTOR).rotate_left(29);
    let mut hash = mix(key ^ bytes as u64, u64::from(caller.flavor) << 32 ^ caller.user);
    let (words, rest) = request.get(..HASHED).unwrap_or(request).as_chunks::<8>();
    for word in words {
        hash = mix(hash, u64::from_le_bytes(*word));
    }
    // XDR has whole words
    let (half, rest) = rest.as_chunks::<4>();
    for word in half {
        hash = mix(hash, u32::from_le_bytes(*word).into());
    }
    for byte in rest {
        hash = mix(hash, u64::from(*byte));
    }
    // 0 means that there was none
    hash | 1
}

/// Where the parts of the reply are that are known at the end only.
struct Marks {
    status: Mark,
    count: Mark,
}

/// What was received.
pub(super) struct Received<'r> {
    pub head: CompoundHead<'r>,
    pub operations: Reader<'r>,
    /// Bytes of all of it.
    pub bytes: usize,
    /// Who sends it, and the hash by which a retry is known.
    pub principal: Principal,
    pub hash: u64,
    /// The WRITE of which data is in its file already: what follows that stands there.
    pub ahead: Option<&'r ArrivedWrite<'r>>,
}

pub(super) fn compound(
    nfs: &Nfs,
    call: &mut Call<'_>,
    args: &mut Reader<'_>,
    reply: &mut Writer,
) -> Result<(), Fault> {
    let (request, bytes) = (args.rest(), args.remaining());
    let head = args.get()?;
    let principal = principal_of(&call.credential);
    let hash = hash_of(request, bytes, principal, nfs.v4.request_key);
    let operations = Reader::new(args.rest());
    let received = Received { head, operations, bytes, principal, hash, ahead: None };
    answer(nfs, call, &received, reply);
    Ok(())
}

/// Runs a COMPOUND, and appends its results. Has two callers, and is a part of the usual one: a call of its own with what was
/// received takes fifty instructions.
#[inline(always)]
fn answer(nfs: &Nfs, call: &mut Call<'_>, received: &Received<'_>, reply: &mut Writer) {
    let head = &received.head;
    let status = reply.mark();
    reply.u32(0);
    reply.opaque(head.tag);
    let count = reply.mark();
    reply.u32(0);
    let marks = Marks { status, count };
    if !head.tag.is_empty() && !name::is_utf8(head.tag) {
        reply.patch_u32(marks.status, Nfsstat4::Inval.number());
        call.outcome.status = Nfsstat4::Inval.number();
        return;
    }
    if !nfs.settings.serves_minor(head.minor) {
        reply.patch_u32(marks.status, Nfsstat4::MinorVersMismatch.number());
        call.outcome.status = Nfsstat4::MinorVersMismatch.number();
        return;
    }
    let (counter, connection) = (call.operation_counter(), call.connection());
    let v4 = &nfs.v4;
    let reading = v4.state.read();
    let mut outcome = call.outcome;
    let mut operations = received.operations.clone();
    {
        let caller = Caller::new(&nfs.exports, call);
        let mut frame = Frame {
            nfs,
            caller: &caller,
            principal: received.principal,
            connection,
            minor: head.minor,
            reading: &reading,
            now: nfs.clock.now(),
            current: None,
            fetched: None,
            saved: None,
            running: None,
            opener: None,
            named_client: Cell::new(None),
            replay: None,
            position: 0,
            count: head.count,
            request_bytes: received.bytes.saturating_add(CALL_HEADER),
            request_hash: received.hash,
            returns_state: None,
            changed: false,
            range_bytes: 0,
            start: status,
            bytes_read: 0,
            bytes_written: 0,
            copied: None,
            ahead: received.ahead,
        };
        let (done, status) = run_all(&mut frame, &mut operations, reply, counter);
        nfs.give_back(caller.blocking());
        finish(&mut frame, reply, &marks, (done, status), &mut outcome);
    }
    call.outcome.status = outcome.status;
    call.outcome.bytes_read = outcome.bytes_read;
    call.outcome.bytes_written = outcome.bytes_written;
    call.outcome.copied = outcome.copied;
}

/// The same of one with a WRITE of which data is in its file already.
#[cold]
#[inline(never)]
pub(super) fn answer_arrived(
    nfs: &Nfs,
    call: &mut Call<'_>,
    received: &Received<'_>,
    reply: &mut Writer,
) {
    answer(nfs, call, received, reply);
}

/// Bytes of a call's RPC header with an AUTH_SYS credential without groups: what is missing of the real length is at most
/// a few hundred bytes, by which a request may exceed what was agreed on.
pub(super) const CALL_HEADER: usize = 40;

/// Runs the operations until one fails; how many results there are, and the last status.
#[inline(always)]
fn run_all<'f>(
    frame: &mut Frame<'f>,
    args: &mut Reader<'f>,
    reply: &mut Writer,
    counter: OperationCounter<'_>,
) -> (u32, Nfsstat4) {
    if frame.minor == 0 && frame.count > OPS_MAX {
        return (0, Nfsstat4::Resource);
    }
    // of the operation that the call is counted as, the first is counted with the call's latency
    let mut is_main_due = true;
    for position in 0..frame.count.min(OPS_MAX) {
        frame.position = position;
        let Ok(number) = args.u32() else {
            // the number cannot be told: that of an illegal operation stands for it
            reply.words([op::ILLEGAL, Nfsstat4::BadXdr.number()]);
            return (position + 1, Nfsstat4::BadXdr);
        };
        let status = run_one(frame, number, args, reply);
        if frame.replay.is_some() {
            return (0, Nfsstat4::Ok);
        }
        if let Some(place) = ops::place_of(number) {
            if is_main_due && counter.is_the_call(place) {
                is_main_due = false;
            } else {
                counter.count(place, status.number());
            }
        }
        if status != Nfsstat4::Ok {
            return (position + 1, status);
        }
    }
    (frame.count.min(OPS_MAX), Nfsstat4::Ok)
}

/// Runs one operation and writes its result.
fn run_one<'f>(
    frame: &mut Frame<'f>,
    number: u32,
    args: &mut Reader<'f>,
    reply: &mut Writer,
) -> Nfsstat4 {
    let before = reply.mark();
    let row = ops::row(number, frame.minor);
    let replied = if row.is_some() { number } else { replied_without_row(number, frame.minor) };
    reply.u32(replied);
    let status = reply.mark();
    reply.u32(0);
    let body = reply.mark();
    let ranges = frame.range_bytes;
    if !keeps_fetched(number) {
        frame.fetched = None;
    }
    let ended = match check(frame, number, row, reply) {
        Ok(row) => (row.run)(frame, args, reply),
        Err(failed) => Err(failed),
    };
    let code = match ended {
        Ok(()) => Nfsstat4::Ok,
        Err(Failed::WithResult(status)) => status,
        Err(failed) => {
            reply.rewind(body);
            frame.range_bytes = ranges;
            if number == op::SETATTR {
                // the attributes that were set: none
                reply.u32(0);
            }
            failed.status(number, frame.minor)
        }
    };
    debug_assert!(reply.written_since(before) >= 8);
    if code != Nfsstat4::Ok {
        debug_assert!(
            frame.minor == 0 || row.is_none() || op_errors::may_fail_with(replied, code),
            "operation {number} may not fail with {code:?}"
        );
        reply.patch_u32(status, code.number());
    }
    code
}

/// The number in the result of an operation that is not served in this minor version.
#[cold]
fn replied_without_row(number: u32, minor: u32) -> u32 {
    let is_known = op_info(number).is_some_and(|info| info.since <= minor);
    if is_known { number } else { op::ILLEGAL }
}

/// What is checked of every operation before it runs.
fn check(
    frame: &Frame<'_>,
    number: u32,
    row: Option<&'static OpRow>,
    reply: &Writer,
) -> Result<&'static OpRow, Failed> {
    let Some(row) = row else {
        let known = op_info(number).is_some_and(|info| info.since <= frame.minor);
        return Err(if known { Nfsstat4::NotSupp } else { Nfsstat4::OpIllegal }.into());
    };
    if frame.running.is_none() && frame.minor > 0 {
        match row.position {
            Position::First => {}
            Position::InsideOrOnly | Position::OnlyOperation if frame.position == 0 => {
                if frame.count > 1 {
                    return Err(Nfsstat4::NotOnlyOp.into());
                }
            }
            _ => return Err(Nfsstat4::OpNotInSession.into()),
        }
        return Ok(row);
    }
    match row.position {
        Position::First => return Err(Nfsstat4::SequencePos.into()),
        Position::OnlyOperation => return Err(Nfsstat4::NotOnlyOp.into()),
        Position::InsideOrOnly | Position::Inside => {}
    }
    if let Some(machine) = &frame.returns_state
        && !machine.allows(number)
        && !matches!(number, op::GETATTR | op::GETFH | op::PUTFH)
    {
        // it came with a flavour that the export does not accept
        return Err(Failed::File(Status::Acces));
    }
    if let Some(place) = &frame.current
        && place.object.is_absent()
    {
        absent::check(number, frame.minor)?;
    }
    let (room, too_big) = frame.room(reply);
    if room < row.most as usize { Err(too_big.into()) } else { Ok(row) }
}

/// Completes the reply, and ends the request on its slot.
fn finish(
    frame: &mut Frame<'_>,
    reply: &mut Writer,
    marks: &Marks,
    (done, status): (u32, Nfsstat4),
    outcome: &mut rpc::Outcome,
) {
    if let Some(kept) = &frame.replay {
        reply.rewind(marks.status);
        reply.raw(kept);
        return;
    }
    reply.patch_u32(marks.status, status.number());
    reply.patch_u32(marks.count, done);
    outcome.status = status.number();
    outcome.bytes_read = frame.bytes_read;
    outcome.bytes_written = frame.bytes_written;
    outcome.copied = frame.copied;
    let Some(running) = frame.running.take() else { return };
    let written = reply.since(marks.status);
    let is_whole = frame.range_bytes == 0;
    let keep = is_whole && (running.cachethis || frame.changed && written.len() <= SHORT_REPLY);
    running.ticket.finish(keep.then_some(written));
}
