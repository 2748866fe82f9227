//! A TLS session after its handshake: decrypts and encrypts records in buffers of the caller.
//!
//! Invariant: between two calls the session keeps at most a part of one record or of one non-data message, and never
//! plaintext: all decrypted data was returned. So a caller that has received all bytes of a socket has all their data.
//! After a failure nothing is kept and the machine is not used again: it still counts on bytes of a message that it has begun.

use crate::kernel::{self, KernelSession, KeyError, TrafficKeys};
use crate::machine::{Machine, Step};
use rustls::Error;
use rustls::pki_types::CertificateDer;
use sys::kernel_tls::Suite;

/// Records after which the session should be replaced when it is idle: half of what AES-GCM allows under one key
/// (RFC 8446 §5.5). The Linux client does not support key updates, so it has to start a new session instead.
pub const SESSION_RECORDS_MAX: u64 = 1 << 23;

/// An established session.
pub struct Session {
    machine: Machine,
    /// The beginning of an incomplete record.
    partial: Vec<u8>,
    /// Records encrypted and decrypted.
    records: u64,
    peer_closed: bool,
    /// Why the session cannot go on.
    failed: Option<Error>,
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
        Self { machine, partial, records: 0, peer_closed: false, failed: None }
    }

    /// The cipher suite, if the kernel can take over: it has a number there, this is the server's side, and no received
    /// bytes are kept here that the kernel would miss.
    pub fn kernel_suite(&self) -> Option<Suite> {
        let is_server = matches!(self.machine, Machine::Server(_));
        let suite = self.machine.negotiated_cipher_suite()?;
        (is_server && self.partial.is_empty()).then(|| kernel::suite(suite))?
    }

    /// Gives the session's keys away: the kernel encrypts and decrypts records from now on.
    ///
    /// # Errors
    /// The TLS library does not give them, or they are none that the kernel knows; the session cannot go on.
    pub fn into_kernel(self) -> Result<(KernelSession, TrafficKeys), KeyError> {
        let machine = self.machine.into_server();
        KernelSession::new(machine.ok_or_else(kernel::not_for_the_kernel)?)
    }

    /// The machine, if this is a client's side.
    #[cfg(any(test, feature = "testing"))]
    pub(crate) fn into_client(self) -> Option<rustls::client::UnbufferedClientConnection> {
        match self.machine {
            Machine::Client(machine) => Some(*machine),
            Machine::Server(_) => None,
        }
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
        self.usable()?;
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
                    self.partial = Vec::new();
                    self.failed = Some(error.clone());
                    return Err(error);
                }
            }
        }
        self.records = self.records.saturating_add(records);
        self.partial = match self.peer_closed {
            true => Vec::new(),
            false => sealed.get(at..).unwrap_or_default().to_vec(),
        };
        Ok(Opened { len, ended: self.peer_closed })
    }

    /// Appends records with `data` to `outgoing`.
    ///
    /// # Errors
    /// The session cannot send any more data.
    pub fn seal(&mut self, data: &[u8], outgoing: &mut Vec<u8>) -> Result<(), SealError> {
        let end = self.seal_at(outgoing.len(), data, outgoing)?;
        outgoing.truncate(end);
        Ok(())
    }

    /// Writes records with `data` to `buffer`, over what is there from byte `at` on, and returns where they end. The buffer
    /// grows as needed and is not shortened: one that is used again is filled with zeros only once.
    ///
    /// # Errors
    /// The session cannot send any more data.
    pub fn seal_at(
        &mut self,
        at: usize,
        data: &[u8],
        buffer: &mut Vec<u8>,
    ) -> Result<usize, SealError> {
        self.usable()?;
        let records = data.len().div_ceil(crate::RECORD_PLAIN_MAX);
        self.records = self.records.saturating_add(records as u64);
        Ok(self.machine.seal_at(at, data, &mut self.partial, buffer)?)
    }

    /// Goes on with the next key and asks the peer to do the same (RFC 8446 §4.6.3); the message is in front of what is
    /// sealed next. Servers leave that to clients.
    ///
    /// # Errors
    /// The session cannot send any more data.
    pub fn change_keys(&mut self) -> Result<(), SealError> {
        self.usable()?;
        Ok(self.machine.change_keys(&mut self.partial)?)
    }

    /// Appends a close_notify alert (RFC 8446 §6.1), unless the session has failed, which had an alert of its own.
    pub fn close(&mut self, outgoing: &mut Vec<u8>) {
        if self.failed.is_none() {
            self.machine.close(&mut self.partial, outgoing);
        }
    }

    fn usable(&self) -> Result<(), Error> {
        self.failed.clone().map_or(Ok(()), Err)
    }

    /// Whether the session has processed so many records that its client should start a new one.
    pub const fn has_reached_record_limit(&self) -> bool {
        self.records >= SESSION_RECORDS_MAX
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
