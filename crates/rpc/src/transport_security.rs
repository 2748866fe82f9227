//! What protects the bytes of calls in transit (RFC 9289), and the client certificates.
//!
//! A call carries a [`TransportSecurity`]: a small number that is cheap to compare and copy. The table of [`Certificates`] maps it
//! to a certificate; that is looked up once per client and export, not per call.
//!
//! Invariants: a certificate has the same number on all of its connections while the table remembers it; a number is
//! never reused for another certificate. The lock guards the table, for one look-up or insertion.

use std::collections::{BTreeMap, HashMap};
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex, PoisonError};

/// The most certificates without a connection that are remembered.
const REMEMBERED_MAX: usize = 1024;
/// The first number of a certificate; lower numbers are values without a certificate.
const FIRST: u32 = 2;

/// What protects the bytes of a call in transit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct TransportSecurity(u32);

/// The number of a certificate in the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CertificateId(NonZeroU32);

/// The kind of transport security, named as in `xprtsec` in exports(5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum XprtsecMode {
    /// No protection.
    None,
    /// TLS without a client certificate.
    Tls,
    /// TLS with an accepted client certificate.
    Mtls,
}

impl TransportSecurity {
    /// No protection.
    pub const PLAIN: Self = Self(0);
    /// TLS without a client certificate.
    pub const TLS: Self = Self(1);

    /// TLS with this client certificate.
    pub const fn of_certificate(id: CertificateId) -> Self {
        Self(id.0.get())
    }

    /// The client's certificate.
    pub const fn certificate(self) -> Option<CertificateId> {
        match NonZeroU32::new(self.0) {
            Some(number) if self.0 >= FIRST => Some(CertificateId(number)),
            Some(_) | None => None,
        }
    }

    /// Whether bytes are sent unprotected.
    pub const fn is_plain(self) -> bool {
        self.0 == Self::PLAIN.0
    }

    /// The kind.
    pub const fn mode(self) -> XprtsecMode {
        match self.0 {
            0 => XprtsecMode::None,
            1 => XprtsecMode::Tls,
            _ => XprtsecMode::Mtls,
        }
    }

    /// A number that is unique per value.
    pub const fn number(self) -> u32 {
        self.0
    }
}

impl XprtsecMode {
    /// Its name in `xprtsec`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Tls => "tls",
            Self::Mtls => "mtls",
        }
    }
}

/// The fields of a client certificate that the server uses. It names a machine, not a user (RFC 9289 §4.2).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Certificate {
    /// The subject, as one line.
    pub subject: String,
    /// The common name of the subject, if it has one.
    pub common_name: Option<String>,
    /// The issuer, as one line.
    pub issuer: String,
    /// The serial number, in hexadecimal digits.
    pub serial: String,
    /// The subject's alternative names: host names in lower case, addresses.
    pub names: Vec<String>,
    /// The SHA-256 of the certificate.
    pub fingerprint: [u8; 32],
    /// When it ends, in seconds since 1970.
    pub not_after: i64,
}

impl Certificate {
    /// A name for display: the first alternative name, or the subject.
    pub fn name(&self) -> &str {
        let first = self.names.first().or(self.common_name.as_ref());
        first.map_or(&self.subject, |name| name)
    }

    /// The fingerprint in hexadecimal digits.
    pub fn fingerprint_text(&self) -> String {
        self.fingerprint.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// The certificates of clients that are or were connected.
#[derive(Debug, Default)]
pub struct Certificates(Mutex<Table>);

#[derive(Debug, Default)]
struct Table {
    known: BTreeMap<u32, Entry>,
    by_fingerprint: HashMap<[u8; 32], u32>,
    /// The number that was given last.
    last: u32,
    /// Certificates without a connection, in the order in which they lost their last one.
    unused: BTreeMap<u64, u32>,
    departures: u64,
}

#[derive(Debug)]
struct Entry {
    certificate: Arc<Certificate>,
    connections: usize,
    /// Its key in `unused` while it has no connection.
    departure: u64,
}

/// A certificate in use by a connection.
#[derive(Debug)]
pub struct HeldCertificate {
    table: Arc<Certificates>,
    id: CertificateId,
}

impl Certificates {
    /// Adds a connection with this certificate; `None` when all 2^32 numbers are used.
    pub fn hold(self: &Arc<Self>, certificate: Certificate) -> Option<HeldCertificate> {
        let mut table = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let number = table.hold(certificate)?;
        drop(table);
        Some(HeldCertificate {
            table: Arc::clone(self),
            id: CertificateId(NonZeroU32::new(number)?),
        })
    }

    /// The certificate with this number, if it is still remembered.
    pub fn find(&self, id: CertificateId) -> Option<Arc<Certificate>> {
        let table = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        table.known.get(&id.0.get()).map(|entry| Arc::clone(&entry.certificate))
    }
}

impl Table {
    fn hold(&mut self, certificate: Certificate) -> Option<u32> {
        let fingerprint = certificate.fingerprint;
        if let Some(number) = self.by_fingerprint.get(&fingerprint).copied()
            && let Some(entry) = self.known.get_mut(&number)
        {
            if entry.connections == 0 {
                self.unused.remove(&entry.departure);
            }
            entry.connections = entry.connections.saturating_add(1);
            return Some(number);
        }
        let number = self.last.max(FIRST - 1).checked_add(1)?;
        self.last = number;
        let certificate = Arc::new(certificate);
        self.known.insert(number, Entry { certificate, connections: 1, departure: 0 });
        self.by_fingerprint.insert(fingerprint, number);
        Some(number)
    }

    fn release(&mut self, number: u32) {
        let Some(entry) = self.known.get_mut(&number) else { return };
        entry.connections = entry.connections.saturating_sub(1);
        if entry.connections > 0 {
            return;
        }
        self.departures = self.departures.wrapping_add(1);
        entry.departure = self.departures;
        self.unused.insert(self.departures, number);
        if self.unused.len() > REMEMBERED_MAX
            && let Some((_, forgotten)) = self.unused.pop_first()
            && let Some(entry) = self.known.remove(&forgotten)
        {
            self.by_fingerprint.remove(&entry.certificate.fingerprint);
        }
    }
}

impl HeldCertificate {
    /// Its number.
    pub const fn id(&self) -> CertificateId {
        self.id
    }

    /// The certificate.
    pub fn certificate(&self) -> Option<Arc<Certificate>> {
        self.table.find(self.id)
    }
}

impl Drop for HeldCertificate {
    fn drop(&mut self) {
        self.table.0.lock().unwrap_or_else(PoisonError::into_inner).release(self.id.0.get());
    }
}

#[cfg(test)]
mod tests {
    use super::{Certificate, Certificates, REMEMBERED_MAX, TransportSecurity, XprtsecMode};
    use std::sync::Arc;

    fn certificate(number: u16) -> Certificate {
        let mut fingerprint = [0; 32];
        fingerprint[..2].copy_from_slice(&number.to_be_bytes());
        Certificate {
            subject: format!("CN=c{number}"),
            common_name: Some(format!("c{number}")),
            issuer: "CN=ca".to_owned(),
            serial: "01".to_owned(),
            names: Vec::new(),
            fingerprint,
            not_after: 0,
        }
    }

    #[test]
    fn each_value_has_its_mode_and_number() {
        assert_eq!(TransportSecurity::PLAIN.mode(), XprtsecMode::None);
        assert_eq!(TransportSecurity::TLS.mode(), XprtsecMode::Tls);
        assert_eq!(
            (TransportSecurity::PLAIN.certificate(), TransportSecurity::TLS.certificate()),
            (None, None)
        );
        let table = Arc::new(Certificates::default());
        let held = table.hold(certificate(1)).unwrap();
        let security = TransportSecurity::of_certificate(held.id());
        assert_eq!(security.mode(), XprtsecMode::Mtls);
        assert_eq!(security.certificate(), Some(held.id()));
        assert!(!security.is_plain());
    }

    #[test]
    fn a_certificate_keeps_its_number_and_numbers_are_unique() {
        let table = Arc::new(Certificates::default());
        let first = table.hold(certificate(1)).unwrap();
        let again = table.hold(certificate(1)).unwrap();
        let other = table.hold(certificate(2)).unwrap();
        assert_eq!(first.id(), again.id());
        assert_ne!(first.id(), other.id());
        let id = first.id();
        drop((first, again));
        assert_eq!(table.hold(certificate(1)).unwrap().id(), id);
        for number in 0..u16::try_from(REMEMBERED_MAX).unwrap() + 1 {
            table.hold(certificate(100 + number)).unwrap();
        }
        assert!(table.find(id).is_none(), "forgotten");
        assert_ne!(table.hold(certificate(1)).unwrap().id(), id);
        assert_eq!(table.find(other.id()).unwrap().name(), "c2");
    }
}
