//! Tests RPC-with-TLS of a server as a client.

use super::finding::Finding;
use crate::default_paths;
use crate::local_addresses::local_addresses;
use client::starttls::{StartTlsError, connect, probe};
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use svc::KernelTlsState;
use tls::{ClientFiles, ClientTls, ShownCertificate};

const PATIENCE: Duration = Duration::from_secs(5);
/// NULL of it is the probe.
const PROGRAM: (u32, u32) = (proto::nfs3::PROGRAM, proto::nfs3::VERSION);
/// A certificate that expires within this number of days is noted.
const NOTE_DAYS: i64 = 30;
const DAY_S: i64 = 24 * 60 * 60;

/// Looks step by step, up to the first that stands in the way.
pub fn findings(host: &str, port: u16, ca: Option<PathBuf>) -> Vec<Finding> {
    let bare = host.strip_prefix('[').and_then(|h| h.strip_suffix(']')).unwrap_or(host);
    let mut found = Vec::new();
    if let Err(problem) = follow(bare, port, ca, &mut found) {
        found.push(problem);
    }
    found
}

fn follow(
    host: &str,
    port: u16,
    ca: Option<PathBuf>,
    found: &mut Vec<Finding>,
) -> Result<(), Finding> {
    let address = address(host, port)?;
    found.push(Finding::ok("address", format!("{host} is {}", address.ip())));
    probe(address, PATIENCE, PROGRAM).map_err(|error| match error {
        StartTlsError::NotOffered => Finding::problem(
            "probe",
            "the server does not offer TLS",
            "start it with --tls-cert and --tls-key; `bowline tls init` makes both",
        ),
        other => Finding::problem(
            "probe",
            other.to_string(),
            "check that the server is running and that no firewall blocks the port",
        ),
    })?;
    found.push(Finding::ok("probe", "answered with STARTTLS"));
    let own = default_paths::state_dir().join("tls/ca.pem");
    let ca = ca.or_else(|| own.exists().then_some(own));
    let files = ClientFiles { ca: ca.clone(), identity: None };
    let unusable = |error: String| Finding::problem("authority", error, "name it with --ca");
    let client = ClientTls::open(&files, false, tls::ALPN).map_err(|e| unusable(e.to_string()))?;
    let session = connect(address, PATIENCE, PROGRAM, (&client, host)).map_err(|error| {
        Finding::problem("handshake", error.to_string(), "the server's log says more")
    })?;
    found.push(Finding::ok("handshake", format!("TLS 1.3, {}", session.suite())));
    describe(host, &client.seen(), ca.as_ref(), found);
    if local_addresses().contains(&address.ip().to_canonical()) {
        found.push(records(&svc::kernel_tls_of_this_machine()));
    }
    Ok(())
}

/// Whether this machine's kernel can encrypt and decrypt the records, if the server is here.
fn records(kernel: &KernelTlsState) -> Finding {
    const ABOUT: &str = "kernel TLS";
    match kernel {
        KernelTlsState::Ready(_) => Finding::ok(ABOUT, format!("{kernel}, unless ktls=off is set")),
        KernelTlsState::Unusable(_) | KernelTlsState::Off => Finding::note(
            ABOUT,
            format!("{kernel}; the server encrypts by itself, and READ copies data"),
            "clients notice no difference; once the kernel can, `bowline set ktls=auto` has the server look again",
        ),
    }
}

fn address(host: &str, port: u16) -> Result<SocketAddr, Finding> {
    let found = (host, port).to_socket_addrs().map(|mut all| all.next());
    let remedy = "check /etc/hosts and DNS, or write the address";
    match found {
        Ok(Some(address)) => Ok(address),
        Ok(None) => Err(Finding::problem("address", format!("{host} has no address"), remedy)),
        Err(error) => Err(Finding::problem("address", format!("{host}: {error}"), remedy)),
    }
}

/// What the certificate says, and whether a client would accept it.
fn describe(host: &str, seen: &ShownCertificate, ca: Option<&PathBuf>, found: &mut Vec<Finding>) {
    let Some(own) = seen.chain.first() else { return };
    let names = if own.names.is_empty() { "no names".to_owned() } else { own.names.join(", ") };
    found.push(Finding::ok("certificate", format!("{}, for {names}", own.subject)));
    let chain: Vec<&str> =
        seen.chain.iter().map(|certificate| certificate.issuer.as_str()).collect();
    found.push(match (&seen.refused, ca) {
        (Some(why), _) => Finding::problem(
            "accepted",
            why.clone(),
            format!(
                "clients must mount with one of the names above ({host} was requested) and trust the authority \
                 (x509.truststore in /etc/tlshd.conf); `bowline tls init {host}` makes a certificate with this name"
            ),
        ),
        (None, Some(ca)) => Finding::ok("accepted", format!("issued by {}, known from {}", chain.join(", "), ca.display())),
        (None, None) => Finding::note(
            "accepted",
            format!("issued by {}; not checked", chain.join(", ")),
            "name the authority's certificate with --ca",
        ),
    });
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let days =
        own.not_after.saturating_sub(i64::try_from(now).unwrap_or(i64::MAX)).div_euclid(DAY_S);
    found.push(match days {
        i64::MIN..0 => {
            Finding::problem("expiry", "it has expired", "make a new one: `bowline tls init`")
        }
        0..NOTE_DAYS => {
            Finding::note("expiry", format!("in {days} days"), "make a new one: `bowline tls init`")
        }
        _ => Finding::ok("expiry", format!("in {days} days")),
    });
}
