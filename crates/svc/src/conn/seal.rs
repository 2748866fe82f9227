//! The TLS record layer of a connection (RFC 9289): encrypts what [`super::byte_stream::ByteStream`] sends and decrypts
//! what it receives, or has the kernel do it (`kernel_records.rs`).
//!
//! Lock: guards the session in this process, for one receive or send that does not wait for the socket.
//!
//! Invariants, of records in this process:
//! - After a receive, at most the beginning of one record is left here: epoll, which is edge-triggered, has reported
//!   everything that the worker does not have.
//! - Bytes count as sent when the socket has taken all records that contain them. Until then the sender offers the same
//!   bytes again; they are not read, since they are encrypted already.

use crate::conn::kernel_records::KernelRecords;
use crate::limits::{RECEIVE_BYTES, SEALED_AT_ONCE};
use crate::sync::lock;
use rpc::{HeldCertificate, TransportSecurity};
use std::cell::RefCell;
use std::io::{self, ErrorKind, IoSlice};
use std::net::TcpStream;
use std::os::fd::BorrowedFd;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use tls::Session;

thread_local! {
    /// Records on their way in. It keeps its length: what lengthens it is filled with zeros first.
    static RECEIVED: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    /// Records on their way out, at its front. It keeps its length for the same reason.
    static RECORDS: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    /// Bytes of several replies that share records.
    static GATHERED: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    /// A piece of a file. It keeps its length as well.
    static PIECE: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// The record layer of a connection.
pub(crate) struct Seal {
    pub security: TransportSecurity,
    /// Who the client is, if it has shown a certificate.
    pub certificate: Option<HeldCertificate>,
    /// The cipher suite.
    pub suite: String,
    records: Records,
    /// Bytes of a record that is not whole, as of the last receive.
    kept: AtomicUsize,
}

/// Who encrypts and decrypts the records.
enum Records {
    /// This process.
    Process(Mutex<State>),
    /// The kernel.
    Kernel(KernelRecords),
}

struct State {
    session: Session,
    /// Records that the socket has not taken, and how much of them it has.
    unsent: Vec<u8>,
    gone: usize,
    /// Bytes of plain text in them.
    unsent_plain: usize,
    peer_closed: bool,
}

/// What a receive brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Arrived {
    /// Bytes; 0 is the end of the stream.
    pub len: usize,
    /// Whether the socket may have more.
    pub more: bool,
}

impl Seal {
    /// Records in this process.
    pub fn new(session: Session, certificate: Option<HeldCertificate>) -> Self {
        let suite = session.suite();
        let state =
            State { session, unsent: Vec::new(), gone: 0, unsent_plain: 0, peer_closed: false };
        Self::of(Records::Process(Mutex::new(state)), suite, certificate)
    }

    /// Records in the kernel.
    pub fn of_kernel(
        records: KernelRecords,
        suite: String,
        certificate: Option<HeldCertificate>,
    ) -> Self {
        Self::of(Records::Kernel(records), suite, certificate)
    }

    fn of(records: Records, suite: String, certificate: Option<HeldCertificate>) -> Self {
        let security = certificate
            .as_ref()
            .map_or(TransportSecurity::TLS, |held| TransportSecurity::of_certificate(held.id()));
        Self { security, certificate, suite, records, kept: AtomicUsize::new(0) }
    }

    /// Bytes that are kept of a record that is not whole; the kernel keeps its own in the socket.
    pub fn kept(&self) -> usize {
        self.kept.load(Relaxed)
    }

    /// The records, if they are the kernel's.
    pub const fn kernel(&self) -> Option<&KernelRecords> {
        match &self.records {
            Records::Kernel(records) => Some(records),
            Records::Process(_) => None,
        }
    }

    /// Receives what has arrived, at most a buffer full, which has room for a record at least unless the kernel opens them.
    ///
    /// # Errors
    /// As recv(2); the records are not those of this session.
    pub fn receive(&self, tcp: &TcpStream, plain: &mut [u8]) -> io::Result<Arrived> {
        match &self.records {
            Records::Process(state) => {
                let mut state = lock(state);
                let arrived = state.receive(tcp, plain);
                self.kept.store(state.session.kept(), Relaxed);
                arrived
            }
            Records::Kernel(records) => records.receive(tcp, plain),
        }
    }

    /// Sends as much as fits, and returns how many bytes of the parts that is: those in records that the socket has taken.
    /// With `more`, the last bytes may wait for those of the next send.
    ///
    /// # Errors
    /// As sendmsg(2); the session can send nothing more.
    pub fn send(&self, tcp: &TcpStream, parts: &[IoSlice<'_>], more: bool) -> io::Result<usize> {
        match &self.records {
            Records::Process(state) => lock(state).send(tcp, parts, more),
            Records::Kernel(records) => records.send(tcp, parts, more),
        }
    }

    /// Sends as much of a range of a file as fits; 0 if the file ends before `offset`. This process reads a piece that its
    /// processor's caches hold, and encrypts and sends it before it reads the next one.
    ///
    /// # Errors
    /// As sendfile(2) and read(2).
    pub fn send_file(
        &self,
        tcp: &TcpStream,
        file: BorrowedFd<'_>,
        offset: u64,
        len: usize,
    ) -> io::Result<usize> {
        match &self.records {
            Records::Process(state) => lock(state).send_file(tcp, file, offset, len),
            Records::Kernel(records) => records.send_file(tcp, file, offset, len),
        }
    }

    /// Tells the client that nothing more is sent, unless half of a record waits to be sent.
    pub fn close(&self, tcp: &TcpStream) {
        match &self.records {
            Records::Process(state) => lock(state).close(tcp),
            Records::Kernel(records) => records.close(tcp),
        }
    }

    /// Whether its client should begin another session.
    pub fn has_reached_record_limit(&self) -> bool {
        match &self.records {
            Records::Process(state) => lock(state).session.has_reached_record_limit(),
            Records::Kernel(records) => records.has_reached_record_limit(),
        }
    }

    /// Whether the client's certificate is accepted still.
    ///
    /// # Errors
    /// Why not, in words.
    pub fn recheck(&self, server: &tls::ServerTls) -> Result<(), String> {
        if self.certificate.is_none() {
            return Ok(());
        }
        match &self.records {
            Records::Process(state) => {
                let chain = lock(state).session.chain();
                server.recheck(&chain)
            }
            Records::Kernel(records) => records.recheck(server),
        }
    }
}

impl State {
    fn receive(&mut self, tcp: &TcpStream, plain: &mut [u8]) -> io::Result<Arrived> {
        if self.peer_closed {
            return Ok(Arrived { len: 0, more: false });
        }
        RECEIVED.with_borrow_mut(|records| {
            let room = plain.len().min(RECEIVE_BYTES);
            if records.len() < room {
                records.resize(room, 0);
            }
            loop {
                let kept = self.session.put_kept(records);
                let place = records.get_mut(kept..room).unwrap_or_default();
                let space = place.len();
                let len = sys::socket::receive(tcp, place)?;
                if len == 0 {
                    // nothing of half a record is believed
                    return Ok(Arrived { len: 0, more: false });
                }
                let sealed = records.get_mut(..kept.saturating_add(len)).unwrap_or_default();
                let mut answer = Vec::new();
                let opened = self.session.open(sealed, plain, &mut answer);
                self.unsent.append(&mut answer);
                let opened = opened.map_err(|error| {
                    // the alert; the connection is closed in any case
                    let _ = self.flush(tcp);
                    io::Error::new(ErrorKind::InvalidData, error)
                })?;
                self.peer_closed = opened.ended;
                if opened.len > 0 || opened.ended {
                    return Ok(Arrived { len: opened.len, more: len == space || opened.ended });
                }
                // only the socket says that it is empty: the end of the stream may be behind half a record, and is
                // reported once
            }
        })
    }

    fn send(&mut self, tcp: &TcpStream, parts: &[IoSlice<'_>], more: bool) -> io::Result<usize> {
        let mut taken = self.finish_unsent(tcp)?;
        let mut left = PartsLeft { parts, at: 0 };
        left.skip(taken);
        while !left.is_empty() {
            let (len, all) = GATHERED.with_borrow_mut(|gathered| {
                let piece = left.next(gathered);
                Ok::<_, io::Error>((piece.len(), self.send_piece(tcp, piece, more)?))
            })?;
            if !all {
                break;
            }
            taken = taken.saturating_add(len);
        }
        if taken == 0 { Err(ErrorKind::WouldBlock.into()) } else { Ok(taken) }
    }

    fn send_file(
        &mut self,
        tcp: &TcpStream,
        file: BorrowedFd<'_>,
        offset: u64,
        len: usize,
    ) -> io::Result<usize> {
        let mut taken = self.finish_unsent(tcp)?;
        while taken < len {
            let (got, all) = PIECE.with_borrow_mut(|piece| {
                if piece.is_empty() {
                    piece.resize(SEALED_AT_ONCE, 0);
                }
                let room = len.saturating_sub(taken).min(SEALED_AT_ONCE);
                let room = piece.get_mut(..room).unwrap_or_default();
                let got = sys::io::read(file, room, offset.saturating_add(taken as u64))?;
                match room.get(..got) {
                    Some(piece) if got > 0 => Ok((got, self.send_piece(tcp, piece, false)?)),
                    Some(_) | None => Ok::<_, io::Error>((0, true)),
                }
            })?;
            if got == 0 {
                return Ok(taken);
            }
            if !all {
                break;
            }
            taken = taken.saturating_add(got);
        }
        if taken == 0 { Err(ErrorKind::WouldBlock.into()) } else { Ok(taken) }
    }

    /// Sends what waits, and returns how many bytes of the parts that are offered now that was.
    ///
    /// # Errors
    /// Would-block if the socket does not take all of it.
    fn finish_unsent(&mut self, tcp: &TcpStream) -> io::Result<usize> {
        match self.flush(tcp)? {
            true => Ok(std::mem::take(&mut self.unsent_plain)),
            false => Err(ErrorKind::WouldBlock.into()),
        }
    }

    /// Seals a piece and sends its records, or keeps what the socket does not take; whether it took all.
    fn send_piece(&mut self, tcp: &TcpStream, piece: &[u8], more: bool) -> io::Result<bool> {
        RECORDS.with_borrow_mut(|records| {
            let sealed = self.session.seal_at(0, piece, records);
            let len = sealed.map_err(|error| io::Error::new(ErrorKind::BrokenPipe, error))?;
            self.offer(tcp, records.get(..len).unwrap_or_default(), piece.len(), more)
        })
    }

    fn close(&mut self, tcp: &TcpStream) {
        if matches!(self.flush(tcp), Ok(true)) {
            let mut alert = Vec::new();
            self.session.close(&mut alert);
            // the connection ends in any case
            let _ = self.offer(tcp, &alert, 0, false);
        }
    }

    /// Sends what waits; whether it is all gone.
    fn flush(&mut self, tcp: &TcpStream) -> io::Result<bool> {
        while let Some(rest) = self.unsent.get(self.gone..).filter(|rest| !rest.is_empty()) {
            match sys::socket::send(tcp, &[IoSlice::new(rest)]) {
                Ok(0) => return Ok(false),
                Ok(len) => self.gone = self.gone.saturating_add(len),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        (self.unsent, self.gone) = (Vec::new(), 0);
        Ok(true)
    }

    /// Sends records with this much plain text, or keeps what the socket does not take; whether it took all. With `more`,
    /// the last bytes may wait for those of the next send.
    fn offer(
        &mut self,
        tcp: &TcpStream,
        records: &[u8],
        plain: usize,
        more: bool,
    ) -> io::Result<bool> {
        let parts = [IoSlice::new(records)];
        let sent = match more {
            true => sys::socket::send_ahead(tcp, &parts),
            false => sys::socket::send(tcp, &parts),
        };
        let gone = match sent {
            Ok(len) => len,
            Err(error)
                if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) =>
            {
                0
            }
            Err(error) => return Err(error),
        };
        match records.get(gone..) {
            Some(rest) if !rest.is_empty() => {
                self.unsent.extend_from_slice(rest);
                self.unsent_plain = plain;
                Ok(false)
            }
            Some(_) | None => Ok(true),
        }
    }
}

/// What is left of parts.
struct PartsLeft<'p> {
    parts: &'p [IoSlice<'p>],
    /// Bytes of the first part that are done with.
    at: usize,
}

impl<'p> PartsLeft<'p> {
    fn skip(&mut self, mut len: usize) {
        while let Some((first, others)) = self.parts.split_first() {
            let rest = first.len().saturating_sub(self.at);
            if len < rest {
                self.at = self.at.saturating_add(len);
                return;
            }
            len = len.saturating_sub(rest);
            (self.parts, self.at) = (others, 0);
        }
    }

    fn is_empty(&self) -> bool {
        self.parts.iter().all(|part| part.is_empty())
    }

    /// The next bytes that are sealed together: of one part where that is enough, else of several, which are copied
    /// together so that they share records.
    fn next<'n>(&mut self, gathered: &'n mut Vec<u8>) -> &'n [u8]
    where
        'p: 'n,
    {
        let parts: &'p [IoSlice<'p>] = self.parts;
        let first: &'p [u8] =
            parts.first().and_then(|part| part.get(self.at..)).unwrap_or_default();
        if first.len() >= SEALED_AT_ONCE || parts.len() <= 1 {
            let piece = first.get(..SEALED_AT_ONCE).unwrap_or(first);
            self.skip(piece.len());
            return piece;
        }
        gathered.clear();
        let mut at = self.at;
        for part in parts {
            let part = part.get(std::mem::take(&mut at)..).unwrap_or_default();
            let room = SEALED_AT_ONCE.saturating_sub(gathered.len());
            gathered.extend_from_slice(part.get(..room).unwrap_or(part));
        }
        self.skip(gathered.len());
        gathered
    }
}
