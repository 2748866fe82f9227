//! Callbacks of NFS version 4.1, as a client gets them on its own connection: decoded for a handler that says how each
//! is to be answered.

use crate::client::Client;
use crate::error::Result;
use proto::layout::Bytes;
use proto::nfs4::{
    CbCompoundHead, CbCompoundResult, CbSequenceArgs, CbSequenceResult, callback, cb_op,
};
use std::time::Duration;
use xdr::{Reader, Writer};

/// The kind of a message that is a call, and of one that is a reply.
const CALL: u32 = 0;
const REPLY: u32 = 1;

/// A callback that has arrived.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Callback {
    /// CB_NULL.
    Null {
        /// The program that is called.
        program: u32,
    },
    /// CB_COMPOUND with one operation behind CB_SEQUENCE.
    Compound {
        /// The program that is called.
        program: u32,
        /// The flavour of its credential.
        flavor: u32,
        /// CB_SEQUENCE.
        sequence: CbSequenceArgs,
        /// The operation's number.
        operation: u32,
        /// Its arguments.
        args: Vec<u8>,
    },
}

/// How a callback is answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallbackReply {
    /// The operation succeeds, with these results.
    Ok(Vec<u8>),
    /// The operation fails so.
    Failed(u32),
    /// CB_SEQUENCE fails so.
    SequenceFailed(u32),
    /// Not at all.
    Silence,
}

/// Says how a callback is answered.
pub type CallbackHandler = Box<dyn FnMut(&Callback) -> CallbackReply + Send>;

/// The answer to a record, if it is a callback that is to be answered; `None` also for what is not a call.
pub(crate) fn answer(handler: &mut CallbackHandler, record: &[u8]) -> Option<Vec<u8>> {
    let (xid, callback) = decode(record).ok().flatten()?;
    let reply = handler(&callback);
    let mut w = Writer::new();
    // accepted, with a verifier of AUTH_NONE
    w.words([xid, REPLY, 0, 0, 0, 0]);
    let Callback::Compound { sequence, operation, .. } = callback else {
        return (reply != CallbackReply::Silence).then(|| w.bytes().to_vec());
    };
    let head = |status, count| CbCompoundResult { status, tag: Bytes(b""), count };
    let (status, results) = match reply {
        CallbackReply::Silence => return None,
        CallbackReply::SequenceFailed(status) => {
            w.put(&head(status, 1));
            w.words([cb_op::SEQUENCE, status]);
            return Some(w.bytes().to_vec());
        }
        CallbackReply::Ok(results) => (0, results),
        CallbackReply::Failed(status) => (status, Vec::new()),
    };
    w.put(&head(status, 2));
    w.words([cb_op::SEQUENCE, 0]);
    let CbSequenceArgs { sessionid, sequenceid, slotid, highest_slotid, .. } = sequence;
    let target_highest_slotid = highest_slotid;
    w.put(&CbSequenceResult {
        sessionid,
        sequenceid,
        slotid,
        highest_slotid,
        target_highest_slotid,
    });
    w.words([operation, status]);
    w.raw(&results);
    Some(w.bytes().to_vec())
}

/// The transaction id and the callback of a record that is one.
fn decode(record: &[u8]) -> std::result::Result<Option<(u32, Callback)>, xdr::Error> {
    let mut r = Reader::new(record);
    let [xid, kind, _rpc_version, program, _version, number, flavor] = r.words()?;
    if kind != CALL {
        return Ok(None);
    }
    r.opaque(400)?;
    let _verifier = r.u32()?;
    r.opaque(400)?;
    if number != callback::COMPOUND {
        return Ok(Some((xid, Callback::Null { program })));
    }
    let _head: CbCompoundHead<'_> = r.get()?;
    let _sequence = r.u32()?;
    let sequence = r.get()?;
    let operation = r.u32()?;
    let args = r.rest().to_vec();
    Ok(Some((xid, Callback::Compound { program, flavor, sequence, operation, args })))
}

impl Client {
    /// Has callbacks that arrive while something is waited for answered as `handler` says.
    pub fn answer_callbacks(&mut self, handler: CallbackHandler) {
        self.set_callback_handler(handler);
    }

    /// Answers callbacks for so long, or until one has come if that is earlier; whether one has.
    ///
    /// # Errors
    /// Those of the connection.
    pub fn wait_for_callback(&mut self, time: Duration) -> Result<bool> {
        self.take_calls(time)
    }
}
