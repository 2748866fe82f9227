//! A TLS session after its handshake: decrypts and encrypts records in buffers of the caller.
//!
//! Invariant: between two calls the session keeps at most a part of one record or of one non-data message, and never
//! plaintext: all decrypted data was returned. So a caller that has received all bytes of a socket has all their data.

use crate::machine::{Machine, Step};
use rustls::Error;
use rustls::pki_types::CertificateDer;

/// Records after which the session should be replaced when it is idle: half of what AES-GCM allows under one key
/// (RFC 8446 §5.5). The Linux client does not support key updates, so it has to start a new session instead.
const WORN_RECORDS: u64 = 1 << 23;

/// An established session.
pub struct Session {
    machine: Machine,
    /// The beginning of an incomplete record.
    partial: Vec<u8>,
    /// Records encrypted and decrypted.
    records: u64,
    peer_closed: bool,
}

/// The result of decrypting records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Opened {
    /// Bytes of decrypted data.
    pub len: usize,
    /// Whether the peer has closed its direction.
    pub ended: bool,
}

/// The session cannot send any more data.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{0}")]
pub struct SealError(#[from] Error);

impl Session {
    pub(crate) const fn new(machine: Machine, partial: Vec<u8>) -> Self {
        Self { machine, partial, records: 0, peer_closed: false }
    }

    /// Bytes kept of an incomplete record.
    pub const fn kept(&self) -> usize {
        self.partial.len()
    }

    /// Copies the kept bytes to the front of a buffer of at least [`Session::kept`] bytes; the caller receives into the
    /// rest of it.
    pub fn put_kept(&mut self, buf: &mut [u8]) -> usize {
        let len = self.partial.len();
        if let Some(place) = buf.get_mut(..len) {
            place.copy_from_slice(&self.partial);
            return len;
        }
        0
    }

    /// Decrypts the records in `sealed`, which begins with the kept bytes; `plain` must have the same length. Messages to
    /// send in response are appended to `outgoing`.
    ///
    /// # Errors
    /// The bytes are not valid records of this session; the alert is in `outgoing`.
    pub fn open(
        &mut self,
        sealed: &mut [u8],
        plain: &mut [u8],
        outgoing: &mut Vec<u8>,
    ) -> Result<Opened, Error> {
        let (mut at, mut len) = (0_usize, 0_usize);
        let mut records = 0_u64;
        loop {
            let rest = sealed.get_mut(at..).unwrap_or_default();
            let (done_with, step) = self.machine.step(rest, outgoing, &mut |data| {
                let end = len.saturating_add(data.len());
                if let Some(place) = plain.get_mut(len..end) {
                    place.copy_from_slice(data);
                    len = end;
                }
                records = records.saturating_add(1);
            });
            at = at.saturating_add(done_with);
            match step {
                Ok(Step::Again) => {}
                Ok(Step::PeerClosed) => {
                    self.peer_closed = true;
                    break;
                }
                Ok(Step::Ready | Step::Blocked) => break,
                Err(error) => {
                    let rest = sealed.get_mut(at..).unwrap_or_default();
                    self.machine.alert(rest, outgoing);
                    return Err(error);
                }
            }
        }
        self.records = self.records.saturating_add(records);
        if !self.peer_closed {
            self.partial = sealed.get(at..).unwrap_or_default().to_vec();
        }
        Ok(Opened { len, ended: self.peer_closed })
    }

    /// Appends records with `data` to `outgoing`.
    ///
    /// # Errors
    /// The session cannot send any more data.
    pub fn seal(&mut self, data: &[u8], outgoing: &mut Vec<u8>) -> Result<(), SealError> {
        let records = data.len().div_ceil(crate::RECORD_PLAIN_MAX);
        self.records = self.records.saturating_add(records as u64);
        Ok(self.machine.seal(data, &mut self.partial, outgoing)?)
    }

    /// Appends a close_notify alert (RFC 8446 §6.1).
    pub fn close(&mut self, outgoing: &mut Vec<u8>) {
        self.machine.close(&mut self.partial, outgoing);
    }

    /// Whether the session has processed so many records that its client should start a new one.
    pub const fn is_worn(&self) -> bool {
        self.records >= WORN_RECORDS
    }

    /// The cipher suite, for display.
    pub fn suite(&self) -> String {
        self.machine.suite()
    }

    /// The peer's certificate chain; empty without a certificate.
    pub fn chain(&self) -> Vec<CertificateDer<'static>> {
        self.machine.chain()
    }
}
