//! What a flavour does to one call's arguments and reply, beyond reading its credential: RPCSEC_GSS
//! (RFC 2203) signs or seals both, and every reply has a verifier of its own.
//!
//! A [`Protection`] is owned: it lives as long as the reply is pending, which may be longer than the
//! flavour is in force.

use crate::{Credential, Principal};
use proto::rpc::AUTH_BODY_MAX;
use std::sync::Arc;
use xdr::{Mark, Writer};

/// A security context that a client has established, as the dispatcher uses it. `sequence` is the
/// number that the flavour gave when it accepted the call; it tells the calls of a context apart.
pub trait SecurityContext: Send + Sync {
    /// Whose context it is, and how this call is protected ([`Principal::flavor`]).
    fn principal(&self, sequence: u64) -> &Principal;

    /// Appends the body of the reply's verifier, at most 400 bytes (RFC 5531 §8.2), and gives its
    /// flavour. Also replies without results have one.
    fn verifier(&self, sequence: u64, body: &mut Vec<u8>) -> u32;

    /// The arguments: a part of `sealed`, or what was written to `buffer`, which may not become
    /// longer than `sealed`.
    ///
    /// # Errors
    /// [`UnwrapError`]; the call is answered GARBAGE_ARGS (RFC 2203 §5.3.3.4.2).
    fn unwrap<'a>(
        &self,
        sequence: u64,
        sealed: &'a [u8],
        buffer: &'a mut Vec<u8>,
    ) -> Result<&'a [u8], UnwrapError>;

    /// Bytes that are left free before the results, for what [`SecurityContext::wrap`] puts there.
    fn head_len(&self, sequence: u64) -> usize;

    /// Replaces the results, which are all that was written since `results`, and the [`SecurityContext::head_len`] bytes
    /// before them, by their wrapped form.
    fn wrap(&self, sequence: u64, results: Mark, reply: &mut Writer);

    /// Whether results leave as they are, so that pages of files may be sent without being copied.
    fn leaves_results_plain(&self, sequence: u64) -> bool;
}

/// The arguments cannot be unwrapped: they are not what the client has sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the arguments do not match their checksum")]
pub struct UnwrapError;

/// What one call's arguments and reply pass through.
#[derive(Clone)]
pub struct Protection {
    context: Arc<dyn SecurityContext>,
    sequence: u64,
}

impl Protection {
    /// That of a call with this number in this context.
    pub fn new(context: Arc<dyn SecurityContext>, sequence: u64) -> Self {
        Self { context, sequence }
    }

    /// Who is calling.
    pub fn credential(&self) -> Credential<'_> {
        Credential::Principal(self.context.principal(self.sequence))
    }

    /// The arguments; see [`SecurityContext::unwrap`].
    pub(crate) fn unwrap<'a>(
        &self,
        sealed: &'a [u8],
        buffer: &'a mut Vec<u8>,
    ) -> Result<&'a [u8], UnwrapError> {
        let args = self.context.unwrap(self.sequence, sealed, buffer)?;
        if args.len() <= sealed.len() { Ok(args) } else { Err(UnwrapError) }
    }

    /// The flavour and body of the reply's verifier.
    pub(crate) fn verifier(&self) -> (u32, Vec<u8>) {
        let mut body = Vec::new();
        let flavor = self.context.verifier(self.sequence, &mut body);
        debug_assert!(body.len() <= AUTH_BODY_MAX, "a verifier of {} bytes", body.len());
        body.truncate(AUTH_BODY_MAX);
        (flavor, body)
    }

    /// Bytes before the results; see [`SecurityContext::head_len`].
    pub(crate) fn head_len(&self) -> usize {
        self.context.head_len(self.sequence)
    }

    /// Wraps the results.
    pub(crate) fn wrap(&self, results: Mark, reply: &mut Writer) {
        self.context.wrap(self.sequence, results, reply);
    }

    /// Whether ranges of files may be in the reply.
    pub(crate) fn allows_ranges(&self) -> bool {
        self.context.leaves_results_plain(self.sequence)
    }
}
