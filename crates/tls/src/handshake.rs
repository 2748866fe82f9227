//! A handshake under way. A few kilobytes while nothing has come: rustls is given a message only when bytes are there.

use crate::machine::{Machine, Step};
use crate::session::Session;
use rustls::server::UnbufferedServerConnection;
use rustls::{Error, ServerConfig};
use std::sync::Arc;

/// What is kept of the other side's messages before they are whole: long chains of certificates fit.
const INCOMING_MAX: usize = 64 << 10;
/// The alert "no application protocol" (RFC 7301 §3.2), in the clear as the client has no keys yet.
const NO_ALPN_ALERT: [u8; 7] = [21, 3, 3, 0, 2, 2, 120];

/// A handshake under way.
pub struct Handshake {
    machine: Machine,
    /// Received and not done with.
    incoming: Vec<u8>,
    /// Data that came behind the last message.
    early: Vec<u8>,
}

/// What a handshake wants next. What is in the outgoing buffer is to be sent in any case.
pub enum Progress {
    /// More of the other side's bytes.
    More,
    /// Nothing: it is over. Data that came behind its last message.
    Done(Box<Session>, Vec<u8>),
}

/// Why a handshake failed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum HandshakeError {
    /// What came is not a handshake that is accepted.
    #[error("{0}")]
    Tls(#[from] Error),
    /// Other protocols were offered by ALPN.
    #[error("not the ALPN protocol sunrpc")]
    OtherAlpn,
    /// A message is longer than any that is expected.
    #[error("a message of more than 64 KiB")]
    TooLong,
}

impl Handshake {
    pub(crate) fn server(config: Arc<ServerConfig>) -> Result<Self, Error> {
        Ok(Self::of(Machine::Server(Box::new(UnbufferedServerConnection::new(config)?))))
    }

    pub(crate) const fn of(machine: Machine) -> Self {
        Self { machine, incoming: Vec::new(), early: Vec::new() }
    }

    /// Goes on with what was received; what is to be sent is appended to `outgoing`, after a failure the alert.
    ///
    /// # Errors
    /// [`HandshakeError`]; the connection is to be closed.
    pub fn receive(
        mut self,
        bytes: &[u8],
        outgoing: &mut Vec<u8>,
    ) -> Result<(Option<Self>, Progress), HandshakeError> {
        self.incoming.extend_from_slice(bytes);
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
