//! Operations of callbacks: encoding of the request, decoding of the reply.

use super::holder_attrs;
use proto::layout::Bytes;
use proto::nfs4::{
    Bitmap4, CbCompoundHead, CbCompoundResult, CbGetattrArgs, CbNotifyLockArgs, CbOffloadArgs,
    CbRecallAnyArgs, CbRecallArgs, CbRecallSlotArgs, CbSequenceArgs, CbSequenceResult, LockOwner4,
    Nfsstat4, OffloadInfo4, Stateid4, cb_op,
};
use rpc::CallFailure;
use state::v4::{BackAnswer, BackCall, SessionId, Stateid};
use xdr::{Reader, Writer};

/// `RCA4_TYPE_MASK_RDATA_DLG`.
const READ_DELEGATIONS: u32 = 0;
/// `RCA4_TYPE_MASK_WDATA_DLG`.
const WRITE_DELEGATIONS: u32 = 1;
/// `RCA4_TYPE_MASK_DIR_DLG`.
const DIRECTORY_DELEGATIONS: u32 = 2;

/// The operation of a callback, which follows CB_SEQUENCE.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Operation {
    /// A lock that an owner waits for may be free: the owner is to ask again (RFC 8881 §20.11).
    NotifyLock {
        /// The file, as the client named it.
        handle: Box<[u8]>,
        /// The client's id.
        client: u64,
        /// The owner that waits.
        owner: Box<[u8]>,
    },
    /// The client is to return a delegation (RFC 8881 §20.2).
    Recall {
        /// The delegation.
        stateid: Stateid,
        /// The file, as the client named it.
        handle: Box<[u8]>,
    },
    /// The holder of a write delegation is to say what it knows of the file (RFC 8881 §20.1).
    Getattr {
        /// The file, as the client named it.
        handle: Box<[u8]>,
        /// Whether the client keeps the file's times itself.
        keeps_times: bool,
    },
    /// The client is to keep at most so many delegations and chooses which (RFC 8881 §20.6).
    RecallAny {
        /// How many.
        keep: u32,
        /// Whether some of them are for writing.
        writing: bool,
        /// Whether some of them are of directories.
        directories: bool,
    },
    /// A copy has ended (RFC 7862 §16.1).
    Offload {
        /// The copy.
        stateid: Stateid,
        /// Its target.
        handle: Box<[u8]>,
        /// How it has ended.
        info: OffloadInfo4,
    },
    /// The client is to use fewer slots (RFC 8881 §20.8).
    RecallSlot {
        /// The highest that it may use.
        highest: u32,
    },
}

impl Operation {
    /// The operation's number.
    pub const fn number(&self) -> u32 {
        match self {
            Self::NotifyLock { .. } => cb_op::NOTIFY_LOCK,
            Self::Recall { .. } => cb_op::RECALL,
            Self::Getattr { .. } => cb_op::GETATTR,
            Self::RecallAny { .. } => cb_op::RECALL_ANY,
            Self::Offload { .. } => cb_op::OFFLOAD,
            Self::RecallSlot { .. } => cb_op::RECALL_SLOT,
        }
    }

    pub(super) fn encode(&self, w: &mut Writer) {
        w.u32(self.number());
        match self {
            Self::NotifyLock { handle, client, owner } => w.put(&CbNotifyLockArgs {
                fh: Bytes(handle),
                owner: LockOwner4 { clientid: *client, owner: Bytes(owner) },
            }),
            Self::Recall { stateid, handle } => w.put(&CbRecallArgs {
                stateid: Stateid4 { seqid: stateid.seqid, other: stateid.other },
                truncate: false,
                fh: Bytes(handle),
            }),
            Self::Getattr { handle, keeps_times } => {
                let attributes = holder_attrs::asked(*keeps_times);
                w.put(&CbGetattrArgs { fh: Bytes(handle), attributes });
            }
            Self::RecallAny { keep, writing, directories } => {
                let of = |is_meant, kind| match is_meant {
                    true => Bitmap4::of(&[kind]),
                    false => Bitmap4::NONE,
                };
                let kinds = of(true, READ_DELEGATIONS)
                    .or(&of(*writing, WRITE_DELEGATIONS))
                    .or(&of(*directories, DIRECTORY_DELEGATIONS));
                w.put(&CbRecallAnyArgs { keep: *keep, kinds });
            }
            Self::Offload { stateid, handle, info } => w.put(&CbOffloadArgs {
                fh: Bytes(handle),
                stateid: Stateid4 { seqid: stateid.seqid, other: stateid.other },
                info: *info,
            }),
            Self::RecallSlot { highest } => {
                w.put(&CbRecallSlotArgs { target_highest_slotid: *highest });
            }
        }
    }
}

/// What a client has answered to an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallbackAnswer<'a> {
    /// The operation's status.
    pub status: u32,
    /// The results that follow it.
    pub results: &'a [u8],
}

/// Why a callback has no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallbackFailure {
    /// The client has bound no connection that works.
    NoPath,
    /// Too many callbacks wait for the client.
    NoRoom,
    /// It has run, but the answer is lost.
    AnswerLost,
    /// It was not answered over any connection, or the reply cannot be decoded.
    Unanswered,
    /// The server stops.
    Stopped,
}

/// Called once with the answer. Must not block.
pub type Done = Box<dyn FnOnce(Result<CallbackAnswer<'_>, CallbackFailure>) + Send>;

/// The arguments of CB_COMPOUND.
pub(super) fn encode(
    operation: &Operation,
    session: SessionId,
    minor: u32,
    (call, highest): (&BackCall, u32),
) -> Vec<u8> {
    let mut w = Writer::new();
    w.put(&CbCompoundHead { tag: b"", minor, ident: 0, count: 2 });
    w.u32(cb_op::SEQUENCE);
    w.put(&CbSequenceArgs {
        sessionid: session,
        sequenceid: call.number(),
        slotid: call.slot(),
        highest_slotid: highest,
        cachethis: false,
    });
    operation.encode(&mut w);
    w.bytes().to_vec()
}

/// The answer to CB_SEQUENCE, and to the operation if that ran.
pub(super) fn decode(
    result: &[u8],
) -> Result<(BackAnswer, Option<CallbackAnswer<'_>>), xdr::Error> {
    let mut r = Reader::new(result);
    let head: CbCompoundResult<'_> = r.get()?;
    if head.count == 0 {
        return Ok((answer(head.status), None));
    }
    let [number, status] = r.words()?;
    if number != cb_op::SEQUENCE {
        return Ok((BackAnswer::Fault, None));
    }
    if status != 0 {
        return Ok((answer(status), None));
    }
    let _ran: CbSequenceResult = r.get()?;
    if head.count == 1 {
        return Ok((BackAnswer::Runs, None));
    }
    let [_number, status] = r.words()?;
    Ok((BackAnswer::Runs, Some(CallbackAnswer { status, results: r.rest() })))
}

/// The meaning of a status of CB_SEQUENCE.
const fn answer(status: u32) -> BackAnswer {
    match Nfsstat4::from_number(status) {
        Some(Nfsstat4::RetryUncachedRep | Nfsstat4::SeqFalseRetry) => BackAnswer::Seen,
        Some(Nfsstat4::SeqMisordered) => BackAnswer::Misordered,
        Some(Nfsstat4::BadSlot) => BackAnswer::NoSlot,
        Some(Nfsstat4::Delay) => BackAnswer::Later,
        _ => BackAnswer::Fault,
    }
}

/// What a call's failure means for its connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ConnFault {
    /// The server stops.
    Stopped,
    /// It is closed.
    Closed,
    /// It answers no callbacks, or none at present.
    Silent,
}

pub(super) const fn fault(failure: CallFailure) -> ConnFault {
    match failure {
        CallFailure::Stopped => ConnFault::Stopped,
        CallFailure::ConnClosed => ConnFault::Closed,
        _ => ConnFault::Silent,
    }
}
