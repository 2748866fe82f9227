//! What a client sends that does as it likes after its handshake: records of any type and content, in any order, under
//! the session's right keys. For tests.

use crate::client_stream::ClientStream;
use crate::kernel::not_for_the_kernel;
use rustls::client::ClientConnectionData;
use rustls::crypto::cipher::{
    MessageEncrypter, OutboundChunks, OutboundPlainMessage, Tls13AeadAlgorithm,
};
use rustls::kernel::KernelConnection;
use rustls::{ConnectionTrafficSecrets, ContentType, Error, ProtocolVersion, SupportedCipherSuite};

/// The sending side of a client's session.
pub struct ForgedRecords {
    connection: KernelConnection<ClientConnectionData>,
    algorithm: &'static dyn Tls13AeadAlgorithm,
    encrypter: Box<dyn MessageEncrypter>,
    sequence: u64,
}

impl<S> ClientStream<S> {
    /// Gives the session up for one that sends what it likes, and reads nothing.
    ///
    /// # Errors
    /// The TLS library does not give the keys away.
    pub fn forge(self) -> Result<(S, ForgedRecords), Error> {
        let (stream, session, _plain) = self.into_parts();
        let machine = session.into_client().ok_or_else(no_keys)?;
        let suite = machine.negotiated_cipher_suite();
        let Some(SupportedCipherSuite::Tls13(suite)) = suite else { return Err(no_keys()) };
        let algorithm = suite.aead_alg;
        let (secrets, connection) = machine.dangerous_into_kernel_connection()?;
        let (sequence, keys) = secrets.tx;
        let encrypter = encrypter(algorithm, keys)?;
        Ok((stream, ForgedRecords { connection, algorithm, encrypter, sequence }))
    }
}

impl ForgedRecords {
    /// A record of this content type (RFC 8446 §5.1).
    ///
    /// # Errors
    /// It cannot be encrypted.
    pub fn record(&mut self, content_type: u8, content: &[u8]) -> Result<Vec<u8>, Error> {
        let plain = OutboundPlainMessage {
            typ: ContentType::from(content_type),
            version: ProtocolVersion::TLSv1_3,
            payload: OutboundChunks::from(content),
        };
        let record = self.encrypter.encrypt(plain, self.sequence)?;
        self.sequence = self.sequence.wrapping_add(1);
        Ok(record.encode())
    }

    /// Goes on with the next key (RFC 8446 §7.2), whether the server was told or not.
    ///
    /// # Errors
    /// The TLS library has none.
    pub fn change_key(&mut self) -> Result<(), Error> {
        let (sequence, keys) = self.connection.update_tx_secret()?;
        self.encrypter = encrypter(self.algorithm, keys)?;
        self.sequence = sequence;
        Ok(())
    }
}

fn encrypter(
    algorithm: &dyn Tls13AeadAlgorithm,
    keys: ConnectionTrafficSecrets,
) -> Result<Box<dyn MessageEncrypter>, Error> {
    match keys {
        ConnectionTrafficSecrets::Aes128Gcm { key, iv }
        | ConnectionTrafficSecrets::Aes256Gcm { key, iv }
        | ConnectionTrafficSecrets::Chacha20Poly1305 { key, iv } => {
            Ok(algorithm.encrypter(key, iv))
        }
        _ => Err(no_keys()),
    }
}

fn no_keys() -> Error {
    Error::General(not_for_the_kernel().to_string())
}
