//! TLS configuration of a server, which can be reloaded while handshakes are in progress.
//!
//! Lock: guards the pointer to the current configuration; held to clone or replace it.

use crate::certificate::read_client;
use crate::files::{FileError, ServerFiles};
use crate::handshake::Handshake;
use crate::session::Session;
use crate::verify::ClientVerifier;
use rpc::{Certificate, Certificates, HeldCertificate};
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::{Error, ServerConfig};
use std::sync::{Arc, PoisonError, RwLock};

/// What was read from a server's files.
#[derive(Clone)]
pub struct Loaded {
    pub(crate) config: Arc<ServerConfig>,
    /// The same certificate for HTTP: its ALPN protocol, and no certificate of the client.
    pub http: Arc<ServerConfig>,
    pub(crate) verifier: Arc<ClientVerifier>,
    /// The server's own certificate.
    pub certificate: Arc<Certificate>,
    /// Whether authorities for client certificates are configured.
    pub knows_clients: bool,
}

/// TLS configuration of a server.
pub struct ServerTls {
    files: ServerFiles,
    current: RwLock<Arc<Loaded>>,
    certificates: Arc<Certificates>,
}

impl ServerTls {
    /// Reads the files. `certificates` assigns numbers to client certificates.
    ///
    /// # Errors
    /// [`FileError`].
    pub fn open(files: ServerFiles, certificates: Arc<Certificates>) -> Result<Self, FileError> {
        let current = RwLock::new(Arc::new(files.load()?));
        Ok(Self { files, current, certificates })
    }

    /// Reads the files again. If one of them cannot be used, the previous configuration stays active.
    ///
    /// # Errors
    /// [`FileError`].
    pub fn reload(&self) -> Result<Arc<Loaded>, FileError> {
        let loaded = Arc::new(self.files.load()?);
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::clone(&loaded);
        Ok(loaded)
    }

    /// The configured files.
    pub const fn files(&self) -> &ServerFiles {
        &self.files
    }

    /// The active configuration.
    pub fn current(&self) -> Arc<Loaded> {
        Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Starts a handshake.
    ///
    /// # Errors
    /// The TLS library refuses the configuration; not known to happen.
    pub fn begin(&self) -> Result<Handshake, Error> {
        Handshake::server(Arc::clone(&self.current().config))
    }

    /// The certificate of the peer of a session; `None` if it sent none.
    ///
    /// # Errors
    /// Why a certificate that was verified cannot be used, as text.
    pub fn identify(&self, session: &Session) -> Result<Option<HeldCertificate>, String> {
        let chain = session.chain();
        let Some(first) = chain.first() else { return Ok(None) };
        let certificate = read_client(first).map_err(|error| error.to_string())?;
        let held = self.certificates.hold(certificate);
        held.map(Some).ok_or_else(|| "all certificate numbers are used".to_owned())
    }

    /// Verifies a chain that was accepted in a handshake again, with the active configuration.
    ///
    /// # Errors
    /// Why it is no longer accepted, as text.
    pub fn recheck(&self, chain: &[CertificateDer<'_>]) -> Result<(), String> {
        let checked = self.current().verifier.check(chain, UnixTime::now());
        checked.map_err(|error| crate::error_text::certificate_error_text(&error))
    }
}
