//! The state machine of rustls, of either side, and one step of it.
//!
//! rustls keeps no bytes of the connection: it works on what the caller has received, says how much of that is done
//! with, and writes what there is to be sent into a buffer of the caller. It notes places in what it was given: until
//! it says that bytes are done with, they have to be given again at the front of the next call, or it panics.

use rustls::client::UnbufferedClientConnection;
use rustls::pki_types::CertificateDer;
use rustls::server::UnbufferedServerConnection;
use rustls::unbuffered::{ConnectionState, EncodeError, EncryptError, UnbufferedStatus};
use rustls::{CommonState, Error, SupportedCipherSuite};
use std::ops::Deref;

/// Bytes that a flight of the handshake takes at first; it grows to what is needed.
const FLIGHT_BYTES: usize = 4 << 10;

/// One side's state machine.
pub(crate) enum Machine {
    Server(Box<UnbufferedServerConnection>),
    Client(Box<UnbufferedClientConnection>),
}

/// Where the machine stands after a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// There is more to be done with what is there.
    Again,
    /// Nothing can be done before more has been received.
    Blocked,
    /// Data can be sent, and there is nothing else to be done.
    Ready,
    /// The other side sends nothing more.
    PeerClosed,
}

impl Machine {
    /// Does one step with what was received: what is to be sent goes to `outgoing`, data to `plain`. How many bytes at
    /// the front of `incoming` are done with.
    pub fn step(
        &mut self,
        incoming: &mut [u8],
        outgoing: &mut Vec<u8>,
        plain: &mut dyn FnMut(&[u8]),
    ) -> (usize, Result<Step, Error>) {
        match self {
            Self::Server(machine) => handle(machine.process_tls_records(incoming), outgoing, plain),
            Self::Client(machine) => handle(machine.process_tls_records(incoming), outgoing, plain),
        }
    }

    /// After a failure: appends the alert that tells the other side. Once, with what is left of what was received.
    pub fn alert(&mut self, incoming: &mut [u8], outgoing: &mut Vec<u8>) {
        // without an alert it is the same failure again
        let _ = self.step(incoming, outgoing, &mut |_| {});
    }

    /// Appends records with `data` to `outgoing`, behind what the machine itself has to send. `incoming` is what was
    /// received and is not done with: the machine may have noted places in it.
    ///
    /// # Errors
    /// The session cannot send any more.
    pub fn seal(
        &mut self,
        data: &[u8],
        incoming: &mut [u8],
        outgoing: &mut Vec<u8>,
    ) -> Result<(), Error> {
        loop {
            let pending = match self {
                Self::Server(machine) => {
                    write(machine.process_tls_records(incoming), data, outgoing)?
                }
                Self::Client(machine) => {
                    write(machine.process_tls_records(incoming), data, outgoing)?
                }
            };
            if matches!(pending, Pending::Nothing) {
                return Ok(());
            }
        }
    }

    /// Appends the message that nothing more is sent.
    pub fn close(&mut self, incoming: &mut [u8], outgoing: &mut Vec<u8>) {
        // without keys there is nothing that could be said
        let _ = match self {
            Self::Server(machine) => finish(machine.process_tls_records(incoming), outgoing),
            Self::Client(machine) => finish(machine.process_tls_records(incoming), outgoing),
        };
    }

    /// What both sides agreed on, for people.
    pub fn suite(&self) -> String {
        let suite = self.negotiated_cipher_suite();
        let name = suite.map(|suite: SupportedCipherSuite| format!("{:?}", suite.suite()));
        name.unwrap_or_default().replace("TLS13_", "TLS_")
    }

    /// The chain that the other side has shown.
    pub fn chain(&self) -> Vec<CertificateDer<'static>> {
        self.peer_certificates().map(<[_]>::to_vec).unwrap_or_default()
    }
}

impl Deref for Machine {
    type Target = CommonState;

    fn deref(&self) -> &CommonState {
        match self {
            Self::Server(machine) => machine,
            Self::Client(machine) => machine,
        }
    }
}

/// Whether the machine had something of its own to send first.
enum Pending {
    Own,
    Nothing,
}

/// Appends to `outgoing` what `write` writes, which says how much room it needs if there is not enough.
fn append<E>(
    outgoing: &mut Vec<u8>,
    room: usize,
    mut write: impl FnMut(&mut [u8]) -> Result<usize, E>,
    needs: impl Fn(&E) -> Option<usize>,
) -> Result<(), E> {
    let at = outgoing.len();
    outgoing.resize(at.saturating_add(room), 0);
    loop {
        match write(outgoing.get_mut(at..).unwrap_or_default()) {
            Ok(len) => {
                outgoing.truncate(at.saturating_add(len));
                return Ok(());
            }
            Err(error) => {
                let Some(more) = needs(&error) else {
                    outgoing.truncate(at);
                    return Err(error);
                };
                outgoing.resize(at.saturating_add(more), 0);
            }
        }
    }
}

fn encode_needs(error: &EncodeError) -> Option<usize> {
    match error {
        EncodeError::InsufficientSize(size) => Some(size.required_size),
        EncodeError::AlreadyEncoded => None,
    }
}

fn encrypt_needs(error: &EncryptError) -> Option<usize> {
    match error {
        EncryptError::InsufficientSize(size) => Some(size.required_size),
        EncryptError::EncryptExhausted => None,
    }
}

fn handle<D>(
    status: UnbufferedStatus<'_, '_, D>,
    outgoing: &mut Vec<u8>,
    plain: &mut dyn FnMut(&[u8]),
) -> (usize, Result<Step, Error>) {
    let mut discard = status.discard;
    let state = match status.state {
        Ok(state) => state,
        Err(error) => return (discard, Err(error)),
    };
    let step = match state {
        ConnectionState::EncodeTlsData(mut data) => {
            // only for what was encoded before, which is no error of the connection
            let _ = append(outgoing, FLIGHT_BYTES, |room| data.encode(room), encode_needs);
            Step::Again
        }
        ConnectionState::TransmitTlsData(data) => {
            data.done();
            Step::Again
        }
        ConnectionState::ReadTraffic(mut traffic) => {
            while let Some(record) = traffic.next_record() {
                match record {
                    Ok(record) => {
                        discard = discard.saturating_add(record.discard);
                        plain(record.payload);
                    }
                    Err(error) => return (discard, Err(error)),
                }
            }
            Step::Again
        }
        ConnectionState::WriteTraffic(_) => Step::Ready,
        ConnectionState::PeerClosed | ConnectionState::Closed => Step::PeerClosed,
        // early data is never accepted
        _ => Step::Blocked,
    };
    (discard, Ok(step))
}

fn write<D>(
    status: UnbufferedStatus<'_, '_, D>,
    data: &[u8],
    outgoing: &mut Vec<u8>,
) -> Result<Pending, Error> {
    match status.state? {
        ConnectionState::EncodeTlsData(mut own) => {
            let _ = append(outgoing, FLIGHT_BYTES, |room| own.encode(room), encode_needs);
            Ok(Pending::Own)
        }
        ConnectionState::TransmitTlsData(own) => {
            own.done();
            Ok(Pending::Own)
        }
        ConnectionState::PeerClosed => Ok(Pending::Own),
        ConnectionState::WriteTraffic(mut traffic) => {
            let records = data.len().div_ceil(crate::RECORD_PLAIN_MAX);
            let room = data.len().saturating_add(records.saturating_mul(crate::RECORD_OVERHEAD));
            append(outgoing, room, |room| traffic.encrypt(data, room), encrypt_needs)
                .map_err(|_| Error::EncryptError)?;
            Ok(Pending::Nothing)
        }
        _ => Err(Error::HandshakeNotComplete),
    }
}

fn finish<D>(status: UnbufferedStatus<'_, '_, D>, outgoing: &mut Vec<u8>) -> Result<(), Error> {
    if let ConnectionState::WriteTraffic(mut traffic) = status.state? {
        append(outgoing, 64, |room| traffic.queue_close_notify(room), encrypt_needs)
            .map_err(|_| Error::EncryptError)?;
    }
    Ok(())
}
