//! The client's half of a reply: its xid, and its results or why there are none.

use proto::rpc::{Accepted, AuthStat, Denied, ReplyBody, ReplyHeader};
use xdr::{Error, Reader};

/// A reply, its header read.
#[derive(Debug, Clone)]
pub struct Reply<'a> {
    /// The transaction id of the call that this answers.
    pub xid: u32,
    /// The procedure's results, not yet read; or why there are none.
    pub results: Result<Reader<'a>, Refusal>,
}

/// Why a server gives no results (RFC 5531 §9).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Refusal {
    /// RPC_MISMATCH: the client speaks another RPC.
    #[error("the server speaks RPC versions {low} to {high} only")]
    RpcMismatch {
        /// The lowest version served.
        low: u32,
        /// The highest version served.
        high: u32,
    },
    /// AUTH_ERROR: the client must send another credential.
    #[error("the server refuses the credential: {0}")]
    Auth(#[from] AuthStat),
    /// PROG_UNAVAIL.
    #[error("the server does not serve this program")]
    ProgUnavail,
    /// PROG_MISMATCH.
    #[error("the server serves versions {low} to {high} of this program only")]
    ProgMismatch {
        /// The lowest version served.
        low: u32,
        /// The highest version served.
        high: u32,
    },
    /// PROC_UNAVAIL.
    #[error("the server does not serve this procedure")]
    ProcUnavail,
    /// GARBAGE_ARGS: the two ends do not agree on the arguments' layout.
    #[error("the server cannot decode the arguments")]
    GarbageArgs,
    /// SYSTEM_ERR: the server's fault; see its log.
    #[error("the server failed")]
    SystemErr,
}

impl<'a> Reply<'a> {
    /// Reads the header of a reply message (without record mark).
    ///
    /// # Errors
    /// [`Error`]: the message is not a reply; nothing in it can be trusted.
    pub fn parse(record: &'a [u8]) -> Result<Self, Error> {
        let mut r = Reader::new(record);
        let header: ReplyHeader<'a> = r.get()?;
        let results = match refusal(&header.body) {
            None => Ok(r),
            Some(refusal) => Err(refusal),
        };
        Ok(Self { xid: header.xid, results })
    }
}

/// Why there are no results; `None` for success.
const fn refusal(body: &ReplyBody<'_>) -> Option<Refusal> {
    Some(match *body {
        ReplyBody::Denied(Denied::RpcMismatch { low, high }) => Refusal::RpcMismatch { low, high },
        ReplyBody::Denied(Denied::AuthError(stat)) => Refusal::Auth(stat),
        ReplyBody::Accepted { status, verifier: _ } => match status {
            Accepted::Success => return None,
            Accepted::ProgUnavail => Refusal::ProgUnavail,
            Accepted::ProgMismatch { low, high } => Refusal::ProgMismatch { low, high },
            Accepted::ProcUnavail => Refusal::ProcUnavail,
            Accepted::GarbageArgs => Refusal::GarbageArgs,
            Accepted::SystemErr => Refusal::SystemErr,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::{Refusal, Reply};
    use proto::rpc::AuthStat;
    use xdr::Error;

    fn words(words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|w| w.to_be_bytes()).collect()
    }

    #[test]
    fn results_follow_a_success() {
        let wire = words(&[7, 1, 0, 0, 0, 0, 42]);
        let reply = Reply::parse(&wire).unwrap();
        assert_eq!(reply.xid, 7);
        let mut results = reply.results.unwrap();
        assert_eq!(results.u32(), Ok(42));
        results.end().unwrap();
    }

    #[test]
    fn rejections_are_distinguished() {
        for (wire, refusal) in [
            (&[7, 1, 0, 0, 0, 1][..], Refusal::ProgUnavail),
            (&[7, 1, 0, 0, 0, 2, 2, 3], Refusal::ProgMismatch { low: 2, high: 3 }),
            (&[7, 1, 0, 0, 0, 3], Refusal::ProcUnavail),
            (&[7, 1, 0, 0, 0, 4], Refusal::GarbageArgs),
            (&[7, 1, 0, 0, 0, 5], Refusal::SystemErr),
            (&[7, 1, 1, 0, 2, 2], Refusal::RpcMismatch { low: 2, high: 2 }),
            (&[7, 1, 1, 1, 1], Refusal::Auth(AuthStat::BadCred)),
        ] {
            let wire = words(wire);
            let reply = Reply::parse(&wire).unwrap();
            assert_eq!((reply.xid, reply.results.err()), (7, Some(refusal)));
        }
    }

    #[test]
    fn a_message_that_is_not_a_reply_is_an_error() {
        assert!(matches!(Reply::parse(&words(&[7, 0, 2])), Err(Error::NotMember { .. })));
        assert!(matches!(Reply::parse(&words(&[7, 1, 0, 0])), Err(Error::Short { .. })));
    }
}
