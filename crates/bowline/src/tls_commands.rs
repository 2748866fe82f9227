//! `bowline tls`: a private authority, and the certificates that it issues.

use crate::cli::TlsCommand;
use crate::local_addresses::local_addresses;
use crate::output::{self, UsageError};
use crate::{default_paths, serve};
use anyhow::{Context, bail};
use std::fs;
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use tls::{Authority, Purpose};

/// How long a certificate lasts: what the strictest clients accept.
const DAYS: u32 = 398;

/// `bowline tls`.
///
/// # Errors
/// Files cannot be read or written, or a name is none.
pub fn tls(command: TlsCommand) -> anyhow::Result<ExitCode> {
    let dir = |dir: Option<PathBuf>| dir.unwrap_or_else(|| default_paths::state_dir().join("tls"));
    let text = match command {
        TlsCommand::Init { names, dir: named } => init(&names, &dir(named))?,
        TlsCommand::Client { name, dir: named } => client(&name, &dir(named))?,
    };
    output::print(text)?;
    Ok(ExitCode::SUCCESS)
}

/// The names by which clients may know this machine: those given, its own, and its addresses.
fn all_names(given: &[String]) -> Vec<String> {
    let host = serve::host_name();
    let mut names: Vec<String> = given.to_vec();
    names.extend([host, "localhost".to_owned()].into_iter().filter(|name| !name.is_empty()));
    let kept = |address: &std::net::IpAddr| match address {
        // an address of a link means nothing without the link
        std::net::IpAddr::V6(six) => !six.is_unicast_link_local(),
        std::net::IpAddr::V4(four) => !four.is_loopback() || *four == std::net::Ipv4Addr::LOCALHOST,
    };
    names.extend(local_addresses().iter().filter(|address| kept(address)).map(ToString::to_string));
    let mut unique = Vec::new();
    for name in names {
        if !unique.contains(&name) {
            unique.push(name);
        }
    }
    unique
}

fn init(given: &[String], dir: &Path) -> anyhow::Result<String> {
    let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(dir);
    made.with_context(|| format!("cannot make {}", dir.display()))?;
    let (ca_file, key_file) = (dir.join("ca.pem"), dir.join("ca.key"));
    let authority = if ca_file.exists() && key_file.exists() {
        authority(dir)?
    } else if ca_file.exists() || key_file.exists() {
        bail!(
            "{} has only one of ca.pem and ca.key: restore the other, or remove both",
            dir.display()
        );
    } else {
        let (authority, key) = Authority::create(&format!("Bowline of {}", serve::host_name()))?;
        write(&key_file, &key, 0o600)?;
        write(&ca_file, authority.certificate(), 0o644)?;
        authority
    };
    let names = all_names(given);
    let issued = authority.issue(&names, Purpose::Server, DAYS).map_err(|error| {
        UsageError(format!("no certificate can have the names {}: {error}", names.join(", ")))
    })?;
    // the key first: who reads both in between finds that they do not fit, and keeps what it has
    write(&dir.join("server.key"), &issued.key, 0o600)?;
    write(&dir.join("server.pem"), &issued.certificate, 0o644)?;
    let (d, ca) = (dir.display(), ca_file.display());
    let name = names.first().map_or("SERVER", String::as_str);
    Ok(format!(
        "the certificate lasts {DAYS} days and is for {}\n\
         \n\
         serve with it:\n  \
         bowline serve DIR --tls-cert {d}/server.pem --tls-key {d}/server.key --tls-client-ca {ca}\n\
         \n\
         on each client (Linux 6.5 or later, package ktls-utils): copy {ca} to /etc/bowline-ca.pem, and then\n  \
         printf '[authenticate.client]\\nx509.truststore=/etc/bowline-ca.pem\\n' >/etc/tlshd.conf; systemctl \
         restart tlshd\n  \
         mount -t nfs -o xprtsec=tls {name}:/PATH /MOUNT\n\
         \n\
         clients must mount with one of the names above; `bowline doctor tls {name}` tests it from here\n",
        names.join(", "),
    ))
}

fn client(name: &str, dir: &Path) -> anyhow::Result<String> {
    if name.contains(['/', '*']) || name.starts_with('.') || ["ca", "server"].contains(&name) {
        return Err(UsageError(format!("{name:?} cannot be a client's name")).into());
    }
    let authority = authority(dir)?;
    let issued = authority
        .issue(&[name.to_owned()], Purpose::Client, DAYS)
        .map_err(|error| UsageError(format!("{name:?} cannot be a client's name: {error}")))?;
    let (pem, key) = (dir.join(format!("{name}.pem")), dir.join(format!("{name}.key")));
    write(&key, &issued.key, 0o600)?;
    write(&pem, &issued.certificate, 0o644)?;
    Ok(format!(
        "copy to {name}, and remove the key here afterwards:\n  \
         {} as /etc/bowline-client.pem\n  {} as /etc/bowline-client.key, mode 0600\n  {} as /etc/bowline-ca.pem\n\
         \n\
         there, in /etc/tlshd.conf, and then systemctl restart tlshd:\n  \
         [authenticate.client]\n  x509.truststore=/etc/bowline-ca.pem\n  \
         x509.certificate=/etc/bowline-client.pem\n  x509.private_key=/etc/bowline-client.key\n\
         mount with\n  mount -t nfs -o xprtsec=mtls SERVER:/PATH /MOUNT\n\
         \n\
         an export for it alone: /PATH *(rw,xprtsec=mtls,tls-name={name})\n",
        pem.display(),
        key.display(),
        dir.join("ca.pem").display(),
    ))
}

fn authority(dir: &Path) -> anyhow::Result<Authority> {
    let read = |name: &str| {
        let path = dir.join(name);
        let text = fs::read_to_string(&path);
        text.with_context(|| {
            format!("cannot read {}; `bowline tls init` makes an authority", path.display())
        })
    };
    let (certificate, key) = (read("ca.pem")?, read("ca.key")?);
    Authority::load(&certificate, &key).with_context(|| {
        format!("ca.pem and ca.key in {} are not a valid certificate authority", dir.display())
    })
}

/// Puts a file in place as a whole, with its rights from the beginning.
fn write(path: &Path, text: &str, mode: u32) -> anyhow::Result<()> {
    let context = || format!("cannot write {}", path.display());
    let new = path.with_extension("new");
    // one that an interrupted command has left
    let _ = fs::remove_file(&new);
    let mut file = fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(mode)
        .open(&new)
        .with_context(context)?;
    file.write_all(text.as_bytes()).with_context(context)?;
    file.sync_all().with_context(context)?;
    fs::rename(&new, path).with_context(context)
}
