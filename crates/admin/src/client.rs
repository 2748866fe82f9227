//! The client of the control socket, for the command line: one request and its answer, with a time limit.

use crate::api::{Answer, Request};
use serde::de::DeserializeOwned;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Longest wait for an answer. The slowest request is a reload that reads a large netgroup.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Most bytes of an answer: a row per connection for 100,000 connections is about 20 MB.
const ANSWER_BYTES_MAX: u64 = 64 << 20;

/// Why there is no answer, and what to do.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// No server listens on the socket.
    #[error(
        "no server answers on {0}: start one with `bowline serve DIR`, or name the socket of \
         another with --control"
    )]
    NoServer(PathBuf),
    /// The socket belongs to another user.
    #[error("no permission for {0}: run this as root or as the user that runs the server")]
    NoPermission(PathBuf),
    /// The server did not answer in time or closed the connection.
    #[error("the server on {0} did not answer: {1}; try again, or look at its log")]
    NoAnswer(PathBuf, std::io::Error),
    /// The answer cannot be decoded: another version, or another program.
    #[error(
        "the answer on {0} cannot be decoded ({1}): is the server the same version of bowline?"
    )]
    Malformed(PathBuf, serde_json::Error),
    /// The server refused the request, with this reason.
    #[error("{0}")]
    Refused(String),
}

/// A connection to a server's control socket.
#[derive(Debug)]
pub struct Client {
    path: PathBuf,
    stream: BufReader<UnixStream>,
}

impl Client {
    /// Connects to the control socket at `path`.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn connect(path: &Path) -> Result<Self, ClientError> {
        let own = || path.to_path_buf();
        let stream = UnixStream::connect(path).map_err(|error| match error.kind() {
            ErrorKind::PermissionDenied => ClientError::NoPermission(own()),
            ErrorKind::NotFound | ErrorKind::ConnectionRefused => ClientError::NoServer(own()),
            _ => ClientError::NoAnswer(own(), error),
        })?;
        stream.set_read_timeout(Some(TIMEOUT)).map_err(|e| ClientError::NoAnswer(own(), e))?;
        stream.set_write_timeout(Some(TIMEOUT)).map_err(|e| ClientError::NoAnswer(own(), e))?;
        Ok(Self { path: own(), stream: BufReader::new(stream) })
    }

    /// Sends a request and returns the result, which has the request's type.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn ask<T: DeserializeOwned>(&mut self, request: &Request) -> Result<T, ClientError> {
        let malformed = |e| ClientError::Malformed(self.path.clone(), e);
        let mut line = serde_json::to_string(request).map_err(malformed)?;
        line.push('\n');
        let mut text = String::new();
        let stream = &mut self.stream;
        let done = stream.get_mut().write_all(line.as_bytes()).and_then(|()| {
            let read = stream.by_ref().take(ANSWER_BYTES_MAX).read_line(&mut text)?;
            if read == 0 { Err(ErrorKind::UnexpectedEof.into()) } else { Ok(()) }
        });
        done.map_err(|e| ClientError::NoAnswer(self.path.clone(), e))?;
        let malformed = |e| ClientError::Malformed(self.path.clone(), e);
        let answer: Answer<T> = serde_json::from_str(&text).map_err(malformed)?;
        match (answer.ok, answer.result) {
            (true, Some(result)) => Ok(result),
            _ => Err(ClientError::Refused(
                answer.error.unwrap_or_else(|| "the server gave no reason".into()),
            )),
        }
    }
}
