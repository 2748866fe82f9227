//! The GSS-API calls that RPCSEC_GSS needs of a mechanism (RFC 2203 §5): accepting contexts, and per-message calls.

use rpc::PrincipalUser;
use std::ops::Range;

/// Accepts the tokens of clients that establish a context.
pub trait Acceptor: Send + Sync {
    /// Accepts a client's token; may block on files and name services.
    ///
    /// # Errors
    /// [`Refusal`]; its status numbers are sent to the client.
    fn accept(&self, token: &[u8]) -> Result<Established, Refusal>;
}

/// An established context.
pub struct Established {
    /// Its per-message calls.
    pub messages: Box<dyn Messages>,
    /// The token for the client.
    pub token: Vec<u8>,
    /// The initiator's name, as the mechanism writes it.
    pub principal: String,
    /// The user of this machine that it is mapped to.
    pub user: Option<PrincipalUser>,
    /// Its lifetime in seconds; `None`: unlimited.
    pub lifetime_s: Option<u32>,
}

/// Why a context is not established.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// GSS-API's major status (RFC 2744 §3.9.1).
    pub major: u32,
    /// The mechanism's status.
    pub minor: u32,
    /// The reason as text, with the remedy if one is known.
    pub text: String,
}

/// A message was changed on its way, or the context has expired.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unprotected;

/// The per-message calls of a context (RFC 2743 §2.3). They never block.
pub trait Messages: Send + Sync {
    /// Computes the checksum (MIC) of a message.
    ///
    /// # Errors
    /// The context has expired.
    fn checksum(&self, message: &[u8]) -> Result<Vec<u8>, Unprotected>;

    /// Verifies the checksum of a message.
    ///
    /// # Errors
    /// It does not match.
    fn verify(&self, message: &[u8], checksum: &[u8]) -> Result<(), Unprotected>;

    /// The space that [`Messages::seal`] needs before and after a message.
    fn room(&self) -> Room;

    /// Encrypts (wraps) the message that is in `token` between the reserved space before and after it.
    ///
    /// # Errors
    /// The context has expired.
    fn seal(&self, token: &mut [u8]) -> Result<(), Unprotected>;

    /// Decrypts (unwraps) a message into `buffer`, which grows to at most the token's length; returns the message's range.
    ///
    /// # Errors
    /// It was modified.
    fn open(&self, sealed: &[u8], buffer: &mut Vec<u8>) -> Result<Range<usize>, Unprotected>;
}

/// The space that wrapping adds to a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Room {
    /// Bytes before it.
    pub head: usize,
    /// Bytes after it.
    pub tail: usize,
}
