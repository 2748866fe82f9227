//! A call's header as a server reads it: field by field, because what it cannot serve it must
//! still answer as far as it was readable.

use proto::rpc::{AUTH_BODY_MAX, AuthStat, CALL, CallHeader, OpaqueAuth, REPLY, RPC_VERSION};
use xdr::{Error, Reader};

/// Why there is no call to be looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unreadable {
    /// The record ends within the header.
    Short,
    /// A reply; nobody here has asked.
    Reply,
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

impl From<Error> for Unreadable {
    /// For plain words, which can only be missing.
    fn from(_: Error) -> Self {
        Self::Short
    }
}

/// Reads a call's header; the reader stands at the arguments.
pub(super) fn read(record: &[u8]) -> Result<(CallHeader<'_>, Reader<'_>), Unreadable> {
    let mut r = Reader::new(record);
    let Ok([xid, kind, rpc_version, program, version, procedure]) = r.words() else {
        return Err(cut_short(record));
    };
    begins_well(xid, kind, rpc_version)?;
    let credential = auth(&mut r, xid, AuthStat::BadCred)?;
    let verifier = auth(&mut r, xid, AuthStat::BadVerf)?;
    Ok((CallHeader { xid, program, version, procedure, credential, verifier }, r))
}

/// Whether the first words are those of a call of this version of RPC.
const fn begins_well(xid: u32, kind: u32, rpc_version: u32) -> Result<(), Unreadable> {
    match kind {
        CALL if rpc_version == RPC_VERSION => Ok(()),
        CALL => Err(Unreadable::OtherRpc { xid }),
        REPLY => Err(Unreadable::Reply),
        _ => Err(Unreadable::NotRpc),
    }
}

/// What a record is that ends before the procedure's number, as far as it can be told.
#[cold]
fn cut_short(record: &[u8]) -> Unreadable {
    let mut r = Reader::new(record);
    let Ok([xid, kind]) = r.words() else { return Unreadable::Short };
    // what is not there is taken for what it should be
    let rpc_version = r.u32().unwrap_or(RPC_VERSION);
    begins_well(xid, kind, rpc_version).err().unwrap_or(Unreadable::Short)
}

/// Reads a credential or verifier; `stat` says which, if it is too long.
fn auth<'a>(r: &mut Reader<'a>, xid: u32, stat: AuthStat) -> Result<OpaqueAuth<'a>, Unreadable> {
    let [flavor, len] = r.words()?;
    let len = len as usize;
    if len > AUTH_BODY_MAX {
        return Err(Unreadable::Auth { xid, stat });
    }
    Ok(OpaqueAuth { flavor, body: r.opaque_fixed(len)? })
}
