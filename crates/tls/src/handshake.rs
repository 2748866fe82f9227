//! A TLS handshake in progress. It uses a few kilobytes before the first bytes arrive: rustls is called only when
//! there is input.

use crate::machine::{Machine, Step};
use crate::record_end::RecordEnd;
use crate::session::Session;
use rustls::server::UnbufferedServerConnection;
use rustls::{Error, ServerConfig};
use std::sync::Arc;

/// The most bytes of incomplete handshake messages that are kept; long certificate chains fit.
const INCOMING_MAX: usize = 64 << 10;
/// The alert "no_application_protocol" (RFC 7301 §3.2), unencrypted because the client has no keys yet.
const NO_ALPN_ALERT: [u8; 7] = [21, 3, 3, 0, 2, 2, 120];

/// A handshake in progress.
pub struct Handshake {
    machine: Machine,
    /// Received bytes that were not consumed yet.
    incoming: Vec<u8>,
    /// Application data that arrived after the last handshake message.
    early: Vec<u8>,
    /// Where the record under way ends.
    record_end: RecordEnd,
}

/// What the handshake needs next. The caller sends the outgoing buffer in every case.
pub enum Progress {
    /// More bytes from the peer.
    More,
    /// The handshake is complete; with the application data that arrived after its last message.
    Done(Box<Session>, Vec<u8>),
}

/// Why a handshake failed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum HandshakeError {
    /// The TLS library rejected the peer's message.
    #[error("{0}")]
    Tls(#[from] Error),
    /// The peer offered only other ALPN protocols.
    #[error("the ALPN protocol sunrpc was not offered")]
    OtherAlpn,
    /// A handshake message exceeds the limit.
    #[error("a handshake message of more than 64 KiB")]
    TooLong,
}

impl Handshake {
    pub(crate) fn server(config: Arc<ServerConfig>) -> Result<Self, Error> {
        Ok(Self::of(Machine::Server(Box::new(UnbufferedServerConnection::new(config)?))))
    }

    /// Bytes kept of messages that are not complete.
    pub const fn kept(&self) -> usize {
        self.incoming.len()
    }

    /// How many bytes may be received next so that nothing behind the record under way is among them; at least 1. Who
    /// receives no more than that leaves all application data in the socket.
    pub const fn wanted(&self) -> usize {
        self.record_end.missing()
    }

    pub(crate) fn of(machine: Machine) -> Self {
        let record_end = RecordEnd::default();
        Self { machine, incoming: Vec::new(), early: Vec::new(), record_end }
    }

    /// Processes received bytes; bytes to send, including the alert after a failure, are appended to `outgoing`.
    ///
    /// # Errors
    /// [`HandshakeError`]; the connection must be closed.
    pub fn receive(
        mut self,
        bytes: &[u8],
        outgoing: &mut Vec<u8>,
    ) -> Result<(Option<Self>, Progress), HandshakeError> {
        self.incoming.extend_from_slice(bytes);
        self.record_end.arrived(bytes);
        let sent_before = outgoing.len();
        loop {
            let early = &mut self.early;
            let (done_with, step) = self.machine.step(&mut self.incoming, outgoing, &mut |data| {
                early.extend_from_slice(data);
            });
            self.incoming.drain(..done_with.min(self.incoming.len()));
            let step = match step {
                Ok(step) => step,
                Err(Error::NoApplicationProtocol) => {
                    outgoing.truncate(sent_before);
                    outgoing.extend_from_slice(&NO_ALPN_ALERT);
                    return Err(HandshakeError::OtherAlpn);
                }
                Err(error) => {
                    self.machine.alert(&mut self.incoming, outgoing);
                    return Err(error.into());
                }
            };
            match step {
                Step::Again => {}
                Step::PeerClosed => return Err(Error::HandshakeNotComplete.into()),
                Step::Ready | Step::Blocked if !self.machine.is_handshaking() => {
                    let session = Box::new(Session::new(self.machine, self.incoming));
                    return Ok((None, Progress::Done(session, self.early)));
                }
                Step::Ready | Step::Blocked if self.incoming.len() > INCOMING_MAX => {
                    return Err(HandshakeError::TooLong);
                }
                Step::Ready | Step::Blocked => return Ok((Some(self), Progress::More)),
            }
        }
    }
}
