//! The mount list: which client mounted which path, for DUMP, UMNT and UMNTALL.
//!
//! Owns: the entries, oldest first, never more than [`MOUNT_ENTRIES_MAX`]. It is for administrators
//! only and may be wrong, since clients crash without UMNT; no access decision depends on it. [`Mount`](super::Mount)
//! guards it with one mutex that is never held over anything that waits.

use rpc::{Call, Credential, Transport};
use serde::Serialize;
use std::collections::VecDeque;
use std::net::IpAddr;

/// The most entries of the list, which clients make grow; beyond, the oldest is removed.
pub const MOUNT_ENTRIES_MAX: usize = 1024;

/// One client that mounted one path and has not unmounted it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MountEntry {
    /// The client's address.
    pub client: IpAddr,
    /// The client's own name for itself (AUTH_SYS), or its address where it sent none that may be
    /// shown; never trusted.
    pub name: String,
    /// The path, in normal form.
    pub path: String,
    /// The version of MOUNT that it used.
    pub version: u32,
    /// How the call came: `tcp` or `udp`.
    pub transport: &'static str,
    /// When it last mounted it, in seconds since 1970.
    pub since_unix_s: u64,
}

impl MountEntry {
    /// An entry for the caller.
    pub(super) fn new(call: &Call<'_>, path: &[u8], version: u32, now_unix_s: u64) -> Self {
        let client = client_of(call);
        Self {
            client,
            name: machine_name(&call.credential).unwrap_or_else(|| client.to_string()),
            path: String::from_utf8_lossy(path).into_owned(),
            version,
            transport: match call.peer.transport {
                Transport::Tcp => "tcp",
                Transport::Udp => "udp",
            },
            since_unix_s: now_unix_s,
        }
    }
}

/// The address that counts as the client.
pub(super) fn client_of(call: &Call<'_>) -> IpAddr {
    call.peer.addr.ip().to_canonical()
}

/// The machine name of AUTH_SYS, if it is one that may be shown: what reaches an administrator's
/// terminal holds only letters, digits, dots, hyphens and underscores.
fn machine_name(credential: &Credential<'_>) -> Option<String> {
    let Credential::Sys(sys) = credential else { return None };
    let sound = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_');
    if sys.machinename.is_empty() || !sys.machinename.iter().all(sound) {
        return None;
    }
    String::from_utf8(sys.machinename.to_vec()).ok()
}

/// The list.
#[derive(Debug, Default)]
pub(super) struct MountList {
    rows: VecDeque<MountEntry>,
}

impl MountList {
    /// Adds an entry; one of the same client and path is replaced.
    pub(super) fn add(&mut self, row: MountEntry) {
        self.remove(row.client, &row.path);
        if self.rows.len() >= MOUNT_ENTRIES_MAX {
            self.rows.pop_front();
        }
        self.rows.push_back(row);
    }

    /// Removes the entry of one client and path.
    pub(super) fn remove(&mut self, client: IpAddr, path: &str) {
        self.rows.retain(|row| row.client != client || row.path != path);
    }

    /// Removes all entries of one client.
    pub(super) fn remove_all(&mut self, client: IpAddr) {
        self.rows.retain(|row| row.client != client);
    }

    /// A copy of the entries, oldest first.
    pub(super) fn rows(&self) -> Vec<MountEntry> {
        self.rows.iter().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::{MOUNT_ENTRIES_MAX, MountEntry, MountList, machine_name};
    use rpc::{AuthSys, Credential};

    fn row(client: &str, path: &str, since_unix_s: u64) -> MountEntry {
        MountEntry {
            client: client.parse().unwrap(),
            name: client.to_owned(),
            path: path.to_owned(),
            version: 3,
            transport: "tcp",
            since_unix_s,
        }
    }

    #[test]
    fn a_client_has_one_entry_per_path() {
        let mut mounted = MountList::default();
        mounted.add(row("10.0.0.1", "/a", 1));
        mounted.add(row("10.0.0.2", "/a", 2));
        mounted.add(row("10.0.0.1", "/a", 3));
        assert_eq!(mounted.rows(), [row("10.0.0.2", "/a", 2), row("10.0.0.1", "/a", 3)]);
    }

    #[test]
    fn umnt_removes_only_the_callers_entries() {
        let mut mounted = MountList::default();
        for (client, path) in [("10.0.0.1", "/a"), ("10.0.0.1", "/b"), ("10.0.0.2", "/a")] {
            mounted.add(row(client, path, 1));
        }
        mounted.remove("10.0.0.1".parse().unwrap(), "/a");
        assert_eq!(mounted.rows().len(), 2);
        mounted.remove_all("10.0.0.1".parse().unwrap());
        assert_eq!(mounted.rows(), [row("10.0.0.2", "/a", 1)]);
    }

    #[test]
    fn beyond_the_limit_the_oldest_entry_is_removed() {
        let mut mounted = MountList::default();
        for n in 0..MOUNT_ENTRIES_MAX + 3 {
            mounted.add(row("10.0.0.1", &format!("/{n}"), 1));
        }
        let rows = mounted.rows();
        assert_eq!(rows.len(), MOUNT_ENTRIES_MAX);
        assert_eq!(rows.first().unwrap().path, "/3");
    }

    #[test]
    fn machine_names_with_unprintable_characters_are_not_shown() {
        let name =
            |bytes: &[u8]| machine_name(&Credential::Sys(AuthSys::new(bytes, 0, 0, &[]).unwrap()));
        assert_eq!(name(b"web-1.example").as_deref(), Some("web-1.example"));
        assert_eq!(name(b""), None);
        assert_eq!(name(b"\x1b[2J"), None);
        assert_eq!(name("h\u{e4}nsel".as_bytes()), None);
        assert_eq!(machine_name(&Credential::Anonymous), None);
    }
}
