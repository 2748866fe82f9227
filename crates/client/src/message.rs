//! Call headers out, reply headers in (RFC 5531 §9).

use crate::error::Rejected;
use proto::rpc::{
    Accepted, AuthSysParms, CALL, CallHeader, Denied, GROUPS_MAX, Groups, MACHINE_NAME_MAX,
    OpaqueAuth, REPLY, ReplyBody, ReplyHeader, flavor,
};
use xdr::{Reader, Writer};

/// Who the client says is calling (AUTH_SYS).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// The client's name for its machine; what is over 255 bytes is cut.
    pub machine: String,
    /// User id.
    pub uid: u32,
    /// Primary group id.
    pub gid: u32,
    /// Supplementary groups; only the first sixteen are sent.
    pub groups: Vec<u32>,
}

impl Identity {
    /// A user without supplementary groups.
    pub fn new(uid: u32, gid: u32) -> Self {
        Self { machine: "bowline-client".to_owned(), uid, gid, groups: Vec::new() }
    }

    /// The superuser.
    pub fn root() -> Self {
        Self::new(0, 0)
    }
}

/// What is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Target {
    /// Program number.
    pub program: u32,
    /// Version number.
    pub version: u32,
    /// Procedure number.
    pub procedure: u32,
}

/// Appends a call's header; the arguments follow it.
pub(crate) fn put_call(w: &mut Writer, xid: u32, target: Target, identity: Option<&Identity>) {
    let Target { program, version, procedure } = target;
    let mut body = Writer::new();
    let credential = match identity {
        Some(identity) => {
            body.put(&params(identity));
            OpaqueAuth { flavor: flavor::AUTH_SYS, body: body.bytes() }
        }
        None => OpaqueAuth::NONE,
    };
    let verifier = OpaqueAuth::NONE;
    w.put(&CallHeader { xid, program, version, procedure, credential, verifier });
}

/// What of an identity fits in AUTH_SYS.
fn params(identity: &Identity) -> AuthSysParms<'_> {
    let name = identity.machine.as_bytes();
    let groups = identity.groups.get(..GROUPS_MAX).unwrap_or(&identity.groups);
    AuthSysParms {
        stamp: 0,
        machine_name: name.get(..MACHINE_NAME_MAX).unwrap_or(name),
        uid: identity.uid,
        gid: identity.gid,
        groups: Groups::new(groups).unwrap_or_default(),
    }
}

/// The transaction id of a record, if it is a reply at all.
pub(crate) fn reply_xid(record: &[u8]) -> Result<u32, &'static str> {
    let mut r = Reader::new(record);
    let xid = r.u32().map_err(|_| "the message is too short for a header")?;
    match r.u32() {
        Ok(REPLY) => Ok(xid),
        Ok(CALL) => Err("it sent a call where a reply was due"),
        Ok(_) => Err("the message is neither call nor reply"),
        Err(_) => Err("the message is too short for a header"),
    }
}

/// Why a reply gives no result.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum NoResult {
    /// The server says no.
    Rejected(Rejected),
    /// The header breaks the protocol.
    Garbled(xdr::Error),
}

/// Reads a reply's header; the result is what remains.
pub(crate) fn open_reply(record: &[u8]) -> Result<&[u8], NoResult> {
    let mut r = Reader::new(record);
    let header = r.get::<ReplyHeader<'_>>().map_err(NoResult::Garbled)?;
    let status = match header.body {
        ReplyBody::Accepted { status, .. } => status,
        ReplyBody::Denied(Denied::RpcMismatch { low, high }) => {
            return Err(NoResult::Rejected(Rejected::RpcMismatch { low, high }));
        }
        ReplyBody::Denied(Denied::AuthError(stat)) => {
            return Err(NoResult::Rejected(Rejected::Auth(stat)));
        }
    };
    Err(NoResult::Rejected(match status {
        Accepted::Success => return Ok(r.rest()),
        Accepted::ProgUnavail => Rejected::ProgramUnavailable,
        Accepted::ProgMismatch { low, high } => Rejected::ProgramMismatch { low, high },
        Accepted::ProcUnavail => Rejected::ProcedureUnavailable,
        Accepted::GarbageArgs => Rejected::GarbageArgs,
        Accepted::SystemErr => Rejected::SystemError,
    }))
}

#[cfg(test)]
mod tests {
    use super::{Identity, NoResult, Rejected, Target, open_reply, put_call, reply_xid};
    use proto::rpc::AuthStat;
    use xdr::{Reader, Writer};

    fn words(words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_be_bytes()).collect()
    }

    #[test]
    fn an_anonymous_call_is_ten_words() {
        let mut w = Writer::new();
        put_call(&mut w, 9, Target { program: 100_003, version: 3, procedure: 1 }, None);
        assert_eq!(w.bytes(), words(&[9, 0, 2, 100_003, 3, 1, 0, 0, 0, 0]));
    }

    #[test]
    fn auth_sys_says_how_long_it_is() {
        let identity =
            Identity { machine: "host1".to_owned(), uid: 5, gid: 6, groups: (0..20).collect() };
        let mut w = Writer::new();
        let target = Target { program: 1, version: 1, procedure: 1 };
        put_call(&mut w, 9, target, Some(&identity));
        let mut r = Reader::new(w.bytes().get(24..).unwrap());
        assert_eq!(r.u32(), Ok(1));
        let mut body = Reader::new(r.opaque(400).unwrap());
        assert_eq!(body.u32(), Ok(0));
        assert_eq!(body.opaque(255), Ok(&b"host1"[..]));
        assert_eq!((body.u32(), body.u32(), body.u32()), (Ok(5), Ok(6), Ok(16)));
        assert_eq!(body.remaining(), 64);
        assert_eq!((r.u32(), r.u32(), r.remaining()), (Ok(0), Ok(0), 0));
    }

    #[test]
    fn each_refusal_has_its_name() {
        for (body, wanted) in [
            (&[0, 0, 0, 1][..], Rejected::ProgramUnavailable),
            (&[0, 0, 0, 2, 2, 3], Rejected::ProgramMismatch { low: 2, high: 3 }),
            (&[0, 0, 0, 3], Rejected::ProcedureUnavailable),
            (&[0, 0, 0, 4], Rejected::GarbageArgs),
            (&[0, 0, 0, 5], Rejected::SystemError),
            (&[1, 0, 2, 2], Rejected::RpcMismatch { low: 2, high: 2 }),
            (&[1, 1, 5], Rejected::Auth(AuthStat::TooWeak)),
        ] {
            let record = [words(&[9, 1]), words(body)].concat();
            assert_eq!(open_reply(&record), Err(NoResult::Rejected(wanted)));
        }
    }

    #[test]
    fn a_result_is_what_follows_the_header() {
        let record = words(&[9, 1, 0, 0, 0, 0, 77]);
        assert_eq!(reply_xid(&record), Ok(9));
        assert_eq!(open_reply(&record), Ok(&words(&[77])[..]));
        for cut in 0..24 {
            let part = record.get(..cut).unwrap();
            assert!(matches!(open_reply(part), Err(NoResult::Garbled(_))));
        }
    }

    #[test]
    fn what_is_no_reply_is_seen() {
        assert!(reply_xid(b"").is_err());
        assert!(reply_xid(&words(&[9])).is_err());
        assert!(reply_xid(&words(&[9, 0])).is_err());
        assert!(reply_xid(&words(&[9, 2])).is_err());
        assert!(open_reply(&words(&[9, 1, 7])).is_err());
    }
}
