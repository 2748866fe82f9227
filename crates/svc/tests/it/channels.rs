//! The toy as its clients reach it over plain TCP, and over TLS: what holds of one has to hold of the other.

use crate::tls::Sealed;
use crate::toy::{Client, PATIENCE, Toy};
use bowline_svc::Config;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use tls::ClientStream;

/// Starts a server for each of the channels.
pub const CHANNELS: [fn(Config) -> Rig; 2] = [Rig::plain, Rig::sealed];

/// A server and how its clients reach it.
pub enum Rig {
    Plain(Toy),
    Sealed(Box<Sealed>),
}

impl Rig {
    fn plain(config: Config) -> Self {
        Self::Plain(Toy::start(config))
    }

    fn sealed(config: Config) -> Self {
        Self::Sealed(Box::new(Sealed::start_as(PATIENCE, config)))
    }

    pub const fn toy(&self) -> &Toy {
        match self {
            Self::Plain(toy) => toy,
            Self::Sealed(sealed) => &sealed.toy,
        }
    }

    pub fn client(&self) -> Client<Box<dyn Wire>> {
        match self {
            Self::Plain(toy) => Client(Box::new(toy.client().0)),
            Self::Sealed(sealed) => Client(Box::new(sealed.connect())),
        }
    }

    pub fn stop(self) {
        match self {
            Self::Plain(toy) => toy.stop(),
            Self::Sealed(sealed) => sealed.toy.stop(),
        }
    }
}

/// A connection after its handshake, if there was one.
pub trait Wire: Read + Write + Send {
    fn tcp(&self) -> &TcpStream;

    /// What goes to the socket for these bytes.
    fn seal(&mut self, bytes: Vec<u8>) -> Vec<u8>;

    /// Whether the server closes the connection, if need be after an alert.
    fn is_closed(&self) -> bool {
        let mut tcp = self.tcp();
        loop {
            match tcp.read(&mut [0; 64]) {
                Ok(0) => return true,
                Ok(_) => {}
                Err(error) => return error.kind() != ErrorKind::WouldBlock,
            }
        }
    }
}

impl Wire for TcpStream {
    fn tcp(&self) -> &TcpStream {
        self
    }

    fn seal(&mut self, bytes: Vec<u8>) -> Vec<u8> {
        bytes
    }
}

impl Wire for ClientStream<TcpStream> {
    fn tcp(&self) -> &TcpStream {
        self.get_ref()
    }

    fn seal(&mut self, bytes: Vec<u8>) -> Vec<u8> {
        Self::seal(self, &bytes).unwrap()
    }
}
