//! Where else a file system can be found (options `refer` and `replicas` of exports(5)): what version 4 clients are sent
//! as the attribute `fs_locations` (RFC 8881 §11.16, RFC 7530 §8.1).
//!
//! With `refer` the file system is absent here: clients of version 4 get NFS4ERR_MOVED and go to one of the locations.
//! With `replicas` it is served here, and the locations are told to clients that ask for them.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};

/// Most locations of an export: Linux clients read no more.
pub const LOCATIONS_MAX: usize = 10;
/// Most hosts of a location: Linux clients read no more.
pub const HOSTS_MAX: usize = 10;
/// Most bytes of an option's value, so that the attribute fits into the replies of all clients.
const VALUE_MAX: usize = 2048;

/// What the locations are for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LocationKind {
    /// The file system is not here, but there (`refer`).
    Referral,
    /// It is here and there (`replicas`).
    Replicas,
}

/// Servers that have the file system at the same path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FsLocation {
    /// Their names or addresses, without brackets.
    pub hosts: Vec<String>,
    /// The path on each, in normal form.
    pub path: Vec<u8>,
}

/// The locations of an export.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FsLocations {
    /// What they are for.
    pub kind: LocationKind,
    list: Vec<FsLocation>,
}

impl FsLocations {
    /// The locations, in order of preference.
    pub fn list(&self) -> &[FsLocation] {
        &self.list
    }

    /// The locations of `PATH@HOST[+HOST]...[:PATH@HOST...]`. IPv6 addresses are in brackets.
    ///
    /// # Errors
    /// What to write instead.
    pub fn parse(kind: LocationKind, value: &[u8]) -> Result<Self, String> {
        if value.len() > VALUE_MAX {
            return Err(format!("more than {VALUE_MAX} bytes"));
        }
        let list: Vec<FsLocation> =
            split_outside_brackets(value, b':').map(location).collect::<Result<_, _>>()?;
        if list.len() > LOCATIONS_MAX {
            return Err(format!("more than {LOCATIONS_MAX} locations, which clients do not read"));
        }
        Ok(Self { kind, list })
    }

    /// Whether the file system is absent here.
    pub fn is_referral(&self) -> bool {
        self.kind == LocationKind::Referral
    }
}

impl fmt::Display for FsLocations {
    /// As exports(5) writes it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.kind {
            LocationKind::Referral => "refer=",
            LocationKind::Replicas => "replicas=",
        })?;
        for (at, location) in self.list.iter().enumerate() {
            let colon = if at == 0 { "" } else { ":" };
            write!(f, "{colon}{}@", String::from_utf8_lossy(&location.path))?;
            for (at, host) in location.hosts.iter().enumerate() {
                let plus = if at == 0 { "" } else { "+" };
                match host.contains(':') {
                    true => write!(f, "{plus}[{host}]")?,
                    false => write!(f, "{plus}{host}")?,
                }
            }
        }
        Ok(())
    }
}

fn split_outside_brackets(text: &[u8], separator: u8) -> impl Iterator<Item = &[u8]> {
    let mut is_inside = false;
    text.split(move |byte| {
        match byte {
            b'[' => is_inside = true,
            b']' => is_inside = false,
            _ => {}
        }
        !is_inside && *byte == separator
    })
}

fn location(text: &[u8]) -> Result<FsLocation, String> {
    let at = text.iter().rposition(|byte| *byte == b'@');
    let Some((path, [_, hosts @ ..])) = at.map(|at| text.split_at(at)) else {
        return Err("write PATH@HOST, as in /srv/data@server2".to_owned());
    };
    let path = normal_path(path)?;
    let hosts: Vec<String> =
        split_outside_brackets(hosts, b'+').map(host).collect::<Result<_, _>>()?;
    if hosts.len() > HOSTS_MAX {
        return Err(format!(
            "more than {HOSTS_MAX} hosts of a location, which clients do not read"
        ));
    }
    Ok(FsLocation { hosts, path })
}

fn normal_path(written: &[u8]) -> Result<Vec<u8>, String> {
    if written.first() != Some(&b'/') {
        return Err("write the full path on the other server, as in /srv/data@server2".to_owned());
    }
    let mut path = Vec::with_capacity(written.len());
    for name in written.split(|byte| *byte == b'/').filter(|name| !name.is_empty()) {
        if matches!(name, b"." | b"..") || name.contains(&0) {
            return Err("write the path without . and .. components".to_owned());
        }
        path.push(b'/');
        path.extend_from_slice(name);
    }
    if path.is_empty() {
        path.push(b'/');
    }
    Ok(path)
}

/// A host name, an IPv4 address, or an IPv6 address in brackets.
fn host(written: &[u8]) -> Result<String, String> {
    let shown = written.escape_ascii();
    let text = std::str::from_utf8(written).unwrap_or_default();
    let bracketed = text.strip_prefix('[').and_then(|text| text.strip_suffix(']'));
    if let Some(inside) = bracketed {
        return match inside.parse::<Ipv6Addr>() {
            Ok(address) => Ok(address.to_string()),
            Err(_) => Err(format!("{shown} is not an IPv6 address")),
        };
    }
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    let is_dotted = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    if text.is_empty() || !text.bytes().all(is_letter) {
        return Err(format!(
            "\"{shown}\" is not a host: write a name or an address, an IPv6 address in brackets"
        ));
    }
    if is_dotted && text.parse::<Ipv4Addr>().is_err() {
        return Err(format!("{shown} is not an IPv4 address"));
    }
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::{FsLocation, FsLocations, HOSTS_MAX, LOCATIONS_MAX, LocationKind};

    fn parse(text: &str) -> Result<FsLocations, String> {
        FsLocations::parse(LocationKind::Referral, text.as_bytes())
    }

    fn location(path: &str, hosts: &[&str]) -> FsLocation {
        let hosts = hosts.iter().map(|host| (*host).to_owned()).collect();
        FsLocation { path: path.as_bytes().to_vec(), hosts }
    }

    #[test]
    fn locations_are_read_and_printed_as_exports_5_writes_them() {
        for (text, list) in [
            ("/data@server2", vec![location("/data", &["server2"])]),
            ("/@10.0.0.1", vec![location("/", &["10.0.0.1"])]),
            (
                "/a/b@s1.example.org+[fd00::1]:/a@b@s3",
                vec![location("/a/b", &["s1.example.org", "fd00::1"]), location("/a@b", &["s3"])],
            ),
        ] {
            let parsed = parse(text).unwrap();
            assert_eq!(parsed.list, list, "{text}");
            assert_eq!(parsed.to_string(), format!("refer={text}"));
            let replicas = FsLocations::parse(LocationKind::Replicas, text.as_bytes()).unwrap();
            assert_eq!(replicas.to_string(), format!("replicas={text}"));
        }
        assert_eq!(parse("//a//@s").unwrap().list, [location("/a", &["s"])]);
    }

    #[test]
    fn what_is_no_location_is_refused_with_a_reason() {
        let many = |count| vec!["/a@b"; count].join(":");
        let hosts = |count| "/a@".to_owned() + &vec!["b"; count].join("+");
        assert!(parse(&many(LOCATIONS_MAX)).is_ok() && parse(&hosts(HOSTS_MAX)).is_ok());
        for (text, told) in [
            ("", "write PATH@HOST"),
            ("server2:/data", "write PATH@HOST"),
            ("data@server2", "full path"),
            ("/a/../b@s", "without . and .."),
            ("/a@", "is not a host"),
            ("/a@b+", "is not a host"),
            ("/a@fd00::1", "PATH@HOST"),
            ("/a@[10.0.0.1]", "not an IPv6 address"),
            ("/a@10.0.0.256", "not an IPv4 address"),
            ("/a@b c", "is not a host"),
            (&many(LOCATIONS_MAX + 1), "more than 10 locations"),
            (&hosts(HOSTS_MAX + 1), "more than 10 hosts"),
            (&("/".to_owned() + &"a".repeat(3000) + "@b"), "more than 2048 bytes"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(told), "{text}: {error}");
        }
    }
}
