//! The socket of a TCP connection. All bytes of a connection go through this type, and nothing else in this
//! crate touches the socket: what a record layer such as TLS changes, it changes here.
//!
//! A connection begins plain. After a handshake (`handshake/`) it is sealed for the rest of its life (`seal.rs`), by this
//! process or by the kernel. In the second case it is used like a plain one: what differs is how it is received from, and
//! that a send may have to wait for a change of keys (`kernel_records.rs`).
//!
//! Nothing here waits: a full or an empty socket is a would-block error.

use crate::addresses::canonical;
use crate::conn::seal::{Arrived, Seal};
use crate::kernel_tls::{KernelTls, TakeOverOutcome};
use crate::limits::SEALED_AT_ONCE;
use rpc::{Peer, Transport, TransportSecurity};
use std::io::{self, IoSlice};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::OnceLock;
use sys::epoll::{Epoll, Interest};
use sys::pipe::Pipe;
use tls::Session;

/// A connection's byte stream.
pub(crate) struct ByteStream {
    tcp: TcpStream,
    /// The record layer; without one bytes leave and arrive as they are.
    seal: OnceLock<Box<Seal>>,
}

/// The options and the state of a connection's socket, for calls that move no bytes.
pub(crate) struct TcpOptions<'s>(BorrowedFd<'s>);

impl AsFd for TcpOptions<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0
    }
}

impl ByteStream {
    /// The next connection of a listener.
    ///
    /// # Errors
    /// As accept4(2); would-block if there is none.
    pub fn accept(listener: &TcpListener) -> io::Result<Self> {
        Ok(Self { tcp: sys::socket::accept(listener)?, seal: OnceLock::new() })
    }

    /// Sets its options; both of its ends.
    ///
    /// # Errors
    /// The connection has ended already.
    pub fn prepare(&self) -> io::Result<Peer> {
        let (addr, local) = (self.tcp.peer_addr()?, self.tcp.local_addr()?);
        sys::socket::prepare(&self.tcp)?;
        Ok(Peer {
            addr: canonical(addr),
            local: canonical(local),
            transport: Transport::Tcp,
            security: TransportSecurity::PLAIN,
        })
    }

    /// Bytes of the shortest range for which [`ByteStream::send_file`] is to be used. The kernel sends files' pages where
    /// bytes leave as they are, or where it encrypts them itself. What this process encrypts is read piece by piece, which
    /// pays where it is more than a piece.
    pub fn range_min(&self) -> usize {
        if self.opens_records() { SEALED_AT_ONCE } else { 0 }
    }

    /// Whether [`ByteStream::move_into`] can be used, which moves bytes as they arrive. Of a stream that the kernel
    /// decrypts it would move one record at a time, decrypted into memory of its own, where a receive has it decrypt
    /// them into the receiver's buffer.
    pub fn can_move_into_pipe(&self) -> bool {
        self.seal.get().is_none()
    }

    /// Whether what is received is decrypted in this process, which takes a buffer with room for whole records.
    pub fn opens_records(&self) -> bool {
        self.seal.get().is_some_and(|seal| seal.kernel().is_none())
    }

    /// Has the kernel take a session over, if it can.
    pub fn take_over(&self, kernel: &KernelTls, session: Session) -> TakeOverOutcome {
        kernel.take_over(&self.tcp, session)
    }

    /// Bytes that have arrived and are kept here until their record is whole.
    pub fn kept_bytes(&self) -> usize {
        self.seal.get().map_or(0, |seal| seal.kept())
    }

    /// Everything from now on goes through this record layer; once.
    pub fn begin_seal(&self, seal: Seal) {
        // a handshake is made once for a connection
        let _ = self.seal.set(Box::new(seal));
    }

    /// The record layer, if it has one.
    pub fn seal(&self) -> Option<&Seal> {
        self.seal.get().map(|seal| &**seal)
    }

    /// What protects its bytes.
    pub fn security(&self) -> TransportSecurity {
        self.seal.get().map_or(TransportSecurity::PLAIN, |seal| seal.security)
    }

    /// Receives what has arrived, at most a buffer full, which has room for a record if it is opened here.
    ///
    /// # Errors
    /// As recv(2); the records of a sealed stream are wrong.
    pub fn receive(&self, buf: &mut [u8]) -> io::Result<Arrived> {
        match self.seal.get() {
            Some(seal) => seal.receive(&self.tcp, buf),
            None => {
                let len = sys::socket::receive(&self.tcp, buf)?;
                Ok(Arrived { len, more: len >= buf.len() })
            }
        }
    }

    /// Receives bytes as they came, unless the kernel decrypts them; 0 is the end of the stream.
    ///
    /// # Errors
    /// As recv(2).
    pub fn receive_raw(&self, buf: &mut [u8]) -> io::Result<usize> {
        match self.seal.get().and_then(|seal| seal.kernel()) {
            Some(records) => records.receive(&self.tcp, buf).map(|arrived| arrived.len),
            None => sys::socket::receive(&self.tcp, buf),
        }
    }

    /// Sends bytes as they are, as many as fit.
    ///
    /// # Errors
    /// As sendmsg(2).
    pub fn send_raw(&self, bytes: &[u8]) -> io::Result<usize> {
        sys::socket::send(&self.tcp, &[IoSlice::new(bytes)])
    }

    /// Copies what has arrived without taking it.
    ///
    /// # Errors
    /// As recv(2); unsupported if it is encrypted.
    pub fn peek(&self, buf: &mut [u8]) -> io::Result<usize> {
        if self.seal.get().is_some() {
            return Err(io::ErrorKind::Unsupported.into());
        }
        sys::socket::peek(&self.tcp, buf)
    }

    /// How many bytes have arrived and were not received.
    ///
    /// # Errors
    /// As ioctl(2).
    pub fn arrived_bytes(&self) -> io::Result<usize> {
        sys::socket::arrived(&self.tcp)
    }

    /// Moves at most `len_max` bytes of what has arrived into a pipe.
    ///
    /// # Errors
    /// As splice(2).
    pub fn move_into(&self, pipe: &Pipe, len_max: usize) -> io::Result<usize> {
        pipe.fill(self.tcp.as_fd(), len_max)
    }

    /// Sends as much as fits; with `more`, the last bytes may wait for those of the next send.
    ///
    /// # Errors
    /// As sendmsg(2).
    pub fn send(&self, parts: &[IoSlice<'_>], more: bool) -> io::Result<usize> {
        if let Some(seal) = self.seal.get() {
            return seal.send(&self.tcp, parts, more);
        }
        if more {
            sys::socket::send_ahead(&self.tcp, parts)
        } else {
            sys::socket::send(&self.tcp, parts)
        }
    }

    /// Sends as much of a range of a file as fits; 0 if the file ends before `offset`.
    ///
    /// # Errors
    /// As sendfile(2), and as read(2) where this process encrypts.
    pub fn send_file(&self, file: BorrowedFd<'_>, offset: u64, len: usize) -> io::Result<usize> {
        match self.seal.get() {
            Some(seal) => seal.send_file(&self.tcp, file, offset, len),
            None => sys::socket::send_file(&self.tcp, file, offset, len),
        }
    }

    /// How many sent bytes the client has not acknowledged.
    pub fn unacknowledged_bytes(&self) -> usize {
        sys::socket::unacknowledged(&self.tcp)
    }

    /// Tells the client that nothing more is sent; `false` if the connection is broken.
    pub fn end_sending(&self) -> bool {
        if let Some(seal) = self.seal.get() {
            seal.close(&self.tcp);
            if seal.kernel().is_some() {
                // shut down, it would lose records that TCP had no room for; it ends when it is closed
                return true;
            }
        }
        self.tcp.shutdown(Shutdown::Write).is_ok()
    }

    /// What the client has not taken is thrown away when the connection closes, and not kept by the kernel.
    pub fn discard_unsent(&self) {
        // it may have ended
        let _ = sys::socket::discard_on_close(&self.tcp);
    }

    /// Ends the connection both ways. Whoever polls it finds it ended.
    pub fn shut_down(&self) {
        if let Some(seal) = self.seal.get() {
            seal.close(&self.tcp);
        }
        let _ = self.tcp.shutdown(Shutdown::Both);
    }

    /// The socket's options.
    pub fn options(&self) -> TcpOptions<'_> {
        TcpOptions(self.tcp.as_fd())
    }

    /// Has `epoll` watch it.
    ///
    /// # Errors
    /// As epoll_ctl(2).
    pub fn watch(&self, epoll: &Epoll, token: u64, interest: Interest) -> io::Result<()> {
        epoll.add(&self.tcp, token, interest)
    }

    /// Has `epoll`, which watches it, watch for something else, and tell again what is ready now.
    ///
    /// # Errors
    /// As epoll_ctl(2).
    pub fn rewatch(&self, epoll: &Epoll, token: u64, interest: Interest) -> io::Result<()> {
        epoll.modify(&self.tcp, token, interest)
    }

    /// Has `epoll` no longer watch it.
    ///
    /// # Errors
    /// As epoll_ctl(2).
    pub fn unwatch(&self, epoll: &Epoll) -> io::Result<()> {
        epoll.delete(&self.tcp)
    }
}
