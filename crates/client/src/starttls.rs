//! RPC with TLS (RFC 9289) as its client: the probe, and the session behind it.

use crate::error::Error;
use proto::rpc::{OpaqueAuth, ReplyBody, ReplyHeader, flavor};
use rpc::auth::STARTTLS;
use rpc::record;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;
use tls::{ClientStream, ClientTls, ConnectError};
use xdr::{Reader, Writer};

/// Bytes of the longest answer to a probe that is read.
const ANSWER_MAX: usize = 1024;
/// The probe's transaction id.
const XID: u32 = 0x7165_0001;

/// Why there is no session.
#[derive(Debug, thiserror::Error)]
pub enum StartTlsError {
    /// There is no connection, or it is broken.
    #[error("{0}")]
    Connection(#[from] Error),
    /// The server does not offer TLS.
    #[error(
        "the server answers the probe for TLS with a refusal: it has no certificate (--tls-cert)"
    )]
    NotOffered,
    /// The handshake failed.
    #[error("{0}")]
    Handshake(#[from] ConnectError),
}

/// A connection to a server on which it has agreed to begin TLS: NULL of the program was answered with STARTTLS.
///
/// # Errors
/// [`StartTlsError`].
pub fn probe(
    addr: SocketAddr,
    timeout: Duration,
    (program, version): (u32, u32),
) -> Result<TcpStream, StartTlsError> {
    let io = |source| Error::Io { peer: format!("{addr} (tcp)"), source };
    let stream = TcpStream::connect_timeout(&addr, timeout).map_err(io)?;
    ask(stream, addr, timeout, (program, version))
}

/// Asks on a connection, which is then one to begin TLS on.
fn ask(
    mut stream: TcpStream,
    addr: SocketAddr,
    timeout: Duration,
    (program, version): (u32, u32),
) -> Result<TcpStream, StartTlsError> {
    let io = |source| Error::Io { peer: format!("{addr} (tcp)"), source };
    stream.set_nodelay(true).map_err(io)?;
    stream.set_read_timeout(Some(timeout)).map_err(io)?;
    stream.set_write_timeout(Some(timeout)).map_err(io)?;
    let mut call = Writer::new();
    call.words([XID, 0, 2, program, version, 0]);
    call.put(&OpaqueAuth { flavor: flavor::AUTH_TLS, body: &[] });
    call.put(&OpaqueAuth::NONE);
    let mark = record::mark(call.len()).unwrap_or_default().to_be_bytes();
    stream.write_all(&[&mark[..], call.bytes()].concat()).map_err(io)?;
    let mut mark = [0; 4];
    stream.read_exact(&mut mark).map_err(io)?;
    let len = (u32::from_be_bytes(mark) & (u32::MAX >> 1)) as usize;
    let mut answer = vec![0; len.min(ANSWER_MAX)];
    stream.read_exact(&mut answer).map_err(io)?;
    match Reader::new(&answer).get::<ReplyHeader<'_>>() {
        Ok(ReplyHeader { xid: XID, body: ReplyBody::Accepted { verifier, .. } })
            if verifier == (OpaqueAuth { flavor: flavor::AUTH_NONE, body: STARTTLS }) =>
        {
            Ok(stream)
        }
        Ok(_) | Err(_) => Err(StartTlsError::NotOffered),
    }
}

/// The same with the handshake with the server of this name or address.
///
/// # Errors
/// [`StartTlsError`].
pub fn connect(
    addr: SocketAddr,
    timeout: Duration,
    program: (u32, u32),
    (client, name): (&ClientTls, &str),
) -> Result<ClientStream<TcpStream>, StartTlsError> {
    Ok(ClientStream::connect(probe(addr, timeout, program)?, client, name)?)
}

/// The same on a connection of the caller's, such as one from a reserved port; `addr` is for the error's text.
///
/// # Errors
/// [`StartTlsError`].
pub fn begin(
    stream: TcpStream,
    addr: SocketAddr,
    timeout: Duration,
    program: (u32, u32),
    (client, name): (&ClientTls, &str),
) -> Result<ClientStream<TcpStream>, StartTlsError> {
    Ok(ClientStream::connect(ask(stream, addr, timeout, program)?, client, name)?)
}
