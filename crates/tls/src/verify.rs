//! Verifies client certificates (RFC 9289 §5.2.1): the path to a configured authority, extended key usage, revocation, no
//! wildcard names. Names are not compared with the client's address, which can change.

use crate::certificate::{InvalidCertificate, read_client};
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, TrustAnchor, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, OtherError, SignatureScheme,
};
use std::sync::Arc;
use webpki::{
    CertRevocationList, EndEntityCert, ExpirationPolicy, KeyUsage, RevocationCheckDepth,
    RevocationOptionsBuilder, UnknownStatusPolicy,
};

/// id-kp-rpcTLSClient, 1.3.6.1.5.5.7.3.33 (RFC 9289 §7.3), without tag and length.
const RPC_TLS_CLIENT: &[u8] = &[0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x03, 0x21];

/// The authorities and revocation lists that client certificates are verified with.
pub(crate) struct ClientVerifier {
    anchors: Vec<TrustAnchor<'static>>,
    crls: Vec<CertRevocationList<'static>>,
    /// The authorities' names, sent so that a client with several certificates can choose.
    hints: Vec<DistinguishedName>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl std::fmt::Debug for ClientVerifier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClientVerifier")
            .field("authorities", &self.anchors.len())
            .finish_non_exhaustive()
    }
}

impl ClientVerifier {
    pub fn new(
        anchors: Vec<TrustAnchor<'static>>,
        crls: Vec<CertRevocationList<'static>>,
        algorithms: WebPkiSupportedAlgorithms,
    ) -> Self {
        let hints = anchors.iter().map(|anchor| DistinguishedName::in_sequence(&anchor.subject));
        let hints = hints.collect();
        Self { anchors, crls, hints, algorithms }
    }

    /// Verifies a chain, the client's own certificate first.
    pub fn check(&self, chain: &[CertificateDer<'_>], now: UnixTime) -> Result<(), Error> {
        let (first, others) = chain.split_first().ok_or(Error::NoCertificatesPresented)?;
        let certificate = EndEntityCert::try_from(first).map_err(|error| refused(&error))?;
        let verify = |usage| {
            let crls: Vec<&CertRevocationList<'_>> = self.crls.iter().collect();
            let revocation = RevocationOptionsBuilder::new(&crls).ok().map(|options| {
                options
                    .with_depth(RevocationCheckDepth::Chain)
                    .with_status_policy(UnknownStatusPolicy::Allow)
                    .with_expiration_policy(ExpirationPolicy::Ignore)
                    .build()
            });
            let all = self.algorithms.all;
            certificate
                .verify_for_usage(all, &self.anchors, others, now, usage, revocation, None)
                .map(|_path| ())
        };
        match verify(KeyUsage::client_auth()) {
            Err(webpki::Error::RequiredEkuNotFoundContext(_)) => {
                verify(KeyUsage::required(RPC_TLS_CLIENT)).map_err(|error| refused(&error))?;
            }
            checked => checked.map_err(|error| refused(&error))?,
        }
        match read_client(first) {
            Ok(_) => Ok(()),
            Err(InvalidCertificate::Form) => Err(CertificateError::BadEncoding.into()),
            Err(other) => Err(CertificateError::Other(OtherError(Arc::new(other))).into()),
        }
    }
}

/// Converts a path error of webpki to the error of rustls that selects the alert.
fn refused(error: &webpki::Error) -> Error {
    use webpki::Error as E;
    let certificate = match error {
        E::BadDer | E::BadDerTime | E::TrailingData(_) => CertificateError::BadEncoding,
        E::CertExpired { .. } | E::InvalidCertValidity => CertificateError::Expired,
        E::CertNotValidYet { .. } => CertificateError::NotValidYet,
        E::UnknownIssuer => CertificateError::UnknownIssuer,
        E::CertRevoked => CertificateError::Revoked,
        E::RequiredEkuNotFoundContext(_) => CertificateError::InvalidPurpose,
        E::InvalidSignatureForPublicKey => CertificateError::BadSignature,
        other => CertificateError::Other(OtherError(Arc::new(other.clone()))),
    };
    certificate.into()
}

impl ClientCertVerifier for ClientVerifier {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &self.hints
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let mut chain = vec![end_entity.clone()];
        chain.extend_from_slice(intermediates);
        self.check(&chain, now).map(|()| ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, cert, dss, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, cert, dss, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
