//! Reads certificates, keys, authorities and revocation lists from PEM files.

use crate::certificate::{InvalidCertificate, read_certificate};
use crate::server::Loaded;
use crate::verify::ClientVerifier;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer};
use rustls::version::TLS13;
use rustls::{Error, ServerConfig};
use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The largest file that is read; a larger one is an error.
const FILE_MAX: u64 = 16 << 20;
/// Permission bits of group and others.
const OTHERS: u32 = 0o077;

/// The files of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerFiles {
    /// The server's certificate, followed by the intermediate certificates.
    pub cert: PathBuf,
    /// Its private key.
    pub key: PathBuf,
    /// Authorities of client certificates: a file, or a directory of files. `None`: no client certificate is accepted.
    pub client_ca: Option<PathBuf>,
    /// Revocation lists for client certificates: a file, or a directory of files.
    pub crl: Option<PathBuf>,
}

/// Why a file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The file cannot be read.
    #[error("cannot read {}: {source}", .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The error.
        source: io::Error,
    },
    /// Group or others may read a private key.
    #[error("the private key {0} is accessible to other users: run chmod 600 {0}")]
    KeyMode(String),
    /// The file does not contain what it should.
    #[error("{} contains no {what} in PEM format", .path.display())]
    Nothing {
        /// The file.
        path: PathBuf,
        /// The expected content.
        what: &'static str,
    },
    /// A certificate in the file cannot be used.
    #[error("{}: {why}", .path.display())]
    Certificate {
        /// The file.
        path: PathBuf,
        /// The error.
        why: String,
    },
    /// Key and certificate do not match.
    #[error("the key {} does not match the certificate {}", .key.display(), .cert.display())]
    Inconsistent {
        /// The key's file.
        key: PathBuf,
        /// The certificate's file.
        cert: PathBuf,
    },
}

impl ServerFiles {
    /// All configured files, including the optional ones.
    pub fn all(&self) -> impl Iterator<Item = &Path> {
        let optional = self.client_ca.iter().chain(&self.crl);
        [&self.cert, &self.key].into_iter().chain(optional).map(PathBuf::as_path)
    }

    /// Reads all files and builds the handshake configuration.
    ///
    /// # Errors
    /// [`FileError`] for the first file that cannot be used.
    pub fn load(&self) -> Result<Loaded, FileError> {
        let chain = certificates(&self.cert)?;
        let key = private_key(&self.key)?;
        let leaf = chain.first().ok_or_else(|| nothing(&self.cert, "certificate"))?;
        let own = read_certificate(leaf).map_err(|error| wrong(&self.cert, &error))?;
        let verifier = Arc::new(self.client_verifier()?);
        let provider = crate::provider();
        let builder = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&TLS13])
            .map_err(|error| unusable(&self.cert, &error))?;
        let verify = Arc::clone(&verifier);
        let rpc = builder
            .clone()
            .with_client_cert_verifier(verify)
            .with_single_cert(chain.clone(), key.clone_key())
            .map_err(|error| self.unusable_pair(&error))?;
        let http = builder
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .map_err(|error| self.unusable_pair(&error))?;
        let knows_clients = self.client_ca.is_some();
        Ok(Loaded {
            config: Arc::new(for_the_kernel(of_protocol(rpc, crate::ALPN))),
            http: Arc::new(of_protocol(http, crate::ALPN_HTTP)),
            verifier,
            certificate: Arc::new(own),
            knows_clients,
        })
    }

    fn client_verifier(&self) -> Result<ClientVerifier, FileError> {
        let mut anchors = Vec::new();
        for path in self
            .client_ca
            .iter()
            .map(|path| files_of(path))
            .collect::<Result<Vec<_>, _>>()?
            .concat()
        {
            for der in certificates(&path)? {
                let anchor = webpki::anchor_from_trusted_cert(&der).map_err(|error| {
                    FileError::Certificate { path: path.clone(), why: error.to_string() }
                })?;
                anchors.push(anchor.to_owned());
            }
        }
        let mut crls = Vec::new();
        for path in
            self.crl.iter().map(|path| files_of(path)).collect::<Result<Vec<_>, _>>()?.concat()
        {
            let text = read(&path)?;
            let before = crls.len();
            for der in CertificateRevocationListDer::pem_slice_iter(&text) {
                let der = der.map_err(|_| nothing(&path, "certificate revocation list"))?;
                let list = webpki::OwnedCertRevocationList::from_der(&der).map_err(|error| {
                    FileError::Certificate { path: path.clone(), why: error.to_string() }
                })?;
                crls.push(list.into());
            }
            if crls.len() == before {
                return Err(nothing(&path, "certificate revocation list (X509 CRL)"));
            }
        }
        let algorithms = crate::provider().signature_verification_algorithms;
        Ok(ClientVerifier::new(anchors, crls, algorithms))
    }

    fn unusable_pair(&self, error: &Error) -> FileError {
        match error {
            Error::InconsistentKeys(_) => {
                FileError::Inconsistent { key: self.key.clone(), cert: self.cert.clone() }
            }
            other => unusable(&self.key, other),
        }
    }
}

/// The configuration for one protocol, without tickets and early data.
fn of_protocol(mut config: ServerConfig, alpn: &[u8]) -> ServerConfig {
    config.alpn_protocols = vec![alpn.to_vec()];
    config.send_tls13_tickets = 0;
    config.max_early_data_size = 0;
    config.session_storage = Arc::new(rustls::server::NoServerSessionStorage {});
    config
}

/// The configuration whose sessions the kernel can take over, which needs their keys.
fn for_the_kernel(mut config: ServerConfig) -> ServerConfig {
    config.enable_secret_extraction = true;
    config
}

fn nothing(path: &Path, what: &'static str) -> FileError {
    FileError::Nothing { path: path.to_owned(), what }
}

fn wrong(path: &Path, error: &InvalidCertificate) -> FileError {
    FileError::Certificate { path: path.to_owned(), why: error.to_string() }
}

fn unusable(path: &Path, error: &Error) -> FileError {
    FileError::Certificate { path: path.to_owned(), why: error.to_string() }
}

fn read(path: &Path) -> Result<Vec<u8>, FileError> {
    let failed = |source| FileError::Read { path: path.to_owned(), source };
    let mut text = Vec::new();
    let file = fs::File::open(path).map_err(failed)?;
    file.take(FILE_MAX).read_to_end(&mut text).map_err(failed)?;
    Ok(text)
}

/// A file, or the files in a directory that end in `.pem`, `.crt` or `.crl`.
fn files_of(path: &Path) -> Result<Vec<PathBuf>, FileError> {
    let failed = |source| FileError::Read { path: path.to_owned(), source };
    if !fs::metadata(path).map_err(failed)?.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut found = Vec::new();
    for entry in fs::read_dir(path).map_err(failed)? {
        let file = entry.map_err(failed)?.path();
        if file.extension().is_some_and(|end| end == "pem" || end == "crt" || end == "crl") {
            found.push(file);
        }
    }
    found.sort();
    Ok(found)
}

/// All certificates of a file.
pub(crate) fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, FileError> {
    let text = read(path)?;
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    match all {
        Ok(all) if !all.is_empty() => Ok(all),
        Ok(_) | Err(_) => Err(nothing(path, "certificate")),
    }
}

/// The private key in a file that only its owner may read.
pub(crate) fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, FileError> {
    let failed = |source| FileError::Read { path: path.to_owned(), source };
    if fs::metadata(path).map_err(failed)?.mode() & OTHERS != 0 {
        return Err(FileError::KeyMode(path.display().to_string()));
    }
    PrivateKeyDer::from_pem_slice(&read(path)?).map_err(|_| nothing(path, "private key"))
}
