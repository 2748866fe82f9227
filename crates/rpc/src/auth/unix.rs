//! AUTH_SYS (RFC 5531, appendix A): the client's word for its user and groups.

use super::{Flavor, unproved};
use crate::{AuthSys, Credential};
use proto::rpc::{AuthStat, AuthSysParms, OpaqueAuth, flavor};
use xdr::Reader;

/// The flavour. A body that does not decode, or goes on behind the last group, is AUTH_BADCRED.
#[derive(Debug, Clone, Copy, Default)]
pub struct AuthSysFlavor;

impl Flavor for AuthSysFlavor {
    fn number(&self) -> u32 {
        flavor::AUTH_SYS
    }

    fn authenticate<'a>(
        &self,
        credential: &OpaqueAuth<'a>,
        verifier: &OpaqueAuth<'a>,
    ) -> Result<Credential<'a>, AuthStat> {
        let mut r = Reader::new(credential.body);
        let parms: AuthSysParms<'a> = r.get().map_err(|_| AuthStat::BadCred)?;
        r.end().map_err(|_| AuthStat::BadCred)?;
        unproved(verifier)?;
        Ok(Credential::Sys(AuthSys::from(parms)))
    }
}
