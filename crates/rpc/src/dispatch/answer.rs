//! Replies without results, and the header of those with results.

use super::header::HeaderError;
use super::programs::Missing;
use crate::auth::{LaterAnswer, NotAccepted, Protection};
use crate::{CallHost, Done, Fault, OpIndex, Peer, Reject, Transport, Verdict};
use proto::rpc::{
    Accepted, AuthStat, Denied, OpaqueAuth, REPLY, RPC_VERSION, ReplyBody, ReplyHeader,
};
use xdr::{Mark, Writer};

/// Appends the header of an accepted call's reply, with the verifier that its flavour gives.
#[inline]
pub(crate) fn put_accepted(
    reply: &mut Writer,
    xid: u32,
    protection: Option<&Protection>,
    status: Accepted,
) {
    match protection {
        // written in one piece, because nearly every reply begins so: MSG_ACCEPTED, AUTH_NONE and SUCCESS are 0
        None if status == Accepted::Success => reply.words([xid, REPLY, 0, 0, 0, 0]),
        None => reply.put(&ReplyHeader::accepted(xid, status)),
        Some(protection) => put_with_verifier(reply, xid, protection, status),
    }
}

#[cold]
fn put_with_verifier(reply: &mut Writer, xid: u32, protection: &Protection, status: Accepted) {
    let (flavor, body) = protection.verifier();
    let verifier = OpaqueAuth { flavor, body: &body };
    reply.put(&ReplyHeader { xid, body: ReplyBody::Accepted { verifier, status } });
    if status == Accepted::Success {
        let len = protection.head_len();
        reply.space(len).fill(0);
        reply.advance(len);
    }
}

/// Appends a reply of MSG_ACCEPTED without results.
pub(super) fn accept(
    reply: &mut Writer,
    xid: u32,
    op: Option<OpIndex>,
    protection: Option<&Protection>,
    status: Accepted,
    reject: Reject,
) -> Done {
    put_accepted(reply, xid, protection, status);
    Done::new(Verdict::Reply, op, Some(reject))
}

/// Appends a reply of MSG_DENIED / AUTH_ERROR.
pub(super) fn deny(reply: &mut Writer, xid: u32, op: Option<OpIndex>, stat: AuthStat) -> Done {
    reply.put(&ReplyHeader::denied(xid, Denied::AuthError(stat)));
    Done::new(Verdict::Reply, op, Some(Reject::Auth(stat)))
}

/// Replaces what a procedure wrote by the answer to its fault. The verdict is as for a connection.
pub(crate) fn answer_fault(
    reply: &mut Writer,
    start: Mark,
    xid: u32,
    op: OpIndex,
    protection: Option<&Protection>,
    fault: Fault,
) -> Done {
    reply.rewind(start);
    let (status, reject) = match fault {
        Fault::GarbageArgs(_) => (Accepted::GarbageArgs, Reject::GarbageArgs),
        Fault::SystemErr => (Accepted::SystemErr, Reject::SystemErr),
        Fault::ProcUnavail => (Accepted::ProcUnavail, Reject::ProcUnavail),
        Fault::TooWeak => return deny(reply, xid, Some(op), AuthStat::TooWeak),
        Fault::Silence => return Done::new(Verdict::Silence, Some(op), None),
        Fault::NotNow => return Done::new(Verdict::Close, Some(op), None),
    };
    accept(reply, xid, Some(op), protection, status, reject)
}

/// Answers a call of something that is not served.
pub(super) fn answer_missing(
    reply: &mut Writer,
    xid: u32,
    protection: Option<&Protection>,
    missing: Missing,
) -> Done {
    let (status, reject) = match missing {
        Missing::Program => (Accepted::ProgUnavail, Reject::ProgUnavail),
        Missing::Version { low, high } => {
            (Accepted::ProgMismatch { low, high }, Reject::ProgMismatch)
        }
        Missing::Procedure => (Accepted::ProcUnavail, Reject::ProcUnavail),
    };
    accept(reply, xid, None, protection, status, reject)
}

/// Answers a message that its flavour has not accepted as a call.
#[cold]
pub(super) fn answer_not_accepted(
    reply: &mut Writer,
    xid: u32,
    peer: &Peer,
    host: &dyn CallHost,
    not: NotAccepted,
) -> Done {
    match not {
        NotAccepted::Denied(stat) => deny(reply, xid, None, stat),
        NotAccepted::Discarded => Done::new(Verdict::Silence, None, None),
        // neither for a datagram nor inside TLS (RFC 9289 §4.1)
        NotAccepted::Answered(answer) if answer.start_tls && !can_start_tls(peer) => {
            deny(reply, xid, None, AuthStat::BadCred)
        }
        NotAccepted::Answered(answer) => {
            answer.put(reply, xid);
            let verdict = if answer.start_tls { Verdict::StartTls } else { Verdict::Reply };
            Done::new(verdict, None, None)
        }
        NotAccepted::AnsweredLater(begin) => match host.line() {
            Some(line) => {
                begin(LaterAnswer { xid, client: peer.addr, line });
                Done::new(Verdict::Deferred, None, None)
            }
            // the client sends it again
            None => Done::new(Verdict::Silence, None, None),
        },
    }
}

/// Whether what follows on this way can be TLS.
fn can_start_tls(peer: &Peer) -> bool {
    peer.transport == Transport::Tcp && peer.security.is_plain()
}

/// Answers a record that is not a readable call.
pub(super) fn answer_unreadable(
    error: &HeaderError,
    transport: Transport,
    reply: &mut Writer,
) -> Done {
    match *error {
        HeaderError::Short | HeaderError::Reply { .. } => {
            Done::new(Verdict::Silence, None, Some(Reject::Malformed))
        }
        HeaderError::NotRpc => {
            let verdict = match transport {
                Transport::Tcp => Verdict::Close,
                Transport::Udp => Verdict::Silence,
            };
            Done::new(verdict, None, Some(Reject::Malformed))
        }
        HeaderError::OtherRpc { xid } => {
            let mismatch = Denied::RpcMismatch { low: RPC_VERSION, high: RPC_VERSION };
            reply.put(&ReplyHeader::denied(xid, mismatch));
            Done::new(Verdict::Reply, None, Some(Reject::RpcMismatch))
        }
        HeaderError::Auth { xid, stat } => deny(reply, xid, None, stat),
    }
}
