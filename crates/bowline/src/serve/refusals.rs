//! Who was refused and why: for each export and each client how often, and the last reason; and what was refused in the
//! last hour.
//!
//! Lock: `Refusals::tables`. Only calls that are refused take it, for three map operations. At most [`CLIENTS_MAX`]
//! clients and [`RECENT_MAX`] recent refusals are remembered; there are as many exports as the table has.

use admin::api::RefusalRow;
use nfs::mount::{RefusalReason, RefusedMount};
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The most clients that are remembered.
const CLIENTS_MAX: usize = 4096;
/// The most refusals of the last hour that are remembered, each with its client, path and reason.
const RECENT_MAX: usize = 1024;
/// How long a refusal counts as recent.
const RECENT: Duration = Duration::from_secs(3600);
/// The most characters of a path that is no export.
const PATH_MAX: usize = 100;

/// What was refused.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum RefusedTarget {
    /// A call for the export with this index.
    Export(u16),
    /// The mount of a path that is no export.
    Path(String),
}

/// How often, and the last time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusalCount {
    /// Refused calls since the start.
    pub count: u64,
    /// The last one was for this.
    pub what: RefusedTarget,
    /// The reason of the last one.
    pub why: &'static str,
}

#[derive(Default)]
struct Tables {
    exports: HashMap<u16, RefusalCount>,
    clients: HashMap<IpAddr, RefusalCount>,
    recent: HashMap<(IpAddr, RefusedTarget, &'static str), Recent>,
}

/// How often, and when last.
struct Recent {
    count: u64,
    last: Instant,
}

/// All refusals since the start.
#[derive(Default)]
pub struct Refusals {
    tables: Mutex<Tables>,
}

impl Refusals {
    /// An export refused a client.
    pub fn by_export(&self, export: u16, client: IpAddr, why: &'static str) {
        let mut tables = self.lock();
        count(tables.exports.entry(export), RefusedTarget::Export(export), why);
        tables.count_client(client, RefusedTarget::Export(export), why);
    }

    /// A mount was refused. What an export refuses is counted by [`Refusals::by_export`].
    pub fn mount(&self, refused: &RefusedMount<'_>) {
        let why = match refused.reason {
            RefusalReason::Client(_) => return,
            RefusalReason::NoPath => "not a path that begins with /",
            RefusalReason::NoExport => "no such export",
            RefusalReason::NotServed => "the export is not served now",
            RefusalReason::Tree(_) => "no such directory in the export, or no permission for it",
        };
        let path = String::from_utf8_lossy(refused.path);
        let path = path.chars().take(PATH_MAX).collect();
        self.lock().count_client(refused.client.ip(), RefusedTarget::Path(path), why);
    }

    /// Those of an export.
    pub fn of_export(&self, export: u16) -> Option<RefusalCount> {
        self.lock().exports.get(&export).cloned()
    }

    /// Those of the last hour, the latest first. `path_of` names an export.
    pub fn recent(&self, now: Instant, path_of: impl Fn(u16) -> String) -> Vec<RefusalRow> {
        let mut tables = self.lock();
        tables.forget_old(now);
        let row =
            |((client, what, why), recent): (&(IpAddr, RefusedTarget, &'static str), &Recent)| {
                let age = now.saturating_duration_since(recent.last);
                RefusalRow {
                    client: client.to_string(),
                    path: match what {
                        RefusedTarget::Export(index) => path_of(*index),
                        RefusedTarget::Path(path) => path.clone(),
                    },
                    count: recent.count,
                    age_ms: u64::try_from(age.as_millis()).unwrap_or(u64::MAX),
                    reason: (*why).to_owned(),
                }
            };
        let mut rows: Vec<RefusalRow> = tables.recent.iter().map(row).collect();
        rows.sort_by(|a, b| (a.age_ms, &a.client, &a.path).cmp(&(b.age_ms, &b.client, &b.path)));
        rows
    }

    /// Those of all clients.
    pub fn of_clients(&self) -> Vec<(IpAddr, RefusalCount)> {
        self.lock().clients.iter().map(|(ip, refused)| (*ip, refused.clone())).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Tables> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Tables {
    fn count_client(&mut self, client: IpAddr, what: RefusedTarget, why: &'static str) {
        let client = client.to_canonical();
        if self.clients.len() >= CLIENTS_MAX && !self.clients.contains_key(&client) {
            // any other: one that goes on being refused comes back
            let other = self.clients.keys().next().copied();
            other.and_then(|other| self.clients.remove(&other));
        }
        self.note_recent(client, what.clone(), why, Instant::now());
        count(self.clients.entry(client), what, why);
    }

    fn note_recent(
        &mut self,
        client: IpAddr,
        what: RefusedTarget,
        why: &'static str,
        now: Instant,
    ) {
        let key = (client, what, why);
        if self.recent.len() >= RECENT_MAX && !self.recent.contains_key(&key) {
            self.forget_old(now);
            if self.recent.len() >= RECENT_MAX {
                // any other: one that goes on being refused comes back
                let other = self.recent.keys().next().cloned();
                other.and_then(|other| self.recent.remove(&other));
            }
        }
        let recent = self.recent.entry(key).or_insert(Recent { count: 0, last: now });
        if now.saturating_duration_since(recent.last) > RECENT {
            recent.count = 0;
        }
        recent.count = recent.count.saturating_add(1);
        recent.last = now;
    }

    fn forget_old(&mut self, now: Instant) {
        self.recent.retain(|_, recent| now.saturating_duration_since(recent.last) <= RECENT);
    }
}

fn count<K>(
    entry: std::collections::hash_map::Entry<'_, K, RefusalCount>,
    what: RefusedTarget,
    why: &'static str,
) {
    let refused = entry.or_insert(RefusalCount { count: 0, what: RefusedTarget::Export(0), why });
    refused.count = refused.count.saturating_add(1);
    refused.what = what;
    refused.why = why;
}

#[cfg(test)]
mod tests {
    use super::{CLIENTS_MAX, RECENT, RECENT_MAX, Refusals, RefusedTarget};
    use nfs::mount::{RefusalReason, RefusedMount};
    use std::net::{IpAddr, Ipv4Addr};
    use std::time::Instant;

    fn client(number: u32) -> IpAddr {
        IpAddr::V4(Ipv4Addr::from_bits(0x0a00_0000 + number))
    }

    #[test]
    fn the_last_reason_is_kept() {
        let refusals = Refusals::default();
        refusals.by_export(3, client(1), "first");
        refusals.by_export(3, client(2), "second");
        refusals.by_export(4, client(1), "third");
        let export = refusals.of_export(3).unwrap();
        assert_eq!((export.count, export.why), (2, "second"));
        let clients = refusals.of_clients();
        let (_, first) = clients.iter().find(|(ip, _)| *ip == client(1)).unwrap();
        assert_eq!((first.count, first.why, &first.what), (2, "third", &RefusedTarget::Export(4)));
        let mount = RefusedMount {
            client: "[::ffff:10.0.0.1]:7".parse().unwrap(),
            path: &[b'x'; 4000],
            reason: RefusalReason::NoExport,
        };
        refusals.mount(&mount);
        let clients = refusals.of_clients();
        let (_, first) = clients.iter().find(|(ip, _)| *ip == client(1)).unwrap();
        assert_eq!((first.count, first.why), (3, "no such export"));
        assert!(matches!(&first.what, RefusedTarget::Path(path) if path.len() == 100));
    }

    #[test]
    fn recent_refusals_are_counted_by_reason_for_an_hour() {
        let refusals = Refusals::default();
        refusals.by_export(3, client(1), "first");
        refusals.by_export(3, client(1), "first");
        refusals.by_export(3, client(1), "second");
        let path_of = |index: u16| if index == 3 { "/srv".to_owned() } else { String::new() };
        let rows = refusals.recent(Instant::now(), path_of);
        let counts: Vec<_> = rows.iter().map(|row| (row.reason.as_str(), row.count)).collect();
        assert_eq!(counts.len(), 2);
        assert!(counts.contains(&("first", 2)) && counts.contains(&("second", 1)), "{counts:?}");
        assert!(rows.iter().all(|row| row.path == "/srv" && row.client == "10.0.0.1"));
        assert_eq!(refusals.recent(Instant::now() + RECENT * 2, path_of), []);
        for number in 0..u32::try_from(RECENT_MAX).unwrap() + 9 {
            refusals.by_export(0, client(number), "x");
        }
        assert_eq!(refusals.recent(Instant::now(), path_of).len(), RECENT_MAX);
    }

    #[test]
    fn clients_are_bounded() {
        let refusals = Refusals::default();
        for number in 0..u32::try_from(CLIENTS_MAX).unwrap() + 9 {
            refusals.by_export(0, client(number), "x");
        }
        assert_eq!(refusals.of_clients().len(), CLIENTS_MAX);
        assert_eq!(refusals.of_export(0).unwrap().count, CLIENTS_MAX as u64 + 9);
    }
}
