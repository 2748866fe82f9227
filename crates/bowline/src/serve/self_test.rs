//! `--prove`: mounts the first export over the network, lists it, and reads and compares one file.

use super::listen_addresses::{ListenAddresses, loopback_for_wildcard};
use super::startup_message::print_text;
use anyhow::{Context, bail};
use client::{Client, prove};
use export::{Export, Exports, Source};
use nfs::NfsVersions;
use std::net::SocketAddr;

/// Runs the test with the newest version that is served, and prints the result. A server without exports or without
/// TCP has nothing to test.
///
/// # Errors
/// What failed.
pub fn run(
    exports: &Exports,
    listen: &ListenAddresses,
    versions: &NfsVersions,
) -> anyhow::Result<()> {
    let table = exports.load();
    let (Some(export), Some(addr)) = (table.exports().first(), listen.tcp.first()) else {
        return Ok(());
    };
    let version_4_path = table.pseudo().path_of(&export.path, table.exports());
    let Some(by) = proof_version(versions, export, version_4_path) else {
        bail!(
            "--prove tests versions 3, 4.1 and 4.2; none of these is served for {}",
            export.path_text()
        );
    };
    let local = match &export.source {
        Source::Directory(dir) => Some(dir.as_path()),
        Source::Scheme { .. } => None,
    };
    let at = SocketAddr::new(loopback_for_wildcard(addr.ip()), addr.port());
    let seen = connect(at)
        .map_err(anyhow::Error::from)
        .and_then(|client| match by {
            ProofVersion::Version3(path) => Ok(prove::prove(client, path, local)?),
            ProofVersion::Version4(minor, path) => {
                Ok(prove::prove_version_4(client, minor, path, local)?)
            }
        })
        .with_context(|| format!("the test of {} over the network failed", export.path_text()))?;
    let entries = if seen.entries == 1 { "entry" } else { "entries" };
    let version = match by {
        ProofVersion::Version3(_) => "3".to_owned(),
        ProofVersion::Version4(minor, _) => format!("4.{minor}"),
    };
    let path = export.path_text();
    let mut line =
        format!("proof: mounted {path} by version {version}, {} {entries}", seen.entries);
    match &seen.file {
        None => line.push_str(", no file to read"),
        Some(file) => {
            line.push_str(&format!(", read {file} ({})", admin::bytes(seen.bytes)));
            if seen.compared {
                line.push_str(", the same bytes as on disk");
            }
        }
    }
    print_text(&format!("{line}, in {}\n", admin::duration_ns(seen.elapsed_us * 1000)));
    Ok(())
}

/// How the export is found.
#[derive(Clone, Copy)]
enum ProofVersion<'p> {
    /// By MOUNT, for version 3.
    Version3(&'p [u8]),
    /// From the root, for a minor version of version 4.
    Version4(u32, &'p [u8]),
}

/// The newest version of those that this program can use as a client.
fn proof_version<'p>(
    versions: &NfsVersions,
    export: &'p Export,
    version_4_path: Option<&'p [u8]>,
) -> Option<ProofVersion<'p>> {
    let minor = versions.newest_minor().filter(|minor| *minor > 0);
    let root = minor.zip(version_4_path).map(|(minor, path)| ProofVersion::Version4(minor, path));
    root.or_else(|| versions.has_v3().then_some(ProofVersion::Version3(&export.path)))
}

/// Connects from a reserved port, which an export with the option `secure` requires, if this process may.
fn connect(at: SocketAddr) -> client::Result<Client> {
    let reserved = sys::outgoing::connect_reserved(at);
    reserved.map_or_else(
        |_| Client::tcp(at, prove::TIMEOUT),
        |stream| Client::over_tcp(stream, prove::TIMEOUT),
    )
}
