//! Texts for handshake errors, with the remedy where one is known.

use crate::handshake::HandshakeError;
use rustls::{AlertDescription, CertificateError, Error};

/// Why the handshake of a client failed, for the server's log, where "it" is the client. `names` are the names in the
/// server's certificate.
pub fn server_error_text(error: &HandshakeError, names: &[String]) -> String {
    use AlertDescription as A;
    match error {
        HandshakeError::OtherAlpn => {
            "it did not offer the ALPN protocol sunrpc: it is not an RPC-with-TLS client".to_owned()
        }
        HandshakeError::TooLong => error.to_string(),
        HandshakeError::Tls(Error::AlertReceived(alert)) => match alert {
            A::UnknownCA => "it does not trust the authority of this server's certificate: copy ca.pem to it, and name \
                             it as x509.truststore in its /etc/tlshd.conf"
                .to_owned(),
            A::BadCertificate | A::CertificateUnknown | A::UnsupportedCertificate => format!(
                "it does not accept this server's certificate, possibly because of the server name: mount with one of {}",
                names.join(", ")
            ),
            A::CertificateExpired => "it says that this server's certificate has expired: compare the clocks, and \
                                      see `bowline status`"
                .to_owned(),
            other => format!("it aborted the handshake: {other:?}"),
        },
        HandshakeError::Tls(error @ Error::InvalidCertificate(_)) => certificate_error_text(error),
        HandshakeError::Tls(Error::PeerIncompatible(why)) => {
            format!("it supports no TLS version, cipher suite or key exchange of this server (TLS 1.3): {why:?}")
        }
        HandshakeError::Tls(Error::InvalidMessage(_)) => "what it sent is not TLS".to_owned(),
        HandshakeError::Tls(other) => other.to_string(),
    }
}

/// Why a client's certificate is not accepted.
pub(crate) fn certificate_error_text(error: &Error) -> String {
    use CertificateError as C;
    let Error::InvalidCertificate(why) = error else { return error.to_string() };
    match why {
        C::UnknownIssuer => {
            "its certificate is signed by an authority that is not in tls-client-ca".to_owned()
        }
        C::Expired | C::ExpiredContext { .. } => "its certificate has expired".to_owned(),
        C::NotValidYet | C::NotValidYetContext { .. } => {
            "its certificate is not valid yet: compare the clocks".to_owned()
        }
        C::Revoked => "its certificate was revoked (tls-crl)".to_owned(),
        C::InvalidPurpose | C::InvalidPurposeContext { .. } => {
            "its certificate is not for clients (extended key usage)".to_owned()
        }
        C::Other(other) => format!("its certificate is not accepted: {}", other.0),
        other => format!("its certificate is not accepted: {other:?}"),
    }
}

/// Why the handshake with a server failed, for its client.
pub fn client_error_text(error: &HandshakeError) -> String {
    use AlertDescription as A;
    use CertificateError as C;
    match error {
        HandshakeError::Tls(Error::InvalidCertificate(why)) => match why {
            C::UnknownIssuer => {
                "the server's certificate is signed by an unknown authority".to_owned()
            }
            C::Expired | C::ExpiredContext { .. } => {
                "the server's certificate has expired".to_owned()
            }
            C::NotValidYet | C::NotValidYetContext { .. } => {
                "the server's certificate is not valid yet: compare the clocks".to_owned()
            }
            C::NotValidForName | C::NotValidForNameContext { .. } => {
                "the server's certificate is not valid for the requested name".to_owned()
            }
            other => format!("the server's certificate is not accepted: {other:?}"),
        },
        HandshakeError::Tls(Error::AlertReceived(alert)) => match alert {
            A::UnknownCA => {
                "the server does not trust the authority of this client's certificate".to_owned()
            }
            A::CertificateExpired => "this client's certificate has expired".to_owned(),
            A::CertificateRevoked => "this client's certificate was revoked".to_owned(),
            A::NoApplicationProtocol => "the server requires the ALPN protocol sunrpc".to_owned(),
            other => format!("the server aborted the handshake: {other:?}"),
        },
        HandshakeError::Tls(Error::InvalidMessage(_)) => {
            "what the server sent is not TLS".to_owned()
        }
        other => other.to_string(),
    }
}
