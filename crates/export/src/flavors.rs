//! The security flavours that an export accepts (`sec=`), and the list that MNT returns.

use rpc::Credential;
use std::fmt;

/// A flavour of RPC authentication that this server serves (RFC 5531 §8.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Flavor {
    /// AUTH_SYS: the client sends the user id.
    Sys,
    /// AUTH_NONE: the anonymous user.
    None,
    /// RPCSEC_GSS with Kerberos 5: the user is proven, headers are signed (RFC 2203).
    Krb5,
    /// The same, and arguments and results are signed.
    Krb5i,
    /// The same, and arguments and results are encrypted.
    Krb5p,
}

impl Flavor {
    /// The number by which MNT lists it (RFC 2623 §2.2.1: pseudo-flavours).
    pub const fn number(self) -> u32 {
        match self {
            Self::None => 0,
            Self::Sys => 1,
            Self::Krb5 => 390_003,
            Self::Krb5i => 390_004,
            Self::Krb5p => 390_005,
        }
    }

    /// Whether it needs this server's keytab.
    pub const fn is_kerberos(self) -> bool {
        matches!(self, Self::Krb5 | Self::Krb5i | Self::Krb5p)
    }
}

/// The names of the flavours in exports(5), the usual name of each first.
const NAMES: [(&str, Flavor); 7] = [
    ("sys", Flavor::Sys),
    ("none", Flavor::None),
    ("krb5", Flavor::Krb5),
    ("krb5i", Flavor::Krb5i),
    ("krb5p", Flavor::Krb5p),
    ("unix", Flavor::Sys),
    ("null", Flavor::None),
];

/// Flavours that other servers know and this one does not serve.
const NOT_SERVED: [&str; 6] = ["lkey", "lkeyi", "lkeyp", "spkm3", "spkm3i", "spkm3p"];

/// The meaning of a name of `sec=`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FlavorName {
    Served(Flavor),
    NotServed,
    Unknown,
}

impl FlavorName {
    /// Looks a name up.
    pub fn of(name: &[u8]) -> Self {
        match NAMES.iter().find(|(known, _)| known.as_bytes() == name) {
            Some((_, flavor)) => Self::Served(*flavor),
            None if NOT_SERVED.iter().any(|known| known.as_bytes() == name) => Self::NotServed,
            None => Self::Unknown,
        }
    }
}

impl fmt::Display for Flavor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Sys => "sys",
            Self::None => "none",
            Self::Krb5 => "krb5",
            Self::Krb5i => "krb5i",
            Self::Krb5p => "krb5p",
        })
    }
}

/// The flavours of one client rule, each once, in order of preference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FlavorList([Option<Flavor>; 5]);

impl FlavorList {
    /// The default without `sec=`, as in the kernel's server: AUTH_SYS and AUTH_NONE.
    pub const DEFAULT: Self = Self([Some(Flavor::Sys), Some(Flavor::None), None, None, None]);

    /// None yet.
    pub(crate) const EMPTY: Self = Self([None; 5]);

    /// Appends a flavour, if it is not in the list.
    pub(crate) fn add(&mut self, flavor: Flavor) {
        let place = self.0.iter_mut().find(|place| place.is_none_or(|known| known == flavor));
        if let Some(place) = place {
            *place = Some(flavor);
        }
    }

    /// The flavours, in order of preference.
    pub fn iter(&self) -> impl Iterator<Item = Flavor> {
        self.0.into_iter().flatten()
    }

    /// Whether a call with this credential may use the export.
    pub fn accepts(&self, credential: &Credential<'_>) -> bool {
        let number = credential.flavor();
        self.iter().any(|flavor| flavor.number() == number)
    }

    /// Whether one of them is Kerberos.
    pub fn has_kerberos(&self) -> bool {
        self.iter().any(Flavor::is_kerberos)
    }
}

impl fmt::Display for FlavorList {
    /// As exports(5) writes them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<String> = self.iter().map(|flavor| flavor.to_string()).collect();
        f.write_str(&names.join(":"))
    }
}

#[cfg(test)]
mod tests {
    use super::{Flavor, FlavorList, FlavorName};
    use rpc::{AuthSys, Credential, Principal};

    #[test]
    fn a_list_keeps_the_order_and_each_flavor_once() {
        let mut list = FlavorList::EMPTY;
        assert_eq!(list.iter().count(), 0);
        for flavor in [Flavor::None, Flavor::Sys, Flavor::None, Flavor::Sys] {
            list.add(flavor);
        }
        assert_eq!(list.iter().collect::<Vec<_>>(), [Flavor::None, Flavor::Sys]);
        assert_eq!(
            (list.to_string(), FlavorList::DEFAULT.to_string()),
            ("none:sys".into(), "sys:none".into())
        );
        assert_ne!(list, FlavorList::DEFAULT);
    }

    #[test]
    fn a_list_accepts_the_credentials_of_its_flavors_only() {
        let sys = Credential::Sys(AuthSys::new(b"", 1, 1, &[]).unwrap());
        let mut list = FlavorList::EMPTY;
        assert!(!list.accepts(&sys) && !list.accepts(&Credential::Anonymous));
        list.add(Flavor::None);
        assert!(!list.accepts(&sys) && list.accepts(&Credential::Anonymous));
        assert!(FlavorList::DEFAULT.accepts(&sys));
    }

    #[test]
    fn a_principal_is_accepted_by_the_way_its_calls_are_protected() {
        let principal =
            |flavor| Principal { flavor, name: (*b"alice@LAB.TEST").into(), user: None };
        let mut list = FlavorList::EMPTY;
        list.add(Flavor::Krb5i);
        list.add(Flavor::Krb5p);
        assert!(list.has_kerberos() && !FlavorList::DEFAULT.has_kerberos());
        for (flavor, accepted) in [(390_003, false), (390_004, true), (390_005, true), (1, false)] {
            assert_eq!(
                list.accepts(&Credential::Principal(&principal(flavor))),
                accepted,
                "{flavor}"
            );
        }
        assert_eq!(list.to_string(), "krb5i:krb5p");
    }

    #[test]
    fn names_are_those_of_exports_5() {
        assert_eq!(FlavorName::of(b"unix"), FlavorName::Served(Flavor::Sys));
        assert_eq!(FlavorName::of(b"null"), FlavorName::Served(Flavor::None));
        assert_eq!(FlavorName::of(b"krb5p"), FlavorName::Served(Flavor::Krb5p));
        assert_eq!(FlavorName::of(b"spkm3"), FlavorName::NotServed);
        assert_eq!(FlavorName::of(b"kerberos"), FlavorName::Unknown);
        for flavor in FlavorList::DEFAULT.iter() {
            assert_eq!(FlavorName::of(flavor.to_string().as_bytes()), FlavorName::Served(flavor));
        }
    }
}
