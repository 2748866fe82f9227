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
    let xid = r.u32()?;
    match r.u32()? {
        CALL => {}
        REPLY => return Err(Unreadable::Reply),
        _ => return Err(Unreadable::NotRpc),
    }
    if r.u32()? != RPC_VERSION {
        return Err(Unreadable::OtherRpc { xid });
    }
    let header = CallHeader {
        xid,
        program: r.u32()?,
        version: r.u32()?,
        procedure: r.u32()?,
        credential: auth(&mut r, xid, AuthStat::BadCred)?,
        verifier: auth(&mut r, xid, AuthStat::BadVerf)?,
    };
    Ok((header, r))
}

/// Reads a credential or verifier; `stat` says which, if it is too long.
fn auth<'a>(r: &mut Reader<'a>, xid: u32, stat: AuthStat) -> Result<OpaqueAuth<'a>, Unreadable> {
    let flavor = r.u32()?;
    let len = r.count(usize::MAX)?;
    if len > AUTH_BODY_MAX {
        return Err(Unreadable::Auth { xid, stat });
    }
    Ok(OpaqueAuth { flavor, body: r.opaque_fixed(len)? })
}
