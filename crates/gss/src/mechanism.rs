//! What RPCSEC_GSS needs of a GSS-API mechanism (RFC 2203 §5): contexts of it, and their per-message calls.

use rpc::PrincipalUser;
use std::ops::Range;

/// Checks the tokens of clients that establish a context.
pub trait Acceptor: Send + Sync {
    /// Accepts a client's token; may wait for files and name services.
    ///
    /// # Errors
    /// [`Refusal`], which the client is told the numbers of.
    fn accept(&self, token: &[u8]) -> Result<Established, Refusal>;
}

/// A context that was established.
pub struct Established {
    /// Protects the messages.
    pub messages: Box<dyn Messages>,
    /// For the client.
    pub token: Vec<u8>,
    /// Whose context it is, as the mechanism writes it.
    pub principal: String,
    /// The user of this machine that it stands for.
    pub user: Option<PrincipalUser>,
    /// How long it is valid, in seconds; `None` for ever.
    pub lifetime_s: Option<u32>,
}

/// Why a context is not established.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// GSS-API's major status (RFC 2744 §3.9.1).
    pub major: u32,
    /// The mechanism's status.
    pub minor: u32,
    /// The reason in words, with the remedy if one is known.
    pub text: String,
}

/// A message was changed on its way, or the context has expired.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unprotected;

/// The per-message calls of a context (RFC 2743 §2.3). Never wait.
pub trait Messages: Send + Sync {
    /// The checksum of a message.
    ///
    /// # Errors
    /// The context has expired.
    fn checksum(&self, message: &[u8]) -> Result<Vec<u8>, Unprotected>;

    /// Whether a checksum is that of a message.
    ///
    /// # Errors
    /// It is not.
    fn verify(&self, message: &[u8], checksum: &[u8]) -> Result<(), Unprotected>;

    /// The room that [`Messages::seal`] needs around a message.
    fn room(&self) -> Room;

    /// Encrypts the message that stands in `token` between the room for both sides of it.
    ///
    /// # Errors
    /// The context has expired.
    fn seal(&self, token: &mut [u8]) -> Result<(), Unprotected>;

    /// Decrypts a message into `buffer`, which becomes no longer than what is given; where in it the message is.
    ///
    /// # Errors
    /// It was changed.
    fn open(&self, sealed: &[u8], buffer: &mut Vec<u8>) -> Result<Range<usize>, Unprotected>;
}

/// Bytes around a message that is sealed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Room {
    /// Before it.
    pub head: usize,
    /// Behind it.
    pub tail: usize,
}
