//! Parses an X.509 certificate into the fields that the server uses.

use rpc::Certificate;
use rustls::pki_types::CertificateDer;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use x509_parser::prelude::{FromDer, GeneralName, X509Certificate, X509Name};

/// The most names of a certificate; one with more is refused.
const NAMES_MAX: usize = 256;
/// The most bytes of a name that are kept for logs and tables.
const TEXT_MAX: usize = 512;

/// Why a certificate is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidCertificate {
    /// It is not a valid X.509 certificate.
    #[error("it is not a valid X.509 certificate")]
    Form,
    /// It has more names than the limit.
    #[error("it has more than 256 names")]
    ManyNames,
    /// A client certificate has a wildcard name, which identifies no single machine (RFC 9289 §5.2.1).
    #[error("its name {0} is a wildcard and does not identify one machine")]
    Wildcard(String),
}

/// Parses a certificate.
///
/// # Errors
/// [`InvalidCertificate`], except [`InvalidCertificate::Wildcard`].
pub fn read_certificate(der: &CertificateDer<'_>) -> Result<Certificate, InvalidCertificate> {
    let (_, read) = X509Certificate::from_der(der).map_err(|_| InvalidCertificate::Form)?;
    let mut names = Vec::new();
    let alternative = read.subject_alternative_name().map_err(|_| InvalidCertificate::Form)?;
    let listed = alternative.map(|extension| extension.value.general_names.as_slice());
    let listed = listed.unwrap_or_default();
    if listed.len() > NAMES_MAX {
        return Err(InvalidCertificate::ManyNames);
    }
    for name in listed {
        match name {
            GeneralName::DNSName(name) => names.push(printable(&name.to_ascii_lowercase())),
            GeneralName::IPAddress(bytes) => names.extend(address(bytes).map(|ip| ip.to_string())),
            _ => {}
        }
    }
    let mut fingerprint = [0; 32];
    let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, der);
    fingerprint.copy_from_slice(digest.as_ref().get(..32).ok_or(InvalidCertificate::Form)?);
    Ok(Certificate {
        subject: printable(&read.subject().to_string()),
        common_name: common_name(read.subject()),
        issuer: printable(&read.issuer().to_string()),
        serial: read.raw_serial_as_string(),
        names,
        fingerprint,
        not_after: read.validity().not_after.timestamp(),
    })
}

/// Parses a client's certificate; wildcard names are refused.
pub(crate) fn read_client(der: &CertificateDer<'_>) -> Result<Certificate, InvalidCertificate> {
    let read = read_certificate(der)?;
    match read.names.iter().find(|name| name.contains('*')) {
        Some(name) => Err(InvalidCertificate::Wildcard(name.clone())),
        None => Ok(read),
    }
}

fn common_name(name: &X509Name<'_>) -> Option<String> {
    Some(printable(name.iter_common_name().next()?.as_str().ok()?))
}

fn address(bytes: &[u8]) -> Option<IpAddr> {
    let four = <[u8; 4]>::try_from(bytes).map(|four| Ipv4Addr::from(four).into());
    four.or_else(|_| <[u8; 16]>::try_from(bytes).map(|six| Ipv6Addr::from(six).into())).ok()
}

/// A text sent by the peer, made safe for logs and tables.
fn printable(text: &str) -> String {
    let visible = |c: char| if c.is_control() { '\u{fffd}' } else { c };
    text.chars().take(TEXT_MAX).map(visible).collect()
}
