//! AUTH_TLS (RFC 9289 §4.1): the probe by which a client asks for TLS. No other call has this flavour.
//!
//! The probe is the NULL procedure of any program with an empty credential and an empty AUTH_NONE verifier. Whether
//! its connection can change to TLS the dispatcher decides, which knows how the message came.

use super::{Acceptance, CallMessage, Flavor, FlavorReply, NotAccepted};
use proto::rpc::{AuthStat, flavor};

/// The body of the verifier that says that TLS follows.
pub const STARTTLS: &[u8; 8] = b"STARTTLS";
/// The NULL procedure of every program.
const NULL: u32 = 0;

/// The flavour; in the table of a server that has a certificate.
#[derive(Debug, Clone, Copy, Default)]
pub struct AuthTls;

impl Flavor for AuthTls {
    fn number(&self) -> u32 {
        flavor::AUTH_TLS
    }

    fn accept<'a>(&self, message: &CallMessage<'a>) -> Result<Acceptance<'a>, NotAccepted> {
        let header = &message.header;
        let verifier = &header.verifier;
        let is_probe = header.procedure == NULL
            && header.credential.body.is_empty()
            && verifier.flavor == flavor::AUTH_NONE
            && verifier.body.is_empty();
        if !is_probe {
            return Err(AuthStat::BadCred.into());
        }
        Err(NotAccepted::Answered(Box::new(FlavorReply {
            verifier_flavor: flavor::AUTH_NONE,
            verifier: STARTTLS.to_vec(),
            results: Vec::new(),
            start_tls: true,
        })))
    }
}
