//! Logs each client that requests a version of NFS that is not served, once, with the remedy.
//!
//! Lock: `named`, taken only by calls that are answered PROG_MISMATCH, for a set operation.

use nfs::{Nfs, NfsVersions};
use std::collections::HashSet;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};

/// The most clients that are remembered; beyond them nothing is logged.
const CLIENTS_MAX: usize = 4096;

/// Returns an observer of calls that are not served, for [`rpc::Dispatcher::with_unserved_observer`].
pub fn log_clients(nfs: Arc<Nfs>) -> impl Fn(SocketAddr, u32, u32) + Send + Sync {
    let named = Mutex::new(HashSet::new());
    move |client, program, version| {
        let versions = nfs.settings.versions();
        if let Some(text) = text(&named, client.ip().to_canonical(), (program, version), &versions)
        {
            tracing::info!("{text}");
        }
    }
}

/// What to log about a call, the first time.
fn text(
    named: &Mutex<HashSet<IpAddr>>,
    client: IpAddr,
    (program, version): (u32, u32),
    versions: &NfsVersions,
) -> Option<String> {
    if program != proto::nfs3::PROGRAM || version < 4 {
        return None;
    }
    let mut named = named.lock().unwrap_or_else(PoisonError::into_inner);
    if named.len() >= CLIENTS_MAX || !named.insert(client) {
        return None;
    }
    if version == 4 && versions.has_v4() {
        return Some(format!(
            "{client} requests NFS version 4 over UDP, but it is served over TCP only: if its mount fails, add the \
             option proto=tcp"
        ));
    }
    Some(format!(
        "{client} requests NFS version {version}; this server serves {versions}: if its mount fails, add the \
         option vers=3, or switch version 4 on (`bowline set versions=2,3,4.0,4.1,4.2`)"
    ))
}

#[cfg(test)]
mod tests {
    use super::{CLIENTS_MAX, NfsVersions};
    use std::collections::HashSet;
    use std::net::{IpAddr, Ipv4Addr};
    use std::sync::Mutex;

    #[test]
    fn each_client_is_logged_once() {
        let named = Mutex::new(HashSet::new());
        let client = |n: u32| IpAddr::V4(Ipv4Addr::from_bits(n));
        let versions = "2,3".parse().unwrap();
        let text = |client, call| super::text(&named, client, call, &versions);
        let said = text(client(7), (100_003, 4)).unwrap();
        assert!(
            said.starts_with("0.0.0.7 requests NFS version 4; this server serves 2,3: "),
            "{said}"
        );
        assert_eq!(text(client(7), (100_003, 4)), None);
        let all = NfsVersions::default();
        let said = super::text(&named, client(6), (100_003, 4), &all).unwrap();
        assert!(said.contains("over UDP"), "{said}");
        assert_eq!(text(client(8), (100_227, 4)), None);
        assert_eq!(text(client(8), (100_003, 1)), None);
        for n in 0..10_000 {
            let _ = text(client(n), (100_003, 4));
        }
        assert_eq!(named.lock().unwrap().len(), CLIENTS_MAX);
    }
}
