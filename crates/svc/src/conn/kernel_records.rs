//! The records of a connection whose TLS session the kernel has taken over (`kernel_tls.rs`): bytes leave and arrive as they
//! would on a plain connection, files too, but for the messages between data: alerts, and changes of keys.
//!
//! Locks: `receiving` guards the session and what has arrived of a message, for one receive; `sending` guards the order of
//! what is sent, since all that follows a KeyUpdate is encrypted with the next key. The second may be taken under the first.
//!
//! Invariants:
//! - A record that is not data is handled, never skipped.
//! - A receive goes on until the kernel has nothing more or the buffer is full: the kernel ends one in front of a record of
//!   another type, and then need not report that record to epoll (Linux 7.2 does not).
//! - What the kernel has taken to be sent but has not passed on to TCP is lost if the socket is shut down; so
//!   [`KernelRecords::close`] sends the alert alone, and closing the socket sends the rest.

use crate::conn::seal::Arrived;
use crate::limits::RECEIVE_BYTES;
use crate::sync::lock;
use std::io::{self, ErrorKind, IoSlice};
use std::net::TcpStream;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, TryLockError};
use sys::kernel_tls::{self, Direction, Received, RecordType, TrafficKey};
use tls::{KernelSession, KeyError, RECORD_PLAIN_MAX, SESSION_RECORDS_MAX, ServerTls};

/// Messages without data in a row before a connection is given up.
const MESSAGES_MAX: u32 = 32;
/// A KeyUpdate (RFC 8446 §4.6.3): its type, its length, and whether one is asked for in return.
const KEY_UPDATE: [u8; 4] = [24, 0, 0, 1];
const KEY_UPDATE_LEN: usize = KEY_UPDATE.len() + 1;
/// Alerts (RFC 8446 §6): level and description.
const CLOSE_NOTIFY: [u8; 2] = [1, 0];
const UNEXPECTED_MESSAGE: [u8; 2] = [2, 10];
const BAD_RECORD_MAC: [u8; 2] = [2, 20];
const USER_CANCELED: u8 = 90;

/// The records of a connection in the kernel.
pub(crate) struct KernelRecords {
    receiving: Mutex<Receiving>,
    sending: Mutex<Sending>,
    /// At least the number of records that have left and arrived.
    records: AtomicU64,
}

struct Receiving {
    session: KernelSession,
    /// What has arrived of a message that is not data, and of which type.
    message: [u8; KEY_UPDATE_LEN],
    message_len: usize,
    message_type: RecordType,
    /// Messages since the last data.
    messages: u32,
    peer_closed: bool,
}

#[derive(Default)]
struct Sending {
    /// The key of what follows the KeyUpdate that the client has asked for and that was not sent.
    next_key: Option<TrafficKey>,
}

impl KernelRecords {
    pub fn new(session: KernelSession) -> Self {
        let receiving = Receiving {
            session,
            message: [0; KEY_UPDATE_LEN],
            message_len: 0,
            message_type: RecordType::Data,
            messages: 0,
            peer_closed: false,
        };
        Self {
            receiving: Mutex::new(receiving),
            sending: Mutex::default(),
            records: AtomicU64::new(0),
        }
    }

    /// Receives what has arrived, at most a buffer full and no more than others receive at once.
    ///
    /// # Errors
    /// As recvmsg(2); the client has broken the session off, or its records are not those of this session.
    pub fn receive(&self, tcp: &TcpStream, buf: &mut [u8]) -> io::Result<Arrived> {
        let mut state = lock(&self.receiving);
        let mut arrived = 0_usize;
        let room = buf.len().min(RECEIVE_BYTES);
        while !state.peer_closed && arrived < room {
            let place = buf.get_mut(arrived..room).unwrap_or_default();
            match kernel_tls::receive(tcp, place) {
                Ok(Received { len, record: Some(RecordType::Data) }) if len > 0 => {
                    if state.message_len > 0 {
                        // nothing may come within a message (RFC 8446 §5.1)
                        return Err(self.unexpected(tcp));
                    }
                    state.messages = 0;
                    arrived = arrived.saturating_add(len);
                    self.count(len);
                }
                Ok(Received { len, record: Some(record) }) => {
                    let message = place.get(..len).unwrap_or_default();
                    self.take_message(&mut state, tcp, record, message)?;
                }
                // without close_notify nothing of half a record is believed, of which the kernel returns none
                Ok(Received { record: None, .. }) => {
                    return Ok(Arrived { len: arrived, more: arrived > 0 });
                }
                Err(error) if arrived > 0 && is_passing(&error) => {
                    let more = error.kind() == ErrorKind::Interrupted;
                    return Ok(Arrived { len: arrived, more });
                }
                Err(error) => {
                    if kernel_tls::is_forgery(&error) {
                        self.alert(tcp, BAD_RECORD_MAC);
                    }
                    return Err(error);
                }
            }
        }
        Ok(Arrived { len: arrived, more: arrived > 0 })
    }

    /// Handles a message, or a part of one where the receiver's buffer was shorter.
    fn take_message(
        &self,
        state: &mut Receiving,
        tcp: &TcpStream,
        record: RecordType,
        bytes: &[u8],
    ) -> io::Result<()> {
        state.messages = state.messages.saturating_add(1);
        if state.message_type != record && state.message_len > 0 {
            return Err(self.unexpected(tcp));
        }
        state.message_type = record;
        let end = state.message_len.saturating_add(bytes.len());
        let place = state.message.get_mut(state.message_len..end);
        let Some(place) = place.filter(|_| state.messages <= MESSAGES_MAX) else {
            return Err(self.unexpected(tcp));
        };
        place.copy_from_slice(bytes);
        state.message_len = end;
        let message = state.message;
        match (record, message.get(..end).unwrap_or_default()) {
            (RecordType::Alert, [_, 0]) => state.peer_closed = true,
            (RecordType::Alert, [_, USER_CANCELED]) => {}
            (RecordType::Alert, [_, description]) => {
                return Err(ended(format!("the client sent the alert {description}")));
            }
            (RecordType::Handshake, [24, 0, 0, 1, asks @ (0 | 1)]) => {
                self.change_keys(state, tcp, *asks == 1)?;
            }
            (RecordType::Alert, [_]) => return Ok(()),
            (RecordType::Handshake, part) if KEY_UPDATE.starts_with(part) => return Ok(()),
            // an empty one, of which TLS 1.3 has those that are data
            (RecordType::Data, []) => {}
            _ => return Err(self.unexpected(tcp)),
        }
        state.message_len = 0;
        Ok(())
    }

    /// The client goes on with its next key, and may ask this side to do the same.
    fn change_keys(&self, state: &mut Receiving, tcp: &TcpStream, asks: bool) -> io::Result<()> {
        let lost = |error: KeyError| ended(error.to_string());
        let key = state.session.next_receive_key().map_err(lost)?;
        kernel_tls::set_key(tcp, Direction::Receive, &key).map_err(|error| {
            tracing::info!("a client changed its TLS keys, which this kernel cannot follow; its connection is closed: {error}");
            error
        })?;
        if asks {
            let mut sending = lock(&self.sending);
            // several that were asked for before one was sent are answered by one
            if sending.next_key.is_none() {
                sending.next_key = Some(state.session.next_send_key().map_err(lost)?);
            }
            // if the socket is full, before the next send
            match sending.change_key(tcp) {
                Err(error) if is_passing(&error) => {}
                done => done?,
            }
        }
        Ok(())
    }

    /// Sends as much as fits; with `more`, the last bytes may wait for those of the next send.
    ///
    /// # Errors
    /// As sendmsg(2).
    pub fn send(&self, tcp: &TcpStream, parts: &[IoSlice<'_>], more: bool) -> io::Result<usize> {
        let mut sending = lock(&self.sending);
        sending.change_key(tcp)?;
        let len = match more {
            true => sys::socket::send_ahead(tcp, parts)?,
            false => sys::socket::send(tcp, parts)?,
        };
        self.count(len);
        Ok(len)
    }

    /// Sends as much of a range of a file as fits; 0 if the file ends before `offset`.
    ///
    /// # Errors
    /// As sendfile(2).
    pub fn send_file(
        &self,
        tcp: &TcpStream,
        file: BorrowedFd<'_>,
        offset: u64,
        len: usize,
    ) -> io::Result<usize> {
        let mut sending = lock(&self.sending);
        sending.change_key(tcp)?;
        let len = sys::socket::send_file(tcp, file, offset, len)?;
        self.count(len);
        Ok(len)
    }

    /// Tells the client that nothing more is sent, unless something is being sent.
    pub fn close(&self, tcp: &TcpStream) {
        self.alert(tcp, CLOSE_NOTIFY);
    }

    /// Whether its client should begin another session.
    pub fn has_reached_record_limit(&self) -> bool {
        self.records.load(Relaxed) >= SESSION_RECORDS_MAX
    }

    /// Whether the client's certificate is accepted still.
    ///
    /// # Errors
    /// Why not, in words.
    pub fn recheck(&self, server: &ServerTls) -> Result<(), String> {
        server.recheck(lock(&self.receiving).session.chain())
    }

    /// Sends an alert as far as that can be done at once: the connection ends in any case.
    fn alert(&self, tcp: &TcpStream, alert: [u8; 2]) {
        match self.sending.try_lock() {
            Ok(_) | Err(TryLockError::Poisoned(_)) => {
                let _ = kernel_tls::send_record(tcp, RecordType::Alert, &alert);
            }
            Err(TryLockError::WouldBlock) => {}
        }
    }

    fn unexpected(&self, tcp: &TcpStream) -> io::Error {
        self.alert(tcp, UNEXPECTED_MESSAGE);
        io::Error::new(ErrorKind::InvalidData, "an unexpected TLS message")
    }

    /// Notes bytes, which are in no fewer records than that.
    fn count(&self, len: usize) {
        let records = (len / RECORD_PLAIN_MAX).saturating_add(1) as u64;
        self.records.fetch_add(records, Relaxed);
    }
}

impl Sending {
    /// Sends the KeyUpdate that was asked for, if one was.
    fn change_key(&mut self, tcp: &TcpStream) -> io::Result<()> {
        let Some(key) = &self.next_key else { return Ok(()) };
        let message = [24, 0, 0, 1, 0];
        kernel_tls::send_record(tcp, RecordType::Handshake, &message)?;
        kernel_tls::set_key(tcp, Direction::Send, key)?;
        self.next_key = None;
        Ok(())
    }
}

/// Nothing has arrived, or a signal.
fn is_passing(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

fn ended(why: String) -> io::Error {
    io::Error::new(ErrorKind::ConnectionAborted, why)
}
