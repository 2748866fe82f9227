//! A private certificate authority: its own certificate, and the certificates and revocation list that it issues.

use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, DistinguishedName,
    DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyIdMethod, KeyPair, KeyUsagePurpose,
    RevokedCertParams, SanType, SerialNumber,
};
use std::net::IpAddr;
use std::time::{Duration, SystemTime};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// Lifetime of the authority's own certificate, in days.
const AUTHORITY_DAYS: u32 = 3650;
/// How far in the past a certificate's validity begins, to tolerate clock differences.
const EARLIER: Duration = Duration::from_secs(60 * 60);

/// A certificate authority: its certificate and key.
pub struct Authority {
    certificate: String,
    issuer: Issuer<'static, KeyPair>,
}

/// A certificate with its key, in PEM.
#[derive(Debug, Clone)]
pub struct Issued {
    /// The certificate.
    pub certificate: String,
    /// The private key.
    pub key: String,
    /// The serial number.
    pub serial: Vec<u8>,
}

/// A certificate request.
#[derive(Debug, Clone)]
pub struct Request<'r> {
    /// The common name, followed by the alternative names: host names and addresses.
    pub names: &'r [String],
    /// The extended key usages; empty: no restriction.
    pub purpose: Option<Purpose>,
    /// The end of the validity.
    pub end: SystemTime,
}

/// An extended key usage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// TLS server (id-kp-serverAuth).
    Server,
    /// TLS client (id-kp-clientAuth).
    Client,
    /// RPC-with-TLS client (id-kp-rpcTLSClient, RFC 9289 §5.2.1.1).
    RpcClient,
}

/// The authority cannot be created, loaded or used.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct AuthorityError(#[from] rcgen::Error);

impl Authority {
    /// Creates an authority with this name; returns it and its key in PEM.
    ///
    /// # Errors
    /// [`AuthorityError`].
    pub fn create(name: &str) -> Result<(Self, String), AuthorityError> {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::default();
        params.distinguished_name = named(name);
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let now = SystemTime::now();
        params.not_before = now.checked_sub(EARLIER).unwrap_or(now).into();
        params.not_after = days_from(now, AUTHORITY_DAYS).into();
        let certificate = params.self_signed(&key)?.pem();
        let pem = key.serialize_pem();
        Ok((Self { certificate, issuer: Issuer::new(params, key) }, pem))
    }

    /// Loads an authority from its certificate and key, both in PEM.
    ///
    /// # Errors
    /// [`AuthorityError`].
    pub fn load(certificate: &str, key: &str) -> Result<Self, AuthorityError> {
        let issuer = Issuer::from_ca_cert_pem(certificate, KeyPair::from_pem(key)?)?;
        Ok(Self { certificate: certificate.to_owned(), issuer })
    }

    /// The authority's certificate, in PEM.
    pub fn certificate(&self) -> &str {
        &self.certificate
    }

    /// Issues a certificate that is valid for this number of days.
    ///
    /// # Errors
    /// [`AuthorityError`], also for an invalid name.
    pub fn issue(
        &self,
        names: &[String],
        purpose: Purpose,
        days: u32,
    ) -> Result<Issued, AuthorityError> {
        let end = days_from(SystemTime::now(), days);
        self.issue_as(&Request { names, purpose: Some(purpose), end })
    }

    /// Issues the certificate of a request.
    ///
    /// # Errors
    /// As [`Authority::issue`].
    pub fn issue_as(&self, request: &Request<'_>) -> Result<Issued, AuthorityError> {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::default();
        params.distinguished_name = named(request.names.first().map_or("", String::as_str));
        for name in request.names {
            params.subject_alt_names.push(match name.parse::<IpAddr>() {
                Ok(address) => SanType::IpAddress(address),
                Err(_) => SanType::DnsName(name.as_str().try_into()?),
            });
        }
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = request.purpose.map(usage).into_iter().collect();
        params.use_authority_key_identifier_extension = true;
        let mut serial = [0; 16];
        // of the same strength as the key, which was just made
        let _ = aws_lc_rs::rand::fill(&mut serial);
        if let Some(first) = serial.first_mut() {
            *first = *first & 0x7f | 0x40;
        }
        params.serial_number = Some(SerialNumber::from_slice(&serial));
        let begin = SystemTime::now().min(request.end);
        params.not_before = begin.checked_sub(EARLIER).unwrap_or(begin).into();
        params.not_after = request.end.into();
        let certificate = params.signed_by(&key, &self.issuer)?.pem();
        Ok(Issued { certificate, key: key.serialize_pem(), serial: serial.to_vec() })
    }

    /// A certificate revocation list with these serial numbers, in PEM.
    ///
    /// # Errors
    /// [`AuthorityError`].
    pub fn revoke(&self, serials: &[Vec<u8>]) -> Result<String, AuthorityError> {
        let now = SystemTime::now();
        let revoked = |serial: &Vec<u8>| RevokedCertParams {
            serial_number: SerialNumber::from_slice(serial),
            revocation_time: now.into(),
            reason_code: None,
            invalidity_date: None,
        };
        let params = CertificateRevocationListParams {
            this_update: now.into(),
            next_update: days_from(now, AUTHORITY_DAYS).into(),
            crl_number: SerialNumber::from(1),
            issuing_distribution_point: None,
            revoked_certs: serials.iter().map(revoked).collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        Ok(params.signed_by(&self.issuer)?.pem()?)
    }
}

fn usage(purpose: Purpose) -> ExtendedKeyUsagePurpose {
    match purpose {
        Purpose::Server => ExtendedKeyUsagePurpose::ServerAuth,
        Purpose::Client => ExtendedKeyUsagePurpose::ClientAuth,
        Purpose::RpcClient => ExtendedKeyUsagePurpose::Other(vec![1, 3, 6, 1, 5, 5, 7, 3, 33]),
    }
}

fn named(name: &str) -> DistinguishedName {
    let mut all = DistinguishedName::new();
    all.push(DnType::CommonName, name);
    all
}

fn days_from(time: SystemTime, days: u32) -> SystemTime {
    time.checked_add(DAY.saturating_mul(days)).unwrap_or(time)
}
