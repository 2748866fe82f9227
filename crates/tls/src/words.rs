//! What became of a handshake, in words that say what to do.

use crate::handshake::HandshakeError;
use rustls::{AlertDescription, CertificateError, Error};

/// Why the handshake of a client failed, for the server's log; the client is "it". `names` are those in the server's
/// certificate.
pub fn server_words(error: &HandshakeError, names: &[String]) -> String {
    use AlertDescription as A;
    match error {
        HandshakeError::OtherAlpn => {
            "it offered other ALPN protocols than sunrpc: it is no client of RPC with TLS".to_owned()
        }
        HandshakeError::TooLong => error.to_string(),
        HandshakeError::Tls(Error::AlertReceived(alert)) => match alert {
            A::UnknownCA => "it does not know the authority of this server's certificate: copy ca.pem to it, and name \
                             it as x509.truststore in its /etc/tlshd.conf"
                .to_owned(),
            A::BadCertificate | A::CertificateUnknown | A::UnsupportedCertificate => format!(
                "it does not accept this server's certificate, perhaps for its name: it has to mount by one of {}",
                names.join(", ")
            ),
            A::CertificateExpired => "it says that this server's certificate has expired: compare the clocks, and \
                                      see `bowline status`"
                .to_owned(),
            other => format!("it broke the handshake: {other:?}"),
        },
        HandshakeError::Tls(error @ Error::InvalidCertificate(_)) => certificate_words(error),
        HandshakeError::Tls(Error::PeerIncompatible(why)) => {
            format!("it has no version, cipher or key exchange that is accepted (TLS 1.3): {why:?}")
        }
        HandshakeError::Tls(Error::InvalidMessage(_)) => "what it sent is not TLS".to_owned(),
        HandshakeError::Tls(other) => other.to_string(),
    }
}

/// What is wrong with the certificate of a client.
pub(crate) fn certificate_words(error: &Error) -> String {
    use CertificateError as C;
    let Error::InvalidCertificate(why) = error else { return error.to_string() };
    match why {
        C::UnknownIssuer => {
            "its certificate is of an authority that is not in tls-client-ca".to_owned()
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
pub fn client_words(error: &HandshakeError) -> String {
    use AlertDescription as A;
    use CertificateError as C;
    match error {
        HandshakeError::Tls(Error::InvalidCertificate(why)) => match why {
            C::UnknownIssuer => {
                "the server's certificate is of an authority that is not known here".to_owned()
            }
            C::Expired | C::ExpiredContext { .. } => {
                "the server's certificate has expired".to_owned()
            }
            C::NotValidYet | C::NotValidYetContext { .. } => {
                "the server's certificate is not valid yet: compare the clocks".to_owned()
            }
            C::NotValidForName | C::NotValidForNameContext { .. } => {
                "the server's certificate does not have the name that was asked for".to_owned()
            }
            other => format!("the server's certificate is not accepted: {other:?}"),
        },
        HandshakeError::Tls(Error::AlertReceived(alert)) => match alert {
            A::UnknownCA => {
                "the server does not know the authority of this client's certificate".to_owned()
            }
            A::CertificateExpired => "this client's certificate has expired".to_owned(),
            A::CertificateRevoked => "this client's certificate was revoked".to_owned(),
            A::NoApplicationProtocol => "the server wants the ALPN protocol sunrpc".to_owned(),
            other => format!("the server broke the handshake: {other:?}"),
        },
        HandshakeError::Tls(Error::InvalidMessage(_)) => {
            "what the server sent is not TLS".to_owned()
        }
        other => other.to_string(),
    }
}
