//! AUTH_SYS (RFC 5531, appendix A): user and groups as the client states them, without proof.

use super::{Acceptance, CallMessage, Flavor, NotAccepted, check_no_verifier};
use crate::{AuthSys, Credential};
use proto::rpc::{AuthStat, AuthSysParms, flavor};
use xdr::Reader;

/// The flavour. A body that does not decode, or goes on behind the last group, is AUTH_BADCRED.
#[derive(Debug, Clone, Copy, Default)]
pub struct AuthSysFlavor;

impl Flavor for AuthSysFlavor {
    fn number(&self) -> u32 {
        flavor::AUTH_SYS
    }

    fn accept<'a>(&self, message: &CallMessage<'a>) -> Result<Acceptance<'a>, NotAccepted> {
        let mut r = Reader::new(message.header.credential.body);
        let parms: AuthSysParms<'a> = r.get().map_err(|_| AuthStat::BadCred)?;
        r.end().map_err(|_| AuthStat::BadCred)?;
        check_no_verifier(&message.header.verifier)?;
        Ok(Acceptance::Plain(Credential::Sys(AuthSys::from(parms))))
    }

    fn accepts_twice(&self) -> bool {
        true
    }
}
