//! `bowline doctor`: checks this machine's setup for serving NFS; each finding is ok or has a remedy.
//!
//! Nothing is changed, and nothing waits for long: what asks a file system or a network runs in a thread of its own
//! ([`finding::within`]).

mod directories;
mod finding;
mod kerberos;
mod machine;
mod network;
mod running_server;
mod tls;

use crate::output;
use anyhow::bail;
use finding::{Finding, Level};
pub use kerberos::Asked as KerberosAsked;
use std::path::PathBuf;
use std::process::ExitCode;

/// The port that is looked at where none is named and no server runs.
const PORT: u16 = 2049;
/// What is read where no file is named.
const EXPORTS: [&str; 2] = ["/etc/exports", "/etc/exports.d"];

/// Looks at everything.
///
/// # Errors
/// There is a problem.
pub fn doctor(
    files: &[PathBuf],
    port: Option<u16>,
    control: Option<PathBuf>,
    json: bool,
) -> anyhow::Result<ExitCode> {
    let server = running_server::ask(control);
    let files = match files {
        [] => EXPORTS.iter().map(PathBuf::from).filter(|path| path.exists()).collect(),
        named => named.to_vec(),
    };
    let mut found = machine::findings();
    let port = port.or(server.port).unwrap_or(PORT);
    found.extend(network::findings(port, server.process));
    found.extend(directories::findings(&files));
    found.extend(server.findings);
    report(&found, json, "no problem found")
}

/// Looks at RPC with TLS of a server.
///
/// # Errors
/// There is a problem.
pub fn tls(host: &str, port: u16, ca: Option<PathBuf>, json: bool) -> anyhow::Result<ExitCode> {
    report(&tls::findings(host, port, ca), json, "clients can mount with xprtsec=tls")
}

/// Looks at Kerberos on this machine.
///
/// # Errors
/// There is a problem.
pub fn krb5(asked: KerberosAsked, json: bool) -> anyhow::Result<ExitCode> {
    report(&kerberos::findings(asked), json, "clients can mount with sec=krb5, krb5i and krb5p")
}

fn report(found: &[Finding], json: bool, well: &str) -> anyhow::Result<ExitCode> {
    let problems = found.iter().filter(|finding| finding.level == Level::Problem).count();
    if json {
        output::print(format!("{}\n", serde_json::to_string_pretty(found)?))?;
    } else {
        let lines: String = found.iter().map(Finding::shown).collect();
        let verdict = if problems == 0 { format!("{well}\n") } else { String::new() };
        output::print(format!("{lines}{verdict}"))?;
    }
    match problems {
        0 => Ok(ExitCode::SUCCESS),
        1 => bail!("1 problem; the line with -> below it says what to do"),
        n => bail!("{n} problems; the line with -> below each says what to do"),
    }
}
