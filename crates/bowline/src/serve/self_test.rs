//! `--prove`: mounts the first export over the network, lists it, and reads and compares one file.

use super::listen_addresses::{ListenAddresses, loopback_for_wildcard};
use super::startup_message::print_text;
use anyhow::Context;
use client::Client;
use export::{Exports, Source};
use std::net::SocketAddr;

/// Runs the test and prints the result. A server without exports or without TCP has nothing to test.
///
/// # Errors
/// What failed.
pub fn run(exports: &Exports, listen: &ListenAddresses) -> anyhow::Result<()> {
    let table = exports.load();
    let (Some(export), Some(addr)) = (table.exports().first(), listen.tcp.first()) else {
        return Ok(());
    };
    let local = match &export.source {
        Source::Directory(dir) => Some(dir.as_path()),
        Source::Scheme { .. } => None,
    };
    let at = SocketAddr::new(loopback_for_wildcard(addr.ip()), addr.port());
    let seen = connect(at)
        .map_err(anyhow::Error::from)
        .and_then(|client| Ok(client::prove::prove(client, &export.path, local)?))
        .with_context(|| format!("the test of {} over the network failed", export.path_text()))?;
    let entries = if seen.entries == 1 { "entry" } else { "entries" };
    let mut line = format!("proof: mounted {}, {} {entries}", export.path_text(), seen.entries);
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

/// Connects from a reserved port, which an export with the option `secure` requires, if this process may.
fn connect(at: SocketAddr) -> client::Result<Client> {
    let reserved = sys::outgoing::connect_reserved(at);
    reserved.map_or_else(
        |_| Client::tcp(at, client::prove::TIMEOUT),
        |stream| Client::over_tcp(stream, client::prove::TIMEOUT),
    )
}
