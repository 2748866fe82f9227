//! A TLS client session over a blocking stream, for diagnosis, benchmarks and tests.

use crate::client::ClientTls;
use crate::handshake::{HandshakeError, Progress};
use crate::session::Session;
use std::io::{self, ErrorKind, Read, Write};

/// Bytes per receive call.
const RECEIVE_BYTES: usize = 64 << 10;

/// A stream encrypted with TLS.
pub struct ClientStream<S> {
    stream: S,
    session: Box<Session>,
    /// Decrypted data that was not read yet.
    plain: Vec<u8>,
    read: usize,
    sealed: Vec<u8>,
    ended: bool,
}

/// Why the TLS session was not established.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The connection failed or was closed.
    #[error("the connection failed during the TLS handshake: {0}")]
    Io(#[from] io::Error),
    /// The handshake failed.
    #[error("{}", crate::client_error_text(.0))]
    Handshake(#[from] HandshakeError),
}

impl<S: Read + Write> ClientStream<S> {
    /// Performs the handshake with the server of this name or address.
    ///
    /// # Errors
    /// [`ConnectError`].
    pub fn connect(mut stream: S, client: &ClientTls, name: &str) -> Result<Self, ConnectError> {
        let mut outgoing = Vec::new();
        let mut handshake = client.begin(name, &mut outgoing)?;
        let mut buf = vec![0; RECEIVE_BYTES];
        loop {
            stream.write_all(&outgoing)?;
            outgoing.clear();
            let len = stream.read(&mut buf)?;
            if len == 0 {
                return Err(io::Error::from(ErrorKind::UnexpectedEof).into());
            }
            let received = buf.get(..len).unwrap_or_default();
            match handshake.receive(received, &mut outgoing) {
                Ok((_, Progress::Done(session, plain))) => {
                    stream.write_all(&outgoing)?;
                    return Ok(Self { stream, session, plain, read: 0, sealed: buf, ended: false });
                }
                Ok((Some(next), Progress::More)) => handshake = next,
                Ok((None, Progress::More)) => {
                    return Err(io::Error::from(ErrorKind::UnexpectedEof).into());
                }
                Err(error) => {
                    // send the alert; the handshake error is returned even if sending fails
                    let _ = stream.write_all(&outgoing);
                    return Err(error.into());
                }
            }
        }
    }
}

impl<S> ClientStream<S> {
    /// The underlying stream.
    pub const fn get_ref(&self) -> &S {
        &self.stream
    }

    /// The stream, the session, and what was opened and not read. Nothing of a record may have been received that has not
    /// been given to the session, which is so between two reads.
    pub fn into_parts(mut self) -> (S, Box<Session>, Vec<u8>) {
        self.plain.drain(..self.read.min(self.plain.len()));
        (self.stream, self.session, self.plain)
    }

    /// The cipher suite.
    pub fn suite(&self) -> String {
        self.session.suite()
    }

    /// Goes on with the next key from the next write on, and asks the server to do the same; for tests.
    ///
    /// # Errors
    /// The session can send nothing more.
    pub fn change_keys(&mut self) -> io::Result<()> {
        let changed = self.session.change_keys();
        changed.map_err(|error| io::Error::new(ErrorKind::BrokenPipe, error))
    }

    /// Encrypts data into records without sending them; for tests.
    ///
    /// # Errors
    /// The session can send nothing more.
    pub fn seal(&mut self, data: &[u8]) -> io::Result<Vec<u8>> {
        let mut records = Vec::new();
        let sealed = self.session.seal(data, &mut records);
        sealed.map_err(|error| io::Error::new(ErrorKind::BrokenPipe, error))?;
        Ok(records)
    }
}

impl<S: Read + Write> Read for ClientStream<S> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        while self.read >= self.plain.len() && !self.ended {
            let kept = self.session.put_kept(&mut self.sealed);
            let len = self.stream.read(self.sealed.get_mut(kept..).unwrap_or_default())?;
            if len == 0 {
                return Ok(0);
            }
            let sealed = self.sealed.get_mut(..kept.saturating_add(len)).unwrap_or_default();
            self.plain.resize(sealed.len(), 0);
            let mut answer = Vec::new();
            let opened = self.session.open(sealed, &mut self.plain, &mut answer);
            self.stream.write_all(&answer)?;
            let opened = opened.map_err(|error| io::Error::new(ErrorKind::InvalidData, error))?;
            self.plain.truncate(opened.len);
            (self.read, self.ended) = (0, opened.ended);
        }
        let rest = self.plain.get(self.read..).unwrap_or_default();
        let len = rest.len().min(buf.len());
        if let (Some(to), Some(from)) = (buf.get_mut(..len), rest.get(..len)) {
            to.copy_from_slice(from);
        }
        self.read = self.read.saturating_add(len);
        Ok(len)
    }
}

impl<S: Read + Write> Write for ClientStream<S> {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        let records = self.seal(buf)?;
        self.stream.write_all(&records)?;
        Ok(buf.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}
