//! AUTH_NONE (RFC 5531 §10.1): nobody in particular.

use super::{Flavor, unproved};
use crate::Credential;
use proto::rpc::{AuthStat, OpaqueAuth, flavor};

/// The flavour; every server must have it. The body is undefined, so that any body will do.
#[derive(Debug, Clone, Copy, Default)]
pub struct AuthNone;

impl Flavor for AuthNone {
    fn number(&self) -> u32 {
        flavor::AUTH_NONE
    }

    fn authenticate<'a>(
        &self,
        _credential: &OpaqueAuth<'a>,
        verifier: &OpaqueAuth<'a>,
    ) -> Result<Credential<'a>, AuthStat> {
        unproved(verifier)?;
        Ok(Credential::Anonymous)
    }
}
