//! An operation as a request of its owner (RFC 7530 §9.1.7): it runs, or a retransmission gets the first reply.

use super::super::frame::Frame;
use super::super::status::Failed;
use proto::nfs4::Nfsstat4;
use siphasher::sip::SipHasher13;
use state::v4::{Begun, KeptReply, OwnerError, OwnerTicket, Request};
use std::hash::Hasher;
use xdr::{Mark, Reader, Writer};

/// Keys of the hash of a request. It need not resist an attack: it distinguishes requests of one client.
const KEYS: (u64, u64) = (4, 0);

/// What identifies a request: seqid, operation, a hash of the arguments. `before` is the record from the arguments on,
/// `after` the rest of the record behind them.
pub(super) fn request_of(
    frame: &Frame<'_>,
    (op, seqid): (u32, u32),
    before: &[u8],
    after: &Reader<'_>,
) -> Request {
    let len = before.len().saturating_sub(after.rest().len());
    let principal = frame.principal;
    let mut hasher = SipHasher13::new_with_keys(KEYS.0, KEYS.1);
    hasher.write_u32(principal.flavor);
    hasher.write_u64(principal.user);
    hasher.write(before.get(..len).unwrap_or_default());
    Request { seqid, op, hash: hasher.finish(), user: principal }
}

impl From<OwnerError> for Failed {
    fn from(error: OwnerError) -> Self {
        match error {
            OwnerError::StaleClientId => Nfsstat4::StaleClientid.into(),
            OwnerError::Expired => Nfsstat4::Expired.into(),
            OwnerError::BadSeqid => Nfsstat4::BadSeqid.into(),
            OwnerError::Running => Nfsstat4::Delay.into(),
            OwnerError::NoRoom => Nfsstat4::Resource.into(),
            OwnerError::Stateid(error) => error.into(),
        }
    }
}

/// Whether an error leaves the owner's seqid unchanged: the client's next request has the same seqid then.
const fn leaves_seqid(status: Nfsstat4) -> bool {
    matches!(
        status,
        Nfsstat4::StaleClientid
            | Nfsstat4::StaleStateid
            | Nfsstat4::BadStateid
            | Nfsstat4::BadSeqid
            | Nfsstat4::BadXdr
            | Nfsstat4::Resource
            | Nfsstat4::NoFilehandle
            | Nfsstat4::Moved
    )
}

/// Runs an operation of an owner, or repeats its reply.
pub(super) fn run_or_replay<'f>(
    frame: &mut Frame<'f>,
    reply: &mut Writer,
    (op, begun): (u32, Result<Begun, OwnerError>),
    run: impl FnOnce(&mut Frame<'f>, &mut OwnerTicket, &mut Writer) -> Result<(), Failed>,
) -> Result<(), Failed> {
    match begun? {
        Begun::Replay(kept) => replay(frame, &kept, reply),
        Begun::Run(mut ticket) => {
            frame.named_client.set(Some(ticket.client_id()));
            let body = reply.mark();
            let ended = run(frame, &mut ticket, reply);
            end(frame, [Some(ticket), None], (op, ended), (body, reply));
            ended
        }
    }
}

/// Ends the requests of an operation; each keeps its reply.
pub(super) fn end(
    frame: &Frame<'_>,
    tickets: [Option<OwnerTicket>; 2],
    (op, ended): (u32, Result<(), Failed>),
    (body, reply): (Mark, &Writer),
) {
    let (status, result) = match ended {
        Ok(()) => (Nfsstat4::Ok, reply.since(body)),
        Err(Failed::WithResult(status)) => (status, reply.since(body)),
        Err(failed) => (failed.status(op, frame.minor), &[][..]),
    };
    if leaves_seqid(status) {
        return;
    }
    for ticket in tickets.into_iter().flatten() {
        let kept = KeptReply {
            status: status.number(),
            result: result.to_vec(),
            handle: handle_to_keep(frame, op, status),
        };
        frame.v4().state.finish_request(ticket, kept);
    }
}

/// The filehandle that OPEN has made the current one; empty for other operations and failures.
fn handle_to_keep(frame: &Frame<'_>, op: u32, status: Nfsstat4) -> Vec<u8> {
    match frame.object() {
        Ok(file) if op == proto::nfs4::op::OPEN && status == Nfsstat4::Ok => {
            file.seal(&file.fid).bytes().to_vec()
        }
        _ => Vec::new(),
    }
}

/// Repeats the reply of a request.
pub(super) fn replay(
    frame: &mut Frame<'_>,
    kept: &KeptReply,
    reply: &mut Writer,
) -> Result<(), Failed> {
    if !kept.handle.is_empty() {
        frame.set_current(frame.caller.open_v4(&kept.handle)?);
    }
    reply.raw(&kept.result);
    match Nfsstat4::from_number(kept.status).unwrap_or(Nfsstat4::ServerFault) {
        Nfsstat4::Ok => Ok(()),
        status => Err(Failed::WithResult(status)),
    }
}
