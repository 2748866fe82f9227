//! What a server's handshakes are made with, which is replaced while they go on.
//!
//! The lock guards a pointer, for a copy or a swap of it.

use crate::certificate::read_client;
use crate::files::{FileError, ServerFiles};
use crate::handshake::Handshake;
use crate::session::Session;
use crate::verify::ClientVerifier;
use rpc::{Certificate, Certificates, HeldCertificate};
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::{Error, ServerConfig};
use std::sync::{Arc, PoisonError, RwLock};

/// What was read of a server's files.
#[derive(Clone)]
pub struct Loaded {
    pub(crate) config: Arc<ServerConfig>,
    pub(crate) verifier: Arc<ClientVerifier>,
    /// The server's own certificate.
    pub certificate: Arc<Certificate>,
    /// Whether there are authorities for clients' certificates.
    pub knows_clients: bool,
}

/// TLS of a server.
pub struct ServerTls {
    files: ServerFiles,
    current: RwLock<Arc<Loaded>>,
    certificates: Arc<Certificates>,
}

impl ServerTls {
    /// Reads the files. Clients' certificates are numbered by the table.
    ///
    /// # Errors
    /// [`FileError`].
    pub fn open(files: ServerFiles, certificates: Arc<Certificates>) -> Result<Self, FileError> {
        let current = RwLock::new(Arc::new(files.load()?));
        Ok(Self { files, current, certificates })
    }

    /// Reads the files again. What was read before stays in force if one of them cannot be used.
    ///
    /// # Errors
    /// [`FileError`].
    pub fn reload(&self) -> Result<Arc<Loaded>, FileError> {
        let loaded = Arc::new(self.files.load()?);
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::clone(&loaded);
        Ok(loaded)
    }

    /// The files.
    pub const fn files(&self) -> &ServerFiles {
        &self.files
    }

    /// What is in force.
    pub fn current(&self) -> Arc<Loaded> {
        Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Begins a handshake.
    ///
    /// # Errors
    /// The configuration cannot be used; none is known.
    pub fn begin(&self) -> Result<Handshake, Error> {
        Handshake::server(Arc::clone(&self.current().config))
    }

    /// Who is at the other end of a session; `None` without a certificate.
    ///
    /// # Errors
    /// In words, why a certificate that was accepted cannot be used.
    pub fn identify(&self, session: &Session) -> Result<Option<HeldCertificate>, String> {
        let chain = session.chain();
        let Some(first) = chain.first() else { return Ok(None) };
        let certificate = read_client(first).map_err(|error| error.to_string())?;
        let held = self.certificates.hold(certificate);
        held.map(Some).ok_or_else(|| "there is no number left for certificates".to_owned())
    }

    /// Whether a chain that was accepted once still would be.
    ///
    /// # Errors
    /// Why not, in words.
    pub fn recheck(&self, chain: &[CertificateDer<'_>]) -> Result<(), String> {
        let checked = self.current().verifier.check(chain, UnixTime::now());
        checked.map_err(|error| crate::words::certificate_words(&error))
    }
}
