//! One connection that makes a handshake.

use crate::conn::connection::{Conn, Rx, Tail};
use crate::conn::seal::Seal;
use crate::pool::worker_pool::Pool;
use std::io::ErrorKind;
use std::sync::Arc;
use tls::{Handshake, Progress, ServerTls, Session, server_words};

/// Receives of one connection before others are looked at.
const RECEIVES_AT_ONCE: usize = 4;

/// A connection that makes a handshake.
pub(super) struct PendingHandshake {
    pub rx: Box<Rx>,
    /// Whose it is.
    pub pool: Arc<Pool>,
    /// `None` before the first byte has come.
    handshake: Option<Handshake>,
}

/// What became of a handshake that was looked at.
pub(super) enum Outcome {
    /// It goes on.
    More(PendingHandshake),
    /// It is over, and the connection is sealed.
    Done(PendingHandshake),
    /// It has failed, in words; nothing if the client only went away.
    Failed(PendingHandshake, Option<String>),
}

impl PendingHandshake {
    pub const fn new(rx: Box<Rx>, pool: Arc<Pool>) -> Self {
        Self { rx, pool, handshake: None }
    }

    pub fn conn(&self) -> &Arc<Conn> {
        &self.rx.conn
    }

    /// Goes on with what has arrived.
    pub fn go_on(mut self, server: &ServerTls, buf: &mut [u8]) -> Outcome {
        for _ in 0..RECEIVES_AT_ONCE {
            let len = match self.rx.conn.stream.receive_raw(buf) {
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
                    return Outcome::Failed(self, Some(server_words(&error, names)));
                }
                Ok(_) if !sent => return self.left(server),
                Ok((_, Progress::Done(session, early))) => {
                    return self.seal(server, *session, &early);
                }
                Ok((handshake, Progress::More)) => self.handshake = handshake,
            }
        }
        Outcome::More(self)
    }

    /// The client has closed the connection, or it is broken.
    fn left(self, server: &ServerTls) -> Outcome {
        let why = self.handshake.is_some().then(|| {
            let names = server.current().certificate.names.join(", ");
            format!(
                "it closed the connection in the middle of the handshake. Either it does not know the authority of this \
                 server's certificate (x509.truststore in its /etc/tlshd.conf), or it mounts by a name that the \
                 certificate has not ({names}); its tlshd says which"
            )
        });
        Outcome::Failed(self, why)
    }

    /// Sends a flight, which an empty socket takes as a whole.
    fn send(&self, bytes: &[u8]) -> bool {
        bytes.is_empty()
            || matches!(self.rx.conn.stream.send_raw(bytes), Ok(len) if len == bytes.len())
    }

    /// Seals the connection. What came behind the end of the handshake is served before epoll is asked: it will not
    /// tell of it.
    fn seal(mut self, server: &ServerTls, session: Session, early: &[u8]) -> Outcome {
        let certificate = match server.identify(&session) {
            Ok(certificate) => certificate,
            Err(why) => return Outcome::Failed(self, Some(why)),
        };
        self.rx.conn.stream.begin_seal(Seal::new(session, certificate));
        self.rx.tail = Tail::of(early, None);
        Outcome::Done(self)
    }
}
