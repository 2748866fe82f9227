//! The values of the settings `keytab`, `principals` and `gss-sealing`.

use std::ffi::OsStr;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// The system's keytab.
const SYSTEM: &str = "/etc/krb5.keytab";

/// The location of the server's keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Keytab {
    /// The file that `KRB5_KTNAME` names, otherwise the system's keytab.
    Auto,
    /// None: Kerberos is disabled.
    Off,
    /// This file.
    File(PathBuf),
}

impl Keytab {
    /// The file; `None` if Kerberos is disabled.
    pub fn path(&self) -> Option<PathBuf> {
        match self {
            Self::Off => None,
            Self::File(path) => Some(path.clone()),
            Self::Auto => {
                let named = std::env::var_os("KRB5_KTNAME").filter(|name| !name.is_empty());
                Some(named.as_deref().map_or_else(|| SYSTEM.into(), without_type))
            }
        }
    }
}

/// The path in a keytab name, without the optional type prefix.
fn without_type(name: &OsStr) -> PathBuf {
    let text = name.to_str().unwrap_or_default();
    text.strip_prefix("FILE:").map_or_else(|| Path::new(name).to_owned(), PathBuf::from)
}

impl FromStr for Keytab {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(Self::Auto),
            "off" => Ok(Self::Off),
            path if path.starts_with('/') => Ok(Self::File(path.into())),
            _ => Err("write auto, off, or the full path of a keytab".into()),
        }
    }
}

impl fmt::Display for Keytab {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Off => f.write_str("off"),
            Self::File(path) => path.display().fmt(f),
        }
    }
}

/// The location of the table of principals.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PrincipalsFile {
    /// None.
    Off,
    /// This file.
    File(PathBuf),
}

impl FromStr for PrincipalsFile {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "off" => Ok(Self::Off),
            path if path.starts_with('/') => Ok(Self::File(path.into())),
            _ => Err("write off, or the full path of a file".into()),
        }
    }
}

impl fmt::Display for PrincipalsFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => f.write_str("off"),
            Self::File(path) => path.display().fmt(f),
        }
    }
}

/// What protects the messages of a context.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sealing {
    /// This program, in place.
    Own,
    /// The Kerberos library.
    Library,
}

impl FromStr for Sealing {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "own" => Ok(Self::Own),
            "library" => Ok(Self::Library),
            _ => Err("write own or library".into()),
        }
    }
}

impl fmt::Display for Sealing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Own => "own",
            Self::Library => "library",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{Keytab, PrincipalsFile, without_type};
    use std::ffi::OsStr;
    use std::path::Path;

    #[test]
    fn values_are_printed_as_they_are_written() {
        for text in ["auto", "off", "/etc/nfs.keytab"] {
            assert_eq!(text.parse::<Keytab>().unwrap().to_string(), text);
        }
        for text in ["off", "/etc/bowline/principals"] {
            assert_eq!(text.parse::<PrincipalsFile>().unwrap().to_string(), text);
        }
        assert!("keytab".parse::<Keytab>().is_err() && "auto".parse::<PrincipalsFile>().is_err());
        assert_eq!(Keytab::Off.path(), None);
        assert_eq!(without_type(OsStr::new("FILE:/a")), Path::new("/a"));
        assert_eq!(without_type(OsStr::new("/a")), Path::new("/a"));
    }
}
