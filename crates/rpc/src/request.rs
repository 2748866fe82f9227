//! The client's half of a call: its header.
//!
//! The arguments follow in the same writer, right behind the header.

use crate::AuthSys;
use proto::rpc::{CALL, OpaqueAuth, RPC_VERSION, flavor};
use xdr::{Encode, Writer};

/// A call without its arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request<'a> {
    /// Transaction id; the reply carries the same. A retransmission keeps it.
    pub xid: u32,
    /// The program's number.
    pub program: u32,
    /// The program's version.
    pub version: u32,
    /// The procedure's number.
    pub procedure: u32,
    /// Who is asking, by AUTH_SYS; `None` asks by AUTH_NONE.
    pub credential: Option<AuthSys<'a>>,
}

impl Encode for Request<'_> {
    fn encode(&self, w: &mut Writer) {
        for word in [self.xid, CALL, RPC_VERSION, self.program, self.version, self.procedure] {
            w.u32(word);
        }
        match &self.credential {
            None => w.put(&OpaqueAuth::NONE),
            Some(sys) => {
                w.u32(flavor::AUTH_SYS);
                let len = w.mark();
                w.u32(0);
                let body = w.mark();
                // The stamp stays 0, so that a retransmission is the same byte for byte.
                w.put(&sys.parms(0));
                w.patch_u32(len, u32::try_from(w.written_since(body)).unwrap_or(u32::MAX));
            }
        }
        w.put(&OpaqueAuth::NONE);
    }
}

#[cfg(test)]
mod tests {
    use super::Request;
    use crate::AuthSys;
    use proto::rpc::{AuthSysParms, CallHeader, OpaqueAuth};
    use xdr::{Reader, Writer};

    const REQUEST: Request<'_> =
        Request { xid: 5, program: 100_003, version: 3, procedure: 6, credential: None };

    #[test]
    fn without_a_credential_there_are_ten_words() {
        let mut w = Writer::new();
        w.put(&REQUEST);
        let words = [5, 0, 2, 100_003, 3, 6, 0, 0, 0, 0].map(u32::to_be_bytes);
        assert_eq!(w.bytes(), words.as_flattened());
    }

    #[test]
    fn a_server_reads_the_credential_that_was_sent() {
        let sys = AuthSys::new(b"krypton", 1000, 100, &[4, 24, 27]).unwrap();
        let mut w = Writer::new();
        w.put(&Request { credential: Some(sys), ..REQUEST });
        let mut r = Reader::new(w.bytes());
        let header: CallHeader<'_> = r.get().unwrap();
        r.end().unwrap();
        assert_eq!((header.xid, header.procedure), (5, 6));
        assert_eq!(header.verifier, OpaqueAuth::NONE);
        let mut body = Reader::new(header.credential.body);
        let parms: AuthSysParms<'_> = body.get().unwrap();
        body.end().unwrap();
        assert_eq!(AuthSys::from(parms), sys);
    }
}
