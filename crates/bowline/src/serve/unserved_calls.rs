//! Names each client once that asks for a version of NFS that this server does not have, and says what to do.
//!
//! Lock: `named`, taken only by calls that are answered PROG_MISMATCH, for a set operation.

use std::collections::HashSet;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Mutex, PoisonError};

/// The most clients that are remembered; beyond them nothing is logged.
const CLIENTS_MAX: usize = 4096;

/// Returns an observer of calls that are not served, for [`rpc::Dispatcher::with_unserved_observer`]. `versions` are
/// those of NFS that are served.
pub fn log_clients(versions: &'static str) -> impl Fn(SocketAddr, u32, u32) + Send + Sync {
    let named = Mutex::new(HashSet::new());
    move |client, program, version| {
        if let Some(text) = text(&named, client.ip().to_canonical(), (program, version), versions) {
            tracing::info!("{text}");
        }
    }
}

/// What to log about a call, the first time.
fn text(
    named: &Mutex<HashSet<IpAddr>>,
    client: IpAddr,
    (program, version): (u32, u32),
    versions: &str,
) -> Option<String> {
    if program != proto::nfs3::PROGRAM || version < 4 {
        return None;
    }
    let mut named = named.lock().unwrap_or_else(PoisonError::into_inner);
    if named.len() >= CLIENTS_MAX || !named.insert(client) {
        return None;
    }
    Some(format!(
        "{client} asks for NFS version {version}; this server has {versions}: if a mount fails there, give it the \
         option vers=3"
    ))
}

#[cfg(test)]
mod tests {
    use super::{CLIENTS_MAX, text};
    use std::collections::HashSet;
    use std::net::{IpAddr, Ipv4Addr};
    use std::sync::Mutex;

    #[test]
    fn each_client_is_logged_once() {
        let named = Mutex::new(HashSet::new());
        let client = |n: u32| IpAddr::V4(Ipv4Addr::from_bits(n));
        let said = text(&named, client(7), (100_003, 4), "2 and 3").unwrap();
        assert!(
            said.starts_with("0.0.0.7 asks for NFS version 4; this server has 2 and 3: "),
            "{said}"
        );
        assert_eq!(text(&named, client(7), (100_003, 4), ""), None);
        assert_eq!(text(&named, client(8), (100_227, 4), ""), None);
        assert_eq!(text(&named, client(8), (100_003, 1), ""), None);
        for n in 0..10_000 {
            let _ = text(&named, client(n), (100_003, 4), "");
        }
        assert_eq!(named.lock().unwrap().len(), CLIENTS_MAX);
    }
}
