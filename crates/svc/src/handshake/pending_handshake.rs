//! One connection in a TLS handshake.

use crate::conn::connection::{Conn, Rx, Tail};
use crate::conn::seal::Seal;
use crate::kernel_tls::{KernelTls, TakeOverOutcome};
use crate::pool::worker_pool::Pool;
use std::io::ErrorKind;
use std::sync::Arc;
use tls::{HEADER_LEN, Handshake, Progress, ServerTls, Session, server_error_text};

/// Receive calls for one connection before others are served: a record takes two.
const RECEIVES_AT_ONCE: usize = 16;

/// A connection in a handshake.
pub(super) struct PendingHandshake {
    pub rx: Box<Rx>,
    /// The client.
    pub pool: Arc<Pool>,
    /// `None` before the first byte has arrived.
    handshake: Option<Handshake>,
}

/// The state of a handshake after processing input.
pub(super) enum Outcome {
    /// It is not complete.
    More(PendingHandshake),
    /// It is complete, and the connection is encrypted.
    Done(PendingHandshake),
    /// It failed, with the reason; without one if the client only disconnected.
    Failed(PendingHandshake, Option<String>),
}

impl PendingHandshake {
    pub const fn new(rx: Box<Rx>, pool: Arc<Pool>) -> Self {
        Self { rx, pool, handshake: None }
    }

    pub fn conn(&self) -> &Arc<Conn> {
        &self.rx.conn
    }

    /// Bytes kept of messages that are not complete.
    pub fn kept(&self) -> usize {
        self.handshake.as_ref().map_or(0, Handshake::kept)
    }

    /// Processes what has arrived, record by record: what follows the handshake stays in the socket, for the kernel if it
    /// takes the session over.
    pub fn go_on(mut self, sides: (&ServerTls, &KernelTls), buf: &mut [u8]) -> Outcome {
        let (server, _) = sides;
        for _ in 0..RECEIVES_AT_ONCE {
            let wanted = self.handshake.as_ref().map_or(HEADER_LEN, Handshake::wanted);
            let room = wanted.min(buf.len());
            let received = self.rx.conn.stream.receive_raw(buf.get_mut(..room).unwrap_or_default());
            let len = match received {
                Ok(0) => return self.left(server),
                Ok(len) => len,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Outcome::More(self),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(_) => return self.left(server),
            };
            let begun = self.handshake.take().map_or_else(|| server.begin(), Ok);
            let handshake = match begun {
                Ok(handshake) => handshake,
                Err(error) => return Outcome::Failed(self, Some(error.to_string())),
            };
            let mut answer = Vec::new();
            let progress = handshake.receive(buf.get(..len).unwrap_or_default(), &mut answer);
            let sent = self.send(&answer);
            match progress {
                Err(error) => {
                    let names = &server.current().certificate.names;
                    return Outcome::Failed(self, Some(server_error_text(&error, names)));
                }
                Ok(_) if !sent => return self.left(server),
                Ok((_, Progress::Done(session, early))) => {
                    return self.seal(sides, *session, &early);
                }
                Ok((handshake, Progress::More)) => self.handshake = handshake,
            }
        }
        Outcome::More(self)
    }

    /// The client has closed the connection, or it failed.
    fn left(self, server: &ServerTls) -> Outcome {
        let why = self.handshake.is_some().then(|| {
            let names = server.current().certificate.names.join(", ");
            format!(
                "it closed the connection during the handshake. Either it does not trust the authority of this \
                 server's certificate (x509.truststore in its /etc/tlshd.conf), or it mounts by a name that the \
                 certificate has not ({names}); its tlshd says which"
            )
        });
        Outcome::Failed(self, why)
    }

    /// Sends a flight; an empty send buffer has room for all of it.
    fn send(&self, bytes: &[u8]) -> bool {
        bytes.is_empty()
            || matches!(self.rx.conn.stream.send_raw(bytes), Ok(len) if len == bytes.len())
    }

    /// Installs the record layer, of the kernel if it can and nothing was received that it would miss. Data that arrived
    /// behind the handshake is served before the next epoll wait, because epoll has reported it already.
    fn seal(
        mut self,
        (server, kernel): (&ServerTls, &KernelTls),
        session: Session,
        early: &[u8],
    ) -> Outcome {
        let certificate = match server.identify(&session) {
            Ok(certificate) => certificate,
            Err(why) => return Outcome::Failed(self, Some(why)),
        };
        let suite = session.suite();
        let stream = &self.rx.conn.stream;
        let taken = match early {
            [] => stream.take_over(kernel, session),
            _ => TakeOverOutcome::Process(session),
        };
        let seal = match taken {
            TakeOverOutcome::Kernel(records) => Seal::of_kernel(records, suite, certificate),
            TakeOverOutcome::Process(session) => Seal::new(session, certificate),
            TakeOverOutcome::Lost(why) => return Outcome::Failed(self, Some(why)),
        };
        stream.begin_seal(seal);
        self.rx.tail = Tail::of(early, None);
        Outcome::Done(self)
    }
}
