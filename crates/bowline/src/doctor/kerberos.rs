//! Kerberos on this machine: the library, the keytab, the names, a ticket for this server with its own keys, and who a
//! principal is.

use super::finding::{Finding, within_time};
use crate::serve::host_name;
use gss::krb5::{Keytab, KeytabEntry, Krb5, Principals, PrincipalsFile, Sealing, read_keytab};
use gss::{Acceptor, Established};
use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use sys::gssapi::{Initiator, InitiatorCredential, local_user_of};
use sys::name_service;

/// How long the KDCs have: the library asks each several times.
const KDC_PATIENCE: Duration = Duration::from_secs(20);
/// How long the name and user services have.
const NAMES_PATIENCE: Duration = Duration::from_secs(3);
/// An answer of the user database that takes longer than this is noted.
const SLOW: Duration = Duration::from_millis(500);
/// Tickets that the test gets are kept by this process alone.
const CACHE: &str = "MEMORY:bowline-doctor";

/// Names of encryption types (RFC 3961 §8, RFC 8009 §7, and what keytabs still have).
const ENCRYPTION_TYPES: [(u16, &str); 9] = [
    (1, "des-cbc-crc"),
    (3, "des-cbc-md5"),
    (16, "des3-cbc-sha1"),
    (17, "aes128-cts-hmac-sha1-96"),
    (18, "aes256-cts-hmac-sha1-96"),
    (19, "aes128-cts-hmac-sha256-128"),
    (20, "aes256-cts-hmac-sha384-192"),
    (23, "rc4-hmac"),
    (26, "camellia256-cts-cmac"),
];
/// Those that contexts may have.
const ACCEPTED: [u16; 4] = [17, 18, 19, 20];
/// Those that Linux knows since long; the others with AES since 6.2.
const OLD_AES: [u16; 2] = [17, 18];

/// What the library says when something fails, with what it is about and the remedy.
const FAILURES: [(&str, &str, &str); 8] = [
    (
        "Cannot contact any KDC",
        "KDC",
        "is the KDC started, and port 88 open for UDP and TCP? [realms] of /etc/krb5.conf or DNS (_kerberos._udp.REALM) \
         says where it is",
    ),
    (
        "Cannot find KDC",
        "KDC",
        "name it in [realms] of /etc/krb5.conf, on lines of their own: REALM = {, kdc = HOST, }",
    ),
    (
        "Clock skew",
        "clock",
        "the clocks of this machine and the KDC differ by more than five minutes: install chrony on both",
    ),
    (
        "Server not found in Kerberos database",
        "ticket",
        "the KDC does not know this name: kadmin -q \"addprinc -randkey nfs/NAME\" and ktadd; rdns = false and \
         dns_canonicalize_hostname = false in /etc/krb5.conf keep the name as clients write it",
    ),
    (
        "not found in Kerberos database",
        "ticket",
        "the KDC does not know the first principal of the keytab, or (Active Directory) lets no service log in by its \
         name: then the keytab needs the key of the machine's account too, NAME$@REALM, as the first",
    ),
    ("Preauthentication failed", "keys", "the keytab's keys differ from the KDC's: ktadd again"),
    ("Key version", "keys", "the keytab has other key versions than the KDC: ktadd again"),
    ("Decrypt integrity", "keys", "the keytab's keys differ from the KDC's: ktadd again"),
];

/// What is to be looked at.
pub struct Asked {
    pub keytab: Keytab,
    pub principals: PrincipalsFile,
    /// Names by which clients mount; empty: that of this machine.
    pub names: Vec<String>,
    /// Principals of users.
    pub users: Vec<String>,
}

/// Looks step by step, up to the first that stands in the way of those behind it.
pub fn findings(asked: Asked) -> Vec<Finding> {
    let mut found = Vec::new();
    if let Err(problem) = follow(asked, &mut found) {
        found.push(problem);
    }
    found
}

fn follow(asked: Asked, found: &mut Vec<Finding>) -> Result<(), Finding> {
    sys::gssapi::is_available().map_err(|error| {
        Finding::problem("library", error.text, "install it; the server needs no restart")
    })?;
    found.push(Finding::ok("library", "libgssapi_krb5.so.2 is installed"));
    let Some(keytab) = asked.keytab.path() else {
        return Err(Finding::problem("keytab", "Kerberos is off", "bowline set keytab=auto"));
    };
    let entries = read_keytab(&keytab).map_err(|error| {
        Finding::problem(
            "keytab",
            format!("{}: {error}", keytab.display()),
            format!(
                "kadmin -q \"addprinc -randkey nfs/{0}\" -q \"ktadd -k {1} nfs/{0}\"",
                host_name(),
                keytab.display()
            ),
        )
    })?;
    found.push(rights(&keytab, entries.len()));
    let names = if asked.names.is_empty() { vec![host_name()] } else { asked.names };
    found.extend(names.iter().map(|name| key_of(name, &entries, &keytab)));
    found.push(encryption_types(&entries));
    found.extend(names.iter().flat_map(|name| forward_and_reverse(name, &entries)));
    let principals = table(&asked.principals)?;
    found.extend(names.iter().map(|name| ticket(name, keytab.clone(), principals.clone())));
    found.push(user_database());
    found.extend(asked.users.iter().map(|user| who_is(user, principals.clone())));
    Ok(())
}

/// Who reads the keytab reads everything that was encrypted with it.
fn rights(keytab: &Path, keys: usize) -> Finding {
    const ABOUT: &str = "keytab";
    let mode = std::fs::metadata(keytab).map_or(0, |seen| seen.mode());
    let shown = keytab.display();
    if mode & 0o007 == 0 {
        return Finding::ok(ABOUT, format!("{shown}: {keys} keys"));
    }
    let text = format!("{shown}: others can use it (mode {:o})", mode & 0o777);
    Finding::problem(ABOUT, text, format!("chmod 600 {shown}, and new keys for it (ktadd)"))
}

/// Whether there is a key for a name that clients use.
fn key_of(name: &str, entries: &[KeytabEntry], keytab: &Path) -> Finding {
    const ABOUT: &str = "principal";
    let service = format!("nfs/{name}@");
    let of_name: Vec<&KeytabEntry> = entries
        .iter()
        .filter(|entry| {
            entry
                .principal
                .get(..service.len())
                .is_some_and(|begin| begin.eq_ignore_ascii_case(&service))
        })
        .collect();
    match of_name.iter().max_by_key(|entry| entry.version) {
        Some(newest) => {
            Finding::ok(ABOUT, format!("{}, key version {}", newest.principal, newest.version))
        }
        None => {
            let all: BTreeSet<&str> =
                entries.iter().map(|entry| entry.principal.as_str()).collect();
            let all = all.into_iter().collect::<Vec<_>>().join(", ");
            let remedy = format!(
                "kadmin -q \"addprinc -randkey nfs/{name}\" -q \"ktadd -k {} nfs/{name}\"; or name with --name what \
                 clients mount",
                keytab.display()
            );
            Finding::problem(ABOUT, format!("there is no key of nfs/{name}, but of: {all}"), remedy)
        }
    }
}

fn encryption_types(entries: &[KeytabEntry]) -> Finding {
    const ABOUT: &str = "encryption types";
    let of_nfs = entries.iter().filter(|entry| entry.principal.starts_with("nfs/"));
    let types: BTreeSet<u16> = of_nfs.map(|entry| entry.encryption_type).collect();
    let named = |number: &u16| {
        let known = ENCRYPTION_TYPES.iter().find(|(of, _)| of == number);
        known.map_or_else(|| format!("type {number}"), |(_, name)| (*name).to_owned())
    };
    let all = types.iter().map(named).collect::<Vec<_>>().join(", ");
    if !types.iter().any(|number| ACCEPTED.contains(number)) {
        let all = if all.is_empty() { "no keys of nfs/".to_owned() } else { all };
        return Finding::problem(
            ABOUT,
            format!("{all}: none of them is accepted"),
            "give the account AES keys (in Active Directory msDS-SupportedEncryptionTypes = 24), and make a new keytab",
        );
    }
    if !types.iter().any(|number| OLD_AES.contains(number)) {
        let remedy = "Linux clients before 6.2 cannot mount: add keys of aes256-cts-hmac-sha1-96, if there are such";
        return Finding::note(ABOUT, all, remedy);
    }
    Finding::ok(ABOUT, all)
}

/// The addresses of a name, and the names that lead back from them, by which some clients ask for a ticket.
fn forward_and_reverse(name: &str, entries: &[KeytabEntry]) -> Vec<Finding> {
    let asked = name.to_owned();
    let addresses = within_time(NAMES_PATIENCE, move || name_service::addresses_of(&asked));
    let addresses = match addresses {
        Some(Ok(addresses)) if !addresses.is_empty() => addresses,
        other => {
            let why = match other {
                Some(Ok(_)) => "it has no address".to_owned(),
                Some(Err(error)) => error.to_string(),
                None => "the name service does not answer".to_owned(),
            };
            let remedy = "clients use this name: add it to DNS or /etc/hosts";
            return vec![Finding::problem("name", format!("{name}: {why}"), remedy)];
        }
    };
    let shown: BTreeSet<String> = addresses.iter().map(ToString::to_string).collect();
    let shown = shown.into_iter().collect::<Vec<_>>().join(", ");
    let mut found = vec![Finding::ok("name", format!("{name} is {shown}"))];
    let reverse = within_time(NAMES_PATIENCE, move || {
        let outside = addresses.into_iter().filter(|address| !address.is_loopback());
        outside.filter_map(|address| name_service::name_of(address).ok().flatten()).collect()
    });
    found.push(reverse_name(name, &reverse.unwrap_or_default(), entries));
    found
}

fn reverse_name(name: &str, reverse: &BTreeSet<String>, entries: &[KeytabEntry]) -> Finding {
    const ABOUT: &str = "reverse name";
    let has_key = |other: &&String| {
        let service = format!("nfs/{other}@");
        !other.eq_ignore_ascii_case(name)
            && !entries
                .iter()
                .any(|entry| entry.principal.to_lowercase().starts_with(&service.to_lowercase()))
    };
    if let Some(other) = reverse.iter().find(has_key) {
        return Finding::note(
            ABOUT,
            format!("an address of {name} leads back to {other}, for which there is no key"),
            format!(
                "clients with rdns = true (krb5.conf) ask for nfs/{other}: correct the reverse name, or add that key"
            ),
        );
    }
    match reverse.first() {
        Some(other) => Finding::ok(ABOUT, format!("{other}, for which there is a key")),
        None => Finding::ok(ABOUT, format!("none: clients use {name}")),
    }
}

fn table(file: &PrincipalsFile) -> Result<Principals, Finding> {
    match file {
        PrincipalsFile::Off => Ok(Principals::default()),
        PrincipalsFile::File(path) => Principals::read(path).map_err(|error| {
            Finding::problem(
                "principals",
                format!("{}: {error}", path.display()),
                "correct the file",
            )
        }),
    }
}

/// Gets a ticket for this server with its own keys, and accepts it: keys, clock and KDC fit together.
fn ticket(name: &str, keytab: PathBuf, principals: Principals) -> Finding {
    const ABOUT: &str = "ticket";
    let begin = Instant::now();
    let service = format!("nfs@{name}");
    let asked = within_time(KDC_PATIENCE, move || ticket_of(&service, &keytab, principals));
    match asked {
        None => {
            let text = format!("no KDC has answered for {} seconds", KDC_PATIENCE.as_secs());
            of_failure(&format!("Cannot contact any KDC: {text}"))
        }
        Some(Err(text)) => of_failure(&text),
        Some(Ok(Established { principal, lifetime_s, .. })) => {
            let hours = lifetime_s.map_or(0, |seconds| seconds / 3600);
            Finding::ok(
                ABOUT,
                format!(
                    "the KDC gave {principal} one for nfs/{name} in {} ms; its key and the clock fit, it lasts {hours} h",
                    begin.elapsed().as_millis()
                ),
            )
        }
    }
}

fn ticket_of(service: &str, keytab: &Path, principals: Principals) -> Result<Established, String> {
    let path = keytab.to_str().ok_or("the keytab's path is not UTF-8")?;
    let client = InitiatorCredential::from_cache(CACHE, Some(path)).map_err(|error| error.text)?;
    let (_initiator, token) = Initiator::begin(&client, service).map_err(|error| error.text)?;
    let server = Krb5::new(keytab, principals, Sealing::Own).map_err(|error| error.text)?;
    server.accept(&token).map_err(|refusal| refusal.text)
}

fn of_failure(text: &str) -> Finding {
    match FAILURES.iter().find(|(part, ..)| text.contains(part)) {
        Some((_, about, remedy)) => Finding::problem(about, text, *remedy),
        None => Finding::problem(
            "ticket",
            text,
            "KRB5_TRACE=/dev/stderr bowline doctor krb5 shows each step of the library",
        ),
    }
}

/// Each context asks for its user's groups.
fn user_database() -> Finding {
    const ABOUT: &str = "user database";
    let begin = Instant::now();
    let asked = within_time(NAMES_PATIENCE, || name_service::groups_of(0, 1024));
    match asked {
        Some(Ok(_)) if begin.elapsed() < SLOW => {
            Finding::ok(ABOUT, format!("answers in {} ms", begin.elapsed().as_millis()))
        }
        Some(Ok(_)) => Finding::note(
            ABOUT,
            format!("answers in {} ms", begin.elapsed().as_millis()),
            "each user's first call waits that long: check sssd, winbind or nscd",
        ),
        Some(Err(error)) => Finding::problem(
            ABOUT,
            error.to_string(),
            "check passwd and group in /etc/nsswitch.conf",
        ),
        None => Finding::problem(
            ABOUT,
            "does not answer",
            "check passwd and group in /etc/nsswitch.conf",
        ),
    }
}

/// The user and groups of a principal.
fn who_is(principal: &str, principals: Principals) -> Finding {
    const ABOUT: &str = "user";
    let asked = principal.to_owned();
    let user = within_time(NAMES_PATIENCE, move || {
        let local = local_user_of(&asked).map_err(|error| error.text)?;
        principals.user(&asked, local.as_deref()).map_err(|error| error.to_string())
    });
    match user {
        Some(Ok(Some(user))) => {
            let groups = user.groups.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
            let groups = if groups.is_empty() {
                "no other groups".to_owned()
            } else {
                format!("groups {groups}")
            };
            Finding::ok(
                ABOUT,
                format!("{principal} is user {} with group {} and {groups}", user.uid, user.gid),
            )
        }
        Some(Ok(None)) => Finding::note(
            ABOUT,
            format!("{principal} has no user on this machine and acts as the anonymous user"),
            "add the user, auth_to_local to /etc/krb5.conf, or a row to the table (bowline set principals=FILE); \
             root needs a row",
        ),
        Some(Err(error)) => {
            Finding::problem(ABOUT, format!("{principal}: {error}"), "write NAME@REALM")
        }
        None => Finding::problem(
            ABOUT,
            format!("{principal}: the user database does not answer"),
            "check passwd and group in /etc/nsswitch.conf",
        ),
    }
}

#[cfg(test)]
mod tests;
