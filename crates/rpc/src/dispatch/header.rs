//! A call's header as a server reads it: field by field, because a call that cannot be served has
//! to be answered as far as its header was readable.

use crate::auth::CallMessage;
use crate::{Transport, TransportSecurity};
use proto::rpc::{AUTH_BODY_MAX, AuthStat, CALL, CallHeader, OpaqueAuth, REPLY, RPC_VERSION};
use xdr::{Error, Reader};

/// Why a record has no header that can be served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HeaderError {
    /// The record ends within the header.
    Short,
    /// A reply, perhaps to a call of ours ([`crate::Replies`]).
    Reply {
        /// Which call it answers.
        xid: u32,
    },
    /// Neither a call nor a reply.
    NotRpc,
    /// A call of another version of RPC.
    OtherRpc {
        /// Whom to answer.
        xid: u32,
    },
    /// A credential or verifier that is longer than RFC 5531 §8.2 allows.
    Auth {
        /// Whom to answer.
        xid: u32,
        /// Which of the two it was.
        stat: AuthStat,
    },
}

impl From<Error> for HeaderError {
    /// For plain words, which can only be missing.
    fn from(_: Error) -> Self {
        Self::Short
    }
}

/// Reads a call's header; the message's reader stands at the arguments.
pub(super) fn read(
    record: &[u8],
    transport: Transport,
    security: TransportSecurity,
) -> Result<CallMessage<'_>, HeaderError> {
    let mut r = Reader::new(record);
    let Ok([xid, kind, rpc_version, program, version, procedure]) = r.words() else {
        return Err(cut_short(record));
    };
    check_first_words(xid, kind, rpc_version)?;
    let credential = auth(&mut r, xid, AuthStat::BadCred)?;
    let verifier = auth(&mut r, xid, AuthStat::BadVerf)?;
    let header = CallHeader { xid, program, version, procedure, credential, verifier };
    Ok(CallMessage { header, args: r, record, transport, security })
}

/// Whether the first words are those of a call of this version of RPC.
const fn check_first_words(xid: u32, kind: u32, rpc_version: u32) -> Result<(), HeaderError> {
    match kind {
        CALL if rpc_version == RPC_VERSION => Ok(()),
        CALL => Err(HeaderError::OtherRpc { xid }),
        REPLY => Err(HeaderError::Reply { xid }),
        _ => Err(HeaderError::NotRpc),
    }
}

/// What a record is that ends before the procedure's number, as far as it can be told.
#[cold]
fn cut_short(record: &[u8]) -> HeaderError {
    let mut r = Reader::new(record);
    let Ok([xid, kind]) = r.words() else { return HeaderError::Short };
    // what is not there is taken for what it should be
    let rpc_version = r.u32().unwrap_or(RPC_VERSION);
    check_first_words(xid, kind, rpc_version).err().unwrap_or(HeaderError::Short)
}

/// Reads a credential or verifier; `stat` says which, if it is too long.
fn auth<'a>(r: &mut Reader<'a>, xid: u32, stat: AuthStat) -> Result<OpaqueAuth<'a>, HeaderError> {
    let [flavor, len] = r.words()?;
    let len = len as usize;
    if len > AUTH_BODY_MAX {
        return Err(HeaderError::Auth { xid, stat });
    }
    Ok(OpaqueAuth { flavor, body: r.opaque_fixed(len)? })
}
