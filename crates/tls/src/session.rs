//! A session after its handshake: records are opened and sealed, both in buffers of the caller.
//!
//! Invariant: between two calls the session keeps at most a part of one record or of one message that is no data, and
//! no plain text: what was opened was handed out. So whoever has received all that a socket had has nothing left to wait for here.

use crate::machine::{Machine, Step};
use rustls::Error;
use rustls::pki_types::CertificateDer;

/// Records after which a session is to be given up at a quiet moment: half of what AES-GCM allows under one key
/// (RFC 8446 §5.5). Linux takes no new keys, so that the client begins a new session instead.
const WORN_RECORDS: u64 = 1 << 23;

/// A session.
pub struct Session {
    machine: Machine,
    /// The beginning of a record.
    partial: Vec<u8>,
    /// Records that were sealed or opened.
    records: u64,
    peer_closed: bool,
}

/// What opening records gave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Opened {
    /// Bytes of data.
    pub len: usize,
    /// Whether the other side sends nothing more.
    pub ended: bool,
}

/// A session that can send nothing more.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{0}")]
pub struct SealError(#[from] Error);

impl Session {
    pub(crate) const fn new(machine: Machine, partial: Vec<u8>) -> Self {
        Self { machine, partial, records: 0, peer_closed: false }
    }

    /// Bytes that are kept of a record of which the rest has not come.
    pub const fn kept(&self) -> usize {
        self.partial.len()
    }

    /// Puts what is kept in front of a buffer, which has at least [`Session::kept`] bytes; the rest of it is for what
    /// is received next.
    pub fn put_kept(&mut self, buf: &mut [u8]) -> usize {
        let len = self.partial.len();
        if let Some(place) = buf.get_mut(..len) {
            place.copy_from_slice(&self.partial);
            return len;
        }
        0
    }

    /// Opens the records in `sealed`, which begins with what was kept; `plain` must be as long. What is to be sent in
    /// answer is appended to `outgoing`.
    ///
    /// # Errors
    /// What came is no record of this session; the alert is in `outgoing`.
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
    /// The session can send nothing more.
    pub fn seal(&mut self, data: &[u8], outgoing: &mut Vec<u8>) -> Result<(), SealError> {
        let records = data.len().div_ceil(crate::RECORD_PLAIN_MAX);
        self.records = self.records.saturating_add(records as u64);
        Ok(self.machine.seal(data, &mut self.partial, outgoing)?)
    }

    /// Appends the message that nothing more is sent (RFC 8446 §6.1).
    pub fn close(&mut self, outgoing: &mut Vec<u8>) {
        self.machine.close(&mut self.partial, outgoing);
    }

    /// Whether so much went through it that its client should begin another.
    pub const fn is_worn(&self) -> bool {
        self.records >= WORN_RECORDS
    }

    /// The cipher suite, for people.
    pub fn suite(&self) -> String {
        self.machine.suite()
    }

    /// The chain that the other side has shown; empty without a certificate.
    pub fn chain(&self) -> Vec<CertificateDer<'static>> {
        self.machine.chain()
    }
}
