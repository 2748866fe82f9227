//! The transport security that a rule requires: `xprtsec=` of exports(5), and this server's own options `tls-name=` and
//! `tls-fingerprint=`.

use crate::clients::Pattern;
use rpc::{Certificate, XprtsecMode};
use std::fmt;

/// The most names and fingerprints of one rule.
const CONDITIONS_MAX: usize = 64;

/// The accepted modes, as in `xprtsec=none:tls:mtls`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct XprtsecModes(u8);

const ALL: [XprtsecMode; 3] = [XprtsecMode::None, XprtsecMode::Tls, XprtsecMode::Mtls];

impl XprtsecModes {
    /// All of them, the default of exports(5).
    pub const ALL: Self = Self(7);

    const fn bit(security: XprtsecMode) -> u8 {
        match security {
            XprtsecMode::None => 1,
            XprtsecMode::Tls => 2,
            XprtsecMode::Mtls => 4,
        }
    }

    /// Parses the value of `xprtsec=`, in any order.
    ///
    /// # Errors
    /// The error in it.
    pub fn parse(value: &[u8]) -> Result<Self, String> {
        let mut set = 0;
        for name in value.split(|byte| *byte == b':') {
            let found = ALL.iter().find(|security| security.name().as_bytes() == name);
            let Some(security) = found else {
                let name = name.escape_ascii();
                return Err(format!("{name:?} is not one of none, tls, mtls"));
            };
            set |= Self::bit(*security);
        }
        Ok(Self(set))
    }

    /// Whether calls with this mode are accepted.
    pub const fn accepts(self, security: XprtsecMode) -> bool {
        self.0 & Self::bit(security) != 0
    }

    /// Whether calls without TLS are accepted.
    pub const fn accepts_plain(self) -> bool {
        self.accepts(XprtsecMode::None)
    }
}

impl fmt::Display for XprtsecModes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = ALL.iter().filter(|security| self.accepts(**security));
        f.write_str(&names.map(|security| security.name()).collect::<Vec<_>>().join(":"))
    }
}

/// The certificates that a rule is for: those that any of the patterns matches.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct CertificatePattern {
    names: Vec<Pattern>,
    fingerprints: Vec<[u8; 32]>,
}

impl CertificatePattern {
    /// Whether there is no pattern, so that the rule is for all clients.
    pub const fn is_empty(&self) -> bool {
        self.names.is_empty() && self.fingerprints.is_empty()
    }

    /// Adds the value of `tls-name=`.
    ///
    /// # Errors
    /// The error in it.
    pub fn add_name(&mut self, value: &[u8]) -> Result<(), String> {
        self.check_room()?;
        let text = std::str::from_utf8(value).map_err(|_| "a name must be UTF-8".to_owned())?;
        let pattern = Pattern::of_certificate(text)
            .ok_or_else(|| "write a name from the certificate; * and ? are wildcards".to_owned())?;
        self.names.push(pattern);
        Ok(())
    }

    /// Adds the value of `tls-fingerprint=`, `sha256:` and 64 digits, with or without colons between bytes.
    ///
    /// # Errors
    /// The error in it.
    pub fn add_fingerprint(&mut self, value: &[u8]) -> Result<(), String> {
        self.check_room()?;
        let wrong = || {
            "write sha256: and the 64 hexadecimal digits of the certificate's SHA-256 fingerprint"
                .to_owned()
        };
        let text = std::str::from_utf8(value).map_err(|_| wrong())?;
        let digits: String = text.strip_prefix("sha256:").ok_or_else(wrong)?.replace(':', "");
        if digits.len() != 64 || !digits.is_ascii() {
            return Err(wrong());
        }
        let mut fingerprint = [0; 32];
        for (place, at) in fingerprint.iter_mut().zip((0_usize..64).step_by(2)) {
            let byte = digits.get(at..at.saturating_add(2)).ok_or_else(wrong)?;
            *place = u8::from_str_radix(byte, 16).map_err(|_| wrong())?;
        }
        self.fingerprints.push(fingerprint);
        Ok(())
    }

    fn check_room(&self) -> Result<(), String> {
        if self.names.len().saturating_add(self.fingerprints.len()) < CONDITIONS_MAX {
            return Ok(());
        }
        Err(format!("a rule has at most {CONDITIONS_MAX} names and fingerprints"))
    }

    /// Whether a certificate matches: by its fingerprint, an alternative name or the common name.
    pub fn describes(&self, certificate: &Certificate) -> bool {
        let names = || certificate.names.iter().chain(&certificate.common_name);
        self.fingerprints.contains(&certificate.fingerprint)
            || self.names.iter().any(|pattern| names().any(|name| pattern.matches(name)))
    }
}

impl fmt::Display for CertificatePattern {
    /// As options of exports(5), separated by commas.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.names.iter().map(|pattern| format!("tls-name={}", pattern.text()));
        let hex =
            |bytes: &[u8; 32]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let fingerprints =
            self.fingerprints.iter().map(|bytes| format!("tls-fingerprint=sha256:{}", hex(bytes)));
        f.write_str(&names.chain(fingerprints).collect::<Vec<_>>().join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::{CertificatePattern, XprtsecModes};
    use rpc::{Certificate, XprtsecMode};

    #[test]
    fn xprtsec_is_parsed_as_nfs_utils_does() {
        for (text, shown) in [
            ("none", "none"),
            ("mtls:tls", "tls:mtls"),
            ("tls:tls", "tls"),
            ("mtls:none:tls", "none:tls:mtls"),
        ] {
            assert_eq!(XprtsecModes::parse(text.as_bytes()).unwrap().to_string(), shown);
        }
        for wrong in ["", "tls:", "TLS", "all", "tls,mtls", "none:x"] {
            assert!(XprtsecModes::parse(wrong.as_bytes()).is_err(), "{wrong}");
        }
        let tls = XprtsecModes::parse(b"tls").unwrap();
        assert!(tls.accepts(XprtsecMode::Tls) && !tls.accepts_plain());
        assert!(!tls.accepts(XprtsecMode::Mtls), "as nfs-utils: each has to be named");
    }

    #[test]
    fn a_certificate_is_described_by_its_names_or_its_fingerprint() {
        let certificate = Certificate {
            subject: "CN=Backup".to_owned(),
            common_name: Some("Backup".to_owned()),
            issuer: String::new(),
            serial: String::new(),
            names: vec!["backup.lab".to_owned(), "10.0.0.7".to_owned()],
            fingerprint: [0xab; 32],
            not_after: 0,
        };
        let described = |add: &dyn Fn(&mut CertificatePattern) -> Result<(), String>| {
            let mut pattern = CertificatePattern::default();
            add(&mut pattern).unwrap();
            assert!(!pattern.is_empty());
            pattern.describes(&certificate)
        };
        for (name, expected) in [
            ("backup.lab", true),
            ("BACKUP.*", true),
            ("10.0.0.7", true),
            ("backup", true),
            ("other.lab", false),
            ("*.other", false),
        ] {
            assert_eq!(described(&|p| p.add_name(name.as_bytes())), expected, "{name}");
        }
        let colons = format!("sha256:{}", ["AB"; 32].join(":"));
        let plain = format!("sha256:{}", "ab".repeat(32));
        let other = format!("sha256:{}", "ac".repeat(32));
        for (text, expected) in [(colons, true), (plain, true), (other, false)] {
            assert_eq!(described(&|p| p.add_fingerprint(text.as_bytes())), expected, "{text}");
        }
        for wrong in ["", "sha256:", "ab", "sha1:ab", "sha256:zz"] {
            assert!(CertificatePattern::default().add_fingerprint(wrong.as_bytes()).is_err());
        }
        for wrong in ["", "a b", "x[", "ä"] {
            assert!(CertificatePattern::default().add_name(wrong.as_bytes()).is_err(), "{wrong}");
        }
        let mut both = CertificatePattern::default();
        both.add_name(b"a*").unwrap();
        both.add_fingerprint(format!("sha256:{}", "0f".repeat(32)).as_bytes()).unwrap();
        assert_eq!(
            both.to_string(),
            format!("tls-name=a*,tls-fingerprint=sha256:{}", "0f".repeat(32))
        );
    }
}
