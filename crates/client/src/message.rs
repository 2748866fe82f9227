//! Encodes call headers and decodes reply headers (RFC 5531 §9).

use proto::rpc::{CALL, GROUPS_MAX, MACHINE_NAME_MAX, REPLY};
use rpc::{AuthSys, Request};
use xdr::{Reader, Writer};

/// The identity of the caller (AUTH_SYS).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// The client's machine name; truncated to 255 bytes.
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

/// Target of a call.
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
    let credential = identity.and_then(credential);
    w.put(&Request { xid, program, version, procedure, credential });
}

/// The part of an identity that fits in AUTH_SYS.
fn credential(identity: &Identity) -> Option<AuthSys<'_>> {
    let name = identity.machine.as_bytes();
    let name = name.get(..MACHINE_NAME_MAX).unwrap_or(name);
    let groups = identity.groups.get(..GROUPS_MAX).unwrap_or(&identity.groups);
    AuthSys::new(name, identity.uid, identity.gid, groups)
}

/// The transaction id of a record, if it is a reply.
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

#[cfg(test)]
mod tests {
    use super::{Identity, Target, put_call, reply_xid};
    use proto::rpc::{AuthSysParms, CallHeader};
    use xdr::{Reader, Writer};

    fn words(words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_be_bytes()).collect()
    }

    #[test]
    fn a_credential_is_truncated_to_the_limits_of_auth_sys() {
        let identity =
            Identity { machine: "h".repeat(300), uid: 5, gid: 6, groups: (0..20).collect() };
        let mut w = Writer::new();
        let target = Target { program: 1, version: 2, procedure: 3 };
        put_call(&mut w, 9, target, Some(&identity));
        let header: CallHeader<'_> = Reader::new(w.bytes()).get().unwrap();
        assert_eq!((header.program, header.version, header.procedure), (1, 2, 3));
        let sys: AuthSysParms<'_> = Reader::new(header.credential.body).get().unwrap();
        assert_eq!((sys.uid, sys.gid, sys.machine_name.len()), (5, 6, 255));
        assert_eq!(sys.groups.as_slice(), (0..16).collect::<Vec<_>>());
    }

    #[test]
    fn messages_that_are_not_replies_are_errors() {
        assert_eq!(reply_xid(&words(&[9, 1])), Ok(9));
        assert!(reply_xid(b"").is_err());
        assert!(reply_xid(&words(&[9])).is_err());
        assert!(reply_xid(&words(&[9, 0])).is_err());
        assert!(reply_xid(&words(&[9, 2])).is_err());
    }
}
