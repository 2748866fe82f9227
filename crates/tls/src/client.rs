//! The client side of TLS, for diagnosis, benchmarks and tests.

use crate::certificate::read_certificate;
use crate::files::{FileError, certificates, private_key};
use crate::handshake::{Handshake, HandshakeError};
use crate::machine::Machine;
use rpc::Certificate;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{UnbufferedClientConnection, WebPkiServerVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::version::TLS13;
use rustls::{ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

/// The files of a client.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClientFiles {
    /// The authorities that sign servers' certificates. `None`: the server's certificate is recorded but not verified.
    pub ca: Option<PathBuf>,
    /// The client's own certificate and key.
    pub identity: Option<(PathBuf, PathBuf)>,
}

/// The certificate that a server has sent.
#[derive(Debug, Clone, Default)]
pub struct ShownCertificate {
    /// Its chain, the server's own certificate first.
    pub chain: Vec<Certificate>,
    /// Why the chain is not accepted, as text; `None` if it is accepted or no authority is configured.
    pub refused: Option<String>,
}

/// TLS configuration of a client.
pub struct ClientTls {
    config: Arc<ClientConfig>,
    look: Arc<RecordingVerifier>,
}

/// Verifies a server's certificate and records it.
#[derive(Debug)]
struct RecordingVerifier {
    /// `None`: nothing is verified.
    inner: Option<Arc<WebPkiServerVerifier>>,
    /// Whether a certificate that is not accepted fails the handshake.
    strict: bool,
    schemes: Vec<SignatureScheme>,
    algorithms: rustls::crypto::WebPkiSupportedAlgorithms,
    seen: Mutex<ShownCertificate>,
}

impl ClientTls {
    /// Reads the files. With `strict`, a server certificate that is not accepted fails the handshake; otherwise the
    /// error is reported by [`ClientTls::seen`]. `alpn` is offered unless it is empty.
    ///
    /// # Errors
    /// [`FileError`].
    pub fn open(files: &ClientFiles, strict: bool, alpn: &[u8]) -> Result<Self, FileError> {
        let provider = crate::provider();
        let algorithms = provider.signature_verification_algorithms;
        let inner = match &files.ca {
            None => None,
            Some(path) => {
                let unusable = |why: String| FileError::Certificate { path: path.clone(), why };
                let mut roots = RootCertStore::empty();
                for der in certificates(path)? {
                    roots.add(der).map_err(|error| unusable(error.to_string()))?;
                }
                let build = WebPkiServerVerifier::builder_with_provider(
                    Arc::new(roots),
                    Arc::clone(&provider),
                );
                Some(build.build().map_err(|error| unusable(error.to_string()))?)
            }
        };
        let schemes = algorithms.supported_schemes();
        let look = Arc::new(RecordingVerifier {
            inner,
            strict,
            schemes,
            algorithms,
            seen: Mutex::default(),
        });
        let nowhere = PathBuf::from("TLS 1.3");
        let builder = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&TLS13])
            .map_err(|error| FileError::Certificate { path: nowhere, why: error.to_string() })?
            .dangerous()
            .with_custom_certificate_verifier(Arc::clone(&look) as Arc<dyn ServerCertVerifier>);
        let mut config = match &files.identity {
            None => builder.with_no_client_auth(),
            Some((cert, key)) => {
                builder.with_client_auth_cert(certificates(cert)?, private_key(key)?).map_err(
                    |error| FileError::Certificate { path: key.clone(), why: error.to_string() },
                )?
            }
        };
        if !alpn.is_empty() {
            config.alpn_protocols = vec![alpn.to_vec()];
        }
        config.resumption = rustls::client::Resumption::disabled();
        config.enable_secret_extraction = cfg!(any(test, feature = "testing"));
        Ok(Self { config: Arc::new(config), look })
    }

    /// Starts a handshake with the server of this name or address; bytes to send are appended to `outgoing`.
    ///
    /// # Errors
    /// The name is neither a host name nor an address.
    pub fn begin(&self, name: &str, outgoing: &mut Vec<u8>) -> Result<Handshake, HandshakeError> {
        let name = ServerName::try_from(name.to_owned())
            .map_err(|_| Error::General(format!("{name} is not a valid server name")))?;
        let machine = UnbufferedClientConnection::new(Arc::clone(&self.config), name)?;
        let begun = Handshake::of(Machine::Client(Box::new(machine))).receive(&[], outgoing)?;
        begun.0.ok_or_else(|| Error::HandshakeNotComplete.into())
    }

    /// The certificate that the server sent in the last handshake.
    pub fn seen(&self) -> ShownCertificate {
        self.look.seen.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl ServerCertVerifier for RecordingVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let verdict = self.inner.as_ref().map_or(Ok(()), |inner| {
            let checked = inner.verify_server_cert(
                end_entity,
                intermediates,
                server_name,
                ocsp_response,
                now,
            );
            checked.map(|_| ())
        });
        let chain = std::iter::once(end_entity).chain(intermediates);
        let chain = chain.filter_map(|der| read_certificate(der).ok()).collect();
        let words = |error: &Error| {
            crate::error_text::client_error_text(&HandshakeError::Tls(error.clone()))
        };
        let seen = ShownCertificate { chain, refused: verdict.as_ref().err().map(words) };
        *self.seen.lock().unwrap_or_else(PoisonError::into_inner) = seen;
        match verdict {
            Err(error) if self.strict => Err(error),
            Ok(()) | Err(_) => Ok(ServerCertVerified::assertion()),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        rustls::crypto::verify_tls12_signature(message, cert, dss, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        rustls::crypto::verify_tls13_signature(message, cert, dss, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.schemes.clone()
    }
}
