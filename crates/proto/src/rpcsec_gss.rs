//! RPCSEC_GSS version 1 (RFC 2203): credential, context establishment, and the bodies of protected calls, in both
//! directions.

use xdr::{Decode, Encode, Error, Reader, Writer};

/// The version of the credential (§5).
pub const VERSION: u32 = 1;
/// The longest context handle that is read, in bytes; ours have 16.
pub const HANDLE_MAX: usize = 64;
/// Sequence numbers are below this (§5.3.3.1).
pub const MAXSEQ: u32 = 0x8000_0000;
/// The longest token that is read, in bytes: a Kerberos ticket with an Active Directory PAC takes up to 40 KiB.
pub const TOKEN_MAX: usize = 64 << 10;
/// The longest checksum that is read, in bytes.
pub const CHECKSUM_MAX: usize = 256;

crate::layout::numbers! {
    /// `rpc_gss_proc_t` (§5): what a message is for.
    Control as "rpc_gss_proc_t" {
        /// RPCSEC_GSS_DATA: a call of a procedure.
        Data = 0,
        /// RPCSEC_GSS_INIT: the first token of a context.
        Init = 1,
        /// RPCSEC_GSS_CONTINUE_INIT: a further token.
        ContinueInit = 2,
        /// RPCSEC_GSS_DESTROY: the end of a context.
        Destroy = 3,
    }
}

crate::layout::numbers! {
    /// `rpc_gss_service_t` (§5): what is protected besides the header.
    Service as "rpc_gss_service_t" {
        /// rpc_gss_svc_none.
        None = 1,
        /// rpc_gss_svc_integrity: arguments and results are signed.
        Integrity = 2,
        /// rpc_gss_svc_privacy: arguments and results are encrypted.
        Privacy = 3,
    }
}

/// `rpc_gss_cred_vers_1_t` (§5), with the version before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GssCredential<'a> {
    /// What the message is for.
    pub control: Control,
    /// The message's number in its context.
    pub sequence: u32,
    /// How it is protected.
    pub service: Service,
    /// Which context; empty in the first message.
    pub handle: &'a [u8],
}

impl<'a> Decode<'a> for GssCredential<'a> {
    fn decode(r: &mut Reader<'a>) -> Result<Self, Error> {
        let version = r.u32()?;
        if version != VERSION {
            return Err(Error::NotMember { what: "rpcsec_gss version", value: version });
        }
        let (control, sequence) = (r.get()?, r.u32()?);
        Ok(Self { control, sequence, service: r.get()?, handle: r.opaque(HANDLE_MAX)? })
    }
}

impl Encode for GssCredential<'_> {
    fn encode(&self, w: &mut Writer) {
        w.u32(VERSION);
        w.put(&self.control);
        w.u32(self.sequence);
        w.put(&self.service);
        w.opaque(self.handle);
    }
}

/// `rpc_gss_init_res` (§5.2.3.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InitResult<'a> {
    /// The context's name in later messages; empty after a failure.
    pub handle: &'a [u8],
    /// GSS-API's major status: 0 is success.
    pub major: u32,
    /// The mechanism's status.
    pub minor: u32,
    /// How many sequence numbers may be under way.
    pub window: u32,
    /// The token for the initiator.
    pub token: &'a [u8],
}

impl<'a> Decode<'a> for InitResult<'a> {
    fn decode(r: &mut Reader<'a>) -> Result<Self, Error> {
        let handle = r.opaque(HANDLE_MAX)?;
        let [major, minor, window] = r.words()?;
        Ok(Self { handle, major, minor, window, token: r.opaque(TOKEN_MAX)? })
    }
}

impl Encode for InitResult<'_> {
    fn encode(&self, w: &mut Writer) {
        w.opaque(self.handle);
        w.words([self.major, self.minor, self.window]);
        w.opaque(self.token);
    }
}

/// `rpc_gss_integ_data` (§5.3.2.2): the sequence number and the arguments or results, and their checksum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IntegrityBody<'a> {
    /// `databody_integ`: the checksum is over these bytes.
    pub body: &'a [u8],
    /// `checksum`.
    pub checksum: &'a [u8],
}

impl<'a> Decode<'a> for IntegrityBody<'a> {
    fn decode(r: &mut Reader<'a>) -> Result<Self, Error> {
        Ok(Self { body: r.opaque(r.remaining())?, checksum: r.opaque(CHECKSUM_MAX)? })
    }
}

impl Encode for IntegrityBody<'_> {
    fn encode(&self, w: &mut Writer) {
        w.opaque(self.body);
        w.opaque(self.checksum);
    }
}

#[cfg(test)]
mod tests {
    use super::{Control, GssCredential, InitResult, IntegrityBody, Service};
    use xdr::{Encode, Reader, Writer};

    fn bytes(value: &impl Encode) -> Vec<u8> {
        let mut w = Writer::new();
        w.put(value);
        w.bytes().to_vec()
    }

    #[test]
    fn the_credential_is_laid_out_as_in_section_5() {
        let credential = GssCredential {
            control: Control::Destroy,
            sequence: 7,
            service: Service::Privacy,
            handle: b"abcde",
        };
        let wire = bytes(&credential);
        let words = [1, 3, 7, 3, 5].map(u32::to_be_bytes).concat();
        assert_eq!(wire, [&words[..], b"abcde\0\0\0"].concat());
        assert_eq!(Reader::new(&wire).get(), Ok(credential));
        for (at, wrong) in [(3, 2), (7, 4), (15, 0), (15, 4)] {
            let mut wire = wire.clone();
            wire[at] = wrong;
            assert!(Reader::new(&wire).get::<GssCredential<'_>>().is_err());
        }
    }

    #[test]
    fn the_result_of_init_and_a_signed_body_round_trip() {
        let result = InitResult { handle: b"h", major: 1, minor: 2, window: 3, token: b"token" };
        assert_eq!(Reader::new(&bytes(&result)).get(), Ok(result));
        let body = IntegrityBody { body: b"\0\0\0\x07args", checksum: b"sum" };
        assert_eq!(Reader::new(&bytes(&body)).get(), Ok(body));
    }
}
