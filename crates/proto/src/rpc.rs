//! RPC messages (RFC 5531 §9) and AUTH_SYS (appendix A): layouts and their limits.
//!
//! Both directions of every type, borrowed from the record. The part after a header (arguments,
//! results) is not read here: the reader still holds it.

use xdr::{Decode, Encode, Error, Reader, Writer};

/// The only version of the RPC protocol (RFC 5531 §9).
pub const RPC_VERSION: u32 = 2;
/// The longest body of an `opaque_auth` in bytes (RFC 5531 §8.2).
pub const AUTH_BODY_MAX: usize = 400;
/// The longest machine name of AUTH_SYS in bytes (RFC 5531, appendix A).
pub const MACHINE_NAME_MAX: usize = 255;
/// The most supplementary groups of AUTH_SYS (RFC 5531, appendix A).
pub const GROUPS_MAX: usize = 16;
/// `msg_type` of a call (RFC 5531 §9).
pub const CALL: u32 = 0;
/// `msg_type` of a reply (RFC 5531 §9).
pub const REPLY: u32 = 1;

/// Authentication flavours (RFC 5531 §8.2).
pub mod flavor {
    /// No identity.
    pub const AUTH_NONE: u32 = 0;
    /// User and groups as numbers, unauthenticated.
    pub const AUTH_SYS: u32 = 1;
    /// A server's shorthand for a credential; Bowline does not use it.
    pub const AUTH_SHORT: u32 = 2;
    /// The probe for TLS (RFC 9289 §7.1).
    pub const AUTH_TLS: u32 = 7;
    /// Diffie-Hellman, deprecated.
    pub const AUTH_DH: u32 = 3;
    /// GSS-API (RFC 2203).
    pub const RPCSEC_GSS: u32 = 6;
    /// Kerberos with RPCSEC_GSS, messages signed: what MNT and SECINFO call it (RFC 2623 §2.2.1).
    pub const KRB5I: u32 = 390_004;
    /// The same, messages encrypted.
    pub const KRB5P: u32 = 390_005;
}

/// A flavour and a body that only the flavour understands (RFC 5531 §8.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpaqueAuth<'a> {
    /// The flavour's number; see [`flavor`].
    pub flavor: u32,
    /// At most [`AUTH_BODY_MAX`] bytes.
    pub body: &'a [u8],
}

impl OpaqueAuth<'_> {
    /// AUTH_NONE with an empty body, as RFC 5531 §10.1 recommends.
    pub const NONE: Self = Self { flavor: flavor::AUTH_NONE, body: &[] };
}

impl<'a> Decode<'a> for OpaqueAuth<'a> {
    fn decode(r: &mut Reader<'a>) -> Result<Self, Error> {
        Ok(Self { flavor: r.u32()?, body: r.opaque(AUTH_BODY_MAX)? })
    }
}

impl Encode for OpaqueAuth<'_> {
    fn encode(&self, w: &mut Writer) {
        w.u32(self.flavor);
        w.opaque(self.body);
    }
}

/// A call up to its arguments: `rpc_msg` with `call_body` (RFC 5531 §9).
///
/// The decoder accepts only well-formed calls of [`RPC_VERSION`]; a server, which must answer the
/// others as well, reads the same fields one by one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallHeader<'a> {
    /// Transaction id; the reply carries the same.
    pub xid: u32,
    /// The program's number.
    pub program: u32,
    /// The program's version.
    pub version: u32,
    /// The procedure's number in that version.
    pub procedure: u32,
    /// The credential of the caller.
    pub credential: OpaqueAuth<'a>,
    /// The verifier of the credential.
    pub verifier: OpaqueAuth<'a>,
}

impl<'a> Decode<'a> for CallHeader<'a> {
    fn decode(r: &mut Reader<'a>) -> Result<Self, Error> {
        let xid = r.u32()?;
        match r.u32()? {
            CALL => {}
            value => return Err(Error::NotMember { what: "msg_type of a call", value }),
        }
        match r.u32()? {
            RPC_VERSION => {}
            value => return Err(Error::NotMember { what: "RPC versions", value }),
        }
        Ok(Self {
            xid,
            program: r.u32()?,
            version: r.u32()?,
            procedure: r.u32()?,
            credential: r.get()?,
            verifier: r.get()?,
        })
    }
}

impl Encode for CallHeader<'_> {
    fn encode(&self, w: &mut Writer) {
        w.u32(self.xid);
        w.u32(CALL);
        w.u32(RPC_VERSION);
        w.u32(self.program);
        w.u32(self.version);
        w.u32(self.procedure);
        w.put(&self.credential);
        w.put(&self.verifier);
    }
}

/// Why a credential was rejected: `auth_stat` without AUTH_OK (RFC 5531 §9).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
#[repr(u32)]
pub enum AuthStat {
    /// AUTH_BADCRED.
    #[error("bad credential")]
    BadCred = 1,
    /// AUTH_REJECTEDCRED.
    #[error("the client must begin a new session")]
    RejectedCred = 2,
    /// AUTH_BADVERF.
    #[error("bad verifier")]
    BadVerf = 3,
    /// AUTH_REJECTEDVERF.
    #[error("the verifier is expired or was replayed")]
    RejectedVerf = 4,
    /// AUTH_TOOWEAK.
    #[error("the flavour is too weak")]
    TooWeak = 5,
    /// AUTH_INVALIDRESP.
    #[error("bogus response verifier")]
    InvalidResp = 6,
    /// AUTH_FAILED: reason unknown; also any number that the RFC does not define.
    #[error("authentication failed for an unknown reason")]
    Failed = 7,
    /// AUTH_KERB_GENERIC.
    #[error("Kerberos error")]
    KerbGeneric = 8,
    /// AUTH_TIMEEXPIRE.
    #[error("the credential has expired")]
    TimeExpire = 9,
    /// AUTH_TKT_FILE.
    #[error("problem with the ticket file")]
    TktFile = 10,
    /// AUTH_DECODE.
    #[error("the authenticator does not decode")]
    Decode = 11,
    /// AUTH_NET_ADDR.
    #[error("wrong network address in the ticket")]
    NetAddr = 12,
    /// RPCSEC_GSS_CREDPROBLEM.
    #[error("no GSS credentials for the user")]
    GssCredProblem = 13,
    /// RPCSEC_GSS_CTXPROBLEM.
    #[error("problem with the GSS context")]
    GssCtxProblem = 14,
}

impl AuthStat {
    /// The number on the wire.
    pub const fn number(self) -> u32 {
        self as u32
    }

    /// The reason with this number; an undefined one (IANA may add some) is [`AuthStat::Failed`],
    /// as is AUTH_OK, which is invalid in a rejection.
    pub const fn from_number(number: u32) -> Self {
        match number {
            1 => Self::BadCred,
            2 => Self::RejectedCred,
            3 => Self::BadVerf,
            4 => Self::RejectedVerf,
            5 => Self::TooWeak,
            6 => Self::InvalidResp,
            8 => Self::KerbGeneric,
            9 => Self::TimeExpire,
            10 => Self::TktFile,
            11 => Self::Decode,
            12 => Self::NetAddr,
            13 => Self::GssCredProblem,
            14 => Self::GssCtxProblem,
            _ => Self::Failed,
        }
    }
}

/// The outcome of a call: `reply_stat` with both unions below it (RFC 5531 §9).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplyBody<'a> {
    /// MSG_ACCEPTED: the credential was accepted.
    Accepted {
        /// The server's verifier.
        verifier: OpaqueAuth<'a>,
        /// The outcome.
        status: Accepted,
    },
    /// MSG_DENIED: the call was not processed.
    Denied(Denied),
}

/// `accept_stat` with its data (RFC 5531 §9).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Accepted {
    /// SUCCESS: the procedure's result follows the header.
    Success,
    /// PROG_UNAVAIL: no such program here.
    ProgUnavail,
    /// PROG_MISMATCH: no such version of the program here.
    ProgMismatch {
        /// The lowest version served.
        low: u32,
        /// The highest version served.
        high: u32,
    },
    /// PROC_UNAVAIL: no such procedure in that version.
    ProcUnavail,
    /// GARBAGE_ARGS: the arguments do not decode.
    GarbageArgs,
    /// SYSTEM_ERR: the server cannot answer.
    SystemErr,
}

/// `reject_stat` with its data (RFC 5531 §9).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Denied {
    /// RPC_MISMATCH: another version of RPC itself.
    RpcMismatch {
        /// The lowest version served.
        low: u32,
        /// The highest version served.
        high: u32,
    },
    /// AUTH_ERROR: the credential is rejected.
    AuthError(AuthStat),
}

impl<'a> Decode<'a> for Accepted {
    fn decode(r: &mut Reader<'a>) -> Result<Self, Error> {
        Ok(match r.u32()? {
            0 => Self::Success,
            1 => Self::ProgUnavail,
            2 => Self::ProgMismatch { low: r.u32()?, high: r.u32()? },
            3 => Self::ProcUnavail,
            4 => Self::GarbageArgs,
            5 => Self::SystemErr,
            value => return Err(Error::NotMember { what: "accept_stat", value }),
        })
    }
}

impl Encode for Accepted {
    fn encode(&self, w: &mut Writer) {
        match *self {
            Self::Success => w.u32(0),
            Self::ProgUnavail => w.u32(1),
            Self::ProgMismatch { low, high } => {
                w.u32(2);
                w.u32(low);
                w.u32(high);
            }
            Self::ProcUnavail => w.u32(3),
            Self::GarbageArgs => w.u32(4),
            Self::SystemErr => w.u32(5),
        }
    }
}

impl<'a> Decode<'a> for Denied {
    fn decode(r: &mut Reader<'a>) -> Result<Self, Error> {
        Ok(match r.u32()? {
            0 => Self::RpcMismatch { low: r.u32()?, high: r.u32()? },
            1 => Self::AuthError(AuthStat::from_number(r.u32()?)),
            value => return Err(Error::NotMember { what: "reject_stat", value }),
        })
    }
}

impl Encode for Denied {
    fn encode(&self, w: &mut Writer) {
        match *self {
            Self::RpcMismatch { low, high } => {
                w.u32(0);
                w.u32(low);
                w.u32(high);
            }
            Self::AuthError(stat) => {
                w.u32(1);
                w.u32(stat.number());
            }
        }
    }
}

impl<'a> Decode<'a> for ReplyBody<'a> {
    fn decode(r: &mut Reader<'a>) -> Result<Self, Error> {
        Ok(match r.u32()? {
            0 => Self::Accepted { verifier: r.get()?, status: r.get()? },
            1 => Self::Denied(r.get()?),
            value => return Err(Error::NotMember { what: "reply_stat", value }),
        })
    }
}

impl Encode for ReplyBody<'_> {
    fn encode(&self, w: &mut Writer) {
        match self {
            Self::Accepted { verifier, status } => {
                w.u32(0);
                w.put(verifier);
                w.put(status);
            }
            Self::Denied(denied) => {
                w.u32(1);
                w.put(denied);
            }
        }
    }
}

/// A reply up to its results: `rpc_msg` with `reply_body` (RFC 5531 §9).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReplyHeader<'a> {
    /// The transaction id of the call.
    pub xid: u32,
    /// The outcome.
    pub body: ReplyBody<'a>,
}

impl ReplyHeader<'_> {
    /// The header of an accepted call's reply, with the empty verifier.
    pub const fn accepted(xid: u32, status: Accepted) -> Self {
        Self { xid, body: ReplyBody::Accepted { verifier: OpaqueAuth::NONE, status } }
    }

    /// The header of a denied call's reply.
    pub const fn denied(xid: u32, denied: Denied) -> Self {
        Self { xid, body: ReplyBody::Denied(denied) }
    }
}

impl<'a> Decode<'a> for ReplyHeader<'a> {
    fn decode(r: &mut Reader<'a>) -> Result<Self, Error> {
        let xid = r.u32()?;
        match r.u32()? {
            REPLY => Ok(Self { xid, body: r.get()? }),
            value => Err(Error::NotMember { what: "msg_type of a reply", value }),
        }
    }
}

impl Encode for ReplyHeader<'_> {
    fn encode(&self, w: &mut Writer) {
        // written in one piece, because nearly every reply begins so
        if let ReplyBody::Accepted { verifier, status: Accepted::Success } = &self.body
            && verifier.body.is_empty()
        {
            // MSG_ACCEPTED and SUCCESS are 0
            return w.words([self.xid, REPLY, 0, verifier.flavor, 0, 0]);
        }
        w.u32(self.xid);
        w.u32(REPLY);
        w.put(&self.body);
    }
}

/// Supplementary groups, inline; never more than [`GROUPS_MAX`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Groups {
    /// Unused entries are 0.
    list: [u32; GROUPS_MAX],
    len: usize,
}

impl Groups {
    /// These groups; `None` if there are more than [`GROUPS_MAX`].
    pub fn new(groups: &[u32]) -> Option<Self> {
        let mut list = [0; GROUPS_MAX];
        list.get_mut(..groups.len())?.copy_from_slice(groups);
        Some(Self { list, len: groups.len() })
    }

    /// The groups in the order of the wire.
    pub fn as_slice(&self) -> &[u32] {
        self.list.get(..self.len).unwrap_or_default()
    }
}

impl<'a> Decode<'a> for Groups {
    fn decode(r: &mut Reader<'a>) -> Result<Self, Error> {
        let len = r.count(GROUPS_MAX)?;
        let mut list = [0; GROUPS_MAX];
        let words = r.opaque_fixed(len.saturating_mul(4))?.as_chunks::<4>().0;
        for (group, word) in list.iter_mut().zip(words) {
            *group = u32::from_be_bytes(*word);
        }
        Ok(Self { list, len })
    }
}

impl Encode for Groups {
    fn encode(&self, w: &mut Writer) {
        w.u32(u32::try_from(self.len).unwrap_or(u32::MAX));
        for group in self.as_slice() {
            w.u32(*group);
        }
    }
}

/// `authsys_parms`, the body of an AUTH_SYS credential (RFC 5531, appendix A).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AuthSysParms<'a> {
    /// An arbitrary number of the client's; ignored by servers.
    pub stamp: u32,
    /// The client's machine name, at most [`MACHINE_NAME_MAX`] bytes.
    pub machine_name: &'a [u8],
    /// Effective user id.
    pub uid: u32,
    /// Effective group id.
    pub gid: u32,
    /// Supplementary groups.
    pub groups: Groups,
}

impl<'a> Decode<'a> for AuthSysParms<'a> {
    fn decode(r: &mut Reader<'a>) -> Result<Self, Error> {
        let stamp = r.u32()?;
        let machine_name = r.opaque(MACHINE_NAME_MAX)?;
        let [uid, gid] = r.words()?;
        Ok(Self { stamp, machine_name, uid, gid, groups: r.get()? })
    }
}

impl Encode for AuthSysParms<'_> {
    fn encode(&self, w: &mut Writer) {
        w.u32(self.stamp);
        w.opaque(self.machine_name);
        w.u32(self.uid);
        w.u32(self.gid);
        w.put(&self.groups);
    }
}

#[cfg(test)]
mod tests;
