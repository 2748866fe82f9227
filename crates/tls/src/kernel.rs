//! A session whose records the kernel encrypts and decrypts: its keys, and those that follow when one side changes them
//! (KeyUpdate, RFC 8446 §4.6.3). The record layer is `sys::kernel_tls`.

use rustls::kernel::KernelConnection;
use rustls::pki_types::CertificateDer;
use rustls::server::{ServerConnectionData, UnbufferedServerConnection};
use rustls::{CipherSuite, ConnectionTrafficSecrets, Error, SupportedCipherSuite};
use sys::kernel_tls::{Suite, TrafficKey};

/// A session has no keys for the kernel.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{0}")]
pub struct KeyError(#[from] Error);

/// The keys of both directions, as they are at the hand-over.
#[derive(Debug)]
pub struct TrafficKeys {
    /// Of what is sent.
    pub send: TrafficKey,
    /// Of what is received.
    pub receive: TrafficKey,
}

/// What is left of a session in this process: how the next keys follow from those before, and who the client is.
pub struct KernelSession {
    // large, and seldom used
    connection: Box<KernelConnection<ServerConnectionData>>,
    chain: Vec<CertificateDer<'static>>,
}

impl KernelSession {
    pub(crate) fn new(
        machine: UnbufferedServerConnection,
    ) -> Result<(Self, TrafficKeys), KeyError> {
        let chain = machine.peer_certificates().map(<[_]>::to_vec).unwrap_or_default();
        let (secrets, connection) = machine.dangerous_into_kernel_connection()?;
        let keys = TrafficKeys { send: key(secrets.tx)?, receive: key(secrets.rx)? };
        Ok((Self { connection: Box::new(connection), chain }, keys))
    }

    /// The key of what is sent after a KeyUpdate of this side.
    ///
    /// # Errors
    /// The TLS library has none.
    pub fn next_send_key(&mut self) -> Result<TrafficKey, KeyError> {
        key(self.connection.update_tx_secret()?)
    }

    /// The key of what is received after a KeyUpdate of the peer.
    ///
    /// # Errors
    /// The TLS library has none.
    pub fn next_receive_key(&mut self) -> Result<TrafficKey, KeyError> {
        key(self.connection.update_rx_secret()?)
    }

    /// The peer's certificate chain; empty without a certificate.
    pub fn chain(&self) -> &[CertificateDer<'static>] {
        &self.chain
    }
}

/// The kernel's name of a suite.
pub(crate) fn suite(suite: SupportedCipherSuite) -> Option<Suite> {
    match suite.suite() {
        CipherSuite::TLS13_AES_128_GCM_SHA256 => Some(Suite::Aes128Gcm),
        CipherSuite::TLS13_AES_256_GCM_SHA384 => Some(Suite::Aes256Gcm),
        CipherSuite::TLS13_CHACHA20_POLY1305_SHA256 => Some(Suite::Chacha20Poly1305),
        _ => None,
    }
}

pub(crate) fn not_for_the_kernel() -> KeyError {
    KeyError(Error::General("the session has no keys that the kernel knows".to_owned()))
}

fn key((sequence, secrets): (u64, ConnectionTrafficSecrets)) -> Result<TrafficKey, KeyError> {
    let (suite, key, iv) = match secrets {
        ConnectionTrafficSecrets::Aes128Gcm { key, iv } => (Suite::Aes128Gcm, key, iv),
        ConnectionTrafficSecrets::Aes256Gcm { key, iv } => (Suite::Aes256Gcm, key, iv),
        ConnectionTrafficSecrets::Chacha20Poly1305 { key, iv } => {
            (Suite::Chacha20Poly1305, key, iv)
        }
        _ => return Err(not_for_the_kernel()),
    };
    TrafficKey::new(suite, key.as_ref(), iv.as_ref(), sequence).ok_or_else(not_for_the_kernel)
}
