//! The TLS state machine of rustls (unbuffered API), for client or server, and how it is driven.
//!
//! rustls keeps no bytes of the connection: it works on the caller's buffer of received bytes, returns how many of them
//! it has consumed, and writes bytes to send into a buffer of the caller. It keeps offsets into the received bytes: until
//! it reports bytes as consumed, they must be at the front of the buffer of the next call, otherwise it panics.

use rustls::client::UnbufferedClientConnection;
use rustls::pki_types::CertificateDer;
use rustls::server::UnbufferedServerConnection;
use rustls::unbuffered::{ConnectionState, EncodeError, EncryptError, UnbufferedStatus};
use rustls::{CommonState, Error, SupportedCipherSuite};
use std::ops::Deref;

/// Initial size of the buffer for a handshake flight; it grows as needed.
const FLIGHT_BYTES: usize = 4 << 10;

/// The state machine of one side.
pub(crate) enum Machine {
    Server(Box<UnbufferedServerConnection>),
    Client(Box<UnbufferedClientConnection>),
}

/// The state after a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// Call again with the same input.
    Again,
    /// More input is needed.
    Blocked,
    /// The handshake is complete and there is no more input to process.
    Ready,
    /// The peer has closed its direction (close_notify).
    PeerClosed,
}

impl Machine {
    /// Processes received bytes for one step: bytes to send are appended to `outgoing`, decrypted data to `plain`. Returns
    /// how many bytes at the front of `incoming` were consumed.
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

    /// After a failure, appends the alert for the peer. Call it once, with the unconsumed input.
    pub fn alert(&mut self, incoming: &mut [u8], outgoing: &mut Vec<u8>) {
        // if there is no alert to send, the same error is returned again
        let _ = self.step(incoming, outgoing, &mut |_| {});
    }

    /// Writes pending messages of the state machine, then records with `data`, to `buffer` from byte `at` on, and returns
    /// where they end. The buffer grows as needed and is not shortened. `incoming` is the unconsumed input, because the state
    /// machine may keep offsets into it.
    ///
    /// # Errors
    /// The session cannot send any more data.
    pub fn seal_at(
        &mut self,
        at: usize,
        data: &[u8],
        incoming: &mut [u8],
        buffer: &mut Vec<u8>,
    ) -> Result<usize, Error> {
        let mut end = at;
        loop {
            let pending = match self {
                Self::Server(machine) => {
                    write(machine.process_tls_records(incoming), data, buffer, &mut end)?
                }
                Self::Client(machine) => {
                    write(machine.process_tls_records(incoming), data, buffer, &mut end)?
                }
            };
            if matches!(pending, Pending::Nothing) {
                return Ok(end);
            }
        }
    }

    /// Goes on with the next key and asks the peer to do the same (KeyUpdate, RFC 8446 §4.6.3). The message is appended to
    /// what is sealed next.
    ///
    /// # Errors
    /// The session cannot send any more data.
    pub fn change_keys(&mut self, incoming: &mut [u8]) -> Result<(), Error> {
        match self {
            Self::Server(machine) => change_keys(machine.process_tls_records(incoming)),
            Self::Client(machine) => change_keys(machine.process_tls_records(incoming)),
        }
    }

    /// Appends a close_notify alert (RFC 8446 §6.1).
    pub fn close(&mut self, incoming: &mut [u8], outgoing: &mut Vec<u8>) {
        // without keys no alert can be encrypted
        let _ = match self {
            Self::Server(machine) => finish(machine.process_tls_records(incoming), outgoing),
            Self::Client(machine) => finish(machine.process_tls_records(incoming), outgoing),
        };
    }

    /// The server's state machine, which only a server's session has.
    pub fn into_server(self) -> Option<UnbufferedServerConnection> {
        match self {
            Self::Server(machine) => Some(*machine),
            Self::Client(_) => None,
        }
    }

    /// The negotiated cipher suite, for display.
    pub fn suite(&self) -> String {
        let suite = self.negotiated_cipher_suite();
        let name = suite.map(|suite: SupportedCipherSuite| format!("{:?}", suite.suite()));
        name.unwrap_or_default().replace("TLS13_", "TLS_")
    }

    /// The peer's certificate chain.
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

/// Whether the state machine had a message of its own to send first.
enum Pending {
    Own,
    Nothing,
}

/// Appends what `write` produces to `outgoing`; see [`put`].
fn append<E>(
    outgoing: &mut Vec<u8>,
    room: usize,
    write: impl FnMut(&mut [u8]) -> Result<usize, E>,
    needs: impl Fn(&E) -> Option<usize>,
) -> Result<(), E> {
    let mut end = outgoing.len();
    let done = put(outgoing, &mut end, room, write, needs);
    outgoing.truncate(end);
    done
}

/// Writes what `write` produces to `buffer` from byte `end` on, and moves `end` behind it. `write` returns the required size if
/// there is not room enough. The buffer grows to it and is not shortened: what lengthens it is filled with zeros first, which
/// for each send would take about as long as to encrypt it.
fn put<E>(
    buffer: &mut Vec<u8>,
    end: &mut usize,
    mut room: usize,
    mut write: impl FnMut(&mut [u8]) -> Result<usize, E>,
    needs: impl Fn(&E) -> Option<usize>,
) -> Result<(), E> {
    loop {
        let len = end.saturating_add(room);
        if buffer.len() < len {
            buffer.resize(len, 0);
        }
        match write(buffer.get_mut(*end..).unwrap_or_default()) {
            Ok(written) => {
                *end = end.saturating_add(written);
                return Ok(());
            }
            Err(error) => room = needs(&error).ok_or(error)?,
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
            // reports an error only if data was encoded before, which is not an error of the connection
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
        // early data is never enabled
        _ => Step::Blocked,
    };
    (discard, Ok(step))
}

fn write<D>(
    status: UnbufferedStatus<'_, '_, D>,
    data: &[u8],
    buffer: &mut Vec<u8>,
    end: &mut usize,
) -> Result<Pending, Error> {
    match status.state? {
        ConnectionState::EncodeTlsData(mut own) => {
            let _ = put(buffer, end, FLIGHT_BYTES, |room| own.encode(room), encode_needs);
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
            put(buffer, end, room, |room| traffic.encrypt(data, room), encrypt_needs)
                .map_err(|_| Error::EncryptError)?;
            Ok(Pending::Nothing)
        }
        _ => Err(Error::HandshakeNotComplete),
    }
}

fn change_keys<D>(status: UnbufferedStatus<'_, '_, D>) -> Result<(), Error> {
    match status.state? {
        ConnectionState::WriteTraffic(traffic) => traffic.refresh_traffic_keys(),
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
