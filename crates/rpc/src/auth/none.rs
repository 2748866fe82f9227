//! AUTH_NONE (RFC 5531 §10.1): an anonymous caller.

use super::{Acceptance, CallMessage, Flavor, NotAccepted, check_no_verifier};
use crate::Credential;
use proto::rpc::flavor;

/// The flavour; every server must have it. The body is undefined, so that any body will do.
#[derive(Debug, Clone, Copy, Default)]
pub struct AuthNone;

impl Flavor for AuthNone {
    fn number(&self) -> u32 {
        flavor::AUTH_NONE
    }

    fn accept<'a>(&self, message: &CallMessage<'a>) -> Result<Acceptance<'a>, NotAccepted> {
        check_no_verifier(&message.header.verifier)?;
        Ok(Acceptance::Plain(Credential::Anonymous))
    }

    fn accepts_twice(&self) -> bool {
        true
    }
}
